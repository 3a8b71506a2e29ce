"""The bus of one machine: a SQLite file that all its processes share, and that outlives them.

May import: `changes`, `errors`.

The thread of a `SqliteBus`: the only one that touches the file, so that the event loop never waits for a disk.

Each turn takes all requests that wait. Their changes are stored in one transaction, however many they are, and what
came of it goes to the event loop in one call: first what is new in the log, whoever published it, then the answers.
That one way keeps the order of versions for listeners.

May import: `changes`, `errors`.
"""

import asyncio
import copy
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from tidings.bus import Entry, History, Listener
from tidings.bus.shared import NOWHERE, Listeners, SharedBus, storable_key
from tidings.bus.sqlite.log import News, SqliteLog
from tidings.changes import Change, Cursor
from tidings.errors import BusUnavailable

logger = logging.getLogger(__name__)

T = TypeVar("T")

Reply = Callable[[], None]
"""Gives a request its answer; to be called on the event loop."""


@dataclass(frozen=True, slots=True, eq=False)
class PublishJob:
    """Store a change, by its key."""

    key: str
    answer: asyncio.Future[Cursor]


@dataclass(frozen=True, slots=True, eq=False)
class Since:
    """Say what changed after `cursor`."""

    cursor: Cursor
    answer: asyncio.Future[Sequence[Entry] | None]


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """See what is new: somebody listens from now on."""


@dataclass(frozen=True, slots=True, eq=False)
class Stop:
    """Finish what was asked before, close the file and end the thread."""

    answer: asyncio.Future[None]


Request = PublishJob | Since | Look | Stop


class _LoopGone(Exception):
    """The event loop was closed while its bus was still entered: there is nobody left to work for."""


class SqliteThread:
    """Runs the requests on `log`, and looks every `poll` seconds for what others published while somebody listens.

    `settle` is called on `loop`: it has news told to the listeners, and then calls the replies.
    """

    def __init__(
        self,
        log: SqliteLog,
        *,
        poll: float,
        listening: Callable[[], bool],
        loop: asyncio.AbstractEventLoop,
        settle: Callable[[News | None, Sequence[Reply]], None],
    ) -> None:
        self._log = log
        self._poll = poll
        self._listening = listening
        self._loop = loop
        self._settle = settle
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._out_of_reach = False
        # A daemon, because a program that never leaves its bus must still be able to end; nothing is lost then.
        self._thread = threading.Thread(target=self._run, name="tidings-sqlite-bus", daemon=True)
        self._opened: asyncio.Future[Cursor] = loop.create_future()

    def start(self) -> asyncio.Future[Cursor]:
        """Open the log in the thread; its head, or why it cannot be opened. In that case the thread has ended."""
        self._thread.start()
        return self._opened

    def ask(self, request: Request) -> None:
        """Have `request` done in one of the next turns, in the order of asking."""
        self._requests.put(request)

    def join(self) -> None:
        """Wait for the end of the thread, which follows at once on the answer to `Stop`."""
        self._thread.join()

    def _run(self) -> None:
        try:
            self._work()
        except _LoopGone:
            logger.debug("the event loop was closed before its bus was left")
        finally:
            self._log.close()

    def _work(self) -> None:
        try:
            told = self._log.head()
        except Exception as error:  # noqa: BLE001 - whoever waits gets it
            self._post(None, [_refusal(self._opened, error)])
            return
        self._post(None, [_answer(self._opened, told)])
        while True:
            requests = self._take()
            news, replies = self._store(requests, told)
            told = news.head if news else told
            replies += [self._since(request) for request in requests if isinstance(request, Since)]
            self._post(news, replies)
            if stops := [request for request in requests if isinstance(request, Stop)]:
                self._log.close()
                self._post(None, [_answer(stop.answer, None) for stop in stops])
                return

    def _take(self) -> list[Request]:
        """All requests that wait; none if it is time to look."""
        requests: list[Request] = []
        with suppress(queue.Empty):
            requests.append(self._requests.get(timeout=self._poll if self._listening() else None))
            while True:
                requests.append(self._requests.get_nowait())
        return requests

    def _store(self, requests: Sequence[Request], told: Cursor) -> tuple[News | None, list[Reply]]:
        """Store what is to be published, and see what else is new."""
        publishes = [request for request in requests if isinstance(request, PublishJob)]
        try:
            if not publishes:
                return self._look(told), []
            cursors, news = self._log.append([publish.key for publish in publishes], told)
            return news, [_answer(publish.answer, cursor) for publish, cursor in zip(publishes, cursors, strict=True)]
        except Exception as error:  # noqa: BLE001 - whoever waits gets it
            return None, [_refusal(publish.answer, error) for publish in publishes]

    def _look(self, told: Cursor) -> News | None:
        """What others have published. Nobody waits for the answer, so trouble is logged: once, until it is over."""
        try:
            news = self._log.news(told)
        except Exception as error:  # noqa: BLE001 - it comes again at the next look
            if not self._out_of_reach:
                logger.warning("changes of other processes are not heard for now: %s", error)
            self._out_of_reach = True
            return None
        if self._out_of_reach:
            logger.warning("the bus file is back in reach, and changes of other processes are heard again")
        self._out_of_reach = False
        return news

    def _since(self, request: Since) -> Reply:
        try:
            return _answer(request.answer, self._log.since(request.cursor))
        except Exception as error:  # noqa: BLE001 - whoever waits gets it
            return _refusal(request.answer, error)

    def _post(self, news: News | None, replies: Sequence[Reply]) -> None:
        if news is None and not replies:
            return
        try:
            self._loop.call_soon_threadsafe(self._settle, news, replies)
        except RuntimeError as error:
            raise _LoopGone from error


def _answer(waiting: asyncio.Future[T], value: T) -> Reply:
    def reply() -> None:
        # Whoever asked may have been cancelled meanwhile.
        if not waiting.done():
            waiting.set_result(value)

    return reply


def _refusal(waiting: asyncio.Future[T], error: Exception) -> Reply:
    def reply() -> None:
        if not waiting.done():
            # One for each who waits: an error that several raise collects all their tracebacks.
            own = copy.copy(error)
            own.__cause__ = error.__cause__
            waiting.set_exception(own)

    return reply


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
        self._worker: SqliteThread | None = None

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
        worker.ask(PublishJob(storable_key(change), answer))
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
        worker = SqliteThread(
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

    def _entered(self) -> SqliteThread:
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
