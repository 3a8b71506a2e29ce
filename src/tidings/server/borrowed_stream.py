"""The borrowed stream: frames written straight through the web server's `send`.

A thin ASGI wrapper stands outside the SDK's app. It lets the SDK open every stream, with all its checks (headers, host
and origin, sign-in, body, sessions), and remembers the `send` of those responses that carry changes: the answer to a
modern `subscriptions/listen`, and the event stream of an old-era session. From then on the hub writes whole events
through that `send`, between the SDK's own. Each is one chunk, so neither can tear the other. (Where nothing but that
chunk is at stake, it takes a shorter way: see `webserver.py`.) Every other request passes through untouched.
"""

import asyncio
import logging
import re
import socket
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import Any, Final, Protocol

from tidings._kit.uvicorn_seam import begun, chunk_taker, chunked_response, is_servers_own, transport_under
from tidings.errors import TidingsError

logger = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

SCOPE_KEY: Final = "tidings.stream"
"""Where the scope of a listen request holds its `BorrowedStream`."""

WRAPPED_KEY: Final = "tidings.wrapped"
"""In the scope of each request that came through the wrapper: whose it is."""

_SESSION_ID: Final = re.compile(rb"[?&]session_id=([0-9a-f]+)")


class BorrowedStream:
    """The response stream of one request, which the SDK opens and Tidings writes to."""

    __slots__ = (
        "_direct",
        "_incomplete",
        "_on_event",
        "_on_start",
        "_response",
        "_send",
        "_task",
        "_transport",
        "ended",
        "session_id",
    )

    def __init__(self, send: Send, receive: Receive | None = None) -> None:
        self._send = send
        self._direct = is_servers_own(send)
        self._transport = transport_under(send, receive)
        self._response: Any = None
        self._task = asyncio.current_task()
        self._on_start: Callable[[], None] | None = None
        self._on_event: Callable[[bytes], None] | None = None
        self._incomplete = False
        self.ended: bool = False
        """Whether this side has ended the stream."""
        self.session_id: str | None = None
        """The old-era session whose stream this is, once that is known."""

    def when_started(self, call: Callable[[], None]) -> None:
        """Call once the SDK has begun to answer with a stream of events."""
        self._on_start = call

    def after_next_event(self, call: Callable[[bytes], None]) -> None:
        """Call once the next event that the SDK writes is out, with that event."""
        self._on_event = call

    async def send(self, message: Message) -> None:
        """What the SDK writes goes through here."""
        if self.ended:
            return
        await self._send(message)
        self._incomplete = message["type"] == "http.response.start" or message.get("more_body", False)
        if self._on_start is not None and _starts_events(message):
            self._response = chunked_response(self._send)
            call, self._on_start = self._on_start, None
            call()
        elif self._on_event is not None and (event := _event(message)):
            call_with, self._on_event = self._on_event, None
            call_with(event)

    def write(self, data: bytes) -> asyncio.Future[None] | None:
        """Write one or more whole events. None if they are written, else what to wait for before the next write."""
        sending = self._send({"type": "http.response.body", "body": data, "more_body": True})
        return begun(sending) if self._direct else asyncio.ensure_future(sending)

    def chunk_taker(self) -> Callable[[bytes], None] | None:
        """What to call with one event as an HTTP chunk, where that is all that `write` would do; else None."""
        return None if self._response is None else chunk_taker(self._response)

    def finish(self) -> None:
        """End the response in good order, and let the SDK's side of it go."""
        if not self.ended:
            self.ended = True
            last = asyncio.ensure_future(self._send({"type": "http.response.body", "body": b"", "more_body": False}))
            last.add_done_callback(self._let_go)

    async def complete(self) -> None:
        """End the response in good order if the SDK went away without: so its event streams do when a process stops."""
        if self._incomplete and not self.ended:
            self.ended = True
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def abort(self) -> None:
        """End the response abruptly: the connection breaks, and the reader sees an incomplete response."""
        if self.ended:
            return
        self.ended = True
        if self._transport is not None:
            self._transport.abort()
        else:
            self._let_go()

    @property
    def unsent(self) -> int:
        """Bytes that the web server still holds, because the system takes no more of them."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def drop(self) -> None:
        """Break the connection of a response that is over, if its reader does not take the rest of it."""
        if self._transport is not None and self.unsent:
            self._transport.abort()

    def _let_go(self, last: asyncio.Future[None] | None = None) -> None:
        if last is not None and not last.cancelled():
            last.exception()  # Looked at, so that nobody complains that it was not: whoever it was for is gone.
        if self._task is not None:
            self._task.cancel()

    def give_up_after(self, seconds: float) -> None:
        """Let the system break the connection if its peer acknowledges nothing for `seconds`: a peer that lost its
        network says nothing, and without this the system would wait for a quarter of an hour.
        """
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        option = getattr(socket, "TCP_USER_TIMEOUT", None)
        if sock is None or option is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
            return
        try:
            # As many milliseconds as the system can count; 0 would mean its own default.
            sock.setsockopt(socket.IPPROTO_TCP, option, int(min(max(seconds * 1000, 1), 2**31 - 1)))
        except OSError as error:
            logger.debug("cannot set a time limit on %s: %s", sock, error)


class Lender(Protocol):
    """Whom the wrapper tells of the streams that the SDK has opened."""

    def running(self) -> AbstractAsyncContextManager[object]:
        """Held for as long as the application lives."""
        ...

    def stream_started(self, stream: BorrowedStream) -> None:
        """The SDK has found a request in order, and begun to answer with a stream."""
        ...

    def stream_opened(self, session_id: str, stream: BorrowedStream) -> None:
        """The stream is that of an old-era session, and can be written to."""
        ...

    def stream_closed(self, stream: BorrowedStream) -> None:
        """The stream is over, or was never opened."""
        ...


class Borrowing:
    """The ASGI wrapper around an app that serves MCP."""

    def __init__(self, app: ASGIApp, lender: Lender) -> None:
        self.app = app
        self._lender = lender

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
            return
        stream = self._borrow(scope, receive, send)
        if stream is None:
            await self.app(scope, receive, send)
            return
        try:
            await self.app(scope, receive, stream.send)
            if stream.session_id is not None:
                await stream.complete()
        except asyncio.CancelledError:
            # Our own doing, to let the SDK's side go: the response is over, and the web server goes on.
            if not stream.ended:
                raise
        finally:
            self._lender.stream_closed(stream)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hold the lender for as long as the application lives."""
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._lender.running())
            except Exception as error:  # noqa: BLE001 - the web server says it, and ends
                await receive()  # `lifespan.startup`: an answer before the question would be no answer.
                await send({"type": "lifespan.startup.failed", "message": _why_not(error)})
                return

            held: list[Message] = []

            async def say(message: Message) -> None:
                if message["type"] == "lifespan.startup.failed":
                    held.append(message)  # It is said below, without the traceback of an error that explains itself.
                    return
                # Once it is told that all is shut down, the web server ends the process, and whatever still runs.
                if message["type"].startswith("lifespan.shutdown."):
                    await stack.aclose()
                await send(message)

            try:
                await self.app(scope, receive, say)
            except (TidingsError, OSError) as error:
                if not held:
                    raise
                held[0]["message"] = _why_not(error)
                await send(held.pop())
            except BaseException:
                await _say_all(held, send)
                raise
            await _say_all(held, send)

    def _borrow(self, scope: Scope, receive: Receive, send: Send) -> BorrowedStream | None:
        """The stream of a request whose answer will carry changes, if it succeeds."""
        if scope["type"] != "http" or scope.get(WRAPPED_KEY) is self._lender:
            return None  # An app that came out wrapped was wrapped again.
        scope[WRAPPED_KEY] = self._lender
        if not _carries_changes(scope):
            return None
        stream = BorrowedStream(send, receive)
        if scope["method"] == "POST":
            scope[SCOPE_KEY] = stream
        stream.when_started(partial(self._started, scope, stream))
        return stream

    def _started(self, scope: Scope, stream: BorrowedStream) -> None:
        self._lender.stream_started(stream)
        if scope["method"] == "POST":
            return
        if session_id := _header(scope, b"mcp-session-id"):
            self._named(stream, session_id.decode("latin-1"))
        else:
            stream.after_next_event(partial(self._find_name, stream))

    def _find_name(self, stream: BorrowedStream, event: bytes) -> None:
        """The SSE transport tells a session's id in its first event."""
        if name := _SESSION_ID.search(event):
            self._named(stream, name.group(1).decode())

    def _named(self, stream: BorrowedStream, session_id: str) -> None:
        stream.session_id = session_id
        self._lender.stream_opened(session_id, stream)


