"""A server under uvicorn for a test: in this process, or in one of its own."""

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import uvicorn

from tests.forking import PIPE, Forked
from tests.ports import free_port
from tests.server import wire
from tidings import LiveServer
from tidings.server import Coalesce

PROMPT = 10.0
"""Seconds: more than a stop takes on a busy machine, and less than what it must not wait for, a minute or for ever. How
long it takes is measured in `benchmarks`."""

AT_ONCE = Coalesce(window=0, max_wait=0)
ROOT = Path(__file__).resolve().parents[2]


def notes(**options: Any) -> LiveServer[Any]:
    """A server with resources at `note://…`; each change goes out by itself unless told otherwise."""
    mcp = LiveServer("notes", **{"coalesce": AT_ONCE, **options})

    @mcp.resource("note://{name}")
    def note(name: str) -> str:
        return name

    @mcp.tool()
    def nothing() -> None:
        pass

    return mcp


async def eventually(condition: Callable[[], object], within: float = 20) -> None:
    """Wait until `condition` holds: for what nobody says, such as that a socket is closed or a registry empty."""
    with anyio.fail_after(within):
        while not condition():  # noqa: ASYNC110 - see above
            await anyio.sleep(0.002)


@asynccontextmanager
async def serving(
    app: Any, *, send_buffer: int | None = None, http: str = "httptools", port: int = 0
) -> AsyncGenerator[int]:
    """Serve an ASGI app in this process; yields its port. With a small `send_buffer`, a stalled reader is soon felt."""
    listening = socket.create_server(("127.0.0.1", port), backlog=512)
    if send_buffer is not None:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    port = listening.getsockname()[1]
    config = uvicorn.Config(app, http=http, ws="none", log_config=None, access_log=False, timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    # Without `serve()`: pytest keeps its signal handlers, and nothing waits for uvicorn's next tick.
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listening])
    try:
        assert server.started, "the app did not start"
        yield port
    finally:
        await _shut_down(server, listening)


async def _shut_down(server: uvicorn.Server, listening: socket.socket) -> None:
    """As uvicorn does it, but for its ticks of a tenth of a second, of which each test would wait for one or more."""
    for each in server.servers:
        each.close()
    listening.close()
    state = server.server_state
    for connection in list(state.connections):
        connection.shutdown()
    with anyio.move_on_after(server.config.timeout_graceful_shutdown):
        while state.connections or state.tasks:  # noqa: ASYNC110 - nobody says so
            await anyio.sleep(0.002)
    for task in state.tasks:
        task.cancel()
    await server.lifespan.shutdown()


@asynccontextmanager
async def live(mcp: LiveServer[Any], *, send_buffer: int | None = None, **options: Any) -> AsyncGenerator[int]:
    """Serve `mcp` in this process; yields its port."""
    async with serving(mcp.asgi(**options), send_buffer=send_buffer) as port:
        try:
            yield port
        finally:
            # Ends the streams that a test left open, or uvicorn would wait for them.
            await mcp.aclose()
            await wire.close_all()


class Child:
    """A process that a test started, and stops."""

    def __init__(self, *arguments: str, log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self._process = Forked("-m", *arguments, cwd=ROOT, stdout=PIPE, stderr=output.fileno())

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    async def line(self, within: float = 20) -> str:
        """The next line that the child says."""
        assert self._process.stdout
        with anyio.fail_after(within):
            text = await asyncio.get_running_loop().run_in_executor(None, self._process.stdout.readline)
        assert text, self.log.read_text()
        return text.strip()

    async def gone(self, within: float = 20) -> tuple[float, int]:
        """Wait until the process is gone: the seconds that took, and its exit code."""
        began = time.monotonic()
        await eventually(lambda: not self.running, within)
        assert self._process.returncode is not None
        return time.monotonic() - began, self._process.returncode

    def stop(self) -> None:
        self._process.stop()


@contextmanager
def child(*arguments: str, log: Path) -> Generator[Child]:
    """A program, as `python -m arguments` runs it, for as long as this is entered."""
    process = Child(*arguments, log=log)
    try:
        yield process
    finally:
        process.stop()


@asynccontextmanager
async def serving_apart(kind: str, log: Path, *options: str) -> AsyncGenerator[tuple[Child, int]]:
    """One of the servers of `programs.py`, in a process of its own; yields it and its port."""
    port = free_port()
    with child("tests.server.programs", kind, str(port), *options, log=log) as process:
        await eventually(lambda: _answers(port) or not process.running, within=20)
        assert process.running, log.read_text()
        try:
            yield process, port
        finally:
            await wire.close_all()


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def sockets() -> int:
    """How many TCP connections and listening sockets this process has."""
    return len(psutil.Process(os.getpid()).net_connections(kind="tcp"))


def tasks() -> int:
    """How many asyncio tasks are alive."""
    return len(asyncio.all_tasks())
