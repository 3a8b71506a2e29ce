"""Several worker processes of uvicorn on one port, which share a SQLite bus: the way to use all cores of a machine."""

import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.ports import free_port
from tests.server import wire
from tests.server.serving import ROOT
from tests.server.wire import both_eras, subscribe
from tidings import LiveServer
from tidings.server import Coalesce

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

WORKERS = 2
BUS = "TIDINGS_TEST_BUS"


def app() -> Any:
    """What each worker serves."""
    mcp: LiveServer[Any] = LiveServer("workers", bus=os.environ[BUS], coalesce=Coalesce(0, 0))

    @mcp.resource("note://{name}")
    def note(name: str) -> str:
        return name

    @mcp.tool()
    async def touch(uri: str) -> int:
        """Publishes a change, and returns the worker that did."""
        await mcp.notify.resource_updated(uri)
        return os.getpid()

    return mcp.asgi()


@asynccontextmanager
async def workers(folder: Path) -> AsyncGenerator[int]:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--factory", f"{__name__}:app", "--port", str(port), "--no-access-log"]
    environment = {**os.environ, BUS: f"sqlite://{folder}/bus.db"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
            [*command, "--workers", str(WORKERS)], cwd=ROOT, env=environment, stdout=log, stderr=log
        )
    try:
        with anyio.fail_after(60):
            while (folder / "log").read_text().count("startup complete") < WORKERS:
                assert process.poll() is None, (folder / "log").read_text()
                await anyio.sleep(0.05)
        yield port
    finally:
        await wire.close_all()
        process.terminate()
        process.wait(30)


@both_eras
async def test_a_change_from_any_worker_reaches_the_subscribers_of_all(era: wire.Era, tmp_path: Path) -> None:
    async with workers(tmp_path) as port:
        # The system gives each connection to any worker, so that one of this many has none with a chance of 1 in 2,000.
        subscriptions = [await subscribe(era, port, ["note://a"]) for _ in range(12)]
        published: set[int] = set()
        with anyio.fail_after(60):
            while len(published) < WORKERS:
                published.add((await wire.call_tool(port, "touch", uri="note://a"))["structuredContent"]["result"])
                for subscription in subscriptions:
                    assert await subscription.until("note://a")
