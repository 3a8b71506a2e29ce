"""Live servers that share a `NatsBus`: what one publishes reaches the subscribers of all, through kills and stalls."""

import asyncio
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.bus.nats_server import NatsServer, running, shared
from tests.bus.proxy import proxy_to
from tests.bus.test_nats_faults import through, until
from tests.server.hearing import MODERN, connected, listening
from tests.server.sample import TODAY, build
from tidings.bus.nats import NatsBus
from tidings.changes import ResourceUpdated

pytestmark = pytest.mark.anyio


@pytest.fixture
def server(tmp_path: Path) -> Generator[NatsServer]:
    with running(tmp_path / "nats") as server:
        yield server


async def test_one_publish_reaches_the_subscribers_of_every_replica_before_and_after_a_kill(server: NatsServer) -> None:
    buses = [NatsBus(server.url, timeout=2) for _ in range(2)]
    one, two = (build(bus=bus) for bus in buses)
    async with (
        connected(one, MODERN) as near,
        connected(two, MODERN) as far,
        listening(near, TODAY) as heard_near,
        listening(far, TODAY) as heard_far,
    ):
        await one.notify.resource_updated(TODAY)
        await heard_near.hears(ResourceUpdated(TODAY))
        await heard_far.hears(ResourceUpdated(TODAY))
        counts = len(heard_near.heard), len(heard_far.heard)
        server.kill()
        await until(lambda: not any(bus.state.connected for bus in buses))
        # It returns at once or after a while, and is published when the broker is back.
        publishing = asyncio.create_task(one.notify.resource_updated(TODAY))
        await asyncio.to_thread(server.start)
        await publishing
        await near.until(lambda: len(heard_near.heard) > counts[0])
        await far.until(lambda: len(heard_far.heard) > counts[1])


async def test_a_server_does_not_wait_for_a_broker_that_hangs_when_it_stops() -> None:
    async with proxy_to(shared().port) as proxy:
        live = build(bus=through(proxy, "hangs", timeout=60))
        async with connected(live, MODERN) as ear, listening(ear, TODAY) as listen:
            await live.notify.resource_updated(TODAY)
            await listen.hears(ResourceUpdated(TODAY))
            proxy.stall()
            live.notify.soon(ResourceUpdated(TODAY))
            began = time.monotonic()
        assert time.monotonic() - began < 10
