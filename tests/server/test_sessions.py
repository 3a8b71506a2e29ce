"""Legacy sessions live on every replica of a shared bus: each request may reach another one."""

import itertools
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import fastmcp
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import Client
from mcp.client.sse import sse_client
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types import ElicitResult, EmptyResult, ResourceUpdatedNotification, SetLevelRequestParams
from pydantic import BaseModel

import tidings
from tests.bus.buses import BusFactory, Nats, Redis, Sqlite, name_of
from tests.server import wire
from tests.server.balancer import balanced
from tests.server.serving import eventually, live, notes, serving
from tests.server.wire import Session, message
from tidings import LiveServer
from tidings.bus import Bus
from tidings.bus.memory import MemoryBus
from tidings.errors import BusUnavailable
from tidings.server import Limits, attach
from tidings.server.adapters import McpServerAdapter
from tidings.server.live import Live
from tidings.server.sessions import SharedSessions
from tidings.server.wrapper import SessionGate

pytestmark = pytest.mark.anyio

REPLICAS = 3
ENGINES = pytest.mark.parametrize("engine", [Sqlite, pytest.param(Redis, marks=pytest.mark.redis), Nats], ids=name_of)


class Name(BaseModel):
    name: str


class World:
    """Replicas of one server on one bus, each with its own handle on it."""

    def __init__(self, open_bus: Callable[[], Bus], **options: Any) -> None:
        self.levels: list[tuple[int, str]] = []
        self.published = 0
        self.cancelled = anyio.Event()
        self.waiting = anyio.Event()
        self.servers = [self.replica(number, bus=open_bus(), **options) for number in range(REPLICAS)]
        self.ports: list[int] = []

    def replica(self, number: int, **options: Any) -> LiveServer[Any]:
        mcp = notes(**options)

        @mcp.resource("truth://{name}")
        def truth(name: str) -> str:
            return f"{name} {self.published}"

        @mcp.tool()
        def where() -> int:
            return number

        @mcp.tool()
        async def greet(ctx: Context[Any, Any]) -> str:
            answer = await ctx.elicit("Who?", Name)
            return f"{number} greets {cast('Any', answer).data.name[:10]}"

        @mcp.tool()
        async def wait() -> None:
            self.waiting.set()
            try:
                await anyio.sleep_forever()
            finally:
                self.cancelled.set()

        async def set_level(_: Any, params: SetLevelRequestParams) -> EmptyResult:
            self.levels.append((number, params.level))
            return EmptyResult()

        McpServerAdapter(mcp).lowlevel.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)
        return mcp

    async def publish(self, uri: str, replica: int = 0) -> None:
        self.published += 1
        await self.servers[replica].notify.resource_updated(uri)

    def held(self, replica: int) -> int:
        """How many sessions the SDK holds there."""
        return len(self.servers[replica].session_manager._server_instances)


@asynccontextmanager
async def world(
    open_bus: Callable[[], Bus] | None = None, *, sse: bool = False, **options: Any
) -> AsyncGenerator[World]:
    bus = MemoryBus()
    all_ = World(open_bus or (lambda: bus), **options)
    async with AsyncExitStack() as stack:
        for server in all_.servers:
            running = serving(server.sse_app()) if sse else live(server)
            all_.ports.append(await stack.enter_async_context(running))
            stack.push_async_callback(server.aclose)
        stack.push_async_callback(wire.close_all)
        yield all_


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
        await eventually(lambda: not all_.held(0))
        assert (await session.request("tools/list")).status == 404


async def test_a_session_of_another_server_at_the_same_address_is_not_found() -> None:
    bus = MemoryBus()
    async with live(notes(bus=bus)) as port, live(LiveServer("others", bus=bus)) as other:
        session = await Session.start(port)
        session.port = other
        assert (await session.request("tools/list")).status == 404  # Its client learns of the other one anew.
        session.port = port
        assert (await session.request("tools/list")).status == 200


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
        assert all_.held(1) == 1


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


@asynccontextmanager
async def sdk_client(all_: World, **options: Any) -> AsyncGenerator[Client]:
    """The SDK's client in the legacy era, behind a balancer that is not sticky."""
    async with (
        balanced(all_.ports) as (balancer, port),
        Client(f"http://127.0.0.1:{port}/mcp", mode="legacy", **options) as client,
    ):
        await eventually(lambda: any(method == "GET" for method, _ in balancer.asked))
        yield client


class Heard:
    """The URIs of the updates that a client of the SDK hears of."""

    def __init__(self) -> None:
        self.uris: list[str] = []

    async def __call__(self, notification: Any) -> None:
        if isinstance(notification, ResourceUpdatedNotification):
            self.uris.append(str(notification.params.uri))


