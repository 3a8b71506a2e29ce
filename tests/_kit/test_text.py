"""Text for people."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings._kit.text import (
    clock,
    counted,
    duration,
    harmless,
    harmless_json,
    is_ip,
    joined,
    listed,
    one_line,
    quoted,
    rough_duration,
    shortened,
    size_text,
)


@given(st.text(max_size=30), st.integers(1, 20))
def test_a_shortened_text_fits_and_shows_whether_it_was_cut(text: str, limit: int) -> None:
    short = shortened(text, limit)
    assert len(short) <= limit
    assert short == text if len(text) <= limit else short == text[: limit - 1] + "…"


@given(st.text(" \n\tab", max_size=60), st.integers(1, 10))
def test_one_line_has_single_spaces_and_fits(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert "  " not in line
    assert "\n" not in line
    assert line == line.strip()
    if len(text) <= limit:
        assert line == one_line(text)


def test_one_line_marks_what_it_did_not_look_at() -> None:
    assert one_line("a\n\n b") == "a b"
    assert one_line("a" + " " * 99 + "b", 10) == "a…"
    assert one_line("a " * 30, 10) == "a a a a a…"
    assert one_line("ab" + " " * 38 + "c", 10) == "ab…"
    assert len(one_line("x" * 10**7, 10)) == 10


def test_a_quoted_text_is_escaped_where_it_cannot_be_printed() -> None:
    assert quoted("é") == "'é'"
    assert quoted("a\x1b\nb") == r"'a\x1b\nb'"
    assert quoted("abcdef", 4) == "'abc…'"


def test_control_characters_become_visible() -> None:
    assert harmless("a\x1b[1m\tb\r\n\x7f\x9b\u202e!") == "a␛[1m\tb\n␡<U+009B><U+202E>!"
    assert harmless("family: 👩\u200d👧") == "family: 👩\u200d👧"
    assert harmless("\ud800").encode()


@given(st.text())
def test_a_mark_keeps_the_number_of_characters(text: str) -> None:
    made = harmless(text, mark="·")
    assert len(made) == len(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\ufeff]", made)


def test_a_mark_is_no_template_of_a_regular_expression() -> None:
    assert harmless("a\x00b\u200bc", mark="\\") == r"a\b\c"


def test_json_keeps_its_meaning() -> None:
    assert harmless_json('"\u202e"') == r'"\u202e"'


def test_counts_and_lists() -> None:
    assert counted(1, "reply", "replies") == "1 reply"
    assert counted(12_480, "message") == "12,480 messages"
    assert counted(0, "reply", "replies") == "0 replies"
    assert listed("abc") == "a, b, c"
    assert listed("abcde", 2) == "a, b and 3 more"
    assert listed("abc" * 20, None).count(",") == 59
    assert listed([], none="none") == "none"
    assert [joined([]), joined(["a"]), joined(["a", "b"]), joined(["a", "b", "c"], "or")] == [
        "",
        "a",
        "a and b",
        "a, b or c",
    ]


@pytest.mark.parametrize(
    ("count", "long", "short"),
    [
        (1, "1 byte", "1 B"),
        (999, "999 bytes", "999 B"),
        (9_999, "9,999 bytes", "10.0 KB"),
        (10_000, "10 KB", "10.0 KB"),
        (9_900_000, "9,900 KB", "9.9 MB"),
        (12_000_000, "12 MB", "12.0 MB"),
    ],
)
def test_sizes(count: int, long: str, short: str) -> None:
    assert size_text(count) == long
    assert size_text(count, short=True) == short


@pytest.mark.parametrize(
    ("seconds", "fine", "rough"),
    [
        (-1, "0 ms", "0 ms"),
        (0.0021, "2 ms", "2 ms"),
        (0.9996, "1.0 s", "1000 ms"),
        (3.9, "3.9 s", "3 s"),
        (61, "1 min 1 s", "1 min"),
        (7300, "2 h 1 min", "2 h"),
        (86400 * 3.5, "84 h 0 min", "3 days"),
    ],
)
def test_durations(seconds: float, fine: str, rough: str) -> None:
    assert duration(seconds) == fine
    assert rough_duration(seconds) == rough


def test_the_time_of_day() -> None:
    assert re.fullmatch(r"\d\d:\d\d:\d\d", clock(1e9))
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.250", clock(1e9 + 0.25, milliseconds=True))
    assert clock(1e300) == clock(float("nan")) == "--:--:--"


def test_ip_addresses() -> None:
    assert is_ip("127.0.0.1")
    assert is_ip("::1")
    assert not is_ip("[::1]")
    assert not is_ip("localhost")
    assert not is_ip("127.0.0.1:80")
