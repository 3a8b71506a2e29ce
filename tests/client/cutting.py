"""A cable to a server on this machine, which a test cuts, mends and stops up."""

import asyncio
import ctypes
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

_SO_ATTACH_FILTER = 26


class Cut:
    """A cable to a server on this machine: it can be cut, and mended, and count what goes through."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._server: asyncio.Server | None = None
        self._writers: dict[asyncio.StreamWriter, asyncio.StreamWriter] = {}
        """The end here of each connection, by both its ends."""
        self._said: dict[asyncio.StreamWriter, bytes] = {}
        """The last that was said from here."""
        self._pumps: set[asyncio.Task[None]] = set()
        self._flows = anyio.Event()
        self._flows.set()
        self.port = 0

    @property
    def url(self) -> str:
        """Its other end."""
        return f"http://127.0.0.1:{self.port}/mcp"

    async def mend(self) -> None:
        """Let connections through."""
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self, *, refuse: bool = True) -> None:
        """Break every connection; and, unless told otherwise, refuse new ones."""
        if refuse and self._server is not None:
            self._server.close()
            self._server = None
        self.thaw()
        for writer in tuple(self._writers):
            writer.transport.abort()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    def cut_one(self, words: bytes) -> None:
        """Break the one connection on which these words were the last from here."""
        (writer,) = [writer for writer, said in self._said.items() if words in said]
        writer.transport.abort()

    def freeze(self) -> None:
        """Carry nothing any more, and let nobody notice."""
        self._flows = anyio.Event()

    def swallow(self) -> None:
        """Lose every packet from here, as a network does that is gone: nobody even acknowledges one. Linux only."""
        listening = () if self._server is None else self._server.sockets
        for each in (*listening, *(writer.get_extra_info("socket") for writer in set(self._writers.values()))):
            nothing = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))  # A filter: keep 0 bytes of each.
            each.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(nothing)))

    def thaw(self) -> None:
        """Carry on."""
        self._flows.set()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, onward = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers |= {writer: writer, onward: writer}
        for source, sink in ((reader, onward), (there, writer)):
            pump = asyncio.create_task(self._pump(source, sink))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                await self._flows.wait()
                if sink is not self._writers[sink]:
                    self._said[self._writers[sink]] = data
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            self._said.pop(self._writers.pop(sink), None)
            sink.close()


@asynccontextmanager
async def cable(url: str) -> AsyncGenerator[Cut]:
    """A cable to what is at `url`."""
    cut = Cut(int(url.split(":")[2].split("/", maxsplit=1)[0]))
    await cut.mend()
    try:
        yield cut
    finally:
        await cut.cut()
