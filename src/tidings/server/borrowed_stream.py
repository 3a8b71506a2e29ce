"""`BorrowedStream`: frames written straight through the web server's `send`.

A thin ASGI wrapper around the SDK's app lets the SDK open every stream, with all its checks (headers, host and origin,
sign-in, body, sessions), and remembers the `send` of the responses that carry changes: the answer to a modern
`subscriptions/listen`, and the event stream of an old-era session. From then on subscribers write whole events through
that `send`. Each event is one chunk, so they cannot mix with the SDK's own. (If the chunk is all that `send` would
write, it takes a shorter way: see `_kit/uvicorn_seam.py`.) Every other request passes through untouched.

The SDK keeps several tasks for an open stream, which are most of its memory. So once a stream is open, it is *held* by
the wrapper alone: the SDK's side is cancelled, the response stays, and the wrapper sends the keep-alives.
"""

import asyncio
import logging
import re
import socket
import traceback
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Final, Protocol, cast
from weakref import WeakSet

from tidings._kit.uvicorn_seam import begun, chunk_taker, chunked_response, is_servers_own, transport_under
from tidings.changes import KEEP_ALIVE_HEADER
from tidings.errors import TidingsError

logger = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

# Keys in the scope of a request.
SCOPE_KEY: Final = "tidings.stream"  # Its `BorrowedStream`, if its answer may carry changes.
WRAPPED_KEY: Final = "tidings.wrapped"  # The lender of the wrapper through which it came.
SESSION_ID: Final = b"mcp-session-id"  # The header that names an old-era session.
COME_BACK: Final = b"retry: 5000\r\n\r\n"  # The pause before a client opens its stream again, in milliseconds.
_PING: Final = b": ping\r\n\r\n"  # A comment, which keeps the connection alive.
_PING_SECONDS: Final = 15.0  # Where the SDK's interval is not known.
LOOK_SECONDS: Final = 0.02  # Between two looks at what no event reports.
_CANNOT_RESUME: Final = b"This server keeps no events to resume a stream from. Open the stream without Last-Event-ID."
# The first event of the SSE transport, with the path for messages and the id of the session that it begins.
SSE_ENDPOINT: Final = re.compile(rb"event: endpoint\r\ndata: ([^\r\n?]+)\?session_id=([0-9a-f]{32})\r\n\r\n")


class Channel(Protocol):
    """The SDK's own messages for a stream that is held."""

    def lead_to(self, stream: "BorrowedStream") -> None:
        """Writes them to `stream` from now on."""

    def release(self) -> None:
        """Leaves them to the SDK again. The stream is over."""


