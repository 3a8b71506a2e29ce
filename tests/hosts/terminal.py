"""A host in a terminal of its own: a pseudo-terminal that reads the screen, answers its queries and types."""

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

ROWS, COLUMNS = 50, 140
_CONTROL = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()#][0-9A-Z]|\x1b[=>78cDEHMZ]")
_QUERIES = {
    b"\x1b[6n": b"\x1b[1;1R",  # Where is the cursor?
    b"\x1b[c": b"\x1b[?62;c",  # What are you?
    b"\x1b[?u": b"\x1b[?0u",  # Which keyboard?
    b"\x1b]10;?": b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\",  # Which colours?
    b"\x1b]11;?": b"\x1b]11;rgb:0000/0000/0000\x1b\\",
}


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """A program that runs in a pseudo-terminal."""

    def __init__(self, command: list[str], cwd: Path, env: dict[str, str]) -> None:
        self._fd, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            ["nice", "-n", "5", *command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env=env,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - a single system call
        )
        os.close(slave)
        self._output = b""
        self._last_output = time.monotonic()
        self._descendants: set[psutil.Process] = set()
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 65_536)
        except OSError:  # The program has ended.
            asyncio.get_running_loop().remove_reader(self._fd)
            return
        self._output += data
        self._last_output = time.monotonic()
        for query, reply in _QUERIES.items():
            os.write(self._fd, reply * data.count(query))

    @property
    def text(self) -> str:
        """Everything it has written, without control sequences."""
        return _CONTROL.sub(b" ", self._output).decode("utf-8", "replace")

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def programs(self) -> set[psutil.Process]:
        """The programs that it has started, so far as they were seen."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self._descendants |= set(psutil.Process(self._process.pid).children(recursive=True))
        return self._descendants

    async def quiet(self, seconds: float = 1.0, within: float = 30.0) -> None:
        """Waits until nothing was written for a while."""
        async with asyncio.timeout(within):
            while time.monotonic() - self._last_output < seconds:  # noqa: ASYNC110 - silence has no event
                await asyncio.sleep(0.05)

    async def type(self, text: str) -> None:
        """Types a line. The key comes later than the text, or it would count as pasted."""
        os.write(self._fd, text.encode())
        await asyncio.sleep(0.7)
        os.write(self._fd, b"\r")

    def press(self, keys: bytes) -> None:
        os.write(self._fd, keys)

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ends the program, and what is left of the programs that it started."""
        left = self.programs
        if self.running:
            self._process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._process.wait, 10)
        if self.running:
            self._process.kill()
        _, alive = await asyncio.to_thread(psutil.wait_procs, left, 10)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        await asyncio.to_thread(self._process.wait)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)


@asynccontextmanager
async def terminal(command: list[str], cwd: Path, env: dict[str, str]) -> AsyncGenerator[Terminal]:
    """Runs a program in a terminal for as long as this is entered."""
    program = Terminal(command, cwd, env)
    try:
        yield program
    finally:
        await program.stop()
        program.close()