async def _say_all(held: list[Message], send: Send) -> None:
    for message in held:
        await send(message)


def _why_not(error: Exception) -> str:
    """Why the server does not start, for whoever started it: errors with a name explain themselves."""
    if isinstance(error, TidingsError | OSError):
        return f"The live server cannot start: {error}"
    return "The live server cannot start:\n" + "".join(traceback.format_exception(error))


def _carries_changes(scope: Scope) -> bool:
    """Whether the answer to this request may be a stream that changes travel on: its beginning tells whether it is."""
    if scope["method"] == "POST":
        return _header(scope, b"mcp-method") == b"subscriptions/listen"
    if scope["method"] != "GET":
        return False
    # As the SDK does: a client that takes anything (curl) is answered with a stream too.
    accept = (_header(scope, b"accept") or b"*/*").lower()
    return any(kind in accept for kind in (b"text/event-stream", b"text/*", b"*/*"))


def _starts_events(message: Message) -> bool:
    if message["type"] != "http.response.start" or message["status"] != 200:
        return False
    return (_header(message, b"content-type") or b"").startswith(b"text/event-stream")


def _header(message: Message, name: bytes) -> bytes | None:
    return next((value for key, value in message.get("headers", ()) if key == name), None)


def _event(message: Message) -> bytes | None:
    """The event in `message`, if there is one and not a comment that keeps the connection alive."""
    body: bytes = message.get("body", b"")
    return None if body.startswith(b":") else body
