"""Where two sequences differ: always right, and never for long."""

import random
import time
from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings._kit.diff import (
    Differing,
    DiffLine,
    DiffPiece,
    Replaced,
    changed_words,
    common_lines,
    differing,
    grouped,
    make_hunk,
    no_words,
    unified,
)

ITEMS = st.one_of(st.lists(st.integers(0, 2), max_size=30), st.lists(st.integers(0, 30), max_size=30))
LINES = st.lists(st.sampled_from(["a\n", "b\n", "c d\n", "x y z\n", "\n"]), max_size=15)
TEXTS = st.text("ab \n", max_size=40)


def replaced(old: list[int], new: list[int], found: Differing) -> list[int]:
    result: list[int] = []
    at = new_at = 0
    for start, end, new_start, new_end in found.changes:
        assert old[at:start] == new[new_at:new_start]
        assert start < end or new_start < new_end
        result += old[at:start] + new[new_start:new_end]
        at, new_at = end, new_end
    return result + old[at:]


@given(ITEMS, ITEMS, st.sampled_from([0, 5, 20, 100, 10_000]))
def test_replacing_what_differs_gives_the_other(old: list[int], new: list[int], work: int) -> None:
    assert replaced(old, new, differing(old, new, work)) == new


@given(st.lists(st.integers(), max_size=40, unique=True), st.data())
def test_items_that_went_are_all_that_is_found(items: list[int], data: st.DataObject) -> None:
    gone = data.draw(st.sets(st.sampled_from(range(len(items))), max_size=3)) if items else set[int]()
    rest = [item for at, item in enumerate(items) if at not in gone]
    found = differing(items, rest)
    assert found.exact
    assert sum(change.end - change.start for change in found.changes) == len(gone)


def test_items_without_a_place_of_their_own_are_matched_by_the_shortest_way() -> None:
    # None of them occurs equally often on both sides.
    found = differing([0, 1, 0, 1, 0, 2, 2], [1, 0, 1, 0, 1, 0, 2])
    assert (len(found.changes), found.exact) == (2, True)


@pytest.mark.parametrize("work", [0, 50, 3_000_000])
def test_too_much_work_replaces_a_piece_as_a_whole_and_says_so(work: int) -> None:
    chance = random.Random(1)
    old = [chance.randrange(3) for _ in range(5000)]
    new = [chance.randrange(3) for _ in range(5001)]
    found = differing(old, new, work)
    assert replaced(old, new, found) == new
    assert not found.exact


def test_the_work_bounds_the_time() -> None:
    chance = random.Random(2)
    old, new = ([chance.randrange(50) for _ in range(100_000)] for _ in range(2))
    before = time.process_time()
    differing(old, new, 400_000)
    assert time.process_time() - before < 5


@given(TEXTS, TEXTS)
def test_common_ends_are_whole_lines_of_both(before: str, after: str) -> None:
    start, end = common_lines(before, after)
    assert start + end <= min(len(before), len(after))
    assert before[:start] == after[:start]
    assert before[len(before) - end :] == after[len(after) - end :]
    assert start == 0 or before[start - 1] == "\n"
    for text in (before, after):
        begin = len(text) - end
        assert end == 0 or begin == 0 or text[begin - 1] == "\n" or begin == start


def shown(text: str, spans: tuple[tuple[int, int], ...] | None) -> list[str] | None:
    return None if spans is None else [text[start:end] for start, end in spans]


def test_words_that_differ_are_marked_as_a_whole() -> None:
    old, new = "- [ ] Freeze the API by Friday", "- [x] Freeze the API on 14 November"
    (gone,), (come,) = changed_words([old], [new])
    assert (shown(old, gone), shown(new, come)) == ([" ", "by", "Friday"], ["x", "on", "14 November"])
    (gone,), (come,) = changed_words(["the testing of"], ["the tested of"])
    assert (gone, come) == (((4, 11),), ((4, 10),))


