"""What changed between two texts: exactly, readably, within bounds."""

import re
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidings.web.documents import difference
from tidings.web.documents.difference import PageDiff, diff

LEFT_OUT = re.compile(r"\[Left out for lack of room: (\d+) of (\d+) places; in all, (\d+) added and (\d+) removed")
HUNK = re.compile(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@(?: (.*))?")


def lines_of(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def applied(before: str, unified: str) -> str:
    """What `patch` would make of it."""
    source, result, place = lines_of(before), [""], 0
    lines = lines_of(unified)
    while lines:
        head = HUNK.fullmatch(lines.pop(0).rstrip("\n"))
        assert head
        start, count, new_start, new_count = map(int, head.groups()[:4])
        begin = start - 1 if count else start
        result += source[place:begin]
        assert len(result) - 1 == (new_start - 1 if new_count else new_start)
        place = begin
        while count or new_count or (lines and lines[0].startswith("\\")):
            line = lines.pop(0)
            if lines and lines[0].startswith("\\"):
                lines.pop(0)
                line = line.removesuffix("\n")
            if line[0] != "+":
                assert source[place] == line[1:]
                place, count = place + 1, count - 1
            if line[0] != "-":
                result.append(line[1:])
                new_count -= 1
    return "".join(result + source[place:])


LINES = st.lists(
    st.sampled_from(["", "a", "b", "# one", "## two", "```", "x y z", "\\ a", "- b", "\u2028\r"]), max_size=25
)
TEXTS = st.one_of(LINES.map("\n".join), LINES.map(lambda lines: "".join(f"{line}\n" for line in lines)), st.text())


def shown(text: str) -> Counter[str]:
    """How many lines of each sign a diff shows."""
    return Counter(line[0] for line in text.split("\n") if line and not HUNK.fullmatch(line))


@given(TEXTS, TEXTS, st.integers(0, 4))
@example("", "\n", 3)
@example("a", "a\n", 3)
@example("a\nb", "b", 0)
def test_applying_the_diff_to_what_was_before_gives_what_is_after(before: str, after: str, context: int) -> None:
    found = diff(before, after, context=context, max_chars=None)
    assert applied(before, found.text) == after
    assert (found.added + found.removed == 0) == (before == after)


@given(LINES.map("\n".join), LINES.map("\n".join), st.integers(0, 200))
def test_a_limit_hides_nothing_silently(before: str, after: str, limit: int) -> None:
    whole, found = diff(before, after, max_chars=None), diff(before, after, max_chars=limit)
    assert (found.added, found.removed) == (whole.added, whole.removed)
    signs = shown(found.text)
    missing = LEFT_OUT.search(found.text)
    added, removed = (int(missing[3]), int(missing[4])) if missing else (0, 0)
    assert (signs["+"] + added, signs["-"] + removed) == (whole.added, whole.removed)
    assert (missing is None) == (found.text == whole.text)


def test_a_diff_reads_like_this() -> None:
    before = "# Prices\n\nAll of them.\n\n## Apples\n\nAn apple is 3 crowns.\n\nEat them.\n\n## Pears\n\nNone.\n"
    after = before.replace("3 crowns", "4 crowns").replace("None.", "None.\nTry later.")
    assert diff(before, after, context=1) == PageDiff(
        added=2,
        removed=1,
        text="@@ -6,3 +6,3 @@ Prices > Apples\n"
        " \n"
        "-An apple is 3 crowns.\n"
        "+An apple is 4 crowns.\n"
        " \n"
        "@@ -13,1 +13,2 @@ Prices > Pears\n"
        " None.\n"
        "+Try later.\n",
    )


def test_a_heading_in_code_is_none() -> None:
    before = "# Real\n\n```sh\n# not\n```\n~~~\n```\n# nor\n~~~\n\ntext\n"
    assert headings(diff(before, before.replace("text", "another")).text) == ["Real"]


def test_what_stands_above_the_first_heading_has_none_and_long_headings_are_cut() -> None:
    long = "word " * 100
    before = f"text\n\n\n\n\n\n\n\n# {long}\n\nmore\n"
    first, second = headings(diff(before, before.replace("text", "other").replace("more", "less")).text)
    assert first is None
    assert second
    assert len(second) == 160
    assert second.endswith("…")


def headings(text: str) -> list[str | None]:
    return [head[5] for line in text.split("\n") if (head := HUNK.fullmatch(line))]


def test_a_cut_place_shows_more_of_what_came_than_of_what_went() -> None:
    before = "".join(f"old {number}\n" for number in range(500))
    after = "".join(f"new {number}\n" for number in range(500))
    found = diff(before, after, max_chars=2000)
    signs = shown(found.text)
    assert signs["+"] > 80
    assert 50 < signs["-"] <= signs["+"] + 5
    assert f"[{1000 - signs['+'] - signs['-']} more lines of this place are left out]" in found.text
    assert f"{500 - signs['+']} added and {500 - signs['-']} removed lines" in found.text
    assert "Read both versions to see everything." in found.text
    assert len(found.text) < 2500


def test_removal_alone_has_all_the_room() -> None:
    before = "".join(f"old {number}\n" for number in range(100))
    found = diff(before, "", max_chars=2000)
    assert "left out" not in found.text
    assert (found.added, found.removed) == (0, 100)


def test_places_beyond_the_limit_are_counted() -> None:
    before = "".join(f"line {number}\n" for number in range(1000))
    after = re.sub(r"(?m)^line (\d+)0$", r"row \g<1>0", before)
    text = diff(before, after, max_chars=1000).text
    assert f"{99 - len(headings(text))} of 99 places" in text


def test_a_long_line_shows_the_part_that_changed() -> None:
    before = "word " * 10_000 + "then old " + "word " * 10_000
    text = diff(before, before.replace("old", "new")).text
    gone, come = (line for line in text.split("\n") if line[:1] in ("-", "+"))
    assert "then old word" in gone
    assert "then new word" in come
    assert come.startswith("+[49,855 characters] ")
    assert f"[{2 * (len(before) - 600):,} characters of long lines are left out.]" in text
    assert all(len(line) < 700 for line in (gone, come))


def test_a_long_line_that_is_new_shows_its_beginning() -> None:
    text = diff("", "begin " + "word " * 1000 + "\nnext\n").text
    assert "\n+begin word" in text
    assert " [4,407 characters]\n+next\n" in text
    # Its end is in sight where the end is what changed.
    long = "word " * 1000
    assert "word new\n" in diff(f"{long}old\n", f"{long}new\n").text


MIB = 2**20


@pytest.mark.parametrize("size", [MIB // 4, pytest.param(MIB, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(("\n", 10), ("a\n", 5), id="very many lines"),
        pytest.param(("a b\n", 1), ("b a\nc\n", 1), id="the same lines again and again"),
        pytest.param(("x", 10), ("y", 10), id="one word"),
        pytest.param(("x", 10), ("x", 5), id="one word, half of it"),
        pytest.param(("a ", 5), ("b a", 3), id="one line of many words"),
        pytest.param(("# h\n", 2), ("# h\n", 1), id="headings"),
    ],
)
def test_millions_of_characters_are_compared_within_bounds(
    before: tuple[str, int], after: tuple[str, int], size: int
) -> None:
    found = diff(before[0] * before[1] * size, after[0] * after[1] * size + "y")
    assert len(found.text) < difference.MAX_CHARS + 1000
    assert "left out" in found.text
    signs = shown(found.text)
    assert (signs["-"] and signs["+"]) or not found.added or not found.removed


def test_small_changes_in_a_large_text_are_exact() -> None:
    before = [f"line {number % 5000} of the text\n" for number in range(200_000)]
    after = [line for number, line in enumerate(before) if number % 20_000 != 7]
    found = diff("".join(before), "".join(after))
    assert (found.added, found.removed) == (0, 10)
    assert "unchanged lines" not in found.text


def test_a_text_that_changed_beyond_comparing_says_so() -> None:
    before = "".join("abc"[number * number % 7 % 3] + "\n" for number in range(15_000))
    after = "".join("abc"[number * number % 11 % 3] + "\n" for number in range(15_000))
    assert "unchanged lines may be shown as removed and added" in diff(before, after).text
    assert applied(before, re.sub(r"(?m)^\[.*\n", "", diff(before, after, max_chars=None).text)) == after


def test_the_end_of_a_text_with_too_many_lines_is_not_compared_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(difference, "_MAX_LINES", 10)
    before = "same\n" + "".join(f"old {number}\n" for number in range(20)) + "same\nend"
    found = diff(before, before.replace("old", "new"))
    assert (found.added, found.removed) == (10, 10)
    assert "The last 140 characters were not compared." in found.text
