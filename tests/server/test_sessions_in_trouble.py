"""Legacy sessions on every replica, while requests race, are refused, or fail half-way."""

import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

import anyio.lowlevel
import pytest
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.server import wire
from tests.server.serving import eventually, serving
from tests.server.test_sessions import ADA, AUTH, Away, Tokens, shared_of, world
from tests.server.wire import Session, message
from tidings.bus.memory import MemoryBus
from tidings.changes import Change, Cursor
from tidings.errors import BusUnavailable
from tidings.server import Limits, attach
from tidings.server.live import Live
from tidings.server.notify import NOTICE

pytestmark = pytest.mark.anyio


async def test_a_change_while_a_replica_learns_of_subscriptions_is_heard() -> None:
    async with world() as all_:
        asked, go_on = anyio.Event(), anyio.Event()

        @all_.servers[1].on_first_subscriber("note://a")
        async def slow() -> None:
            asked.set()
            await go_on.wait()

        session = await Session.start(all_.ports[0])
        await session.subscribe("note://a")
        await session.subscribe("note://b")
        session.port = all_.ports[1]
        streams: list[Any] = []
        async with anyio.create_task_group() as tasks:

            async def open_stream() -> None:
                streams.append(await session.stream())

            tasks.start_soon(open_stream)
            with anyio.fail_after(20):
                await asked.wait()
            await all_.publish("note://b")
            go_on.set()
        assert (await streams[0].next())["params"]["uri"] == "note://b"


@pytest.mark.parametrize("keeps_records", [True, False])
async def test_a_log_that_is_lost_with_a_notice_leaves_no_stream_deaf(keeps_records: bool) -> None:
    bus = MemoryBus()
    async with world(lambda: bus) as all_:
        session = await Session.start(all_.ports[0])
        stream = await session.stream()
        deaf = shared_of(all_, 0)
        hear, deaf.noticed = deaf.noticed, lambda uri: None  # type: ignore[method-assign]
        session.port = all_.ports[1]
        await session.subscribe("note://a")
        deaf.noticed = hear  # type: ignore[method-assign]
        if not keeps_records:
            await bus.records.delete(f"session/{session.id}")
        for replica in range(3):  # As when a replica hears that the log was lost.
            shared_of(all_, replica).noticed(None)
        with anyio.fail_after(20):
            await eventually(lambda: all_.servers[0].notify.subscribers("note://a"))
            await all_.publish("note://a", 2)
            while (await stream.next())["params"].get("uri") != "note://a":
                pass


@pytest.mark.parametrize("keeps_records", [True, False])
async def test_a_log_that_every_notice_loses_does_not_make_replicas_talk_without_end(keeps_records: bool) -> None:
    """As when the clocks of replicas differ by a day: each change seems to be so much older than the others."""

    class Forgetful(MemoryBus):
        notices = 0

        async def publish(self, change: Change) -> Cursor:
            if str(getattr(change, "uri", "")).startswith(NOTICE):
                Forgetful.notices += 1
                for replica in range(3):
                    shared_of(all_, replica).noticed(None)
                if not keeps_records:
                    await self.records.delete(f"session/{session.id}")
            return await super().publish(change)

    bus = Forgetful()
    async with world(lambda: bus) as all_:
        session = await Session.start(all_.ports[0])
        await session.stream()
        for replica in (2, 1):
            session.port = all_.ports[replica]
            await session.subscribe("note://a")
        for _ in range(2_000):
            await anyio.lowlevel.checkpoint()
        assert Forgetful.notices < 20


async def test_a_record_that_expired_too_early_is_put_together_again() -> None:
    """As when the clock of the broker is set forward: no replica alone knows all subscriptions."""
    bus = MemoryBus()
    async with world(lambda: bus) as all_:
        session = await Session.start(all_.ports[0])
        stream = await session.stream()
        for replica, uri in ((1, "note://a"), (0, "note://b")):
            session.port = all_.ports[replica]
            await session.subscribe(uri)
        await bus.records.delete(f"session/{session.id}")
        session.port = all_.ports[1]
        await session.subscribe("note://c")
        for uri in ("note://c", "note://a", "note://b"):
            await eventually(lambda uri=uri: all_.servers[0].notify.subscribers(uri))
            await all_.publish(uri, 2)
            with anyio.fail_after(20):
                while (await stream.next())["params"].get("uri") != uri:
                    pass


