"""`BorrowedStream`: frames written straight through the web server's `send`.

A thin ASGI wrapper around the SDK's app lets the SDK open every stream, with all its checks (headers, host and origin,
sign-in, body, sessions), and remembers the `send` of the responses that carry changes: the answer to a modern
`subscriptions/listen`, and the event stream of a legacy session. From then on subscribers write whole events through
that `send`. Each event is one chunk, so they cannot mix with the SDK's own. (If the chunk is all that `send` would
write, it takes a shorter way: see `_kit/uvicorn_seam.py`.) Other requests pass through untouched, but for refusals: see
`http_exchange.py`.

The SDK keeps several tasks for an open stream, which are most of its memory. So once a stream is open, it is *held* by
the wrapper alone: the SDK's side is cancelled, the response stays, and the wrapper sends the keep-alives.
"""

import asyncio
import logging
import re
import socket
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from typing import Any, Final, Protocol, cast
from weakref import WeakSet

from tidings._kit.tasks import retrieve
from tidings._kit.uvicorn_seam import begun, chunk_taker, chunked_response, is_servers_own, transport_under
from tidings.changes import KEEP_ALIVE_HEADER
from tidings.errors import LimitReached, TidingsError
from tidings.server.budget import Place
from tidings.server.http_exchange import (
    EXCHANGE_KEY,
    MOST_HEADER_BYTES,
    SESSION_ID,
    ASGIApp,
    HttpExchange,
    LegacyExchange,
    Message,
    Receive,
    Scope,
    Send,
    bounded,
    header_bytes,
    header_of,
    is_event_stream,
    is_limited,
    respond,
)
from tidings.server.stop import BrokenOff

logger = logging.getLogger(__name__)

# Keys in the scope of a request.
SCOPE_KEY: Final = "tidings.stream"  # Its `BorrowedStream`, if its answer may carry changes.
WRAPPED_KEY: Final = "tidings.wrapped"  # The register of the wrapper through which it came.
COME_BACK: Final = b"retry: 5000\r\n\r\n"  # The pause before a client opens its stream again, in milliseconds.
_PING: Final = b": ping\r\n\r\n"  # A comment, which keeps the connection alive.
_PING_SECONDS: Final = 15.0  # Where the SDK's interval is not known.
LOOK_SECONDS: Final = 0.02  # Between two looks at what no event reports.
_CANNOT_RESUME: Final = b"This server keeps no events to resume a stream from. Open the stream without Last-Event-ID."
_BROKEN_OFF: Final = b"This server is stopping, and did not wait for the end of this request. Try again in a moment."
_TOO_MANY_HEADERS: Final = b"The headers of this request take more than %d bytes." % MOST_HEADER_BYTES
# The first event of the SSE transport, with the path for messages and the id of the session that it begins.
SSE_ENDPOINT: Final = re.compile(rb"event: endpoint\r\ndata: ([^\r\n?]+)\?session_id=([0-9a-f]{32})\r\n\r\n")
SSE_QUERY: Final = re.compile(rb"(?:^|&)session_id=([0-9a-f]{32})(?:&|$)")  # Of its messages.


class Channel(Protocol):
    """The SDK's own messages for a stream that is held."""

    def lead_to(self, stream: "BorrowedStream") -> None:
        """Writes them to `stream` from now on."""

    def release(self) -> None:
        """Leaves them to the SDK again. The stream is over."""


