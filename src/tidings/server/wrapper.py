"""The ASGI wrappers around an app that serves MCP.

`Borrowing` is the outer one. It passes each request to the app, and remembers the streams that carry changes: see
`borrowed_stream.py`. Other requests pass through untouched, but for refusals: see `http_exchange.py`. `SessionGate`
stands between it and the app, and finds the session of each request, on whichever replica it is: see `sessions.py`.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from typing import Any, Final, Protocol, cast
from weakref import WeakSet

from mcp_types import INVALID_REQUEST

from tidings._kit.uvicorn_seam import transport_under
from tidings.errors import LimitReached, TidingsError, TransportError
from tidings.server.borrowed_stream import (
    COME_BACK,
    SCOPE_KEY,
    SSE_ENDPOINT,
    SSE_QUERY,
    WRAPPED_KEY,
    BorrowedStream,
    event_in,
    stated,
)
from tidings.server.http_exchange import (
    EXCHANGE_KEY,
    MOST_HEADER_BYTES,
    SESSION_ID,
    ASGIApp,
    LegacyExchange,
    Message,
    Receive,
    Scope,
    Send,
    header_bytes,
    header_of,
    is_limited,
    refusal,
    respond,
)
from tidings.server.legacy import LegacyEra
from tidings.server.policy import owner_of
from tidings.server.session_records import MOST_LETTER_BYTES
from tidings.server.sessions import GATE_KEY, REFUSED, Front, SharedSession, SharedSessions
from tidings.server.stop import BrokenOff

LOOK_SECONDS: Final = 0.02  # Between two looks at what no event reports.
_CANNOT_RESUME: Final = b"This server keeps no events to resume a stream from. Open the stream without Last-Event-ID."
_BROKEN_OFF: Final = b"This server is stopping, and did not wait for the end of this request. Try again in a moment."
_TOO_MANY_HEADERS: Final = b"The headers of this request take more than %d bytes." % MOST_HEADER_BYTES
_NOT_FOUND: Final = b'{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":"Session not found"}}' % INVALID_REQUEST


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
        self._broken_off.add(self._tasks)
        for task in self._tasks:
            task.cancel()


class Lender(Protocol):
    """The receiver of the streams that the SDK has opened: `Live`. It runs for the life of the application."""

    def running(self) -> AbstractAsyncContextManager[object]: ...

    async def aclose(self) -> None: ...

    def request_started(self) -> PassedRequests: ...  # Where to note it.

    def stream_started(self, stream: BorrowedStream) -> None: ...


class Borrowing:
    """The ASGI wrapper around an app that serves MCP."""

    def __init__(self, app: ASGIApp, lender: Lender, register: LegacyEra, keep_alive: float | None = None) -> None:
        self.app = app
        self._lender = lender
        self._register = register
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
            stream = BorrowedStream(send, receive, self._keep_alive, is_limited(scope), header_weight=weight)
            await self._lend(stream, scope, receive, send)
        else:
            is_legacy = scope["method"] == "POST" and header_of(scope, b"mcp-method") is None
            app = partial(self._answer, weight) if is_legacy else self.app
            await self._lender.request_started().serve(app, scope, receive, send)

    async def _answer(self, weight: int, scope: Scope, receive: Receive, send: Send) -> None:
        named, over_sse = header_of(scope, SESSION_ID), SSE_QUERY.search(scope.get("query_string", b""))

        def check(weight: int) -> None:
            if over_sse is not None:
                self._register.sse_message_came(over_sse[1].decode(), weight)

        def say(message: Message) -> Awaitable[None]:
            # Other servers may begin a stream with its first event, so that a client cannot tell a lost one by its
            # silence. This tells the client of a handshake that its stream begins at once.
            return send(stated(message, None if named else self._keep_alive))

        scope[EXCHANGE_KEY] = answer = LegacyExchange(
            receive, say, header_weight=weight, is_handshake=named is None, limited=is_limited(scope), check=check
        )
        try:
            await self.app(scope, answer.receive, answer.send)
        except asyncio.CancelledError:
            if not answer.refused:
                raise
        finally:
            answer.over()

    async def _lend(self, stream: BorrowedStream, scope: Scope, receive: Receive, send: Send) -> None:
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
    """Returns the session of a stream. A request may name any; the answer names the one that was let in."""
    session_id = header_of(start, SESSION_ID)
    return session_id.decode("latin-1") if session_id and session_id == header_of(scope, SESSION_ID) else None


def _why_not(error: Exception) -> str:
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


class SessionGate:
    """The wrapper around one app of a server, whose sessions are shared."""

    def __init__(self, app: ASGIApp, sessions: SharedSessions) -> None:
        self._app = app
        self.sessions = sessions
        self._front = Front(app, sessions)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        outer: tuple[Front, Scope] | None = scope.get(GATE_KEY)
        if scope["type"] != "http" or (outer is not None and outer[0].sessions is self.sessions):
            await self._app(scope, receive, send)  # A wrapped app was wrapped again, or this is no request.
            return
        inner = {**scope, GATE_KEY: (self._front, scope)}  # The app writes into its scope.
        named = header_of(scope, SESSION_ID)
        try:
            if named is not None:
                await self._serve_session(named.decode("latin-1"), scope, inner, receive, send)
            elif scope["method"] == "GET":
                await self._serve_sse_stream(scope, inner, receive, send)
            elif scope["method"] == "POST" and (found := SSE_QUERY.search(scope.get("query_string", b""))):
                await self._serve_sse_message(found.group(1).decode(), inner, receive, send)
            else:
                await self._app(inner, receive, send)
        except REFUSED as error:
            await _refuse(send, scope["method"], error)

    async def _serve_session(self, session_id: str, scope: Scope, inner: Scope, receive: Receive, send: Send) -> None:
        session = await self.sessions.find(session_id, self._front, scope)
        if session is None:
            await self._app(inner, receive, send)
            return
        if session.translated:
            inner["headers"] = _renamed(scope["headers"], session.local_id)
        body, refused = _Body(receive), False

        async def answer(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start":
                _sign_in(scope, inner)
                if session.translated:
                    message = {**message, "headers": _renamed(message.get("headers", ()), session.id)}
                stream: BorrowedStream | None = scope.get(SCOPE_KEY)
                if stream is not None and message["status"] == 200:
                    session.streams += 1
                    stream.when_over(session.stream_over)
                try:
                    await self._answering(session, scope, message["status"], body)
                except REFUSED as error:  # Not raised: the SDK would take it for its own.
                    refused = True
                    await _refuse(send, scope["method"], error)
            if not refused:
                await send(message)

        await self._app(inner, body.receive, answer)

    async def _answering(self, session: SharedSession, scope: Scope, status: int, body: "_Body") -> None:
        """Does what concerns other replicas, before the sender of a request has the answer. The app has checked it."""
        if status < 400:
            session.front, session.scope, session.used = self._front, scope, True
        match scope["method"], status:
            case "GET", 200:
                await self.sessions.opening_stream(session)
            case "DELETE", 200:
                await self.sessions.end(session)
            case "POST", 202:  # It was not a request.
                await self.sessions.forward(session, bytes(body.read))
            case _:
                pass

    async def _serve_sse_stream(self, scope: Scope, inner: Scope, receive: Receive, send: Send) -> None:
        session: SharedSession | None = None
        begins = False

        async def answer(message: Message) -> None:
            nonlocal session, begins
            if message["type"] == "http.response.start":
                _sign_in(scope, inner)
                begins = (header_of(message, b"content-type") or b"").startswith(b"text/event-stream")
            elif begins and (event := event_in(message)):
                begins = False
                if found := SSE_ENDPOINT.fullmatch(event):
                    # Done before the client knows where to send its messages: another replica may get the first.
                    session = await self.sessions.begin_sse(found.group(2).decode(), self._front, scope, found.group(1))
            await send(message)

        try:
            await self._app(inner, receive, answer)
        finally:
            if session is not None:
                self.sessions.end_soon(session)

    async def _serve_sse_message(self, session_id: str, inner: Scope, receive: Receive, send: Send) -> None:
        """Serves a message of an SSE session. Passes it on if the app does not know that."""
        body, unknown, path = _Body(receive), list[Message](), inner["path"]

        async def answer(message: Message) -> None:
            if unknown or message.get("status") == 404:
                unknown.append(message)
            else:
                await send(message)

        await self._app(inner, body.receive, answer)
        if not unknown:
            return
        record = await self.sessions.record_of(session_id)
        if record is None or (record.endpoint, record.owner) != (path, owner_of(inner)):
            for message in unknown:
                await send(message)
            return
        while body.more and len(body.read) <= MOST_LETTER_BYTES:
            await body.receive()
        await self.sessions.send(session_id, bytes(body.read))
        await respond(send, 202, b"Accepted")


def _sign_in(scope: Scope, inner: Scope) -> None:
    """Passes the user of a request on to the wrapper outside, which asks whose stream it is."""
    if "user" in inner:
        scope["user"] = inner["user"]


def _renamed(headers: Iterable[tuple[bytes, bytes]], session_id: str) -> list[tuple[bytes, bytes]]:
    return [(name, session_id.encode() if name == SESSION_ID else value) for name, value in headers]


class _Body:
    """The body of a request, as far as the app has read it."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.read = bytearray()
        self.more = True

    async def receive(self) -> Message:
        message = await self._receive()
        self.read += message.get("body", b"")
        self.more = message.get("more_body", False)
        return message


async def _refuse(send: Send, method: str, error: Exception) -> None:
    if method == "GET":  # A client that gets another status does not open its stream again.
        await respond(send, 200, COME_BACK, b"text/event-stream")
    elif isinstance(error, TransportError | LimitReached):
        await refusal(error)(send)
    else:
        await respond(send, 404, _NOT_FOUND, b"application/json")