class BorrowedStream:
    """The response stream of one request. The SDK opens it, and Tidings writes to it."""

    __slots__ = (
        "_channel",
        "_direct",
        "_incomplete",
        "_keep_alive",
        "_on_event",
        "_on_over",
        "_on_start",
        "_ping",
        "_response",
        "_send",
        "_task",
        "_transport",
        "answered",
        "began",
        "ended",
        "expires_at",
        "held",
        "principal",
        "session_id",
    )

    def __init__(self, send: Send, receive: Receive | None = None, keep_alive: float | None = None) -> None:
        self._send = send
        self._keep_alive = keep_alive  # Seconds between the SDK's keep-alives, which the reader is told.
        self._direct = is_servers_own(send)
        self._transport = transport_under(send, receive)
        self._response: Any = None
        self._task = asyncio.current_task()
        self._on_start: Callable[[Message], None] | None = None
        self._on_event: Callable[[bytes], None] | None = None
        self._on_over: tuple[Callable[[], object], ...] = ()
        self._incomplete = False
        self._channel: Channel | None = None
        self._ping: asyncio.TimerHandle | None = None
        self.held: bool = False  # By the wrapper alone, without the SDK.
        self.began = asyncio.get_running_loop().time()
        self.principal: str | None = None
        self.answered: bool = False  # The response has begun.
        self.ended: bool = False  # By this side.
        self.expires_at: float | None = None  # The end of its reader's token, in seconds since the epoch.
        self.session_id: str | None = None  # Of the old-era session that the stream belongs to, once it is known.

    def when_started(self, call: Callable[[Message], None]) -> None:
        """Calls `call` with the start of the response, once the SDK has begun to answer with a stream of events."""
        self._on_start = call

    def after_next_event(self, call: Callable[[bytes], None]) -> None:
        """Calls `call` with the next event that the SDK writes, once it is written."""
        self._on_event = call

    async def send(self, message: Message) -> None:
        """Sends a message of the SDK."""
        if self.ended or self.held:
            return
        starts = (
            self._on_start is not None
            and message["type"] == "http.response.start"
            and message["status"] == 200
            and (header_of(message, b"content-type") or b"").startswith(b"text/event-stream")
        )
        await self._send(_stated(message, self._keep_alive) if starts else message)
        self.answered = True
        self._incomplete = message["type"] == "http.response.start" or message.get("more_body", False)
        if starts and self._on_start is not None:
            self._response = chunked_response(self._send)
            call, self._on_start = self._on_start, None
            call(message)
        elif self._on_event is not None and (event := event_in(message)):
            call_with, self._on_event = self._on_event, None
            call_with(event)

    def write(self, data: bytes) -> asyncio.Future[None] | None:
        """Writes one or more whole events. Returns what to wait for before the next write, or None."""
        sending = self._send({"type": "http.response.body", "body": data, "more_body": True})
        return begun(sending) if self._direct else asyncio.ensure_future(sending)

    def chunk_taker(self) -> Callable[[bytes], None] | None:
        """Returns the function that takes one event as an HTTP chunk, where `write` would do just that; else None."""
        return None if self._response is None else chunk_taker(self._response)

    def when_over(self, call: Callable[[], object]) -> None:
        """Calls `call` when the response is over, for whatever reason."""
        self._on_over += (call,)

    def over(self) -> None:
        """Takes note that the response is over."""
        if self._ping is not None:
            self._ping.cancel()
        calls, self._on_over = self._on_over, ()
        for call in calls:
            call()

    def hold(self, channel: Channel | None = None) -> None:
        """Lets the SDK's side of the response go as soon as it waits for something. Its messages go to `channel`."""
        if not self.ended and self._task is not None:
            self.held, self._channel = True, channel
            self._task.cancel()

    def was_let_go(self) -> bool:
        """Returns whether `hold` alone has cancelled the task of the response, which then goes on."""
        return self.held and not self.ended and self._task is not None and not self._task.uncancel()

    async def stay(self, receive: Receive) -> None:
        """Keeps the response of a stream that is held open until its reader leaves, or it is ended."""
        if self._channel is not None:
            self._channel.lead_to(self)
        try:
            self._keep_alive_later()
            while not self.ended and (await receive())["type"] != "http.disconnect":
                pass  # The rest of the request.
        finally:
            if self._channel is not None:
                self._channel.release()

    def _keep_alive_later(self) -> None:
        self._ping = asyncio.get_running_loop().call_later(self._keep_alive or _PING_SECONDS, self._write_ping)

    def _write_ping(self) -> None:
        if not self.ended:
            # Where something is unsent, its reader has something to read.
            if not self.unsent and (writing := self.write(_PING)) is not None:
                writing.add_done_callback(_retrieve)
            self._keep_alive_later()

    def finish(self, last: bytes = b"") -> None:
        """Ends the response in good order with this event, if any, and releases the SDK's side of it."""
        if not self.ended:
            self.ended = True
            sending, rest = self._send({"type": "http.response.body", "body": last, "more_body": False}), None
            with suppress(Exception):  # Its reader is gone.
                rest = begun(sending) if self._direct else asyncio.ensure_future(sending)
            if rest is None:
                self._let_go()
            else:
                rest.add_done_callback(self._let_go)

    async def complete(self) -> None:
        """Ends the response in good order if the SDK left it open, as it does with event streams at a stop."""
        if self._incomplete and not self.ended:
            self.ended = True
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def abort(self) -> None:
        """Breaks the connection, so that the reader sees an incomplete response."""
        if self.ended:
            return
        self.ended = True
        if self._transport is not None:
            self._transport.abort()
        else:
            self._let_go()

    @property
    def unsent(self) -> int:
        """Bytes that the web server still holds, because the system accepts no more."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def drop(self) -> None:
        """Breaks the connection of a response that is over, if its reader does not take the rest."""
        if self._transport is not None and self.unsent:
            self._transport.abort()

    def _let_go(self, last: asyncio.Future[None] | None = None) -> None:
        if last is not None:
            _retrieve(last)
        if self._task is not None:
            self._task.cancel()

    def give_up_after(self, seconds: float) -> None:
        """Lets the system break the connection if its peer acknowledges nothing for `seconds`.

        Without this, the system waits a quarter of an hour for a peer that has lost its network.
        """
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        option = getattr(socket, "TCP_USER_TIMEOUT", None)
        if sock is None or option is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
            return
        try:
            # The system counts milliseconds in 31 bits, and 0 means its own default.
            sock.setsockopt(socket.IPPROTO_TCP, option, int(min(max(seconds * 1000, 1), 2**31 - 1)))
        except OSError as error:
            logger.debug("Cannot set a time limit on %s: %s", sock, error)


class PassedRequests:
    """The requests that are passed through. A web server that is to stop waits until they end and are read."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._answered: WeakSet[asyncio.Transport] = WeakSet()  # The system has not accepted all of the answer yet.

    @contextmanager
    def one(self, send: Send, receive: Receive) -> Generator[None]:
        """Surrounds a request."""
        task, transport = cast("asyncio.Task[Any]", asyncio.current_task()), transport_under(send, receive)
        self._tasks.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if task in self._tasks or transport is None:
                raise
            transport.abort()  # Cancelled by `end`: the web server goes on.
        finally:
            self._tasks.discard(task)
            if transport is not None and transport.get_write_buffer_size():
                self._answered.add(transport)

    def _unread(self) -> list[asyncio.Transport]:
        return [transport for transport in self._answered if transport.get_write_buffer_size()]

    async def end(self, seconds: float) -> None:
        """Waits at most `seconds`. Breaks off what then lacks its body, is not read, or is a slow route of the app."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._tasks or self._unread():  # noqa: ASYNC110 - no event reports the latter
                    await asyncio.sleep(LOOK_SECONDS)
        while self._tasks:
            self._tasks.pop().cancel()
        for transport in self._unread():
            transport.abort()


class Lender(Protocol):
    """The receiver of the streams that the SDK has opened: `Live`. It runs for the life of the application."""

    def running(self) -> AbstractAsyncContextManager[object]: ...

    async def aclose(self) -> None: ...

    def request_started(self) -> "PassedRequests":
        """A request is to be passed through. Returns where to note it."""
        ...

    def stream_started(self, stream: BorrowedStream) -> None:
        """The SDK has accepted a request, and begun to answer with a stream."""

    def stream_opened(self, session_id: str, stream: BorrowedStream, scope: Scope, *, begins: bool) -> None:
        """The stream belongs to an old-era session, which it may begin, and can be written to.

        `scope` is that of the request, once it has passed all checks.
        """

    def stream_closed(self, stream: BorrowedStream) -> None:
        """The stream is over, or was never opened."""


class Borrowing:
    """The ASGI wrapper around an app that serves MCP."""

    def __init__(self, app: ASGIApp, lender: Lender, keep_alive: float | None = None) -> None:
        self.app = app
        self._lender = lender
        self._keep_alive = keep_alive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
            return
        if any(value[-1:] in (b" ", b"\t") for _, value in scope["headers"]):
            # The space around a value is not a part of it. Httptools leaves the space behind it.
            scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        stream = self._borrow(scope, receive, send)
        if stream is None:
            receiving = _Receiving(receive)
            with self._lender.request_started().one(send, receive):
                try:
                    await self.app(scope, receiving, self._stating(scope, send))
                finally:
                    receiving.over()
            return
        try:
            await self._serve(stream, scope, receive, send)
        except asyncio.CancelledError:
            # Cancelled by `_let_go`: the response is over, and the web server goes on.
            if not stream.ended:
                raise
        finally:
            stream.over()
            self._lender.stream_closed(stream)

    async def _serve(self, stream: BorrowedStream, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self.app(scope, receive, stream.send)
        except asyncio.CancelledError:
            if not stream.was_let_go():
                raise
        if stream.held:
            # Outside of the handler above: the error keeps all that the SDK had for this request.
            await stream.stay(receive)
        elif stream.session_id is not None:
            await stream.complete()
        elif not stream.answered and header_of(scope, b"last-event-id") is not None:
            await respond(send, 400, _CANNOT_RESUME)  # The SDK gives no answer if it keeps no events.

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Keeps the lender running for the life of the application."""
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._lender.running())
            except Exception as error:  # noqa: BLE001 - the web server logs it and ends
                await receive()  # `lifespan.startup`, which has to come before the answer.
                await send({"type": "lifespan.startup.failed", "message": _why_not(error)})
                return

            held: list[Message] = []

            async def hear() -> Message:
                message = await receive()
                if message["type"] == "lifespan.shutdown":
                    await self._lender.aclose()  # Before the SDK cancels what runs in its sessions, and waits for it.
                return message

            async def say(message: Message) -> None:
                if message["type"] == "lifespan.startup.failed":
                    held.append(message)  # Sent below, without the traceback of an error that explains itself.
                    return
                # After this message the web server ends the process, with everything that still runs.
                if message["type"].startswith("lifespan.shutdown."):
                    await stack.aclose()
                await send(message)

            try:
                await self.app(scope, hear, say)
            except (TidingsError, OSError) as error:
                if not held:
                    raise
                held[0]["message"] = _why_not(error)
                await send(held.pop())
            finally:
                for message in held:
                    await send(message)

    def _borrow(self, scope: Scope, receive: Receive, send: Send) -> BorrowedStream | None:
        """Returns the stream of a request whose answer will carry changes, if it succeeds."""
        if scope["type"] != "http" or scope.get(WRAPPED_KEY) is self._lender:
            return None  # A wrapped app was wrapped again.
        scope[WRAPPED_KEY] = self._lender
        if not _carries_changes(scope):
            return None
        stream = scope[SCOPE_KEY] = BorrowedStream(send, receive, self._keep_alive)
        stream.when_started(partial(self._started, scope, stream))
        return stream

    def _stating(self, scope: Scope, send: Send) -> Send:
        """Returns the `send` of a request, which tells the client of an old handshake that its stream begins at once.

        Other servers may begin a stream with its first event, so that a client cannot tell a lost one by its silence.
        """
        named = (SESSION_ID, b"mcp-method")  # By every other POST.
        if self._keep_alive is None or scope.get("method") != "POST" or any(header_of(scope, name) for name in named):
            return send
        return lambda message: send(_stated(message, self._keep_alive))

    def _started(self, scope: Scope, stream: BorrowedStream, start: Message) -> None:
        self._lender.stream_started(stream)
        if scope["method"] == "POST":
            return

        def opened(session_id: bytes, *, begins: bool = False) -> None:
            stream.session_id = session_id.decode("latin-1")
            self._lender.stream_opened(stream.session_id, stream, scope, begins=begins)

        def find_session(event: bytes) -> None:
            if found := SSE_ENDPOINT.fullmatch(event):
                opened(found.group(2), begins=True)

        # A request may name any session, on any path. The answer names the one whose client the SDK has let in.
        if (session_id := header_of(start, SESSION_ID)) is not None and session_id == header_of(scope, SESSION_ID):
            opened(session_id)
        else:
            stream.after_next_event(find_session)


