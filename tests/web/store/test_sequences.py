"""Where two sequences differ: always right, and never for long."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.web.store.sequences import Changes, compare

ITEMS = st.one_of(st.lists(st.integers(0, 2), max_size=30), st.lists(st.integers(0, 30), max_size=30))


def replaced(before: list[int], after: list[int], found: Changes) -> list[int]:
    result: list[int] = []
    place = new_place = 0
    for start, end, new_start, new_end in found.changes:
        assert before[place:start] == after[new_place:new_start]
        assert start < end or new_start < new_end
        result += before[place:start] + after[new_start:new_end]
        place, new_place = end, new_end
    return result + before[place:]


@given(ITEMS, ITEMS, st.sampled_from([0, 5, 20, 100, 10_000]))
def test_replacing_what_differs_gives_the_other(before: list[int], after: list[int], work: int) -> None:
    assert replaced(before, after, compare(before, after, work)) == after


@given(st.lists(st.integers(0, 3), max_size=40), st.data())
def test_a_few_that_went_are_all_that_is_found(items: list[int], data: st.DataObject) -> None:
    gone = data.draw(st.sets(st.sampled_from(range(len(items))), max_size=3)) if items else set[int]()
    rest = [item for place, item in enumerate(items) if place not in gone]
    found = compare(items, rest)
    assert replaced(items, rest, found) == rest
    if len(set(items)) == len(items):
        assert sum(end - start for start, end, _, _ in found.changes) == len(gone)


def test_items_without_a_place_of_their_own_are_matched_by_the_shortest_way() -> None:
    # None of them occurs equally often on both sides.
    found = compare([0, 1, 0, 1, 0, 2, 2], [1, 0, 1, 0, 1, 0, 2])
    assert (len(found.changes), found.exact) == (2, True)


@pytest.mark.parametrize("work", [0, 50, 3_000_000])
def test_what_is_too_much_work_is_replaced_as_a_whole_and_says_so(work: int) -> None:
    chance = random.Random(1)
    before = [chance.randrange(3) for _ in range(5000)]
    after = [chance.randrange(3) for _ in range(5001)]
    found = compare(before, after, work)
    assert replaced(before, after, found) == after
    assert not found.exact
