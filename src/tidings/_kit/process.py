"""A child process in a group of its own: started, explained when it cannot start, and ended in steps.

However it is left (in good order, cancelled, or because the event loop stops), its standard input is closed, it is
asked to end, and it is killed, each after a pause; and so is everything that it started and left behind.
"""

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from asyncio.subprocess import SubprocessStreamProtocol
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tidings._kit.suggest import did_you_mean

GRACE: Final = 1.0
"""Seconds for each step on the way to the end, unless the caller says otherwise."""

_POLL: Final = 0.01
_BUFFER: Final = 64 * 2**10


class _Protocol(SubprocessStreamProtocol):
    """Sets events when the program has ended, even if another process holds its pipes, and when they are closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=_BUFFER, loop=loop)
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()
        self._open = {0, 1, 2}

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        super().pipe_connection_lost(fd, exc)
        self._open.discard(fd)
        if not self._open:
            self.closed.set()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class Program:
    """A running program with three pipes. `start` it, and `stop` it in any case."""

    def __init__(self, transport: asyncio.SubprocessTransport, protocol: _Protocol, grace: float) -> None:
        if protocol.stdin is None or protocol.stdout is None or protocol.stderr is None:
            raise TypeError("a program has three pipes")
        self._transport = transport
        self._protocol = protocol
        self._grace = grace
        self.stdin, self.stdout, self.stderr = protocol.stdin, protocol.stdout, protocol.stderr
        self.exited = protocol.exited
        """Set when the program has ended. Other processes may still hold its pipes open."""
        self._killed = False
        self._sweeper = asyncio.create_task(self._sweep())

    @staticmethod
    async def start(
        words: Sequence[str], env: Mapping[str, str], cwd: str | None = None, *, grace: float = GRACE
    ) -> "Program":
        """Starts a program.

        Raises:
            OSError: There is no such program or directory, or it must not be run. See `explain_start`.
            ValueError: The words cannot be given to a program.
        """
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            lambda: _Protocol(loop),
            *words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        return Program(transport, protocol, grace)

    @property
    def pid(self) -> int:
        """The number of the process, and of its group."""
        return self._transport.get_pid()

    @property
    def returncode(self) -> int | None:
        """Its exit code, or the negative number of the signal that ended it. None while it runs."""
        return self._transport.get_returncode()

    async def stop(self) -> None:
        """Ends the program and everything that it started. Takes a few times `grace` at most.

        If this is cancelled, everything is killed at once.
        """
        try:
            self.stdin.close()
            for number in (None, signal.SIGTERM, signal.SIGKILL):
                if number is not None:
                    self._signal(number)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._grace):
                        await self.exited.wait()
                        break
            await asyncio.wait((self._sweeper,), timeout=3 * self._grace)
        finally:
            # Also when this is cancelled, as it is when the event loop stops.
            self._sweeper.cancel()
            self._transport.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._grace):
                    await asyncio.wait((self._sweeper,))
                    await self.exited.wait()
                    await self._protocol.closed.wait()

    async def _sweep(self) -> None:
        """Ends what the program left behind, at once: later, its number may belong to another process."""
        try:
            await self.exited.wait()
            if not self._killed and self._signal(signal.SIGTERM):
                async with asyncio.timeout(self._grace):
                    while self._signal(0):  # noqa: ASYNC110 - the end of a foreign child cannot be awaited
                        await asyncio.sleep(_POLL)
        except TimeoutError:
            self._signal(signal.SIGKILL)
        except asyncio.CancelledError:
            self._signal(signal.SIGKILL)
            raise

    def _signal(self, number: int) -> bool:
        if sys.platform == "win32":  # There are no groups: the program alone.
            self._transport.kill()
            return False
        self._killed = self._killed or number == signal.SIGKILL
        return signal_group(self.pid, number)


def signal_group(pid: int, number: int) -> bool:
    """Sends a signal to a process that leads a group, and to everything that it started.

    Signal 0 only asks. False if nothing is left of the group, it belongs to someone else, or the system has no groups.
    """
    if sys.platform == "win32":
        return False
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def end_group(pid: int, grace: float = GRACE) -> None:
    """Ends what a process left behind in its group: asks, and kills after `grace` seconds. Blocks meanwhile."""
    if not signal_group(pid, signal.SIGTERM):
        return
    until = time.monotonic() + grace
    while signal_group(pid, 0):
        if time.monotonic() > until:
            signal_group(pid, signal.SIGKILL)
            return
        time.sleep(_POLL)


def explain_start(program: str, cwd: str | None, env: Mapping[str, str], error: Exception) -> str:
    """Returns why a program could not be started, and what to do: "there is no program 'x'. Did you mean …?".

    Args:
        program: The first word of the command.
        cwd: The directory in which it was started. None: that of this process.
        env: The environment in which it was started.
        error: What starting it raised.
    """
    reason, cure = _explained(program, cwd, env, error)
    return f"{reason}. {cure}"


def _explained(  # noqa: PLR0911 - one for each cause
    program: str, cwd: str | None, env: Mapping[str, str], error: Exception
) -> tuple[str, str]:
    directory = Path(cwd or ".").absolute()
    if not directory.is_dir():
        return f"there is no directory {directory}", "Give a cwd= that exists."
    file = directory / program
    match error:
        case FileNotFoundError() if os.sep not in program or "://" in program:
            return f"there is no program {program!r}", _not_on_path(program, env)
        case FileNotFoundError() if file.is_file():
            return f"the first line of {file} names a program that is not there", "Correct it, or name the interpreter."
        case FileNotFoundError() if Path(program).is_absolute():
            return f"there is no file {program}", "Check the path."
        case FileNotFoundError():
            return f"there is no file {program}", f"It was looked for in {directory}: use a full path."
        case PermissionError() if file.is_dir():
            return f"{file} is a directory", "Name the program in it."
        case PermissionError():
            return f"{file} may not be run", "Make it executable (chmod +x), or name its interpreter before it."
        case OSError(errno=errno.ENOEXEC):
            return f"{file} is not a program", "Name its interpreter before it, as in python server.py."
        case OSError():
            return error.strerror or type(error).__name__, "Try the same command in a terminal."
        case _:
            return str(error), "Correct the command, its env= or its cwd=."


def _not_on_path(program: str, env: Mapping[str, str]) -> str:
    if "://" in program:
        return "A URL is given as a text, not as a list."
    if len(words := program.split()) > 1:
        return f"A command is a list with one text for each word: {words}."
    meant = did_you_mean(program, _programs(env), cutoff=0.75, among=100_000, show=str)
    return f"{meant} Is it installed, and on the PATH of this process? A full path finds it in any case.".strip()


def _programs(env: Mapping[str, str]) -> set[str]:
    """Returns the names of all programs on the PATH."""
    names: set[str] = set()
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        with contextlib.suppress(OSError):
            names.update(file.name for file in Path(folder or ".").iterdir())
    return names
