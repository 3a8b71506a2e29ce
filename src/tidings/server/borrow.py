"""The borrowed stream: frames written straight through the web server's `send`.

A thin ASGI wrapper stands outside the SDK's app. It lets the SDK open every stream, with all its checks (headers, host
and origin, sign-in, body, sessions), and remembers the `send` of those responses that carry changes: the answer to a
modern `subscriptions/listen`, and the event stream of an old-era session. From then on the hub writes whole events
through that `send`, between the SDK's own. Each is one chunk, so neither can tear the other. Every other request passes
through untouched.
"""

import asyncio
import logging
import socket
import types
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol

logger = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

SCOPE_KEY: Final = "tidings.stream"
"""Where a request's scope holds its `BorrowedStream`."""

WRAPPED_KEY: Final = "tidings.wrapped"
"""In the scope of each request that came through the wrapper."""

_LISTEN: Final = b"subscriptions/listen"


class BorrowedStream:
    """The response stream of one request, which the SDK opens and Tidings writes to."""

    __slots__ = ("_direct", "_ended", "_expecting", "_on_ready", "_send", "_task")

    def __init__(self, send: Send) -> None:
        self._send = send
        self._direct = _is_servers_own(send)
        self._task = asyncio.current_task()
        self._expecting = False
        self._ended = False
        self._on_ready: Callable[[], None] | None = None

    def ready_after_next_event(self, on_ready: Callable[[], None]) -> None:
        """Call `on_ready` once the next event that the SDK writes is out: from then on the stream can be written to."""
        self._on_ready = on_ready

    async def send(self, message: Message) -> None:
        """What the SDK writes goes through here."""
        if self._ended:
            return
        await self._send(message)
        if self._on_ready is not None and _is_event(message):
            on_ready, self._on_ready = self._on_ready, None
            on_ready()

    def write(self, data: bytes) -> asyncio.Future[None] | None:
        """Write one or more whole events. None if they are written, else what to wait for before the next write."""
        sending = self._send({"type": "http.response.body", "body": data, "more_body": True})
        if not self._direct:
            return asyncio.ensure_future(sending)
        return _run_first_step(sending)

    def finish(self) -> None:
        """End the response in good order, and let the SDK's side of it go."""
        if not self._ended:
            self._ended = True
            asyncio.ensure_future(self._send({"type": "http.response.body", "body": b"", "more_body": False}))
            self._let_go()

    def abort(self) -> None:
        """End the response abruptly: the connection breaks, and the reader sees an incomplete response."""
        if self._ended:
            return
        self._ended = True
        if transport := _transport(self._send):
            transport.abort()
        else:
            self._let_go()

    def _let_go(self) -> None:
        if self._task is not None:
            self._task.cancel()

    @property
    def ended(self) -> bool:
        """Whether this side has ended the stream."""
        return self._ended

    def give_up_after(self, seconds: float) -> None:
        """Let the system break the connection if its peer acknowledges nothing for `seconds`: a peer that lost its
        network says nothing, and without this the system would wait for a quarter of an hour."""
        transport = _transport(self._send)
        sock = transport.get_extra_info("socket") if transport else None
        option = getattr(socket, "TCP_USER_TIMEOUT", None)
        if sock is None or option is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
            return
        try:
            sock.setsockopt(socket.IPPROTO_TCP, option, int(seconds * 1000))
        except OSError as error:
            logger.debug("cannot set a time limit on %s: %s", sock, error)


class Lender(Protocol):
    """What the wrapper tells of the old-era event streams that the SDK has opened, and asks for."""

    def running(self) -> AbstractAsyncContextManager[object]:
        """Held for as long as the application lives."""
        ...

    def stream_requested(self, stream: BorrowedStream) -> None: ...

    def stream_opened(self, session_id: str, stream: BorrowedStream) -> None: ...

    def stream_closed(self, session_id: str, stream: BorrowedStream) -> None: ...


class Borrowing:
    """The ASGI wrapper around an app that serves MCP."""

    def __init__(self, app: ASGIApp, lender: Lender) -> None:
        self.app = app
        self._lender = lender

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            async with self._lender.running():
                await self.app(scope, receive, send)
        elif scope["type"] == "http":
            scope[WRAPPED_KEY] = True
            await self._serve(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST" and _header(scope, b"mcp-method") == _LISTEN:
            await self._lend(scope, receive, send)
        elif scope["method"] == "GET" and (session := _header(scope, b"mcp-session-id")):
            await self._lend_to_session(session.decode("latin-1"), scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _lend(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[SCOPE_KEY] = stream = BorrowedStream(send)
        self._lender.stream_requested(stream)
        await self._run(stream, scope, receive, stream.send)

    async def _lend_to_session(self, session_id: str, scope: Scope, receive: Receive, send: Send) -> None:
        stream = BorrowedStream(send)
        opened = False

        async def watch(message: Message) -> None:
            nonlocal opened
            await stream.send(message)
            if not opened and message["type"] == "http.response.start" and message["status"] == 200:
                opened = True
                self._lender.stream_requested(stream)
                self._lender.stream_opened(session_id, stream)

        try:
            await self._run(stream, scope, receive, watch)
        finally:
            if opened:
                self._lender.stream_closed(session_id, stream)

    async def _run(self, stream: BorrowedStream, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self.app(scope, receive, send)
        except asyncio.CancelledError:
            # Our own doing, to let the SDK's side go: the response is over, and the web server goes on.
            if not stream.ended:
                raise


def _header(scope: Scope, name: bytes) -> bytes | None:
    return next((value for key, value in scope["headers"] if key == name), None)


def _is_event(message: Message) -> bool:
    """Whether `message` carries an event, and not a comment that keeps the connection alive."""
    body: bytes = message.get("body", b"")
    return bool(body) and not body.startswith(b":")


def _is_servers_own(send: Send) -> bool:
    """Whether `send` is the web server's, and not of a middleware that may keep a cancel scope open across its steps."""
    owner = getattr(send, "__self__", None)
    return type(owner).__module__.startswith("uvicorn.protocols.")


def _transport(send: Send) -> asyncio.Transport | None:
    """The connection under `send`, where the web server shows it."""
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    return transport if callable(getattr(transport, "abort", None)) else None


def _run_first_step(sending: Any) -> asyncio.Future[None] | None:
    """Run `sending` until it has to wait, which a web server's `send` does only when the socket is full.

    So a write to an idle stream costs no task and no turn of the event loop. The rest, if any, runs in a task.
    """
    try:
        waiting_for = sending.send(None)
    except StopIteration:
        return None
    return asyncio.ensure_future(_finish(sending, waiting_for))


async def _finish(sending: Any, waiting_for: Any) -> None:
    await _resume(sending, waiting_for)


@types.coroutine
def _resume(sending: Any, waiting_for: Any) -> Generator[Any, Any, None]:
    """Go on with a coroutine that has run its first step and waits for `waiting_for`."""
    while True:
        try:
            value = yield waiting_for
        except BaseException as error:
            step = (sending.throw, error)
        else:
            step = (sending.send, value)
        try:
            waiting_for = step[0](step[1])
        except StopIteration:
            return
