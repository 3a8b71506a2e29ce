"""Two clients side by side are only worth measuring if both got what they asked for."""

import asyncio
import json

import pytest

from benchmarks import caller, client
from benchmarks.crowd import largest_clump
from benchmarks.pair import ratios
from benchmarks.report import TIMES

TINY = ["--quick", "--pairs", "2", "--resources", "5"]


def rows_of(tmp_path, *parts: str) -> tuple[int, list[dict]]:
    file = tmp_path / "rows.json"
    only = [word for part in parts for word in ("--only", part)]
    code = client.main([*TINY, *only, "--json", str(file)])
    return code, json.loads(file.read_text())


@pytest.mark.thorough
def test_a_request_is_measured_on_each_transport_and_in_both_eras(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    code, rows = rows_of(tmp_path, "calls")
    assert code in {0, 1}
    assert [row["what"] for row in rows] == [
        f"CPU µs a tool call, {transport}, {era} era" for transport in ("HTTP", "stdio") for era in ("modern", "old")
    ]
    for row in rows:
        assert row["sdk"] > 0
        assert row["tidings"] > 0
        assert row["value"] > 0
    table = capsys.readouterr().out
    assert f"≤ 1.15{TIMES}" in table
    assert "bare sockets" not in table  # Nobody has a floor here.


@pytest.mark.thorough
def test_many_watched_resources_take_one_stream(tmp_path) -> None:
    code, (hit, streams, update) = rows_of(tmp_path, "cache", "watch")
    assert code in {0, 1}
    assert hit["tidings"] > 0
    assert streams["tidings"] == 1
    assert streams["met"]
    assert update["sdk"] > 0
    assert update["tidings"] > 0


@pytest.mark.thorough
def test_after_a_kill_one_of_the_two_clients_comes_back(tmp_path) -> None:
    code, (comeback,) = rows_of(tmp_path, "comeback")
    assert code == 0
    assert comeback["tidings"] >= 0
    assert comeback["sdk"] == "does not come back"
    assert comeback["note"].endswith("SDK: SubscriptionLost")


@pytest.mark.thorough
def test_a_crowd_that_loses_its_server_comes_back(tmp_path) -> None:
    code, (clump, seconds) = rows_of(tmp_path, "herd")
    assert code in {0, 1}  # Few clients may well clump.
    assert 1 <= clump["tidings"] <= 5
    assert 0 < seconds["tidings"] < 60
    assert seconds["others"]["without pauses"] > 0


def test_the_largest_clump_of_attempts_is_found_wherever_it_lies() -> None:
    assert largest_clump([]) == 0
    assert largest_clump([3.0, 1.0, 1.2, 1.24, 1.26, 2.0]) == 3


def test_a_wrong_answer_fails_the_run() -> None:
    async def off_by_one(number: int) -> int:
        return number + 1

    with pytest.raises(ValueError, match="the answer is 1, not 0"):
        asyncio.run(caller.cost(off_by_one, 3, lambda number: number))


def test_neighbours_are_compared_whatever_the_pace_of_the_machine() -> None:
    assert ratios([11, 110, 1100, 12], [10, 100, 1000, 10])[0] == pytest.approx(1.1)
