"""Events by poll and by stream, on every bus: in order, from any cursor, with an honest gap."""

import asyncio
from collections.abc import AsyncGenerator

import anyio
import pytest

from tests.bus.buses import BusFactory, buses_that
from tests.server.events.eventing import (
    CREATED,
    TODAY,
    OrderCreated,
    data,
    heard,
    orders,
    poll,
    shop,
    stream,
)
from tests.server.serving import live
from tidings import LiveServer
from tidings.bus.streams import Retention
from tidings.server import Events

pytestmark = pytest.mark.anyio
ALL = {"uri": "note://*"}


@pytest.fixture
async def mcp(bus_factory: BusFactory) -> LiveServer:
    return shop(bus=bus_factory.open(), events=Events(retention=Retention(count=5)))


@pytest.fixture
async def port(mcp: LiveServer) -> AsyncGenerator[int]:
    async with live(mcp) as port:
        yield port


async def publish(mcp: LiveServer, *names: str, shop: str = "oslo") -> None:
    for name in names:
        await mcp.notify.event(CREATED, OrderCreated(order=name, shop=shop))


async def test_a_poll_from_now_has_no_past_and_its_cursor_reads_on(mcp: LiveServer, port: int) -> None:
    await publish(mcp, "early")
    first = await poll(port)
    assert (first["events"], first["truncated"], first["hasMore"]) == ([], False, False)
    await publish(mcp, "1", "2", "3")
    page = await poll(port, cursor=first["cursor"], maxEvents=2)
    assert (orders(page["events"]), page["hasMore"]) == (["1", "2"], True)
    rest = await poll(port, cursor=page["cursor"])
    assert (orders(rest["events"]), rest["hasMore"], rest["truncated"]) == (["3"], False, False)
    assert orders((await poll(port, cursor=page["events"][0]["cursor"]))["events"]) == ["2", "3"]
    assert (await poll(port, cursor=rest["cursor"]))["events"] == []


async def test_a_poll_waits_for_an_event_and_is_answered_at_once(mcp: LiveServer, port: int) -> None:
    cursor = (await poll(port))["cursor"]
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(poll(port, cursor=cursor, timeoutMs=20_000, arguments={"shop": "rome"}))
        while not mcp.notify.subscribers():  # noqa: ASYNC110 - nobody says that it waits
            await anyio.sleep(0.002)
        await publish(mcp, "other")
        await publish(mcp, "mine", shop="rome")
    assert orders(waiting.result()["events"]) == ["mine"]
    assert mcp.notify.subscribers() == []


async def test_a_stream_and_a_poll_tell_the_same_events_with_the_same_ids(mcp: LiveServer, port: int) -> None:
    cursor = (await poll(port))["cursor"]
    await publish(mcp, "1")
    connection = await stream(port, cursor=cursor)
    active = await heard(connection, "active")
    assert (active["cursor"], active["truncated"]) == (cursor, False)
    told = [await heard(connection)]
    await publish(mcp, "2", "3")
    told += [await heard(connection), await heard(connection)]
    polled = (await poll(port, cursor=cursor))["events"]
    assert [{key: each[key] for key in polled[0]} for each in told] == polled
    assert orders(polled) == ["1", "2", "3"]


async def test_what_the_retention_dropped_is_said(mcp: LiveServer, port: int) -> None:
    cursor = (await poll(port))["cursor"]
    await publish(mcp, *"abcdefgh")
    page = await poll(port, cursor=cursor)
    assert (orders(page["events"]), page["truncated"]) == (list("defgh"), True)
    assert not (await poll(port, cursor=page["cursor"]))["truncated"]
    connection = await stream(port, cursor=cursor)
    active = await heard(connection, "active")
    assert active["truncated"]
    assert [(await heard(connection))["data"]["order"] for _ in range(5)] == list("defgh")
    again = await poll(port, cursor=active["cursor"])  # A client that got no further has lost nothing more.
    assert (orders(again["events"]), again["truncated"]) == (list("defgh"), False)


