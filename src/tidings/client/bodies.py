"""The bodies of HTTP answers, of bounded size: however large it is, and however small it was packed.

An answer that is one message is refused when it exceeds the limit. A stream of events has no end; there each event is
measured by whoever reads the events.
"""

import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Final

import httpx2

ENCODING: Final = "gzip"
"""What an answer may be packed with: this can be unpacked piece by piece, so that a small body cannot fill memory."""

_GZIP: Final = 16 + zlib.MAX_WBITS
_PART: Final = 256 * 2**10
_STREAM: Final = "text/event-stream"


class BodyTooLarge(httpx2.StreamError):
    """An answer exceeds the limit for one message."""


class BodyUnreadable(httpx2.StreamError):
    """An answer is packed in a way that it must not be, or badly."""


def is_stream(response: httpx2.Response) -> bool:
    """Whether the answer is a stream of events."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower() == _STREAM


class BoundedTransport(httpx2.AsyncBaseTransport):
    """A transport that unpacks its answers, and raises `BodyTooLarge` while one is read that is too long."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, limit: int) -> None:
        self._inner = inner
        self._limit = limit

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        limit = None if is_stream(response) else self._limit
        packed = response.headers.get("content-encoding", "").strip().lower()
        stated = response.headers.get("content-length", "")
        if not isinstance(response.stream, httpx2.AsyncByteStream):
            raise TypeError("an asynchronous transport has asynchronous streams")
        response.stream = _Body(response.stream, limit, packed, int(stated) if stated.isdecimal() else 0)
        if packed == ENCODING:
            del response.headers["content-encoding"]
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, limit: int | None, packed: str, stated: int) -> None:
        self._inner = inner
        self._limit = limit
        self._packed = packed
        self._stated = stated

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._check(self._stated)
        if self._packed not in ("", "identity", ENCODING):
            raise BodyUnreadable(f"Body packed with {self._packed}, which was not asked for.")
        unpacker = _Unpacker() if self._packed == ENCODING else None
        size = 0
        async for piece in self._inner:
            for part in unpacker.unpack(piece) if unpacker else (piece,):
                size += len(part)
                self._check(size)
                yield part

    def _check(self, size: int) -> None:
        if self._limit is not None and size > self._limit:
            raise BodyTooLarge(f"Body too large: {size:,} bytes or more, and the limit is {self._limit:,}.")

    async def aclose(self) -> None:
        await self._inner.aclose()


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
