"""The terms of a log, without one."""

from hypothesis import given
from hypothesis import strategies as st

from tidings.bus.shared import MOST_TERMS, Terms
from tidings.changes import Cursor


def test_each_version_belongs_to_the_term_that_began_last_before_it() -> None:
    terms = Terms().begin(3, "a").begin(7, "b").begin(7, "c")
    assert [terms.at(version) for version in range(10)] == ["", "", "", "", "a", "a", "a", "a", "c", "c"]


def test_a_copy_from_the_middle_of_a_term_knows_its_beginning_only() -> None:
    copy = Terms().begin(0, "a")
    before = [Cursor("e", version, copy.at(version)) for version in range(10)]
    grown = copy.begin(4, "b")
    assert [grown.know(cursor) for cursor in before] == [True] * 5 + [False] * 5


@given(st.lists(st.integers(0, 9), max_size=2 * MOST_TERMS))
def test_terms_are_read_as_they_were_written_and_stay_few(gaps: list[int]) -> None:
    terms, all_terms, version = Terms(), Terms(), 0
    for number, gap in enumerate(gaps):
        version += gap
        terms = terms.begin(version, f"{number:x}")
        all_terms = Terms((*all_terms.starts, version), (*all_terms.names, f"{number:x}"))
    assert Terms.parse(str(terms)) == terms
    assert len(terms.starts) == len(terms.names) <= MOST_TERMS
    # Those that are no longer known are not taken for others.
    for place in range(version + 10):
        if terms.at(place) != all_terms.at(place):
            assert not terms.know(Cursor("e", place, all_terms.at(place)))
    assert terms.at(version + 1) == all_terms.at(version + 1)
    assert terms.at(0) == all_terms.at(0) == ""
