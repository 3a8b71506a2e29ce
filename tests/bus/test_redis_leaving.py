"""Leaving a `RedisBus`: everything in order, within a second, whatever the server does."""

import asyncio
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest

from tests.bus.buses import Ear
from tests.bus.proxy import Proxy, proxy_to
from tests.bus.redis_server import bus_through, redis_server, shared_server, until
from tidings.bus.redis import RedisBus
from tidings.changes import ResourceUpdated
from tidings.errors import BusUnavailable

pytestmark = [pytest.mark.anyio, pytest.mark.redis]

A, B = (ResourceUpdated(f"note://{name}") for name in "ab")


@pytest.fixture
async def proxy() -> AsyncGenerator[Proxy]:
    async with proxy_to(shared_server().port) as proxy:
        yield proxy


@pytest.mark.parametrize("trouble", ["stalled", "refused"])
async def test_leaving_waits_for_no_answer_whatever_the_server_does(
    proxy: Proxy, tmp_path: Path, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    bus = bus_through(proxy, tmp_path, timeout=60)
    async with bus:
        if trouble == "stalled":
            proxy.stall()
        else:
            proxy.refusing = True
            proxy.cut()
        publishing = [asyncio.create_task(bus.publish(change)) for change in (A, B)]
        asking = asyncio.create_task(bus.since(bus.head))
        await anyio.sleep(0.05)
        began = time.monotonic()
    assert time.monotonic() - began < 10
    for task in publishing:
        with pytest.raises(BusUnavailable, match="was closed before"):
            await task
    assert await asking is None
    assert "2 changes could not be published" in caplog.text
    assert bus.state.waiting == 0


async def test_leaving_leaves_no_task_and_no_connection_behind(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as server, proxy_to(server.port) as proxy:
        tasks = asyncio.all_tasks()
        for _ in range(3):
            async with bus_through(proxy, tmp_path) as bus:
                bus.subscribe(Ear())
                await bus.publish(A)
                assert proxy.connections == 2
            await until(lambda: not proxy.connections)
        assert asyncio.all_tasks() == tasks


async def test_leaving_while_cancelled_still_leaves_everything_in_order(proxy: Proxy, tmp_path: Path) -> None:
    tasks = asyncio.all_tasks()
    with anyio.CancelScope() as scope:
        async with bus_through(proxy, tmp_path) as bus:
            await bus.publish(A)
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    left = " ".join(map(repr, asyncio.all_tasks() - tasks))
    assert "RedisSession" not in left
    assert "Wakes" not in left


async def test_entering_that_is_cancelled_leaves_nothing_open_and_can_be_tried_again(
    proxy: Proxy, tmp_path: Path
) -> None:
    bus = bus_through(proxy, tmp_path)
    proxy.stall()
    with anyio.move_on_after(0.1):
        await bus.__aenter__()
    proxy.flow()
    await until(lambda: not proxy.connections)
    async with bus:
        await bus.publish(A)


def test_a_loop_that_ends_without_leaving_the_bus_ends_its_tasks(tmp_path: Path) -> None:
    async def forget() -> RedisBus:
        bus = RedisBus(shared_server().url, prefix=str(tmp_path))
        await bus.__aenter__()
        await bus.publish(A)
        return bus

    asyncio.run(forget())
