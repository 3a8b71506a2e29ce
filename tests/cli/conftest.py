"""Fixtures of the tests of commands: the log is restored after a command that ran in this process."""

import logging
from collections.abc import Generator

import pytest

from tests.cli.running import free_port, serving


@pytest.fixture(autouse=True)
def log_as_it_was() -> Generator[None]:
    root, ours = logging.getLogger(), logging.getLogger("tidings")
    handlers, levels = set(root.handlers), (root.level, ours.level)
    yield
    for handler in [each for each in root.handlers if type(each) is logging.StreamHandler and each not in handlers]:
        root.removeHandler(handler)
    root.setLevel(levels[0])
    ours.setLevel(levels[1])
    logging.captureWarnings(capture=False)


@pytest.fixture(scope="module")
def weather() -> Generator[str]:
    """The URL of the weather server: one process for all tests of a file."""
    port = free_port()
    with serving(port):
        yield f"http://127.0.0.1:{port}/mcp"
