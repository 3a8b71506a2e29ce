"""What every test shares: the event loop it runs on, and what is left out where a program is missing."""

import gc
import os
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest
from coverage import Coverage
from hypothesis import HealthCheck, settings

# How long an example takes says more about the machine than about the code; `timeout` bounds each test as a whole.
settings.register_profile(
    "tidings",
    max_examples=50,  # of each; what must be searched more thoroughly says so itself
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("tidings")

PROGRAMS = {"browser": "chromium", "redis": "redis-server"}
"""What a marker needs. `make test` installs these, or fails in CI."""

HERE = Path(__file__).parent
_NAMES = """
    benchmarks browser chaos conformance examples test_docs.py bus/test_contract_shared.py bus/test_model.py
    cli/test_everything.py client/test_bad_messages.py client/test_bad_streams.py client/test_busy.py
    client/test_contract.py client/test_killed.py client/test_killed_noticed.py client/test_live_gap.py
    client/test_live_repeats.py client/test_live_storm.py client/test_states.py client/test_tap.py
    inspector/test_killed.py inspector/tui/test_flood.py server/test_contract.py server/test_faults.py
    vault/test_random_walk.py vault/notes/test_notes_hostile.py web/extract/test_bombs.py
    web/documents/test_compact.py web/store/test_diffs.py
"""
UNMEASURED = tuple(HERE / name for name in _NAMES.split())
"""Where what other tests run too is run much: to measure it once more takes as long again."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    measuring = Coverage.current()
    if measuring is None or not any(item.path.is_relative_to(folder) for folder in UNMEASURED):
        return (yield)
    # The programs that a test starts are measured by what is in the environment.
    names = [name for name in os.environ if name.startswith("COVERAGE_PROCESS")]
    kept = {name: os.environ.pop(name) for name in names}
    measuring.stop()
    try:
        return (yield)
    finally:
        measuring.start()
        os.environ.update(kept)


def pytest_collection_finish() -> None:
    """What was collected stays: to look for garbage in it takes a third of a second, and is done often."""
    gc.collect()
    gc.freeze()


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
