"""Nobody fills a server up: not with streams, sessions, connections, subscriptions, ids or headers; in either era."""

import asyncio
import gc
import json
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import anyio.lowlevel
import fastmcp
import httpx2
import pytest
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp.server.auth.provider import AccessToken
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import ErrorData
from starlette.responses import StreamingResponse

import tidings
from tests.server import wire
from tests.server.serving import eventually, live, notes, serving
from tests.server.test_sessions import AUTH, world
from tests.server.test_several import resuming
from tests.server.wire import Connection, Era, Refused, Session, both_eras, changed, subscribe
from tidings import LiveServer
from tidings.errors import LimitReached, SourceUnavailable
from tidings.server import Limits, attach
from tidings.server.live import Live

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

HELLO = {"protocolVersion": wire.LEGACY, "capabilities": {}, "clientInfo": {"name": "hello", "version": "1"}}
NOTHING = {"streams": 0, "sessions": 0, "memory": 0}


def used(mcp: LiveServer[Any]) -> dict[str, int]:
    live: Live = mcp._live
    return live._core.budget.used


def uris(count: int, length: int = 20) -> list[str]:
    return [f"note://{number}".ljust(length, "x") for number in range(count)]


def honest() -> Any:
    """The address of somebody else."""
    return wire.coming_from("127.0.0.2")


async def shake_hands(port: int, **more: Any) -> wire.Response:
    return await Session(port).post(wire.message("initialize", {**HELLO, **more}, 7))


def assert_refused(response: wire.Response, status: int, limit: str, number: Any = None) -> None:
    """The answer is what HTTP and JSON-RPC say of somebody who has too much, or of a server that is full."""
    assert response.status == status
    assert response.headers["retry-after"] == "5"
    assert response.headers["content-type"] == "application/json"
    body = json.loads(response.body)
    assert (body["jsonrpc"], body["id"], body["error"]["code"]) == ("2.0", number, -32603)
    data = body["error"]["data"]
    assert (data["code"], data["retryable"], data["limit"]) == ("limit-reached", True, limit)
    assert data["scope"] == ("client" if status == 429 else "server")


async def fill(open_one: Callable[[], Awaitable[object]], most: int = 300) -> tuple[int, wire.Response]:
    """Open one after the other until one is refused; how many there are, and the refusal."""
    for count in range(most):
        try:
            await open_one()
        except Refused as refused:
            return count, refused.response
    raise AssertionError("nothing is ever refused")


@asynccontextmanager
async def live_sse(mcp: LiveServer[Any]) -> AsyncGenerator[int]:
    async with serving(mcp.sse_app()) as port:
        try:
            yield port
        finally:
            await mcp.aclose()
            await wire.close_all()


async def sse(port: int) -> Connection:
    connection = await Connection.open(port)
    try:
        await connection.stream(wire.http("GET", {"Accept": "text/event-stream"}, path="/sse"))
    except BaseException:
        connection.close()
        raise
    return connection


# What was seen from outside


async def test_listen_streams_with_many_subscriptions_stay_within_their_memory_and_leave_room() -> None:
    mcp = notes(limits=Limits(memory=40_000_000))
    async with live(mcp) as port:
        greedy = uris(1_000)
        count, refusal = await fill(lambda: wire.listen(port, wire.wanted(greedy, []), 5))
        assert_refused(refusal, 429, "memory", 5)
        assert 2 < count < 20
        assert used(mcp)["memory"] <= 4_000_000
        with honest():
            reader = await subscribe("modern", port, uris(100))
            await mcp.notify.resource_updated(uris(1)[0])
            assert await reader.next()
            await Session.start(port)


@pytest.mark.parametrize("number", ["x" * 257, "x" * 4_000_000, 2**300])
async def test_a_request_with_a_very_long_id_does_not_become_a_stream(number: Any) -> None:
    mcp = notes()
    async with live(mcp) as port:
        with pytest.raises(Refused) as refused:
            await wire.listen(port, wire.wanted(["note://a"], []), number)
        assert refused.value.response.status == 400
        assert refused.value.response.error["code"] == -32600
        assert "256" in refused.value.response.error["message"]
        assert used(mcp) == NOTHING