async def answer(*_: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ada"})


async def use(all_: World, client: Client, heard: Heard) -> None:
    """Calls, subscribes, hears and is asked, at every replica."""
    answers = [await client.call_tool("where") for _ in range(30)]
    assert {answer.structured_content["result"] for answer in answers if answer.structured_content} == {0, 1, 2}
    with pytest.warns(MCPDeprecationWarning):
        await client.subscribe_resource("note://a")
    for number in range(5):
        await all_.publish("note://a", number % REPLICAS)
        await eventually(lambda number=number: len(heard.uris) == number + 1)
    for _ in range(3):
        with anyio.fail_after(20):
            result = await client.call_tool("greet")
        assert "greets Ada" in json.dumps(result.structured_content)


async def test_a_stock_client_notices_nothing_of_the_replicas() -> None:
    heard = Heard()
    async with world() as all_, sdk_client(all_, message_handler=heard, elicitation_callback=answer) as client:
        await use(all_, client, heard)


@ENGINES
async def test_it_notices_nothing_on_any_engine(engine: type[BusFactory], tmp_path: Path) -> None:
    heard = Heard()
    async with (
        engine.start(tmp_path) as factory,
        world(factory.open) as all_,
        sdk_client(all_, message_handler=heard, elicitation_callback=answer) as client,
    ):
        await use(all_, client, heard)


async def test_a_client_of_the_sse_transport_notices_nothing_either() -> None:
    heard = Heard()
    async with world(sse=True) as all_, balanced(all_.ports) as (_, port):
        target = sse_client(f"http://127.0.0.1:{port}/sse")
        async with Client(target, mode="legacy", message_handler=heard, elicitation_callback=answer) as client:
            assert len({str((await client.call_tool("where")).structured_content) for _ in range(6)}) == 1
            with pytest.warns(MCPDeprecationWarning):
                await client.subscribe_resource("note://a")
            for number in range(5):
                await all_.publish("note://a", number % REPLICAS)
                await eventually(lambda number=number: len(heard.uris) == number + 1)
            assert "greets Ada" in json.dumps((await client.call_tool("greet")).structured_content)
        await eventually(lambda: not any(server.notify.subscribers() for server in all_.servers))


async def test_an_sse_session_that_nobody_holds_is_not_found() -> None:
    async with world(sse=True) as all_:
        request = wire.http("POST", wire.JSON, message("ping", number=1), f"/messages/?session_id={'0' * 32}")
        assert (await wire.once(all_.ports[1], request)).status == 404


@pytest.mark.parametrize("sse", [False, True], ids=["streamable", "sse"])
async def test_our_client_notices_nothing_of_the_replicas(sse: bool) -> None:
    async with world(sse=sse) as all_, balanced(all_.ports) as (_, port):
        url = f"http://127.0.0.1:{port}/{'sse' if sse else 'mcp'}"
        async with tidings.connect(url, era="legacy") as client:
            for _ in range(30):
                await client.call_tool("where")
            async with aclosing(client.watch("truth://a")) as watch:
                assert (await anext(watch)).text == "a 0"
                for number in range(3):
                    await all_.publish("truth://a", number)
                    with anyio.fail_after(20):
                        assert (await anext(watch)).text == f"a {number + 1}"
            assert client.connected
            assert client.tries == 0


async def test_a_session_outlives_the_replica_that_opened_it() -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        await session.subscribe("note://a")
        stream = await session.stream()
        await all_.servers[0].aclose()
        await stream.over()
        session.port = all_.ports[1]
        stream = await session.stream()
        assert "note://a" in {frame["params"].get("uri") for frame in [await stream.next() for _ in range(4)]}
        await all_.publish("note://a", 2)
        assert (await stream.next())["params"]["uri"] == "note://a"


@ENGINES
async def test_a_session_outlives_a_restart_of_all_replicas(engine: type[BusFactory], tmp_path: Path) -> None:
    async with engine.start(tmp_path) as factory:
        async with world(factory.open) as all_:
            session = await Session.start(all_.ports[0])
            await session.subscribe("note://a")
        async with world(factory.open) as all_:
            session.port = all_.ports[1]
            stream = await session.stream()
            await all_.publish("note://a", 2)
            heard: set[Any] = set()
            while "note://a" not in heard:
                heard.add((await stream.next())["params"].get("uri"))
            assert await call(session, "where") == 1


async def test_a_level_of_log_messages_holds_at_every_replica() -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        session.port = all_.ports[1]
        await session.request("ping")
        await session.request("logging/setLevel", {"level": "warning"})
        await eventually(lambda: sorted(all_.levels) == [(0, "warning"), (1, "warning")])
        session.port = all_.ports[2]
        await session.request("ping")
        assert (2, "warning") in all_.levels


async def test_a_call_is_cancelled_from_another_replica() -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        session.port = all_.ports[1]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.post, message("tools/call", {"name": "wait", "arguments": {}}, 77))
            await all_.waiting.wait()
            session.port = all_.ports[2]
            assert (await session.post(message("notifications/cancelled", {"requestId": 77}))).status == 202
            with anyio.fail_after(20):
                await all_.cancelled.wait()


