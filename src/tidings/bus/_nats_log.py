"""The log of a `NatsBus` as this process knows it: how far it has heard, and the newest entries.

The entries that it has heard of stay in memory, compacted, as many as the history has room for. So to say what changed
after a place costs the broker nothing, however many come back at once and ask; only the first who asks for something
older has the broker asked, and what it says stays here too.

May import: `changes`.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from tidings.bus import Entry, History, Listener
from tidings.bus._nats_stream import Mark
from tidings.changes import Change, Cursor

NOWHERE: Final = Cursor("", 0)
"""A place in no log: nothing is known to have happened since."""


class Place(NamedTuple):
    """How far a process has heard: the last message, and when that was stored."""

    epoch: str
    seq: int
    at: int


class Recorded(NamedTuple):
    """An entry of the log."""

    change: Change
    seq: int
    at: int


class Tail:
    """The newest entries: all that are after `start`, and at most as many as the history has room for."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._age = round(history.age * 10**9) if history.age < 10**9 else 10**18
        self.begin(0)

    def begin(self, start: int) -> None:
        """Nothing is known of what is up to `start`, for now."""
        self.start = start
        self.floor = 0
        """Nobody knows any more what was before."""
        # In order of seq: a change that comes again is taken out and put back at the end.
        self._entries: dict[Change, Recorded] = {}

    def add(self, entry: Recorded) -> None:
        """One more, the newest."""
        self._entries.pop(entry.change, None)
        self._entries[entry.change] = entry
        if len(self._entries) > self._history.entries:
            self._drop(next(iter(self._entries.values())))

    def prepend(self, older: Iterable[Recorded], start: int) -> None:
        """What is after `start`, and was not known so far, in order."""
        entries = {entry.change: entry for entry in older if entry.change not in self._entries}
        self._entries = entries | self._entries
        self.start = start
        for entry in list(itertools.islice(self._entries.values(), max(0, len(self) - self._history.entries))):
            self._drop(entry)

    def expire(self, now: int) -> None:
        """Forget what is too old at the time `now`."""
        for entry in list(itertools.takewhile(lambda entry: entry.at < now - self._age, self._entries.values())):
            self._drop(entry)

    def unknown(self, seq: int) -> None:
        """What is after `seq` is more than the history has room for, or is not there any more."""
        self.floor = max(self.floor, seq + 1)

    def after(self, seq: int) -> Sequence[Recorded]:
        """What is after `seq`, which is not before `start`, in order."""
        newest_first = itertools.takewhile(lambda entry: entry.seq > seq, reversed(self._entries.values()))
        return list(newest_first)[::-1]

    def _drop(self, entry: Recorded) -> None:
        del self._entries[entry.change]
        self.floor = max(self.floor, entry.seq)
        self.start = max(self.start, entry.seq)

    def __len__(self) -> int:
        return len(self._entries)


class Log:
    """What is told to whom, in the order of the log. `tell` tells the listeners."""

    def __init__(self, history: History, tell: Listener) -> None:
        self._tell = tell
        self.head = NOWHERE
        self.place = Place("", 0, 0)
        self.mark = Mark("", 0, 0)
        self.tail = Tail(history)
        self._arrivals: list[tuple[int, int, Callable[[str], None]]] = []
        self._order = itertools.count()

    def begin(self, place: Place, mark: Mark, *, head: int, lost: bool) -> None:
        """From now on it is another log, or this one at another place; `lost` says whether anybody missed something."""
        self.place, self.mark = place, mark
        self.head = Cursor(place.epoch, head)
        self.tail.begin(place.seq)
        self._arrivals.clear()
        if lost:
            self._tell(self.head, None)

    def hear(self, seq: int, at: int, change: Change | None) -> None:
        """The next message; it may be no change."""
        self.place = Place(self.place.epoch, seq, at)
        if change is not None:
            self.head = Cursor(self.place.epoch, seq)
            self.tail.add(Recorded(change, seq, at))
            self._tell(self.head, change)
        self._arrive()

    def hear_mark(self, epoch: str, mark: Mark, at: int) -> bool:
        """The next message is a mark; whether it begins another epoch, so that listeners were told."""
        lost = epoch != self.place.epoch
        self.place, self.mark = Place(epoch, mark.seq, at), mark
        if lost:
            self.head = Cursor(epoch, mark.seq)
            self.tail.begin(mark.seq)
            self._tell(self.head, None)
        self._arrive()
        return lost

    def when(self, seq: int, arrived: Callable[[str], None]) -> None:
        """Call `arrived` with the epoch as soon as everything up to `seq` was told, which may be now."""
        heapq.heappush(self._arrivals, (seq, next(self._order), arrived))
        self._arrive()

    def _arrive(self) -> None:
        while self._arrivals and self._arrivals[0][0] <= self.place.seq:
            heapq.heappop(self._arrivals)[2](self.place.epoch)

    def entries(self, records: Sequence[Recorded]) -> list[Entry]:
        """Records as those who ask want them."""
        return [(Cursor(self.place.epoch, entry.seq), entry.change) for entry in records]
