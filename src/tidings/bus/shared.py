"""The parts that buses share. All metrics have the attribute `tidings.bus.engine`: "redis", "nats" or "sqlite"."""

import asyncio
import logging
import secrets
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, islice, takewhile
from typing import Any, Final, Generic, NamedTuple, Protocol, Self, TypeVar

from tidings._kit.tasks import Users
from tidings._kit.telemetry import measure
from tidings.bus import BusState, Entry, History, Listener, Records, StoredRecord
from tidings.changes import Change, Cursor, change_key
from tidings.errors import BusMismatch, BusUnavailable, InvalidUri

logger = logging.getLogger(__name__)

SessionT = TypeVar("SessionT")

MOST_TERMS: Final = 256
LONGEST_KEY: Final = 200
LARGEST_VALUE: Final = 512 * 1024
LONGEST_STAY: Final = 10**9

NOWHERE: Final = Cursor("", 0)  # In no log: nothing is known to have happened since.


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a log in one epoch: after which version each began, and its name. At most 256 are kept.

    A process begins a term with its first change. So what an older copy in the place of the log stores is in a term of
    its own, and a cursor of what was lost names one that is not known, or that ended before its version. The first term
    stays: what is before it was stored by a version without terms.
    """

    starts: tuple[int, ...] = ()
    names: tuple[str, ...] = ()

    def at(self, version: int) -> str:
        """Returns the name of the term to which `version` belongs; '' if it is before the first one."""
        place = bisect_left(self.starts, version)
        return self.names[place - 1] if place else ""

    def know(self, cursor: Cursor) -> bool:
        """Returns whether `cursor`, of this epoch, names a version of this log and not of one that was rolled back."""
        return cursor.term == self.at(cursor.version)

    def begin(self, version: int, name: str) -> "Terms":
        starts, names = (*self.starts, version), (*self.names, name)
        excess = max(len(starts) - MOST_TERMS, 0)
        return Terms(starts[:1] + starts[1 + excess :], names[:1] + names[1 + excess :])

    def __str__(self) -> str:
        return " ".join(f"{start}-{name}" for start, name in zip(self.starts, self.names, strict=True))

    @classmethod
    @lru_cache(maxsize=8)
    def parse(cls, text: str) -> "Terms":
        """Returns the terms in the text of some. Raises `ValueError` if it is something else."""
        pairs = [each.split("-") for each in text.split()]
        return cls(tuple(int(start) for start, _ in pairs), tuple(name for _, name in pairs))


def new_term() -> str:
    """Names a term as no other is named."""
    return secrets.token_hex(4)


@dataclass(frozen=True, slots=True)
class NewEntries:
    """The entries after a cursor, up to `head`; `entries` is None if the log cannot know."""

    head: Cursor
    entries: Sequence[Entry] | None
    more: bool = False  # There are more entries before `head` than fit on a page.


class Recorded(NamedTuple):
    """An entry of the log, and the time at which it was stored."""

    entry: Entry
    at: float


class Tail:
    """The newest entries: all after `start`, as many as the history has room for. `second` is one in their times."""

    def __init__(self, history: History, *, second: int = 1) -> None:
        self._room = history.entries
        self._age = min(history.age, 10**9) * second
        self.begin(0)

    def begin(self, start: int) -> None:
        """Forgets everything: nothing up to `start` is known."""
        self.start = start
        self.floor = 0  # The changes since a position before this one can no longer be known.
        # In order of seq: a change that comes again is moved to the end.
        self._records: dict[Change, Recorded] = {}

    def add(self, record: Recorded) -> None:
        change = record.entry[1]
        self._records.pop(change, None)
        self._records[change] = record
        self._trim()

    def prepend(self, older: Iterable[Recorded], start: int) -> None:
        """Adds entries after `start` that were not known so far, in order."""
        self._records = {
            record.entry[1]: record for record in older if record.entry[1] not in self._records
        } | self._records
        self.start = start
        self._trim()

    def _trim(self) -> None:
        if (excess := len(self._records) - self._room) > 0:
            self._drop(list(islice(self._records.values(), excess)))

    def expire(self, now: float) -> None:
        oldest = now - self._age
        self._drop(list(takewhile(lambda record: record.at < oldest, self._records.values())))

    def _drop(self, records: Sequence[Recorded]) -> None:
        for record in records:
            del self._records[record.entry[1]]
            self.start = self.floor = record.entry[0].version

    def after(self, seq: int) -> list[Entry]:
        """Returns the entries after `seq`, which is not before `start`, in order."""
        found: list[Entry] = []
        for entry, _ in reversed(self._records.values()):
            if entry[0].version <= seq:
                break
            found.append(entry)
        return found[::-1]


def storable_key(change: Change) -> str:
    """Returns the key of `change`. Raises `InvalidUri` if no engine can store it."""
    key = change_key(change)
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise InvalidUri(f"A URI must not contain lone surrogates, but this one does: {key!a}") from error
    return key


def check_record(key: str, value: bytes = b"", seconds: float = 1.0) -> None:
    """Raises `ValueError` if no bus keeps such a record."""
    if not (0 < len(key) <= LONGEST_KEY and all("!" <= character <= "~" for character in key)):
        raise ValueError(f"The key of a record has 1 to {LONGEST_KEY} visible ASCII characters; this one is {key!a}")
    if len(value) > LARGEST_VALUE:
        raise ValueError(f"The value of a record has at most {LARGEST_VALUE} bytes, not {len(value)}")
    if not 0 < seconds <= LONGEST_STAY:
        raise ValueError(f"A record is kept for more than 0 and at most {LONGEST_STAY} seconds, not {seconds}")


class CheckedRecords:
    """The records of a bus: checks what is asked, and passes it on to `store()`, which raises if the bus is closed."""

    def __init__(self, store: Callable[[], Records]) -> None:
        self._store = store

    async def get(self, key: str) -> StoredRecord | None:
        check_record(key)
        return await self._store().get(key)

    async def put(self, key: str, value: bytes, *, seconds: float, revision: int | None = None) -> StoredRecord | None:
        check_record(key, value, seconds)
        return await self._store().put(key, value, seconds=seconds, revision=revision)

    async def delete(self, key: str) -> None:
        check_record(key)
        await self._store().delete(key)


class Listeners:
    """The listeners of one bus, called in the order in which they were added, and the cursor up to which they were."""

    def __init__(self) -> None:
        self.head = NOWHERE
        # Keyed by a token: the same function may listen twice, and each subscription ends on its own.
        self._listeners: dict[object, Listener] = {}

    def add(self, listener: Listener) -> Callable[[], None]:
        """Adds `listener`. Returns a function that removes it at once; it may be called twice."""
        token = object()
        self._listeners[token] = listener

        def end() -> None:
            self._listeners.pop(token, None)

        return end

    def call(self, cursor: Cursor, change: Change | None) -> None:
        """Calls every listener. An exception is logged, and reaches neither the others nor the publisher."""
        self.head = cursor
        for token, listener in tuple(self._listeners.items()):
            # A listener before it may have removed it.
            if token not in self._listeners:
                continue
            try:
                listener(cursor, change)
            except Exception:
                logger.exception("A listener failed on %r at %s; the others are still called", change, cursor)

    def call_all(self, news: NewEntries) -> None:
        for cursor, change in [(news.head, None)] if news.entries is None else news.entries:
            self.call(cursor, change)
        if not news.more:
            self.head = news.head

    def clear(self) -> None:
        self._listeners.clear()

    def __bool__(self) -> bool:
        return bool(self._listeners)


class SharedBus(ABC, Generic[SessionT]):
    """A bus at a `place`: from when it is first entered until the last user has left, it is open and has a session."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._listeners = Listeners()
        self._session: SessionT | None = None
        self._users = Users(self._open, self._close)

    @property
    def head(self) -> Cursor:
        """The newest cursor that this process knows. Before the bus was first entered, it belongs to no log."""
        return self._listeners.head

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        return self._listeners.add(listener)

    def _entered(self) -> SessionT:
        if self._session is None:
            raise BusUnavailable(f"The bus at {self._place} is not open. Use it within its `async with`.")
        return self._session

    @abstractmethod
    async def _open(self) -> None:
        """Connects to the log, and begins to receive changes."""

    @abstractmethod
    async def _close(self) -> None:
        """Disconnects, in bounded time. Safe to call after a failure to open."""

    async def __aenter__(self) -> Self:
        """Finds the log, or creates it. Raises `BusUnavailable`, or `BusMismatch` if it is no log of this version."""
        await self._users.enter()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._users.leave()


