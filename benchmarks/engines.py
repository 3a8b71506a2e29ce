"""What carries changes between processes: each engine with a broker of its own, on a free port, in a folder of its own.

NATS keeps its own settings (it syncs to its disk every two minutes). Redis has an append-only file that it syncs every
second, or, where that is asked for, before it answers a write (`appendfsync always`).
"""

import ctypes
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.process import ProcessFailed


@dataclass(frozen=True)
class Engine:
    """A bus that is there to be measured."""

    name: str
    url: str
    broker: int | None = None
    """The process id of its broker."""

    @property
    def shared(self) -> bool:
        """Whether more than one process can use it."""
        return self.name != "memory"

    def broker_cpu(self) -> float:
        """Seconds of CPU that the broker has used so far."""
        if self.broker is None:
            return 0.0
        used = psutil.Process(self.broker).cpu_times()
        return used.user + used.system


Command = Callable[[Path, int, bool], list[str | Path]]


def _nats(folder: Path, port: int, _: bool) -> list[str | Path]:
    return [program("nats") or "", "--addr", "127.0.0.1", "--port", str(port), "--jetstream", "--store_dir", folder]


def _redis(folder: Path, port: int, always: bool) -> list[str | Path]:
    kept = ["--appendonly", "yes", "--appendfsync", "always" if always else "everysec", "--save", ""]
    return [program("redis") or "", "--bind", "127.0.0.1", "--port", str(port), "--dir", folder, *kept]


BROKERS: dict[str, Command] = {"nats": _nats, "redis": _redis}
ENGINES = ("memory", "sqlite", *BROKERS)


def program(name: str) -> str | None:
    """The broker's program, from the environment that runs this or from the system."""
    own = Path(sysconfig.get_path("scripts")) / f"{name}-server"
    return str(own) if own.exists() else shutil.which(f"{name}-server")


def missing(name: str) -> str:
    """Why this engine cannot be measured here; nothing if it can."""
    return f"{name}-server is not installed" if name in BROKERS and program(name) is None else ""


@contextmanager
def running(name: str, *, always: bool = False) -> Generator[Engine]:
    """The engine, ready for use; its broker ends with the block. `always`: a Redis syncs each write."""
    with tempfile.TemporaryDirectory(prefix="tidings-bench-", ignore_cleanup_errors=True) as folder:
        match name:
            case "memory":
                yield Engine(name, "memory:")
            case "sqlite":
                yield Engine(name, f"sqlite://{folder}/bus.db")
            case _:
                with _broker(name, Path(folder), always) as (port, process):
                    yield Engine(name, f"{name}://127.0.0.1:{port}", process.pid)


@contextmanager
def _broker(name: str, folder: Path, always: bool) -> Generator[tuple[int, "subprocess.Popen[bytes]"]]:
    port = _free_port()
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            BROKERS[name](folder, port, always),
            stdout=out,
            stderr=out,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - one system call, which needs no lock
        )
    try:
        _wait(process, port, log)
        yield port, process
    finally:
        process.kill()
        process.wait()


def _wait(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + 20
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.01)
        else:
            return
    raise ProcessFailed(f"{process.args} does not run: {log.read_text(errors='replace')[-500:]}")


def sync_ms(folder: Path) -> float:
    """Milliseconds that this disk takes to sync a small write, in the median: no broker can be quicker than that."""
    took: list[float] = []
    with (folder / "sync").open("wb", buffering=0) as file:
        for _ in range(50):
            start = time.monotonic()
            file.write(b"x" * 200)
            os.fsync(file.fileno())
            took.append((time.monotonic() - start) * 1000)
    return statistics.median(took)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _end_with_parent() -> None:
    """However a measurement ends, its brokers do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
