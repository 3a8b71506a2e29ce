"""Runs the programs in `examples/` in processes of their own, as people do."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.ports import free_port
from tidings.client import Backoff, ClientConfig

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENT = ClientConfig(backoff=Backoff(delays=(0.1, 0.2), tries=None))


def run(name: str, *args: str, timeout: float = 100) -> subprocess.CompletedProcess[str]:
    """An example that ends by itself."""
    command = [sys.executable, EXAMPLES / name, *args]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL
    )


@contextmanager
def served(name: str, log: Path) -> Generator[str]:
    """An example that serves, at this URL; it has to end in good order when it is asked to."""
    port = free_port()
    with log.open("wb") as output:
        server = subprocess.Popen([sys.executable, EXAMPLES / name, str(port)], stdout=output, stderr=output)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
        server.terminate()
        server.wait(10)
    finally:
        server.kill()
        server.wait()
    assert "Traceback" not in log.read_text()


def tidings(*args: str) -> str:
    """What a command of Tidings prints."""
    command = [sys.executable, "-m", "tidings", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
