"""The limit: bare uvloop sockets that write the same bytes, with nothing of MCP behind them.

It answers just enough of either era for the reader's requests. What is left in a delivery is one string for each
stream (modern: its own subscription id) or none (legacy era: one for all), and one system call.
"""

import asyncio
import json
import uuid
from typing import Any, cast

from benchmarks import wire

_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _chunk(body: dict[str, Any]) -> bytes:
    data = f"event: message\r\ndata: {json.dumps(body, separators=(',', ':'))}\r\n\r\n".encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


def _updated(uri: str, meta: dict[str, Any] | None = None) -> bytes:
    params = {"uri": uri} if meta is None else {"uri": uri, "_meta": meta}
    return _chunk({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params})


class Floor:
    """The sockets that want each URI."""

    def __init__(self) -> None:
        self.wanted: dict[str, dict[Peer, None]] = {}
        self.sessions: dict[str, list[str]] = {}
        self.peers: set[Peer] = set()

    async def publish(self, uri: str) -> None:
        shared = _updated(uri)
        for peer in self.wanted.get(uri, ()):
            peer.transport.write(shared if peer.id is None else peer.frame(uri))


class Peer(asyncio.Protocol):
    """One connection to the floor."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self.transport: asyncio.Transport
        self.id: int | None = None
        self._data = b""
        self._frames: dict[str, tuple[bytes, bytes]] = {}
        self._id = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._floor.peers.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._floor.peers.discard(self)
        for peers in self._floor.wanted.values():
            peers.pop(self, None)

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, blank, body = self._data.partition(b"\r\n\r\n")
        if not blank:
            return
        verb, _, text = head.decode("latin-1").partition(" ")
        pairs = (line.partition(":") for line in text.split("\r\n")[1:])
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        if len(body) < int(headers["content-length"]):
            return
        self._data = b""
        self._answer(verb, headers.get("mcp-session-id", ""), json.loads(body or b"{}"))

    def _answer(self, verb: str, session: str, message: dict[str, Any]) -> None:
        match verb, message.get("method"):
            case "GET", _:
                self.transport.write(_STREAM_HEAD)
                self._want(self._floor.sessions[session])
            case _, "subscriptions/listen":
                self._listen(message["id"], message["params"]["notifications"]["resourceSubscriptions"])
            case _, "initialize":
                session = uuid.uuid4().hex
                self._floor.sessions[session] = []
                self._reply(b"Mcp-Session-Id: " + session.encode())
            case _, "resources/subscribe":
                self._floor.sessions[session].append(message["params"]["uri"])
                self._reply()
            case _:
                self._reply()

    def _reply(self, *headers: bytes) -> None:
        self.transport.write(b"\r\n".join([b"HTTP/1.1 200 OK", b"Content-Length: 2", *headers, b"", b"{}"]))

    def _listen(self, number: int, uris: list[str]) -> None:
        self.id, self._id = number, str(number).encode()
        params = {"notifications": {"resourceSubscriptions": uris}, "_meta": {wire.SUBSCRIPTION_ID: number}}
        acknowledged = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}
        self.transport.write(_STREAM_HEAD + _chunk(acknowledged))
        for uri in uris:
            before, _, after = _updated(uri, {wire.SUBSCRIPTION_ID: number}).rpartition(self._id)
            self._frames[uri] = before, after
        self._want(uris)

    def _want(self, uris: list[str]) -> None:
        for uri in uris:
            self._floor.wanted.setdefault(uri, {})[self] = None

    def frame(self, uri: str) -> bytes:
        before, after = self._frames[uri]
        return before + self._id + after


async def serve(floor: Floor) -> int:
    """Start the floor on a free port; returns the port."""
    server = await asyncio.get_running_loop().create_server(lambda: Peer(floor), "127.0.0.1", 0, backlog=2048)
    port: int = server.sockets[0].getsockname()[1]
    return port