class Engine:
    """The server or file behind a bus of a `kind`: its state, logged and measured. `place` contains no secrets."""

    def __init__(self, kind: str, place: str, *, clock: Callable[[], float] = time.time) -> None:
        self.place = place
        self.state = BusState(connected=False, since=clock(), waiting=0, reason="it was not opened yet")
        self.trouble: Exception | None = None  # The reason why it is out of reach.
        self._clock = clock
        self._attributes = {"tidings.bus.engine": kind}

    def entered(self) -> None:
        self._set(connected=True)

    def back(self) -> None:
        if not self.state.connected:
            away = self._clock() - self.state.since
            logger.warning("The bus at %s is back after %.1f s", self.place, away)
            self._set(connected=True)

    def away(self, trouble: Exception) -> None:
        """Records that the server does not answer, or not correctly, or that the file cannot be read."""
        if self.state.connected:
            logger.warning("The bus at %s is out of reach; changes are delayed: %s", self.place, trouble)
            measure("tidings.bus.outages", 1, self._attributes)
        self._set(connected=False, reason=str(trouble))
        self.trouble = trouble

    def left(self, lost: int) -> None:
        """Records that the bus is closed; `lost` changes never reached the server."""
        if lost:
            logger.error("%d changes could not be published before the bus at %s was closed", lost, self.place)
        self.waiting(0)
        self._set(connected=False, reason="it is closed")

    def waiting(self, count: int) -> None:
        if count != self.state.waiting:
            self.waits(count - self.state.waiting)
            self.state = replace(self.state, waiting=count)

    def waits(self, more: int) -> None:
        measure("tidings.bus.waiting", more, self._attributes)

    def stored(self, count: int, seconds: float) -> None:
        measure("tidings.bus.published", count, self._attributes)
        measure("tidings.bus.publish.duration", seconds, self._attributes)

    def lost(self, place: object) -> None:
        """Records that listeners were called at `place` because anything may have changed."""
        logger.warning("The bus at %s does not know what changed before %s: anything may have", self.place, place)
        measure("tidings.bus.losses", 1, self._attributes)

    def _set(self, *, connected: bool, reason: str = "") -> None:
        before, since = self.state, self.state.since
        if connected != before.connected:
            measure("tidings.bus.connected", 1 if connected else -1, self._attributes)
            since = self._clock()
        self.state = BusState(connected, since, before.waiting, reason)
        self.trouble = None


