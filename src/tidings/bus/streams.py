"""`EventStream`, which keeps each event and not only the newest; and `Lease`. Both are made of the records of a bus.

A stream is a row of numbered records. An event for which `append` returned is read by everybody, in the order of the
numbers, until the retention has no room for it; `StreamPage.truncated` says where the past is gone.

- The record of number N is written only if there is none, so no number is given twice, and there is no hole.
- One more record has the newest number, which may lag behind, and where the stream begins.
- Each event carries the sum of all sizes up to it, which shows whether it is still within the retention.
- A cursor has the epoch, the number and a mark of its event: a stream that was lost or replaced by a copy is noticed.
"""

import asyncio
import json
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidings.bus import Records
from tidings.bus.shared import LONGEST_STAY
from tidings.errors import BusUnavailable

_TRIES: Final = 100
_AT_ONCE: Final = 32  # Records that are read together.
_DROPPED_AT_ONCE: Final = 4  # More than one append adds.
_CURSOR: Final = re.compile(r"([0-9a-f]{12})\.([0-9]{1,15})\.([0-9a-f]{8})?")


@dataclass(frozen=True, slots=True)
class Retention:
    """Limits on the events that a stream keeps: their `count`, their `age` in seconds, and their size in `bytes`."""

    count: int = 10_000
    age: float = 86_400.0
    bytes: int = 64 * 2**20

    def __post_init__(self) -> None:
        for name in ("count", "age", "bytes"):
            if not 0 < getattr(self, name) <= LONGEST_STAY * 1000:
                raise ValueError(f"Retention needs {name} > 0, not {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An event in a stream, and the cursor of whoever has read up to it."""

    cursor: str
    payload: bytes
    number: int


@dataclass(frozen=True, slots=True)
class StreamPage:
    """Events in order, and the cursor after them."""

    events: Sequence[StreamEvent]
    cursor: str
    truncated: bool = False  # The events asked for begin earlier than these, and are gone.
    more: bool = False  # There were more events than were asked for.


@dataclass(frozen=True, slots=True)
class _Head:
    epoch: str
    first: int = 1  # Earlier events were dropped.
    last: int = 0
    total: int = 0  # The bytes of all events ever.
    base: int = 0  # The bytes of those before the first, or of some of them.
    mark: str = ""  # Of the last event.

    def __bytes__(self) -> bytes:
        values = [self.epoch, self.first, self.last, self.total, self.base, self.mark]
        return json.dumps(values, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, value: bytes) -> "_Head":
        return cls(*json.loads(value))

    def cursor(self, number: int, mark: str) -> str:
        return f"{self.epoch}.{number}.{mark}"


@dataclass(frozen=True, slots=True)
class _StreamRecord:
    """The record of one event: a line with its mark and the bytes up to its end, then the payload."""

    mark: str
    total: int
    payload: bytes

    def __bytes__(self) -> bytes:
        return f"{self.mark} {self.total}\n".encode() + self.payload

    @classmethod
    def parse(cls, value: bytes) -> "_StreamRecord":
        line, _, payload = value.partition(b"\n")
        mark, total = line.decode().split(" ")
        return cls(mark, int(total), payload)

    @property
    def base(self) -> int:
        """The bytes before it."""
        return self.total - len(self.payload)


class EventStream:
    """The stream under `key`, of at most 150 visible ASCII characters. Its methods may raise `BusUnavailable`."""

    def __init__(self, records: Records, key: str, retention: Retention | None = None) -> None:
        self._records = records
        self._key = key
        self._retention = retention or Retention()
        self._turn = asyncio.Lock()  # Appending one after the other: they would only contend for the same number.
        self._known: tuple[_Head, int] | None = None  # As this process wrote or read it last, and its revision.

    async def append(self, payload: bytes) -> StreamEvent:
        """Appends an event of at most 500 kB, and returns it once stored. If this fails, it may be stored or not."""
        async with self._turn:
            head, revision = self._known or await self._head()
            mark, seconds = secrets.token_hex(4), min(self._retention.age, float(LONGEST_STAY))
            for _ in range(_TRIES):
                number, total = head.last + 1, head.total + len(payload)
                entry = bytes(_StreamRecord(mark, total, payload))
                stored = await self._records.put(_place(self._key, head, number), entry, seconds=seconds, revision=0)
                if stored is not None:
                    # From here on it is read by others, whatever happens to this process.
                    ours = replace(head, last=number, total=total, mark=mark)
                    is_known = await self._write_head(await self._trimmed(ours), revision)
                    if is_known or (await self._head())[0].epoch == ours.epoch:
                        return StreamEvent(ours.cursor(number, mark), payload, number)
                head, revision = await self._head()  # Another process was quicker, or the stream was lost.
        raise BusUnavailable("The stream has too many writers at the same time. Try again.")

    async def read(self, cursor: str | None, most: int = 1_000) -> StreamPage:
        """Returns up to `most` events after `cursor` (None: all that are kept). Raises `ValueError` if it is none."""
        after = None if cursor is None else parse_cursor(cursor)
        head, _ = await self._head()
        oldest = max(head.first, head.last - self._retention.count + 1)
        truncated, start = False, oldest
        if after is not None:
            epoch, number, mark = after
            truncated = epoch != head.epoch or not oldest <= number + 1 <= head.last + 1
            if not truncated and mark and number >= oldest and (entry := await self._get(head, number)) is not None:
                truncated = entry.mark != mark
            start = oldest if truncated else number + 1
        start, fits = await self._within(head, start)
        events: list[StreamEvent] = []
        cursor = head.cursor(start - 1, "") if head.last >= start else head.cursor(head.last, head.mark)
        more = False
        while start <= head.last:
            numbers = range(start, min(start + _AT_ONCE, head.last + 1, start + most - len(events)))
            if more := not numbers:
                break
            found = await asyncio.gather(*(self._get(head, number) for number in numbers))
            for number, entry in zip(numbers, found, strict=True):
                if entry is None:
                    truncated = True  # It was dropped just now.
                    continue
                events.append(StreamEvent(head.cursor(number, entry.mark), entry.payload, number))
            start = numbers[-1] + 1
        return StreamPage(
            events, events[-1].cursor if events else cursor, truncated or (after is not None and not fits), more
        )

    async def end(self) -> str:
        """Returns the cursor of whoever wants what comes from now on."""
        head, _ = await self._head()
        return head.cursor(head.last, head.mark)

    async def _head(self) -> tuple[_Head, int]:
        """Returns the head with all events that were appended, and the revision of its record."""
        stored = await self._records.get(self._key)
        for _ in range(_TRIES):
            if stored is not None:
                break
            fresh = bytes(_Head(secrets.token_hex(6)))
            stored = await self._records.put(self._key, fresh, seconds=LONGEST_STAY, revision=0)
            stored = stored or await self._records.get(self._key)
        if stored is None:
            raise BusUnavailable("The stream cannot be opened: its record comes and goes. Try again.")
        head = known = _Head.parse(stored.value)
        while (entry := await self._get(head, head.last + 1)) is not None:
            head = replace(head, last=head.last + 1, total=entry.total, mark=entry.mark)
        self._known = head, stored.revision
        if head != known:
            await self._write_head(head, stored.revision)
        return self._known or (head, stored.revision)

    async def _write_head(self, head: _Head, revision: int) -> bool:
        """Writes the newest number. Returns False if another process has written another, or all is lost."""
        stored = await self._records.put(self._key, bytes(head), seconds=LONGEST_STAY, revision=revision)
        self._known = None if stored is None else (head, stored.revision)
        return stored is not None

    async def _get(self, head: _Head, number: int) -> _StreamRecord | None:
        found = await self._records.get(_place(self._key, head, number))
        return None if found is None else _StreamRecord.parse(found.value)

    async def _within(self, head: _Head, start: int) -> tuple[int, bool]:
        """Returns the first number from `start` on that is within the retention, and whether that is `start`."""

        async def fits(number: int) -> bool:
            entry = await self._get(head, number)
            return entry is not None and head.total - entry.base <= self._retention.bytes

        if start > head.last or await fits(start):
            return start, True
        low, high = start, head.last + 1  # Whatever is kept, the newer is, too.
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if await fits(middle) else (middle, high)
        return high, False

    async def _trimmed(self, head: _Head) -> _Head:
        """Drops some of the oldest events, if there are too many."""
        for _ in range(_DROPPED_AT_ONCE):
            if head.first >= head.last:
                break
            is_many = head.last - head.first + 1 > self._retention.count
            if not is_many and head.total - head.base <= self._retention.bytes:
                break
            entry = await self._get(head, head.first)
            if entry is not None:
                if not is_many and head.total - entry.base <= self._retention.bytes:
                    return replace(head, base=entry.base)
                await self._records.delete(_place(self._key, head, head.first))
                head = replace(head, base=entry.total)
            head = replace(head, first=head.first + 1)
        return head


def _place(key: str, head: _Head, number: int) -> str:
    return f"{key}/{head.epoch}/{number}"


def parse_cursor(text: str) -> tuple[str, int, str]:
    """Returns the epoch, the number and the mark in a cursor. Raises `ValueError` if it is none."""
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise ValueError("It is not a cursor of a stream.")
    return found[1], int(found[2]), found[3] or ""


class Lease:
    """Something that one process at a time holds: whoever dies loses it after `seconds`.

    A process that stands still asks `is_held`, which goes by its own clock and ends a tenth early, before it acts.
    """

    def __init__(
        self, records: Records, key: str, seconds: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._records = records
        self._key = key
        self._seconds = seconds
        self._clock = clock
        self._me = secrets.token_hex(8).encode()
        self._revision = 0
        self._until = 0.0

    @property
    def is_held(self) -> bool:
        return self._clock() < self._until

    async def take(self) -> bool:
        """Takes the lease, or holds it for some time more. Returns False if another process holds it."""
        asked_at = self._clock()
        if not self._revision:
            there = await self._records.get(self._key)
            if there is not None and there.value != self._me:
                return False
            self._revision = there.revision if there is not None else 0
        stored = await self._records.put(self._key, self._me, seconds=self._seconds, revision=self._revision)
        self._revision = 0 if stored is None else stored.revision
        self._until = 0.0 if stored is None else asked_at + self._seconds * 0.9
        return stored is not None

    async def leave(self) -> None:
        """Lets another process have it at once."""
        if self.is_held:
            self._until = 0.0
            there = await self._records.get(self._key)
            if there is not None and there.value == self._me:
                await self._records.delete(self._key)
        self._revision = 0
