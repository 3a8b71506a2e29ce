"""Which part of a note is shown, and that what is left out is always named."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.vault.notes.sections import EditRefused, line_starts
from tidings.vault.tools.read import Excerpt, LineRange, excerpt, parse_lines

TEN = "".join(f"line {number}\n" for number in range(1, 11))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("3", (3, 3)),
        ("3-5", (3, 5)),
        ("3-", (3, 10)),
        ("-5", (1, 5)),
        (" 3 - 5 ", (3, 5)),
        ("8-99", (8, 10)),
        ("10", (10, 10)),
    ],
)
def test_lines_are_written_in_four_ways(text: str, lines: tuple[int, int]) -> None:
    assert parse_lines(text, 10) == lines


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not a range of lines"),
        ("-", "is not a range of lines"),
        ("abc", "is not a range of lines"),
        ("3 5", "is not a range of lines"),
        ("3..5", "is not a range of lines"),
        ("0", "count from 1"),
        ("5-3", "smaller number comes first"),
        ("11", "There is no line 11: the note has 10"),
    ],
)
def test_other_lines_are_refused_with_what_to_write(text: str, reason: str) -> None:
    with pytest.raises(EditRefused, match=reason):
        parse_lines(text, 10)


def test_a_note_that_fits_is_shown_whole() -> None:
    assert excerpt(TEN, "", 1000) == Excerpt(TEN, LineRange(1, 10), 10, "")


def test_what_does_not_fit_is_named_with_how_to_get_it() -> None:
    shown = excerpt(TEN, "", 16)
    assert shown.text == "line 1\nline 2\n"
    assert shown.lines == (1, 2)
    assert shown.left_out == "Lines 3-10 are left out, about 15 tokens. Ask with lines='3-'."


def test_the_rest_of_a_range_ends_where_the_range_does() -> None:
    shown = excerpt(TEN, "2-5", 16)
    assert (shown.text, str(shown.lines)) == ("line 2\nline 3\n", "2-3")
    assert shown.left_out.endswith("Ask with lines='4-5'.")


def test_a_single_line_that_does_not_fit_is_shown_in_part_and_said_so() -> None:
    shown = excerpt("x" * 1000 + "\nend\n", "", 40)
    assert shown.text == "x" * 40
    assert shown.left_out == "Line 1 has 1,001 characters: the first 40 are shown. Ask with max_tokens=251."


def test_an_empty_note_has_no_lines() -> None:
    assert excerpt("", "", 40) == Excerpt("", None, 0, "")
    with pytest.raises(EditRefused, match="There is no line 1: the note has 0"):
        excerpt("", "1", 40)


@given(st.text("ab\r\n", max_size=60), st.integers(1, 20))
def test_whoever_follows_what_is_said_gets_the_whole_text(text: str, room: int) -> None:
    got, lines = "", ""
    for _ in range(len(line_starts(text)) + 2):
        shown = excerpt(text, lines, room)
        if not shown.left_out:
            got += shown.text
            break
        if found := re.search(r"lines='([0-9-]+)'", shown.left_out):
            got += shown.text
            lines = found[1]
        else:
            more = re.search(r"max_tokens=([0-9]+)", shown.left_out)
            assert more is not None
            assert int(more[1]) * 4 > room
            room = int(more[1]) * 4
    assert got == text