class NotStored(Exception):
    """A change was not stored in time. Its argument is True if the change still waits, and will be stored."""


@dataclass(slots=True, eq=False)
class Held:
    """One distinct change that waits, and the publishers that wait for its cursor."""

    change: Change
    askers: set[asyncio.Future[Cursor]] = field(default_factory=set[asyncio.Future[Cursor]])

    def stored(self, cursor: Cursor) -> None:
        for asker in self.askers:
            if not asker.done():
                asker.set_result(cursor)


class Waiting:
    """The changes that wait to be stored by a server: in order, each distinct one once, at most `limit` of them.

    A change stays here until it is known to be stored: if the connection breaks, it is given back and sent again.
    Storing it twice does no harm. `added` is called whenever there is one more to send.
    """

    def __init__(self, limit: int, added: Callable[[], None]) -> None:
        self._limit = limit
        self._added = added
        self._held: OrderedDict[Change, Held] = OrderedDict()
        self._under_way: set[Held] = set()
        # One permit for each change, under way or not. First come, first served.
        self._room = asyncio.Semaphore(limit)

    def __len__(self) -> int:
        return len(self._held) + len(self._under_way)

    @property
    def idle(self) -> bool:
        return not self._held

    async def put(self, change: Change, seconds: float) -> Cursor:
        """Waits until `change` is stored, and returns its cursor. Raises `NotStored` after `seconds`."""
        held: Held | None = None
        asker: asyncio.Future[Cursor] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                held = self._held.get(change) or await self._admit(change)
                held.askers.add(asker)
                return await asker
        except TimeoutError:
            raise NotStored(held is not None) from None
        finally:
            if held is not None:
                held.askers.discard(asker)

    async def _admit(self, change: Change) -> Held:
        room = self._room
        await room.acquire()
        if room is not self._room:
            # All was cleared: pass the permit on, so that the next one that waits notices too.
            room.release()
            raise NotStored(False)
        if held := self._held.get(change):
            # An equal one came while this waited for room.
            self._room.release()
            return held
        held = self._held[change] = Held(change)
        self._added()
        return held

    def take(self, most: int) -> list[Held]:
        """Returns the first ones, to be sent now. Each must then be passed to `done` or `give_back`."""
        taken = [self._held.popitem(last=False)[1] for _ in range(min(most, len(self._held)))]
        self._under_way.update(taken)
        return taken

    def done(self, taken: Sequence[Held]) -> None:
        self._under_way.difference_update(taken)
        for _ in taken:
            self._room.release()

    def give_back(self, taken: Sequence[Held]) -> None:
        """Takes back changes that may not be stored: they are sent again first."""
        self._under_way.difference_update(taken)
        for held in reversed(taken):
            if later := self._held.get(held.change):
                held.askers |= later.askers
                self._room.release()
            self._held[held.change] = held
            self._held.move_to_end(held.change, last=False)
        if taken:
            self._added()

    def refuse(self, error: Callable[[], Exception]) -> None:
        """Answers publishers, whose changes still wait. A shared error would collect all their tracebacks."""
        for held in chain(self._held.values(), self._under_way):
            for asker in held.askers:
                if not asker.done():
                    asker.set_exception(error())

    def clear(self) -> int:
        lost = len(self)
        self._held.clear()
        self._under_way.clear()
        room, self._room = self._room, asyncio.Semaphore(self._limit)
        room.release()
        return lost


