"""The bus of one machine: a SQLite file that all its processes share, and that outlives them.

May import: `changes`, `errors`.
"""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tidings.bus import Entry, History, Listener
from tidings.bus._listeners import Listeners
from tidings.bus._shared import NOWHERE, SharedBus, storable_key
from tidings.bus._sqlite_log import News, SqliteLog
from tidings.bus._sqlite_worker import Look, Publish, Reply, Since, Stop, Worker
from tidings.changes import Change, Cursor
from tidings.errors import BusUnavailable


class SqliteBus(SharedBus):
    """A bus in the file at `path`, for any number of processes on one machine.

    It survives the end of every process, kill -9 included. When the machine loses power, the last commits may be lost,
    so each boot of the machine begins a new epoch: whoever asks `since` an older cursor is told to read again. With
    `durable=True` each commit is synced to the disk, which is slower, and the log survives that as well. (Where the
    system does not tell its boots apart, that is outside Linux, each commit is synced in any case.)

    Own changes are delivered as soon as they are committed. Those of other processes are looked for every `poll`
    seconds while somebody listens, which costs some ten microseconds each time. Changes that are published at the same
    time share a transaction.

    If the file is deleted or replaced, it is opened again, or created, and each listener is told once that anything
    may have changed. Delete its -wal and -shm files with it; and rather delete it than put back an older copy, whose
    versions it would count again.

    `clock` tells the time in seconds since 1970, for the age of the history; it may step. `timeout` is for how many
    seconds another process may keep the file locked. A bus may be entered again after it was left: the log goes on,
    the listeners have to come again.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        history: History | None = None,
        poll: float = 0.05,
        clock: Callable[[], float] = time.time,
        durable: bool = False,
        timeout: float = 5.0,
    ) -> None:
        super().__init__()
        if not poll > 0:
            raise ValueError(f"A bus looks for changes every so many seconds, more than 0, not {poll}")
        if not timeout >= 0:
            raise ValueError(f"A lock is waited for 0 seconds or more, not {timeout}")
        # Absolute, so that a change of the working directory does not lead to another file.
        self._path = Path(path).absolute()
        # A log for each time the bus is entered: the thread of an earlier time may not have let go of its own yet.
        self._new_log = partial(
            SqliteLog, self._path, history=history or History(), clock=clock, durable=durable, timeout=timeout
        )
        self._poll = poll
        self._listeners = Listeners()
        self._head = NOWHERE
        self._worker: Worker | None = None

    @property
    def head(self) -> Cursor:
        """The newest place in the log that this process knows of; in no log before the bus was first entered.

        A listener hears of everything after the head that was there when it subscribed.
        """
        return self._head

    async def publish(self, change: Change) -> Cursor:
        """Append `change`, in place of an earlier equal one, and say where it stands once it is committed.

        If this is cancelled, the change may be in the log or not.

        Raises:
            BusUnavailable: The change could not be stored; it is not in the log.
            BusMismatch: The file has become one that is not a log, or not one of this version.
            InvalidUri: The change names a resource by a text that no file can hold.
        """
        worker = self._entered()
        answer: asyncio.Future[Cursor] = asyncio.get_running_loop().create_future()
        worker.ask(Publish(storable_key(change), answer))
        return await answer

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        end = self._listeners.add(listener)
        if self._worker is not None:
            self._worker.ask(Look())
        return end

    async def since(self, cursor: Cursor) -> Sequence[Entry] | None:
        worker = self._entered()
        answer: asyncio.Future[Sequence[Entry] | None] = asyncio.get_running_loop().create_future()
        worker.ask(Since(cursor, answer))
        return await answer

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        worker = Worker(
            self._new_log(), poll=self._poll, listening=self._listeners.__bool__, loop=loop, settle=self._settle
        )
        self._worker = worker
        try:
            self._head = await worker.start()
        except BaseException:
            self._worker = None
            worker.ask(Stop(loop.create_future()))
            raise

    async def _close(self) -> None:
        """Wait until what was asked for is done, and let go of the file."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        worker.ask(Stop(stopped))
        await stopped
        worker.join()
        self._listeners.clear()

    def _entered(self) -> Worker:
        if self._worker is None:
            raise BusUnavailable(f"The bus in {self._path} is not open: use it within its `async with`.")
        return self._worker

    def _settle(self, news: News | None, replies: Sequence[Reply]) -> None:
        """On the event loop: tell the listeners what is new, then those who asked what came of it."""
        if news is not None:
            self._tell(news)
        for reply in replies:
            reply()

    def _tell(self, news: News) -> None:
        for cursor, change in [(news.head, None)] if news.entries is None else news.entries:
            self._head = cursor
            self._listeners.tell(cursor, change)
        self._head = news.head
