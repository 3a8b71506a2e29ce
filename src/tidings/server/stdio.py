"""Serving over standard input and output, so that a signal ends it in good order.

The SDK reads standard input in a thread that nothing can interrupt, and so a process that is asked to stop waits for a
line that does not come. Here the reading thread is one that the process may leave behind.
"""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, cast

import anyio
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

from tidings.server.stop import StopSignals

_GRACE_SECONDS = 0.9
_CHUNK = 65_536
_QUEUED_LINES = 64


async def serve_stdio(server: Server[Any], aclose: Callable[[], Awaitable[None]]) -> None:
    """Serve `server` until its input ends or the process is asked to stop; then `aclose` is awaited first."""
    stop = asyncio.Event()
    signals = StopSignals(stop.set)
    signals.install(only_if_handled=False)
    # A client that no longer reads, or a call that cannot be interrupted, would keep the process waiting for ever.
    last_resort = threading.Timer(_GRACE_SECONDS, os._exit, [0])
    last_resort.daemon = True

    async def stop_when_asked() -> None:
        await stop.wait()
        last_resort.start()
        await aclose()
        lines.end()

    try:
        with _input() as lines:
            async with (
                stdio_server(stdin=cast("anyio.AsyncFile[str]", lines)) as (read, write),
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(stop_when_asked)
                await server.run(read, write, server.create_initialization_options())
                tasks.cancel_scope.cancel()
    finally:
        last_resort.cancel()
        signals.uninstall()


@contextmanager
def _input() -> Generator["_Lines"]:
    """The lines of standard input. Whoever reads it meanwhile, by mistake, finds it empty."""
    fd = os.dup(sys.stdin.fileno())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    try:
        yield _Lines(fd)
    finally:
        os.dup2(fd, sys.stdin.fileno())


class _Lines:
    """Lines from a file descriptor, read in a thread that may be left behind."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = threading.Semaphore(_QUEUED_LINES)
        self._loop = asyncio.get_running_loop()

    def end(self) -> None:
        """End here, whatever may still come."""
        self._queue.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[str]:
        threading.Thread(target=self._read, name="tidings-stdin", daemon=True).start()
        while (line := await self._queue.get()) is not None:
            self._room.release()
            yield line.decode("utf-8", errors="replace")

    def _read(self) -> None:
        for line in self._split():
            self._room.acquire()
            try:
                self._loop.call_soon_threadsafe(self._queue.put_nowait, line)
            except RuntimeError:
                return  # The event loop is closed: nobody wants the rest.

    def _split(self) -> Iterator[bytes | None]:
        rest = b""
        while chunk := os.read(self._fd, _CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
        if rest:
            yield rest
        yield None
