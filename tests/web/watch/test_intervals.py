"""When a watched page is looked at again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings._kit.backoff import jittered
from tidings.web.settings import Settings
from tidings.web.watch.state import (
    DAY,
    LONGEST_RETRY,
    LONGEST_RETRY_AFTER,
    Intervals,
    fresh_for,
)
from tidings.web.wiring import intervals

LIMITS = Intervals(first=100, least=10, most=1000)
NOW = 1_767_225_600.0  # Thu, 01 Jan 2026 00:00:00 GMT


def test_the_first_look_begins_with_the_first_interval() -> None:
    pace = LIMITS.after_look(None, changed=False, fresh=None)

    assert pace == (100, 100)


def test_a_first_look_that_finds_a_change_begins_with_half_of_it() -> None:
    assert LIMITS.after_look(None, changed=True, fresh=None) == (50, 50)


def test_who_wants_to_hear_soon_says_so_by_the_shortest_interval() -> None:
    assert intervals(Settings()) == Intervals(first=300, least=60, most=DAY)
    assert intervals(Settings(watch_min=1)) == Intervals(first=5, least=1, most=DAY)
    assert intervals(Settings(watch_min=10, watch_max=20)) == Intervals(first=20, least=10, most=20)


def test_a_change_halves_the_interval_and_none_makes_it_longer() -> None:
    assert LIMITS.after_look(100, changed=True, fresh=None)[1] == 50
    assert LIMITS.after_look(100, changed=False, fresh=None)[1] == 150


def test_the_interval_stays_within_its_limits() -> None:
    assert LIMITS.after_look(11, changed=True, fresh=None)[1] == 10
    assert LIMITS.after_look(990, changed=False, fresh=None)[1] == 1000


def test_a_page_that_is_fresh_for_longer_is_left_alone_for_longer_without_changing_its_history() -> None:
    pace = LIMITS.after_look(100, changed=True, fresh=600)

    assert pace == (50, 600)
    assert LIMITS.after_look(100, changed=True, fresh=10 * DAY)[1] == 1000
    assert LIMITS.after_look(100, changed=True, fresh=1)[1] == 50


def test_an_interval_that_somebody_asked_for_is_kept_to_within_the_limits() -> None:
    assert LIMITS.after_look(100, changed=True, fresh=600, fixed=70)[1] == 70
    assert LIMITS.after_look(100, changed=True, fresh=600, fixed=1)[1] == 10


def test_each_failure_in_a_row_doubles_the_wait() -> None:
    waits = [LIMITS.after_failure(n, retry_after=None) for n in (1, 2, 3, 10, 10_000)]

    assert waits == [20, 40, 80, 1000, 1000]
    usual = [Intervals().after_failure(n, retry_after=None) for n in (1, 2, 10, 10_000)]
    assert usual == [120, 240, LONGEST_RETRY, LONGEST_RETRY]


def test_an_interval_that_was_set_is_kept_when_looks_fail() -> None:
    waits = [LIMITS.after_failure(n, retry_after=None, fixed=30) for n in (1, 2, 10_000)]

    assert waits == [30, 30, 30]
    assert LIMITS.after_failure(1, retry_after=500, fixed=30) == 500


def test_a_site_that_says_when_to_come_again_is_obeyed_even_beyond_the_longest_interval() -> None:
    assert LIMITS.after_failure(1, retry_after=5000) == 5000
    assert LIMITS.after_failure(1, retry_after=1) == 20
    assert LIMITS.after_failure(1, retry_after=1e12) == LONGEST_RETRY_AFTER


@given(st.floats(min_value=0, max_value=1, exclude_max=True), st.floats(min_value=1, max_value=1e6))
def test_chance_only_ever_adds(chance: float, wait: float) -> None:
    assert wait <= jittered(wait, above=LIMITS.jitter, chance=lambda: chance) <= wait * 1.1 + 1e-6


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"cache-control": "max-age=600"}, 600),
        ({"cache-control": 'public, MAX-AGE="600"'}, 600),
        ({"cache-control": "max-age=0, s-maxage=900"}, 900),
        ({"cache-control": "max-age=600", "age": "200"}, 400),
        ({"cache-control": "max-age=600", "age": "900"}, None),
        ({"cache-control": "max-age=0, must-revalidate"}, None),
        ({"cache-control": "no-cache, max-age=600"}, None),
        ({"cache-control": "no-store"}, None),
        ({"cache-control": "max-age=a lot"}, None),
        ({"cache-control": "max-age=" + "9" * 400}, None),
        ({"cache-control": "max-age=-5"}, None),
        ({"cache-control": "max-age=٣"}, None),
        ({"expires": "Thu, 01 Jan 2026 00:10:00 GMT"}, 600),
        ({"expires": "Thu, 01 Jan 2026 00:10:00 GMT", "date": "Thu, 01 Jan 2026 00:08:00 GMT"}, 120),
        ({"expires": "Thu, 01 Jan 2026 00:10:00 -0000"}, 600),
        ({"expires": "Thu, 01 Jan 1970 00:00:00 GMT"}, None),
        ({"expires": "0"}, None),
        ({"expires": "Thu, 01 Jan 9999999999999 00:10:00 GMT"}, None),
        ({"expires": "x" * 1000}, None),
        ({"cache-control": "max-age=60", "expires": "Thu, 01 Jan 2026 00:10:00 GMT"}, 60),
    ],
)
def test_what_a_site_says_of_its_freshness(headers: dict[str, str], seconds: float | None) -> None:
    assert fresh_for(headers, NOW) == seconds


@given(st.text(max_size=120), st.text(max_size=120), st.text(max_size=120))
def test_no_header_breaks_it(cache_control: str, expires: str, age: str) -> None:
    headers = {"cache-control": cache_control, "expires": expires, "age": age, "date": age}
    seconds = fresh_for(headers, NOW)
    assert seconds is None or seconds > 0
