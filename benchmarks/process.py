"""A child process of a measurement, seen from the parent: ask it something, stop it, all within a time limit."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parent.parent


class ProcessFailed(Exception):
    """A child did not answer in time, answered with an error, or left."""


class Process:
    """`python -m module arguments`, spoken to in JSON lines; `python` is this one unless another is given."""

    def __init__(self, module: str, *arguments: str, python: str | Path = sys.executable) -> None:
        self.name = " ".join([module.rpartition(".")[2], *arguments])
        self._popen = subprocess.Popen(
            [str(python), "-m", module, *arguments], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._popen.stdin
        assert self._popen.stdout
        self._in, self._out = self._popen.stdin.fileno(), self._popen.stdout.fileno()
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def ask(self, do: str, patience: float = 60, **arguments: Any) -> dict[str, Any]:
        self.tell(do, **arguments)
        return self.answer(patience)

    def tell(self, do: str, **arguments: Any) -> None:
        view = memoryview(json.dumps({"do": do, **arguments}).encode() + b"\n")
        try:
            while view:
                view = view[os.write(self._in, view) :]
        except BrokenPipeError:
            raise ProcessFailed(f"{self.name} is gone (exit code {self._popen.poll()})") from None

    def answer(self, timeout: float = 60) -> dict[str, Any]:
        """The next line that the child says.

        Raises:
            ProcessFailed: It says nothing within `timeout` seconds, or that it failed.
        """
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            selector.register(self._out, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise ProcessFailed(f"{self.name} did not answer within {timeout:.0f} s")
                data = os.read(self._out, 1 << 20)
                if not data:
                    raise ProcessFailed(f"{self.name} is gone (exit code {self._popen.wait(5)})")
                self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ProcessFailed(f"{self.name}: {answer['error']}")
        return answer

    def terminate(self, timeout: float) -> float | None:
        """Send SIGTERM; the seconds until the process is gone, None if it is still there after `timeout`."""
        start = time.monotonic()
        self._popen.send_signal(signal.SIGTERM)
        try:
            self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        return time.monotonic() - start

    def stop(self) -> None:
        if self._popen.poll() is None:
            self._popen.kill()
        self._popen.wait(10)
        for pipe in (self._popen.stdin, self._popen.stdout):
            assert pipe
            pipe.close()
