"""Runs the programs in `examples/` in processes of their own, as people do."""

import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests import forking
from tests.ports import free_port
from tidings.client import Backoff, ClientConfig

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENT = ClientConfig(backoff=Backoff(delays=(0.1, 0.2), tries=None))


def run(name: str, *args: str, timeout: float = 100) -> "subprocess.CompletedProcess[str]":
    """An example that ends by itself."""
    return forking.run(str(EXAMPLES / name), *args, timeout=timeout)


@contextmanager
def served(name: str, log: Path) -> Generator[str]:
    """An example that serves, at this URL; it has to end in good order when it is asked to."""
    port = free_port()
    with log.open("wb") as output:
        server = forking.Forked(str(EXAMPLES / name), str(port), stdout=output.fileno(), stderr=output.fileno())
    try:
        yield f"http://127.0.0.1:{port}/mcp"
        server.send_signal(signal.SIGTERM)
        server.wait(10)
    finally:
        server.stop()
    assert "Traceback" not in log.read_text()


def tidings(*args: str) -> str:
    """What a command of Tidings prints."""
    done = forking.run("-m", "tidings", *args)
    done.check_returncode()
    return done.stdout
