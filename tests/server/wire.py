"""A client of either era, by hand: sockets, HTTP and SSE as bytes, frames as parsed JSON.

It owes nothing to the SDK's client, so that it can do what that one never would: stop reading, break off, send
nonsense. `Subscription` is what both eras have in common; `listen` and `Session` are what each has of its own.
"""

import asyncio
import itertools
import json
import socket
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, cast

import anyio.lowlevel
import pytest

from tidings.changes import Cursor

MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
CURSOR: Final = "dev.tidings/cursor"
UPDATED: Final = "notifications/resources/updated"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
PATIENCE: Final = 20.0

Json = dict[str, Any]
Era = Literal["modern", "legacy"]
Ended = Literal["result", "end", "broken"]
"""How a stream ended: with its result frame, with the last chunk alone, or with a connection that broke."""

both_eras = pytest.mark.parametrize("era", ["modern", "legacy"])

_CLIENT: Final = {"name": "wire", "version": "1"}
_ACCEPT: Final = {"Accept": "application/json, text/event-stream"}
JSON: Final = {**_ACCEPT, "Content-Type": "application/json"}
_FLAGS: Final = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}
NO_HEADERS: Final[Mapping[str, str]] = {}
_numbers = itertools.count(1)
_open: set["Connection"] = set()
_host: ContextVar[str] = ContextVar("host", default="127.0.0.1")


