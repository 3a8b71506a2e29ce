"""The log that a test of the contract runs on."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.bus.buses import BUSES, BusFactory, name_of


@pytest.fixture(params=BUSES, ids=name_of)
async def bus_factory(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[BusFactory]:
    async with request.param.start(tmp_path) as factory:
        yield factory


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a file of a bus may be."""
    return tmp_path / "bus.db"
