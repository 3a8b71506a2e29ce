"""What was acknowledged is kept: kill -9 right after `await notify.resource_updated(...)` loses nothing.

One program forks a process for each kill. Each publishes a change of `a`, one of `b`, and one of `a` again, and kills
itself. The last follows so quickly that it is merged on its way to subscribers.
"""

import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from tests.bus.nats_server import running
from tests.bus.redis_server import redis_server
from tidings import ResourceUpdated
from tidings.bus.urls import bus_from_url

pytestmark = pytest.mark.anyio

PROGRAM = """
import asyncio, os, signal, sys
from tidings import LiveServer
from tidings.bus.urls import bus_from_url
from tidings.server import Coalesce

async def publish(bus, number, coalesce):
    mcp = LiveServer("killed", bus=bus, coalesce=coalesce)
    async with mcp._live.running():
        for name in "aba":
            await mcp.notify.resource_updated(f"note://{number}/{name}")
        os.kill(os.getpid(), signal.SIGKILL)

bus, kills = sys.argv[1], int(sys.argv[2])
bus_from_url(bus)  # Imports what it needs, once for all.
for number in range(kills):
    if (process := os.fork()) == 0:
        asyncio.run(publish(bus, number, Coalesce(0.5, 2.0) if number % 2 else Coalesce()))
    _, status = os.waitpid(process, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL, status
"""

Engine = Callable[[Path], AbstractAsyncContextManager[str]]


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncGenerator[str]:
    yield f"sqlite://{folder}/bus.db"


@asynccontextmanager
async def redis(folder: Path) -> AsyncGenerator[str]:
    async with redis_server(folder) as server:
        yield server.url


@asynccontextmanager
async def nats(folder: Path) -> AsyncGenerator[str]:
    with running(folder) as server:
        yield server.url


@pytest.mark.parametrize(
    ("engine", "kills"),
    [
        pytest.param(sqlite, 2),
        *(pytest.param(engine, 50, marks=pytest.mark.thorough) for engine in (sqlite, redis, nats)),
    ],
)
async def test_a_publisher_that_is_killed_right_after_it_loses_nothing(
    engine: Engine, kills: int, tmp_path: Path
) -> None:
    async with engine(tmp_path) as url, bus_from_url(url) as bus:
        start = bus.head
        command = [sys.executable, "-c", PROGRAM, url, str(kills)]
        with anyio.fail_after(100):
            await anyio.run_process(command, stderr=subprocess.PIPE)
        entries = await bus.since(start)
    assert entries is not None
    order = [change.uri for _, change in entries if isinstance(change, ResourceUpdated)]
    assert order == [f"note://{number}/{name}" for number in range(kills) for name in "ba"]