async def test_what_was_unsubscribed_from_stays_so_when_the_log_is_lost() -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        await session.stream()
        await session.subscribe("note://a")
        session.port = all_.ports[1]
        await session.request("ping")  # This replica knows of the subscription.
        session.port = all_.ports[0]
        assert (await session.unsubscribe("note://a")).json["result"] == {}
        before = shared_of(all_, 1)._held[cast("str", session.id)].record.edition
        for replica in range(3):
            shared_of(all_, replica).noticed(None)
        for replica in (0, 1):
            held = shared_of(all_, replica)._held[cast("str", session.id)]
            await eventually(lambda held=held: held.record.edition > before and not held.record.subscriptions)
        assert not all_.servers[0].notify.subscribers("note://a")


async def test_a_lost_record_does_not_end_the_sessions_whose_ids_begin_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.server.sessions._start", lambda session_id: "abc")
    bus = MemoryBus()
    async with world(lambda: bus) as all_:
        one, two = await Session.start(all_.ports[0]), await Session.start(all_.ports[0])
        stream = await two.stream()
        for session in (one, two):
            await bus.records.delete(f"session/{session.id}")
        assert (await one.subscribe("note://a")).json["result"] == {}
        with anyio.fail_after(20):
            while await bus.records.get(f"session/{two.id}") is None:
                await anyio.lowlevel.checkpoint()
        assert stream.ended is None
        assert (await two.request("ping")).status == 200


async def test_a_subscription_whose_source_fails_here_still_hears_the_other_replicas() -> None:
    async with world() as all_:

        @all_.servers[1].on_first_subscriber("note://a")
        async def fails() -> None:
            raise RuntimeError("Its source is away.")

        session = await Session.start(all_.ports[0])
        await session.subscribe("note://a")
        session.port = all_.ports[1]
        stream = await session.stream()
        await all_.publish("note://a")
        with anyio.fail_after(20):
            assert (await stream.next())["params"]["uri"] == "note://a"


async def test_two_levels_at_once_hold_up_nothing() -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        session.port = all_.ports[1]
        await session.request("ping")
        held = shared_of(all_, 1)._held[session.id]
        session.port = all_.ports[0]
        async with held.turn:
            for level in ("debug", "info"):
                await session.request("logging/setLevel", {"level": level})
        session.port = all_.ports[1]
        with anyio.fail_after(20):
            assert (await session.subscribe("note://a")).json["result"] == {}
        assert shared_of(all_, 1)._held[session.id].record.level == "info"


async def test_a_letter_that_cannot_be_read_at_once_is_read_later() -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        session.port = all_.ports[1]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.post, message("tools/call", {"name": "wait", "arguments": {}}, 77))
            await all_.waiting.wait()
            sessions = shared_of(all_, 1)
            records, failed = sessions._records._stored, list[str]()

            class Hiccup:
                def __getattr__(self, name: str) -> Any:
                    return getattr(records, name)

                async def get(self, key: str) -> Any:
                    if key.startswith("letter/") and not failed:
                        failed.append(key)
                        raise BusUnavailable("once")
                    return await records.get(key)

            sessions._records._stored = Hiccup()
            session.port = all_.ports[2]
            await session.post(message("notifications/cancelled", {"requestId": 77}))
            with anyio.fail_after(20):
                await all_.cancelled.wait()


async def test_a_stream_that_is_refused_takes_nothing_from_the_open_one() -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        stream = await session.stream()
        session.port = all_.ports[1]
        refused = wire.http("GET", {"Accept": "application/json", "Mcp-Session-Id": str(session.id)})
        assert (await wire.once(session.port, refused)).status == 406
        assert (await session.subscribe("note://a")).json["result"] == {}
        await all_.publish("note://a")
        with anyio.fail_after(20):
            assert (await stream.next())["params"]["uri"] == "note://a"


