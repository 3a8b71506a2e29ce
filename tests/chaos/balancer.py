"""A small TCP load balancer, on purpose not a reliable one: it can cut what it carries, swallow it, and stall."""

import asyncio
import contextlib
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(eq=False)
class Line:
    """One connection that the balancer carries."""

    port: int
    is_stream: bool = False
    is_swallowed: bool = False
    dead_since: float | None = None
    """The time at which it fell silent for good, though it is open."""

    def carries(self, data: bytes) -> None:
        """Takes note of what a client asks for: it may be a stream of changes."""
        is_old = data.startswith(b"GET ")
        if is_old or data.startswith((b"POST ", b"DELETE ")):
            self.is_stream = is_old or b"mcp-method: subscriptions/listen" in data[:2000].lower()


class Balancer:
    """Passes each connection on to any one of the replicas that are up."""

    def __init__(self, chance: random.Random) -> None:
        self._random = chance
        self._servers: list[asyncio.Server] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._lines: set[Line] = set()
        self.slowest = 0.0
        """The longest time that a client took to let go of a stream that was silent for good."""
        self.replicas: Sequence[int] = ()

    async def listen(self) -> int:
        """A new port for clients."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            with contextlib.suppress(asyncio.CancelledError):  # The run is over.
                await self._carry(reader, writer)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self._servers.append(server)
        return server.sockets[0].getsockname()[1]

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            there = await self._reach()
            if there is None:
                return
            self._writers.add(there[1])
            line = Line(there[1].get_extra_info("peername")[1])
            self._lines.add(line)
            try:
                async with asyncio.TaskGroup() as group:
                    ways = [
                        group.create_task(self._pump(line, reader, there[1])),
                        group.create_task(self._pump(line, there[0], writer, is_answer=True)),
                    ]
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                    for way in ways:
                        way.cancel()
            finally:
                self._lines.discard(line)
                if line.dead_since is not None:
                    self.slowest = max(self.slowest, time.monotonic() - line.dead_since)
                self._writers.discard(there[1])
                there[1].close()
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for port in self._random.sample(list(self.replicas), len(self.replicas)):
            with contextlib.suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", port)
        return None

    async def _pump(
        self, line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool = False
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                await self._flowing.wait()
                if not is_answer:
                    line.carries(data)
                if not line.is_swallowed:
                    writer.write(data)
                    await writer.drain()
        if is_answer and line.is_swallowed:
            await asyncio.Event().wait()  # Nobody is told of the end, either.

    def cut(self, share: float) -> None:
        """Break some of the connections, without a word."""
        for writer in [each for each in self._writers if self._random.random() < share]:
            writer.transport.abort()

    def swallow(self, share: float) -> None:
        """Let all that some streams carry vanish from now on, in both directions, and keep them open."""
        for line in [each for each in self._lines if each.is_stream and self._random.random() < share]:
            line.is_swallowed = True
            line.dead_since = line.dead_since or time.monotonic()

    def hung(self, port: int) -> None:
        """Takes note that a replica hangs: its streams are dead, and open."""
        for line in self._lines:
            if line.port == port and line.is_stream:
                line.dead_since = line.dead_since or time.monotonic()

    @property
    def dead(self) -> int:
        """The number of streams that are silent for good, and that no client has let go of."""
        return sum(line.dead_since is not None for line in self._lines)

    async def stall(self, seconds: float) -> None:
        """Carry nothing for a while."""
        self._flowing.clear()
        await asyncio.sleep(seconds)
        self._flowing.set()

    async def aclose(self) -> None:
        self._flowing.set()
        for server in self._servers:
            server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
