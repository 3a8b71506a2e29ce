"""Many live clients on one server, in one process: when each plans to come back, and when each is fresh."""

import asyncio
import contextlib
from bisect import bisect_left
from collections.abc import Sequence

from tidings.client import Backoff, ClientConfig, connect, events

CLUMP = 0.25
"""Seconds within which attempts count as one clump."""
CONFIG = ClientConfig(backoff=Backoff(tries=None))
"""The pauses are the default ones. A first connection is tried without end: a thousand take their time."""
AT_ONCE = 20
"""Clients that connect at the same time at first."""


class Crowd:
    """Clients with default settings, each of which watches one resource."""

    def __init__(self, url: str, clients: int) -> None:
        self._url = url
        self._clients = clients
        self._texts: dict[int, str] = {}
        self._news = asyncio.Event()
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._tasks = [asyncio.create_task(self._keep(number)) for number in range(clients)]
        self.attempts: list[float] = []

    async def _keep(self, number: int) -> None:
        uri = f"bench://crowd/{number}"
        await self._gate.acquire()
        async with connect(self._url, config=CONFIG) as client:
            client.on(events.StateChanged, self._note)
            async for read in client.watch(uri):
                if number not in self._texts:
                    self._gate.release()
                self._texts[number] = read.text
                self._news.set()

    def _note(self, event: events.StateChanged) -> None:
        # As planned: clients in one process, on a busy machine, would seem to clump when it gets its turn.
        if event.next_retry is not None:
            self.attempts.append(event.next_retry.timestamp())

    async def fresh(self, pid: int) -> None:
        """Waits until each copy is one of this server."""
        while sum(text.startswith(f"{pid} ") for text in self._texts.values()) < self._clients:
            for task in self._tasks:
                if task.done():
                    task.result()
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await self._news.wait()


def largest_clump(times: Sequence[float]) -> int:
    """Returns the largest number of times within `CLUMP` seconds."""
    ordered = sorted(times)
    return max((bisect_left(ordered, at + CLUMP) - place for place, at in enumerate(ordered)), default=0)
