"""The short way past uvicorn's `send`: that it brings the same bytes, and when it is not taken."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from tests.server import wire
from tests.server.serving import eventually, live, notes, serving
from tests.server.wire import Era, both_eras, subscribe
from tidings._kit.uvicorn_seam import as_chunk
from tidings.server import LiveServer
from tidings.server.borrowed_stream import BorrowedStream
from tidings.server.http_exchange import Message, Receive, Scope, Send

pytestmark = pytest.mark.anyio

START: Message = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]}
SMALL = 16_384
"""Bytes for the system's buffers on each side, so that a reader that stalls is soon felt."""


class Raw(wire.Connection):
    """A connection that keeps what has come, byte for byte."""

    def __init__(self) -> None:
        super().__init__()
        self.received = b""

    def data_received(self, data: bytes) -> None:
        self.received += data
        super().data_received(data)


def streams_of(mcp: LiveServer[Any]) -> list[BorrowedStream]:
    """The borrowed stream of each subscriber, in the order in which they came."""
    return [subscriber.stream for subscriber in mcp._live._core.hub if subscriber.stream is not None]


async def open_raw(era: Era, port: int, uris: list[str]) -> Raw:
    """A stream of `era`, opened; of the modern one, the acknowledgment has come."""
    connection = await Raw.open(port)
    if era == "modern":
        await connection.stream(wire.listen_request(wire.wanted(uris, []), "the same for all"))
        await connection.next()
        return connection
    session = await wire.Session.start(port)
    for uri in uris:
        await session.subscribe(uri)
    await connection.stream(wire.http("GET", {"Accept": "text/event-stream", **session.headers}))
    return connection


@both_eras
@pytest.mark.parametrize("http", ["httptools", "h11"])
async def test_the_bytes_on_the_wire_are_those_that_send_writes(http: str, era: Era) -> None:
    mcp = notes()
    uris = ["note://a", f"note://{'long' * 1_500}", "note://Ålesund-東京", "note://end"]
    async with serving(mcp.asgi(), http=http) as port:
        short, ordinary = await open_raw(era, port, uris), await open_raw(era, port, uris)
        await eventually(lambda: len(streams_of(mcp)) == 2)
        for stream in streams_of(mcp):
            assert (stream.chunk_taker() is not None) == (http == "httptools")
        streams_of(mcp)[1]._response = None
        before = len(short.received), len(ordinary.received)
        for uri in uris:
            await mcp.notify.resource_updated(uri)
            await anyio.lowlevel.checkpoint()
        for connection in (short, ordinary):
            await connection.until(
                lambda each=connection: "note://end" in map(wire.changed, filter(wire.is_change, each.frames))
            )
        assert short.received[before[0] :] == ordinary.received[before[1] :]
        assert len(short.received) - before[0] > 6_000
        await mcp.aclose()
        await wire.close_all()


@both_eras
async def test_a_full_socket_is_waited_for(era: Era) -> None:
    mcp = notes()
    uris = [f"note://{number}-{'x' * 4_000}" for number in range(80)]
    async with live(mcp, send_buffer=SMALL) as port:
        stalled = await subscribe(era, port, uris, receive_buffer=SMALL)
        [stream] = streams_of(mcp)
        assert stream.chunk_taker() is not None
        stalled.stream.stall()
        for uri in uris:
            await mcp.notify.resource_updated(uri)
            await anyio.lowlevel.checkpoint()
        assert stream.chunk_taker() is None
        # What was handed over before the socket was full, and no more.
        assert stream.unsent < 2 * 65_536
        assert mcp.notify.subscribers()[0].waiting > 0
        stalled.stream.resume()
        assert await stalled.until(uris[-1]) == uris
        assert stream.chunk_taker() is not None


class Page:
    """An app that answers with a stream of events, and shows it."""

    def __init__(self) -> None:
        self.stream: BorrowedStream
        self.send: Send
        self.opened = asyncio.Event()
        self.leave = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
            return
        self.send = send
        self.stream = BorrowedStream(send, receive)
        self.stream.when_started(lambda start: self.opened.set())
        await self.stream.send(START)
        await self.leave.wait()

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[Raw]:
        """The page served to one reader, who has its beginning."""
        async with serving(self) as port:
            try:
                reader = await Raw.open(port)
                await reader.stream(wire.http("GET", {}))
                yield reader
            finally:
                self.leave.set()
                await wire.close_all()


async def test_a_reader_that_is_gone_is_written_to_by_send_which_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    page = Page()
    async with page.read() as reader:
        assert page.stream.chunk_taker() is not None
        reader.abort()
        await eventually(lambda: page.stream.chunk_taker() is None)
        assert page.stream.write(b"event") is None
    assert caplog.records == []


async def test_a_response_that_is_over_is_left_to_send() -> None:
    page = Page()
    async with page.read() as reader:
        await page.stream.send({"type": "http.response.body", "body": b"data: {}\n\n"})
        assert page.stream.chunk_taker() is None
        assert await reader.over() == "end"
        with pytest.raises(RuntimeError, match="after response already completed"):
            page.stream.write(b"event")


async def test_an_empty_write_ends_nothing() -> None:
    """As a chunk it would: one of no length is the last."""
    page = Page()
    async with page.read() as reader:
        assert page.stream.write(b"") is None
        take = page.stream.chunk_taker()
        assert take is not None
        take(as_chunk(b"data: {}\n\n"))
        assert await reader.next() == {}
        assert reader.ended is None


@both_eras
async def test_middleware_sees_every_event(era: Era) -> None:
    mcp, seen = notes(), list[bytes]()
    app = mcp.asgi()

    async def watching(scope: Scope, receive: Receive, send: Send) -> None:
        async def watched(message: Message) -> None:
            seen.append(message.get("body", b""))
            await send(message)

        await app(scope, receive, watched)

    async with serving(watching) as port:
        subscription = await subscribe(era, port, ["note://a"])
        for _ in range(3):
            await mcp.notify.resource_updated("note://a")
            assert wire.changed(await subscription.next()) == "note://a"
        assert [stream.chunk_taker() for stream in streams_of(mcp)] == [None]
        assert len([body for body in seen if b"resources/updated" in body]) == 3
        await mcp.aclose()
        await wire.close_all()
