"""`SessionGate`: the ASGI wrapper that finds the session of each request, on whichever replica it is.

It stands between `Borrowing` and the app. See `sessions.py`.
"""

from collections.abc import Iterable
from typing import Final

from mcp_types import INVALID_REQUEST

from tidings.errors import LimitReached, TransportError
from tidings.server.borrowed_stream import COME_BACK, SCOPE_KEY, SSE_ENDPOINT, SSE_QUERY, BorrowedStream, event_in
from tidings.server.http_exchange import (
    SESSION_ID,
    ASGIApp,
    Message,
    Receive,
    Scope,
    Send,
    header_of,
    refusal,
    respond,
)
from tidings.server.principals import owner_of
from tidings.server.session_records import MOST_LETTER_BYTES, SessionEnded
from tidings.server.sessions import GATE_KEY, Front, SharedSession, SharedSessions

_REFUSED: Final = (SessionEnded, LimitReached, TransportError)
_NOT_FOUND: Final = b'{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":"Session not found"}}' % INVALID_REQUEST


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
        except _REFUSED as error:
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
                except _REFUSED as error:  # Not raised: the SDK would take it for its own.
                    refused = True
                    await _refuse(send, scope["method"], error)
            if not refused:
                await send(message)

        await self._app(inner, body.receive, answer)

    async def _answering(self, session: SharedSession, scope: Scope, status: int, body: "_Body") -> None:
        """Does what concerns the session and other replicas, before the sender of a request has the answer.

        The app has checked the sender by then.
        """
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

    # The SSE transport

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
        """Serves a message of an SSE session, or passes it on to the replica that holds the session.

        The app is asked first: if it does not know the session, it has still checked the sender.
        """
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
    """Returns headers that name this session, if they named another."""
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
