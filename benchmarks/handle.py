"""A process that has a bus open: told what to publish, asked what it heard and when, by the clock that all share."""

import asyncio
import random
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from benchmarks import raw
from benchmarks.control import Control, take_stdout
from tidings import LiveServer
from tidings.bus import Bus
from tidings.bus.urls import bus_from_url
from tidings.changes import Change, Cursor, ResourceUpdated


class Handle:
    """The commands."""

    def __init__(self, url: str, bus: Bus) -> None:
        self._url, self._bus = url, bus
        self._heard: dict[str, float] = {}
        self._more = asyncio.Event()
        bus.subscribe(self._hear)

    @property
    def handlers(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("paced", "heard", "storm", "notify_storm", "raw_storm", "since")}

    def _hear(self, cursor: Cursor, change: Change | None) -> None:
        if isinstance(change, ResourceUpdated):
            self._heard[change.uri] = time.monotonic()
            self._more.set()

    async def paced(self, uris: list[str], pause: float) -> dict[str, Any]:
        """Publish one after the other, with pauses of random length, so that they meet no rhythm of the other side."""
        began: dict[str, float] = {}
        for uri in uris:
            began[uri] = time.monotonic()
            await self._bus.publish(ResourceUpdated(uri))
            await asyncio.sleep(random.uniform(0.5, 1.5) * pause)
        return {"began": began}

    async def heard(self, uris: list[str], within: float = 20) -> dict[str, Any]:
        """When each was heard, once all were."""
        async with asyncio.timeout(within):
            while not self._heard.keys() >= set(uris):
                self._more.clear()
                await self._more.wait()
        return {"heard": {uri: self._heard[uri] for uri in uris}}

    async def notify_storm(self, uris: list[str], updates: int, publishers: int) -> dict[str, Any]:
        """The same through `notify` of a server with default merging, which stores each change before it returns."""
        server: LiveServer[Any] = LiveServer("bench", bus=self._bus, log_level="ERROR")
        async with server._live.running():  # pyright: ignore[reportPrivateUsage]
            return await self._storm(server.notify.publish, uris, updates, publishers)

    async def raw_storm(self, uris: list[str], updates: int, publishers: int) -> dict[str, Any]:
        """The same with the engine's own driver, without a bus."""
        seconds, cpu = await raw.storm(self._url, uris, updates, publishers)
        return {"seconds": seconds, "cpu": cpu}

    async def storm(self, uris: list[str], updates: int, publishers: int) -> dict[str, Any]:
        """Publish `updates`, going round `uris`, so many at the same time. No two of those are equal."""
        return await self._storm(self._bus.publish, uris, updates, publishers)

    async def _storm(
        self, give: Callable[[Change], Awaitable[object]], uris: list[str], updates: int, publishers: int
    ) -> dict[str, Any]:
        before = self._bus.head
        numbers = iter(range(updates))

        async def publish() -> None:
            for number in numbers:
                await give(ResourceUpdated(uris[number % len(uris)]))

        start, cpu = time.monotonic(), time.process_time()
        await asyncio.gather(*(publish() for _ in range(publishers)))
        seconds, used = time.monotonic() - start, time.process_time() - cpu
        return {"before": str(before), "head": str(self._bus.head), "seconds": seconds, "cpu": used}

    async def since(self, cursor: str, times: int) -> dict[str, Any]:
        """What changed since, asked by processes that have just come: the median time, and how many changes."""
        place = Cursor.parse(cursor)
        assert place is not None
        took: list[float] = []
        found: set[int] = set()
        for _ in range(times):
            # A handle of its own each time: one that has listened may have the answer in its memory.
            bus = self._bus if self._url == "memory:" else bus_from_url(self._url)
            async with bus:
                start = time.monotonic()
                entries = await bus.since(place)
                took.append(time.monotonic() - start)
            found.add(-1 if entries is None else len(entries))
        return {"seconds": statistics.median(took), "found": sorted(found)}


async def main(url: str) -> None:
    answers = take_stdout()
    async with bus_from_url(url) as bus:
        control = Control(answers, Handle(url, bus).handlers)
        control.tell({})
        await control.run()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
