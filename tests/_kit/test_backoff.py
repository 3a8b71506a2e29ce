"""Pauses between attempts: their lengths, their jitter, and what a server asks for."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings._kit.backoff import Backoff, Pauses, doubling, jittered, retry_after

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def test_the_last_delay_repeats_and_no_attempt_comes_before_the_first() -> None:
    backoff = Backoff((0.5, 2.0, 10.0))
    assert [backoff.delay(attempt) for attempt in (-1, 0, 1, 2, 3, 1000)] == [0.5, 0.5, 2.0, 10.0, 10.0, 10.0]


@given(st.integers(0, 10), st.floats(0, 0.99), st.floats(0, 1))
def test_a_pause_is_around_its_delay_by_the_jitter(attempt: int, jitter: float, chance: float) -> None:
    backoff = Backoff((1.0, 4.0), jitter=jitter)
    delay = backoff.delay(attempt)
    assert delay * (1 - jitter) <= backoff.pause(attempt, lambda: chance) <= delay * (1 + jitter) * (1 + 1e-12)


def test_the_jitter_reaches_both_of_its_ends() -> None:
    assert Backoff((10.0,), jitter=0.2).pause(0, lambda: 0.0) == 8.0
    assert Backoff((10.0,), jitter=0.2).pause(0, lambda: 1.0) == 12.0
    assert (jittered(8.0, below=0.5, chance=lambda: 0.0), jittered(8.0, below=0.5, chance=lambda: 1.0)) == (4.0, 8.0)
    assert (jittered(8.0, above=0.5, chance=lambda: 0.0), jittered(8.0, above=0.5, chance=lambda: 1.0)) == (8.0, 12.0)


def test_pauses_differ_from_each_other_by_chance() -> None:
    assert len({Backoff().pause(0) for _ in range(20)}) > 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"delays": ()},
        {"delays": (1.0, -1.0)},
        {"delays": (True,)},
        {"delays": ("1",)},
        {"jitter": 1.1},
        {"lost_tries": -1},
        {"jitter": -0.1},
        {"tries": -1},
        {"tries": True},
    ],
)
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Backoff needs"):
        Backoff(**wrong)


def test_delays_double_up_to_the_longest() -> None:
    assert doubling(0.5, 8.0) == (0.5, 1.0, 2.0, 4.0, 8.0)
    assert doubling(0.02, 0.05) == (0.02, 0.04, 0.05)
    assert doubling(1.0, 1.0) == (1.0,)
    with pytest.raises(ValueError, match="0 < first <= longest"):
        doubling(0.0, 1.0)


def test_the_pauses_of_a_loop_grow_until_it_succeeds() -> None:
    pauses = Pauses(doubling(1.0, 4.0), below=0.5)
    found = [pauses.next() for _ in range(4)]
    assert all(delay / 2 <= pause <= delay for pause, delay in zip(found, (1.0, 2.0, 4.0, 4.0), strict=True))
    pauses.reset()
    assert pauses.next() <= 1.0


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
