"""A program that runs in a process group of its own, and does not outlive whoever started it.

However it is left (in good order, cancelled, or because the event loop stops), its standard input is closed, it is
asked to end, and it is killed, each after a second; and so is whatever it started and left behind.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from asyncio.subprocess import SubprocessStreamProtocol
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

import anyio

_T = TypeVar("_T")

_GRACE: Final = 1.0
"""Seconds for each step of the way out."""

_POLL: Final = 0.01
_BUFFER: Final = 64 * 2**10


async def to_its_end(work: Coroutine[Any, Any, _T]) -> _T:
    """The result of `work`, which is done to its end whoever cancels meanwhile; only then does that take effect."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # Looked at, so that nobody complains that it was not.
    raise cancelled


class _Protocol(SubprocessStreamProtocol):
    """Tells when the program has ended, even if somebody else still holds its pipes, and when the pipes are closed."""

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
    """A running program. `start` it, and `stop` it in any case."""

    def __init__(self, transport: asyncio.SubprocessTransport, protocol: _Protocol) -> None:
        if protocol.stdin is None or protocol.stdout is None or protocol.stderr is None:
            raise TypeError("a program has three pipes")
        self._transport = transport
        self._protocol = protocol
        self.stdin, self.stdout, self.stderr = protocol.stdin, protocol.stdout, protocol.stderr
        self.exited = protocol.exited
        """Set when the program has ended. Others may hold its pipes open none the less."""
        self._killed = False
        self._sweeper = asyncio.create_task(self._sweep())

    @staticmethod
    async def start(words: Sequence[str], env: Mapping[str, str], cwd: str | None) -> "Program":
        """Start a program.

        Raises:
            OSError: There is no such program or directory, or it must not be run.
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
        return Program(transport, protocol)

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._transport.get_pid()

    @property
    def returncode(self) -> int | None:
        """Its exit code, or the negative number of the signal that ended it. None while it runs."""
        return self._transport.get_returncode()

    async def stop(self) -> None:
        """See the program end, in good order if it lets us. Takes a few seconds at most."""
        try:
            self.stdin.close()
            for number in (None, signal.SIGTERM, signal.SIGKILL):
                if number is not None:
                    self._signal(number)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_GRACE):
                        await self.exited.wait()
                        break
            await asyncio.wait((self._sweeper,), timeout=3 * _GRACE)
        finally:
            # Also when this is cancelled, as it is when the event loop stops.
            self._sweeper.cancel()
            self._transport.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE):
                    await asyncio.wait((self._sweeper,))
                    await self.exited.wait()
                    await self._protocol.closed.wait()

    async def _sweep(self) -> None:
        """When the program has ended, end what it started and left behind.

        At once: later, its number may be another's.
        """
        try:
            await self.exited.wait()
            if not self._killed and self._signal(signal.SIGTERM):
                async with asyncio.timeout(_GRACE):
                    while self._signal(0):  # noqa: ASYNC110 - nobody tells when a stranger's child ends
                        await asyncio.sleep(_POLL)
        except TimeoutError:
            self._signal(signal.SIGKILL)
        except asyncio.CancelledError:
            self._signal(signal.SIGKILL)
            raise

    def _signal(self, number: int) -> bool:
        """Send a signal to the program and all that it started. False if nobody is left, or nobody of ours."""
        if sys.platform == "win32":  # There are no groups: the program alone.
            self._transport.kill()
            return False
        self._killed = self._killed or number == signal.SIGKILL
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True
