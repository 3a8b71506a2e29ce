"""What changed between two texts: exactly, readably, within bounds."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidings.web.documents import difference
from tidings.web.documents.difference import diff

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


@given(TEXTS, TEXTS, st.integers(0, 4))
@example("", "\n", 3)
@example("a", "a\n", 3)
@example("a\nb", "b", 0)
def test_applying_the_diff_to_what_was_before_gives_what_is_after(before: str, after: str, context: int) -> None:
    found = diff(before, after, context=context, max_chars=None)
    assert applied(before, found.text) == after
    assert found.left_out is None
    signs = [line.sign for hunk in found.hunks for line in hunk.lines]
    assert (signs.count("+"), signs.count("-")) == (found.added, found.removed)
    assert (found.places == 0) == (before == after)


@given(TEXTS, TEXTS)
def test_what_the_marked_words_leave_is_the_same_on_both_sides(before: str, after: str) -> None:
    rest = {"-": "", "+": ""}
    for hunk in diff(before, after, max_chars=None).hunks:
        for line in hunk.lines:
            if line.words is not None:
                for start, end in line.words[::-1]:
                    assert 0 <= start < end <= len(line.text)
                kept, place = "", 0
                for start, end in line.words:
                    kept, place = kept + line.text[place:start], end
                rest[line.sign] += kept + line.text[place:]
    assert rest["-"].split() == rest["+"].split()


@given(TEXTS, TEXTS, st.integers(0, 200))
def test_a_limit_hides_nothing_silently(before: str, after: str, limit: int) -> None:
    whole, found = diff(before, after, max_chars=None), diff(before, after, max_chars=limit)
    assert (found.added, found.removed, found.places) == (whole.added, whole.removed, whole.places)
    signs = [line.sign for hunk in found.hunks for line in hunk.lines]
    missing = found.left_out
    assert signs.count("+") + (missing.added if missing else 0) == whole.added
    assert signs.count("-") + (missing.removed if missing else 0) == whole.removed
    assert len(found.hunks) + (missing.places if missing else 0) == whole.places
    assert sum(len(line.text) for hunk in found.hunks for line in hunk.lines) <= limit
    assert ("left out" in found.text.lower()) == (missing is not None)


def test_a_diff_reads_like_this() -> None:
    before = "# Prices\n\nAll of them.\n\n## Apples\n\nAn apple is 3 crowns.\n\nEat them.\n\n## Pears\n\nNone.\n"
    after = before.replace("3 crowns", "4 crowns").replace("None.", "None.\nTry later.")
    found = diff(before, after, context=1)
    assert found.text == (
        "@@ -6,3 +6,3 @@ Prices > Apples\n"
        " \n"
        "-An apple is 3 crowns.\n"
        "+An apple is 4 crowns.\n"
        " \n"
        "@@ -13,1 +13,2 @@ Prices > Pears\n"
        " None.\n"
        "+Try later.\n"
    )
    changed = [(line.sign, line.words) for line in found.hunks[0].lines if line.sign != " "]
    assert changed == [("-", ((12, 13),)), ("+", ((12, 13),))]
    assert found.hunks[1].lines[-1].words is None


def test_a_heading_in_code_is_none() -> None:
    before = "# Real\n\n```sh\n# not\n```\n~~~\n```\n# nor\n~~~\n\ntext\n"
    (hunk,) = diff(before, before.replace("text", "another")).hunks
    assert hunk.heading == "Real"


def test_what_stands_above_the_first_heading_has_none_and_long_headings_are_cut() -> None:
    long = "word " * 100
    before = f"text\n\n\n\n\n\n\n\n# {long}\n\nmore\n"
    first, second = diff(before, before.replace("text", "other").replace("more", "less")).hunks
    assert first.heading == ""
    assert len(second.heading) == 160
    assert second.heading.endswith("…")


def test_lines_that_have_nothing_in_common_are_not_called_changed_words() -> None:
    (hunk,) = diff("completely different\n", "nothing alike here\n").hunks
    assert [line.words for line in hunk.lines] == [None, None]


def test_words_are_found_where_no_spaces_are_and_across_lines() -> None:
    (hunk,) = diff("価格は三円です\n", "価格は四円です\n").hunks
    assert [line.words for line in hunk.lines] == [((3, 4),), ((3, 4),)]
    (hunk,) = diff("one two three\nfour five\n", "one two\nthree four six\n").hunks
    marked = ["".join(line.text[a:b] for a, b in line.words or ()) for line in hunk.lines]
    assert [text.split() for text in marked] == [[], ["five"], [], ["six"]]


def test_a_cut_place_shows_more_of_what_came_than_of_what_went() -> None:
    before = "".join(f"old {number}\n" for number in range(500))
    after = "".join(f"new {number}\n" for number in range(500))
    found = diff(before, after, max_chars=2000)
    (hunk,) = found.hunks
    signs = [line.sign for line in hunk.lines]
    assert signs.count("+") > 80
    assert 50 < signs.count("-") <= signs.count("+") + 5
    assert hunk.left_out == 1000 - len(hunk.lines)
    assert found.left_out
    assert (found.left_out.added, found.left_out.removed) == (500 - signs.count("+"), 500 - signs.count("-"))
    assert f"[{hunk.left_out} more lines of this place are left out]" in found.text
    assert "Read both versions to see everything." in found.text
    assert len(found.text) < 2500


def test_removal_alone_has_all_the_room() -> None:
    before = "".join(f"old {number}\n" for number in range(100))
    found = diff(before, "", max_chars=2000)
    assert found.left_out is None
    assert (found.added, found.removed) == (0, 100)


def test_places_beyond_the_limit_are_counted() -> None:
    before = "".join(f"line {number}\n" for number in range(1000))
    after = re.sub(r"(?m)^line (\d+)0$", r"row \g<1>0", before)
    found = diff(before, after, max_chars=1000)
    assert found.places == 99
    assert found.left_out
    assert len(found.hunks) + found.left_out.places == 99
    assert f"{found.left_out.places} of 99 places" in found.text


def test_a_long_line_shows_the_part_that_changed() -> None:
    before = "word " * 10_000 + "then old " + "word " * 10_000
    found = diff(before, before.replace("old", "new"))
    gone, come = found.hunks[0].lines
    assert "then old word" in gone.text
    assert "then new word" in come.text
    assert come.words
    assert [come.text[a:b] for a, b in come.words] == ["new"]
    assert come.text.startswith("[49,855 characters] ")
    assert come.left_out == len(before) - 600
    assert found.left_out
    assert found.left_out.characters == gone.left_out + come.left_out
    assert "characters of long lines are left out" in found.text
    assert all(len(line.text) < 700 for line in (gone, come))


def test_a_long_line_that_is_new_shows_its_beginning() -> None:
    found = diff("", "begin " + "word " * 1000 + "\nnext\n")
    line, _ = found.hunks[0].lines
    assert line.text.startswith("begin word")
    assert line.text.endswith(" [4,407 characters]\n")
    # Its end is in sight where the end is what changed.
    long = "word " * 1000
    found = diff(f"{long}old\n", f"{long}new\n")
    assert found.hunks[0].lines[1].text.endswith("word new\n")


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
    assert found.places >= 1
    assert len(found.text) < difference.MAX_CHARS + 1000
    assert found.left_out
    lines = [line for hunk in found.hunks for line in hunk.lines]
    assert {line.sign for line in lines} >= {"-", "+"} or not found.added or not found.removed


def test_small_changes_in_a_large_text_are_exact() -> None:
    before = [f"line {number % 5000} of the text\n" for number in range(200_000)]
    after = [line for number, line in enumerate(before) if number % 20_000 != 7]
    found = diff("".join(before), "".join(after))
    assert (found.added, found.removed, found.exact) == (0, 10, True)


def test_a_text_that_changed_beyond_comparing_says_so() -> None:
    before = "".join("abc"[number * number % 7 % 3] + "\n" for number in range(15_000))
    after = "".join("abc"[number * number % 11 % 3] + "\n" for number in range(15_000))
    found = diff(before, after)
    assert not found.exact
    assert "unchanged lines may be shown as removed and added" in found.text
    assert applied(before, re.sub(r"(?m)^\[.*\n", "", diff(before, after, max_chars=None).text)) == after


def test_too_many_lines_count_as_replaced_but_whole_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(difference, "_MAX_LINES", 10)
    before = "same\n" + "".join(f"old {number}\n" for number in range(20)) + "same\nend"
    after = before.replace("old", "new")
    found = diff(before, after, max_chars=150)
    (hunk,) = found.hunks
    assert (hunk.start, hunk.count, hunk.new_start, hunk.new_count) == (1, 23, 1, 23)
    assert (found.added, found.removed, found.exact) == (20, 20, False)
    shown = [line.sign for line in hunk.lines]
    assert hunk.left_out == 43 - len(shown)
    assert shown.count("+")
    assert applied(before, re.sub(r"(?m)^\[.*\n", "", diff(before, after, max_chars=None).text)) == after
