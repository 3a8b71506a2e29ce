"""A server that is cut off from its bus, over real sockets: it sends its subscribers away, and says so to balancers."""

from collections.abc import AsyncGenerator

import anyio
import pytest

from tests.server import wire
from tests.server.serving import eventually, live, notes
from tests.server.wire import Refused, both_eras, subscribe
from tidings import connect
from tidings.bus import BusState
from tidings.bus.memory import MemoryBus
from tidings.server import Limits, LiveServer

pytestmark = pytest.mark.anyio

THERE = BusState(connected=True, since=0.0, waiting=0)
AWAY = BusState(connected=False, since=0.0, waiting=0, reason="The broker is away.")


class StatedBus(MemoryBus):
    """A bus that says whether it is connected."""

    state = THERE


@pytest.fixture
async def bus() -> StatedBus:
    return StatedBus()


@pytest.fixture
def mcp(bus: StatedBus) -> LiveServer[None]:
    return notes(bus=bus, limits=Limits(without_bus=0.1))


@pytest.fixture
async def port(mcp: LiveServer[None]) -> AsyncGenerator[int]:
    async with live(mcp, ready="/ready") as port:
        yield port


async def cut_off(mcp: LiveServer[None], bus: StatedBus) -> None:
    bus.state = AWAY
    await eventually(lambda: mcp.trouble)


async def back(mcp: LiveServer[None], bus: StatedBus) -> None:
    bus.state = THERE
    await eventually(lambda: not mcp.trouble)


async def readiness(port: int) -> tuple[int, str]:
    response = await wire.once(port, wire.http("GET", {}, path="/ready"))
    return response.status, response.body.decode()


@both_eras
async def test_streams_end_and_are_served_again_when_the_bus_is_back(
    era: wire.Era, mcp: LiveServer[None], bus: StatedBus, port: int
) -> None:
    subscription = await subscribe(era, port, ["note://a"])
    await cut_off(mcp, bus)
    await subscription.over()
    if era == "modern":
        error = subscription.stream.frames[-1]["error"]
        assert error["data"] == {"code": "bus-unavailable", "retryable": True}
        assert "The broker is away." in error["message"]
        with pytest.raises(Refused, match="bus-unavailable"):
            await subscribe(era, port, ["note://a"])
    else:
        assert subscription.session is not None
        again = await subscription.session.stream_again()
        assert await again.over() == "end"
    await back(mcp, bus)
    if subscription.session is None:
        subscription = await subscribe(era, port, ["note://a"])
    else:
        subscription.stream = await subscription.session.stream_again()
    await mcp.notify.resource_updated("note://a")
    await subscription.until("note://a")


async def test_a_balancer_is_told_that_the_bus_is_away_and_that_the_server_stops(
    mcp: LiveServer[None], bus: StatedBus, port: int
) -> None:
    assert await readiness(port) == (200, "ready")
    await cut_off(mcp, bus)
    status, reason = await readiness(port)
    assert status == 503
    assert reason.endswith("cannot tell what changes. The broker is away.")
    await back(mcp, bus)
    assert await readiness(port) == (200, "ready")
    await mcp.aclose()
    assert await readiness(port) == (503, "This server is stopping. Connect again in a moment.")


@both_eras
async def test_a_client_does_not_call_its_copy_fresh_while_the_server_is_cut_off(
    era: wire.Era, mcp: LiveServer[None], bus: StatedBus, port: int
) -> None:
    with anyio.fail_after(30):
        async with connect(f"http://127.0.0.1:{port}/mcp", era="2026-07-28" if era == "modern" else "legacy") as client:
            await client.subscribe("note://a")
            await client.wait_fresh()
            await cut_off(mcp, bus)
            await eventually(lambda: not client._subscriptions.are_established)
            with anyio.move_on_after(0.3) as patience:
                await client.wait_fresh()
            assert patience.cancelled_caught
            assert "note://a" in client.subscriptions
            await back(mcp, bus)
            await client.wait_fresh()


async def test_a_client_that_comes_while_the_server_is_cut_off_is_not_fresh_either(
    mcp: LiveServer[None], bus: StatedBus, port: int
) -> None:
    await cut_off(mcp, bus)
    with anyio.fail_after(30):
        async with connect(f"http://127.0.0.1:{port}/mcp", era="2026-07-28") as client:
            with anyio.move_on_after(0.5) as patience:
                await client.wait_fresh()
            assert patience.cancelled_caught
            assert [tool.name for tool in client.tools] == ["nothing", "wait_for_change"]
            await back(mcp, bus)
            await client.wait_fresh()
