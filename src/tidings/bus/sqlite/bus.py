"""`SqliteBus`: the bus of one machine, in a file that all its processes share and that outlives them.

One thread alone touches the file. Each turn of it takes all jobs that wait, stores their changes in one transaction,
and passes what is new in the log, and then the answers, to the event loop: this keeps the order of versions.
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
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tidings.bus import BusState, Entry, History, Listener, StoredRecord
from tidings.bus.shared import CheckedRecords, Engine, Listeners, NewEntries, SharedBus, storable_key
from tidings.bus.sqlite.log import SqliteLog, delete_record, read_record, write_record
from tidings.changes import Change, Cursor

logger = logging.getLogger(__name__)


class Job(NamedTuple):
    """Asks to store a change, by its key; to read or write a record; or the log something."""

    kind: Literal["change", "record", "question"]
    work: Any  # The key, a `RecordWork`, or a function of the log.
    answer: asyncio.Future[Any]
    size: int | None = None  # The bytes of the record; None: it is only read.


Reply = tuple[asyncio.Future[Any], object]  # The answer to a job, and its result or error


class _LoopGone(Exception):
    """The event loop was closed while its bus was still open."""


class SqliteThread:
    """Does the jobs on `log`, and looks every `poll` seconds for changes of others while there are listeners here."""

    def __init__(self, log: SqliteLog, *, poll: float, listeners: Listeners, engine: Engine) -> None:
        self._log = log
        self._engine = engine
        self._poll = poll
        self._listeners = listeners
        self._loop = asyncio.get_running_loop()
        # None asks to look for new changes: there is a listener from now on.
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        # A daemon: a program that never closes its bus must still be able to end. Nothing is lost then.
        self.thread = threading.Thread(target=self._run, name="tidings-sqlite-bus", daemon=True)
        self._opened: asyncio.Future[Cursor] = self._loop.create_future()
        self.own: set[Cursor] = set()  # Of the changes that were stored for this process last.
        self._is_over = False

    def start(self) -> asyncio.Future[Cursor]:
        """Opens the log in the thread. The result is its head, or the error with which the thread ended."""
        self.thread.start()
        return self._opened

    def look(self) -> None:
        """Looks for new changes, because there is a listener from now on."""
        self._jobs.put(None)

    def ask(
        self, kind: Literal["change", "record", "question"], work: Any, size: int | None = None
    ) -> asyncio.Future[Any]:
        """Queues a job, and returns its answer. Jobs of a kind are done in their order."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._jobs.put(Job(kind, work, answer, size))
        return answer

    async def get(self, key: str) -> StoredRecord | None:
        return await self.ask("record", partial(read_record, key=key))

    async def put(self, key: str, value: bytes, *, seconds: float, revision: int | None = None) -> StoredRecord | None:
        work = partial(write_record, key=key, value=value, seconds=seconds, expected=revision)
        return await self.ask("record", work, len(value))

    async def delete(self, key: str) -> None:
        await self.ask("record", partial(delete_record, key=key), 0)

    def end(self) -> asyncio.Future[None]:
        """Finishes earlier jobs, closes the file and ends the thread."""
        return self.ask("question", self._end)

    def _end(self, log: SqliteLog) -> None:
        self._is_over = True
        log.close()

    def _run(self) -> None:
        try:
            self._work()
        except _LoopGone:
            logger.debug("The event loop was closed before its bus was")
        finally:
            self._log.close()

    def _work(self) -> None:
        try:
            told = self._log.head()
        except Exception as error:  # noqa: BLE001 - passed to the caller
            self._post(None, [(self._opened, error)])
            return
        self._post(None, [(self._opened, told)])
        while not self._is_over:
            jobs = self._take()
            changes, records, questions = (
                [job for job in jobs if job.kind == kind] for kind in ("change", "record", "question")
            )
            news, replies = self._store(changes, told) if changes else (self._look(told), [])
            told = news.head if news else told
            if records:  # All in one transaction: if the file is locked, they wait for it together.
                sizes = [job.size for job in records if job.size is not None]
                done = partial(self._log.records, [job.work for job in records], sum(sizes) if sizes else None)
                replies += self._replies(records, done)
            for job in questions:
                replies += self._replies([job], lambda work=job.work: [work(self._log)])
            self._post(news, replies)

    def _take(self) -> list[Job]:
        """Returns all jobs that wait; none if it is time to look."""
        jobs: list[Job | None] = []
        with suppress(queue.Empty):
            jobs.append(self._jobs.get(timeout=self._poll if self._listeners else None))
            while True:
                jobs.append(self._jobs.get_nowait())
        return [job for job in jobs if job is not None]

    def _store(self, jobs: Sequence[Job], told: Cursor) -> tuple[NewEntries | None, list[Reply]]:
        news: NewEntries | None = None

        def store() -> Sequence[Cursor]:
            nonlocal news
            cursors, news = self._log.append([job.work for job in jobs], told)
            return cursors

        replies = self._replies(jobs, store)
        return news, replies

    def _replies(self, jobs: Sequence[Job], work: Callable[[], Sequence[object]]) -> list[Reply]:
        """Returns the results of `work`, one for each job, or its error for all of them."""
        try:
            return [(job.answer, result) for job, result in zip(jobs, work(), strict=True)]
        except Exception as error:  # noqa: BLE001 - passed to the callers
            return [(job.answer, error) for job in jobs]

    def _look(self, told: Cursor) -> NewEntries | None:
        """Returns what other processes published. Nobody waits for it: a failure is logged once, until it is over."""
        try:
            news = self._log.news(told)
        except Exception as error:  # noqa: BLE001 - tried again at the next look
            self._engine.away(error)
            return None
        self._engine.back()
        return news

    def _post(self, news: NewEntries | None, replies: Sequence[Reply]) -> None:
        if news is None and not replies:
            return
        try:
            self._loop.call_soon_threadsafe(self._settle, news, replies)
        except RuntimeError as error:
            raise _LoopGone from error

    def _settle(self, news: NewEntries | None, replies: Sequence[Reply]) -> None:
        """Passes what is new to the listeners, then answers the callers. Runs on the event loop."""
        self.own = {outcome for _, outcome in replies if isinstance(outcome, Cursor)} or self.own
        if news is not None:
            if news.entries is None:
                self._engine.lost(news.head)
            self._listeners.call_all(news)
        for answer, outcome in replies:
            if answer.done():
                continue  # The caller was cancelled meanwhile.
            if isinstance(outcome, Exception):
                # A copy for each caller: a shared error would collect all their tracebacks.
                own = copy.copy(outcome)
                own.__cause__ = outcome.__cause__
                answer.set_exception(own)
            else:
                answer.set_result(outcome)


