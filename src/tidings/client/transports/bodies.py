"""The bodies of HTTP answers, of bounded size: however large it is, and however small it was packed.

An answer that is one message is refused when it exceeds the limit. A stream of events has no end; there each event is
measured by whoever reads the events.
"""

import json
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final, Protocol

import httpx2

from tidings._kit.bounded_json import as_dict, as_text

ENCODING: Final = "gzip"
"""What an answer may be packed with: this can be unpacked piece by piece, so that a small body cannot fill memory."""

_GZIP: Final = 16 + zlib.MAX_WBITS
_PART: Final = 256 * 2**10
_STREAM: Final = "text/event-stream"
_EXTENSION: Final = "tidings.body"
_WORDS: Final = ("error_description", "error", "message", "detail")
"""Where an answer that is an error has its words: the first of these that is there."""

_LONGEST_WORDS: Final = 200


class BodyTooLarge(httpx2.StreamError):
    """An answer exceeds the limit for one message."""


class BodyUnreadable(httpx2.StreamError):
    """An answer is packed in a way that it must not be, or badly."""


class BoundedTransport(httpx2.AsyncBaseTransport):
    """A transport that unpacks its answers, and raises `BodyTooLarge` while one is read that is too long."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, limit: int) -> None:
        self._inner = inner
        self._limit = limit

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        headers = response.headers
        if not isinstance(response.stream, httpx2.AsyncByteStream):
            raise TypeError("an asynchronous transport has asynchronous streams")
        response.stream = body = BoundedBody(response.stream, self._limit, headers)
        response.extensions[_EXTENSION] = body
        if body.packed == ENCODING:
            del headers["content-encoding"]
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class BodyReader(Protocol):
    """Reads along while a body arrives."""

    def part(self, part: bytes) -> None:
        """A part of it, unpacked."""
        ...

    def over(self, error: Exception | None = None) -> None:
        """It is over, or failed. The first time counts."""
        ...


class BoundedBody(httpx2.AsyncByteStream):
    """The body of an answer, unpacked."""

    def __init__(self, inner: httpx2.AsyncByteStream, limit: int, headers: httpx2.Headers) -> None:
        self._inner = inner
        self.is_stream = headers.get("content-type", "").partition(";")[0].strip().lower() == _STREAM
        """Whether it is a stream of events."""
        self._limit = None if self.is_stream else limit
        # Most have none, and to look for one is cheaper than to ask for it in vain.
        self.packed = headers["content-encoding"].strip().lower() if "content-encoding" in headers else ""
        """How it arrives: `ENCODING`, or as it is, or in a way that was not asked for."""
        stated = "" if self.is_stream else headers.get("content-length", "")
        self._stated = int(stated) if stated.isdecimal() else 0
        self.on_failure: Callable[[Exception], None] = lambda _: None
        """Told of what goes wrong while it is read."""
        self.on_end: Callable[[], None] = lambda: None
        """Told when it is over: all of it was read, or nobody reads on."""
        self.reader: BodyReader | None = None
        self._is_over = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            self._check(self._stated)
            unpacker = self._unpacker() if self.packed else None
            size = 0
            async for piece in self._inner:
                for part in unpacker.unpack(piece) if unpacker else (piece,):
                    size += len(part)
                    self._check(size)
                    if self.reader is not None:
                        self.reader.part(part)
                    yield part
        except Exception as error:
            if self.reader is not None:
                self.reader.over(error)
            self.on_failure(error)
            raise
        self._end()

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            if self.reader is not None:
                self.reader.over()
            self.on_end()

    def _unpacker(self) -> "_Unpacker | None":
        if self.packed not in ("identity", ENCODING):
            raise BodyUnreadable(f"Body packed with {self.packed}, which was not asked for.")
        return _Unpacker() if self.packed == ENCODING else None

    def _check(self, size: int) -> None:
        if self._limit is not None and size > self._limit:
            raise BodyTooLarge(f"Body too large: {size:,} bytes or more, and the limit is {self._limit:,}.")

    async def aclose(self) -> None:
        self._end()
        await self._inner.aclose()


def body_of(response: httpx2.Response) -> BoundedBody | None:
    """The body of an answer that came through a `BoundedTransport`; None if it came from elsewhere."""
    return response.extensions.get(_EXTENSION)


def words_in(content_type: str, content: bytes) -> str:
    """What an answer that is an error says, for people, in a line; empty if it has nothing that can be shown."""
    kind = content_type.partition(";")[0].strip().lower()
    text: Any = content.decode(errors="replace") if kind == "text/plain" else ""
    if kind.endswith("json"):
        try:
            told = as_dict(json.loads(content))
        except (ValueError, RecursionError):
            told = {}
        found = (told.get(name) for name in _WORDS)
        text = next((text for each in found if (text := as_text(as_dict(each).get("message", each)))), "")
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return line if len(line) <= _LONGEST_WORDS else line[: _LONGEST_WORDS - 1] + "…"


class _Unpacker:
    """Unpacks gzip into parts of a bounded size."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)

    def unpack(self, packed: bytes) -> Iterator[bytes]:
        try:
            while True:
                part = self._member.decompress(packed, _PART)
                yield part
                packed = self._member.unconsumed_tail
                if self._member.eof and (packed := self._member.unused_data):  # Another follows in the same body.
                    self._member = zlib.decompressobj(_GZIP)
                elif not packed and len(part) < _PART:
                    return
        except zlib.error as error:
            raise BodyUnreadable(f"Body badly packed: {error}.") from error