@pytest.mark.parametrize("number", ["x" * 256, "\N{BALLOON}" * 256, "", 0, -1, 2**63])
async def test_a_request_with_an_ordinary_id_becomes_a_stream(number: Any) -> None:
    mcp = notes()
    async with live(mcp) as port:
        stream = await wire.listen(port, wire.wanted(["note://a"], []), number)
        assert (await stream.next())["params"]["_meta"][wire.SUBSCRIPTION_ID] == number
        await mcp.notify.resource_updated("note://a")
        assert (await stream.next())["params"]["_meta"][wire.SUBSCRIPTION_ID] == number


@pytest.mark.parametrize("completes", [True, False])
async def test_bare_handshakes_leave_room_for_others(completes: bool) -> None:
    mcp = notes(limits=Limits(streams=50))
    async with live(mcp) as port:
        sessions: list[Session] = []

        async def open_one() -> None:
            session = Session(port)
            response = await session.post(wire.message("initialize", HELLO, 7))
            if response.status != 200:
                raise Refused(response)
            session.id = response.headers["mcp-session-id"]
            if completes:
                await session.post(wire.message("notifications/initialized"))
            sessions.append(session)

        count, refusal = await fill(open_one)
        assert count == 25
        assert_refused(refusal, 429, "streams", 7)
        assert "mcp-session-id" not in refusal.headers
        await eventually(lambda: len(mcp.session_manager._server_instances) == 25)
        assert used(mcp)["sessions"] == used(mcp)["streams"] == 25
        with honest():
            readers = [await subscribe("modern", port, ["note://a"]), await subscribe("legacy", port, ["note://a"])]
        await mcp.notify.resource_updated("note://a")
        for reader in readers:
            assert await reader.until("note://a")
            await reader.leave()
        await sessions[0].delete()
        await eventually(lambda: used(mcp)["streams"] == 24)
        await open_one()


async def test_bare_connections_of_the_sse_transport_leave_room_for_others() -> None:
    mcp = notes(limits=Limits(streams=60))
    async with live_sse(mcp) as port:
        count, refusal = await fill(lambda: sse(port))
        assert count == 30
        assert_refused(refusal, 429, "streams")
        with honest():
            connection = await sse(port)
            await connection.until(lambda: used(mcp)["streams"] == 31)
        connection.close()
        await eventually(lambda: used(mcp)["streams"] == 30)


async def test_many_sse_connections_at_the_same_time_are_no_more_than_one_after_the_other() -> None:
    mcp = notes(limits=Limits(streams=20))
    async with live_sse(mcp) as port:
        statuses: list[int] = []

        async def open_one() -> None:
            try:
                await sse(port)
                statuses.append(200)
            except Refused as refused:
                statuses.append(refused.response.status)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                for _ in range(40):
                    tasks.start_soon(open_one)
        assert (statuses.count(200), statuses.count(429)) == (10, 30)
        assert used(mcp)["streams"] == 10


async def test_sessions_that_nobody_uses_leave_room_for_others_as_long_as_the_sdk_keeps_them() -> None:
    mcp = notes(limits=Limits(sessions=10, liveness=0.02, streams_per_client=20_000))
    async with live(mcp) as port:

        async def open_one() -> None:
            response = await shake_hands(port)
            if response.status != 200:
                raise Refused(response)

        count, refusal = await fill(open_one)
        assert count == 5
        assert_refused(refusal, 429, "sessions", 7)
        await eventually(lambda: used(mcp)["streams"] == 0)
        with pytest.raises(Refused):
            await open_one()
        with honest():
            assert await (await subscribe("legacy", port, ["note://a"])).session.request("ping")  # type: ignore[union-attr]


async def test_a_session_of_fastmcp_is_counted_and_refused_as_any_other() -> None:
    server: Any = fastmcp.FastMCP("fast")
    live_ = attach(server, limits=Limits(streams_per_client=2))
    async with serving(server.http_app()) as port:
        first = await Session.start(port)
        await Session.start(port)
        assert_refused(await shake_hands(port), 429, "streams_per_client", 7)
        await first.delete()
        await eventually(lambda: live_._core.budget.used["sessions"] == 1)
        assert (await shake_hands(port)).status == 200
        await live_.aclose()
        await wire.close_all()


# Refusals


@both_eras
async def test_streams_and_sessions_of_one_client_are_counted_together(era: Era) -> None:
    mcp = notes(limits=Limits(streams_per_client=3))
    async with live(mcp) as port:
        await subscribe("modern", port, ["note://a"])
        await subscribe("legacy", port, ["note://a"])
        last = await subscribe(era, port, ["note://a"])
        with pytest.raises(Refused) as refused:
            await wire.listen(port, wire.wanted(["note://a"], []), 3)
        assert_refused(refused.value.response, 429, "streams_per_client", 3)
        assert_refused(await shake_hands(port), 429, "streams_per_client", 7)
        await last.leave()
        await eventually(lambda: used(mcp)["streams"] == 2)
        await subscribe(era, port, ["note://a"])


