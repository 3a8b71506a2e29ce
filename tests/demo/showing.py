"""`tidings demo` as a process of its own, with a temporary folder and a home in which it can be seen what it leaves."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import psutil

WITHIN = 60.0
COMMAND = [sys.executable, "-m", "tidings", "demo", "--no-browser", "--port", "0"]


def environment(folder: Path) -> dict[str, str]:
    """Everything that can be written is below `folder`."""
    for name in ("tmp", "home"):
        (folder / name).mkdir(exist_ok=True)
    hidden = ("TIDINGS_", "XDG_", "DISPLAY", "WAYLAND", "BROWSER")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return {**kept, "TMPDIR": str(folder / "tmp"), "HOME": str(folder / "home")}


@dataclass
class Shown:
    """A demo that runs."""

    process: subprocess.Popen[bytes]
    folder: Path
    master: int | None = None
    lines: list[str] = field(default_factory=list[str])

    def expect(self, pattern: str) -> re.Match[str]:
        """Wait until a line has this."""
        found: re.Match[str] | None = None

        def said() -> bool:
            nonlocal found
            found = next((match for line in list(self.lines) if (match := re.search(pattern, line))), None)
            return found is not None

        until(said, lambda: f"{pattern!r} is not in {self.lines}")
        assert found is not None
        return found

    @property
    def vault(self) -> psutil.Process:
        """The vault's server."""
        (found,) = [each for each in self.processes() if "vault" in each.cmdline() and "--http" in each.cmdline()]
        return found

    @property
    def plan(self) -> Path:
        (found,) = (self.folder / "tmp").glob("tidings-demo-*/Bakery/Projects/Launch plan.md")
        return found

    def processes(self) -> list[psutil.Process]:
        """All that it started, and what those did."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def left(self) -> list[str]:
        """Files that it wrote and did not remove."""
        return [str(path) for name in ("tmp", "home") for path in (self.folder / name).rglob("*")]


def until(condition: Callable[[], bool], words: Callable[[], str] = lambda: "") -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < deadline, f"not so within {WITHIN} s: {words()}"
        time.sleep(0.02)


def are_gone(processes: list[psutil.Process]) -> bool:
    return not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in processes)


@contextlib.contextmanager
def shown(folder: Path, *arguments: str, typed: bool = False) -> Generator[Shown]:
    """A demo; in a terminal if somebody is to type."""
    master, slave = pty.openpty() if typed else (None, subprocess.DEVNULL)
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(folder),
        start_new_session=True,
    )
    if typed:
        os.close(slave)
    demo = Shown(process, folder, master)
    reading = Thread(target=_read, args=(demo,), daemon=True)
    reading.start()
    try:
        yield demo
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reading.join(10)
        assert process.stdout is not None
        process.stdout.close()
        if master is not None:
            os.close(master)


def _read(demo: Shown) -> None:
    assert demo.process.stdout is not None
    for line in demo.process.stdout:
        demo.lines.append(line.decode().rstrip())
