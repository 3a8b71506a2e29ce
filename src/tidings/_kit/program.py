"""A child process under asyncio, in a group of its own. However it is left, its input is closed, it is asked to end,
and it is killed, each after a pause; and so is everything that it started.
"""

import asyncio
import contextlib
import signal
import subprocess
import sys
from asyncio.subprocess import SubprocessStreamProtocol
from collections.abc import Mapping, Sequence

from tidings._kit.process import GRACE, POLL, signal_group


class _Protocol(SubprocessStreamProtocol):
    """Sets events when the program has ended, even if another process holds its pipes, and when they are closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=64 * 2**10, loop=loop)
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
        self.exited = protocol.exited  # Set when the program has ended. Other processes may still hold its pipes open.
        self._killed = False
        self._sweeper = asyncio.create_task(self._sweep())

    @staticmethod
    async def start(
        words: Sequence[str], env: Mapping[str, str], cwd: str | None = None, *, grace: float = GRACE
    ) -> "Program":
        """Starts a program. Raises `OSError` or `ValueError` if it cannot be started: see `process.explain_start`."""
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
        return self._transport.get_pid()

    @property
    def returncode(self) -> int | None:
        """The exit code, or the negative number of the signal that ended it. None while it runs."""
        return self._transport.get_returncode()

    async def stop(self) -> None:
        """Ends the program and all that it started, within a few times `grace`. When cancelled, kills it at once."""
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
                        await asyncio.sleep(POLL)
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