def http(verb: str, headers: dict[str, str], body: bytes = b"", path: str = "/mcp") -> bytes:
    lines = [f"{verb} {path} HTTP/1.1", "Host: 127.0.0.1:8000", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def message(method: str, params: Any = None, number: Any = None) -> bytes:
    body: Json = {"jsonrpc": "2.0", "method": method}
    if number is not None:
        body["id"] = number
    if params is not None:
        body["params"] = params
    return json.dumps(body, separators=(",", ":")).encode()


def modern_meta(**more: Any) -> Json:
    return {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": _CLIENT,
        "io.modelcontextprotocol/clientCapabilities": {},
        **more,
    }


def modern_headers(method: str, name: str | None = None) -> dict[str, str]:
    named = {} if name is None else {"Mcp-Name": name}
    return {**JSON, "MCP-Protocol-Version": MODERN, "Mcp-Method": method, **named}


@dataclass(frozen=True)
class Response:
    """A whole response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        """The JSON-RPC message in it, which may come as the one event of a stream."""
        if "text/event-stream" in self.headers.get("content-type", ""):
            [event] = events(self.body)
            return event
        return cast("Json", json.loads(self.body))

    @property
    def error(self) -> Json:
        return cast("Json", self.json["error"])


def events(text: bytes) -> list[Json]:
    lines = text.replace(b"\r\n", b"\n").split(b"\n")
    return [json.loads(line[5:]) for line in lines if line.startswith(b"data:") and line[5:].lstrip().startswith(b"{")]


class Refused(Exception):
    """A stream was asked for, and the answer was another."""

    def __init__(self, response: Response) -> None:
        super().__init__(f"HTTP {response.status}: {response.body[:300]!r}")
        self.response = response


class Connection(asyncio.Protocol):
    """One socket: requests and their responses, one of which may be an event stream that stays open."""

    def __init__(self) -> None:
        self.frames: list[Json] = []
        self.comments = 0
        self.ended: Ended | None = None
        self._transport: asyncio.Transport
        self._bytes = bytearray()
        self._head: Response | None = None
        self._body = b""
        self._event = b""
        self._read = 0
        self._over = False
        self._lost = False
        self._news = asyncio.Event()

    @classmethod
    async def open(cls, port: int, *, receive_buffer: int | None = None) -> Self:
        sock = socket.socket()
        sock.setblocking(False)
        sock.bind((_host.get(), 0))
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        _, connection = await asyncio.get_running_loop().create_connection(cls, sock=sock)
        _open.add(connection)
        return connection

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        _open.discard(self)
        self._lost = True
        if self.ended is None:
            self.ended = "broken"
        self._news.set()

    def data_received(self, data: bytes) -> None:
        self._bytes += data
        if self._head is None:
            self._take_head()
        if self._head is not None and not self._over:
            self._take_body(self._head)
        self._news.set()

    def _take_head(self) -> None:
        text, blank, rest = bytes(self._bytes).partition(b"\r\n\r\n")
        if blank:
            first, *lines = text.decode("latin-1").split("\r\n")
            pairs = (line.partition(":") for line in lines)
            headers = {name.lower(): value.strip() for name, _, value in pairs}
            self._head = Response(int(first.split(" ", 2)[1]), headers, b"")
            self._bytes = bytearray(rest)

    def _take_body(self, head: Response) -> None:
        if head.headers.get("transfer-encoding") == "chunked":
            self._take_chunks()
        elif len(self._bytes) >= (length := int(head.headers.get("content-length", "0"))):
            self._body = bytes(self._bytes[:length])
            del self._bytes[:length]
            self._over = True

    def _take_chunks(self) -> None:
        at = 0
        while not self._over and (line := self._bytes.find(b"\r\n", at)) >= 0:
            end = line + 2 + int(self._bytes[at:line], 16)
            if len(self._bytes) < end + 2:
                break
            chunk = bytes(self._bytes[line + 2 : end])
            at = end + 2
            if chunk:
                self._take_chunk(chunk)
            else:
                self._over = True
                self.ended = "result" if self.frames and "result" in self.frames[-1] else "end"
        del self._bytes[:at]

    def _take_chunk(self, chunk: bytes) -> None:
        self._body += chunk if "text/event-stream" not in cast("Response", self._head).headers["content-type"] else b""
        *whole, self._event = (self._event + chunk).replace(b"\r\n", b"\n").split(b"\n\n")
        for event in whole:
            self.frames += events(event)
            self.comments += event.startswith(b":")

    # The test's side

    async def exchange(self, request: bytes) -> Response:
        """Send a request and take its whole response."""
        head = await self._ask(request)
        await self.until(lambda: self._over or self._lost)
        assert self._over, "the connection broke within a response"
        body = b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in self.frames) or self._body
        return Response(head.status, head.headers, body)

    async def stream(self, request: bytes) -> None:
        """Send a request whose response is an event stream; returns when that is open.

        Raises:
            Refused: It is another.
        """
        head = await self._ask(request)
        if head.status != 200 or "text/event-stream" not in head.headers.get("content-type", ""):
            await self.until(lambda: self._over or self._lost)
            raise Refused(Response(head.status, head.headers, self._body))

    async def _ask(self, request: bytes) -> Response:
        self._head, self._body, self._event, self._over, self.ended = None, b"", b"", False, None
        self.frames, self._read = [], 0
        self._transport.write(request)
        await self.until(lambda: self._head is not None or self._lost)
        if self._head is None:
            raise ConnectionError("the connection broke before the response")
        return self._head

    async def until(self, condition: Callable[[], bool], within: float = PATIENCE) -> None:
        """Wait until what has arrived makes `condition` true."""
        with anyio.fail_after(within):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def next(self, within: float = PATIENCE) -> Json:
        """The next frame."""
        await self.until(lambda: len(self.frames) > self._read or self.ended is not None, within)
        assert len(self.frames) > self._read, f"the stream is over: {self.ended}"
        self._read += 1
        return self.frames[self._read - 1]

    async def over(self, within: float = PATIENCE) -> Ended:
        """Wait for the end of the stream, and say how it ended."""
        await self.until(lambda: self.ended is not None, within)
        return cast("Ended", self.ended)

    def stall(self) -> None:
        """Stop reading."""
        self._transport.pause_reading()

    def resume(self) -> None:
        self._transport.resume_reading()

    def close(self) -> None:
        """Close the socket as a client does that wants no more."""
        self._transport.close()

    def abort(self) -> None:
        """Close the socket as a client does that crashed."""
        sock = self._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self._transport.abort()


@contextmanager
def coming_from(host: str) -> Generator[None]:
    """Make the connections of this context from another address of this machine."""
    before = _host.set(host)
    try:
        yield
    finally:
        _host.reset(before)


async def close_all() -> None:
    """Close every connection that a test has left open."""
    for connection in tuple(_open):
        connection.close()
    while _open:
        await anyio.lowlevel.checkpoint()


async def once(port: int, request: bytes) -> Response:
    """One request on a connection of its own."""
    connection = await Connection.open(port)
    try:
        return await connection.exchange(request)
    finally:
        connection.close()


# The modern era


def listen_request(
    filter: Any,  # noqa: A002 - what the protocol calls it
    number: Any = None,
    *,
    path: str = "/mcp",
    headers: Mapping[str, str] = NO_HEADERS,
    **meta: Any,
) -> bytes:
    params = {"notifications": filter, "_meta": modern_meta(**meta)}
    body = message("subscriptions/listen", params, next(_numbers) if number is None else number)
    return http("POST", {**modern_headers("subscriptions/listen"), **headers}, body, path)


def wanted(uris: Iterable[str], lists: Iterable[str]) -> Json:
    return {"resourceSubscriptions": list(uris), **{_FLAGS[name]: True for name in lists}}


async def listen(
    port: int,
    filter: Any,  # noqa: A002 - what the protocol calls it
    number: Any = None,
    *,
    path: str = "/mcp",
    receive_buffer: int | None = None,
    headers: Mapping[str, str] = NO_HEADERS,
    **meta: Any,
) -> Connection:
    """Open a `subscriptions/listen`; no frame has been looked at yet.

    Raises:
        Refused: The answer is no stream.
    """
    connection = await Connection.open(port, receive_buffer=receive_buffer)
    try:
        await connection.stream(listen_request(filter, number, path=path, headers=headers, **meta))
    except BaseException:
        connection.close()
        raise
    return connection


async def call_tool(port: int, name: str, *, path: str = "/mcp", **arguments: Any) -> Json:
    params = {"name": name, "arguments": arguments, "_meta": modern_meta()}
    body = message("tools/call", params, next(_numbers))
    response = await once(port, http("POST", modern_headers("tools/call", name), body, path))
    return cast("Json", response.json["result"])


# The legacy era


class Session:
    """A legacy session."""

    def __init__(self, port: int, path: str = "/mcp", headers: Mapping[str, str] = NO_HEADERS) -> None:
        self.port = port
        self.path = path
        self.own_headers = headers
        self.id: str | None = None
        self.capabilities: Json = {}

    @classmethod
    async def start(cls, port: int, *, path: str = "/mcp", headers: Mapping[str, str] = NO_HEADERS) -> Self:
        """A session that has completed its handshake."""
        session = cls(port, path, headers)
        await session.initialize()
        assert (await session.post(message("notifications/initialized"))).status == 202
        return session

    async def initialize(self) -> Response:
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": _CLIENT}
        response = await self.post(message("initialize", params, 0))
        self.id = response.headers.get("mcp-session-id")
        self.capabilities = response.json["result"]["capabilities"]
        return response

    @property
    def headers(self) -> dict[str, str]:
        named = {} if self.id is None else {"Mcp-Session-Id": self.id, "MCP-Protocol-Version": LEGACY}
        return {**named, **self.own_headers}

    async def post(self, body: bytes, **headers: str) -> Response:
        return await once(self.port, http("POST", {**JSON, **self.headers, **headers}, body, self.path))

    async def request(self, method: str, params: Any = None) -> Response:
        return await self.post(message(method, params, next(_numbers)))

    async def subscribe(self, uri: Any) -> Response:
        return await self.request("resources/subscribe", {"uri": uri})

    async def unsubscribe(self, uri: Any) -> Response:
        return await self.request("resources/unsubscribe", {"uri": uri})

    async def stream(self, *, receive_buffer: int | None = None) -> Connection:
        """Open the session's event stream.

        Raises:
            Refused: The answer is no stream.
        """
        connection = await Connection.open(self.port, receive_buffer=receive_buffer)
        try:
            await connection.stream(http("GET", {"Accept": "text/event-stream", **self.headers}, path=self.path))
        except BaseException:
            connection.close()
            raise
        return connection

    async def stream_again(self, *, receive_buffer: int | None = None) -> Connection:
        """Open the event stream once the server has seen that the last one is gone."""
        with anyio.fail_after(PATIENCE):
            while True:
                try:
                    return await self.stream(receive_buffer=receive_buffer)
                except Refused as refused:
                    if refused.response.status != 409:
                        raise

    async def delete(self) -> Response:
        return await once(self.port, http("DELETE", {**JSON, **self.headers}, path=self.path))


# Both


class Subscription:
    """Somebody of either era who hears of changes."""

    def __init__(self, era: Era, stream: Connection, session: Session | None, number: Any, acknowledged: Json) -> None:
        self.era: Era = era
        self.stream = stream
        self.session = session
        self.number = number
        self.acknowledged = acknowledged

    @property
    def news(self) -> list[Json]:
        """Every notification of a change so far."""
        return [frame for frame in self.stream.frames if is_change(frame)]

    async def next(self, within: float = PATIENCE) -> Json:
        """The next notification of a change."""
        while not is_change(frame := await self.stream.next(within)):
            pass
        return frame

    async def until(self, what: str, within: float = PATIENCE) -> list[str]:
        """What changed, up to the next time that `what` did."""
        seen: list[str] = []
        while what not in seen:
            seen.append(changed(await self.next(within)))
        return seen

    async def over(self, within: float = PATIENCE) -> Ended:
        return await self.stream.over(within)

    def close(self) -> None:
        self.stream.close()

    async def leave(self) -> None:
        """Go as a good client of this era does."""
        if self.session is not None:
            assert (await self.session.delete()).status == 200
        self.close()


async def subscribe(
    era: Era,
    port: int,
    uris: Iterable[str] = (),
    lists: Iterable[str] = (),
    *,
    path: str = "/mcp",
    receive_buffer: int | None = None,
    headers: Mapping[str, str] = NO_HEADERS,
) -> Subscription:
    """Subscribe, and open the stream. (A legacy session hears of every list.)"""
    if era == "modern":
        number = next(_numbers)
        asked = wanted(uris, lists)
        stream = await listen(port, asked, number, path=path, receive_buffer=receive_buffer, headers=headers)
        return Subscription(era, stream, None, number, await stream.next())
    session = await Session.start(port, path=path, headers=headers)
    for uri in uris:
        response = await session.subscribe(uri)
        assert response.json.get("result") == {}, response.body
    return Subscription(era, await session.stream(receive_buffer=receive_buffer), session, None, {})


def is_change(frame: Json) -> bool:
    return "method" in frame and frame["method"] != ACKNOWLEDGED


def changed(frame: Json) -> str:
    """What a notification says has changed: a URI, or the name of a list."""
    if frame["method"] == UPDATED:
        return cast("str", frame["params"]["uri"])
    return cast("str", frame["method"]).split("/")[1]


def cursor(frame: Json) -> Cursor:
    parsed = Cursor.parse(frame["params"]["_meta"][CURSOR])
    assert parsed is not None
    return parsed
