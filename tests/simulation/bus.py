"""`SimulatedBus`: a bus as `tidings.bus` describes it, over a log in memory that is the broker.

`Broker` keeps the log. Each replica reaches it over a `Line`, on which calls are delayed, fail, or succeed with an
answer that is lost, so that the same change is stored twice. The log itself can be lost, which begins a new epoch, or
be replaced by an older copy of itself, which only its terms show. `tests/bus/test_contract.py` tests it as it tests
every bus.
"""

import asyncio
import contextvars
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from tidings._kit.backoff import Pauses
from tidings.bus import Entry, History, StoredRecord
from tidings.bus.shared import BrokerBus, Engine, Held, Listeners, NewEntries, Terms, Waiting
from tidings.changes import Change, Cursor
from tidings.errors import BusUnavailable

T = TypeVar("T")


@dataclass(frozen=True)
class Log:
    """The log of a broker: its place, the version from which it is whole, each change with its version and time."""

    epoch: str = "epoch1"
    version: int = 0
    covered: int = 0
    changes: dict[Change, tuple[int, float]] = field(default_factory=dict[Change, tuple[int, float]])
    terms: Terms = field(default_factory=Terms)
    records: dict[str, tuple[float, StoredRecord]] = field(default_factory=dict[str, tuple[float, StoredRecord]])

    def cursor(self, version: int) -> Cursor:
        return Cursor(self.epoch, version, self.terms.at(version))


_PAUSES: Final = (0.02, 0.1, 0.5)