@both_eras
async def test_a_full_server_says_so_and_when_to_come_back(era: Era) -> None:
    mcp = notes(limits=Limits(streams=1))
    async with live(mcp) as port:
        only = await subscribe(era, port, ["note://a"])
        with honest():
            assert_refused(await shake_hands(port), 503, "streams", 7)
            with pytest.raises(Refused) as refused:
                await wire.listen(port, wire.wanted(["note://a"], []), "a")
            assert_refused(refused.value.response, 503, "streams", "a")
            await only.leave()
            await eventually(lambda: used(mcp)["streams"] == 0)
            await subscribe(era, port, ["note://a"])


async def test_a_refused_handshake_leaves_no_session_behind_in_json_either() -> None:
    mcp = notes(limits=Limits(streams_per_client=1))
    async with live(mcp, json_response=True) as port:
        session = await Session.start(port)
        for _ in range(3):
            assert_refused(await shake_hands(port), 429, "streams_per_client", 7)
        assert len(mcp.session_manager._server_instances) == 1
        assert (await session.request("ping")).status == 200


async def test_the_sdks_own_refusal_of_a_session_says_when_to_come_back_too() -> None:
    mcp = notes(limits=Limits(sessions=1))
    async with live(mcp) as port:
        await Session.start(port)
        refused = await shake_hands(port)
        assert (refused.status, refused.headers["retry-after"]) == (503, "5")


async def test_a_session_that_subscribes_to_too_much_is_told_by_http_as_well() -> None:
    mcp = notes(limits=Limits(memory=1_000_000))
    async with live(mcp) as port:
        session = await Session.start(port)
        many, number = uris(200, length=8_000), 0
        while (response := await session.subscribe(many[number])).status == 200:
            assert response.json["result"] == {}
            number += 1
        assert 10 < number < 60
        assert_refused(response, 429, "memory", response.json["id"])
        before = used(mcp)["memory"]
        assert before <= 500_000
        assert (await session.request("tools/list")).status == 200
        for uri in uris(number, length=8_000):
            await session.unsubscribe(uri)
        assert used(mcp)["memory"] < before - number * 8_000
        assert (await session.subscribe(uris(200, length=8_000)[-1])).json["result"] == {}


async def test_asking_for_too_many_subscriptions_at_once_is_refused_by_http_as_well() -> None:
    mcp = notes(limits=Limits(subscriptions=2))
    async with live(mcp) as port:
        with pytest.raises(Refused) as refused:
            await wire.listen(port, wire.wanted(uris(3), []))
        session = await Session.start(port)
        for uri in uris(3):
            response = await session.subscribe(uri)
        for refusal in (refused.value.response, response):
            assert refusal.status == 429
            assert refusal.error["data"] == {
                "code": "limit-reached",
                "retryable": True,
                "limit": "subscriptions",
                "max": 2,
                "scope": "stream",
            }


async def test_a_server_that_stops_refuses_both_eras_with_503() -> None:
    mcp = notes()
    async with live(mcp) as port:
        await mcp.aclose()
        with pytest.raises(Refused) as refused:
            await wire.listen(port, wire.wanted(["note://a"], []))
        for response in (refused.value.response, await shake_hands(port)):
            assert (response.status, response.headers["retry-after"]) == (503, "1")
            assert response.error["data"]["limit"] == "stopping"


async def test_a_pipe_is_told_what_there_is_too_much_of() -> None:
    mcp = notes(limits=Limits(streams_per_client=1))
    async with Client(mcp, mode="legacy"):
        with refused_client() as said:
            async with Client(mcp, mode="legacy"):
                pass
        assert "1 streams and sessions" in said[0].message
    async with Client(mcp, mode=wire.MODERN) as client, client.listen(tools_list_changed=True):
        with pytest.raises(MCPError, match="1 streams and sessions"):
            async with client.listen(tools_list_changed=True):
                pass
    assert used(mcp) == NOTHING


