"""gzip, deflate and Brotli, decompressed piece by piece, so that a small body cannot fill the memory.

Nothing is decompressed further than the limit, nor by much more than `PIECE` bytes at once, in any of several layers.
"""

import re
import zlib
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from zlib import _Decompress as Inflate  # pyright: ignore[reportPrivateUsage] - it has no public name

PIECE: Final = 64 * 1024
ACCEPTED: Final = "gzip, deflate, br"
"""The encodings that can be decompressed, as the header `Accept-Encoding` names them."""

_GZIP_WBITS: Final = 16 + zlib.MAX_WBITS
_MOST_ENCODINGS: Final = 3
_MOST_MEMBERS: Final = 1_000
_NO_ENCODINGS: Final = frozenset({"", "identity", "none", "utf-8"})
_WORD: Final = re.compile(r"[a-z0-9-]{1,20}")


class Corrupt(ValueError):
    """Data is not compressed in the way it is said to be. The message says why: "it is not Brotli"."""


class OverLimit(ValueError):
    """Data has more bytes than the limit, before or after it is decompressed."""


class _Deflate:
    """zlib's format, or the same without its header, as some servers send it."""

    def __init__(self) -> None:
        self._head = b""
        self._inflate: Inflate | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._inflate is None:
            self._head += data
            if len(self._head) < 2:
                return
            data, self._head = self._head, b""
            has_header = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._inflate = zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)
        yield from _inflated(self._inflate, data)

    @property
    def finished(self) -> bool:
        return self._inflate is not None and self._inflate.eof


class _Gzip:
    """gzip, of one member or several. Data after the last one is ignored."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(_GZIP_WBITS)
        self._members = 1

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._inflate.eof:
                if not data.startswith(b"\x1f"):
                    return
                self._members += 1
                if self._members > _MOST_MEMBERS:
                    raise Corrupt("it has too many parts")
                self._inflate = zlib.decompressobj(_GZIP_WBITS)
            yield from _inflated(self._inflate, data)
            data = self._inflate.unused_data

    @property
    def finished(self) -> bool:
        return self._inflate.eof


class _Brotli:
    def __init__(self) -> None:
        brotli = cast("Any", import_module("brotli"))  # Late: few need it. It has no types.
        self._error: type[Exception] = brotli.error
        self._stream: Any = brotli.Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        try:
            # That it can accept more does not mean that it has returned everything: only an empty piece does.
            while not self._stream.is_finished():
                piece = self._stream.process(data, output_buffer_limit=PIECE)
                data = b""
                if piece:
                    yield piece
                elif self._stream.can_accept_more_data():
                    return
        except self._error:
            raise Corrupt("it is not Brotli") from None

    @property
    def finished(self) -> bool:
        return self._stream.is_finished()


def _inflated(inflate: "Inflate", data: bytes) -> Iterator[bytes]:
    try:
        while data and not inflate.eof:
            if piece := inflate.decompress(data, PIECE):
                yield piece
            data = inflate.unconsumed_tail
        # All of the input may be in, and more of the output still inside.
        while not inflate.eof and (piece := inflate.decompress(b"", PIECE)):
            yield piece
    except zlib.error as error:
        raise Corrupt(f"it is not compressed as its header says ({error})") from None


_ENCODINGS: Final = {"gzip": _Gzip, "x-gzip": _Gzip, "deflate": _Deflate, "br": _Brotli}


class Decompressor:
    """Undoes encodings, named in lower case and in the order in which they were applied, up to `limit` bytes of each.

    Raises `Corrupt` if one is not known or there are too many, and `ImportError` if `brotli` is needed and missing.
    """

    def __init__(self, encodings: Sequence[str], limit: int | None) -> None:
        names = [name for name in encodings if name not in _NO_ENCODINGS]
        if len(names) > _MOST_ENCODINGS:
            raise Corrupt(f"it is compressed {len(names)} times over")
        if unknown := [name for name in names if name not in _ENCODINGS]:
            # Only a plain word is quoted: the text comes from outside, and stands in a message of ours.
            what = repr(unknown[0]) if _WORD.fullmatch(unknown[0]) else "something"
            raise Corrupt(f"it is compressed with {what}, which was not asked for")
        self._layers = [_ENCODINGS[name]() for name in reversed(names)]
        self._limit = limit
        self._received = [0] * (len(names) + 1)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yields what can be decompressed now, in pieces that are not empty. Raises `Corrupt` or `OverLimit`."""
        return self._through(0, data)

    def _through(self, depth: int, data: bytes) -> Iterator[bytes]:
        self._received[depth] += len(data)
        if self._limit is not None and self._received[depth] > self._limit:
            raise OverLimit(f"it has more than {self._limit:,} bytes")
        if depth == len(self._layers):
            yield data
            return
        for piece in self._layers[depth].feed(data):
            yield from self._through(depth + 1, piece)

    @property
    def cut_short(self) -> bool:
        """True if the data ended before an encoding did."""
        return self._received[0] > 0 and not all(layer.finished for layer in self._layers)


def is_gzip(data: bytes) -> bool:
    """Returns whether data begins as gzip does."""
    return data.startswith(b"\x1f\x8b\x08")


def gunzip(data: bytes, limit: int, *, keep_beginning: bool = False) -> bytes:
    """Returns what a gzip file decompresses to, or what there is of it. `keep_beginning` forgives damage further on."""
    found = bytearray()
    try:
        for piece in Decompressor(["gzip"], limit).feed(data):
            found += piece
    except Corrupt:
        if not (keep_beginning and found):
            raise
    return bytes(found)
