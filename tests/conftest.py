"""Shared by every test: its event loop, its signals, and the tests to leave out if a program is missing."""

import atexit
import gc
import logging
import os
import shutil
import signal
import tempfile

import pytest
from hypothesis import HealthCheck, settings

# The time of an example says more about the machine than about the code; `timeout` bounds each test as a whole.
settings.register_profile(
    "tidings",
    max_examples=50,  # a test that must search more thoroughly sets its own number
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("tidings")

PROGRAMS = {"browser": ("chromium-headless-shell", "chromium"), "redis": ("redis-server",)}
"""The programs of which a marker needs one. `make test` installs the first, or fails in CI."""


def pytest_configure(config: pytest.Config) -> None:
    # What programs keep for their user is not kept for whoever runs the tests. Programs that tests start inherit it.
    if "XDG_CACHE_HOME" not in os.environ:
        os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="tidings-tests-")
        atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)
    runs_tests = hasattr(config, "workerinput") or not getattr(config.option, "numprocesses", None)
    if runs_tests:
        # A shell that starts us in the background ignores these signals. The programs that tests start would inherit
        # that, and could not be interrupted.
        for name, handler in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
            number = getattr(signal, name, None)  # Windows has no SIGHUP.
            if number is not None and signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, handler)


def pytest_collection_finish() -> None:
    # Collected tests stay. To look for garbage among them takes a third of a second each time.
    gc.collect()
    gc.freeze()
    # With Python's own thresholds, a twelfth of the time of all tests would be spent on looking for garbage.
    gc.set_threshold(50_000, 20, 20)


def pytest_runtest_setup() -> None:
    # A server that ran in this process before may have changed these, and the next test reads what is logged.
    logging.getLogger().setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for marker, programs in PROGRAMS.items():
        if not any(map(shutil.which, programs)):
            skip = pytest.mark.skip(reason=f"needs {programs[0]}: apt-get install {programs[0]}")
            for item in items:
                if item.get_closest_marker(marker):
                    item.add_marker(skip)
