"""Taps on HTTP, on stream pairs and on server objects.

On HTTP, the tap is at the lowest place, where everything passes, sign-in included.
"""

import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Context
from itertools import count
from typing import Any, Final, cast

import httpx2
from anyio.abc import AsyncResource, ObjectReceiveStream
from mcp.shared.dispatcher import Dispatcher
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from tidings.client.sdk_seam import TransportStreams
from tidings.client.transports.bodies import body_of
from tidings.client.transports.tap import Exchange, TapReporter

# A carriage return at the very end may be the first half of a line end.
_LINE_END: Final = re.compile(rb"\r\n|\n|\r(?!\Z)")


class TappedTransport(httpx2.AsyncBaseTransport):
    """A transport that reports each exchange, and the messages in it. `inner` is a `BoundedTransport`."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, tap: TapReporter, limit: int) -> None:
        self._inner = inner
        self._tap = tap
        self._limit = limit

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = self._tap.begin(request.method, str(request.url), request.headers)
        try:
            content = request.content
        except httpx2.RequestNotRead:
            content = b""  # Sent in pieces, as only sign-in requests are.
        try:
            self._tap.message(content, incoming=False, exchange=exchange.id)
            response = await self._inner.handle_async_request(request)
        except BaseException as error:
            self._tap.ended(exchange, error)
            raise
        body = body_of(response)
        is_stream = body is not None and body.is_stream
        exchange = self._tap.answered(exchange, response.status_code, response.headers, is_stream=is_stream)
        if body is None:
            self._tap.ended(exchange)
        else:
            reader = _BodyTap(self._tap, exchange, SseParser(self._limit) if is_stream else None)
            body.tap_part, body.tap_end = reader.part, reader.over
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BodyTap:
    """Reads along while a body arrives: a stream of `events`, each with a message, or at most one message."""

    def __init__(self, tap: TapReporter, exchange: Exchange, events: "SseParser | None") -> None:
        self._tap = tap
        self._exchange = exchange
        self._events = events
        self._received = 0
        self._pieces: list[bytes] = []
        self._is_over = False

    def part(self, part: bytes) -> None:
        self._received += len(part)
        if self._events is None:
            self._pieces.append(part)  # The body has a limit.
            return
        for data in self._events.feed(part):
            if isinstance(data, int):
                self._tap.too_large(data, exchange=self._exchange.id)
            else:
                self._tap.message(data, incoming=True, exchange=self._exchange.id)

    def over(self, error: Exception | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        if error is None and self._events is None:  # An incomplete event does not count.
            self._tap.message(b"".join(self._pieces), incoming=True, exchange=self._exchange.id)
        self._tap.ended(self._exchange, error, received=self._received)


class SseParser:
    """Splits a stream of events into the data of each message; above `limit`, its size so far."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()  # The line that has begun.
        self._data: list[bytes] = []
        self._size = 0
        self._is_message = True
        self._is_skipped = False

    def feed(self, piece: bytes) -> Iterator[bytes | int]:
        """Yields what `piece` completes."""
        if self._line.endswith(b"\r") or b"\n" in piece or b"\r" in piece:
            *lines, piece = _LINE_END.split(bytes(self._line) + piece)
            self._line.clear()
            for line in lines:
                yield from self._take(line)
        self._line += piece
        if self._size + len(self._line) > self._limit:
            yield from self._skip()

    def _take(self, line: bytes) -> Iterator[bytes | int]:
        if not line:
            if self._data and self._is_message and not self._is_skipped:
                yield b"\n".join(self._data)
            self._data, self._size, self._is_message, self._is_skipped = [], 0, True, False
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            self._is_message = value in (b"", b"message")
        elif name == b"data" and not self._is_skipped:
            self._data.append(value)
            self._size += len(value)
            if self._size > self._limit:
                yield from self._skip()

    def _skip(self) -> Iterator[int]:
        """Drops the event so far. The rest is skipped up to the event's end."""
        if not self._is_skipped:
            self._is_skipped = True
            yield self._size + len(self._line)
        self._data, self._size = [], 0
        if self._line:
            # Only the fact that the line is not empty is kept.
            self._line = bytearray(b":\r" if self._line.endswith(b"\r") else b":")


