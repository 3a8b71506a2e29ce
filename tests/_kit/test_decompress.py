"""Compressed bodies, within limits."""

import gzip
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings._kit.decompress import PIECE, Corrupt, Decompressor, OverLimit, gunzip, is_gzip

PLAIN = b"The ferry leaves the old harbour at seven. " * 500
LIMIT = 1024 * 1024

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
}


def decompress(names: list[str], data: bytes, step: int = 1 << 20, limit: int = LIMIT) -> bytes:
    decompressor = Decompressor(names, limit)
    parts = [data[at : at + step] for at in range(0, len(data), step)]
    return b"".join(piece for part in parts for piece in decompressor.feed(part))


@pytest.mark.parametrize("step", [1, 2, 1000, 1 << 20])
@pytest.mark.parametrize("name", COMPRESS)
def test_a_compressed_body_is_decompressed_however_it_is_cut(name: str, step: int) -> None:
    assert decompress([name], COMPRESS[name](PLAIN), step) == PLAIN


@pytest.mark.parametrize("name", COMPRESS)
def test_much_comes_out_of_little_all_of_it(name: str) -> None:
    assert decompress([name], COMPRESS[name](bytes(LIMIT))) == bytes(LIMIT)


@pytest.mark.parametrize("name", COMPRESS)
def test_wherever_it_is_cut_in_two_nothing_is_lost(name: str) -> None:
    plain = bytes(2 * PIECE + 100)
    compressed = COMPRESS[name](plain)
    for cut in range(len(compressed)):
        decompressor = Decompressor([name], LIMIT)
        assert b"".join([*decompressor.feed(compressed[:cut]), *decompressor.feed(compressed[cut:])]) == plain


def test_encodings_one_in_the_other_are_undone_from_the_outside() -> None:
    assert decompress(["gzip", "br", "deflate"], zlib.compress(brotli.compress(gzip.compress(PLAIN)))) == PLAIN


@pytest.mark.parametrize("names", [[], ["identity"], ["none"], ["utf-8"], [""]])
def test_a_body_that_is_not_compressed_is_left_alone(names: list[str]) -> None:
    assert decompress(names, PLAIN) == PLAIN


def test_deflate_without_its_header_is_understood() -> None:
    assert decompress(["deflate"], zlib.compress(PLAIN)[2:-4], step=1) == PLAIN


def test_gzip_may_have_several_parts_and_something_behind_them() -> None:
    assert decompress(["gzip"], gzip.compress(b"one ") + gzip.compress(b"two") + b"padding") == b"one two"


@pytest.mark.parametrize("name", COMPRESS)
def test_a_bomb_is_never_decompressed_beyond_the_limit(name: str) -> None:
    bomb = COMPRESS[name](bytes(8 * 1024 * 1024))
    sizes: list[int] = []
    pieces = Decompressor([name], LIMIT).feed(bomb)
    with pytest.raises(OverLimit):
        sizes.extend(map(len, pieces))
    assert 0 < sum(sizes) <= LIMIT
    assert max(sizes) <= 2 * PIECE


def test_a_bomb_inside_of_a_bomb_is_not_either() -> None:
    inner = gzip.compress(bytes(16 * 1024 * 1024))
    with pytest.raises(OverLimit):
        decompress(["gzip", "gzip"], gzip.compress(inner))
    with pytest.raises(OverLimit):
        decompress(["gzip", "br"], brotli.compress(inner))


def test_much_that_decompresses_to_nothing_is_over_the_limit_too() -> None:
    nothing = b"\x00\x00\x00\xff\xff" * 300_000  # Empty stored blocks.
    with pytest.raises(OverLimit):
        decompress(["deflate", "gzip"], gzip.compress(b"\x78\x9c" + nothing))


def test_thousands_of_parts_are_refused() -> None:
    with pytest.raises(Corrupt, match="too many parts"):
        decompress(["gzip"], gzip.compress(b"") * 2_000)


@pytest.mark.parametrize("name", COMPRESS)
def test_what_is_not_compressed_as_it_says_is_corrupt(name: str) -> None:
    with pytest.raises(Corrupt):
        decompress([name], b"<html>this is no such thing, it is a page</html>")


def test_an_encoding_that_nobody_asked_for_is_refused() -> None:
    with pytest.raises(Corrupt, match="'zstd'"):
        Decompressor(["zstd"], LIMIT)
    with pytest.raises(Corrupt, match="4 times"):
        Decompressor(["gzip"] * 4, LIMIT)


@pytest.mark.parametrize("name", COMPRESS)
def test_what_ends_too_early_is_known_to(name: str) -> None:
    compressed = COMPRESS[name](PLAIN)
    whole, half = Decompressor([name], LIMIT), Decompressor([name], LIMIT)
    assert b"".join(whole.feed(compressed)) == PLAIN
    assert not whole.cut_short
    assert PLAIN.startswith(b"".join(half.feed(compressed[: len(compressed) // 2])))
    assert half.cut_short
    assert not Decompressor([name], LIMIT).cut_short


@given(st.binary(max_size=400), st.lists(st.sampled_from(["gzip", "deflate", "br"]), max_size=3))
def test_any_bytes_are_decompressed_or_corrupt_or_over_the_limit(data: bytes, names: list[str]) -> None:
    with suppress(Corrupt, OverLimit):
        decompress(names, data, limit=1_000)


@given(st.binary(max_size=2_000), st.lists(st.sampled_from(["gzip", "deflate", "br"]), max_size=3), st.integers(1, 99))
def test_what_was_compressed_comes_out_again(data: bytes, names: list[str], step: int) -> None:
    compressed = data
    for name in names:
        compressed = COMPRESS[name](compressed)
    assert decompress(names, compressed, step) == data


def test_without_a_limit_everything_is_decompressed() -> None:
    assert sum(map(len, Decompressor(["gzip"], None).feed(gzip.compress(bytes(3 * LIMIT))))) == 3 * LIMIT


def test_a_gzip_file_is_decompressed_within_its_limit() -> None:
    compressed = gzip.compress(PLAIN)
    assert is_gzip(compressed)
    assert not is_gzip(PLAIN)
    assert gunzip(compressed, len(PLAIN)) == PLAIN
    assert gunzip(compressed + gzip.compress(b"more"), LIMIT) == PLAIN + b"more"
    with pytest.raises(OverLimit):
        gunzip(compressed, len(PLAIN) - 1)


def test_of_a_broken_gzip_file_the_beginning_can_be_kept() -> None:
    half = gzip.compress(PLAIN)[:-20]
    assert PLAIN.startswith(gunzip(half, LIMIT))
    broken = gzip.compress(b"good") + gzip.compress(PLAIN)[:20] + b"\xff" * 40
    with pytest.raises(Corrupt):
        gunzip(broken, LIMIT)
    assert gunzip(broken, LIMIT, keep_beginning=True).startswith(b"good")
    with pytest.raises(Corrupt):
        gunzip(b"\x1f\x8bnot gzip at all", LIMIT, keep_beginning=True)


def test_brotli_is_needed_only_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "brotli", None)
    assert decompress(["gzip"], gzip.compress(PLAIN)) == PLAIN
    with pytest.raises(ImportError):
        Decompressor(["br"], LIMIT)
