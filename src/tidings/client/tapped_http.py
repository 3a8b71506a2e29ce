"""HTTP exchanges with a tap on them: at the lowest place, where everything that is sent passes, sign-in included."""

import re
from collections.abc import Iterator
from typing import Final

import httpx2

from tidings.client.bodies import body_of
from tidings.client.tapping import Teller
from tidings.client.wire import Exchange

_LINE_END: Final = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""A carriage return at the very end may be the first half of one."""


class TappedTransport(httpx2.AsyncBaseTransport):
    """A transport that tells of each exchange, and of the messages in it. `inner` is a `BoundedTransport`."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, teller: Teller, limit: int) -> None:
        self._inner = inner
        self._teller = teller
        self._limit = limit

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = self._teller.begin(request.method, str(request.url), request.headers)
        try:
            self._teller.message(_content(request), incoming=False, exchange=exchange.id)
            response = await self._inner.handle_async_request(request)
        except BaseException as error:
            self._teller.ended(exchange, error)
            raise
        body = body_of(response)
        is_stream = body is not None and body.is_stream
        exchange = self._teller.answered(exchange, response.status_code, response.headers, is_stream=is_stream)
        if body is None:
            self._teller.ended(exchange)
        elif is_stream:
            body.reader = _StreamReader(self._teller, exchange, self._limit)
        else:
            body.reader = _Reader(self._teller, exchange)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _content(request: httpx2.Request) -> bytes:
    try:
        return request.content
    except httpx2.RequestNotRead:
        return b""  # Sent piece by piece, as no message is: somebody signs in.


class _Reader:
    """Reads along while the body of an answer arrives: one message, or none."""

    def __init__(self, teller: Teller, exchange: Exchange) -> None:
        self._teller = teller
        self._exchange = exchange
        self._received = 0
        self._pieces: list[bytes] = []
        self._is_over = False

    def part(self, part: bytes) -> None:
        self._received += len(part)
        self._pieces.append(part)  # No more than the limit: the body sees to that.

    def over(self, error: Exception | None = None) -> None:
        if self._is_over:
            return
        self._is_over = True
        if error is None:
            self._rest()
        self._teller.ended(self._exchange, error, received=self._received)

    def _rest(self) -> None:
        self._teller.message(b"".join(self._pieces), incoming=True, exchange=self._exchange.id)


class _StreamReader(_Reader):
    """Reads along on a stream of events, each a message."""

    def __init__(self, teller: Teller, exchange: Exchange, limit: int) -> None:
        super().__init__(teller, exchange)
        self._events = Events(limit)

    def part(self, part: bytes) -> None:
        self._received += len(part)
        for data in self._events.feed(part):
            if isinstance(data, int):
                self._teller.too_large(data, exchange=self._exchange.id)
            else:
                self._teller.message(data, incoming=True, exchange=self._exchange.id)

    def _rest(self) -> None:
        pass  # An event that was not completed is none.


class Events:
    """Cuts a stream of events into the data of each that is a message; of one beyond `limit`, its size so far."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line: list[bytes] = []
        """What there is of the line that has begun."""
        self._pending = 0
        self._data: list[bytes] = []
        self._size = 0
        self._is_message = True
        self._is_skipped = False

    def feed(self, piece: bytes) -> Iterator[bytes | int]:
        """What `piece` completes."""
        may_end = bool(self._line) and self._line[-1].endswith(b"\r")
        if may_end or b"\n" in piece or b"\r" in piece:
            *lines, piece = _LINE_END.split(b"".join((*self._line, piece)))
            self._line.clear()
            self._pending = 0
            for line in lines:
                yield from self._take(line)
        if piece:
            self._line.append(piece)
            self._pending += len(piece)
        if self._size + self._pending > self._limit:
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
        """Let go of what there is. The rest, if anybody reads on, is passed over up to the event's end."""
        if not self._is_skipped:
            self._is_skipped = True
            yield self._size + self._pending
        self._data, self._size = [], 0
        if self._line:
            # What is left is that there is a line, which is not empty.
            self._line = [b":\r" if self._line[-1].endswith(b"\r") else b":"]
            self._pending = 1
