"""`HttpExchange`: an HTTP request and its answer, what it weighs, and how it is refused.

A request for which there is no room is refused with HTTP 429 or 503, a time to come back, and the JSON-RPC error. The
clients of the Python SDK lose their connection at an event above 1 MiB. So a larger answer of the legacy era is plain
JSON instead, or, over SSE and where an answer has begun as a stream, an error.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from mcp_types import INTERNAL_ERROR, RequestId

from tidings.errors import LimitReached, MessageTooLarge, TidingsError

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
Refusal = Callable[[Send], Awaitable[None]]

EXCHANGE_KEY: Final = "tidings.exchange"  # In the scope of a request: its `HttpExchange`.
SESSION_ID: Final = b"mcp-session-id"  # The header that names a legacy session.
MOST_HEADER_BYTES: Final = 65_536
_HEADER_BYTES: Final = 130  # That a header takes, beside its text.
_MARKS: Final = (b",", b":", b"[", b"{")  # In JSON, there are at least as many of these as values.
_MARK_BYTES: Final = 80  # That a value takes, beside its text.
LARGEST_EVENT: Final = 1_000_000  # Bytes of an event of the legacy era.
# The longest time, in seconds, that an answer is held back because it may be too large for an event. A tool may take
# long, and its caller is to see that the server has heard.
_HELD_SECONDS: Final = {b"resources/read": 10.0, b"tools/call": 1.0}
_ANSWER: Final = re.compile(
    rb"(?:[a-z]+: [^\r\n]*\r\n)*?data: "
    rb'(\{"jsonrpc":"2\.0","id":(-?\d+|"(?:[^"\\]|\\.)*+"),"(?:result|error)":[^\r\n]*)\r\n'
)
_WAIT_FOR_ROOM: Final = 5  # Seconds, after which a client that was refused may come back.


def header_of(message: Message, name: bytes) -> bytes | None:
    """Returns the value of a header of a request's scope or of the start of a response."""
    return next((value for key, value in message.get("headers", ()) if key == name), None)


def is_event_stream(start: Message) -> bool:
    """Returns whether a response that begins so is a stream of events."""
    return (header_of(start, b"content-type") or b"").startswith(b"text/event-stream")


def header_bytes(scope: Scope) -> int:
    """Returns the memory that the headers of a request take."""
    return sum(len(name) + len(value) + _HEADER_BYTES for name, value in scope["headers"])


async def respond(send: Send, status: int, body: bytes, kind: bytes = b"text/plain", *, wait: int = 1) -> None:
    """Sends a whole response of this content type. If it refuses for now, the client may come back after `wait` s."""
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    await send(_retrying({"type": "http.response.start", "status": status, "headers": headers}, wait))
    await send({"type": "http.response.body", "body": body})


def _retrying(message: Message, wait: int = _WAIT_FOR_ROOM) -> Message:
    """Returns the start of an answer that refuses for now with the time to wait, and any other message as it is."""
    if message.get("status") not in (429, 503) or header_of(message, b"retry-after") is not None:
        return message
    return {**message, "headers": [*message.get("headers", ()), (b"retry-after", b"%d" % wait)]}


def error_data(error: TidingsError) -> dict[str, Any]:
    """Returns the data of a JSON-RPC error."""
    return {"code": error.code, "retryable": error.retryable, **(error.data or {})}


def stopping() -> LimitReached:
    """Returns the error for whoever comes while the server stops."""
    data = {"limit": "stopping", "scope": "server"}
    return LimitReached("This server is stopping. Connect again in a moment.", data=data)


def refusal(error: TidingsError, request_id: RequestId | None = None) -> Refusal:
    """Returns an error as an HTTP answer: 429 if its client has too much, 503 if the server cannot do more."""
    data = error_data(error)
    failure = {"code": INTERNAL_ERROR, "message": error.message, "data": data}
    # Not the error: its traceback has all that the SDK had for the request.
    body = json.dumps({"jsonrpc": "2.0", "id": request_id, "error": failure}).encode()
    status = 429 if isinstance(error, LimitReached) and data.get("scope") != "server" else 503
    status = 413 if isinstance(error, MessageTooLarge) else status
    wait = _WAIT_FOR_ROOM if "max" in data else 1
    return partial(respond, status=status, body=body, kind=b"application/json", wait=wait)


def is_limited(scope: Scope) -> bool:
    """Returns whether a request comes from a client of the Python SDK, which accepts no event above 1 MiB."""
    return (header_of(scope, b"user-agent") or b"").startswith(b"python-httpx")