async def test_an_answer_that_is_too_large_to_pass_on_is_refused() -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        session.port = all_.ports[1]
        body = json.dumps({"jsonrpc": "2.0", "id": 5, "result": {"text": "x" * 600_000}}).encode()
        refused = await session.post(body)
        assert (refused.status, "500000 bytes" in refused.error["message"]) == (413, True)


def kept_in(bus: MemoryBus) -> set[str]:
    return {key for key in bus._records._kept if key.startswith("session/") and key != "session/probe"}


@pytest.mark.parametrize("sse", [False, True])
async def test_sessions_that_end_leave_no_record(sse: bool) -> None:
    bus = MemoryBus()
    async with world(lambda: bus, sse=sse) as all_:
        for _ in range(3):
            if sse:
                async with sse_client(f"http://127.0.0.1:{all_.ports[0]}/sse"):
                    assert len(kept_in(bus)) == 1
            else:
                session = await Session.start(all_.ports[0])
                assert kept_in(bus) == {f"session/{session.id}"}
                assert (await session.delete()).status == 200
            await eventually(lambda: not kept_in(bus))


async def test_a_session_that_ends_while_another_replica_adopts_it_stays_ended() -> None:
    bus = MemoryBus()
    async with world(lambda: bus) as all_:
        session = await Session.start(all_.ports[0])
        adopting = shared_of(all_, 1)
        edit = adopting._edit

        async def edit_late(*arguments: Any, **options: Any) -> Any:
            assert (await session.delete()).status == 200
            return await edit(*arguments, **options)

        adopting._edit = edit_late  # type: ignore[method-assign]
        elsewhere = Session(all_.ports[1])
        elsewhere.id = session.id
        assert (await elsewhere.request("tools/list")).status == 404
        assert kept_in(bus) == set()
        assert all_.held(1) == 0


def shared_of(all_: World, replica: int) -> SharedSessions:
    return cast("SharedSessions", all_.servers[replica]._live._sessions)


class Away:
    """The records of a bus that cannot be reached."""

    def __getattr__(self, name: str) -> Any:
        raise BusUnavailable("The bus is away.")


@pytest.mark.parametrize("worked", [True, False])
async def test_without_its_bus_a_session_of_another_replica_is_refused_for_now(worked: bool) -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        session.port = all_.ports[1]
        sessions = shared_of(all_, 1)
        records = sessions._records
        records._stored, records._has_worked = Away(), worked
        refused = await session.request("tools/list")
        if worked:
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert refused.json["error"]["data"] == {"code": "bus-unavailable", "retryable": True}
        else:  # It may never: a user of the bus may lack the permission.
            assert refused.status == 404
        session.port = all_.ports[0]
        assert (await session.request("tools/list")).status == 200


async def test_a_replica_without_room_refuses_a_session_for_now() -> None:
    async with world(limits=Limits(sessions=1)) as all_:
        await Session.start(all_.ports[1])
        session = await Session.start(all_.ports[0])
        session.port = all_.ports[1]
        refused = await session.request("tools/list")
        assert refused.status == 503
        refusal = {"code": "limit-reached", "retryable": True, "limit": "sessions", "scope": "server"}
        assert refused.json["error"]["data"] == refusal


async def kept_again(bus: MemoryBus, key: str) -> None:
    """Wait until a record is written again."""
    before = await bus.records.get(key)
    assert before is not None
    with anyio.fail_after(20):
        while await bus.records.get(key) == before:
            await anyio.lowlevel.checkpoint()


async def test_a_session_in_use_is_kept_and_an_idle_one_is_not() -> None:
    now = 0.0
    bus = MemoryBus(clock=lambda: now)
    async with world(lambda: bus, limits=Limits(session_idle=0.4)) as all_:
        used, idle = await Session.start(all_.ports[0]), await Session.start(all_.ports[0])
        stream = await used.stream()
        await eventually(lambda: all_.held(0) == 1)
        for _ in range(5):
            now += 0.5
            await kept_again(bus, f"session/{used.id}")
        used.port = idle.port = all_.ports[1]
        assert (await used.request("tools/list")).status == 200
        assert (await idle.request("tools/list")).status == 404
        stream.close()


