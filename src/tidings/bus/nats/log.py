"""The log of a `NatsBus` as this process knows it: how far it has heard, and the newest entries.

The entries that it has heard of stay in memory, compacted, as many as the history has room for. So to say what changed
after a place costs the broker nothing, however many come back at once and ask; only the first who asks for something
older has the broker asked, and what it says stays here too.

May import: `changes`.

Taking part in a log: where a process begins to read, or goes on, and whether it has missed something.

A process that was away knows its place: the epoch, the last message that it heard, and when that was stored. It can go
on from there unless the log is another one by now. It is another one
- if the epoch is: the stream was created, emptied or marked anew;
- if the stream ends before that place: an older copy was put back, or a crash took the end of it;
- if that end has grown again since: a message before that place was stored after it. Had all such messages been
  replaced by later ones, those would still be ahead, and nothing would be missed.
In the last two cases nobody else may have noticed, so a new epoch is begun for all.

May import: nothing else.
"""

import heapq
import itertools
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidings.bus import Entry, History, Listener
from tidings.bus.nats.errors import ApiError
from tidings.bus.nats.stream import Mark, NatsStream, StreamState
from tidings.bus.shared import NOWHERE
from tidings.changes import Change, Cursor


class LogPosition(NamedTuple):
    """How far a process has heard: the last message, and when that was stored.

    If the broker's clock was put back, it is the latest time of any message so far: what was stored after that moment
    cannot be before this place.
    """

    epoch: str
    seq: int
    at: int


class Recorded(NamedTuple):
    """An entry of the log, and when it was stored."""

    entry: Entry
    at: int

    @property
    def seq(self) -> int:
        return self.entry[0].version

    @property
    def change(self) -> Change:
        return self.entry[1]


class Tail:
    """The newest entries: all that are after `start`, and at most as many as the history has room for."""

    def __init__(self, history: History) -> None:
        self._room = history.entries
        self._age = min(history.age, 10**9) * 10**9
        self.begin(0)

    def begin(self, start: int) -> None:
        """Nothing is known of what is up to `start`, for now."""
        self.start = start
        self.floor = 0
        """What changed since a place before this one nobody can say any more."""
        # In order of seq: a change that comes again is taken out and put back at the end.
        self._records: dict[Change, Recorded] = {}

    def add(self, record: Recorded) -> None:
        """One more, the newest."""
        self._records.pop(record.change, None)
        self._records[record.change] = record
        self._trim()

    def prepend(self, older: Iterable[Recorded], start: int) -> None:
        """What is after `start`, and was not known so far, in order."""
        self._records = {
            record.change: record for record in older if record.change not in self._records
        } | self._records
        self.start = start
        self._trim()

    def _trim(self) -> None:
        excess = len(self._records) - self._room
        if excess > 0:
            self._drop(list(itertools.islice(self._records.values(), excess)))

    def expire(self, now: int) -> None:
        """Forget what is too old at the time `now`."""
        oldest = now - self._age
        self._drop(list(itertools.takewhile(lambda record: record.at < oldest, self._records.values())))

    def _drop(self, records: Sequence[Recorded]) -> None:
        for record in records:
            del self._records[record.change]
            self.start = self.floor = record.seq

    def unknown(self, seq: int) -> None:
        """What is after `seq` is more than the history has room for, or is not there any more."""
        self.floor = max(self.floor, seq + 1)

    def after(self, seq: int) -> list[Entry]:
        """What is after `seq`, which is not before `start`, in order."""
        found: list[Entry] = []
        for entry, _ in reversed(self._records.values()):
            if entry[0].version <= seq:
                break
            found.append(entry)
        return found[::-1]


class Log:
    """What is told to whom, in the order of the log. `tell` tells the listeners."""

    def __init__(self, history: History, tell: Listener) -> None:
        self._tell = tell
        self.head = NOWHERE
        self.place = LogPosition("", 0, 0)
        self.known: LogPosition | None = None
        """Where to go on after an interruption; None if there is no such place."""
        self.mark = Mark("", 0, 0)
        self.tail = Tail(history)
        self._arrivals: list[tuple[int, int, Callable[[str], None]]] = []
        self._order = itertools.count()

    def begin(self, place: LogPosition, mark: Mark, *, head: int) -> bool:
        """From now on it is another log, or this one at another place; whether listeners were told that."""
        lost = self.place.epoch != ""
        self._go_to(place)
        self.mark = mark
        self.head = Cursor(place.epoch, head)
        self.tail.begin(head)
        self._arrivals.clear()
        if lost:
            self._tell(self.head, None)
        return lost

    def _go_to(self, place: LogPosition) -> None:
        self.place = self.known = place

    def fall_behind(self) -> None:
        """What comes next may have been dropped before it was read: to go on from here would be to miss it."""
        self.known = None

    def hear(self, seq: int, at: int, change: Change | None) -> None:
        """The next message; it may be no change."""
        self._go_to(LogPosition(self.place.epoch, seq, max(at, self.place.at)))
        if change is not None:
            self.head = Cursor(self.place.epoch, seq)
            self.tail.add(Recorded((self.head, change), at))
            self._tell(self.head, change)
        self._arrive()

    def hear_mark(self, epoch: str, mark: Mark, at: int) -> bool:
        """The next message is a mark; whether it begins another epoch, so that listeners were told."""
        lost = epoch != self.place.epoch
        self._go_to(LogPosition(epoch, mark.seq, max(at, self.place.at)))
        self.mark = mark
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


_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class LogJoined:
    """The log, and where to go on in it."""

    found: StreamState
    mark: Mark
    place: LogPosition
    resumed: bool
    """It goes on where it was, and nothing was missed."""

    @property
    def head(self) -> int:
        """The version up to which everything was heard. A log in which nothing was published yet is at 0."""
        return 0 if self.place.seq == self.mark.seq == 1 else self.place.seq


async def join(stream: NatsStream, known: LogPosition | None) -> LogJoined:
    """Take part in the log of `stream`, at the place that is `known` if there is one.

    Raises:
        BusMismatch: The stream is not one that a bus can use.
        Exception: What `Connection.ask` raises.
    """
    await stream.prepare()
    for _ in range(_ATTEMPTS):
        mark = await stream.mark()
        found = await stream.find()
        if mark is None or not mark.epoch:
            await _begin_epoch(stream, mark)
        elif not found.first <= mark.seq <= found.last:
            continue  # It was emptied or replaced between the two questions.
        elif known is None or known.epoch != found.epoch(mark):
            await stream.probe(mark)
            return LogJoined(found, mark, LogPosition(found.epoch(mark), found.last, found.last_at), resumed=False)
        elif await _is_rewritten(stream, found, known):
            await _begin_epoch(stream, mark)
        else:
            await stream.probe(mark)
            return LogJoined(found, mark, known, resumed=True)
    raise ApiError(0, "the stream is changed again and again")


async def _begin_epoch(stream: NatsStream, before: Mark | None) -> None:
    """Begin a new epoch, unless somebody else does so at the same time."""
    await stream.set_mark(secrets.token_hex(8), None, expected=before.seq if before else 0)


async def _is_rewritten(stream: NatsStream, found: StreamState, known: LogPosition) -> bool:
    if known.seq > found.last:
        return True
    later = await stream.first_after(known.at)
    return later is not None and later <= known.seq
