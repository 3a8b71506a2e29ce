"""Reading again what nobody watches by name: what a subscription to a prefix covers, once it was updated."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

_AT_ONCE: Final = 4
_MOST: Final = 1_000
"""How many wait to be read. Beyond that the oldest are passed over: that they changed is known all the same."""


class Rereader:
    """Reads each of what it is given, a few at a time; what is given twice before its turn, once."""

    def __init__(self, read: Callable[[str], Awaitable[object]]) -> None:
        self._read = read
        self._waiting: dict[str, None] = {}
        self._workers: set[asyncio.Task[None]] = set()

    def want(self, uri: str) -> None:
        """Read this, soon."""
        self._waiting[uri] = None
        if len(self._waiting) > _MOST:
            del self._waiting[next(iter(self._waiting))]
        if len(self._workers) < _AT_ONCE:
            task = asyncio.get_running_loop().create_task(self._work())
            self._workers.add(task)
            task.add_done_callback(self._workers.discard)

    async def _work(self) -> None:
        while self._waiting:
            uri = next(iter(self._waiting))
            del self._waiting[uri]
            await self._read(uri)

    async def aclose(self) -> None:
        """Read nothing more."""
        self._waiting.clear()
        workers = tuple(self._workers)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
