"""The log of a `NatsBus` as this process knows it: joining it, its position, and its newest entries.

The entries that the process has received stay in memory, compacted, as many as the history has room for. So many
clients may come back at once at no cost to the broker. Only the first question about something older asks it.

A process that was away knows its position: the epoch, the last message that it received, and the time at which that was
stored. It can continue from there unless the log is another one by now, which is so
- if the epoch differs: the stream was created, emptied or marked anew;
- if the stream ends before the position: an older copy was restored, or a crash lost the end of it;
- if that end has grown again since: a message before the position was stored after it. (Had all such messages been
  replaced by later ones, those would still follow, and nothing would be missed.)
In the last two cases no other process may have noticed, so a new epoch is begun for all.
"""

import heapq
import itertools
from collections.abc import Callable
from typing import Final, NamedTuple

from tidings.bus import History, Listener
from tidings.bus.nats.errors import ApiError
from tidings.bus.nats.stream import Mark, NatsStream, StreamState
from tidings.bus.shared import NOWHERE, Recorded, Tail
from tidings.changes import Change, Cursor

_ATTEMPTS: Final = 10


class LogPosition(NamedTuple):
    """The last message that a process has received, and the time at which it was stored.

    If the broker's clock was set back, it is the latest time of any message so far: what was stored after that time
    cannot be before this position.
    """

    epoch: str
    seq: int
    at: int


class Log:
    """The position in the log, and the listeners that `tell` calls in its order."""

    def __init__(self, history: History, tell: Listener) -> None:
        self._tell = tell
        self.head = NOWHERE
        self.place = LogPosition("", 0, 0)
        self.known: LogPosition | None = None  # The position to continue from after an interruption.
        self.mark = Mark("", 0, 0)
        self.tail = Tail(history, second=10**9)
        self._arrivals: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def cursor(self, seq: int) -> Cursor:
        """Returns the cursor of a message that this process has received."""
        return Cursor(self.place.epoch, seq, self.mark.terms.at(seq))

    def begin(self, place: LogPosition, mark: Mark) -> bool:
        """Begins another log, or this one at another position. Returns whether the listeners were called for that."""
        lost = self.place.epoch != ""
        self.place = self.known = place
        self.mark = mark
        # A log without any change is at 0.
        self.head = self.cursor(0 if place.seq == mark.seq == 1 else place.seq)
        self.tail.begin(self.head.version)
        self._arrivals.clear()
        if lost:
            self._tell(self.head, None)
        return lost

    def learn(self, mark: Mark) -> None:
        """Takes a mark that is ahead of the position, because those in between may have been overwritten by it."""
        if mark.seq > self.mark.seq:
            self.mark = mark

    def hear(self, seq: int, at: int, change: Change | None) -> None:
        """Takes the next message. It may not be a change."""
        self.place = self.known = LogPosition(self.place.epoch, seq, max(at, self.place.at))
        if change is not None:
            self.head = self.cursor(seq)
            self.tail.add(Recorded((self.head, change), at))
            self._tell(self.head, change)
        self._arrive()

    def hear_mark(self, epoch: str, mark: Mark, at: int) -> bool:
        """Takes a mark. Returns whether it begins another epoch, for which the listeners were called."""
        lost = epoch != self.place.epoch
        self.place = self.known = LogPosition(epoch, mark.seq, max(at, self.place.at))
        if not lost:
            self.learn(mark)
        else:
            self.mark = mark
            self.head = self.cursor(mark.seq)
            self.tail.begin(mark.seq)
            self._tell(self.head, None)
        self._arrive()
        return lost

    def when(self, seq: int, arrived: Callable[[], None]) -> None:
        """Calls `arrived` as soon as everything up to `seq` was delivered, which may be now."""
        heapq.heappush(self._arrivals, (seq, next(self._order), arrived))
        self._arrive()

    def _arrive(self) -> None:
        while self._arrivals and self._arrivals[0][0] <= self.place.seq:
            heapq.heappop(self._arrivals)[2]()


async def join(stream: NatsStream, known: LogPosition | None) -> tuple[StreamState, Mark, LogPosition]:
    """Joins the log of `stream`. Returns its state, its mark, and the position: `known` if nothing was missed there."""
    await stream.prepare()
    for _ in range(_ATTEMPTS):
        found = await stream.find()
        # After that: it has the terms of all messages up to the last one found.
        mark = await stream.mark()
        if mark is None or not mark.epoch:
            await stream.begin_epoch(mark)
        elif not found.first <= mark.seq <= found.last:
            continue  # It was emptied or replaced between the two questions.
        elif known is None or known.epoch != found.epoch(mark):
            await stream.probe(mark)
            return found, mark, LogPosition(found.epoch(mark), found.last, found.last_at)
        elif known.seq > found.last or ((later := await stream.first_after(known.at)) and later <= known.seq):
            await stream.begin_epoch(mark)
        else:
            await stream.probe(mark)
            return found, mark, known
    raise ApiError(0, "the stream is changed again and again")
