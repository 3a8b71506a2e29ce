"""A command that speaks MCP on its standard input and output, for one short conversation, without an event loop.

It runs in a process group of its own and does not outlive whoever started it: its input is closed, it is asked to end,
it is killed, each after a second; and so is what it started and left behind. What it says is bounded: one message, the
messages for one answer, and the last of what it wrote to standard error.
"""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

_GRACE: Final = 1.0
_CHUNK: Final = 64 * 2**10
_TAIL: Final = 4096
_INHERITED: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """What the program finds in its environment: the few variables that are safe to inherit, and its own."""
    kept = {name: os.environ[name] for name in _INHERITED if not os.environ.get(name, "()").startswith("()")}
    return {**kept, **own}


class TooLong(Exception):
    """A line has more bytes than a message may have."""


class Silent(Exception):
    """Nothing more came in time."""


class Gone(Exception):
    """The program ended, or closed its output."""


class Conversation:
    """A running program, and the lines that go both ways.

    Raises:
        OSError, ValueError: It could not be started.
    """

    def __init__(self, words: Sequence[str], env: Mapping[str, str], cwd: str | None, max_message: int) -> None:
        self._max_message = max_message
        self._process = subprocess.Popen(  # noqa: S603 - what the user asked for
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
        if not (self._process.stdin and self._process.stdout and self._process.stderr):
            raise ValueError("a program has three pipes")
        self._in, self._out, self._err = (
            self._process.stdin.fileno(),
            self._process.stdout.fileno(),
            self._process.stderr.fileno(),
        )
        for pipe in (self._in, self._out, self._err):
            os.set_blocking(pipe, False)
        self._outgoing = bytearray()
        self._incoming = bytearray()
        self._lines: deque[bytes] = deque()
        self._said = bytearray()
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)
        self._poll.register(self._err, select.POLLIN)
        self._open = {self._out, self._err}

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    @property
    def said(self) -> str:
        """The last that it wrote to its standard error."""
        return self._said.decode(errors="replace").strip()

    def send(self, line: bytes) -> None:
        """Have a line written, as soon as the program reads."""
        self._outgoing += line + b"\n"
        self._write()

    def _write(self) -> None:
        try:
            while self._outgoing:
                written = os.write(self._in, self._outgoing[:_CHUNK])
                del self._outgoing[:written]
        except BlockingIOError:
            self._poll.register(self._in, select.POLLOUT)
            return
        except OSError:  # It does not listen any more; it may have said why.
            self._outgoing.clear()
        with contextlib.suppress(KeyError):
            self._poll.unregister(self._in)

    def line(self, deadline: float) -> bytes:
        """The next line that it writes.

        Raises:
            Silent: None came before `deadline`, by the monotonic clock.
            Gone: There will be none.
            TooLong: It is longer than a message may be.
        """
        while not self._lines:
            if self._out not in self._open:
                raise Gone
            left = deadline - time.monotonic()
            ready = self._poll.poll(max(left, 0) * 1000)
            if not ready and left <= 0:
                raise Silent
            for pipe, _ in ready:
                self._write() if pipe == self._in else self._read(pipe)
        return self._lines.popleft()

    def _read(self, pipe: int) -> None:
        try:
            data = os.read(pipe, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._poll.unregister(pipe)
            self._open.discard(pipe)
            if pipe == self._out and self._incoming:
                self._lines.append(bytes(self._incoming))
        elif pipe == self._err:
            self._said = (self._said + data)[-_TAIL:]
        else:
            *whole, rest = data.split(b"\n")
            for piece in whole:
                self._lines.append(bytes(self._incoming + piece))
                self._incoming.clear()
            self._incoming += rest
            if len(self._incoming) > self._max_message:
                raise TooLong

    def last_words(self) -> int | None:
        """Hear what it still says on standard error; returns its exit code, or the negative number of a signal."""
        until = time.monotonic() + _GRACE / 2
        while self._err in self._open and (left := until - time.monotonic()) > 0:
            for pipe, _ in self._poll.poll(left * 1000):
                if pipe != self._in:
                    with contextlib.suppress(TooLong):
                        self._read(pipe)
        return self._wait(max(until - time.monotonic(), 0.05))

    def close(self) -> None:
        """End it, in good order if it lets us. Takes a few seconds at most."""
        process = self._process
        try:
            with contextlib.suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]
            for number in (None, signal.SIGTERM, signal.SIGKILL):
                if number is not None:
                    self._signal(number)
                if self._drained(_GRACE) is not None:
                    break
        finally:  # Whoever interrupts the wait, nobody is left behind.
            if process.poll() is None:
                self._signal(signal.SIGKILL)
                process.wait(_GRACE)
            self._sweep()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    def _drained(self, seconds: float) -> int | None:
        """Wait for its end, reading what it still writes: one that cannot write may not get to its end."""
        until = time.monotonic() + seconds
        while (code := self._process.poll()) is None and (left := until - time.monotonic()) > 0:
            # A program that closes its output is most likely at its end; how it ends is seen a moment later.
            ready = self._poll.poll(min(left, 0.05) * 1000) if self._open else []
            for pipe, _ in ready:
                with contextlib.suppress(OSError):
                    if pipe == self._in or not os.read(pipe, _CHUNK):
                        self._poll.unregister(pipe)
                        self._open.discard(pipe)
            if not self._open:
                return self._wait(max(until - time.monotonic(), 0))
        return code

    def _wait(self, seconds: float) -> int | None:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def _sweep(self) -> None:
        """End what the program started and left behind, at once: later, its number may be another's."""
        if not self._signal(signal.SIGTERM):
            return
        until = time.monotonic() + _GRACE
        while self._signal(0):
            if time.monotonic() > until:
                self._signal(signal.SIGKILL)
                return
            time.sleep(0.01)

    def _signal(self, number: int) -> bool:
        """Send a signal to the program and all that it started; False if nobody is left."""
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True