@contextmanager
def refused_client() -> Generator[list[ErrorData]]:
    """Expects that a stock client is refused; yields a list that gets the reason, which comes out of its tasks."""
    said: list[ErrorData] = []
    try:
        yield said
    except BaseExceptionGroup as group:
        errors, others = group.split(MCPError)
        assert errors is not None
        assert others is None
        error: BaseException = errors
        while isinstance(error, BaseExceptionGroup):
            [error] = error.exceptions
        assert isinstance(error, MCPError)
        said.append(error.error)
    assert said


# Who is one client


class Tokens:
    """Everyone whose token is `app/name` is that person, with that app."""

    async def verify_token(self, token: str) -> AccessToken | None:
        app, _, name = token.partition("/")
        return AccessToken(token=token, client_id=app, scopes=[], subject=name or None)


@both_eras
async def test_a_user_is_one_client_whatever_address_and_app_are_used(era: Era) -> None:
    mcp = notes(limits=Limits(streams_per_client=1), auth=AUTH, token_verifier=Tokens())
    async with live(mcp) as port:

        def signed_in(who: str) -> dict[str, str]:
            return {"Authorization": f"Bearer {who}"}

        await subscribe(era, port, ["note://a"], headers=signed_in("app/alice"))
        with honest():
            with pytest.raises(Refused) as refused:
                await wire.listen(port, wire.wanted(["note://a"], []), 3, headers=signed_in("other/alice"))
            assert_refused(refused.value.response, 429, "streams_per_client", 3)
            again = Session(port, headers=signed_in("app/alice"))
            assert_refused(await again.post(wire.message("initialize", HELLO, 7)), 429, "streams_per_client", 7)
        await subscribe(era, port, ["note://a"], headers=signed_in("app/bob"))
        assert len(mcp.notify.subscribers()) == 2


# Nothing is left


@both_eras
@pytest.mark.parametrize("how", ["leave", "abort", "stop"])
async def test_nothing_is_counted_when_everybody_has_left(era: Era, how: str) -> None:
    mcp = notes(limits=Limits(session_idle=0.2))
    async with live(mcp) as port:
        readers = [await subscribe(era, port, uris(3)) for _ in range(3)]
        assert used(mcp)["streams"] == 3
        for reader in readers:
            if how == "leave":
                await reader.leave()
            elif how == "abort":
                reader.stream.abort()
        if how == "stop":
            await mcp.aclose()
            await wire.close_all()
        await eventually(lambda: used(mcp) == NOTHING)


async def test_a_parked_session_is_no_stream_but_still_takes_memory_and_comes_back() -> None:
    mcp = notes(limits=Limits(liveness=0.05))
    async with live(mcp) as port:
        session = await Session.start(port)
        await session.subscribe("note://a")
        whole = used(mcp)["memory"]
        await eventually(lambda: used(mcp)["streams"] == 0)
        assert used(mcp)["sessions"] == 1
        assert 0 < used(mcp)["memory"] < whole
        stream = await session.stream()
        assert used(mcp)["streams"] == 1
        assert used(mcp)["memory"] >= whole
        await mcp.notify.resource_updated("note://a")
        assert changed(await stream.next()) in {"note://a", "tools", "prompts", "resources"}
        await session.delete()
        await eventually(lambda: used(mcp) == NOTHING)


async def test_a_parked_session_whose_client_has_too_much_is_asked_to_come_back() -> None:
    mcp = notes(limits=Limits(liveness=0.05, streams_per_client=1))
    async with live(mcp) as port:
        session = await Session.start(port)
        await session.subscribe("note://a")
        await eventually(lambda: used(mcp)["streams"] == 0)
        other = await subscribe("modern", port, ["note://b"])
        assert await (await session.stream()).over() == "end"  # Another status would be for good.
        assert (await session.subscribe("note://c")).status == 429
        other.close()
        await eventually(lambda: used(mcp)["streams"] == 0)
        stream = await session.stream_again()
        assert {changed(await stream.next()) for _ in range(4)} == {"note://a", "tools", "prompts", "resources"}


async def test_what_waits_for_a_session_that_is_parked_is_not_kept() -> None:
    mcp = notes(limits=Limits(liveness=0.05))
    async with live(mcp) as port:
        session = await Session.start(port)
        await session.subscribe("note://a")
        await mcp.notify.resource_updated("note://a")
        parked = mcp._live._legacy._sessions[session.id]
        assert parked.info.waiting == 1
        await eventually(lambda: used(mcp)["streams"] == 0)
        assert parked.info.waiting == 0


