"""The server under test as a process of its own."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STOP_SECONDS = 10


@contextmanager
def serving(log: Path) -> Iterator[str]:
    """Start the server on a free port; yields its URL."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        process = _start(listening, log)
    # Our copy of the socket is closed now: should the server die, its clients are refused at once.
    try:
        yield url
        if process.poll() is not None:
            raise RuntimeError(f"the server died ({process.returncode}):\n{log.read_text()[-4_000:]}")
    finally:
        _stop(process)


def _start(listening: socket.socket, log: Path) -> subprocess.Popen[bytes]:
    number = listening.fileno()
    command = [sys.executable, "-m", "tests.conformance.server", str(number)]
    with log.open("wb") as output:
        return subprocess.Popen(command, cwd=ROOT, pass_fds=[number], stdout=output, stderr=output)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_SECONDS)