def test_text_that_is_only_wrapped_anew_has_no_other_words() -> None:
    old, new = ["one two\n", "three four\n"], ["one two three\n", "four\n"]
    assert changed_words(old, new) == ([(), ()], [(), ()])


def test_lines_with_little_in_common_have_no_counterpart() -> None:
    assert changed_words(["something\n"], ["entirely else\n"]) == ([None], [None])
    assert changed_words(["same but one\n"], []) == ([None], [])


def test_lines_that_differ_in_very_much_are_not_compared_word_by_word() -> None:
    words = [" ".join(str(number * step) for number in range(30_000)) for step in (2, 3)]
    assert changed_words(words[:1], words[1:]) == ([None], [None])


@given(LINES, LINES, st.integers(0, 3))
def test_hunks_lead_from_the_old_lines_to_the_new(old: list[str], new: list[str], context: int) -> None:
    result: list[str] = []
    at = 0
    for group in grouped(differing(old, new).changes, context):
        hunk = make_hunk(old, new, group, context=context)
        assert [line.text for line in hunk.lines if line.old] == old[hunk.start - 1 : hunk.start - 1 + hunk.count]
        assert [line.text for line in hunk.lines if line.new] == new[hunk.new_start - 1 :][: hunk.new_count]
        numbers = [line.new for line in hunk.lines if line.new]
        assert numbers == list(range(hunk.new_start, hunk.new_start + hunk.new_count))
        result += old[at : hunk.start - 1] + [line.text for line in hunk.lines if line.new]
        at = hunk.start - 1 + hunk.count
    assert result + old[at:] == new


def test_changes_far_apart_are_hunks_of_their_own() -> None:
    near, far = Replaced(0, 1, 0, 1), Replaced(7, 8, 7, 8)
    assert list(grouped([near, far], 3)) == [[near, far]]
    assert list(grouped([near, far], 2)) == [[near], [far]]
    assert list(grouped([], 3)) == []


def test_a_hunk_shows_what_is_kept_and_counts_the_rest() -> None:
    def two(lines: Iterator[DiffLine]) -> Iterator[DiffLine]:
        return islice(lines, 2)

    old, new = ["a\n"], [f"{number}\n" for number in range(1000)]
    hunk = make_hunk(old, new, differing(old, new).changes, above=10, heading="Here", words=no_words, keep=two)
    assert [line.text for line in hunk.lines] == ["a\n", "0\n", "1\n"]
    assert (hunk.left_out, hunk.title) == (998, "@@ -11,1 +11,1000 @@ Here")
    assert hunk.text.endswith("+1\n[998 more lines of this place are left out]\n")


def test_a_line_in_pieces_is_the_line() -> None:
    line = DiffLine("-", "one two three", 1, None, ((4, 7),))
    assert line.pieces == (DiffPiece("one ", False), DiffPiece("two", True), DiffPiece(" three", False))
    assert DiffLine("+", "all").pieces == (DiffPiece("all", False),)
    assert DiffLine("+", "").pieces == ()


def test_a_line_without_a_newline_says_so_as_patches_do() -> None:
    hunk = make_hunk(["a\n"], ["a"], differing(["a\n"], ["a"]).changes)
    assert hunk.text == "@@ -1,1 +1,1 @@\n-a\n+a\n\\ No newline at end of file\n"


def test_a_place_without_lines_is_named_by_the_line_above_it() -> None:
    assert next(unified([], ["a"])) == "@@ -0,0 +1,1 @@"
    assert next(unified(["a", "b"], ["a"], context=0, above=5)) == "@@ -7,1 +6,0 @@"


def test_unified_text_has_the_lines_around() -> None:
    old, new = ["1", "2", "3", "4", "5"], ["1", "2", "3", "five", "5"]
    assert list(unified(old, new, context=1)) == ["@@ -3,3 +3,3 @@", " 3", "-4", "+five", " 5"]
    assert list(unified(old, old)) == []
