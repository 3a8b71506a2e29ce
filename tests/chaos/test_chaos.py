"""A short chaos run on each engine, one of them in `make test`: the long ones are `make chaos`."""

from pathlib import Path

import pytest

from tests.chaos.run import run
from tests.chaos.world import Plan

ENGINES = [
    "nats",
    pytest.param("sqlite", marks=pytest.mark.thorough),
    pytest.param("redis", marks=[pytest.mark.redis, pytest.mark.thorough]),
]


@pytest.mark.anyio
@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", ENGINES)
async def test_after_the_chaos_every_copy_of_every_client_equals_the_truth(engine: str, tmp_path: Path) -> None:
    stale, told, _ = await run(Plan(seed=1, engine=engine, seconds=3, clients=12, processes=4), tmp_path)
    assert stale == {}, told.deeds
    assert told.published
    assert told.deeds


@pytest.mark.thorough
@pytest.mark.anyio
@pytest.mark.timeout(300)
async def test_the_stock_sdk_is_left_stale_by_the_same_run(tmp_path: Path) -> None:
    """So the run is hard enough: whoever survives it does so by what it does, not by luck."""
    for seed in range(1, 6):  # With luck, nobody is listening when the faults come; but not again and again.
        folder = tmp_path / str(seed)
        folder.mkdir()
        stale, _, _ = await run(Plan(seed=seed, seconds=3, clients=12, processes=4, stock=True), folder)
        if stale:
            return
    pytest.fail("The stock SDK survived five runs")
