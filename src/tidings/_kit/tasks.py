"""Small parts for asyncio. AnyIO is imported late: commands and workers that need the other parts start without it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Hashable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, TypeVar, cast

logger = logging.getLogger(__name__)

T = TypeVar("T")

Progress = Callable[[int, int | None], Awaitable[None]]  # Receives how much is done, and of how much, if that is known


async def run_to_end(work: Awaitable[T]) -> T:
    """Returns the result of `work`, which runs to its end even if the caller is cancelled: that is raised after it."""
    import anyio  # noqa: PLC0415 - see the module's docstring

    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is None:
        return task.result()
    retrieve(task)
    raise cancelled


def retrieve(ended: "asyncio.Future[Any]") -> None:
    """Looks at the exception of a future that nobody may await, so that asyncio does not complain that nobody did."""
    if not ended.cancelled():
        ended.exception()


class Wakeup:
    """A signal without a value: call it when something changed, and everyone who waits looks again."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    def __call__(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until `condition()` is true, asking again after each call; returns at once if it is."""
        while not condition():
            await self.wait()


class Background:
    """Runs work that nobody awaits: keeps it alive until it is done, and logs what it raises."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._run(work))
        self._tasks.add(task)

        def done(_: object) -> None:
            self._tasks.discard(task)
            work.close()  # It was cancelled before it began, or is over.

        task.add_done_callback(done)

    def cancel(self) -> None:
        """Cancels everything but the work that calls this."""
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()

    async def finished(self) -> None:
        """Waits until everything else that was started is done, what is started meanwhile included."""
        while others := self._tasks - {asyncio.current_task()}:
            await asyncio.wait(others)

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:  # Nobody else would hear of it.
            logger.exception("%s failed", getattr(work, "__qualname__", "work in the background"))


class Users:
    """Counts the users of something that is opened for the first, and closed after the last."""

    def __init__(self, open_: Callable[[], Awaitable[None]], close: Callable[[], Awaitable[None]]) -> None:
        import anyio  # noqa: PLC0415 - see the module's docstring

        self._open, self._close = open_, close
        self._turn = anyio.Lock()  # Not asyncio's, which belongs to one event loop.
        self.count = 0

    async def enter(self) -> None:
        """Adds a user. If opening raises, there is none, and the next one tries again."""
        async with self._turn:
            if not self.count:
                await self._open()
            self.count += 1

    async def leave(self) -> None:
        """Removes a user, even if it leaves because it was cancelled: nothing may stay behind."""
        import anyio  # noqa: PLC0415 - see the module's docstring

        with anyio.CancelScope(shield=True):
            async with self._turn:
                self.count = max(self.count - 1, 0)
                if not self.count:
                    await self._close()


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yields the exceptions in a group of groups, or the exception itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from causes(inner)
    else:
        yield error


class Shared:
    """A context that several tasks use: entered for the first, left after the last, in a task of its own."""

    def __init__(self, context: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        self._context = context
        self._users = Users(self._begin, self._finish)
        self._task: asyncio.Task[None]
        self._enough: asyncio.Event

    @asynccontextmanager
    async def use(self, *_: object) -> AsyncGenerator[None]:
        """Uses the context. If entering it raises, the next user tries again. Arguments are ignored: a `lifespan`."""
        await self._users.enter()
        try:
            yield
        finally:
            await self._users.leave()

    async def _finish(self) -> None:
        self._enough.set()
        await self._task

    async def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[None] = loop.create_future()
        self._enough = asyncio.Event()
        self._task = loop.create_task(self._run(begun, self._enough))
        await asyncio.wait([begun, self._task], return_when=asyncio.FIRST_COMPLETED)
        if not begun.done():
            await self._task

    async def _run(self, begun: "asyncio.Future[None]", enough: asyncio.Event) -> None:
        async with self._context():
            begun.set_result(None)
            await enough.wait()


class _Flight(Generic[T]):
    def __init__(self) -> None:
        self.task: asyncio.Task[T]
        self.waiting = 0
        self.listeners: list[Progress] = []

    async def report(self, done: int, total: int | None) -> None:
        for listener in list(self.listeners):
            await listener(done, total)


class SingleFlight(Generic[T]):
    """Answers the same question once for all who ask at the same time. An answer that nobody awaits is cancelled."""

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[T]] = {}
        self._tasks: set[asyncio.Task[T]] = set()
        self._closed = False

    async def share(
        self, key: Hashable, ask: Callable[[Progress], Awaitable[T]], progress: Progress | None = None
    ) -> T:
        """Returns what `ask` returns, or returned to one with an equal key who waits. `progress` hears of both."""
        if self._closed:
            raise asyncio.CancelledError("closed: no more answers are awaited")
        flight = self._flights.get(key) or self._begin(key, ask)
        flight.waiting += 1
        if progress is not None:
            flight.listeners.append(progress)
        try:
            # A caller that is cancelled leaves; the others go on waiting.
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if progress is not None:
                flight.listeners.remove(progress)
            if flight.waiting == 0:
                flight.task.cancel()
                self._forget(key, flight)

    async def aclose(self) -> None:
        self._closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _begin(self, key: Hashable, ask: Callable[[Progress], Awaitable[T]]) -> _Flight[T]:
        flight: _Flight[T] = _Flight()

        async def run() -> T:
            try:
                return await ask(flight.report)
            finally:
                # Before anyone has the answer: a caller that asks from then on gets a new one.
                self._forget(key, flight)

        flight.task = asyncio.get_running_loop().create_task(run())
        self._flights[key] = flight
        self._tasks.add(flight.task)
        flight.task.add_done_callback(self._ended)
        return flight

    def _forget(self, key: Hashable, flight: _Flight[T]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]

    def _ended(self, task: asyncio.Task[T]) -> None:
        self._tasks.discard(task)
        retrieve(task)
