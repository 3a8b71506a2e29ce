"""The soak run finds what grows, and nothing else: the long runs are `make soak`."""

import random
from pathlib import Path

import pytest

from tests.soak.growth import BOUNDS, Bound, trend
from tests.soak.run import Soak

HOUR = 3600.0


@pytest.mark.parametrize("seed", range(5))
def test_noise_steps_and_sawteeth_are_no_growth(seed: int) -> None:
    dice = random.Random(seed)
    times = [number * 2.0 for number in range(900)]
    warm = [(at, 50 + 30 * min(1.0, at / 600) + dice.gauss(0, 3)) for at in times]
    teeth = [(at, 20 + at % 97 / 5) for at in times]
    spikes = [(at, 100.0 if dice.random() < 0.05 else 10.0) for at in times]
    step = [(at, 30.0 if at > 1500 else 20.0) for at in times]
    for course in (warm, teeth, spikes, step):
        assert not trend("MB", course, BOUNDS["MB"]).grows


@pytest.mark.parametrize(("hours", "per_hour"), [(0.5, 60.0), (4.0, 25.0)])
def test_a_slow_leak_is_found_below_the_noise(hours: float, per_hour: float) -> None:
    dice = random.Random(1)
    count = 300
    times = [number * hours * HOUR / count for number in range(count)]
    found = trend("MB", [(at, 70 + per_hour * at / HOUR + dice.gauss(0, 3)) for at in times], BOUNDS["MB"])
    assert found.grows
    assert found.per_hour == pytest.approx(per_hour, rel=0.2)


def test_a_little_in_a_short_time_is_not_judged_by_the_hour() -> None:
    course = [(float(at), 70 + at / 60) for at in range(60)]  # 60 MB an hour, and half of one in what is judged.
    assert not trend("MB", course, Bound(20, 4)).grows
    assert trend("MB", course, Bound(20, 0.2)).grows


def test_too_few_samples_are_no_verdict() -> None:
    with pytest.raises(ValueError, match="too few"):
        trend("MB", [(1.0, 1.0), (2.0, 1.0)], BOUNDS["MB"])


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_a_server_that_leaks_is_found(tmp_path: Path) -> None:
    outcome = Soak(tmp_path, 20, leak=True).run()
    assert {"server: MB", "server: files", "server: tasks"} <= set(outcome.growing)
    assert set(outcome.found) >= {"server", "clients", "vault", "web", "returning", "inspector", "chatty", "readers"}
    assert not [each for each in outcome.failures if "ended" in each]
