"""`SessionGate`: the ASGI wrapper that finds the session of each request, on whichever replica it is.

It stands between `Borrowing` and the app. See `sessions.py`.
"""

import asyncio
import json
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote

import mcp_types as types

from tidings.errors import TransportError
from tidings.server.borrowed_stream import COME_BACK, ASGIApp, Message, Receive, Scope, Send, header_of
from tidings.server.sessions import (
    ADOPTED_KEY,
    GATE_KEY,
    MOST_LETTER_BYTES,
    Refusal,
    SessionRecord,
    SharedSession,
    SharedSessions,
    owner_of,
)

_SESSION: Final = b"mcp-session-id"
_OF_ONE_REQUEST: Final = {_SESSION, b"content-length", b"content-type", b"accept", b"last-event-id"}
_SSE_ENDPOINT: Final = re.compile(rb"data: *([^\r\n?]+)\?session_id=([0-9a-f]{32})")
_SSE_QUERY: Final = re.compile(rb"(?:^|&)session_id=([0-9a-f]{32})(?:&|$)")
_ASK_SECONDS: Final = 30.0


class SessionGate:
    """The wrapper around one app of a server, whose sessions are shared."""

    def __init__(self, app: ASGIApp, sessions: SharedSessions) -> None:
        self._app = app
        self.sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        outer: tuple[SessionGate, Scope] | None = scope.get(GATE_KEY)
        if scope["type"] != "http" or (outer is not None and outer[0].sessions is self.sessions):
            await self._app(scope, receive, send)  # A wrapped app was wrapped again, or this is no request.
            return
        inner = {**scope, GATE_KEY: (self, scope)}  # The app writes into its scope.
        named = header_of(scope, _SESSION)
        try:
            if named is not None:
                await self._serve_session(named.decode("latin-1"), scope, inner, receive, send)
            elif scope["method"] == "GET":
                await self._serve_sse_stream(scope, inner, receive, send)
            elif scope["method"] == "POST" and (found := _SSE_QUERY.search(scope.get("query_string", b""))):
                await self._serve_sse_message(found.group(1).decode(), inner, receive, send)
            else:
                await self._app(inner, receive, send)
        except (Refusal, TransportError) as error:
            await _refuse(send, scope["method"], error)

    async def _serve_session(self, session_id: str, scope: Scope, inner: Scope, receive: Receive, send: Send) -> None:
        session = await self.sessions.find(session_id, self, scope)
        if session is None:
            await self._app(inner, receive, send)
            return
        if session.translated:
            inner["headers"] = _renamed(scope["headers"], session.local_id)
        body, streams, refused = _Body(receive), 0, False

        async def answer(message: Message) -> None:
            nonlocal streams, refused
            if message["type"] == "http.response.start":
                if session.translated:
                    message = {**message, "headers": _renamed(message.get("headers", ()), session.id)}
                streams = int((scope["method"], message["status"]) == ("GET", 200))
                session.streams += streams
                try:
                    await self._answering(session, scope, message["status"], body)
                except (Refusal, TransportError) as error:  # Not raised: the SDK would take it for its own.
                    refused = True
                    await _refuse(send, scope["method"], error)
            if not refused:
                await send(message)

        try:
            await self._app(inner, body.receive, answer)
        finally:
            session.streams -= streams

    async def _answering(self, session: SharedSession, scope: Scope, status: int, body: "_Body") -> None:
        """Does what concerns the session and other replicas, before the sender of a request has the answer.

        The app has checked the sender by then.
        """
        if status < 400:
            session.front, session.scope, session.used = self, scope, True
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
                begins = (header_of(message, b"content-type") or b"").startswith(b"text/event-stream")
            elif begins and (found := _SSE_ENDPOINT.search(message.get("body", b""))):
                # Done before the client knows where to send its messages: another replica may get the first.
                begins = False
                signed_in = {**scope, "user": inner.get("user")}
                session = await self.sessions.begin_sse(found.group(2).decode(), self, signed_in, found.group(1))
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
        await self.sessions.send(session_id, record, bytes(body.read))
        await _respond(send, 202, b"Accepted")

    async def ask(
        self,
        scope: Scope,
        message: Any = None,
        *,
        method: str = "POST",
        session_id: str | None = None,
        endpoint: bytes = b"",
        adopted: tuple[str, SessionRecord] | None = None,
    ) -> tuple[int, str | None]:
        """See `sessions.Front`."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        headers = [(name, value) for name, value in scope["headers"] if name not in _OF_ONE_REQUEST]
        headers += [(b"accept", b"application/json, text/event-stream"), (b"content-type", b"application/json")]
        headers += [(b"content-length", b"%d" % len(body))]
        request = {**scope, "method": method, "headers": headers, GATE_KEY: (self, scope), ADOPTED_KEY: adopted}
        named = (session_id or "").encode()
        if endpoint:
            request |= {
                "path": unquote(endpoint.decode()),
                "raw_path": endpoint,
                "query_string": b"session_id=" + named,
            }
        elif named:
            headers.append((_SESSION, named))
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        status, opened = 503, None

        async def receive() -> Message:
            return messages.pop() if messages else await asyncio.get_running_loop().create_future()  # It never leaves.

        async def send(message: Message) -> None:
            nonlocal status, opened
            if message["type"] == "http.response.start":
                status, opened = message["status"], header_of(message, _SESSION)

        with suppress(TimeoutError):
            async with asyncio.timeout(_ASK_SECONDS):
                await self._app(request, receive, send)
        return status, opened.decode("latin-1") if opened else None


def _renamed(headers: Iterable[tuple[bytes, bytes]], session_id: str) -> list[tuple[bytes, bytes]]:
    """Returns headers that name this session, if they named another."""
    return [(name, session_id.encode() if name == _SESSION else value) for name, value in headers]


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


async def _refuse(send: Send, method: str, error: Refusal | TransportError) -> None:
    if method == "GET":  # A client that gets another status does not open its stream again.
        await _respond(send, 200, COME_BACK, b"text/event-stream")
        return
    status = error.status if isinstance(error, Refusal) else 503
    text = str(error) if isinstance(error, Refusal) else f"Other replicas cannot be reached now. {error}"
    answer = {"jsonrpc": "2.0", "id": None, "error": {"code": types.INTERNAL_ERROR, "message": text}}
    await _respond(send, status, json.dumps(answer).encode(), b"application/json")


async def _respond(send: Send, status: int, body: bytes, kind: bytes = b"text/plain") -> None:
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    headers += [(b"retry-after", b"1")] if status == 503 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
