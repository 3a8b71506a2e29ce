"""When to ask again."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.web.fetch.retries import pause, retry_after

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def test_each_pause_is_longer_up_to_a_limit_and_spread_by_chance() -> None:
    longest = [pause(attempt, chance=lambda: 1.0) for attempt in range(8)]
    shortest = [pause(attempt, chance=lambda: 0.0) for attempt in range(8)]
    assert longest == [0.5, 1, 2, 4, 8, 8, 8, 8]
    assert shortest == [length / 2 for length in longest]


def test_what_the_server_asks_for_is_waited_for_at_least() -> None:
    assert pause(0, 7.0, chance=lambda: 0.0) == 7.0
    assert 7.0 <= pause(0, 7.0) <= 7.5


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("99999999999999999999", 9999999999.0),
        ("Sun, 01 Mar 2026 12:00:30 GMT", 30.0),
        ("Sun, 01 Mar 2026 12:00:30", 30.0),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0.0),
        ("-5", None),
        ("soon", None),
        ("\uff11\uff12", None),
        ("", None),
        (None, None),
        ("Sun, 99 Mar 2026 99:00:30 GMT", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds


@given(st.text(max_size=120))
def test_no_header_breaks_it(value: str) -> None:
    seconds = retry_after(value, datetime.now(UTC))
    assert seconds is None or seconds >= 0
