"""Packed bodies, bounded."""

import gzip
import zlib
from collections.abc import Callable
from contextlib import suppress

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.web.fetch.packings import PIECE, Corrupt, OverLimit, Unpacker

PLAIN = b"The ferry leaves the old harbour at seven. " * 500
LIMIT = 1024 * 1024

PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
}


def unpack(names: list[str], data: bytes, step: int = 1 << 20, limit: int = LIMIT) -> bytes:
    unpacker = Unpacker(names, limit)
    parts = [data[at : at + step] for at in range(0, len(data), step)]
    return b"".join(piece for part in parts for piece in unpacker.feed(part))


@pytest.mark.parametrize("step", [1, 2, 1000, 1 << 20])
@pytest.mark.parametrize("name", PACK)
def test_a_packed_body_is_unpacked_however_it_is_cut(name: str, step: int) -> None:
    assert unpack([name], PACK[name](PLAIN), step) == PLAIN


@pytest.mark.parametrize("name", PACK)
def test_much_comes_out_of_little_all_of_it(name: str) -> None:
    assert unpack([name], PACK[name](bytes(LIMIT))) == bytes(LIMIT)


@pytest.mark.parametrize("name", PACK)
def test_wherever_it_is_cut_in_two_nothing_is_lost(name: str) -> None:
    plain = bytes(2 * PIECE + 100)
    packed = PACK[name](plain)
    for cut in range(len(packed)):
        unpacker = Unpacker([name], LIMIT)
        assert b"".join([*unpacker.feed(packed[:cut]), *unpacker.feed(packed[cut:])]) == plain


def test_packings_one_in_the_other_are_undone_from_the_outside() -> None:
    assert unpack(["gzip", "br", "deflate"], zlib.compress(brotli.compress(gzip.compress(PLAIN)))) == PLAIN


@pytest.mark.parametrize("names", [[], ["identity"], ["none"], ["utf-8"], [""]])
def test_a_body_that_is_not_packed_is_left_alone(names: list[str]) -> None:
    assert unpack(names, PLAIN) == PLAIN


def test_deflate_without_its_wrapping_is_understood() -> None:
    assert unpack(["deflate"], zlib.compress(PLAIN)[2:-4], step=1) == PLAIN


def test_gzip_may_have_several_parts_and_something_behind_them() -> None:
    assert unpack(["gzip"], gzip.compress(b"one ") + gzip.compress(b"two") + b"padding") == b"one two"


@pytest.mark.parametrize("name", PACK)
def test_a_bomb_is_never_unpacked_beyond_the_limit(name: str) -> None:
    bomb = PACK[name](bytes(8 * 1024 * 1024))
    sizes: list[int] = []
    pieces = Unpacker([name], LIMIT).feed(bomb)
    with pytest.raises(OverLimit):
        sizes.extend(map(len, pieces))
    assert 0 < sum(sizes) <= LIMIT
    assert max(sizes) <= 2 * PIECE


def test_a_bomb_inside_of_a_bomb_is_not_either() -> None:
    inner = gzip.compress(bytes(16 * 1024 * 1024))
    with pytest.raises(OverLimit):
        unpack(["gzip", "gzip"], gzip.compress(inner))
    with pytest.raises(OverLimit):
        unpack(["gzip", "br"], brotli.compress(inner))


def test_much_that_unpacks_to_nothing_is_over_the_limit_too() -> None:
    nothing = b"\x00\x00\x00\xff\xff" * 300_000  # Empty stored blocks.
    with pytest.raises(OverLimit):
        unpack(["deflate", "gzip"], gzip.compress(b"\x78\x9c" + nothing))


def test_thousands_of_parts_are_refused() -> None:
    with pytest.raises(Corrupt, match="too many parts"):
        unpack(["gzip"], gzip.compress(b"") * 2_000)


@pytest.mark.parametrize("name", PACK)
def test_what_is_not_packed_as_it_says_is_corrupt(name: str) -> None:
    with pytest.raises(Corrupt):
        unpack([name], b"<html>this is no such thing, it is a page</html>")


def test_a_packing_that_nobody_asked_for_is_refused() -> None:
    with pytest.raises(Corrupt, match="'zstd'"):
        Unpacker(["zstd"], LIMIT)
    with pytest.raises(Corrupt, match="4 times"):
        Unpacker(["gzip"] * 4, LIMIT)


@pytest.mark.parametrize("name", PACK)
def test_what_ends_too_early_is_known_to(name: str) -> None:
    packed = PACK[name](PLAIN)
    whole, half = Unpacker([name], LIMIT), Unpacker([name], LIMIT)
    assert b"".join(whole.feed(packed)) == PLAIN
    assert not whole.cut_short
    assert PLAIN.startswith(b"".join(half.feed(packed[: len(packed) // 2])))
    assert half.cut_short
    assert not Unpacker([name], LIMIT).cut_short


@given(st.binary(max_size=400), st.lists(st.sampled_from(["gzip", "deflate", "br"]), max_size=3))
def test_any_bytes_are_unpacked_or_corrupt_or_over_the_limit(data: bytes, names: list[str]) -> None:
    with suppress(Corrupt, OverLimit):
        unpack(names, data, limit=1_000)


@given(st.binary(max_size=2_000), st.lists(st.sampled_from(["gzip", "deflate", "br"]), max_size=3), st.integers(1, 99))
def test_what_was_packed_comes_out_again(data: bytes, names: list[str], step: int) -> None:
    packed = data
    for name in names:
        packed = PACK[name](packed)
    assert unpack(names, packed, step) == data