class SqliteBus(SharedBus[SqliteThread]):
    """A bus in the file at `path`, for any number of processes on one machine.

    The log survives the end of every process, even kill -9. When the machine loses power, the last commits may be lost,
    so each boot begins a new epoch. With `durable=True`, each commit is synced to the disk. This is slower, but the log
    survives a power loss, too. (On systems that do not identify their boots, commits are always synced.)

    While there are listeners, the file is checked for changes by other processes every `poll` seconds, which takes
    about ten microseconds. If the file is deleted (with its -wal and -shm files) or replaced, it is opened or created
    again, and each listener is called once with None. Do not put an older copy in its place, because it cannot tell
    what it lacks: delete the file instead.

    `clock` returns the time in seconds since 1970, and may jump. `timeout` is the number of seconds for which another
    process may keep the file locked. A closed bus may be entered again: the log continues, but listeners must subscribe
    again. With `private`, only this user may read the file, and a damaged file is set aside.
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
        private: bool = False,
    ) -> None:
        # Absolute, so that a change of the working directory does not lead to another file.
        absolute = Path(path).absolute()
        super().__init__(str(absolute))
        if not poll > 0:
            raise ValueError(f"poll must be more than 0 seconds, not {poll}")
        if not timeout >= 0:
            raise ValueError(f"timeout must be 0 seconds or more, not {timeout}")
        self._engine = Engine("sqlite", str(absolute))
        # One log each time the bus is entered: an earlier thread may not have closed its own yet.
        self._new_session = lambda: SqliteThread(
            SqliteLog(
                absolute, history=history or History(), clock=clock, durable=durable, timeout=timeout, private=private
            ),
            poll=poll,
            listeners=self._listeners,
            engine=self._engine,
        )
        self.records = CheckedRecords(self._entered)

    @property
    def state(self) -> BusState:
        """The state of the file: `connected` if it can be read. No change waits: it is stored or refused."""
        return self._engine.state

    async def publish(self, change: Change) -> Cursor:
        """Appends `change`, in place of an earlier equal one, and returns its cursor once it is committed.

        If this call is cancelled, the change may be in the log or not. After `BusUnavailable` or `BusMismatch`, it is
        not in the log. Raises `InvalidUri` if no log can store the change.
        """
        answer = self._entered().ask("change", storable_key(change))
        began = time.perf_counter()
        self._engine.waits(1)
        try:
            cursor = await answer
        finally:
            self._engine.waits(-1)
        self._engine.stored(1, time.perf_counter() - began)
        return cursor

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        end = super().subscribe(listener)
        if self._session is not None:
            self._session.look()
        return end

    def is_own(self, cursor: Cursor) -> bool:
        """Returns whether the change at `cursor` was stored for this process. Listeners ask: it is soon forgotten."""
        return self._session is not None and cursor in self._session.own

    async def since(self, cursor: Cursor) -> Sequence[Entry] | None:
        return await self._entered().ask("question", partial(SqliteLog.since, cursor=cursor))

    async def oldest(self) -> tuple[Cursor, float | None]:
        """Returns the cursor after which all changes are known, and the time of the first one after it, if any."""
        return await self._entered().ask("question", SqliteLog.oldest)

    async def _open(self) -> None:
        self._session = session = self._new_session()
        try:
            self._listeners.head = await session.start()
        except BaseException:
            self._session = None
            session.end()
            raise
        self._engine.entered()

    async def _close(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        await session.end()
        session.thread.join()  # It ends at once.
        self._listeners.clear()
        self._engine.left(lost=0)