class Tokens:
    """Everyone whose token is a name is that person."""

    async def verify_token(self, token: str) -> AccessToken | None:
        return AccessToken(token=token, client_id="app", scopes=[], subject=token)


@asynccontextmanager
async def sse_session(port: int, headers: dict[str, str]) -> AsyncGenerator[str]:
    """An open SSE stream; yields the path for its messages, which its first event has."""
    stream = await anyio.connect_tcp("127.0.0.1", port)
    async with stream:
        await stream.send(wire.http("GET", headers, path="/sse"))
        with anyio.fail_after(20):
            text = (await BufferedByteReceiveStream(stream).receive_until(b"\r\n\r\n\r\n", 9999)).decode()
        yield text[text.index("/messages/") :]


AUTH = AuthSettings.model_validate(
    {
        "issuer_url": "https://example.com",
        "resource_server_url": "https://example.com/mcp",
        "validate_token_resource": False,
    }
)
ADA, EVE = ({"Authorization": f"Bearer {name}"} for name in ("ada", "eve"))


async def test_a_session_belongs_to_whoever_opened_it_at_every_replica() -> None:
    async with world(auth=AUTH, token_verifier=Tokens()) as all_:
        session = Session(all_.ports[0])
        params = {"protocolVersion": wire.LEGACY, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        session.id = (await session.post(message("initialize", params, 0), **ADA)).headers["mcp-session-id"]
        for port in all_.ports:
            session.port = port
            asked = [await session.post(message("ping", number=1), **headers) for headers in (EVE, {}, ADA, EVE)]
            assert [answer.status for answer in asked] == [404, 401, 200, 404]
        assert [all_.held(number) for number in range(REPLICAS)] == [1, 1, 1]


async def test_an_sse_session_belongs_to_whoever_opened_it_at_every_replica() -> None:
    async with world(sse=True, auth=AUTH, token_verifier=Tokens()) as all_, sse_session(all_.ports[0], ADA) as path:
        for port in all_.ports:
            requests = [
                wire.http("POST", {**wire.JSON, **headers}, message("ping", number=1), path)
                for headers in (EVE, {}, ADA, EVE)
            ]
            assert [(await wire.once(port, request)).status for request in requests] == [404, 401, 202, 404]


def made_by_the_sdk() -> MCPServer[Any]:
    mcp: MCPServer[Any] = MCPServer("sdk")
    mcp.resource("note://a")(_nothing)
    return mcp


def made_by_fastmcp() -> fastmcp.FastMCP:
    mcp: fastmcp.FastMCP = fastmcp.FastMCP("fast")
    mcp.tool(_nothing, name="nothing")
    return mcp


def _nothing() -> str:
    return ""


@pytest.mark.parametrize("make", [made_by_the_sdk, made_by_fastmcp])
async def test_every_kind_of_server_shares_its_sessions(make: Callable[[], Any]) -> None:
    async with AsyncExitStack() as stack:
        bus, lives, ports = MemoryBus(), list[Live](), list[int]()
        for server in (make(), make()):
            lives.append(attach(server, bus=bus))
            app = server.http_app() if isinstance(server, fastmcp.FastMCP) else server.streamable_http_app()
            ports.append(await stack.enter_async_context(serving(app)))
            stack.push_async_callback(lives[-1].aclose)
        stack.push_async_callback(wire.close_all)
        session = await Session.start(ports[0])
        stream = await session.stream()
        session.port = ports[1]
        assert (await session.subscribe("note://a")).json["result"] == {}
        await lives[1].notify.resource_updated("note://a")
        assert (await stream.next())["params"]["uri"] == "note://a"
        assert (await session.delete()).status == 200
        await stream.over()
        session.port = ports[0]
        assert (await session.request("tools/list")).status == 404


async def test_several_workers_without_a_shared_bus_are_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tidings.server.live.worker_count", lambda: 4)
    for bus, warnings in ((MemoryBus(), 0), (None, 1)):
        async with live(notes(bus=bus)):
            assert caplog.text.count("4 worker processes run this server") == warnings


async def test_a_stream_of_the_author_s_own_does_not_replace_the_record_of_a_session() -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        record = await shared_of(all_, 0).record_of(cast("str", session.id))
        said = f"event: endpoint\r\ndata: /stolen?session_id={session.id}\r\n\r\n".encode()

        async def own(_: Any, __: Any, send: Any) -> None:
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": said, "more_body": False})

        gate = SessionGate(own, shared_of(all_, 1))
        scope = {"type": "http", "method": "GET", "path": "/own", "headers": [], "query_string": b""}
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        await gate(scope, anyio.sleep_forever, send)
        assert sent[-1]["body"] == said
        assert await shared_of(all_, 2).record_of(cast("str", session.id)) == record
