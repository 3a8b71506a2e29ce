"""What the buses that processes share have in common.

May import: `changes`, `errors`.

Who listens to a bus: one registry, the same for every bus.

May import: `changes`.

What a bus knows of the server behind it: whether it answers, since when, and how many changes wait for it.

Each change of that is logged once. The metrics go through the OpenTelemetry API alone: the user brings the SDK and the
exporter. Nothing that a meter raises reaches a publisher; each kind of failure is logged once. All of them have the
attribute `bus`: "redis" or "nats".

| metric | counts |
|---|---|
| `tidings.bus.connected` | buses whose server answers now |
| `tidings.bus.waiting` | changes that are not yet stored |
| `tidings.bus.published` | changes stored |
| `tidings.bus.publish.duration` | seconds until those who published were answered |
| `tidings.bus.outages` | times that the server went out of reach |
| `tidings.bus.losses` | times that listeners were told that anything may have changed |

Changes that wait to be stored by a server: in order, each distinct one once, and not more than so many.

For the buses whose log is kept by a server that may go away. Equal changes are merged while they wait, so what waits
is bounded by what there is to change, and at most by the limit. A change stays in here until it is known to be stored:
one that is on its way when the connection breaks is given back, and goes out again. Twice does no harm.

May import: `changes`.
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from types import TracebackType
from typing import Any, Final, Self

import anyio
from opentelemetry import metrics

from tidings.bus import BusState, Listener
from tidings.changes import Change, Cursor, change_key
from tidings.errors import InvalidUri

NOWHERE: Final = Cursor("", 0)
"""A place in no log: nothing is known to have happened since."""


class SharedBus(ABC):
    """A bus that is opened for the first who enters it, and closed when the last of them has left."""

    def __init__(self) -> None:
        self._users = 0
        self._turn = anyio.Lock()

    @abstractmethod
    async def _open(self) -> None:
        """Reach for the log, and begin to hear of changes."""

    @abstractmethod
    async def _close(self) -> None:
        """Let go of it, in bounded time. Safe to call where opening failed."""

    async def __aenter__(self) -> Self:
        """Find the log, or create it.

        Raises:
            BusUnavailable: It cannot be reached or used, for the reason that the error names.
            BusMismatch: What is there is not a log, or not one of this version.
        """
        async with self._turn:
            if not self._users:
                await self._open()
            self._users += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Even when cancelled: nothing is to stay behind, and whoever leaves may delete a file next.
        with anyio.CancelScope(shield=True):
            async with self._turn:
                self._users = max(self._users - 1, 0)
                if not self._users:
                    await self._close()


def storable_key(change: Change) -> str:
    """The key of `change`, which any engine can hold.

    Raises:
        InvalidUri: It names a resource by a text that none can.
    """
    key = change_key(change)
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise InvalidUri(f"A URI has no lone surrogates; this one does: {key!a}") from error
    return key


logger = logging.getLogger(__name__)


class Listeners:
    """The listeners of one bus, told one after the other in the order in which they came."""

    def __init__(self) -> None:
        # By a token of its own: the same function may listen twice, and each time ends by itself.
        self._listeners: dict[object, Listener] = {}

    def add(self, listener: Listener) -> Callable[[], None]:
        """Tell `listener` from now on. The result ends that at once, and may be called twice."""
        token = object()
        self._listeners[token] = listener

        def end() -> None:
            self._listeners.pop(token, None)

        return end

    def tell(self, cursor: Cursor, change: Change | None) -> None:
        """Tell everyone; what one of them raises is logged, and reaches neither the others nor the publisher."""
        for token, listener in tuple(self._listeners.items()):
            # A listener that was ended by one before it must not hear of this any more.
            if token not in self._listeners:
                continue
            try:
                listener(cursor, change)
            except Exception:
                logger.exception("a listener failed on %r at %s; the others go on", change, cursor)

    def clear(self) -> None:
        """End them all."""
        self._listeners.clear()

    def __bool__(self) -> bool:
        return bool(self._listeners)


class Engine:
    """The server behind a bus of a `kind`, found at `place`: a text for people, without secrets."""

    def __init__(self, kind: str, place: str, *, clock: Callable[[], float] = time.time) -> None:
        self.place = place
        self._clock = clock
        self._kind = kind
        self._state = BusState(connected=False, since=clock(), waiting=0, reason="it was not entered yet")
        self._failed: set[str] = set()
        self._attributes = {"bus": kind}
        try:
            self._create(metrics.get_meter("tidings"))
        except Exception:
            logger.exception("this bus is not metered")
            self._create(metrics.NoOpMeter("tidings"))

    def _create(self, meter: metrics.Meter) -> None:
        self._connected = meter.create_up_down_counter("tidings.bus.connected", unit="{bus}")
        self._waiting = meter.create_up_down_counter("tidings.bus.waiting", unit="{change}")
        self._published = meter.create_counter("tidings.bus.published", unit="{change}")
        self._duration = meter.create_histogram("tidings.bus.publish.duration", unit="s")
        self._outages = meter.create_counter("tidings.bus.outages", unit="{outage}")
        self._losses = meter.create_counter("tidings.bus.losses", unit="{loss}")

    @property
    def state(self) -> BusState:
        return self._state

    @property
    def connected(self) -> bool:
        return self._state.connected

    @property
    def reason(self) -> str:
        """Why it is away."""
        return self._state.reason

    def entered(self) -> None:
        """It answers for the first time, which is no news to anybody."""
        self._set(connected=True)

    def back(self) -> None:
        """It answers."""
        if not self.connected:
            away = self._clock() - self._state.since
            logger.warning("the bus at %s is back after %.1f s, and changes go out again", self.place, away)
            self._set(connected=True)

    def away(self, reason: str) -> None:
        """It does not answer, or not as it should."""
        if self.connected:
            logger.warning("the bus at %s is out of reach, and changes wait: %s", self.place, reason)
            self._add("outages", self._outages, 1)
        self._set(connected=False, reason=reason)

    def left(self, lost: int) -> None:
        """Nobody uses it any more; `lost` changes never reached it."""
        if lost:
            logger.error("%d changes could not be published before the bus at %s was left", lost, self.place)
        self.waiting(0)
        self._set(connected=False, reason="it was left")

    def waiting(self, count: int) -> None:
        """So many changes are not yet stored."""
        if count != self._state.waiting:
            self._add("waiting", self._waiting, count - self._state.waiting)
            state = self._state
            self._state = BusState(state.connected, state.since, count, state.reason)

    def stored(self, count: int, seconds: float) -> None:
        """So many changes were stored, which took so long."""
        self._add("published", self._published, count)
        self._safely("duration", self._duration.record, seconds, self._attributes)

    def lost(self, place: object) -> None:
        """What happened in between cannot be said; listeners are told at `place`."""
        logger.warning("the bus at %s cannot say what changed before %s: anything may have", self.place, place)
        self._add("losses", self._losses, 1)

    def _set(self, *, connected: bool, reason: str = "") -> None:
        before = self._state
        if connected != before.connected:
            self._add("connected", self._connected, 1 if connected else -1)
        since = before.since if connected == before.connected else self._clock()
        self._state = BusState(connected, since, before.waiting, reason)

    def _add(self, what: str, counter: metrics.Counter | metrics.UpDownCounter, amount: int) -> None:
        self._safely(what, counter.add, amount, self._attributes)

    def _safely(self, what: str, call: Callable[..., Any], *arguments: Any) -> None:
        try:
            call(*arguments)
        except Exception:
            if what not in self._failed:
                self._failed.add(what)
                logger.exception("telemetry failed on %s; this is said once", what)


class NotStored(Exception):
    """A change was not stored in time. `kept`: it still waits, and goes out when it can."""

    def __init__(self, *, kept: bool) -> None:
        super().__init__()
        self.kept = kept


class Held:
    """One distinct change that waits, and those who want to hear where it stands."""

    __slots__ = ("askers", "change")

    def __init__(self, change: Change) -> None:
        self.change = change
        self.askers: dict[asyncio.Future[Cursor], None] = {}

    def stored(self, cursors: Sequence[Cursor]) -> None:
        """It is in the log, at the last of `cursors`. Each asker is told one of its own where there are enough."""
        askers = [asker for asker in self.askers if not asker.done()]
        places = chain(cursors[-len(askers) :], repeat(cursors[-1]))
        for asker, cursor in zip(askers, places, strict=False):
            asker.set_result(cursor)

    def refuse(self, error: Callable[[], Exception]) -> None:
        """Whoever asked gets an error of its own: one that several raise would collect all their tracebacks."""
        for asker in self.askers:
            if not asker.done():
                asker.set_exception(error())


class Waiting:
    """At most `limit` distinct changes. `added` is called whenever there is one more to send."""

    def __init__(self, limit: int, added: Callable[[], None]) -> None:
        if limit < 1:
            raise ValueError(f"There has to be room for at least 1 change, not {limit}")
        self._limit = limit
        self._added = added
        self._held: OrderedDict[Change, Held] = OrderedDict()
        self._under_way: set[Held] = set()
        # One permit for each change in here, under way or not. First come, first served.
        self._room = asyncio.Semaphore(limit)

    def __len__(self) -> int:
        """How many are not known to be stored."""
        return len(self._held) + len(self._under_way)

    @property
    def idle(self) -> bool:
        """Whether there is none to send."""
        return not self._held

    async def put(self, change: Change, seconds: float) -> Cursor:
        """Have `change` stored, and say where it stands.

        Raises:
            NotStored: It was not, within so many `seconds`; or there was no room for it all the time.
        """
        held: Held | None = None
        asker: asyncio.Future[Cursor] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                held = self._held.get(change) or await self._admit(change)
                held.askers[asker] = None
                return await asker
        except TimeoutError:
            raise NotStored(kept=held is not None) from None
        finally:
            if held is not None:
                held.askers.pop(asker, None)

    async def _admit(self, change: Change) -> Held:
        room = self._room
        await room.acquire()
        if room is not self._room:
            # All was cleared: the next who waits for room here is to see that too.
            room.release()
            raise NotStored(kept=False)
        if held := self._held.get(change):
            # An equal one came while this waited for room.
            self._room.release()
            return held
        held = self._held[change] = Held(change)
        self._added()
        return held

    def take(self, most: int) -> list[Held]:
        """The first ones, to be sent now. Each is then either `done` or given back."""
        taken = [self._held.popitem(last=False)[1] for _ in range(min(most, len(self._held)))]
        self._under_way.update(taken)
        return taken

    def done(self, taken: Sequence[Held]) -> None:
        """These are stored."""
        self._under_way.difference_update(taken)
        for _ in taken:
            self._room.release()

    def give_back(self, taken: Sequence[Held]) -> None:
        """These may not be stored: they are the first to go out again."""
        self._under_way.difference_update(taken)
        for held in reversed(taken):
            if later := self._held.get(held.change):
                # Those who have given up take themselves off where they asked, which is not here from now on.
                held.askers = {asker: None for asker in (*held.askers, *later.askers) if not asker.done()}
                self._room.release()
            self._held[held.change] = held
            self._held.move_to_end(held.change, last=False)
        if taken:
            self._added()

    def refuse(self, error: Callable[[], Exception]) -> None:
        """Whoever waits for an answer gets this one. The changes still wait."""
        for held in chain(self._held.values(), self._under_way):
            held.refuse(error)

    def clear(self) -> int:
        """Forget them all; how many there were."""
        lost = len(self)
        self._held.clear()
        self._under_way.clear()
        room, self._room = self._room, asyncio.Semaphore(self._limit)
        room.release()
        return lost