async def test_a_subscription_that_is_refused_is_not_counted() -> None:
    mcp = notes(authorize=lambda ctx, uri: "secret" not in uri)

    @mcp.on_first_subscriber("note://broken")
    def broken() -> None:
        raise SourceUnavailable("not now")

    async with live(mcp) as port:
        session = await Session.start(port)
        await session.subscribe("note://a")
        before = used(mcp)
        for uri in ("note://broken", "note://secret", "other://x", "nonsense", "note://a"):
            await session.subscribe(uri)
        assert used(mcp)["streams"] == before["streams"]
        assert abs(used(mcp)["memory"] - before["memory"]) < 100  # That of the latest request, which is kept.
        await session.unsubscribe("note://never")
        await session.delete()
        for uri in ("note://broken", "nonsense"):
            with pytest.raises(Refused):
                await wire.listen(port, wire.wanted([uri], []))
        await eventually(lambda: used(mcp) == NOTHING)


async def test_a_request_that_is_given_up_while_permission_is_asked_is_not_counted() -> None:
    asked = asyncio.Event()

    async def authorize(_: Any, __: str) -> bool:
        asked.set()
        await asyncio.get_running_loop().create_future()
        return True

    mcp = notes(authorize=authorize)
    async with live(mcp) as port:
        connection = await Connection.open(port)
        asking = asyncio.create_task(connection.stream(wire.listen_request(wire.wanted(["note://a"], []))))
        with anyio.fail_after(20):
            await asked.wait()
        assert used(mcp)["streams"] == 1
        connection.abort()
        with pytest.raises(ConnectionError):
            await asking
        await eventually(lambda: used(mcp) == NOTHING)


async def test_sessions_that_are_opened_and_dropped_in_a_loop_are_not_counted_twice() -> None:
    mcp = notes(limits=Limits(streams_per_client=2))
    async with live(mcp) as port:
        for _ in range(10):
            session = await Session.start(port)
            await session.initialize()  # Once more.
            stream = await session.stream()
            assert used(mcp)["streams"] == used(mcp)["sessions"] == 1
            stream.close()
            await session.delete()
            await eventually(lambda: used(mcp) == NOTHING)


async def test_a_handshake_that_the_programs_middleware_refuses_is_counted_while_the_sdk_keeps_its_session() -> None:
    server: Any = MCPServer("picky")

    async def refuse(ctx: Any, call_next: Any) -> Any:
        if ctx.method == "initialize":
            raise MCPError(-32600, "No.")
        return await call_next(ctx)

    server._lowlevel_server.middleware.append(refuse)
    live_ = attach(server, limits=Limits(streams_per_client=2, session_idle=0.3))
    async with serving(server.streamable_http_app()) as port:
        assert [(await shake_hands(port)).status for _ in range(3)] == [200, 200, 429]
        await eventually(lambda: live_._core.budget.used == NOTHING)
        await live_.aclose()


async def test_streams_that_a_session_has_beside_its_own_count_until_they_close() -> None:
    async with resuming() as both:
        assert used(both.mcp)["streams"] == 2
        both.own.abort()  # The other takes over.
        await eventually(lambda: used(both.mcp)["streams"] == 1)
        both.resumed.abort()
        await both.session.delete()
        await eventually(lambda: used(both.mcp) == NOTHING)


async def test_streams_that_a_session_has_beside_its_own_are_refused_if_there_are_too_many() -> None:
    with pytest.raises(Refused) as refused:
        async with resuming(streams_per_client=1):
            pass
    assert_refused(refused.value.response, 429, "streams_per_client")


async def test_an_event_stream_of_the_programs_own_is_not_counted() -> None:
    mcp = notes(limits=Limits(streams_per_client=1))

    @mcp.custom_route("/ticks", methods=["GET"])
    async def ticks(_: Any) -> StreamingResponse:
        async def events() -> AsyncGenerator[str]:
            yield "data: {}\n\n"
            await asyncio.get_running_loop().create_future()

        return StreamingResponse(events(), media_type="text/event-stream")

    async with live(mcp) as port:
        for _ in range(3):
            connection = await Connection.open(port)
            await connection.stream(wire.http("GET", {"Accept": "text/event-stream"}, path="/ticks"))
            await connection.next()
        await eventually(lambda: used(mcp) == NOTHING)
        await wire.close_all()


# Sessions that every replica serves