class BrokerSession(Protocol):
    """The time in which a bus with a server is open."""

    waiting: Waiting
    records: Any

    @property
    def connected(self) -> bool: ...
    async def start(self) -> None: ...
    async def since(self, cursor: Cursor) -> Sequence[Entry] | None: ...
    async def stop(self) -> None:
        """Sends what waits, within a moment, and closes the connection."""


class BrokerBus(SharedBus[BrokerSession]):
    """A bus whose log a server keeps: an engine of a `kind` at a `place`."""

    _new_session: Callable[[], BrokerSession]

    def __init__(self, kind: str, place: str, *, buffer: int, timeout: float) -> None:
        super().__init__(place)
        if buffer < 1:
            raise ValueError(f"The buffer needs room for at least 1 change, not {buffer}")
        if not timeout > 0:
            raise ValueError(f"timeout must be more than 0 seconds, not {timeout}")
        self._timeout = timeout
        self._engine = Engine(kind, place)
        self.records = CheckedRecords(lambda: self._entered().records)

    @property
    def state(self) -> BusState:
        state = self._engine.state
        return replace(state, waiting=len(self._session.waiting)) if self._session else state

    async def publish(self, change: Change) -> Cursor:
        """Stores `change` in place of an earlier equal one, and returns its cursor.

        If this fails or is cancelled, the change may still be published: the error says whether it is kept. Publishing
        it again does no harm. Raises `BusUnavailable`, `BusMismatch` or `InvalidUri`.
        """
        session, seconds, state = self._entered(), self._timeout, self._engine.state
        storable_key(change)  # Raises here, before the change waits with others.
        if not (session.connected or state.connected):
            # In an outage, publishers wait only at its beginning.
            seconds -= max(time.time() - state.since, 0.0)
        try:
            return await session.waiting.put(change, max(seconds, 0.0))
        except NotStored as late:
            if self._session is not session:
                raise self._closed() from None
            # Once there is a connection again, an earlier trouble is not the reason any more.
            trouble = None if session.connected else self._engine.trouble
            kind = BusMismatch if isinstance(trouble, BusMismatch) else BusUnavailable
            why = trouble or f"The server at {self._place} did not store the change within {self._timeout:g} s."
            fate = f"is not kept, because {len(session.waiting)} others already wait. Publish it again later."
            if late.args[0]:
                fate = "is kept, and published when the server is back."
            raise kind(f"{why} The change {fate}") from None

    def _closed(self) -> BusUnavailable:
        return BusUnavailable(f"The bus at {self._place} was closed before the change was stored.")

    async def since(self, cursor: Cursor) -> Sequence[Entry] | None:
        return await self._entered().since(cursor)

    async def _open(self) -> None:
        session = self._new_session()
        await session.start()
        self._engine.entered()
        self._session = session

    async def _close(self) -> None:
        if (session := self._session) is None:
            return
        try:
            await session.stop()
        finally:
            self._session = None
            self._listeners.clear()
            session.waiting.refuse(self._closed)
            self._engine.left(session.waiting.clear())
