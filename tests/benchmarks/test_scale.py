"""A bus is only worth measuring if everything that was published arrived. No figure is asserted: machines differ."""

import json
from pathlib import Path

import pytest

from benchmarks import engines, scale, sizing
from benchmarks.ground import Ground, ScaleSize
from benchmarks.report import Row, table
from benchmarks.sizing import Costs, Load, Machine, TooMany

TINY = ScaleSize(
    samples=5,
    uris=10,
    updates=40,
    publishers=4,
    repetitions=2,
    servers=(1, 2),
    streams=2,
    changes=3,
    turns=2,
    paced=10,
    weighed=5,
)
each_bus = pytest.mark.parametrize("bus", ["memory", "sqlite", "nats", pytest.param("redis", marks=pytest.mark.redis)])


def rows_of(tmp_path: Path, bus: str, *parts: str) -> list[dict]:
    file = tmp_path / "rows.json"
    only = [word for part in parts for word in ("--only", part)]
    code = scale.main(["--bus", bus, *only, "--json", str(file)], TINY)
    assert code in {0, 1}
    return json.loads(file.read_text())


@pytest.mark.thorough
@each_bus
def test_each_bus_is_timed_filled_and_caught_up_with(tmp_path: Path, bus: str) -> None:
    rows = rows_of(tmp_path, bus, "latency", "publishes")
    assert {row["part"] for row in rows} == {"latency", "publishes", "catch-up"}
    for row in rows:
        assert bus in row["what"]
        assert row["tidings"] > 0
    judged = {row["part"] for row in rows if row["target"]}
    assert judged == {"memory": set(), "sqlite": {"latency"}}.get(bus, {"latency", "catch-up"})


@pytest.mark.thorough
@pytest.mark.timeout(180)
@pytest.mark.parametrize("bus", ["memory", "nats"])
def test_servers_on_one_bus_deliver_to_every_stream(tmp_path: Path, bus: str) -> None:
    rows = rows_of(tmp_path, bus, "servers")
    delivered = [row for row in rows if row["what"].startswith("deliveries a second")]
    assert [int(row["what"].split(", ")[2].split()[0]) for row in delivered] == ([1] if bus == "memory" else [1, 2])
    assert all(row["tidings"] > 0 for row in delivered)


@pytest.mark.thorough
@pytest.mark.timeout(180)
def test_the_model_is_held_against_a_point_that_it_was_not_fitted_to(tmp_path: Path) -> None:
    *costs, check, broker = rows_of(tmp_path, "nats", "model")
    assert len(costs) == 3
    assert check["what"].startswith("CPU ms a turn, nats, 4 servers")
    assert "the model says" in check["note"]
    assert broker["what"].startswith("CPU µs of the broker")
    weights = rows_of(tmp_path, "memory", "model")
    assert [row["what"].split()[0] for row in weights] == ["MB", "KB", "CPU"]


def test_a_change_that_does_not_arrive_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(ground: Ground) -> list[Row]:
        raise scale.DeliveryLost(f"{ground.engine.name} lost it")

    monkeypatch.setitem(scale.PARTS, "latency", lose)
    assert scale.main(["--bus", "memory", "--only", "latency"], TINY) == 2


def test_an_engine_that_is_not_installed_is_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engines, "program", lambda name: None)
    assert scale.main(["--bus", "redis", "--only", "latency"], TINY) == 0
    assert "redis is left out: redis-server is not installed" in capsys.readouterr().err


def test_a_table_has_no_column_for_a_peer_that_nobody_has() -> None:
    assert "SDK" not in table([Row("part", "what", tidings=1)])
    assert "SDK" in table([Row("part", "what", tidings=1), Row("part", "other", sdk=2)])


COSTS = Costs(publish=50, hear=20, deliver=10)


def test_the_costs_are_found_again_in_what_they_cause() -> None:
    def seconds(*, publishes: bool, streams: int) -> float:
        return 100 * (COSTS.publish * publishes + COSTS.hear + streams * COSTS.deliver) / 1e6

    fitted = sizing.fit(
        publisher=seconds(publishes=True, streams=1),
        hearer=seconds(publishes=False, streams=1),
        alone=seconds(publishes=True, streams=80),
        changes=100,
        streams=80,
    )
    assert (fitted.publish, fitted.hear, fitted.deliver) == pytest.approx((50, 20, 10))
    assert sizing.cpu(COSTS, servers=4, streams=50, changes=100) == pytest.approx(0.213)


def test_processes_are_as_many_as_the_streams_or_the_deliveries_need() -> None:
    machine = Machine(COSTS, stream_kb=50, process_mb=100, bus_publishes=1_000, streams=10_000, opening=1_000)
    calm = sizing.plan(Load(subscribers=1_000_000, changes=1, interested=10), machine)
    assert (calm.processes, calm.bound_by) == (100, "streams")
    assert calm.memory_gb == pytest.approx(60)
    assert calm.comeback == pytest.approx(10 / 99)
    busy = sizing.plan(Load(subscribers=10_000, changes=100, interested=10_000), machine)
    assert busy.bound_by == "CPU"
    assert busy.cores / busy.processes <= 0.5
    with pytest.raises(TooMany, match="to hear of 30000 changes a second takes 60% of a core"):
        sizing.plan(Load(subscribers=1, changes=30_000, interested=1), machine)


def test_the_model_answers_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert sizing.main(["--subscribers", "1000000"]) == 0
    assert "processes (for their" in capsys.readouterr().out
    assert sizing.main(["--changes", "1000000"]) == 1
    assert "a bus of its own" in capsys.readouterr().out