async def test_a_replica_without_room_for_a_session_of_another_one_says_so_and_keeps_nothing_of_it() -> None:
    async with world(limits=Limits(streams_per_client=1)) as all_:
        session = await Session.start(all_.ports[0])
        await session.subscribe("note://a")
        other = await Session.start(all_.ports[1])
        session.port = all_.ports[1]
        for _ in range(2):
            refused = await session.request("tools/list")
            assert (refused.status, refused.headers["retry-after"]) == (429, "1")
            assert refused.error["data"]["code"] == "limit-reached"
        (await session.stream()).close()  # Another status would be for good.
        await eventually(lambda: all_.held(1) == 1)
        await other.delete()
        await eventually(lambda: used(all_.servers[1]) == NOTHING)
        stream = await session.stream_again()
        await all_.publish("note://a")
        assert changed(await stream.next()) == "note://a"
        assert used(all_.servers[1])["streams"] == 1
        await session.delete()
        for server in all_.servers:
            await eventually(lambda server=server: used(server) == NOTHING)


async def test_a_replica_without_memory_for_the_subscriptions_of_a_session_does_not_open_its_stream() -> None:
    async with world(limits=Limits(memory=700_000)) as all_:
        session = await Session.start(all_.ports[0])
        for uri in uris(10, length=8_000):
            assert (await session.subscribe(uri)).json["result"] == {}
        full = await subscribe("legacy", all_.ports[1], uris(9, length=8_000))
        session.port = all_.ports[1]
        (await session.stream()).close()
        assert all_.servers[1].notify.subscribers(uris(10, length=8_000)[9]) == []
        await full.leave()
        await eventually(lambda: used(all_.servers[1])["streams"] <= 1)
        stream = await session.stream_again()
        await all_.publish(uris(10, length=8_000)[9])
        assert changed(await stream.next()) == uris(10, length=8_000)[9]


# What a request may bring along


def traced() -> int:
    """The bytes that Python holds."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize(
    "headers",
    [{"X-Long": "x" * 70_000}, {f"X-{number}": "" for number in range(600)}],
    ids=["a long one", "many"],
)
async def test_headers_that_take_too_much_memory_are_refused(headers: dict[str, str]) -> None:
    mcp = notes()
    async with live(mcp) as port:
        with pytest.raises(Refused) as refused:
            await wire.listen(port, wire.wanted(["note://a"], []), headers=headers)
        assert refused.value.response.status == 431
        assert b"65536" in refused.value.response.body
        assert (await Session(port, headers=headers).post(wire.message("initialize", HELLO, 1))).status == 431
        await wire.listen(port, wire.wanted(["note://a"], []), headers={"X-Long": "x" * 50_000})
        assert used(mcp)["memory"] > 50_000


async def test_a_very_long_name_of_a_client_is_not_kept() -> None:
    mcp = notes()
    async with live(mcp) as port:
        await shake_hands(port, clientInfo={"name": "n" * 100_000, "version": "v" * 100_000})
        [info] = mcp.notify.subscribers()
        assert len(info.client) < 300
        assert used(mcp)["memory"] > 200_000


@pytest.mark.parametrize("asks", [False, True], ids=["for all", "for some"])
@pytest.mark.parametrize(
    ("count", "length", "times", "junk"),
    [
        (2_000, 30, 1, None),
        (20, 8_000, 1, None),
        (1, 8_000, 50, None),
        (1, 20, 1, [{}] * 20_000),
        (1, 20, 1, ["x"] * 20_000),
        (1, 20, 1, {str(number): number for number in range(20_000)}),
        (1, 20, 1, "\N{BALLOON}" + "x" * 200_000),
        (1, 20, 1, [1.5] * 20_000),
    ],
    ids=["many", "long", "the same again", "objects", "texts", "a mapping", "wide text", "numbers"],
)
async def test_a_listen_stream_takes_no_more_memory_than_is_counted(
    count: int, length: int, times: int, junk: Any, asks: bool
) -> None:
    mcp = notes(authorize=(lambda ctx, uri: True) if asks else None)
    async with live(mcp) as port:
        first = await wire.listen(port, wire.wanted(["note://a"], []))
        await first.next()
        gc.collect()
        tracemalloc.start()
        try:
            counted = used(mcp)["memory"]
            stream = await Connection.open(port)
            request = wire.listen_request(wire.wanted(uris(count, length) * times, []), x=junk)
            before = traced()
            await stream.stream(request)
            await stream.next()
            stream.frames.clear()
            await eventually(lambda: traced() - before <= used(mcp)["memory"] - counted)
        finally:
            tracemalloc.stop()
            await wire.close_all()


HEAVY = [{}] * 20_000


@both_eras
async def test_nothing_is_kept_of_a_request_that_was_refused(era: Era) -> None:
    mcp = notes(limits=Limits(streams_per_client=1))
    async with live(mcp) as port:
        await subscribe("modern", port, ["note://a"])
        heavy = wire.listen_request(wire.wanted(["note://a"], []), x=HEAVY)
        if era == "legacy":
            hello = {**HELLO, "capabilities": {"experimental": {"x": {"y": HEAVY}}}}
            heavy = wire.http("POST", wire.JSON, wire.message("initialize", hello, 7))
        tracemalloc.start()
        try:
            before = traced()
            for _ in range(3):  # Their connections stay open.
                assert (await (await Connection.open(port)).exchange(heavy)).status == 429
            for _ in range(500):  # Not for long: the web server closes these connections after 5 seconds.
                await anyio.lowlevel.checkpoint()
            assert traced() - before < 1_000_000
        finally:
            tracemalloc.stop()


async def say(port: int, path: str, method: str, params: Any = None, number: Any = None) -> int:
    """Post a message of the SSE transport."""
    return (await wire.once(port, wire.http("POST", wire.JSON, wire.message(method, params, number), path))).status


@asynccontextmanager
async def sse_session(port: int) -> AsyncGenerator[str]:
    """A connection of the SSE transport; yields the path for its messages."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(wire.http("GET", {"Accept": "text/event-stream"}, path="/sse"))
    found = await reader.readuntil(b"session_id=")
    path = found[found.rindex(b"data: ") + 6 :] + await reader.readexactly(32)
    yield path.decode()
    writer.close()


