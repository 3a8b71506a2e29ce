"""A small TCP load balancer, on purpose not a reliable one: it can cut what it carries, and stall."""

import asyncio
import contextlib
import random
from collections.abc import Sequence


class Balancer:
    """Passes each connection on to one of the replicas that are up. A sticky port keeps to one while it lives, as a
    balancer does that looks at the session's id.
    """

    def __init__(self, chance: random.Random) -> None:
        self._random = chance
        self._servers: list[asyncio.Server] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.replicas: Sequence[int] = ()

    async def listen(self, *, sticky: bool) -> int:
        """A new port for clients."""
        chosen: list[int] = []

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            with contextlib.suppress(asyncio.CancelledError):  # The run is over.
                await self._carry(reader, writer, chosen if sticky else [])

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self._servers.append(server)
        return server.sockets[0].getsockname()[1]

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, chosen: list[int]) -> None:
        self._writers.add(writer)
        try:
            there = await self._reach(chosen)
            if there is None:
                return
            self._writers.add(there[1])
            try:
                async with asyncio.TaskGroup() as group:
                    ways = [
                        group.create_task(self._pump(reader, there[1])),
                        group.create_task(self._pump(there[0], writer)),
                    ]
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                    for way in ways:
                        way.cancel()
            finally:
                self._writers.discard(there[1])
                there[1].close()
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _reach(self, chosen: list[int]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for port in [*chosen, *self._random.sample(list(self.replicas), len(self.replicas))]:
            if port in self.replicas:
                with contextlib.suppress(OSError):
                    there = await asyncio.open_connection("127.0.0.1", port)
                    chosen[:] = [port]
                    return there
        return None

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()

    def cut(self, share: float) -> None:
        """Break some of the connections, without a word."""
        for writer in [each for each in self._writers if self._random.random() < share]:
            writer.transport.abort()

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