class BorrowedStream(HttpExchange):
    """The response stream of one request. The SDK opens it, and Tidings writes to it."""

    __slots__ = (
        "_admit",
        "_channel",
        "_direct",
        "_incomplete",
        "_keep_alive",
        "_limited",
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
        "place",
        "principal",
        "session_id",
    )

    def __init__(
        self,
        send: Send,
        receive: Receive | None = None,
        keep_alive: float | None = None,
        header_weight: int = 0,
        *,
        limited: bool = False,
    ) -> None:
        super().__init__(header_weight)
        self._limited = limited
        self._send = send
        self._keep_alive = keep_alive  # Seconds between the SDK's keep-alives, which the reader is told.
        self._direct = is_servers_own(send)
        self._transport = transport_under(send, receive)
        self._response: Any = None
        self._task = asyncio.current_task()
        self._admit: Callable[[Message], None] | None = None
        self._on_start: Callable[[Message], None] | None = None
        self._on_event: Callable[[bytes], None] | None = None
        self._on_over: tuple[Callable[[], object], ...] = ()
        self._incomplete = False
        self._channel: Channel | None = None
        self._ping: asyncio.TimerHandle | None = None
        self.held: bool = False  # By the wrapper alone, without the SDK.
        self.place: Place | None = None  # In the budget, if it is not a part of another one.
        self.began: float = asyncio.get_running_loop().time()
        self.principal: str | None = None
        self.answered: bool = False  # The response has begun.
        self.ended: bool = False  # By this side.
        self.expires_at: float | None = None  # The end of its reader's token, in seconds since the epoch.
        self.session_id: str | None = None  # Of the legacy session that the stream belongs to, once it is known.

    def when_started(self, call: Callable[[Message], None], *, admit: Callable[[Message], None] | None = None) -> None:
        """Calls `call` with the start of the response, once the SDK has begun to answer with a stream of events.

        Before that, `admit` is called, and may raise `LimitReached`.
        """
        self._admit, self._on_start = admit, call

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
            and is_event_stream(message)
            and header_of(message, b"content-length") is None  # Otherwise it is no more than one event.
        )
        if starts and self._admit is not None:
            try:
                self._admit(message)
            except LimitReached as error:
                self.refuse(error)
        if self.refusal is not None and message["type"] == "http.response.start":
            self.answered = self.ended = True  # The SDK sees that the response is over.
            await self.refusal(self._send)
            return
        await self._send(_stated(message, self._keep_alive) if starts else bounded(message, limited=self._limited))
        self.answered = True
        self._incomplete = message["type"] == "http.response.start" or message.get("more_body", False)
        if starts and self._on_start is not None:
            self._response = chunked_response(self._send)
            call, self._on_start, self._admit = self._on_start, None, None
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
        self._on_over += (call,)

    def over(self) -> None:
        """Takes note that the response is over."""
        if self._ping is not None:
            self._ping.cancel()
        self.leave_place()
        calls, self._on_over = self._on_over, ()
        for call in calls:
            call()

    def leave_place(self) -> None:
        if self.place is not None:
            self.place.release()

    def hold(self, channel: Channel | None = None) -> None:
        """Lets the SDK's side of the response go as soon as it waits for something. Its messages go to `channel`."""
        if not self.ended and self._task is not None:
            self.held, self._channel = True, channel
            self._task.cancel()
            if self.place is not None:
                self.place.keep("request", 0)  # The SDK lets go of that, too.

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
                writing.add_done_callback(retrieve)
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
            retrieve(last)
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

    def __init__(self, broken_off: BrokenOff) -> None:
        self._broken_off = broken_off
        self._tasks: dict[asyncio.Task[Any], asyncio.Transport | None] = {}  # With what to abort, once it is answered.
        self._answered: WeakSet[asyncio.Transport] = WeakSet()  # The system has not accepted all of the answer yet.
        self.stopping = False

    async def serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request to `app`. If a stop does not wait for it, it is answered with 503, or its answer breaks."""
        task, transport = cast("asyncio.Task[Any]", asyncio.current_task()), transport_under(send, receive)
        begun = False

        async def note(message: Message) -> None:
            nonlocal begun
            if not begun and task in self._tasks:
                begun, self._tasks[task] = True, transport
            await send(message)

        self._tasks[task] = None
        try:
            await app(scope, receive, note)
        except asyncio.CancelledError:
            if not self.stopping or (begun and transport is None):
                raise
            task.uncancel()  # It was cancelled by `end`, or by a second signal: the web server goes on.
            self._broken_off.add([task])
            if not begun:
                await respond(send, 503, _BROKEN_OFF)
            elif transport is not None:
                transport.abort()
                await asyncio.sleep(0)  # The web server takes note.
        finally:
            del self._tasks[task]
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
        if begun := [transport for transport in self._tasks.values() if transport is not None]:
            for transport in begun:
                transport.abort()
            await asyncio.sleep(LOOK_SECONDS)  # An app that streams ends by itself when its reader is gone.
        self.break_off()
        for transport in self._unread():
            transport.abort()

    def break_off(self) -> None:
        """Ends what is still open. The process does not wait for its threads."""
        self._broken_off.add(self._tasks)
        for task in self._tasks:
            task.cancel()


class Register(Protocol):
    """The register of the streams that belong to legacy sessions: `LegacyEra`."""

    def admit_stream(self, session_id: str | None, stream: BorrowedStream, scope: Scope) -> None:
        """Raises `LimitReached` if there is no room for a stream of this session, or one that begins a session."""

    def sse_message_came(self, session_id: str, weight: int) -> None:
        """A message of the SSE transport takes so many bytes. Raises `LimitReached` if there is no room for it."""

    def stream_opened(self, session_id: str, stream: BorrowedStream, scope: Scope, *, begins: bool) -> None:
        """The stream belongs to a legacy session, which it may begin, and can be written to.

        `scope` is that of the request, once it has passed all checks.
        """

    def stream_closed(self, stream: BorrowedStream) -> None:
        """The stream is over, or was never opened."""


class Lender(Protocol):
    """The receiver of the streams that the SDK has opened: `Live`. It runs for the life of the application."""

    @property
    def legacy(self) -> Register: ...

    def running(self) -> AbstractAsyncContextManager[object]: ...

    async def aclose(self) -> None: ...

    def request_started(self) -> PassedRequests:
        """A request is to be passed through. Returns where to note it."""
        ...

    def stream_started(self, stream: BorrowedStream) -> None:
        """The SDK has accepted a request, and begun to answer with a stream."""


class Borrowing:
    """The ASGI wrapper around an app that serves MCP."""

    def __init__(self, app: ASGIApp, lender: Lender, keep_alive: float | None = None) -> None:
        self.app = app
        self._lender = lender
        self._register = lender.legacy
        self._keep_alive = keep_alive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
            return
        if any(value[-1:] in (b" ", b"\t") for _, value in scope["headers"]):
            # The space around a value is not a part of it. Httptools leaves the space behind it.
            scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        if scope["type"] != "http" or scope.get(WRAPPED_KEY) is self._register:
            await self.app(scope, receive, send)  # It is no request, or a wrapped app was wrapped again.
            return
        scope[WRAPPED_KEY] = self._register
        weight = header_bytes(scope)
        if weight > MOST_HEADER_BYTES:
            await respond(send, 431, _TOO_MANY_HEADERS)
        elif _carries_changes(scope):
            stream = BorrowedStream(send, receive, self._keep_alive, weight, limited=is_limited(scope))
            await self._lend(stream, scope, receive, send)
        else:
            is_legacy = scope["method"] == "POST" and header_of(scope, b"mcp-method") is None
            app = partial(self._answer, weight) if is_legacy else self.app
            await self._lender.request_started().serve(app, scope, receive, send)

    async def _answer(self, weight: int, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a message of the legacy era."""
        named, over_sse = header_of(scope, SESSION_ID), SSE_QUERY.search(scope.get("query_string", b""))

        def check(weight: int) -> None:
            if over_sse is not None:
                self._register.sse_message_came(over_sse[1].decode(), weight)

        def say(message: Message) -> Awaitable[None]:
            # Other servers may begin a stream with its first event, so that a client cannot tell a lost one by its
            # silence. This tells the client of a handshake that its stream begins at once.
            return send(_stated(message, None if named else self._keep_alive))

        scope[EXCHANGE_KEY] = answer = LegacyExchange(
            receive, say, weight, is_handshake=named is None, limited=is_limited(scope), check=check
        )
        try:
            await self.app(scope, answer.receive, answer.send)
        except asyncio.CancelledError:
            if not answer.refused:
                raise
        finally:
            answer.over()

    async def _lend(self, stream: BorrowedStream, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request whose answer will carry changes, if it succeeds."""
        scope[SCOPE_KEY] = scope[EXCHANGE_KEY] = stream
        stream.when_started(
            partial(self._started, scope, stream),
            admit=partial(self._admit, scope, stream) if scope["method"] == "GET" else None,
        )
        try:
            await self._lender.request_started().serve(partial(self._serve, stream), scope, receive, stream.send)
            if stream.held:
                # Not in `_serve`: there, an error keeps all that the SDK had for this request.
                await stream.stay(receive)
            elif stream.session_id is not None:
                await stream.complete()
            elif not stream.answered and header_of(scope, b"last-event-id") is not None:
                await respond(send, 400, _CANNOT_RESUME)  # The SDK gives no answer if it keeps no events.
        except asyncio.CancelledError:
            # Cancelled by `_let_go`: the response is over, and the web server goes on.
            if not stream.ended:
                raise
        finally:
            stream.over()
            self._register.stream_closed(stream)

    async def _serve(self, stream: BorrowedStream, scope: Scope, receive: Receive, send: Send) -> None:
        async def weigh() -> Message:
            message = await receive()
            stream.weigh(message.get("body", b""))
            return message

        try:
            await self.app(scope, weigh, send)
        except asyncio.CancelledError:
            if not (stream.ended or stream.was_let_go()):
                raise

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
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

    def _admit(self, scope: Scope, stream: BorrowedStream, start: Message) -> None:
        self._register.admit_stream(_session_of(scope, start), stream, scope)

    def _started(self, scope: Scope, stream: BorrowedStream, start: Message) -> None:
        self._lender.stream_started(stream)
        if scope["method"] == "POST":
            return

        def opened(session_id: str, *, begins: bool = False) -> None:
            stream.session_id = session_id
            self._register.stream_opened(session_id, stream, scope, begins=begins)

        def find_session(event: bytes) -> None:
            if found := SSE_ENDPOINT.fullmatch(event):
                opened(found.group(2).decode(), begins=True)
            else:
                stream.leave_place()  # It is a stream of the program's own.

        if (session_id := _session_of(scope, start)) is not None:
            opened(session_id)
        else:
            stream.after_next_event(find_session)


def _session_of(scope: Scope, start: Message) -> str | None:
    """Returns the id of the session that a stream belongs to.

    A request may name any session, on any path. The answer names the one whose client the SDK has let in.
    """
    session_id = header_of(start, SESSION_ID)
    return session_id.decode("latin-1") if session_id and session_id == header_of(scope, SESSION_ID) else None


def _stated(message: Message, keep_alive: float | None) -> Message:
    """Returns the start of a response with the interval between keep-alives, and any other message as it is."""
    if keep_alive is None or message["type"] != "http.response.start":
        return message
    stated = (KEEP_ALIVE_HEADER.encode(), b"%g" % keep_alive)
    return {**message, "headers": [*message.get("headers", ()), stated]}


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