@asynccontextmanager
async def tapped_streams(
    transport: AbstractAsyncContextManager[TransportStreams], tap: TapReporter
) -> AsyncGenerator[TransportStreams]:
    """Enters a transport, and yields its two streams with a tap on them."""
    async with transport as (read, write):
        yield _TappedReader(read, tap), _TappedWriter(write, tap)


class _Wrapper(AsyncResource):
    def __init__(self, inner: Any, tap: TapReporter) -> None:
        self._inner = inner
        self._tap = tap

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _report(self, item: SessionMessage | Exception, *, incoming: bool) -> None:
        if isinstance(item, SessionMessage):
            body = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
            self._tap.values(body, incoming=incoming)


class _TappedReader(_Wrapper, ObjectReceiveStream[SessionMessage | Exception]):
    @property
    def last_context(self) -> Context | None:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        item = await self._inner.receive()
        self._report(item, incoming=True)
        return item


class _TappedWriter(_Wrapper):
    async def send(self, item: SessionMessage, /) -> None:
        self._report(item, incoming=False)
        await self._inner.send(item)


def tap_dispatcher(dispatcher: Dispatcher[Any], tap: TapReporter) -> None:
    """Reports what passes between two objects of one process as if it were sent, with ids."""
    inner = cast("Any", dispatcher)
    ids = count(1)
    send, notify, run = inner.send_raw_request, inner.notify, inner.run

    async def tapped_send(method: str, params: Mapping[str, Any] | None, opts: Any = None) -> dict[str, Any]:
        options: dict[str, Any] = {**(opts or {})}
        request = options.setdefault("request_id", next(ids))
        sent = dict(params or {})
        if (progress := options.get("on_progress")) is not None:
            sent["_meta"] = {**(sent.get("_meta") or {}), "progressToken": request}

            async def made(done: float, total: float | None, message: str | None) -> None:
                told = {"progressToken": request, "progress": done, "total": total, "message": message}
                given = {name: value for name, value in told.items() if value is not None}
                tap.values(_call("notifications/progress", given), incoming=True)
                await progress(done, total, message)

            options["on_progress"] = made
        tap.values({"id": request, **_call(method, sent or None)}, incoming=False)
        return await _reported_outcome(send(method, params, options), request, tap, incoming=True)

    async def tapped_notify(method: str, params: Mapping[str, Any] | None, opts: Any = None) -> None:
        tap.values(_call(method, params), incoming=False)
        await notify(method, params, opts)

    async def tapped_run(on_request: Any, on_notify: Any, intercept: Any = None, **options: Any) -> None:
        async def asked(context: Any, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
            request = context.request_id
            tap.values({"id": request, **_call(method, params)}, incoming=True)
            return await _reported_outcome(on_request(context, method, params), request, tap, incoming=False)

        def hear(method: str, params: Mapping[str, Any] | None) -> bool:
            tap.values(_call(method, params), incoming=True)
            return intercept is not None and intercept(method, params)

        await run(asked, on_notify, hear, **options)

    inner.send_raw_request, inner.notify, inner.run = tapped_send, tapped_notify, tapped_run


def _call(method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"method": method} if params is None else {"method": method, "params": params}


async def _reported_outcome(outcome: Any, request: Any, tap: TapReporter, *, incoming: bool) -> dict[str, Any]:
    try:
        result: dict[str, Any] = await outcome
    except MCPError as error:
        said = error.error.model_dump(by_alias=True, mode="json", exclude_none=True)
        tap.values({"id": request, "error": said}, incoming=incoming)
        raise
    tap.values({"id": request, "result": result}, incoming=incoming)
    return result