async def test_a_refused_request_does_not_lend_its_credential_to_a_session() -> None:
    async with world(auth=AUTH, token_verifier=Tokens()) as all_:
        session = Session(all_.ports[0])
        params = {"protocolVersion": wire.LEGACY, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        session.id = (await session.post(message("initialize", params, 0), **ADA)).headers["mcp-session-id"]
        await session.post(message("ping", number=1), **ADA)
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                await session.post(message("tools/call", {"name": "wait", "arguments": {}}, 77), **ADA)

            tasks.start_soon(run)
            await all_.waiting.wait()
            assert (await session.post(message("ping", number=2))).status == 401
            session.port = all_.ports[1]
            cancel = message("notifications/cancelled", {"requestId": 77})
            assert (await session.post(cancel, **ADA)).status == 202
            with anyio.fail_after(20):
                await all_.cancelled.wait()


async def test_an_end_is_an_end_even_if_another_replica_writes_at_the_same_time() -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        session.port = all_.ports[1]
        await session.request("ping")
        sessions = shared_of(all_, 1)
        records = sessions._records._stored

        class Slow:
            def __getattr__(self, name: str) -> Any:
                return getattr(records, name)

            async def put(self, *arguments: Any, **options: Any) -> Any:
                sessions._records._stored = records
                session.port = all_.ports[0]
                assert (await session.delete()).status == 200
                return await records.put(*arguments, **options)

        sessions._records._stored = Slow()
        await session.subscribe("note://a")
        for port in all_.ports:
            session.port = port
            with anyio.fail_after(20):
                while (await session.request("ping")).status != 404:
                    await anyio.lowlevel.checkpoint()


async def test_a_session_ends_at_a_replica_whose_app_is_mounted_inside_the_wrapper() -> None:
    async with AsyncExitStack() as stack:
        bus, managers, ports = MemoryBus(), list[Any](), list[int]()
        for _ in range(2):
            server: Server[Any] = Server("low")
            here = attach(server, bus=bus)
            manager = StreamableHTTPSessionManager(server)
            managers.append(manager)

            @asynccontextmanager
            async def lifespan(_: Any, manager: StreamableHTTPSessionManager = manager) -> AsyncGenerator[None]:
                async with manager.run():
                    yield

            app = Starlette(routes=[Mount("/mcp", app=manager.handle_request)], lifespan=lifespan)
            ports.append(await stack.enter_async_context(serving(here.wrap(app))))
            stack.push_async_callback(here.aclose)
        stack.push_async_callback(wire.close_all)
        session = Session(ports[0], "/mcp/")
        await session.initialize()
        session.port = ports[1]
        assert (await session.request("ping")).status == 200
        assert (await session.delete()).status == 200
        await eventually(lambda: not managers[0]._server_instances)


async def test_an_app_that_is_wrapped_twice_looks_for_a_session_once() -> None:
    async with AsyncExitStack() as stack:
        bus, lives, ports = MemoryBus(), list[Live](), list[int]()
        for _ in range(2):
            server: MCPServer[Any] = MCPServer("twice")
            lives.append(attach(server, bus=bus))
            ports.append(await stack.enter_async_context(serving(lives[-1].wrap(server.streamable_http_app()))))
            stack.push_async_callback(lives[-1].aclose)
        session = await Session.start(ports[0])
        session.port = ports[1]
        assert (await session.request("ping")).status == 200
        cast("Any", lives[1])._sessions._records._stored = Away()
        assert (await session.request("ping")).status == 200


async def test_a_replica_without_room_for_a_subscriber_sends_its_stream_away() -> None:
    async with world(limits=Limits(streams=1)) as all_:
        session = await Session.start(all_.ports[0])
        await session.subscribe("note://a")
        other = await Session.start(all_.ports[1])
        session.port = all_.ports[1]
        (await session.stream()).close()
        await other.delete()
        await all_.publish("note://a")
        stream = await session.stream_again()
        assert (await stream.next())["params"]["uri"] == "note://a"


async def test_a_second_handshake_within_a_session_keeps_its_subscriptions() -> None:
    async with world() as all_:
        session = await Session.start(all_.ports[0])
        await session.subscribe("note://a")
        await session.initialize()
        session.port = all_.ports[1]
        stream = await session.stream()
        await all_.publish("note://a")
        assert (await stream.next())["params"]["uri"] == "note://a"


async def test_a_handshake_that_is_too_large_for_the_bus_is_served_by_its_replica() -> None:
    async with world() as all_:
        session = Session(all_.ports[0])
        client = {"name": secrets.token_hex(700_000), "version": "1"}
        params = {"protocolVersion": wire.LEGACY, "capabilities": {}, "clientInfo": client}
        session.id = (await session.post(message("initialize", params, 0))).headers["mcp-session-id"]
        assert "result" in (await session.request("tools/list")).json
