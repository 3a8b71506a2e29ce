"""`MemoryBus`: the bus of one process. Nothing is stored, and each start begins a new epoch."""

import time
import uuid
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Self

from tidings.bus import Entry, History, Listener, StoredRecord
from tidings.bus.shared import CheckedRecords, Listeners, Recorded, Tail
from tidings.changes import Change, Cursor
from tidings.errors import BusUnavailable


class MemoryBus:
    """A bus within one process. `clock` returns the time in seconds, for the age of the history."""

    def __init__(self, *, history: History | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._epoch = uuid.uuid4().hex[:12]
        self._version = 0
        self._log = Tail(history or History())
        self._listeners = Listeners()
        self._users = 0
        self._left = False
        self._records = MemoryRecords(clock)
        self.records = CheckedRecords(self._open_records)

    @property
    def head(self) -> Cursor:
        return Cursor(self._epoch, self._version)

    async def publish(self, change: Change) -> Cursor:
        if self._left:
            raise BusUnavailable("This bus is closed: nobody listens any more. Publish inside its `async with`.")
        self._version += 1
        cursor = self.head
        self._log.add(Recorded((cursor, change), self._clock()))  # What is too old goes when somebody asks.
        self._listeners.call(cursor, change)
        return cursor

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        return self._listeners.add(listener)

    async def since(self, cursor: Cursor) -> Sequence[Entry] | None:
        self._log.expire(self._clock())
        if cursor.epoch != self._epoch or not self._log.start <= cursor.version <= self._version:
            return None
        return self._log.after(cursor.version)

    async def oldest(self) -> tuple[Cursor, float | None]:
        """Returns the cursor after which all changes are known, without a time: this bus has its own clock."""
        self._log.expire(self._clock())
        return Cursor(self._epoch, self._log.start), None

    def _open_records(self) -> "MemoryRecords":
        if self._left:
            raise BusUnavailable("This bus is closed. Use its records within its `async with`.")
        return self._records

    async def __aenter__(self) -> Self:
        self._users += 1
        self._left = False
        return self

    async def __aexit__(self, *_: object) -> None:
        self._users = max(self._users - 1, 0)
        if not self._users:
            self._left = True
            self._listeners.clear()


class MemoryRecords:
    """The records of a `MemoryBus`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[str, tuple[float, StoredRecord]] = {}
        self._revision = 0

    async def get(self, key: str) -> StoredRecord | None:
        expires, record = self._kept.get(key, (0.0, None))
        if record is not None and expires <= self._clock():
            del self._kept[key]
            return None
        return record

    async def put(self, key: str, value: bytes, *, seconds: float, revision: int | None = None) -> StoredRecord | None:
        there = await self.get(key)
        if revision is not None and revision != (there.revision if there else 0):
            return None
        for each in list(islice(self._kept, 2)):  # Each gets its turn, so that what has expired goes in the end.
            self._kept[each] = self._kept.pop(each)
            await self.get(each)
        self._revision += 1
        record = StoredRecord(value, self._revision)
        self._kept[key] = (self._clock() + seconds, record)
        return record

    async def delete(self, key: str) -> None:
        self._kept.pop(key, None)
