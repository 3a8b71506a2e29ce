"""The bytes that a client of either era writes, and the little of HTTP and SSE that it must read.

Written by hand, so that the client side of a measurement costs little and owes nothing to either side's code.
"""

import json
from typing import Any, Final

MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
CURSOR: Final = "dev.tidings/cursor"

_TASKS: Final[dict[str, Any]] = {"io.modelcontextprotocol/tasks": {}}
_CLIENT: Final = {"name": "bench", "version": "1"}
_ACCEPT: Final = {"Accept": "application/json, text/event-stream"}
_JSON: Final = {**_ACCEPT, "Content-Type": "application/json"}


def request(verb: str, port: int, headers: dict[str, str], body: bytes = b"") -> bytes:
    lines = [f"{verb} /mcp HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def message(method: str, params: dict[str, Any] | None = None, number: int | None = None) -> bytes:
    body: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if number is not None:
        body["id"] = number
    if params is not None:
        body["params"] = params
    return json.dumps(body, separators=(",", ":")).encode()


def modern(
    port: int, method: str, params: dict[str, Any], number: int = 1, *, name: str | None = None, **capabilities: Any
) -> bytes:
    """A request of the modern era."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": _CLIENT,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }
    headers = {**_JSON, "MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    headers |= {} if name is None else {"Mcp-Name": name}
    return request("POST", port, headers, message(method, {**params, "_meta": meta}, number))


def listen(port: int, number: int, uris: list[str]) -> bytes:
    """The modern era's one request for changes: its response is the stream."""
    return modern(port, "subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}}, number)


def read(port: int, uri: str) -> bytes:
    return modern(port, "resources/read", {"uri": uri}, name=uri)


def wait(port: int, uri: str) -> bytes:
    """Wait for a change, as a task."""
    call = {"name": "wait_for_change", "arguments": {"uris": [uri]}}
    return modern(port, "tools/call", call, name="wait_for_change", extensions=_TASKS)


def look(port: int, task: str) -> bytes:
    """Ask for the state of a task."""
    return modern(port, "tasks/get", {"taskId": task}, name=task, extensions=_TASKS)


def initialize(port: int) -> bytes:
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": _CLIENT}
    return request("POST", port, _JSON, message("initialize", params, 0))


def initialized(port: int, session: str) -> bytes:
    return request("POST", port, _JSON | _session(session), message("notifications/initialized"))


def subscribe(port: int, session: str, number: int, uri: str) -> bytes:
    return request("POST", port, _JSON | _session(session), message("resources/subscribe", {"uri": uri}, number))


def get_stream(port: int, session: str) -> bytes:
    """The legacy era's standing stream."""
    return request("GET", port, _ACCEPT | _session(session))


def _session(session: str) -> dict[str, str]:
    return {"Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY}


class Chunks:
    """Takes the chunked encoding off a response body, however the network cut it."""

    __slots__ = ("_rest", "ended")

    def __init__(self) -> None:
        self._rest: bytes = b""
        self.ended = False

    def feed(self, data: bytes) -> list[bytes]:
        data = self._rest + data if self._rest else data
        payloads: list[bytes] = []
        at = 0
        while not self.ended:
            line = data.find(b"\r\n", at)
            if line < 0:
                break
            size = int(data[at:line], 16)
            end = line + 2 + size
            if len(data) < end + 2:
                break
            at = end + 2
            if size:
                payloads.append(data[line + 2 : end])
            else:
                self.ended = True
        self._rest = data[at:]
        return payloads


class Frames:
    """Turns the bytes of an event stream into the JSON messages in it; comments and pings are passed over."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest: bytes = b""

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        data = self._rest + data if self._rest else data
        if not data.endswith((b"\n\n", b"\r\n\r\n")):
            self._rest = data
            return []
        self._rest = b""
        lines = data.replace(b"\r\n", b"\n").split(b"\n")
        return [json.loads(line[5:]) for line in lines if line.startswith(b"data:") and line[5:].strip()]


class Head:
    """The status line and the headers of a response."""

    __slots__ = ("headers", "status")

    def __init__(self, text: bytes) -> None:
        first, *lines = text.decode("latin-1").split("\r\n")
        self.status = int(first.split(" ", 2)[1])
        pairs = (line.partition(":") for line in lines if line)
        self.headers = {name.strip().lower(): value.strip() for name, _, value in pairs}

    @property
    def chunked(self) -> bool:
        return self.headers.get("transfer-encoding", "").lower() == "chunked"

    @property
    def length(self) -> int:
        return int(self.headers.get("content-length", "0"))
