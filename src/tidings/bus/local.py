"""`LocalBus`: the bus of a server that was given none: a file for all its processes, or memory if that cannot be used.

If the file cannot be written any more, the log goes on in memory, listeners are told that anything may have changed,
and the records in it are still read.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import anyio.to_thread

from tidings._kit.files import network_disk
from tidings.bus import Entry, History, StoredRecord
from tidings.bus.memory import MemoryBus
from tidings.bus.shared import SharedBus
from tidings.bus.sqlite.bus import SqliteBus
from tidings.changes import Change, Cursor
from tidings.errors import BusUnavailable, TransportError

logger = logging.getLogger(__name__)

T = TypeVar("T")

HISTORY: Final = History(entries=20_000, age=14 * 86_400.0)
_EDITION: Final = "edition"
_LONG: Final = 365 * 86_400.0


class LocalBus(SharedBus[None]):
    """A bus in the private file at `path`, or in memory.

    `edition` names everything that the lists of the server depend on. While it is the same as at the last start,
    clients need not be told to read the lists again. The other arguments are those of `SqliteBus`. The file is looked
    at less often than its, because most processes notice most changes by themselves.
    """

    def __init__(
        self,
        path: Path,
        *,
        edition: str = "",
        history: History | None = None,
        poll: float = 0.25,
        clock: Callable[[], float] = time.time,
        timeout: float = 3.0,
    ) -> None:
        super().__init__(str(path))
        history = history or HISTORY
        self._path = path
        self._edition = edition.encode()
        self._file = SqliteBus(path, history=history, poll=poll, clock=clock, timeout=timeout, private=True)
        self._memory = MemoryBus(history=history)
        self._unsubscribe: Callable[[], None] = lambda: None
        self.is_shared = False  # The file is in use, and with it the changes of other processes.
        self.lists_known = False  # The lists are those of the last start.
        self.records = LocalRecords(self._file, self._memory, self)

    @property
    def _current(self) -> SqliteBus | MemoryBus:
        return self._file if self.is_shared else self._memory

    @property
    def head(self) -> Cursor:
        return self._current.head

    async def publish(self, change: Change) -> Cursor:
        if self.is_shared:
            try:
                return await self._file.publish(change)
            except TransportError as error:
                self.leave_file(error)
        return await self._memory.publish(change)

    def is_own(self, cursor: Cursor) -> bool:
        """See `SqliteBus.is_own`."""
        return self.is_shared and self._file.is_own(cursor)

    async def since(self, cursor: Cursor) -> Sequence[Entry] | None:
        return await self._current.since(cursor)

    async def oldest(self) -> tuple[Cursor, float | None]:
        """Returns the earliest cursor after which all changes are known, and the time of the first of them, if any."""
        return await self._current.oldest()

    def leave_file(self, error: Exception) -> None:
        """Goes on in memory, because the file cannot be used any more."""
        if not self._users.count:
            raise BusUnavailable("This bus is closed. Use it within its `async with`.") from error
        if not self.is_shared:
            return  # Another publisher was first.
        logger.warning("The log of changes continues in memory: pending waits end with the process. %s", error)
        self._unsubscribe()
        self.is_shared = self.lists_known = False
        self._unsubscribe = self._memory.subscribe(self._listeners.call)
        self._listeners.call(self.head, None)

    async def _open(self) -> None:
        await self._memory.__aenter__()
        try:
            await anyio.to_thread.run_sync(self._prepare)
            await self._file.__aenter__()
            self.is_shared = True
            found = await self._file.records.get(_EDITION)
            self.lists_known = found is not None and found.value == self._edition
            if not self.lists_known:
                await self._file.records.put(_EDITION, self._edition, seconds=_LONG)
        except (OSError, TransportError) as error:
            if self.is_shared:
                self.is_shared = False
                await self._file.__aexit__(None, None, None)
            logger.warning("The log of changes is in memory: pending waits end with the process. %s", error)
        self._unsubscribe = self._current.subscribe(self._listeners.call)

    def _prepare(self) -> None:
        folder = self._path.parent
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if kind := network_disk(folder.resolve()):
            # SQLite shares memory between the processes of one machine, and each machine has boots of its own.
            raise BusUnavailable(f"{folder} is on a network disk ({kind}). Choose a folder on a disk of this machine.")

    async def _close(self) -> None:
        # The file, too, if it was left: its records were read. It finishes what it has accepted.
        await self._file.__aexit__(None, None, None)
        await self._memory.__aexit__(None, None, None)
        self._listeners.clear()
        self.is_shared = False


class LocalRecords:
    """The records of a `LocalBus`: in the file; once that was left, new ones are in memory."""

    def __init__(self, file: SqliteBus, memory: MemoryBus, bus: LocalBus) -> None:
        self._file = file.records
        self._memory = memory.records
        self._bus = bus

    async def get(self, key: str) -> StoredRecord | None:
        found = None if self._bus.is_shared else await self._memory.get(key)
        return found or await self._in_file(self._file.get(key))

    async def put(self, key: str, value: bytes, *, seconds: float, revision: int | None = None) -> StoredRecord | None:
        if self._bus.is_shared:
            stored = await self._in_file(self._file.put(key, value, seconds=seconds, revision=revision))
            if self._bus.is_shared:
                return stored
        if revision is not None:
            there = await self.get(key)
            if revision != (there.revision if there else 0):
                return None
        return await self._memory.put(key, value, seconds=seconds)

    async def delete(self, key: str) -> None:
        if self._bus.is_shared:
            await self._in_file(self._file.delete(key))
        await self._memory.delete(key)

    async def _in_file(self, work: Awaitable[T]) -> T | None:
        """Returns the result of `work`; None, and leaves the file, if it cannot be done."""
        try:
            return await work
        except TransportError as error:
            self._bus.leave_file(error)
            return None
