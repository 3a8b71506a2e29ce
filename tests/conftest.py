"""What every test shares: the event loop it runs on, and what is left out where a program is missing."""

import shutil

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says more about the machine than about the code; `timeout` bounds each test as a whole.
settings.register_profile(
    "tidings",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("tidings")

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
