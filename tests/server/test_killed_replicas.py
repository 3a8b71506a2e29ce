"""Replicas in processes of their own that are killed one after the other, behind a balancer that is not sticky."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import ResourceUpdatedNotification

import tidings
from tests.ports import free_port
from tests.server.balancer import balanced
from tests.server.serving import Child, child, eventually
from tests.server.test_killed_publisher import Engine, nats, redis, sqlite
from tidings.changes import ResourceUpdated
from tidings.client.events import ChangeReceived

pytestmark = [pytest.mark.anyio, pytest.mark.thorough, pytest.mark.timeout(300)]

CALLS = 200
URI = "note://a"


class Replicas:
    """Three replicas, which can be killed and started again."""

    def __init__(self, bus: str, folder: Path, stack: AsyncExitStack) -> None:
        self.ports = [free_port() for _ in range(3)]
        self._bus, self._folder, self._stack = bus, folder, stack
        self._children: dict[int, Child] = {}

    async def start(self, port: int) -> None:
        log = self._folder / f"{port}.log"
        arguments = ("tests.server.programs", "replica", str(port), self._bus)
        self._children[port] = self._stack.enter_context(child(*arguments, log=log))
        with anyio.fail_after(60):
            while True:
                try:
                    await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
                except OSError:
                    await anyio.sleep(0.05)  # Nobody says when it listens.
                else:
                    return

    async def kill(self, port: int) -> None:
        self._children[port].stop()
        await self._children[port].gone()


@asynccontextmanager
async def replicas(bus: str, folder: Path) -> AsyncGenerator[Replicas]:
    async with AsyncExitStack() as stack:
        all_ = Replicas(bus, folder, stack)
        for port in all_.ports:
            await all_.start(port)
        yield all_


async def call_while_replicas_die(all_: Replicas, call: Callable[[], Awaitable[bool]], kills: int) -> int:
    """Calls `CALLS` times, and kills replicas in between. Returns how many calls succeeded."""
    succeeded = 0
    for number in range(CALLS):
        if number % (CALLS // kills) == CALLS // kills // 2:
            port = all_.ports[number % 3]
            await all_.kill(port)
            await all_.start(port)
        succeeded += await call()
    return succeeded


ENGINES = pytest.mark.parametrize("engine", [sqlite, redis, nats])


@ENGINES
async def test_a_stock_client_of_the_old_era_makes_all_its_calls_and_hears_to_the_end(
    engine: Engine, tmp_path: Path
) -> None:
    heard: list[str] = []

    async def hear(notification: Any) -> None:
        if isinstance(notification, ResourceUpdatedNotification):
            heard.append(str(notification.params.uri))

    async with (
        engine(tmp_path) as bus,
        replicas(bus, tmp_path) as all_,
        balanced(all_.ports) as (balancer, port),
        Client(f"http://127.0.0.1:{port}/mcp", mode="legacy", message_handler=hear) as client,
    ):
        with pytest.warns(MCPDeprecationWarning):
            await client.subscribe_resource(URI)

        async def call() -> bool:
            try:
                return not (await client.call_tool("waiting")).is_error
            except MCPError:
                return False

        # The SDK opens its stream again once, a second after it was lost.
        assert await call_while_replicas_die(all_, call, kills=1) == CALLS
        before = len(heard)
        with anyio.fail_after(20):
            while len(heard) == before:
                await client.call_tool("touch", {"uri": URI})
        assert {replica for _, replica in balancer.asked} == {0, 1, 2}


@ENGINES
async def test_our_client_makes_all_its_calls_and_hears_to_the_end(engine: Engine, tmp_path: Path) -> None:
    async with (
        engine(tmp_path) as bus,
        replicas(bus, tmp_path) as all_,
        balanced(all_.ports) as (_, port),
        tidings.connect(f"http://127.0.0.1:{port}/mcp", era="legacy") as client,
    ):
        heard: list[str] = []
        client.on(ChangeReceived, lambda event: heard.append(str(event.change)))
        await client.subscribe(URI)

        async def call() -> bool:
            try:
                await client.call_tool("waiting")
            except tidings.TidingsError:
                return False
            return True

        assert await call_while_replicas_die(all_, call, kills=6) == CALLS
        await client.wait_fresh()
        before = len(heard)
        await client.call_tool("touch", {"uri": URI})
        await eventually(lambda: str(ResourceUpdated(URI)) in heard[before:])
