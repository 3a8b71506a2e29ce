"""The bodies of HTTP answers, of bounded size even if they are compressed.

An answer that is one message is refused when it exceeds the limit. A stream of events has no end; there, the reader of
the events limits each of them.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import httpx2

from tidings._kit.bounded_json import as_dict, as_text
from tidings._kit.decompress import Corrupt, Decompressor
from tidings._kit.text import harmless, one_line
from tidings.client.transports.tap import BodyTap, SseParser, TapReporter

ENCODING: Final = "gzip"  # The only compression that is asked for.
_STREAM: Final = "text/event-stream"
_EXTENSION: Final = "tidings.body"
_ERROR_KEYS: Final = ("error_description", "error", "message", "detail")


class BodyTooLarge(httpx2.StreamError):
    """An answer exceeds the limit for one message."""


class BodyUnreadable(httpx2.StreamError):
    """An answer is compressed in a way that was not asked for, or is corrupt."""


@dataclass(eq=False, repr=False)
class BoundedTransport(httpx2.AsyncBaseTransport):
    """A transport that decompresses its answers, raises `BodyTooLarge` for one that is too long, and feeds a `tap`."""

    inner: httpx2.AsyncBaseTransport
    limit: int
    tap: TapReporter | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if (tap := self.tap) is None:
            response = await self.inner.handle_async_request(request)
            self._bound(response)
            return response
        exchange = tap.begin(request.method, str(request.url), request.headers)
        try:
            with suppress(httpx2.RequestNotRead):  # Sent in pieces, as only sign-in requests are.
                tap.message(request.content, incoming=False, exchange=exchange.id)
            response = await self.inner.handle_async_request(request)
        except BaseException as error:
            tap.ended(exchange, error)
            raise
        body = self._bound(response)
        exchange = tap.answered(exchange, response.status_code, response.headers, is_stream=body.is_stream)
        body.tap = BodyTap(tap, exchange, SseParser(self.limit) if body.is_stream else None)
        return response

    def _bound(self, response: httpx2.Response) -> "BoundedBody":
        if not isinstance(response.stream, httpx2.AsyncByteStream):
            raise TypeError("an asynchronous transport has asynchronous streams")
        response.stream = body = BoundedBody(response.stream, self.limit, response.headers)
        response.extensions[_EXTENSION] = body
        if body.encoding == ENCODING:
            del response.headers["content-encoding"]
        return body

    async def aclose(self) -> None:
        await self.inner.aclose()


class BoundedBody(httpx2.AsyncByteStream):
    """The body of an answer, decompressed."""

    def __init__(self, inner: httpx2.AsyncByteStream, limit: int, headers: httpx2.Headers) -> None:
        self._inner = inner
        # True if it is a stream of events.
        self.is_stream = headers.get("content-type", "").partition(";")[0].strip().lower() == _STREAM
        self._limit = None if self.is_stream else limit
        # Few have one, and the test is cheaper than `get`.
        self.encoding = headers["content-encoding"].strip().lower() if "content-encoding" in headers else ""
        stated = "" if self.is_stream else headers.get("content-length", "")
        self._stated = int(stated) if stated.isdecimal() else 0
        self.on_failure: Callable[[Exception], None] = lambda _: None  # Called with an error while it is read.
        self.on_end: Callable[[], None] = lambda: None  # Called when all of it was read, or nobody reads on.
        self.on_data: Callable[[bytes], None] = lambda _: None  # Called with each piece as it arrives.
        self.tap: BodyTap | None = None  # Gets each part, decompressed, and the end or failure.
        self._is_over = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self.encoding not in ("", "identity", ENCODING):
            raise self._failed(BodyUnreadable(f"Body compressed with {self.encoding}, which was not asked for."))
        try:
            self._check(self._stated)
            decompressor = Decompressor([self.encoding], None) if self.encoding == ENCODING else None
            size = 0
            async for piece in self._inner:
                self.on_data(piece)
                for part in decompressor.feed(piece) if decompressor else (piece,):
                    size += len(part)
                    self._check(size)
                    if self.tap is not None:
                        self.tap.part(part)
                    yield part
        except Corrupt as error:
            raise self._failed(BodyUnreadable(f"Body corrupt: {error}.")) from error
        except Exception as error:
            self._failed(error)
            raise
        self._end()

    def _failed(self, error: Exception) -> Exception:
        if self.tap is not None:
            self.tap.over(error)
        self.on_failure(error)
        return error

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            if self.tap is not None:
                self.tap.over(None)
            self.on_end()

    def _check(self, size: int) -> None:
        if self._limit is not None and size > self._limit:
            raise BodyTooLarge(f"Body too large: {size:,} bytes or more, and the limit is {self._limit:,}.")

    async def aclose(self) -> None:
        self._end()
        await self._inner.aclose()


def body_of(response: httpx2.Response) -> BoundedBody | None:
    """Returns the body of an answer that came through a `BoundedTransport`, otherwise None."""
    return response.extensions.get(_EXTENSION)


def words_in(content_type: str, content: bytes) -> str:
    """Returns the words of an error answer in one line; empty if it has none that can be shown."""
    kind = content_type.partition(";")[0].strip().lower()
    text: Any = content.decode(errors="replace") if kind == "text/plain" else ""
    if kind.endswith("json"):
        try:
            answer = as_dict(json.loads(content))
        except (ValueError, RecursionError):
            answer = {}
        found = (answer.get(name) for name in _ERROR_KEYS)
        text = next((text for each in found if (text := as_text(as_dict(each).get("message", each)))), "")
    return one_line(harmless(text, mark=" "), 200)
