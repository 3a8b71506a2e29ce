"""The hub: who wants what.

It keeps, for each URI, for each prefix and for each list, the subscribers who asked for it. To subscribe, to
unsubscribe and to clean up cost what is named; to find who is interested in a change costs those who are (and one
look-up for each distinct length of the prefixes in use, up to the length of the URI). Nobody else is looked at.
"""

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator

from tidings.changes import Change, Cursor, ResourceUpdated
from tidings.server.subscriber import FEATURES, Frame, Subscriber

# A dict without values: a set that is iterated in the order of arrival.
_Group = dict[Subscriber, None]


class Hub:
    """Everyone who is subscribed in this process. `on_first` and `on_last` hear when the first subscriber of a URI or
    a prefix has come and when the last has gone.
    """

    def __init__(
        self,
        *,
        on_first: Callable[[str], None] = lambda subscription: None,
        on_last: Callable[[str], None] = lambda subscription: None,
    ) -> None:
        self._on_first = on_first
        self._on_last = on_last
        self._all: _Group = {}
        self._features: dict[Change, _Group] = {change: {} for change in FEATURES.values()}
        self._groups: dict[str, _Group] = {}
        self._prefix_lengths: list[int] = []
        self._prefixes_of_length: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Subscriber]:
        return iter(tuple(self._all))

    def __contains__(self, subscriber: object) -> bool:
        return subscriber in self._all

    def add(self, subscriber: Subscriber) -> None:
        """Register `subscriber` for all that it names."""
        self._all[subscriber] = None
        for feature in subscriber.features:
            self._features[FEATURES[feature]][subscriber] = None
        for subscription in subscriber.subscriptions:
            self._join(subscriber, subscription)

    def remove(self, subscriber: Subscriber) -> bool:
        """Forget `subscriber`. False if it was not there."""
        if subscriber not in self._all:
            return False
        del self._all[subscriber]
        for feature in subscriber.features:
            self._features[FEATURES[feature]].pop(subscriber, None)
        for subscription in subscriber.subscriptions:
            self._leave(subscriber, subscription)
        return True

    def subscribe(self, subscriber: Subscriber, subscription: str) -> bool:
        """Let a registered `subscriber` hear of one more URI or prefix. False if it did so anyway: twice is once."""
        if subscription in subscriber.subscriptions:
            return False
        subscriber.subscriptions.add(subscription)
        self._join(subscriber, subscription)
        return True

    def unsubscribe(self, subscriber: Subscriber, subscription: str) -> bool:
        """Let a registered `subscriber` hear of one URI or prefix less. False if it did not hear of it anyway."""
        if subscription not in subscriber.subscriptions:
            return False
        subscriber.subscriptions.discard(subscription)
        self._leave(subscriber, subscription)
        return True

    def _join(self, subscriber: Subscriber, subscription: str) -> None:
        group = self._groups.get(subscription)
        if group is None:
            group = self._groups[subscription] = {}
            if subscription.endswith("*"):
                self._count_prefix(len(subscription) - 1, 1)
            self._on_first(subscription)
        group[subscriber] = None

    def _leave(self, subscriber: Subscriber, subscription: str) -> None:
        group = self._groups[subscription]
        del group[subscriber]
        if not group:
            del self._groups[subscription]
            if subscription.endswith("*"):
                self._count_prefix(len(subscription) - 1, -1)
            self._on_last(subscription)

    def _count_prefix(self, length: int, change: int) -> None:
        counts = self._prefixes_of_length
        if not counts[length]:
            insort(self._prefix_lengths, length)
        counts[length] += change
        if not counts[length]:
            del counts[length]
            self._prefix_lengths.remove(length)

    def interested(self, change: Change) -> Collection[Subscriber]:
        """Everyone who asked for `change`, each once."""
        if not isinstance(change, ResourceUpdated):
            return self._features[change]
        group = self._groups.get(change.uri, {})
        if not self._prefix_lengths:
            return group
        everyone = dict(group)
        for length in self._prefix_lengths[: bisect_right(self._prefix_lengths, len(change.uri))]:
            everyone.update(self._groups.get(change.uri[:length] + "*", {}))
        return everyone

    def deliver(self, frame: Frame) -> int:
        """Hand `frame` to everyone who is interested in its change, and say how many that are."""
        subscribers = tuple(self.interested(frame.change))
        for subscriber in subscribers:
            subscriber.deliver(frame)
        return len(subscribers)

    def deliver_everything(self, cursor: Cursor) -> int:
        """Tell everyone that all they asked for may have changed."""
        for subscriber in tuple(self._all):
            subscriber.deliver_everything(cursor)
        return len(self._all)

    def subscriptions(self) -> dict[str, int]:
        """Each URI and prefix that somebody listens to, with the number of listeners."""
        return {subscription: len(group) for subscription, group in self._groups.items()}

    def audience(self, what: str) -> Iterable[Subscriber]:
        """Who hears of a list ("tools", "prompts", "resources") or of a resource."""
        if what in FEATURES:
            return tuple(self._features[FEATURES[what]])
        return tuple(self.interested(ResourceUpdated(what)))
