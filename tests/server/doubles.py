"""What the unit tests of the server share: a subscriber whose stream a test controls, and time that a test moves."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tidings.changes import Change, Cursor, ResourceUpdated
from tidings.errors import TidingsError
from tidings.server.borrowed_stream import BorrowedStream
from tidings.server.config import Limits
from tidings.server.subscriber import Feature, Frame, Screen, Subscriber

LIMITS = Limits()


class Reader(Subscriber):
    """A subscriber that remembers what was written to it, and takes it at once or when a test says so."""

    era = "test"

    def __init__(
        self,
        *subscriptions: str,
        features: Sequence[Feature] = (),
        limits: Limits = LIMITS,
        screen: Screen | None = None,
        client: str = "reader",
        cuttable: bool = True,
    ) -> None:
        super().__init__(
            client=client,
            principal=None,
            transport="memory",
            features=frozenset(features),
            subscriptions=set(subscriptions),
            limits=limits,
            screen=screen,
        )
        self.batches: list[list[Frame]] = []
        self.events: list[str] = []
        self.stalls = False
        self.breaks: Exception | None = None
        self.under_way: asyncio.Future[None] | None = None
        self._cuttable = cuttable
        self._encoded: list[Frame] = []
        self.stream = cast("BorrowedStream", self)

    def _forbidden(self, subscription: str) -> None:
        self.events.append(f"forbidden {subscription}")

    def write(self, data: bytes) -> asyncio.Future[None] | None:
        """The borrowed stream's part: take a write now, or when a test says so."""
        if not data:
            return None
        if self.breaks is not None:
            raise self.breaks
        self.batches.append([self._encoded[int(number)] for number in data.split()])
        if not self.stalls:
            return None
        self.under_way = asyncio.get_running_loop().create_future()
        return self.under_way

    def chunk_taker(self) -> None:
        """No web server is under this stream."""

    def drop(self) -> None:
        """Nor does one hold the rest of it."""

    unsent = 0

    def _encode(self, frame: Frame) -> bytes:
        self._encoded.append(frame)
        return b"%d " % (len(self._encoded) - 1)

    async def _notify(self, frames: Sequence[Frame]) -> None:
        """The SDK session's part, which is used where a test takes the stream away."""
        for frame in frames:
            if (writing := self.write(self._encode(frame))) is not None:
                await writing

    def _cut(self) -> None:
        self.events.append("cut")

    def end(self, reason: TidingsError | None = None) -> None:
        self.events.append("end")

    @property
    def can_cut(self) -> bool:
        return self._cuttable

    async def take(self) -> None:
        """Read what is being written."""
        assert self.under_way is not None
        self.under_way.set_result(None)
        await turns()

    @property
    def written(self) -> list[Change]:
        return [frame.change for batch in self.batches for frame in batch]

    @property
    def uris(self) -> list[str]:
        return [change.uri for change in self.written if isinstance(change, ResourceUpdated)]

    @property
    def versions(self) -> list[int]:
        return [frame.place.version for batch in self.batches for frame in batch]


class Log:
    """Makes frames under rising versions, as a bus does."""

    def __init__(self) -> None:
        self._versions = itertools.count(1)

    def frame(self, change: Change | str) -> Frame:
        change = ResourceUpdated(change) if isinstance(change, str) else change
        place = Cursor("log", next(self._versions))
        return Frame(place, change, str(place))


class Timer:
    def __init__(self, when: float, call: Callable[[], object]) -> None:
        self.when = when
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Clock:
    """Time that passes when a test says so."""

    def __init__(self, now: float = 1_000.0) -> None:
        self._now = now
        self._timers: list[Timer] = []

    def time(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Callable[[], object], /) -> Timer:
        self._timers.append(timer := Timer(when, callback))
        return timer

    @property
    def pending(self) -> list[float]:
        """How long from now each timer has to go."""
        return sorted(timer.when - self._now for timer in self._timers if not timer.cancelled)

    async def advance_to(self, until: float) -> None:
        """Let time pass; what falls due on the way is called at its own time, and may run before time goes on."""
        while due := [timer for timer in self._timers if timer.when <= until and not timer.cancelled]:
            timer = min(due, key=lambda timer: timer.when)
            self._timers.remove(timer)
            self._now = max(self._now, timer.when)
            timer.call()
            await turns()
        self._now = until

    async def advance(self, seconds: float) -> None:
        await self.advance_to(self._now + seconds)


@pytest.fixture
async def loop_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Whatever asks the event loop to be called later waits for this clock."""
    clock = Clock()

    def call_later(delay: float, callback: Callable[..., object], *arguments: Any, **_: Any) -> Timer:
        return clock.call_at(clock.time() + delay, lambda: callback(*arguments))

    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", call_later)
    return clock


@asynccontextmanager
async def running(call: Callable[[], Awaitable[object]]) -> AsyncGenerator[asyncio.Event]:
    """`call` under way beside the body; the event is set when it is done."""
    done = asyncio.Event()

    async def run() -> None:
        await call()
        done.set()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await turns()
            yield done
            tasks.cancel_scope.cancel()


async def turns(count: int = 10) -> None:
    """Let everything run that can."""
    for _ in range(count):
        await checkpoint()
