"""A program in a terminal of its own, as a person would have it: what it writes is read, keys are typed."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Mapping

PATIENCE = 60.0
"""Seconds until something that does not happen is a failure, on however busy a machine."""
_CODES = re.compile(
    rb"\x1b(?:\[[0-9;:?<>=$ ]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|P[^\x1b]*\x1b\\|[()][A-Z0-9]|[=>78cM])"
)


class Terminal:
    """Runs a program on a pseudo-terminal of 42 lines and 150 columns."""

    def __init__(self, *words: str, env: Mapping[str, str] | None = None) -> None:
        self.raw = b""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.execve(words[0], list(words), {**os.environ, "TERM": "xterm-256color", **(env or {})})
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 42, 150, 0, 0))
        self.modes = termios.tcgetattr(self._fd)
        """The settings of the terminal before the program touched it."""

    @property
    def text(self) -> str:
        """All that was written, without the codes that place and colour it."""
        return _CODES.sub(b" ", self.raw).decode(errors="replace")

    @property
    def last(self) -> str:
        """What was written last, without the blanks of a screen: for whoever has to find out what went wrong."""
        return re.sub(r"[\s▁▔▕]+", " ", self.text)[-3000:]

    def read(self, seconds: float = 0.2) -> bool:
        """Read what is there. False if the program has ended."""
        ready, _, _ = select.select([self._fd], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # The other end is closed: Linux says so with EIO.
            return False
        self.raw += data
        return bool(data)

    def wait_for(self, *words: str, since: int = 0) -> None:
        """Wait until these words are written, one after the other, whatever is between them."""
        end = time.monotonic() + PATIENCE
        seen = -1
        while len(self.raw) == seen or not self._has(words, since):
            seen = len(self.raw)
            assert time.monotonic() < end, f"{words!r} was never written. Last: {self.last}"
            assert self.read(), f"It ended without writing {words!r}: {self.last}"

    def _has(self, words: tuple[str, ...], since: int) -> bool:
        text = _CODES.sub(b" ", self.raw[since:]).decode(errors="replace")
        for word in words:
            _, found, text = text.partition(word)
            if not found:
                return False
        return True

    def type(self, keys: str) -> int:
        """Type these keys; returns how much was written before."""
        before = len(self.raw)
        os.write(self._fd, keys.encode())
        return before

    def settings(self) -> list[object]:
        """The settings of the terminal now."""
        return list(termios.tcgetattr(self._fd))

    def wait(self) -> int:
        """Wait until the program ended; its exit code."""
        end = time.monotonic() + PATIENCE
        while True:
            self.read(0.05)
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < end, f"It does not end: {self.last}"

    def close(self) -> None:
        """End the program if it still runs."""
        try:
            if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass
        os.close(self._fd)


TIDINGS = (sys.executable, "-m", "tidings")
