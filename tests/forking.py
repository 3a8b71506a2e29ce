"""Python programs that start at once: a process that has the SDK imported forks them.

To import the SDK takes most of a second, which each `python …` spends anew. `Forked("-m", "tidings", …)` runs the same
program in a process of its own. Nothing of Tidings is imported beforehand: a program that lacks an import still fails.
`command("-m", "tidings", …)` is a command line that does the same for whoever starts programs: a client, the inspector.
Where the start itself is tried, or what is imported, or where a process is killed, a test starts Python.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any

DEVNULL, PIPE = subprocess.DEVNULL, subprocess.PIPE
NUMBER = struct.Struct("i")


class Forked:
    """A program that runs. Its words are those after `python`; the rest is what tests use of `subprocess.Popen`."""

    def __init__(
        self,
        *words: str,
        stdin: int = DEVNULL,
        stdout: int = DEVNULL,
        stderr: int = DEVNULL,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        start_new_session: bool = False,
    ) -> None:
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        self.returncode: int | None = None
        self._news, theirs = socket.socketpair()
        order = {
            "words": words,
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ) if env is None else env,
            "session": start_new_session,
        }
        with contextlib.ExitStack() as given:
            given.enter_context(theirs)
            nowhere = given.enter_context(open(os.devnull, "r+b")).fileno()  # noqa: PTH123 - not a file
            outputs = [given.enter_context(_pipe()) if each == PIPE else (None, each) for each in (stdout, stderr)]
            streams = [nowhere if each == DEVNULL else each for each in (stdin, *(end for _, end in outputs))]
            self.stdout, self.stderr = (reading for reading, _ in outputs)
            with _one_at_a_time:
                _ask(order, [theirs.fileno(), *streams])
                self.pid = self._number(60)

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float) -> int:
        """Wait for its end: its exit code, negative if a signal ended it."""
        if self.returncode is None:
            self.returncode = self._number(timeout)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def stop(self) -> None:
        """Kill it if it still runs, and let go of its pipes."""
        self.send_signal(signal.SIGKILL)
        self.wait(20)
        for each in (self._news, self.stdout, self.stderr):
            if each is not None:
                each.close()

    def _number(self, timeout: float) -> int:
        self._news.settimeout(timeout)
        try:
            told = self._news.recv(NUMBER.size)
        except (TimeoutError, BlockingIOError):
            raise subprocess.TimeoutExpired("a forked program", timeout) from None
        assert told, "the process that forks is gone"
        return NUMBER.unpack(told)[0]


def run(
    *words: str,
    given: str | None = None,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    timeout: float = 60,
) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end, as `subprocess.run` does; `given` is its input."""
    with contextlib.ExitStack() as files:
        stdin, out, err = (files.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8")) for _ in range(3))
        stdin.write(given or "")
        stdin.seek(0)
        process = Forked(
            *words,
            stdin=DEVNULL if given is None else stdin.fileno(),
            stdout=out.fileno(),
            stderr=err.fileno(),
            cwd=cwd,
            env=env,
        )
        try:
            code = process.wait(timeout)
        finally:
            process.stop()
        for each in (out, err):
            each.seek(0)
        return subprocess.CompletedProcess(words, code, out.read(), err.read())


def command(*words: str) -> list[str]:
    """The command line of a program that starts at once, in place of `python` and these words."""
    return [sys.executable, "-I", "-S", str(Path(__file__).with_name("forked.py")), _forker()[1], *words]


@contextlib.contextmanager
def _pipe() -> Any:
    """What is read from, which stays open, and the descriptor that is written to."""
    reading, writing = os.pipe()
    try:
        yield os.fdopen(reading, encoding="utf-8"), writing
    finally:
        os.close(writing)


_one_at_a_time = threading.Lock()


def _ask(order: dict[str, Any], descriptors: list[int]) -> None:
    control, _ = _forker()
    socket.send_fds(control, [b"\n"], descriptors)
    control.sendall(json.dumps(order).encode() + b"\n")


@functools.cache
def _forker() -> tuple[socket.socket, str]:
    """Where the process that forks takes orders: of this process, with which it ends, and of `forked.py`."""
    ours, theirs = socket.socketpair()
    address = str(Path(tempfile.mkdtemp(prefix="tidings-fork-"), "orders"))
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS")}
    with theirs:
        command = [sys.executable, "-P", __file__, str(theirs.fileno()), address]
        # In a session of its own, Ctrl-C is for the tests alone, which then stop what they started.
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=env, start_new_session=True)

    def end() -> None:
        ours.close()
        process.wait(20)
        shutil.rmtree(Path(address).parent)

    atexit.register(end)
    while not Path(address).exists():  # It is bound before anything is imported.
        assert process.poll() is None, "the process that forks did not start"
        time.sleep(0.005)
    return ours, address


def _serve(control: socket.socket, listener: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork for each order, until there are no more. Returns in the child: what it has to be, and its streams."""
    with control, listener:
        while True:
            ready, _, _ = select.select([control, listener], [], [])
            source = control if control in ready else listener.accept()[0]
            _, descriptors, _, _ = socket.recv_fds(source, 1, 4)
            if not descriptors and source is control:
                sys.exit()
            order = json.loads(_line(source)) if len(descriptors) == 4 else None
            if order and not os.fork():
                break
            for each in descriptors:
                os.close(each)
            if source is not control:
                source.close()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    news = socket.socket(fileno=descriptors.pop(0))
    pid = os.fork()
    if not pid:
        news.close()
        return order, descriptors
    for each in descriptors:
        os.close(each)
    news.sendall(NUMBER.pack(pid))
    if order.get("tied"):
        threading.Thread(target=_kill_with, args=(news, pid), daemon=True).start()
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(OSError):  # Nobody asks any more.
        news.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _line(source: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        line += source.recv(65_536)
    return line


def _kill_with(news: socket.socket, pid: int) -> None:
    """Kill a process when nobody is left who asks about it."""
    if not news.recv(1):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _become(order: dict[str, Any], streams: list[int]) -> None:
    """Run the program as Python would, to the end of this process."""
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    if order["session"]:
        os.setsid()
    for number, each in enumerate(streams):
        os.dup2(each, number)
    for each in set(streams):
        os.close(each)
    sys.stdin = _stream(0, "r", "strict")
    sys.stdout = _stream(1, "w", "strict")
    sys.stderr = _stream(2, "w", "backslashreplace")
    if any(name.startswith("COVERAGE_PROCESS") for name in os.environ):
        coverage.process_startup()
    sys.path[:0] = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    first, *rest = order["words"]
    if first == "-m":
        sys.path.insert(0, order["cwd"])
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(first).parent))
        sys.argv = [first, *rest]
        runpy.run_path(first, run_name="__main__")


def _stream(number: int, mode: str, errors: str) -> Any:
    buffering = 1 if os.isatty(number) or number == 2 else -1
    return open(number, mode, buffering, encoding="utf-8", errors=errors, closefd=False)


if __name__ == "__main__":
    import coverage

    orders = socket.socket(socket.AF_UNIX)
    orders.bind(sys.argv[2])
    orders.listen(64)
    for name in ("jsonschema", "mcp.server.mcpserver", "uvicorn"):
        importlib.import_module(name)
    gc.freeze()  # What is there already is garbage in no child.
    _become(*_serve(socket.socket(fileno=int(sys.argv[1])), orders))
