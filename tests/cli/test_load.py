"""`tidings load`: how quickly a tool answers, and how it fails."""

import pytest

from tests.cli.running import odd, tidings
from tidings.cli.oneshot import OneShotOptions
from tidings.cli.tools import Load
from tidings.client.servers_file import ServersFileEntry


def test_so_many_calls_are_made_and_measured() -> None:
    said = tidings("load", odd(), "add", "a=1", "b=2", "--requests", "50", "--concurrency", "4", "--json").json
    assert (said["calls"], said["concurrency"], said["errors"]) == (50, 4, {})
    assert said["perSecond"] > 0
    assert list(said["ms"]) == ["fastest", "p50", "p90", "p95", "p99", "slowest"]
    assert sorted(said["ms"].values()) == list(said["ms"].values())


def test_it_may_go_on_for_a_time() -> None:
    done = tidings("load", odd(), "say", "--seconds", "0.2")
    assert done.code == 0
    assert "per second" in done.out
    assert "p99" in done.out


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("break", "--requests", "3"), 1, "3 failed with tool-failed"),
        (("ad",), 2, "Did you mean 'add'"),
        (("add", "a=1"), 2, "b: "),
        (("add", "--requests", "0"), 2, "--requests"),
        (("add", "--requests", "1", "--seconds", "1"), 2, "--requests and --seconds exclude each other"),
    ],
)
def test_what_goes_wrong_is_counted_by_kind(args: tuple[str, ...], code: int, words: str) -> None:
    done = tidings("load", odd(), *args)
    assert done.code == code
    assert words in done.out + done.err


def test_a_server_that_dies_ends_it() -> None:
    done = tidings("load", odd(), "die", "--requests", "10", "--concurrency", "2", "--json")
    assert done.code == 3
    assert 1 <= sum(done.json["errors"].values()) == done.json["calls"] <= 2


@pytest.mark.parametrize(
    ("number", "p50", "p90", "p99"), [(1, 1, 1, 1), (2, 1, 2, 2), (4, 2, 4, 4), (10, 5, 9, 10), (100, 50, 90, 99)]
)
def test_a_percentile_is_the_time_within_which_so_many_of_a_hundred_were_done(
    number: int, p50: int, p90: int, p99: int
) -> None:
    load = Load(OneShotOptions(ServersFileEntry("x")), "tool", 1, number, None)
    load.times = [n / 1000 for n in range(number, 0, -1)]
    ms = load.figures()["ms"]
    assert (ms["fastest"], ms["p50"], ms["p90"], ms["p99"], ms["slowest"]) == (1, p50, p90, p99, number)
