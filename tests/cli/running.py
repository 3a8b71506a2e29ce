"""`tidings` run as a user runs it: a process of its own, with pipes or in a terminal."""

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests import forking
from tests.forking import PIPE, Forked
from tests.ports import free_port

HERE = Path(__file__).parent
PROGRAM = [sys.executable, "-m", "tidings"]
WITHIN = 60.0


def odd(*behaviour: str) -> str:
    """The target that is the odd server with this behaviour."""
    return " ".join([sys.executable, str(HERE / "odd.py"), *behaviour])


WEATHER = f"{sys.executable} {HERE / 'weather.py'}"


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> Any:
        return json.loads(self.err.splitlines()[-1])["error"]


_NOWHERE = f"{os.devnull}/nowhere"
"""A folder that not even root can make."""


def environment(**more: str) -> dict[str, str]:
    """Nothing of the user's: no catalog, no cache, no token."""
    hidden = ("TIDINGS_", "XDG_", "NO_COLOR", "_TIDINGS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return {**kept, "XDG_CONFIG_HOME": _NOWHERE, "XDG_CACHE_HOME": _NOWHERE, **more}


def tidings(*args: str, given: str | None = None, cwd: Path | None = None, **env: str) -> Done:
    """Run a command to its end."""
    run = forking.run("-m", "tidings", *args, given=given, cwd=cwd, env=environment(**env), timeout=WITHIN)
    assert "Traceback" not in run.stderr, run.stderr
    return Done(run.returncode, run.stdout, run.stderr)


@contextlib.contextmanager
def started(*args: str, **env: str) -> Generator[Forked]:
    """A command that runs meanwhile."""
    process = Forked("-m", "tidings", *args, stdout=PIPE, stderr=PIPE, env=environment(**env))
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.stop()


def line_of(process: Forked, stream: str = "stdout") -> str:
    """The next line that a running command prints."""
    pipe, line = getattr(process, stream).fileno(), b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([pipe], [], [], WITHIN)
        assert ready, f"nothing came within {WITHIN} s after {line!r}"
        data = os.read(pipe, 1)
        assert data, f"it ended after {line!r}"
        line += data
    return line.decode()


@contextlib.contextmanager
def serving(port: int, *more: str) -> Generator[int]:
    """The weather server over HTTP; yields the number of its process."""
    process = Forked(str(HERE / "weather.py"), str(port), *more)
    try:
        until(lambda: listens(port) or process.poll() is not None)
        assert process.poll() is None
        yield process.pid
    finally:
        process.stop()


def listens(port: int) -> bool:
    import socket

    with contextlib.closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(condition: Any, within: float = WITHIN) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not so within {within} s"
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@dataclass
class Terminal:
    """A command in a terminal of its own."""

    process: Forked
    master: int
    seen: str = ""

    def expect(self, text: str) -> str:
        """Wait until this is on the screen; returns all up to there, and forgets it."""
        deadline = time.monotonic() + WITHIN
        while text not in self.seen:
            ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} is not in {self.seen!r}"
            self.seen += self._read()
        before, self.seen = (
            self.seen[: self.seen.index(text) + len(text)],
            self.seen[self.seen.index(text) + len(text) :],
        )
        return before

    def _read(self) -> str:
        try:
            data = os.read(self.master, 65536)
        except OSError:  # So Linux says that nobody is at the other end.
            data = b""
        assert data, f"it ended after {self.seen!r}"
        return data.decode(errors="replace")

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def end(self) -> tuple[int, str]:
        """Wait for its end: its exit code, and what was on the screen."""
        deadline = time.monotonic() + WITHIN
        while time.monotonic() < deadline:
            ready, _, _ = select.select([self.master], [], [], 0.1)
            if not ready and self.process.poll() is not None:
                break
            if ready:
                try:
                    data = os.read(self.master, 65536)
                except OSError:
                    break
                self.seen += data.decode(errors="replace")
        return self.process.wait(10), self.seen


@contextlib.contextmanager
def terminal(*args: str, columns: int = 80, cwd: Path | None = None, **env: str) -> Generator[Terminal]:
    """A command whose input and output are a terminal."""
    master, slave = pty.openpty()
    process = Forked(
        "-m",
        "tidings",
        *args,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        cwd=cwd,
        env=environment(TERM="xterm", COLUMNS=str(columns), **env),
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.stop()
        os.close(master)


__all__ = ["WEATHER", "Done", "Terminal", "free_port", "is_gone", "line_of", "odd", "serving", "started", "terminal"]
