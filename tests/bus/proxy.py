"""A way to a server that can be cut, refused, stalled and slowed: what networks do to brokers."""

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

RESET = struct.pack("ii", 1, 0)


class Proxy:
    """Passes on, byte for byte, what comes to `port` to the server at `target`, and back."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.delay = 0.0
        """Seconds for which each piece of data is held back, in both directions."""
        self.accepted = 0
        """How many connections there were so far."""
        self.refusing = False
        """New connections are reset at once."""
        self._flows = asyncio.Event()
        self._flows.set()
        self._ends: set[asyncio.StreamWriter] = set()
        self._listener: asyncio.Server | None = None

    @property
    def port(self) -> int:
        assert self._listener is not None
        return self._listener.sockets[0].getsockname()[1]

    @property
    def connections(self) -> int:
        """How many are open now."""
        return len(self._ends) // 2

    def cut(self) -> None:
        """Reset all connections. New ones are taken, unless they are refused."""
        for end in tuple(self._ends):
            _reset(end)

    def stall(self) -> None:
        """Let nothing through any more. Connections stay open, and new ones are taken."""
        self._flows.clear()

    def flow(self) -> None:
        """Let everything through again, what was held back first."""
        self._flows.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            if self.refusing:
                raise ConnectionRefusedError
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            _reset(writer)
            return
        ends = (writer, far_writer)
        self._ends.update(ends)
        try:
            # When one side ends, the other does.
            pumps = [
                asyncio.create_task(self._pump(reader, far_writer)),
                asyncio.create_task(self._pump(far_reader, writer)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.wait(pumps)
        finally:
            self._ends.difference_update(ends)
            for end in ends:
                end.close()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                if self.delay:
                    await asyncio.sleep(self.delay)
                await self._flows.wait()
                sink.write(data)
                await sink.drain()


def _reset(end: asyncio.StreamWriter) -> None:
    connection = end.get_extra_info("socket")
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    end.transport.abort()


@asynccontextmanager
async def proxy_to(target: int) -> AsyncGenerator[Proxy]:
    """A proxy to the server on the port `target` of this machine, gone at the end with all its connections."""
    proxy = Proxy(target)
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        task.add_done_callback(serving.discard)
        await proxy._serve(reader, writer)

    proxy._listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield proxy
    finally:
        proxy._listener.close()
        proxy.cut()
        proxy.flow()
        if serving:
            await asyncio.wait(serving, timeout=5)
