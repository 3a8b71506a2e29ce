"""What every test shares: the event loop it runs on, and what is left out where a program is missing."""

import shutil

import pytest

PROGRAMS = {"browser": "chromium", "redis": "redis-server"}
"""What a marker needs. `make test` installs these, or fails in CI."""


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for marker, program in PROGRAMS.items():
        if shutil.which(program) is None:
            skip = pytest.mark.skip(reason=f"needs {program}: apt-get install {program}")
            for item in items:
                if item.get_closest_marker(marker):
                    item.add_marker(skip)
