"""From the log to the subscribers: `Coalescer` merges changes, and `Hub` finds who is interested.

Subscribing costs what the named subscriptions cost. Finding who is interested in a change costs what those who are
cost, plus one look-up for each distinct length of the prefixes in use.
"""

import asyncio
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from tidings.changes import FEATURES, Change, Cursor, ResourceUpdated
from tidings.server.config import Coalesce, CoalesceSetting, UriPattern
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


@dataclass(slots=True, eq=False)
class _Window:
    rule: Coalesce
    change: Change
    ends: float
    place: Cursor  # Of the newest of the equal changes.
    before: Cursor  # The cursor that was heard before that.
    timer: asyncio.TimerHandle | None = None
    held_since: float | None = None


class Coalescer:
    """Merges changes that follow each other quickly. Passes them on to `deliver`, and calls `merged` for the absorbed.

    The first change is delivered at once and opens a window. Equal changes while it is open are held back, and
    delivered as one at its end, which each further change moves, but never beyond `max_wait`. A notification must not
    claim more than its receiver has: its cursor is `position`, below everything that is held back.
    """

    def __init__(
        self,
        deliver: Callable[[Cursor, Change], None],
        setting: CoalesceSetting,
        *,
        start: Cursor,
        clock: Callable[[], asyncio.AbstractEventLoop] = asyncio.get_running_loop,
        merged: Callable[[], None] = lambda: None,
    ) -> None:
        self._deliver = deliver
        self._clock = clock
        self._merged = merged
        self._heard = start
        self._windows: dict[Change, _Window] = {}
        self._held: dict[_Window, None] = {}  # The windows that hold a change back, in order of version.
        one_for_all = isinstance(setting, Coalesce)
        self._default = setting if one_for_all else Coalesce()
        self._rules = [] if one_for_all else [(UriPattern(text), rule) for text, rule in setting.items()]

    @property
    def position(self) -> Cursor:
        """The newest cursor that a receiver may have. What was held back below it has a later equal change above it."""
        return next(iter(self._held)).before if self._held else self._heard

    def hear(self, place: Cursor, change: Change) -> None:
        before, self._heard = self._heard, place
        window = self._windows.get(change)
        if window is None:
            rule = self._rule(change)
            if rule.window > 0:
                clock = self._clock()
                window = _Window(rule, change, clock.time() + rule.window, place, before)
                window.timer = clock.call_at(window.ends, partial(self._on_timer, window))
                self._windows[change] = window
            self._deliver(place, change)
            return
        now = self._clock().time()
        if window.held_since is None:
            window.held_since = now
        else:
            del self._held[window]
            self._merged()
        self._held[window] = None
        window.place, window.before = place, before
        # The timer stays as it is: if it fires too early, it finds the new end.
        window.ends = min(now + window.rule.window, window.held_since + window.rule.max_wait)

    def flush(self) -> None:
        self._close_windows()
        for window in tuple(self._held):
            self._release(window)

    def begin(self, position: Cursor) -> None:
        self._close_windows()
        self._held.clear()
        self._heard = position

    def _close_windows(self) -> None:
        for window in self._windows.values():
            if window.timer is not None:
                window.timer.cancel()
        self._windows.clear()

    def _on_timer(self, window: _Window) -> None:
        if window.held_since is None:
            del self._windows[window.change]
            return
        clock = self._clock()
        now = clock.time()
        is_over = now >= window.ends
        if is_over:
            window.held_since = None
            window.ends = now + window.rule.window
        window.timer = clock.call_at(window.ends, partial(self._on_timer, window))
        if is_over:
            self._release(window)

    def _release(self, window: _Window) -> None:
        del self._held[window]
        self._deliver(window.place, window.change)

    def _rule(self, change: Change) -> Coalesce:
        if isinstance(change, ResourceUpdated):
            for pattern, rule in self._rules:
                if pattern.match(change.uri) is not None:
                    return rule
        return self._default
