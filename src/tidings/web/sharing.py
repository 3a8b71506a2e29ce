"""The same question, asked by several at once, is answered once."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

Progress = Callable[[int, int | None], Awaitable[None]]
"""Told how many bytes have come, and of how many if that is known; equal when all are here."""


class _Flight(Generic[T]):
    def __init__(self) -> None:
        self.task: asyncio.Task[T]
        self.waiting = 0
        self.listeners: list[Progress] = []

    async def tell(self, done: int, whole: int | None) -> None:
        for listener in list(self.listeners):
            await listener(done, whole)


class SingleFlight(Generic[T]):
    """Answers on their way. One that nobody waits for any more is given up."""

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[T]] = {}
        self._tasks: set[asyncio.Task[T]] = set()
        self._closed = False

    async def share(self, key: Hashable, ask: Callable[[Progress], Awaitable[T]], progress: Progress | None) -> T:
        """What `ask` answers, or what it answers to whoever asked for the same `key` before and still waits.

        Given up, it is cancelled, as is who asks after that.
        """
        if self._closed:
            raise asyncio.CancelledError("what is on its way was given up")
        flight = self._flights.get(key) or self._begin(key, ask)
        flight.waiting += 1
        if progress is not None:
            flight.listeners.append(progress)
        try:
            # Whoever is cancelled leaves; the others go on waiting.
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if progress is not None:
                flight.listeners.remove(progress)
            if flight.waiting == 0:
                flight.task.cancel()
                self._forget(key, flight)

    async def aclose(self) -> None:
        """Give up what is on its way, and begin nothing more."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _begin(self, key: Hashable, ask: Callable[[Progress], Awaitable[T]]) -> _Flight[T]:
        flight: _Flight[T] = _Flight()

        async def run() -> T:
            try:
                return await ask(flight.tell)
            finally:
                # Before anybody hears the answer: who asks from then on gets one of their own.
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
        if not task.cancelled():
            task.exception()  # Looked at, for nobody else may be left to do so.
