"""Old-era sessions live on every replica of a shared bus: each request may reach another one."""

import itertools
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types import ElicitResult, ResourceUpdatedNotification
from pydantic import BaseModel

from tests.server import wire
from tests.server.serving import eventually, live, notes
from tests.server.wire import Session, message
from tidings import LiveServer
from tidings.bus.memory import MemoryBus
from tidings.server import Limits

pytestmark = pytest.mark.anyio

REPLICAS = 3


class Name(BaseModel):
    name: str


@dataclass
class World:
    """Replicas of one server on one bus, and a way to ask each of them in turn."""

    bus: MemoryBus
    servers: list[LiveServer[Any]]
    ports: list[int]
    asked: list[str] = field(default_factory=list[str])

    async def publish(self, uri: str, replica: int = 0) -> None:
        await self.servers[replica].notify.resource_updated(uri)


def replica(bus: MemoryBus, number: int, **options: Any) -> LiveServer[Any]:
    mcp = notes(bus=bus, **options)

    @mcp.tool()
    def where() -> int:
        return number

    @mcp.tool()
    async def greet(ctx: Context[Any, Any]) -> str:
        answer = await ctx.elicit("Who?", Name)
        return f"{number} greets {cast('Any', answer).data.name}"

    return mcp


@asynccontextmanager
async def world(**options: Any) -> AsyncGenerator[World]:
    bus = MemoryBus()
    servers = [replica(bus, number, **options) for number in range(REPLICAS)]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(bus)
        ports = [await stack.enter_async_context(live(server)) for server in servers]
        yield World(bus, servers, ports)


async def call(session: Session, name: str) -> Any:
    response = await session.request("tools/call", {"name": name, "arguments": {}})
    assert response.status == 200, response
    return response.json["result"]["structuredContent"]["result"]


async def test_a_session_goes_on_at_every_replica() -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        for number in (0, 1, 2, 1, 0):
            session.port = all_.ports[number]
            assert await call(session, "where") == number


async def test_answers_of_every_replica_name_the_session_as_its_client_does() -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        session.port = all_.ports[1]
        assert (await session.request("tools/list")).headers["mcp-session-id"] == session.id


async def test_an_id_that_nobody_issued_is_not_found() -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        for unknown in ("0" * 32, "x", cast("str", session.id)[:-1], "\u00e9" * 40):
            session.id = unknown
            session.port = all_.ports[1]
            assert (await session.request("tools/list")).status == 404


async def test_the_handshake_may_end_at_another_replica_than_it_began() -> None:
    async with world() as all_:
        session = Session(all_.ports[0])
        await session.initialize()
        session.port = all_.ports[1]
        assert (await session.post(message("notifications/initialized"))).status == 202
        session.port = all_.ports[0]
        stream = await session.stream()
        await all_.servers[2].notify.tools_changed()
        assert (await stream.next())["method"] == "notifications/tools/list_changed"


@pytest.mark.parametrize(("subscribes", "streams"), [*itertools.permutations(range(REPLICAS), 2)])
async def test_a_subscription_at_one_replica_is_heard_on_the_stream_of_another(subscribes: int, streams: int) -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        session.port = all_.ports[streams]
        stream = await session.stream()
        session.port = all_.ports[subscribes]
        assert (await session.subscribe("note://a")).json["result"] == {}
        for number in range(5):
            await all_.publish("note://a", number % REPLICAS)
            assert (await stream.next())["params"]["uri"] == "note://a"
        assert len(stream.frames) == 5
        assert (await session.unsubscribe("note://a")).json["result"] == {}
        assert (await session.subscribe("note://b")).json["result"] == {}
        await all_.publish("note://a")
        await all_.publish("note://b")
        assert (await stream.next())["params"]["uri"] == "note://b"


async def test_a_change_between_the_subscription_and_the_stream_is_heard_once() -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        await all_.publish("note://a")
        await session.subscribe("note://a")
        await session.subscribe("note://quiet")
        await all_.publish("note://a", 2)
        session.port = all_.ports[1]
        stream = await session.stream()
        assert (await stream.next())["params"]["uri"] == "note://a"
        await all_.publish("note://quiet")
        assert (await stream.next())["params"]["uri"] == "note://quiet"


async def test_a_stream_that_comes_back_at_another_replica_begins_with_everything() -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        await session.subscribe("note://a")
        first = await session.stream()
        first.close()
        await all_.publish("note://a")
        session.port = all_.ports[1]
        second = await session.stream()
        heard = [await second.next() for _ in range(4)]
        assert [frame["params"]["uri"] for frame in heard if frame["method"] == wire.UPDATED] == ["note://a"]
        await all_.publish("note://a", 2)
        assert (await second.next())["params"]["uri"] == "note://a"


