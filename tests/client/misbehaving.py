"""Web servers that answer what a test says, byte by byte; and a watch that writes down what it is told."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from anyio import fail_after


@dataclass
class Asked:
    """A request, and the way to answer it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    writer: asyncio.StreamWriter

    @property
    def message(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.body)
        return message

    async def write(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def answer(
        self, status: int = 200, body: bytes = b"", kind: str = "application/json", **headers: str
    ) -> None:
        named = {"content-type": kind, "content-length": str(len(body))}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        await self.write(f"HTTP/1.1 {status} Said\r\n{lines}\r\n".encode() + body)

    async def result(self, **result: Any) -> None:
        """Answer the JSON-RPC request that this is."""
        answer = {"jsonrpc": "2.0", "id": self.message.get("id"), "result": result}
        await self.answer(body=json.dumps(answer).encode())

    async def events(self) -> None:
        """Begin a stream of events."""
        await self.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\r\n")

    def reset(self) -> None:
        """Break the connection off: with a reset, not with an end."""
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


@dataclass
class Site:
    """A web server on this machine."""

    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def note(self, asked: Asked) -> None:
        self.asked.append(asked)
        self._more.set()
        self._more = asyncio.Event()

    async def until(self, count: int) -> Asked:
        """The request with this number, the first being 1."""
        with fail_after(10):
            while len(self.asked) < count:
                await self._more.wait()
        return self.asked[count - 1]


class Log:
    """Writes down what `HttpHealth` is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.errors: list[Exception] = []

    def responded(self, call: Any | None, method: str, status: int, *, has_session: bool) -> None:
        self.told.append((call, method, status, has_session))

    def failed(self, call: Any | None, method: str, error: Exception, *, sent: bool) -> None:
        self.told.append((call, method, type(error).__name__, sent))
        self.errors.append(error)

    def asked_to_wait(self, status: int, header: str | None) -> None:
        """Not looked at."""

    def stream_asked(self, method: str, interval: float | None) -> AbstractContextManager[None]:
        """Not looked at."""
        return nullcontext()

    def stream_over(self, method: str, silence: object) -> None:
        """Not looked at."""

    def held_back(self, call: Any | None, *, is_so: bool) -> None:
        """Not looked at."""

    def signing_in(self, call: Any | None, *, busy: bool) -> None:
        """Not looked at."""

    def stream_open(self, call: Any | None, method: str, interval: float | None) -> None:
        self.told.append((call, method, "stream"))


Answer = Callable[[Asked], Awaitable[None]]


@asynccontextmanager
async def site(answer: Answer) -> AsyncGenerator[Site]:
    """A web server that gives each request to `answer`; it may do anything, and whatever fails there ends quietly."""
    here = Site()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (asked := await _read(reader, writer)) is not None:
                here.note(asked)
                await answer(asked)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(reader, writer))
        tasks.add(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    here.port = server.sockets[0].getsockname()[1]
    try:
        yield here
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Asked | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, path, headers, body, writer)
