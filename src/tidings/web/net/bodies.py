"""Bodies that stay within their limits: as they come over the wire, and again when they are unpacked.

    read(chunks, headers, limit, ...) -> Body

What a server says of the length is believed only where it says too much.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass

from tidings.web.net.model import MIB, BadAnswer, TooLarge
from tidings.web.net.packings import PIECE, Corrupt, OverLimit, Unpacker

Progress = Callable[[int, int | None], Awaitable[None]]
"""Is told of the bytes that came, and of how many will come if the server said so; equal when all are here."""

_CURE = "allow more with max_bytes, or fetch a part of it from elsewhere"


@dataclass(frozen=True)
class Body:
    """What came, unpacked."""

    data: bytes
    truncated: bool = False
    """There is more of it that is not here."""


async def read(
    chunks: AsyncIterator[bytes],
    headers: Mapping[str, str],
    limit: int,
    *,
    url: str,
    cut: bool = False,
    progress: Progress | None = None,
) -> Body:
    """The body, within `limit`. With `cut`, what is over the limit is left out instead of refused.

    Raises:
        TooLarge: It is over the limit, packed or unpacked.
        BadAnswer: It is not packed as it says.
    """
    total = _length(headers)
    if total is not None and total > limit and not cut:
        raise TooLarge(f"{url} has {_size(total)}, more than the {_size(limit)} allowed; {_CURE}", url=url)
    data = bytearray()
    try:
        unpacker = Unpacker(_names(headers.get("content-encoding", "")), limit)
        came = told = 0
        async for chunk in chunks:
            came += len(chunk)
            for piece in unpacker.feed(chunk):
                data += piece
            if progress is not None and came - told >= PIECE:
                told = came
                await progress(came, total)
        if progress is not None and (told, total) != (came, came):
            await progress(came, came)
    except OverLimit:
        if cut:
            return Body(bytes(data), truncated=True)
        raise TooLarge(f"{url} has more than the {_size(limit)} allowed; {_CURE}", url=url) from None
    except Corrupt as error:
        raise BadAnswer(f"{url} cannot be unpacked: {error}; it is broken at its source", url=url) from None
    return Body(bytes(data), truncated=unpacker.cut_short)


def _names(header: str) -> list[str]:
    return [name.strip().lower() for name in header.split(",")]


def _length(headers: Mapping[str, str]) -> int | None:
    text = headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None


def _size(count: int) -> str:
    return f"{count / MIB:.1f} MiB" if count >= MIB else f"{count:,} bytes"