class Broker:
    """The log, and those who are to be woken when it grows."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._log = Log()
        self._clock = clock
        self.clock_offset = 0.0  # Seconds by which its wall clock is wrong.
        self._names = itertools.count(2)
        self._revisions = itertools.count(1)  # Not a part of the log: no loss and no older copy repeats one.
        self.sessions: dict[SimulatedSession, None] = {}

    @property
    def head(self) -> Cursor:
        return self._log.cursor(self._log.version)

    def begin_term(self) -> None:
        terms = self._log.terms.begin(self._log.version, f"term{next(self._names)}")
        self._log = replace(self._log, terms=terms)

    def append(self, changes: Sequence[Change], now: float) -> list[Cursor]:
        cursors: list[Cursor] = []
        for change in changes:
            self._log = replace(self._log, version=self._log.version + 1)
            self._log.changes.pop(change, None)
            self._log.changes[change] = (self._log.version, now)
            cursors.append(self.head)
        return cursors

    def since(self, cursor: Cursor) -> NewEntries:
        log = self._log
        covered = cursor.epoch == log.epoch and log.covered <= cursor.version <= log.version
        if not (covered and log.terms.know(cursor)):
            return NewEntries(self.head, None)
        found = [(log.cursor(at), each) for each, (at, _) in log.changes.items() if at > cursor.version]
        return NewEntries(self.head, found)

    def trim(self, history: History, now: float) -> None:
        changes = self._log.changes
        while changes:
            change, (at, when) = next(iter(changes.items()))
            if len(changes) <= history.entries and when >= now - history.age:
                break
            del changes[change]
            self._log = replace(self._log, covered=at)

    def copy(self) -> Log:
        return replace(self._log, changes=dict(self._log.changes), records=dict(self._log.records))

    def restore(self, log: Log) -> None:
        """Puts an older copy in place of the log. Nothing in it says so."""
        self._log = replace(log, changes=dict(log.changes), records=dict(log.records))
        self.wake()

    def lose(self) -> None:
        """Loses the log: an empty one begins, in a new epoch."""
        self._log = Log(f"epoch{next(self._names)}")
        self.wake()

    def now(self, otherwise: Callable[[], float]) -> float:
        """Returns the time by which records expire: as Redis and NATS do, by the clock of the broker."""
        return otherwise() if self._clock is None else self._clock() + self.clock_offset

    def get(self, key: str, now: float) -> StoredRecord | None:
        expires, record = self._log.records.get(key, (0.0, None))
        return record if record is None or expires > now else self.delete(key)

    def put(self, key: str, value: bytes, expires: float, revision: int | None, now: float) -> StoredRecord | None:
        there = self.get(key, now)
        if revision is not None and revision != (there.revision if there else 0):
            return None
        record = StoredRecord(value, next(self._revisions))
        self._log.records[key] = (expires, record)
        return record

    def delete(self, key: str) -> None:
        self._log.records.pop(key, None)

    def wake(self) -> None:
        for session in tuple(self.sessions):
            session.hear()


@dataclass(eq=False)
class Line:
    """The way from one replica to the broker."""

    latency: float = 0.0
    cut_off: bool = False
    lost_answers: int = 0
    """So many of the next calls succeed, and their answers are lost."""


@dataclass(eq=False)
class SimulatedSession:
    """The time in which a bus is open. One task talks to the broker, so that everything has one order."""

    broker: Broker
    line: Line
    listeners: Listeners
    engine: Engine
    history: History
    clock: Callable[[], float]
    buffer: int
    poll: float = 1.0
    waiting: Waiting = field(init=False)

    def __post_init__(self) -> None:
        self._more = asyncio.Event()
        self._finishing = False
        self._has_term = False
        self._task: asyncio.Task[None] | None = None
        self._context = contextvars.copy_context()  # A message belongs to this replica, not to the one that sends it.
        self.waiting = Waiting(self.buffer, self._more.set)

    @property
    def connected(self) -> bool:
        return self.engine.state.connected

    async def start(self) -> None:
        self.listeners.head = await self.ask(lambda: self.broker.head)
        self.broker.sessions[self] = None
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        self._finishing = True
        self._more.set()
        assert self._task is not None
        try:
            await asyncio.wait([self._task], timeout=0.5)
        finally:
            self.broker.sessions.pop(self, None)
            self._task.cancel()
            await asyncio.wait([self._task])

    def hear(self) -> None:
        """Takes note that the log has grown, a moment later; a message on a line that is cut off is lost."""
        if not self.line.cut_off:
            asyncio.get_running_loop().call_later(self.line.latency, self._more.set, context=self._context)

    async def since(self, cursor: Cursor) -> Sequence[Entry] | None:
        if not self.connected:
            return None

        def look() -> Sequence[Entry] | None:
            self.broker.trim(self.history, self.clock())
            return self.broker.since(cursor).entries

        try:
            return await self.ask(look)
        except BusUnavailable:
            return None

    @property
    def records(self) -> "SimulatedRecords":
        return SimulatedRecords(self)

    async def ask(self, work: Callable[[], T]) -> T:
        """Does something at the broker: there, and back."""
        await asyncio.sleep(self.line.latency)
        self._check("cannot be reached")
        result = work()
        await asyncio.sleep(self.line.latency)
        self._check("did not answer")
        if self.line.lost_answers:
            self.line.lost_answers -= 1
            raise BusUnavailable("The simulated broker did not answer.")
        return result

    def _check(self, trouble: str) -> None:
        if self.line.cut_off:
            raise BusUnavailable(f"The simulated broker {trouble}.")

    async def _run(self) -> None:
        pauses = Pauses(_PAUSES, below=0.5)
        while not (self._finishing and (self.waiting.idle or not self.connected)):
            try:
                await self._turn()
            except BusUnavailable as error:
                self.engine.away(error)
                await asyncio.sleep(pauses.next())
            else:
                self.engine.back()
                pauses.reset()

    async def _turn(self) -> None:
        if self.connected and self.waiting.idle and not self._finishing:
            try:
                async with asyncio.timeout(self.poll):
                    await self._more.wait()
            except TimeoutError:
                pass  # It looks without having been woken, because a message may have been lost.
        self._more.clear()
        batch = self.waiting.take(500)
        try:
            cursors, news = await self.ask(lambda: self._exchange(batch))
        except BaseException:
            self.waiting.give_back(batch)
            raise
        self.listeners.call_all(news)
        self.waiting.done(batch)
        for held, cursor in zip(batch, cursors, strict=True):
            held.stored(cursor)

    def _exchange(self, batch: Sequence[Held]) -> tuple[list[Cursor], NewEntries]:
        """Stores what waits, and returns its cursors and all that is new to this replica. Runs at the broker."""
        now = self.clock()
        if batch and not self._has_term:
            self.broker.begin_term()
            self._has_term = True
        cursors = self.broker.append([held.change for held in batch], now)
        news = self.broker.since(self.listeners.head)
        self.broker.trim(self.history, now)
        if batch:
            self.broker.wake()
        return cursors, news


@dataclass(eq=False)
class SimulatedRecords:
    """The records of the broker, over the line of a session."""

    session: SimulatedSession

    async def get(self, key: str) -> StoredRecord | None:
        session = self.session
        return await session.ask(lambda: session.broker.get(key, session.broker.now(session.clock)))

    async def put(self, key: str, value: bytes, *, seconds: float, revision: int | None = None) -> StoredRecord | None:
        session = self.session

        def store() -> StoredRecord | None:
            now = session.broker.now(session.clock)
            return session.broker.put(key, value, now + seconds, revision, now)

        return await session.ask(store)

    async def delete(self, key: str) -> None:
        await self.session.ask(lambda: self.session.broker.delete(key))


class SimulatedBus(BrokerBus):
    """A bus of one replica, on the log of `broker`."""

    def __init__(
        self,
        broker: Broker,
        *,
        history: History | None = None,
        clock: Callable[[], float] = time.time,
        timeout: float = 5.0,
    ) -> None:
        super().__init__("simulated", "simulated", buffer=10_000, timeout=timeout)
        self.line = Line()
        self._new_session = lambda: SimulatedSession(
            broker, self.line, self._listeners, self._engine, history or History(), clock, 10_000
        )