async def test_an_sse_connection_takes_no_more_memory_than_is_counted() -> None:
    mcp = notes()
    async with live_sse(mcp) as port:
        async with sse_session(port) as path:
            await say(port, path, "ping", number=1)
        await eventually(lambda: used(mcp) == NOTHING)
        tracemalloc.start()
        try:
            before = traced()
            async with sse_session(port) as path:
                for _ in range(12):  # Of which the SDK keeps eight.
                    assert await say(port, path, "notifications/x", {"y": HEAVY}) == 202
                assert await say(port, path, "initialize", HELLO, 1) == 202
                assert await say(port, path, "ping", {"_meta": {"y": HEAVY}}, 2) == 202
                await eventually(lambda: traced() - before <= used(mcp)["memory"])
                assert used(mcp)["memory"] > 10_000_000
        finally:
            tracemalloc.stop()
        await eventually(lambda: used(mcp) == NOTHING)


async def test_messages_of_an_sse_connection_that_are_too_heavy_are_refused_and_others_are_not() -> None:
    mcp = notes(limits=Limits(memory=60_000_000))
    async with live_sse(mcp) as port, sse_session(port) as path:
        assert [await say(port, path, "notifications/x", {"y": HEAVY}) for _ in range(3)] == [202, 429, 429]
        assert await say(port, path, "initialize", HELLO, 1) == 202
        assert await say(port, path, "notifications/initialized") == 202
        await eventually(lambda: len(mcp.notify.subscribers()) == 1)


async def test_a_session_does_not_keep_its_last_message() -> None:
    mcp = notes()
    async with live(mcp) as port:
        session = await Session.start(port)
        heavy = wire.message("ping", {"_meta": {"y": HEAVY}}, 5)
        unasked = json.dumps({"jsonrpc": "2.0", "id": 77, "result": {"y": HEAVY}}).encode()
        await session.post(wire.message("ping", number=4))
        tracemalloc.start()
        try:
            before = traced()
            for body, status in ((heavy, 200), (unasked, 202), (wire.message("notifications/x", {"y": HEAVY}), 202)):
                assert (await session.post(body)).status == status
                await eventually(lambda: traced() - before < 500_000)
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("asks", [False, True], ids=["for all", "for some"])
@pytest.mark.parametrize(
    "junk", [None, [{}] * 20_000, "\N{BALLOON}" + "x" * 200_000], ids=["little", "objects", "wide"]
)
async def test_a_session_takes_no_more_memory_than_is_counted(junk: Any, asks: bool) -> None:
    mcp = notes(authorize=(lambda ctx, uri: True) if asks else None)
    async with live(mcp) as port:

        async def open_one() -> None:
            session = await Session.start(port)
            await session.post(
                wire.message("initialize", {**HELLO, "capabilities": {"experimental": {"x": {"y": junk}}}}, 1)
            )
            for uri in uris(20):
                await session.request("resources/subscribe", {"uri": uri, "_meta": {"x": junk}})

        await open_one()
        gc.collect()
        tracemalloc.start()
        try:
            counted, before = used(mcp)["memory"], traced()
            await open_one()
            await eventually(lambda: traced() - before <= used(mcp)["memory"] - counted)
        finally:
            tracemalloc.stop()


