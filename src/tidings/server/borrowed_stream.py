"""`BorrowedStream`: frames written straight through the web server's `send`.

The SDK opens every stream, with all its checks. Its wrapper (`wrapper.py`) keeps the `send` of those with changes,
and from then on subscribers write whole events through it. Each event is one chunk, so they cannot mix with the SDK's
own. The SDK's tasks are most of the memory of a stream. So once it is open, it is *held* by the wrapper alone: the
SDK's side is cancelled, the response stays, and the wrapper sends the keep-alives.
"""

import asyncio
import logging
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import InitVar, dataclass
from typing import Any, Final, Protocol

from tidings._kit.tasks import retrieve
from tidings._kit.uvicorn_seam import begun, chunk_taker, chunked_response, is_servers_own, transport_under
from tidings.changes import KEEP_ALIVE_HEADER
from tidings.errors import LimitReached
from tidings.server.budget import Place
from tidings.server.http_exchange import HttpExchange, Message, Receive, Send, bounded, header_of, is_event_stream

logger = logging.getLogger(__name__)

# Keys in the scope of a request.
SCOPE_KEY: Final = "tidings.stream"  # Its `BorrowedStream`, if its answer may carry changes.
WRAPPED_KEY: Final = "tidings.wrapped"  # The register of the wrapper through which it came.
COME_BACK: Final = b"retry: 5000\r\n\r\n"  # The pause before a client opens its stream again, in milliseconds.
_PING: Final = b": ping\r\n\r\n"  # A comment, which keeps the connection alive.
_PING_SECONDS: Final = 15.0  # Where the SDK's interval is not known.
# The first event of the SSE transport, with the path for messages and the id of the session that it begins.
SSE_ENDPOINT: Final = re.compile(rb"event: endpoint\r\ndata: ([^\r\n?]+)\?session_id=([0-9a-f]{32})\r\n\r\n")
SSE_QUERY: Final = re.compile(rb"(?:^|&)session_id=([0-9a-f]{32})(?:&|$)")  # Of its messages.


class Channel(Protocol):
    """The SDK's own messages for a stream that is held."""

    def lead_to(self, stream: "BorrowedStream") -> None:
        """Writes them to `stream` from now on."""

    def release(self) -> None:
        """Leaves them to the SDK again. The stream is over."""


@dataclass(slots=True, eq=False)
class BorrowedStream(HttpExchange):
    """The response stream of one request. The SDK opens it, and Tidings writes to it."""

    _send: Send
    receive: InitVar[Receive | None] = None
    _keep_alive: float | None = None  # Seconds between the SDK's keep-alives, which the reader is told.
    limited: bool = False
    held: bool = False  # By the wrapper alone, without the SDK.
    place: Place | None = None  # In the budget, if it is not a part of another one.
    began: float = 0.0
    principal: str | None = None
    answered: bool = False  # The response has begun.
    ended: bool = False  # By this side.
    expires_at: float | None = None  # The end of its reader's token, in seconds since the epoch.
    session_id: str | None = None  # Of the legacy session that the stream belongs to, once it is known.
    _direct: bool = False
    _transport: asyncio.Transport | None = None
    _response: Any = None
    _task: asyncio.Task[Any] | None = None
    _admit: Callable[[Message], None] | None = None
    _on_start: Callable[[Message], None] | None = None
    _on_event: Callable[[bytes], None] | None = None
    _on_over: tuple[Callable[[], object], ...] = ()
    _incomplete: bool = False
    _channel: Channel | None = None
    _ping: asyncio.TimerHandle | None = None

    def __post_init__(self, receive: Receive | None) -> None:
        self._direct = is_servers_own(self._send)
        self._transport = transport_under(self._send, receive)
        self._task = asyncio.current_task()
        self.began = asyncio.get_running_loop().time()

    def when_started(self, call: Callable[[Message], None], *, admit: Callable[[Message], None] | None = None) -> None:
        """Calls `call` when the SDK begins to answer with a stream; before, `admit`, which may refuse."""
        self._admit, self._on_start = admit, call

    def after_next_event(self, call: Callable[[bytes], None]) -> None:
        self._on_event = call

    async def send(self, message: Message) -> None:
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
        await self._send(stated(message, self._keep_alive) if starts else bounded(message, limited=self.limited))
        self.answered = True
        self._incomplete = message["type"] == "http.response.start" or message.get("more_body", False)
        if starts and self._on_start is not None:
            self._response = chunked_response(self._send)
            call, self._on_start, self._admit = self._on_start, None, None
            call(message)
        elif self._on_event is not None and (event := event_in(message)):
            call_with, self._on_event = self._on_event, None
            call_with(event)

    def write(self, data: bytes, *, more: bool = True) -> asyncio.Future[None] | None:
        """Writes one or more whole events. Returns what to wait for before the next write, or None."""
        sending = self._send({"type": "http.response.body", "body": data, "more_body": more})
        return begun(sending) if self._direct else asyncio.ensure_future(sending)

    def chunk_taker(self) -> Callable[[bytes], None] | None:
        """Returns the function that takes one event as an HTTP chunk, where `write` would do just that; else None."""
        return None if self._response is None else chunk_taker(self._response)

    def when_over(self, call: Callable[[], object]) -> None:
        self._on_over += (call,)

    def over(self) -> None:
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
            self.ended, rest = True, None
            with suppress(Exception):  # Its reader is gone.
                rest = self.write(last, more=False)
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
        """Breaks a connection whose peer acknowledges nothing for `seconds`. The system waits a quarter of an hour."""
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        option = getattr(socket, "TCP_USER_TIMEOUT", None)
        if sock is None or option is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
            return
        try:
            # The system counts milliseconds in 31 bits, and 0 means its own default.
            sock.setsockopt(socket.IPPROTO_TCP, option, int(min(max(seconds * 1000, 1), 2**31 - 1)))
        except OSError as error:
            logger.debug("Cannot set a time limit on %s: %s", sock, error)


def event_in(message: Message) -> bytes:
    """Returns the event in a part of a response; b"" for a comment, which keeps the connection alive."""
    body: bytes = message.get("body", b"")
    return b"" if body.startswith(b":") else body


def stated(message: Message, keep_alive: float | None) -> Message:
    """Returns the start of a response with the interval between keep-alives, and any other message as it is."""
    if keep_alive is None or message["type"] != "http.response.start":
        return message
    stated = (KEEP_ALIVE_HEADER.encode(), b"%g" % keep_alive)
    return {**message, "headers": [*message.get("headers", ()), stated]}
