"""`client.events(name)`: each event once and in order, by stream and by poll, through lost connections and restarts."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest

import tidings
from tests.server.events.eventing import CREATED, shop
from tests.server.events.hooking import publish
from tests.server.serving import live
from tidings import LiveServer
from tidings.bus.sqlite import SqliteBus
from tidings.bus.streams import Retention
from tidings.client import Backoff, ClientConfig, EventsTruncated, LiveClient, ServerEvent
from tidings.errors import EventNotFound, NotSupported, TidingsError
from tidings.server import Events

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]
ERAS = ["2026-07-28", "legacy"]
QUICK = ClientConfig(backoff=Backoff((0.01,)))


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def mcp(tmp_path: Path) -> LiveServer[Any]:
    return shop(bus=SqliteBus(tmp_path / "bus.db"), events=Events(retention=Retention(count=5)))


async def taken(news: AsyncGenerator[Any], count: int) -> list[Any]:
    """The orders of the next events, and the class of what is no event."""
    found: list[Any] = []
    with anyio.fail_after(20):
        while len(found) < count:
            event = await anext(news)
            found.append(type(event) if isinstance(event, EventsTruncated) else event.data["order"])
    return found


async def beginning(client: LiveClient) -> str:
    return (await client.request("events/poll", {"name": CREATED, "arguments": {}, "cursor": None}))["cursor"]


def connected(port: int, era: str, **options: Any) -> LiveClient:
    return tidings.connect(f"http://127.0.0.1:{port}/mcp", era=era, config=QUICK, **options)


async def test_events_come_in_order_from_a_cursor_on(mcp: LiveServer[Any], era: str) -> None:
    async with live(mcp) as port, connected(port, era) as client:
        start = await beginning(client)
        await publish(mcp, "1", "2")
        async with aclosing(client.events(CREATED, since=start)) as news:
            assert await taken(news, 2) == ["1", "2"]
            await publish(mcp, "3")
            third = await anext(news)
            assert isinstance(third, ServerEvent)
            assert (third.data["order"], third.name, third.at is None) == ("3", CREATED, False)
        async with aclosing(client.events(CREATED, arguments={"shop": "rome"}, since=start)) as news:
            await publish(mcp, "no")
            await publish(mcp, "yes", shop="rome")
            assert await taken(news, 1) == ["yes"]


async def test_what_is_gone_is_said(mcp: LiveServer[Any], era: str) -> None:
    async with live(mcp) as port, connected(port, era) as client:
        start = await beginning(client)
        await publish(mcp, *"abcdefgh")
        async with aclosing(client.events(CREATED, since=start)) as news:
            assert await taken(news, 6) == [EventsTruncated, *"defgh"]


async def test_a_server_that_comes_back_is_read_on_and_a_restart_of_the_client_loses_nothing(
    mcp: LiveServer[Any], era: str, tmp_path: Path
) -> None:
    state = tmp_path / "state.db"
    async with live(mcp) as port:
        async with connected(port, era, state=state) as client:
            start = await beginning(client)
            await publish(mcp, "1", "2")
            async with aclosing(client.events(CREATED, since=start)) as news:
                assert await taken(news, 2) == ["1", "2"]
        await publish(mcp, "3")
        async with connected(port, era, state=state) as client, aclosing(client.events(CREATED)) as news:
            assert await taken(news, 2) == ["2", "3"]  # The loop never asked for more after 2.
            await mcp.notify.event(CREATED, {"order": "4"})
            await client.reconnect()
            await publish(mcp, "5")
            assert await taken(news, 2) == ["4", "5"]


async def test_what_cannot_be_is_an_error_and_no_endless_loop(mcp: LiveServer[Any], era: str) -> None:
    async with live(mcp) as port, connected(port, era) as client:
        with pytest.raises(EventNotFound, match=r"order\.created"):
            await taken(client.events("order.creatd"), 1)
        with pytest.raises(TidingsError, match="cursor"):
            await taken(client.events(CREATED, since="forged"), 1)
        with pytest.raises(TidingsError, match="no argument 'shp'"):
            await taken(client.events(CREATED, arguments={"shp": "rome"}), 1)
    async with live(LiveServer("plain", events=None)) as port, connected(port, era) as client:
        with pytest.raises(NotSupported):
            await taken(client.events(CREATED), 1)


async def test_a_loop_that_is_slow_gets_everything_all_the_same(tmp_path: Path) -> None:
    mcp = shop(bus=SqliteBus(tmp_path / "bus.db"))
    async with live(mcp) as port, connected(port, ERAS[0]) as client:
        start = await beginning(client)
        async with aclosing(client.events(CREATED, since=start)) as news:
            await publish(mcp, "first")
            assert await taken(news, 1) == ["first"]
            names = [str(number) for number in range(1_200)]  # More than wait for a loop.
            await publish(mcp, *names)
            assert await taken(news, 1_200) == names