# Clients that are refused


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask those who are refused to come back at once."""
    monkeypatch.setattr("tidings.server.http_exchange._WAIT_FOR_ROOM", 0)


def hears(mcp: LiveServer[Any], uri: str) -> bool:
    return any(uri in info.subscriptions for info in mcp.notify.subscribers())


@pytest.mark.usefixtures("at_once")
async def test_a_live_client_whose_stream_is_refused_comes_back_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "tidings.client")
    mcp = notes(limits=Limits(streams_per_client=2))
    async with live(mcp) as port:
        others = [await subscribe("modern", port, ["note://a"]) for _ in range(2)]
        async with tidings.connect(f"http://127.0.0.1:{port}/mcp", era=wire.MODERN) as client:
            assert {tool.name for tool in client.tools} == {"nothing", "wait_for_change"}
            await eventually(lambda: "2 streams and sessions" in caplog.text)
            for other in others:
                other.close()
            await eventually(lambda: any("tools" in info.features for info in mcp.notify.subscribers()))
            mcp.add_tool(lambda: None, name="new")
            await eventually(lambda: len(client.tools) == 2)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_live_client_whose_connection_is_refused_comes_back_by_itself(transport: str) -> None:
    mcp = notes(limits=Limits(streams_per_client=2))
    is_sse = transport == "sse"
    async with live_sse(mcp) if is_sse else live(mcp) as port, anyio.create_task_group() as tasks:
        others = [await (sse(port) if is_sse else wire.listen(port, wire.wanted(["note://a"], []))) for _ in range(2)]
        path = "sse" if is_sse else "mcp"
        client = tidings.connect(f"http://127.0.0.1:{port}/{path}", era="legacy")

        async def make_room() -> None:
            await eventually(lambda: isinstance(client.error, LimitReached))
            for other in others:
                other.close()

        tasks.start_soon(make_room)
        async with client:
            await client.subscribe("note://b")
            assert hears(mcp, "note://b")


@pytest.mark.usefixtures("at_once")
async def test_a_live_client_that_may_have_no_more_memory_subscribes_to_what_it_can() -> None:
    mcp = notes(limits=Limits(memory=700_000))
    async with live(mcp) as port, tidings.connect(f"http://127.0.0.1:{port}/mcp", era="legacy") as client:
        with pytest.raises(LimitReached, match="bytes of memory"):
            await client.subscribe(uris(100, length=8_000))
        assert hears(mcp, uris(1, length=8_000)[0])
        assert (await client.read_resource("note://a")).text == "a"


async def test_a_stock_client_of_the_sse_transport_that_is_refused_gets_the_status() -> None:
    mcp = notes(limits=Limits(streams_per_client=1))
    async with live_sse(mcp) as port:
        await sse(port)
        with pytest.raises(httpx2.HTTPStatusError, match="429"):
            async with Client(sse_client(f"http://127.0.0.1:{port}/sse"), mode="legacy"):
                pass


async def test_a_stock_client_that_is_refused_is_told_why() -> None:
    mcp = notes(limits=Limits(streams_per_client=1))
    async with live(mcp) as port:
        first = await subscribe("modern", port, ["note://a"])
        url = f"http://127.0.0.1:{port}/mcp"
        with refused_client() as said:
            async with Client(url, mode="legacy"):
                pass
        assert said[0].message.startswith("This client has 1 streams")
        async with Client(url, mode=wire.MODERN) as client:
            with pytest.raises(MCPError, match="This client has 1 streams") as refusal:
                async with client.listen(resource_subscriptions=["note://b"]):
                    pass
            assert refusal.value.error.data["limit"] == "streams_per_client"
            await first.leave()
            await eventually(lambda: used(mcp) == NOTHING)
            async with client.listen(resource_subscriptions=["note://b"]):
                pass
