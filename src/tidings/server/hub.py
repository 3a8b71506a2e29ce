"""`Hub`: the subscribers of each URI, each prefix and each list.

Subscribing and cleaning up cost what the named subscriptions cost. Finding who is interested in a change costs what
those who are cost, plus one look-up for each distinct length of the prefixes in use.
"""

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator

from tidings.changes import FEATURES, Change, Cursor, ResourceUpdated
from tidings.server.subscriber import Frame, Subscriber

# A dict without values: a set that is iterated in the order of arrival.
_Group = dict[Subscriber, None]


class Hub:
    """The subscribers of this process. Calls `want` with what gets its first one (True), or lost its last."""

    def __init__(self, want: Callable[[str, bool], None] = lambda subscription, wanted: None) -> None:
        self._want = want
        self._all: _Group = {}
        self._features: dict[Change, _Group] = {change: {} for change in FEATURES.values()}
        self._groups: dict[str, Subscriber | _Group] = {}  # One subscriber needs no group, which saves memory.
        self._prefix_lengths: list[int] = []
        self._prefixes_of_length: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Subscriber]:
        return iter(tuple(self._all))

    def __contains__(self, subscriber: object) -> bool:
        return subscriber in self._all

    def add(self, subscriber: Subscriber) -> None:
        self._all[subscriber] = None
        for feature in subscriber.features:
            self._features[FEATURES[feature]][subscriber] = None
        for subscription in subscriber.subscriptions:
            self._join(subscriber, subscription)

    def remove(self, subscriber: Subscriber) -> bool:
        if subscriber not in self._all:
            return False
        del self._all[subscriber]
        for feature in subscriber.features:
            self._features[FEATURES[feature]].pop(subscriber, None)
        for subscription in subscriber.subscriptions:
            self._leave(subscriber, subscription)
        return True

    def subscribe(self, subscriber: Subscriber, subscription: str) -> bool:
        if subscription in subscriber.subscriptions:
            return False
        subscriber.add(subscription)
        self._join(subscriber, subscription)
        return True

    def unsubscribe(self, subscriber: Subscriber, subscription: str) -> bool:
        if subscription not in subscriber.subscriptions:
            return False
        subscriber.discard(subscription)
        self._leave(subscriber, subscription)
        return True

    def _members(self, subscription: str) -> Collection[Subscriber]:
        group = self._groups.get(subscription)
        if group is None:
            return ()
        return group if isinstance(group, dict) else (group,)

    def _join(self, subscriber: Subscriber, subscription: str) -> None:
        group = self._groups.get(subscription)
        if isinstance(group, dict):
            group[subscriber] = None
        elif group is not None:
            self._groups[subscription] = {group: None, subscriber: None}
        else:
            self._groups[subscription] = subscriber
            if subscription.endswith("*"):
                self._count_prefix(len(subscription) - 1, 1)
            self._want(subscription, True)

    def _leave(self, subscriber: Subscriber, subscription: str) -> None:
        group = self._groups[subscription]
        if isinstance(group, dict):
            del group[subscriber]
            if len(group) == 1:
                [self._groups[subscription]] = group
        else:
            del self._groups[subscription]
            if subscription.endswith("*"):
                self._count_prefix(len(subscription) - 1, -1)
            self._want(subscription, False)

    def _count_prefix(self, length: int, change: int) -> None:
        counts = self._prefixes_of_length
        if not counts[length]:
            insort(self._prefix_lengths, length)
        counts[length] += change
        if not counts[length]:
            del counts[length]
            self._prefix_lengths.remove(length)

    def interested(self, change: Change) -> Collection[Subscriber]:
        if not isinstance(change, ResourceUpdated):
            return self._features[change]
        group = self._members(change.uri)
        if not self._prefix_lengths:
            return group
        everyone = dict.fromkeys(group)
        for length in self._prefix_lengths[: bisect_right(self._prefix_lengths, len(change.uri))]:
            everyone.update(dict.fromkeys(self._members(change.uri[:length] + "*")))
        return everyone

    def deliver(self, frame: Frame) -> int:
        subscribers = tuple(self.interested(frame.change))
        for subscriber in subscribers:
            subscriber.deliver(frame)
        return len(subscribers)

    def deliver_everything(self, place: Cursor, cursor: str) -> None:
        for subscriber in tuple(self._all):
            subscriber.deliver_everything(place, cursor)

    def subscriptions(self) -> dict[str, int]:
        """Returns the number of subscribers of each URI and prefix that can be reached, if there are any."""
        counts = {each: sum(one.reachable for one in self._members(each)) for each in self._groups}
        return {subscription: count for subscription, count in counts.items() if count}

    def count(self, what: str) -> int:
        """Returns the number of subscribers of a list, or of exactly this URI or prefix."""
        return len(self._features[FEATURES[what]] if what in FEATURES else self._members(what))

    def audience(self, what: str) -> Iterable[Subscriber]:
        """Returns the subscribers of a list ("tools", "prompts", "resources") or of the resource at a URI."""
        return tuple(self.interested(FEATURES[what] if what in FEATURES else ResourceUpdated(what)))
