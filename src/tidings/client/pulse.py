"""Waiting for something to become true."""

import asyncio
from collections.abc import Callable


class Wakeup:
    """A signal without a value: whoever waits looks again at what they wait for."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    def __call__(self) -> None:
        """Something changed."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def wait(self) -> None:
        """Wait for the next change."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until `true()`; at once if it is."""
        while not true():
            await self.wait()