async def test_a_change_of_a_resource_is_an_event(mcp: LiveServer, port: int) -> None:
    first = await poll(port, "resource.updated", arguments={"uri": TODAY})
    connection = await stream(port, "resource.updated", arguments=ALL, cursor=first["cursor"])
    await heard(connection, "active")
    await mcp.notify.resource_updated(TODAY)
    event = await heard(connection)
    assert (event["name"], event["data"]) == ("resource.updated", {"uri": TODAY})
    await mcp.notify.resource_updated("note://other")
    assert (await heard(connection))["data"] == {"uri": "note://other"}
    page = await poll(port, "resource.updated", first["cursor"], arguments={"uri": TODAY})
    assert (data(page["events"]), page["truncated"]) == ([{"uri": TODAY}], False)
    assert page["events"][0]["eventId"] == event["eventId"]


async def test_equal_changes_are_one_event_for_whoever_comes_late(mcp: LiveServer, port: int) -> None:
    cursor = (await poll(port, "resource.updated", arguments=ALL))["cursor"]
    for uri in (TODAY, "note://other", TODAY):
        await mcp.notify.resource_updated(uri)
    page = await poll(port, "resource.updated", cursor, arguments=ALL)
    assert data(page["events"]) == [{"uri": "note://other"}, {"uri": TODAY}]


async def test_a_change_of_a_list_is_an_event(mcp: LiveServer, port: int) -> None:
    cursor = (await poll(port, "tools.list_changed"))["cursor"]
    await mcp.notify.tools_changed()
    page = await poll(port, "tools.list_changed", cursor)
    assert data(page["events"]) == [{}]
    assert data((await poll(port, "prompts.list_changed", cursor))["events"]) == []


@buses_that(lambda kind: kind.shared)
async def test_an_event_reaches_the_streams_and_polls_of_every_replica(bus_factory: BusFactory) -> None:
    one, other = (shop(bus=bus_factory.open()) for _ in range(2))
    async with live(one) as here, live(other) as there:
        connection = await stream(there)
        cursor = (await heard(connection, "active"))["cursor"]
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(poll(there, cursor=cursor, timeoutMs=20_000))
            await publish(one, "1", "2")
            assert [(await heard(connection))["data"]["order"] for _ in range(2)] == ["1", "2"]
        assert orders(waiting.result()["events"])[0] == "1"
        assert orders((await poll(here, cursor=cursor))["events"]) == ["1", "2"]


@buses_that(lambda kind: kind.outlives)
async def test_a_cursor_outlives_the_server(bus_factory: BusFactory) -> None:
    async with live(mcp := shop(bus=bus_factory.open())) as port:
        cursor = (await poll(port))["cursor"]
        changes = (await poll(port, "resource.updated", arguments=ALL))["cursor"]
        await publish(mcp, "1", "2")
        await mcp.notify.resource_updated(TODAY)
    async with live(shop(bus=bus_factory.open())) as port:
        assert orders((await poll(port, cursor=cursor))["events"]) == ["1", "2"]
        page = await poll(port, "resource.updated", changes, arguments=ALL)
        assert (data(page["events"]), page["truncated"]) == ([{"uri": TODAY}], False)


@buses_that(lambda kind: kind.outlives)
async def test_a_lost_log_is_a_truncated_stream_and_never_silence(bus_factory: BusFactory) -> None:
    async with live(mcp := shop(bus=bus_factory.open())) as port:
        cursor = (await poll(port))["cursor"]
        changes = (await poll(port, "resource.updated", arguments=ALL))["cursor"]
        await publish(mcp, "1")
    await bus_factory.lose()
    async with live(shop(bus=bus_factory.open())) as port:
        assert (await poll(port, cursor=cursor))["truncated"]
        assert (await poll(port, "resource.updated", changes, arguments=ALL))["truncated"]
