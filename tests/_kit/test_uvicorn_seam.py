"""What Tidings uses of uvicorn that uvicorn does not promise to keep.

When a test fails after an upgrade, the table at the top of `uvicorn_seam.py` says what is lost.
"""

import asyncio
import logging
import multiprocessing
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import uvicorn
from uvicorn._subprocess import get_subprocess
from uvicorn.protocols.http import h11_impl

from tidings._kit import uvicorn_seam
from tidings._kit.uvicorn_seam import (
    HttpServer,
    UvicornChanged,
    as_chunk,
    begun,
    chunk_taker,
    chunked_response,
    is_servers_own,
    transport_under,
    worker_count,
)

pytestmark = pytest.mark.anyio

START = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]}
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
QUIET: dict[str, Any] = {"lifespan": "off", "log_config": None, "access_log": False}


async def hello(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


@asynccontextmanager
async def served(app: Any, **options: Any) -> AsyncGenerator[tuple[HttpServer, int]]:
    listening = socket.create_server(("127.0.0.1", 0))
    server = HttpServer(app, **QUIET, **options)
    serving = asyncio.create_task(server.serve(listening))
    try:
        yield server, listening.getsockname()[1]
    finally:
        server.stop(at_once=True)
        with anyio.fail_after(20):
            await serving


@asynccontextmanager
async def connected(port: int) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


# Serving


async def test_an_app_is_served_on_a_socket_and_signals_are_left_alone() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    async with served(hello) as (_, port), connected(port) as (reader, writer):
        writer.write(REQUEST)
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        assert {number: signal.getsignal(number) for number in before} == before


async def test_signals_can_be_uvicorns() -> None:
    before = signal.getsignal(signal.SIGTERM)
    async with served(hello, handle_signals=True) as (_, port), connected(port) as (reader, writer):
        writer.write(REQUEST)
        await reader.readline()
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


async def test_a_stop_waits_for_requests_and_a_second_one_does_not() -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        entered.set()
        await leave.wait()
        await hello(scope, receive, send)

    listening = socket.create_server(("127.0.0.1", 0))
    server = HttpServer(slow, **QUIET, timeout_graceful_shutdown=None)
    serving = asyncio.create_task(server.serve(listening))
    with anyio.fail_after(20):
        async with connected(listening.getsockname()[1]) as (_, writer):
            writer.write(REQUEST)
            await entered.wait()
            server.stop()
            done, _ = await asyncio.wait([serving], timeout=0.3)
            assert not done
            server.stop(at_once=True)
            await serving
            leave.set()


async def test_a_server_that_cannot_start_exits() -> None:
    async def broken(_scope: Any, _receive: Any, _send: Any) -> None:
        raise OSError("no fuel")

    server = HttpServer(broken, lifespan="on", log_config=None, log_level="critical")
    listening = socket.create_server(("127.0.0.1", 0))
    with pytest.raises(SystemExit):
        await server.serve(listening)
    listening.close()


def test_a_uvicorn_that_would_take_the_signals_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(uvicorn.Server, "capture_signals")
    HttpServer(hello, handle_signals=True)
    with pytest.raises(UvicornChanged, match=r"capture_signals.*Install a version"):
        HttpServer(hello)


# Slow senders


@pytest.mark.parametrize(
    "half", [b"", b"GET / HTTP/1.1\r\nHo", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"]
)
async def test_a_client_that_sends_half_a_request_is_hung_up_on(half: bytes) -> None:
    async def reading(_scope: Any, receive: Any, _send: Any) -> None:
        while (await receive()).get("more_body"):
            pass

    async with served(reading, patience=0.1) as (_, port), connected(port) as (reader, writer):
        writer.write(half)
        with anyio.fail_after(20), suppress(ConnectionError):
            assert not await reader.read()


HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"


async def read_body(_scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await hello(_scope, receive, send)


@pytest.mark.parametrize(
    ("start", "endless"),
    [
        (b"GET /", b"x" * 1000),
        (HEAD + b"X: ", b"x" * 1000),
        (HEAD, b"X: x\r\n" * 100),
        (HEAD + b"\r\n0\r\n", b"X: x\r\n" * 100),
        (HEAD + b"\r\n1;x=", b"x" * 1000),
    ],
    ids=["address", "header", "headers", "trailers", "extension of a chunk"],
)
async def test_a_client_that_sends_headers_without_end_is_hung_up_on(start: bytes, endless: bytes) -> None:
    async with served(read_body) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(start)
        sent = 0
        with anyio.fail_after(20), suppress(ConnectionError):
            while not reader.at_eof() and sent < 10_000_000:
                writer.write(endless)
                await writer.drain()
                await anyio.lowlevel.checkpoint()
                sent += len(endless)
        assert sent < 10_000_000
        writer.close()


async def test_a_request_with_many_headers_and_a_long_body_is_served() -> None:
    async with served(read_body) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):  # On one connection.
            writer.write(HEAD + b"X-Long: " + b"x" * 50_000 + b"\r\n\r\n")
            for _ in range(100):
                writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
                await writer.drain()
            writer.write(b"0\r\n\r\n")
            with anyio.fail_after(20):
                assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_a_client_that_waits_for_its_answer_is_not() -> None:
    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.3)
        await hello(scope, receive, send)

    async with served(slow, patience=0.1) as (_, port), connected(port) as (reader, writer):
        with anyio.fail_after(20):
            writer.write(REQUEST)
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"


async def test_without_uvicorns_state_everybody_is_served_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(uvicorn_seam, "_PROTOCOL_STATE", attrgetter("conn.renamed"))
    with caplog.at_level(logging.WARNING):
        async with served(hello, patience=0.01) as (_, port), connected(port) as (reader, writer):
            await asyncio.sleep(0.1)
            writer.write(REQUEST)
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
    assert "hides its state" in caplog.text


async def test_without_uvicorns_protocol_its_own_choice_serves_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patched:
        patched.delattr(h11_impl, "H11Protocol")
        assert uvicorn_seam._patient_protocol(1.0) == "auto"
    assert "has no H11Protocol" in caplog.text


# The short way past `send`


@asynccontextmanager
async def opened(http: str) -> AsyncGenerator[Any]:
    """Yields the object that uvicorn's `send` belongs to, in a request whose response has begun and is chunked."""
    found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        found.set_result(send.__self__)
        while (await receive())["type"] != "http.disconnect":
            pass

    async with served(app, http=http) as (_, port), connected(port) as (_, writer):
        writer.write(REQUEST)
        with anyio.fail_after(20):
            yield await found


@pytest.mark.parametrize("http", ["httptools", "h11"])
async def test_send_belongs_to_the_protocol_and_shows_the_transport(http: str) -> None:
    async with opened(http) as cycle:
        assert is_servers_own(cycle.send)
        assert transport_under(cycle.send) is cycle.transport
        assert (chunked_response(cycle.send) is cycle) is (http == "httptools")


async def test_a_response_of_httptools_shows_the_state_that_decides_what_send_does() -> None:
    async with opened("httptools") as cycle:
        assert (type(cycle).__module__, type(cycle).__qualname__) == uvicorn_seam._CHUNKING
        assert cycle.scope["method"] == "GET"
        assert cycle.response_started is True
        assert cycle.response_complete is False
        assert cycle.chunked_encoding is True
        assert cycle.disconnected is False
        assert cycle.flow.write_paused is False
        assert chunk_taker(cycle) == cycle.transport.write


async def test_send_of_httptools_hands_one_chunk_to_the_connection_and_does_nothing_else() -> None:
    """If this fails, do what else `send` does in `chunk_taker`, too, or call `send` always."""
    async with opened("httptools") as cycle:
        written: list[bytes] = []
        transport, cycle.transport = cycle.transport, SimpleNamespace(write=written.append)
        before, flow_before = dict(vars(cycle)), dict(vars(cycle.flow))
        assert begun(cycle.send({"type": "http.response.body", "body": b"event", "more_body": True})) is None
        assert written == [as_chunk(b"event")] == [b"5\r\nevent\r\n"]
        assert (vars(cycle), vars(cycle.flow)) == (before, flow_before)
        cycle.transport = transport


class Part:
    """Something with the attributes that a test gives it."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class RequestResponseCycle(Part):
    """A response in the state in which `send` writes one chunk, except for what a test changes."""

    __module__ = "uvicorn.protocols.http.httptools_impl"

    def __init__(self, **changed: Any) -> None:
        self.written: list[bytes] = []
        state: dict[str, Any] = {
            "scope": {"method": "GET"},
            "response_started": True,
            "response_complete": False,
            "chunked_encoding": True,
            "disconnected": False,
            "flow": Part(write_paused=False),
            "transport": Part(write=self.written.append),
        }
        super().__init__(**{**state, **changed})

    async def send(self, message: Any) -> None:
        """Only that it is a method of this matters."""


def test_a_chunk_goes_to_the_connection_as_it_is() -> None:
    cycle = RequestResponseCycle()
    take = chunk_taker(chunked_response(cycle.send))
    assert take is not None
    take(as_chunk(b"0123456789abcdef"))
    assert cycle.written == [b"10\r\n0123456789abcdef\r\n"]


@pytest.mark.parametrize(
    "state",
    [
        {"response_started": False},
        {"chunked_encoding": None},
        {"chunked_encoding": False},
        {"scope": {"method": "HEAD"}},
        {"flow": Part()},
        {"transport": None},
    ],
    ids=["not started", "not decided", "with a length", "HEAD", "no flow", "no transport"],
)
def test_a_response_that_is_not_chunked_or_looks_different_never_takes_the_short_way(state: dict[str, Any]) -> None:
    assert chunked_response(RequestResponseCycle(**state).send) is None


@pytest.mark.parametrize("name", ["scope", "response_started", "response_complete", "chunked_encoding", "disconnected"])
def test_a_response_that_lacks_a_name_never_takes_the_short_way(name: str) -> None:
    cycle = RequestResponseCycle()
    delattr(cycle, name)
    assert chunked_response(cycle.send) is None


@pytest.mark.parametrize(
    "state",
    [{"disconnected": True}, {"response_complete": True}, {"flow": Part(write_paused=True)}],
    ids=["disconnected", "complete", "paused"],
)
def test_the_short_way_is_closed_while_send_would_do_anything_else(state: dict[str, Any]) -> None:
    assert chunk_taker(chunked_response(RequestResponseCycle(**state).send)) is None


def test_another_web_server_never_takes_the_short_way() -> None:
    class Other(RequestResponseCycle):
        __module__ = "uvicorn.protocols.http.h11_impl"

    async def function(message: Any) -> None: ...

    for send in (Other().send, function, RequestResponseCycle):
        assert chunked_response(send) is None
    assert not is_servers_own(function)


# The ordinary way, and the connection


async def test_a_send_that_has_to_wait_goes_on_in_a_task() -> None:
    may: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    heard: list[str] = []

    async def send() -> None:
        heard.append(await may)
        await asyncio.sleep(0)
        heard.append("end")

    rest = begun(send())
    assert rest is not None
    assert heard == []
    may.set_result("now")
    await rest
    assert heard == ["now", "end"]


async def test_a_send_that_waits_hears_of_being_cancelled() -> None:
    heard: list[str] = []

    async def send() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            heard.append("cancelled")
            raise

    rest = begun(send())
    assert rest is not None
    await asyncio.sleep(0)
    rest.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rest
    assert heard == ["cancelled"]


def test_the_connection_is_found_below_middleware() -> None:
    transport = Part(abort=lambda: None)

    class Cycle(Part):
        async def send(self, message: Any) -> None: ...
        async def receive(self) -> None: ...

    cycle = Cycle(transport=transport)
    send = cycle.send

    async def wrapped(message: Any) -> None:
        await send(message)

    class Request(Part):
        async def wrapped_receive(self) -> None: ...

    async def alone(message: Any) -> None: ...

    assert transport_under(wrapped) is transport
    assert transport_under(alone, Request(receive=cycle.receive).wrapped_receive) is transport
    assert transport_under(alone) is None
    assert transport_under(None) is None


def test_a_worker_of_uvicorn_knows_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    config = uvicorn.Config("served:app", workers=3)
    process = get_subprocess(config=config, target=print, sockets=[])
    monkeypatch.setattr(multiprocessing, "current_process", lambda: process)
    assert worker_count() == 3


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (["/usr/bin/gunicorn", "-w", "4", "served:app"], 4),
        (["hypercorn", "--workers=2", "served:app"], 2),
        (["uvicorn", "served:app"], 1),
        (["tidings", "web", "--workers", "4"], 1),
    ],
)
def test_the_workers_of_other_web_servers_are_known_by_their_arguments(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], count: int
) -> None:
    monkeypatch.setattr(sys, "argv", arguments)
    assert worker_count() == count