class _Receiving:
    """The `receive` of a request until it is over.

    The SDK keeps the last request of an old-era session until the next one. With the web server's own `receive`, that
    would keep the connection and all its buffers.
    """

    __slots__ = ("_receive",)

    def __init__(self, receive: Receive) -> None:
        self._receive = receive

    def __call__(self) -> Awaitable[Message]:
        return self._receive()

    def over(self) -> None:
        self._receive = _disconnected


async def _disconnected() -> Message:
    return {"type": "http.disconnect"}


def _retrieve(sent: asyncio.Future[None]) -> None:
    if not sent.cancelled():
        sent.exception()  # So that asyncio does not complain that nobody did.


def _stated(message: Message, keep_alive: float | None) -> Message:
    """Returns the start of a response with the interval between keep-alives, and any other message as it is."""
    if keep_alive is None or message["type"] != "http.response.start":
        return message
    stated = (KEEP_ALIVE_HEADER.encode(), b"%g" % keep_alive)
    return {**message, "headers": [*message.get("headers", ()), stated]}


async def respond(send: Send, status: int, body: bytes, kind: bytes = b"text/plain") -> None:
    """Sends a whole response of this content type."""
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    headers += [(b"retry-after", b"1")] if status == 503 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _why_not(error: Exception) -> str:
    """Returns the reason why the server does not start. Errors with a name explain themselves."""
    if isinstance(error, TidingsError | OSError):
        return f"The live server cannot start: {error}"
    return "The live server cannot start:\n" + "".join(traceback.format_exception(error))


def _carries_changes(scope: Scope) -> bool:
    """Returns whether the answer to this request may be a stream that carries changes."""
    if scope["method"] == "POST":
        return header_of(scope, b"mcp-method") == b"subscriptions/listen"
    if scope["method"] != "GET":
        return False
    # As in the SDK, a client that accepts anything (curl) gets a stream, too.
    accept = (header_of(scope, b"accept") or b"*/*").lower()
    return any(kind in accept for kind in (b"text/event-stream", b"text/*", b"*/*"))


def event_in(message: Message) -> bytes:
    """Returns the event in a part of a response; b"" for a comment, which keeps the connection alive."""
    body: bytes = message.get("body", b"")
    return b"" if body.startswith(b":") else body


def header_of(message: Message, name: bytes) -> bytes | None:
    """Returns the value of a header of a request's scope or of the start of a response."""
    return next((value for key, value in message.get("headers", ()) if key == name), None)
