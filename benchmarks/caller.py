"""The client process: the SDK's client and the live one on one event loop, asking the same server the same things.

Its CPU time is read inside it, around a handful of requests; the server is another process.
"""

import asyncio
import gc
import logging
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client, StdioServerParameters
from mcp_types import TextResourceContents

from benchmarks.control import Control, raise_open_files, take_stdout
from benchmarks.copies import COPIES, Copies, LiveCopies
from benchmarks.crowd import Crowd, largest_clump
from benchmarks.process import ROOT
from tidings.client import LiveClient, connect

MICRO = 1e6
COMMAND = (sys.executable, "-m", "benchmarks.callee")
READ = "bench://read"
WARM_UP = 100

Ask = Callable[[int], Awaitable[object]]
"""Sends a request, and returns of the answer what differs from one number to the next."""


def url(port: int) -> str:
    return f"http://127.0.0.1:{port}/mcp"


@asynccontextmanager
async def both(transport: str, era: str, port: int) -> AsyncGenerator[tuple[Client, LiveClient]]:
    """Both clients, as they come, connected to the same server; over stdio, each to one of its own."""
    if transport == "stdio":
        sdk = Client(StdioServerParameters(command=COMMAND[0], args=list(COMMAND[1:]), cwd=ROOT), mode=era)
        live = connect(COMMAND, era=era, cwd=ROOT)
    else:
        sdk, live = Client(url(port), mode=era), connect(url(port), era=era)
    async with sdk, live:
        # A client that knows the tools checks what they return: so both must know them.
        await sdk.list_tools()
        await live.list_tools()
        yield sdk, live


def calls(sdk: Client, live: LiveClient) -> tuple[Ask, Ask]:
    async def sdk_call(number: int) -> object:
        result = await sdk.call_tool("add", {"a": number, "b": 1})
        return result.structured_content

    async def live_call(number: int) -> object:
        call = await live.call_tool("add", {"a": number, "b": 1})
        return call.result and call.result.structured_content

    return sdk_call, live_call


def reads(sdk: Client, live: LiveClient) -> tuple[Ask, Ask]:
    async def sdk_read(_: int) -> object:
        (content,) = (await sdk.read_resource(READ)).contents
        return isinstance(content, TextResourceContents) and content.text.split()[1]

    async def live_read(_: int) -> object:
        return (await live.read_resource(READ)).text.split()[1]

    return sdk_read, live_read


KINDS: dict[str, tuple[Callable[[Client, LiveClient], tuple[Ask, Ask]], Callable[[int], object]]] = {
    "calls": (calls, lambda number: {"result": number + 1}),
    "reads": (reads, lambda _: "0"),
}
"""How each client asks, and what the answer must be."""


async def cost(ask: Ask, times: int, expected: Callable[[int], object]) -> float:
    """CPU microseconds of this process for each request."""
    # What is left over from the requests before, such as the end of a task, is theirs.
    await asyncio.sleep(0.001)
    before = time.process_time()
    for number in range(times):
        answer = await ask(number)
        if answer != expected(number):
            raise ValueError(f"the answer is {answer!r}, not {expected(number)!r}")
    return (time.process_time() - before) / times * MICRO


class Caller:
    """The commands."""

    def __init__(self) -> None:
        self._copies: Copies
        self._crowd: Crowd

    @property
    def handlers(self) -> dict[str, Any]:
        commands = (self.compare, self.hits, self.keep, self.listeners, self.usage, self.reach, self.back)
        commands += (self.crowd, self.crowd_back)
        return {command.__name__: command for command in commands}

    async def compare(
        self, *, kind: str, transport: str, era: str, port: int, times: int, pairs: int
    ) -> dict[str, Any]:
        """What a request costs each client: blocks of `times`, in turn, so that neighbours can be compared."""
        make, expected = KINDS[kind]
        async with both(transport, era, port) as clients:
            sides = dict(zip(("sdk", "tidings"), make(*clients), strict=True))
            for ask in sides.values():
                await cost(ask, WARM_UP, expected)
            gc.collect()
            gc.freeze()  # What was made once, with the clients, is not gone through during the requests.
            samples: dict[str, list[float]] = {side: [] for side in sides}
            for pair in range(pairs):
                # Each is first as often as the other.
                for side in sorted(sides, reverse=bool(pair % 2)):
                    samples[side].append(await cost(sides[side], times, expected))
        gc.unfreeze()
        return samples

    async def hits(self, port: int, times: int, rounds: int) -> dict[str, Any]:
        """CPU microseconds for content that is in the cache, in each of several rounds."""
        async with connect(url(port)) as live:
            read = await live.read_resource(READ)
            samples: list[float] = []
            for _ in range(rounds):
                before = time.process_time()
                for _ in range(times):
                    live.cache.get_resource(READ)
                samples.append((time.process_time() - before) / times * MICRO)
            assert live.cache.get_resource(READ) is read
        return {"tidings": samples}

    async def keep(self, side: str, port: int, uris: list[str]) -> dict[str, Any]:
        """Keep copies of these resources from now on; returns once they are there."""
        self._copies = COPIES[side](url(port), uris)
        await self._copies.until(lambda: len(self._copies.texts) == len(uris))
        return {"ended": self._copies.ended}

    async def listeners(self) -> dict[str, Any]:
        """How many streams and sessions the server counts."""
        assert isinstance(self._copies, LiveCopies)
        await self._copies.settle()
        await asyncio.sleep(0.5)  # The stream that a wider one has replaced may be closing yet.
        call = await self._copies.client.call_tool("listeners")
        assert call.result
        assert call.result.structured_content
        return {"listeners": call.result.structured_content["result"]}

    async def usage(self) -> dict[str, Any]:
        return {"cpu": time.process_time(), "arrived": self._copies.arrived}

    async def reach(self, goal: int) -> dict[str, Any]:
        """Wait until so many texts have arrived in all."""
        await self._copies.until(lambda: self._copies.arrived >= goal)
        return await self.usage()

    async def back(self, pid: int, within: float) -> dict[str, Any]:
        """Wait until every copy is one of this process's, and known to be; says when that was, and how many are."""

        def fresh() -> int:
            return sum(text.startswith(f"{pid} ") for text in self._copies.texts.values())

        try:
            async with asyncio.timeout(within):
                await self._copies.until(lambda: fresh() == len(self._copies.uris))
                await self._copies.settle()
        except TimeoutError:
            pass
        return {"at": time.monotonic(), "fresh": fresh(), "ended": self._copies.ended}

    async def crowd(self, port: int, clients: int, pid: int) -> dict[str, Any]:
        """Connect so many clients; returns once each has its copy."""
        raise_open_files()
        self._crowd = Crowd(url(port), clients)
        before = time.process_time()
        await self._crowd.fresh(pid)
        return {"cpu": time.process_time() - before}

    async def crowd_back(self, pid: int, up: float) -> dict[str, Any]:
        """Wait until each copy is of this process; says when, and how attempts clump: all, and those after `up`."""
        before = time.process_time()
        await self._crowd.fresh(pid)
        attempts, self._crowd.attempts = self._crowd.attempts, []
        clumps = largest_clump(attempts), largest_clump([at for at in attempts if at >= up])
        return {"at": time.monotonic(), "clumps": clumps, "cpu": time.process_time() - before}


async def main() -> None:
    control = Control(take_stdout(), Caller().handlers)
    logging.disable(logging.ERROR)
    control.tell({"ready": True})
    await control.run()


if __name__ == "__main__":
    asyncio.run(main())
