"""Several of a kind: servers on one bus, and streams of one session, at once or one after another."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import Context
from mcp.server.streamable_http import EventMessage, EventStore

from tests.server import wire
from tests.server.hearing import MODERN, connected, listening
from tests.server.sample import TODAY, build
from tests.server.serving import eventually, live, notes, serving
from tests.server.wire import Connection, Session, changed, subscribe
from tidings import LiveServer, ResourceUpdated
from tidings.bus.memory import MemoryBus
from tidings.bus.sqlite import SqliteBus
from tidings.server import Limits

pytestmark = pytest.mark.anyio

LISTS = {"tools", "prompts", "resources"}

# Servers


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_server_that_ends_does_not_deafen_another_on_its_bus(kind: str, tmp_path: Path) -> None:
    bus = MemoryBus() if kind == "memory" else SqliteBus(tmp_path / "bus", poll=0.01)
    stays, goes = build(bus=bus), build(bus=bus)
    async with connected(stays, MODERN) as ear, listening(ear, TODAY) as listen:
        for _ in range(2):
            async with connected(goes, MODERN) as other, listening(other, TODAY) as heard:
                before = len(listen.heard)
                await goes.notify.resource_updated(TODAY)
                await heard.hears(ResourceUpdated(TODAY))
                await ear.until(lambda: len(listen.heard) > before)  # noqa: B023 - awaited at once
        before = len(listen.heard)
        await stays.notify.resource_updated(TODAY)
        await ear.until(lambda: len(listen.heard) > before)
    # When both have gone, the bus begins anew with whoever comes next.
    async with connected(goes, MODERN) as ear, listening(ear, TODAY) as listen:
        await goes.notify.resource_updated(TODAY)
        await listen.hears(ResourceUpdated(TODAY))


# Streams


class Store(EventStore):
    """Remembers what the SDK wrote, so that a client can resume the answer to a call that was broken off."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str:
        place = int(last_event_id)
        stream = self.events[place - 1][0]
        for number, (other, message) in enumerate(self.events[place:], place + 1):
            if other == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


class Resumed:
    """A session with two event streams: its own, and one on which it resumed the answer to a call."""

    def __init__(self, mcp: LiveServer[Any], session: Session, own: Connection, resumed: Connection) -> None:
        self.mcp = mcp
        self.session = session
        self.own = own
        self.resumed = resumed
        self.answer = asyncio.Event()

    @property
    def streams(self) -> int:
        """How many the server has open."""
        assert self.session.id
        legacy = self.mcp._live._legacy
        in_use = legacy._sessions[self.session.id].stream is not None
        return in_use + len(legacy._spare.get(self.session.id, ()))


@asynccontextmanager
async def resuming(**limits: Any) -> AsyncGenerator[Resumed]:
    mcp, store, answer = notes(limits=Limits(**limits)), Store(), asyncio.Event()

    @mcp.tool()
    async def slow(ctx: Context) -> str:
        await ctx.close_sse_stream()
        await answer.wait()
        return "done"

    async with live(mcp, event_store=store) as port:
        session = await Session.start(port)
        await session.subscribe("note://a")
        own = await session.stream()
        call = await Connection.open(port)
        body = wire.message("tools/call", {"name": "slow", "arguments": {}}, 77)
        await call.stream(wire.http("POST", {**wire.JSON, **session.headers}, body))
        assert await call.over() == "end"
        resumed = await Connection.open(port)
        last = {"Accept": "text/event-stream", "Last-Event-ID": str(len(store.events))}
        await resumed.stream(wire.http("GET", {**last, **session.headers}))
        both = Resumed(mcp, session, own, resumed)
        both.answer = answer
        await eventually(lambda: both.streams == 2)
        yield both
        answer.set()


async def test_a_session_that_resumes_a_call_hears_of_changes_on_its_own_stream() -> None:
    async with resuming() as both:
        await both.mcp.notify.resource_updated("note://a")
        assert changed(await both.own.next()) == "note://a"
        both.answer.set()
        assert (await both.resumed.next())["result"]["structuredContent"] == {"result": "done"}
        assert len(both.resumed.frames) == 1


async def test_the_end_of_a_resumed_call_does_not_park_its_session() -> None:
    async with resuming(liveness=0.3) as both:
        both.resumed.close()
        await eventually(lambda: both.streams == 1)
        # By the time that a session without a stream is parked, this one would be as well.
        await Session.start(both.session.port)
        await eventually(lambda: len(both.mcp.notify.subscribers()) == 2)
        await eventually(lambda: len(both.mcp.notify.subscribers()) == 1)
        await both.mcp.notify.resource_updated("note://a")
        assert changed(await both.own.next()) == "note://a"
        assert len(both.own.frames) == 1


async def test_when_a_sessions_own_stream_closes_another_takes_over_and_is_told_everything() -> None:
    async with resuming(liveness=0.1) as both:
        both.own.abort()
        assert {changed(await both.resumed.next()) for _ in range(4)} == {"note://a"} | LISTS
        await both.mcp.notify.resource_updated("note://a")
        assert changed(await both.resumed.next()) == "note://a"
        both.resumed.abort()
        await eventually(lambda: both.mcp.notify.subscribers() == [])
        again = await both.session.stream_again()
        assert {changed(await again.next()) for _ in range(4)} == {"note://a"} | LISTS


@pytest.mark.parametrize("liveness", [60.0, 0.05], ids=["kept", "parked"])
async def test_a_session_whose_last_write_never_ended_is_written_to_when_it_returns(liveness: float) -> None:
    mcp = notes(limits=Limits(liveness=liveness))
    app, stuck = mcp.asgi(), asyncio.Event()

    async def middleware(scope: Any, receive: Any, send: Any) -> None:
        async def send_or_stick(message: Any) -> None:
            if b"note://a" in message.get("body", b"") and not stuck.is_set():
                stuck.set()
                await asyncio.get_running_loop().create_future()
            await send(message)

        await app(scope, receive, send_or_stick)

    async with serving(middleware) as port:
        subscription = await subscribe("legacy", port, ["note://a", "note://b"])
        session = subscription.session
        assert session
        await mcp.notify.resource_updated("note://a")
        await stuck.wait()
        await mcp.notify.resource_updated("note://b")
        [info] = mcp.notify.subscribers()
        assert info.waiting  # More than one if it was parked before its stream was open, and is told everything.
        subscription.stream.abort()
        await eventually(lambda: liveness > 1 or mcp.notify.subscribers() == [])
        stream = await session.stream_again()
        assert {changed(await stream.next()) for _ in range(5)} == {"note://a", "note://b"} | LISTS
        await mcp.notify.resource_updated("note://a")
        assert changed(await stream.next()) == "note://a"
        await mcp.aclose()
        await wire.close_all()