def bounded(message: Message, *, limited: bool) -> Message:
    """Returns a part of a stream: for a `limited` client, an error in the place of an answer that is too large."""
    body: bytes = message.get("body", b"")
    if not limited or len(body) <= LARGEST_EVENT or (found := _ANSWER.match(body)) is None:
        return message
    cure = "Ask for a part of it, or connect over streamable HTTP if this is SSE."
    why = (
        f"The answer has {len(found[1]):,} bytes, and your client accepts at most {LARGEST_EVENT:,} as an event. {cure}"
    )
    error = LimitReached(why, data={"limit": "event", "max": LARGEST_EVENT, "scope": "request"})
    failure = {"code": INTERNAL_ERROR, "message": error.message, "data": error_data(error)}
    written = b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (found[2], json.dumps(failure).encode())
    return {**message, "body": b"event: message\r\ndata: %b\r\n\r\n" % written}


@dataclass(slots=True, eq=False, kw_only=True)
class HttpExchange:
    """A request that may be refused. Its weight is the memory that it takes for as long as it is kept."""

    header_weight: int = 0
    refusal: Refusal | None = None
    _length: int = 0
    _marks: int = 0
    _is_wide: bool = False

    def refuse(self, error: TidingsError, request_id: RequestId | None = None) -> None:
        self.refusal = refusal(error, request_id)

    def weigh(self, body: bytes) -> None:
        self._length += len(body)
        self._marks += sum(map(body.count, _MARKS))
        # One such character makes every other one of its text as wide in memory.
        self._is_wide = self._is_wide or not body.isascii() or b"\\u" in body

    @property
    def body_weight(self) -> int:
        # The SDK keeps the bytes twice, and what they mean.
        return (8 if self._is_wide else 4) * self._length + _MARK_BYTES * self._marks

    @property
    def weight(self) -> int:
        return self.header_weight + self.body_weight


@dataclass(slots=True, eq=False)
class LegacyExchange(HttpExchange):
    """The exchange of a message of the legacy era. It ends with `over`, and lets go of the connection then.

    The SDK begins its answer before the outcome is known. So the beginning is held back until something follows it, if
    the outcome may be a refusal or a large answer; in the latter case for a few seconds at most.
    """

    _receive: Receive
    _send: Send
    is_handshake: bool = field(kw_only=True)
    limited: bool = field(default=False, kw_only=True)
    check: Callable[[int], None] | None = field(default=None, kw_only=True)
    refused: bool = False
    _may_refuse: bool = False
    _held_seconds: float = 0.0
    _start: Message | None = None
    _begun: asyncio.Future[None] | None = None
    _timer: asyncio.TimerHandle | None = None
    _task: asyncio.Task[Any] | None = None

    def __post_init__(self) -> None:
        self._may_refuse = self.is_handshake
        if self.check is not None:
            self._task = asyncio.current_task()

    def over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._receive, self._send, self.check, self._task = _disconnected, _dropped, None, None

    async def receive(self) -> Message:
        """Receives a part of the request. When it is complete, `check` is called with its weight, and may refuse it."""
        message = await self._receive()
        body: bytes = message.get("body", b"")
        self.weigh(body)
        self._may_refuse = self._may_refuse or b"resources/subscribe" in body
        self._held_seconds = max([self._held_seconds, *(_HELD_SECONDS[name] for name in _HELD_SECONDS if name in body)])
        if self.check is not None and not message.get("more_body", False):
            check, self.check = self.check, None
            try:
                check(self.weight)
            except LimitReached as error:
                await self._refuse(refusal(error), cancels=True)
        return message

    async def send(self, message: Message) -> None:
        if self.refused:
            return
        if message["type"] == "http.response.start":
            may_refuse = self._may_refuse and header_of(message, SESSION_ID) is not None
            if may_refuse or (self._held_seconds and is_event_stream(message)):
                self._start = message
                if not may_refuse:
                    self._timer = asyncio.get_running_loop().call_later(self._held_seconds, self._begin_now)
                return
        elif self._begun is not None:
            await self._begun
        elif self._start is not None:
            start, self._start = self._start, None
            if self.refusal is not None:
                # Cancelled: otherwise the SDK would keep the session.
                await self._refuse(self.refusal, cancels=self.is_handshake)
                return
            if is_event_stream(start) and (answer := _ANSWER.match(message.get("body", b""))) is not None:
                self.refused = True  # Its event is not sent: the answer is, as a whole, in the place of a stream.
                length = (b"content-length", b"%d" % len(answer[1]))
                headers = [each for each in start["headers"] if each[0] not in (b"content-type", b"cache-control")]
                await self._send({**start, "headers": [*headers, (b"content-type", b"application/json"), length]})
                await self._send({"type": "http.response.body", "body": answer[1]})
                return
            await self._send(start)
        await self._send(_retrying(bounded(message, limited=self.limited)))

    def _begin_now(self) -> None:
        if self._start is not None:
            start, self._start = self._start, None
            self._begun = asyncio.ensure_future(self._send(start))

    async def _refuse(self, send_refusal: Refusal, *, cancels: bool) -> None:
        self.refused = True
        try:
            await send_refusal(self._send)
        finally:
            if cancels and self._task is not None:
                self._task.cancel()
                await asyncio.sleep(0)


async def _disconnected() -> Message:
    return {"type": "http.disconnect"}


async def _dropped(_: Message) -> None:
    pass
