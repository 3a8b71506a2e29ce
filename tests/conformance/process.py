"""The server under test, and the clients, as processes of their own."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STOP_SECONDS = 10


@contextmanager
def serving(log: Path, http: str, *bus: str) -> Iterator[str]:
    """Start the server on a free port, and on the `bus` with this URL if there is one; yields its own URL."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        process = _start("server", listening, log, http, *bus)
    # Our copy of the socket is closed now: should the server die, its clients are refused at once.
    with _watched(process, log):
        yield url


@contextmanager
def nursing(folder: Path) -> Iterator[str]:
    """Start the nursery of clients; yields the command that the suite is to run as its client."""
    address, log = folder / "nursery", folder / "nursery.log"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(address))
        listening.listen(128)
        process = _start("nursery", listening, log)
    with _watched(process, log):
        yield f"{sys.executable} -IS {Path(__file__).with_name('relay.py')} {address}"


def _start(program: str, listening: socket.socket, log: Path, *options: str) -> subprocess.Popen[bytes]:
    number = listening.fileno()
    command = [sys.executable, "-m", f"tests.conformance.{program}", str(number), *options]
    with log.open("wb") as output:
        return subprocess.Popen(command, cwd=ROOT, pass_fds=[number], stdout=output, stderr=output)


@contextmanager
def _watched(process: subprocess.Popen[bytes], log: Path) -> Iterator[None]:
    try:
        yield
        if process.poll() is not None:
            raise RuntimeError(f"{process.args} died ({process.returncode}):\n{log.read_text()[-4_000:]}")
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_SECONDS)