async def test_an_end_is_an_end_at_every_replica() -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        for port in all_.ports:
            session.port = port
            await session.request("tools/list")
        session.port = all_.ports[2]
        stream = await session.stream()
        session.port = all_.ports[1]
        assert (await session.delete()).status == 200
        await stream.over()
        for server, port in zip(all_.servers, all_.ports, strict=True):
            session.port = port
            assert (await session.request("tools/list")).status == 404
            await eventually(lambda server=server: not server.session_manager._server_instances)
            assert server.notify.subscribers() == []


async def test_an_end_at_a_replica_that_never_served_the_session_is_one() -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        session.port = all_.ports[1]
        assert (await session.delete()).status == 200
        session.port = all_.ports[0]
        await eventually(lambda: not all_.servers[0].session_manager._server_instances)
        assert (await session.request("tools/list")).status == 404


async def test_many_requests_at_once_adopt_a_session_once() -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        session.port = all_.ports[1]
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await call(session, "where"))

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(ask)
        assert answers == [1] * 20
        assert len(all_.servers[1].session_manager._server_instances) == 1


async def test_subscriptions_made_at_all_replicas_at_once_are_all_kept() -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        stream = await session.stream()
        uris = {f"note://{number}" for number in range(30)}

        async def subscribe(number: int) -> None:
            mine = Session(all_.ports[number % REPLICAS])
            mine.id = session.id
            assert (await mine.subscribe(f"note://{number}")).json["result"] == {}

        async with anyio.create_task_group() as tasks:
            for number in range(30):
                tasks.start_soon(subscribe, number)
        for uri in uris:
            await all_.publish(uri)
        heard = {(await stream.next())["params"]["uri"] for _ in uris}
        assert heard == uris


async def test_all_replicas_together_keep_to_the_limit_of_subscriptions() -> None:
    async with world(limits=Limits(subscriptions=3)) as all_:
        session = await Session.start(all_.ports[0])
        for number in range(3):
            session.port = all_.ports[number]
            assert "result" in (await session.subscribe(f"note://{number}")).json
        session.port = all_.ports[0]
        assert (await session.subscribe("note://more")).error["data"]["code"] == "limit-reached"


class Rotating(httpx2.AsyncBaseTransport):
    """Sends each request to the next replica, on a connection of its own."""

    def __init__(self, all_: World) -> None:
        self._all = all_
        self._ports = itertools.cycle(all_.ports)
        self._transport = httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_keepalive_connections=0))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        port = next(self._ports)
        self._all.asked.append(f"{request.method} {port}")
        request.url = request.url.copy_with(port=port)
        return await self._transport.handle_async_request(request)

    async def aclose(self) -> None:
        await self._transport.aclose()


@asynccontextmanager
async def sdk_client(all_: World, **options: Any) -> AsyncGenerator[Client]:
    """The SDK's client in the old era, behind a balancer that is not sticky."""
    async with (
        httpx2.AsyncClient(transport=Rotating(all_)) as http,
        Client(streamable_http_client("http://127.0.0.1:1/mcp", http_client=http), mode="legacy", **options) as client,
    ):
        yield client


async def test_a_stock_client_notices_nothing_of_the_replicas() -> None:
    heard: list[str] = []

    async def hear(notification: Any) -> None:
        if isinstance(notification, ResourceUpdatedNotification):
            heard.append(str(notification.params.uri))

    async with world() as all_, sdk_client(all_, message_handler=hear) as client:
        answers = [await client.call_tool("where") for _ in range(60)]
        assert {answer.structured_content["result"] for answer in answers if answer.structured_content} == {0, 1, 2}
        assert not any(answer.is_error for answer in answers)
        with pytest.warns(MCPDeprecationWarning):
            await client.subscribe_resource("note://a")
        await eventually(lambda: any(asked.startswith("GET") for asked in all_.asked))
        for number in range(5):
            await all_.publish("note://a", number % REPLICAS)
            await eventually(lambda number=number: len(heard) == number + 1)


async def test_an_answer_finds_the_call_that_asked() -> None:
    async def answer(*_: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": "Ada"})

    async with world() as all_, sdk_client(all_, elicitation_callback=answer) as client:
        for _ in range(6):
            with anyio.fail_after(20):
                result = await client.call_tool("greet")
            assert "greets Ada" in json.dumps(result.structured_content)
