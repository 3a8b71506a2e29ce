"""How bodies are packed for the wire, and how that is undone within a limit.

    Unpacker(["gzip", "br"], limit).feed(data) -> pieces of at most `PIECE` bytes, or a little more

Nothing is unpacked further than the limit, nor by more than a piece at once; with several packings, one in the other,
that holds for each of them.
"""

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

PIECE = 64 * 1024
ACCEPTED = "gzip, deflate, br"

_MOST_PACKINGS = 3
_MOST_MEMBERS = 1_000
_NO_PACKINGS = frozenset({"", "identity", "none", "utf-8"})

_WORD = re.compile(r"[a-z0-9-]{1,20}")

_brotli = cast("Any", import_module("brotli"))  # It has no types.


class Corrupt(Exception):
    """It is not packed the way that it says."""


class OverLimit(Exception):
    """There is more of it than is allowed."""


class Packing(Protocol):
    """One way to pack, being undone."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What `data` unpacks to, piece by piece; raises `Corrupt`."""
        ...

    @property
    def finished(self) -> bool:
        """Whether its end has come."""
        ...


class _Inflate(Protocol):
    """What `zlib.decompressobj` gives."""

    def decompress(self, data: bytes, max_length: int = 0, /) -> bytes: ...

    @property
    def eof(self) -> bool: ...

    @property
    def unconsumed_tail(self) -> bytes: ...

    @property
    def unused_data(self) -> bytes: ...


class _Decompressor(Protocol):
    """What `brotli.Decompressor` gives."""

    def process(self, data: bytes, *, output_buffer_limit: int) -> bytes: ...

    def is_finished(self) -> bool: ...

    def can_accept_more_data(self) -> bool: ...


class Deflate:
    """zlib's format, or without its wrapping, as some servers have it."""

    def __init__(self) -> None:
        self._head = b""
        self._inflate: _Inflate | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._inflate is None:
            self._head += data
            if len(self._head) < 2:
                return
            data, self._head = self._head, b""
            wrapped = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._inflate = zlib.decompressobj(zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)
        yield from _inflated(self._inflate, data)

    @property
    def finished(self) -> bool:
        return self._inflate is not None and self._inflate.eof


class Gzip:
    """gzip, of one member or several; what follows the last is ignored."""

    def __init__(self) -> None:
        self._inflate: _Inflate = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self._members = 1

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._inflate.eof:
                if not data.startswith(b"\x1f"):
                    return
                self._members += 1
                if self._members > _MOST_MEMBERS:
                    raise Corrupt("it has too many parts")
                self._inflate = zlib.decompressobj(16 + zlib.MAX_WBITS)
            yield from _inflated(self._inflate, data)
            data = self._inflate.unused_data

    @property
    def finished(self) -> bool:
        return self._inflate.eof


class Brotli:
    """Brotli."""

    def __init__(self) -> None:
        self._stream: _Decompressor = _brotli.Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        try:
            # That it can take more does not mean that it has given all: only an empty piece does.
            while not self._stream.is_finished():
                piece = self._stream.process(data, output_buffer_limit=PIECE)
                data = b""
                if piece:
                    yield piece
                elif self._stream.can_accept_more_data():
                    return
        except _brotli.error:
            raise Corrupt("it is not Brotli") from None

    @property
    def finished(self) -> bool:
        return self._stream.is_finished()


def _inflated(inflate: _Inflate, data: bytes) -> Iterator[bytes]:
    try:
        while data and not inflate.eof:
            if piece := inflate.decompress(data, PIECE):
                yield piece
            data = inflate.unconsumed_tail
        # The last of the input may be in, and more of the output still inside.
        while not inflate.eof and (piece := inflate.decompress(b"", PIECE)):
            yield piece
    except zlib.error:
        raise Corrupt("it is not what it says it is packed with") from None


_PACKINGS: Mapping[str, type[Deflate] | type[Gzip] | type[Brotli]] = {
    "gzip": Gzip,
    "x-gzip": Gzip,
    "deflate": Deflate,
    "br": Brotli,
}


class Unpacker:
    """Undoes the packings of `Content-Encoding`, given in the order in which they were applied."""

    def __init__(self, packings: Sequence[str], limit: int) -> None:
        names = [name for name in packings if name not in _NO_PACKINGS]
        if len(names) > _MOST_PACKINGS:
            raise Corrupt(f"it is packed {len(names)} times over")
        if unknown := [name for name in names if name not in _PACKINGS]:
            # Only a plain word is quoted: what a server says is not to be read as something that we say.
            what = repr(unknown[0]) if _WORD.fullmatch(unknown[0]) else "something"
            raise Corrupt(f"it is packed with {what}, which was not asked for")
        self._layers: list[Packing] = [_PACKINGS[name]() for name in reversed(names)]
        self._limit = limit
        self._came = [0] * (len(names) + 1)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What can be unpacked of it now.

        Raises:
            Corrupt: It is not packed as it says.
            OverLimit: One of the packings holds more than the limit.
        """
        return self._through(0, data)

    def _through(self, depth: int, data: bytes) -> Iterator[bytes]:
        self._came[depth] += len(data)
        if self._came[depth] > self._limit:
            raise OverLimit
        if depth == len(self._layers):
            yield data
            return
        for piece in self._layers[depth].feed(data):
            yield from self._through(depth + 1, piece)

    @property
    def cut_short(self) -> bool:
        """Whether the data ended before a packing did."""
        return self._came[0] > 0 and not all(layer.finished for layer in self._layers)
