"""The stop: who hears the signals, and that nothing slow holds it up."""

import asyncio
import signal
import sqlite3
from collections.abc import Generator
from contextlib import AsyncExitStack
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import anyio
import pytest

from tests.server import wire
from tests.server.doubles import Reader, turns
from tests.server.programs import SEND_BUFFER
from tests.server.serving import PROMPT, eventually, live, notes, serving_apart
from tests.server.wire import Era, Session, both_eras, subscribe
from tidings.bus.memory import MemoryBus
from tidings.changes import Change, Cursor
from tidings.server import Coalesce, Limits
from tidings.server.stop import BUS, CALLS, CANCELLED, DRAIN, END, FLUSH, HOOKS, Share, StopBudget, StopSignals

pytestmark = pytest.mark.anyio

STOPPED = {"modern": "result", "legacy": "end"}

# Signals


class Hearers:
    """Who heard a signal: whoever handles it in this process, and some servers."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def server(self, name: str) -> StopSignals:
        return StopSignals(lambda: self.heard.append(name))

    def below(self, number: int, frame: FrameType | None) -> None:
        self.heard.append("below")

    async def of(self, number: signal.Signals = signal.SIGTERM) -> list[str]:
        """Who hears `number` now."""
        self.heard.clear()
        signal.raise_signal(number)
        await turns()
        return sorted(self.heard)


@pytest.fixture
def hearers() -> Generator[Hearers]:
    hearers = Hearers()
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, hearers.below) for number in numbers]
    yield hearers
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_reaches_every_server_and_who_handled_it_before(
    hearers: Hearers, number: signal.Signals
) -> None:
    for name in ("A", "B"):
        hearers.server(name).install(only_if_handled=True)
    assert await hearers.of(number) == ["A", "B", "below"]


@pytest.mark.parametrize("order", ["AB", "BA"])
async def test_servers_of_one_process_stop_in_any_order_and_leave_no_handler(hearers: Hearers, order: str) -> None:
    servers = {name: hearers.server(name) for name in "AB"}
    for server in servers.values():
        server.install(only_if_handled=True)
    first, second = order
    servers[first].uninstall()
    assert await hearers.of() == [second, "below"]
    servers[second].uninstall()
    assert await hearers.of() == ["below"]
    assert signal.getsignal(signal.SIGTERM) == hearers.below
    assert signal.getsignal(signal.SIGINT) == hearers.below


async def test_a_server_that_starts_again_above_its_former_place_hears_a_signal_once(hearers: Hearers) -> None:
    a, b = hearers.server("A"), hearers.server("B")
    a.install(only_if_handled=True)
    b.install(only_if_handled=True)
    for _ in range(3):
        a.uninstall()
        a.install(only_if_handled=True)
        assert await hearers.of() == ["A", "B", "below"]
        b.uninstall()
        b.install(only_if_handled=True)
        a.install(only_if_handled=True)
        assert await hearers.of() == ["A", "B", "below"]


async def test_a_server_hears_again_after_a_web_server_has_taken_all_handlers_away(hearers: Hearers) -> None:
    a, b = hearers.server("A"), hearers.server("B")
    a.install(only_if_handled=True)
    b.install(only_if_handled=True)
    a.uninstall()
    signal.signal(signal.SIGTERM, hearers.below)
    a.install(only_if_handled=True)
    assert await hearers.of() == ["A", "below"]


async def test_a_signal_that_nobody_handles_is_left_to_end_the_process(hearers: Hearers) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hearers.server("A").install(only_if_handled=True)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# The time that it may take


def test_the_parts_of_a_stop_are_over_in_time_though_each_takes_all_it_may() -> None:
    now = 7.0
    budget = StopBudget(lambda: now)
    for share in (CALLS, CANCELLED, FLUSH, DRAIN, END):
        now += budget.left(share)
        assert now == pytest.approx(7 + share.until)
    now += 0.1  # Until the web server has seen that its responses are over.
    for share in (HOOKS, BUS):
        now += budget.left(share)
    assert now <= 7.9


def test_a_stop_with_many_streams_may_take_longer() -> None:
    assert StopBudget(lambda: 7.0, streams=10_000).left(END) == pytest.approx(2 * END.until)


def test_what_one_part_of_a_stop_leaves_over_the_next_may_take() -> None:
    now = 7.0
    budget = StopBudget(lambda: now)
    now += 0.01
    assert budget.left(DRAIN) == pytest.approx(DRAIN.until - 0.01)
    assert budget.left(BUS) == pytest.approx(BUS.until - 0.01)


def test_a_part_that_begins_late_has_little_and_never_less_than_nothing() -> None:
    now = 7.0
    budget = StopBudget(lambda: now)
    now += 60
    assert [budget.left(share) for share in (FLUSH, DRAIN)] == [0, 0]
    assert budget.left(END) == END.at_least > 0
    assert budget.left(HOOKS) == HOOKS.at_least > 0
    assert budget.left(BUS) == BUS.at_least > 0


class StuckBus(MemoryBus):
    """A bus that takes nothing more from some moment on, and does not let go until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.stuck = False
        self.free = asyncio.Event()

    async def publish(self, change: Change) -> Cursor:
        if self.stuck:
            await self.free.wait()
        return await super().publish(change)

    async def __aexit__(self, *_: object) -> None:
        await self.free.wait()


class Spent(StopBudget):
    """The time of a stop, of which nothing is left when it begins; and the parts that asked for some."""

    asked: ClassVar[list[Share]] = []

    def left(self, share: Share) -> float:
        self.asked.append(share)
        return 0.0


async def test_every_part_of_a_stop_draws_on_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts with a time of their own would each take that."""
    monkeypatch.setattr("tidings.server.live.StopBudget", Spent)
    monkeypatch.setattr(Spent, "asked", [])
    bus = StuckBus()
    mcp: Any = notes(bus=bus, coalesce=Coalesce(30, 30))
    mcp.on_last_subscriber("note://a")(bus.free.wait)
    core, leaving, stalled = mcp._live._core, Reader("note://a"), Reader("note://b")
    async with AsyncExitStack() as listening, AsyncExitStack() as living:
        await living.enter_async_context(mcp._live.running())
        await listening.enter_async_context(core.joined(stalled))
        stalled.open()
        stalled.stalls = True
        for _ in range(2):
            await mcp.notify.resource_updated("note://b")
        assert stalled.busy
        bus.stuck = True
        core.join(leaving)
        await core.watched(["note://a"])
        core.leave(leaving)
        with anyio.fail_after(PROMPT):
            await living.aclose()
    bus.free.set()
    await turns()
    assert stalled.events == ["cut", "end"]
    assert Spent.asked == [FLUSH, DRAIN, END, END, HOOKS, BUS]


# What is slow


async def test_a_bus_that_takes_nothing_holds_up_no_stop(tmp_path: Path) -> None:
    """Another process has the file locked, and a change waits that has to be published before the end."""
    bus = tmp_path / "bus"
    async with serving_apart("hindered", tmp_path / "server", str(bus)) as (server, port):
        subscriptions = [await subscribe(era, port, ["note://a"]) for era in ("modern", "legacy") for _ in range(2)]
        await wire.call_tool(port, "touch", uri="note://a")
        for subscription in subscriptions:
            await subscription.until("note://a")
        locking = sqlite3.connect(bus, isolation_level=None)
        locking.execute("BEGIN IMMEDIATE")
        try:
            await wire.call_tool(port, "touch_soon", uri="note://a")
            server.send_signal(signal.SIGTERM)
            seconds, code = await server.gone()
        finally:
            locking.close()
        for subscription in subscriptions:
            assert await subscription.over() == STOPPED[subscription.era]
        assert seconds < PROMPT, server.log.read_text()
        assert code == -signal.SIGTERM
        assert "The bus does not accept" in server.log.read_text()
        assert "ERROR" not in server.log.read_text()


async def test_a_locked_bus_stalled_readers_and_a_slow_source_share_the_time_of_one_stop(tmp_path: Path) -> None:
    bus, eras = tmp_path / "bus", ("modern", "legacy")
    uris = [f"note://{number}-{'x' * 4_000}" for number in range(60)]
    async with serving_apart("hindered", tmp_path / "server", str(bus)) as (server, port):
        healthy = [await subscribe(era, port, ["note://a", "leaving://a"]) for era in eras]
        stalled = [await subscribe(era, port, uris, receive_buffer=SEND_BUFFER) for era in eras]
        for subscription in stalled:
            subscription.stream.stall()
        for uri in (*uris, "note://a"):
            await wire.call_tool(port, "touch", uri=uri)
        waiting = (await wire.call_tool(port, "waiting"))["structuredContent"]["result"]
        assert len([count for count in waiting if count]) == 2
        locking = sqlite3.connect(bus, isolation_level=None)
        locking.execute("BEGIN IMMEDIATE")
        try:
            await wire.call_tool(port, "touch_soon", uri="note://a")
            server.send_signal(signal.SIGTERM)
            seconds, code = await server.gone()
        finally:
            locking.close()
        for subscription in healthy:
            assert await subscription.over() == STOPPED[subscription.era]
        for subscription in stalled:
            subscription.stream.resume()
            assert await subscription.over() == "broken"
        assert seconds < PROMPT, server.log.read_text()
        assert code == -signal.SIGTERM


@both_eras
async def test_a_source_that_is_slow_to_let_go_holds_up_no_stop(era: Era, tmp_path: Path) -> None:
    async with serving_apart("hindered", tmp_path / "server", str(tmp_path / "bus")) as (server, port):
        subscription = await subscribe(era, port, ["leaving://a"])
        server.send_signal(signal.SIGTERM)
        seconds, _ = await server.gone()
        assert await subscription.over() == STOPPED[era]
        assert seconds < PROMPT, server.log.read_text()


async def refusal(era: Era, port: int, uri: str) -> wire.Response:
    """The answer to whoever wants to subscribe, and may not."""
    if era == "legacy":
        return await (await Session.start(port)).subscribe(uri)
    with pytest.raises(wire.Refused) as refused:
        await wire.listen(port, wire.wanted([uri], []))
    return refused.value.response


@both_eras
async def test_whoever_waits_for_a_source_at_the_stop_is_told_to_come_back(era: Era, tmp_path: Path) -> None:
    async with serving_apart("hindered", tmp_path / "server", str(tmp_path / "bus")) as (server, port):
        other = await subscribe(era, port, ["note://a"])
        asking = asyncio.ensure_future(refusal(era, port, "slow://a"))
        while await server.line() != "a is asked for":
            pass  # What the web server says of its requests.
        server.send_signal(signal.SIGTERM)
        seconds, _ = await server.gone()
        error = (await asking).error
        assert seconds < PROMPT, server.log.read_text()
        assert await other.over() == STOPPED[era]
        assert error["data"]["retryable"] is True
        assert "stopping" in error["message"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("scheme", ["waits", "in-thread", "stubborn"])
@both_eras
async def test_whoever_waits_for_permission_at_the_stop_is_told_to_come_back(
    era: Era, scheme: str, number: signal.Signals, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    async with serving_apart("asking", tmp_path / "server") as (server, port):
        other = await subscribe(era, port, ["note://a"])
        asking = asyncio.ensure_future(refusal(era, port, f"{scheme}:/{mark}"))
        await eventually(mark.exists)
        server.send_signal(number)
        seconds, _ = await server.gone()
        assert seconds < PROMPT, server.log.read_text()
        assert await other.over() == STOPPED[era]
        answer = await asking
        assert (answer.status, answer.headers["retry-after"], answer.error["data"]["limit"]) == (503, "1", "stopping")


@both_eras
async def test_a_stop_lets_go_at_once_of_whoever_has_everything(era: Era) -> None:
    mcp = notes()
    uris = [f"note://{number}-{'x' * 4_000}" for number in range(80)]
    async with live(mcp, send_buffer=16_384) as port:
        stalled = await subscribe(era, port, uris, receive_buffer=16_384)
        healthy = await subscribe(era, port, uris)
        stalled.stream.stall()
        for uri in uris:
            await mcp.notify.resource_updated(uri)
        await healthy.until(uris[-1])
        stop = asyncio.ensure_future(mcp.aclose())
        assert await healthy.over() == STOPPED[era]
        assert not stop.done()
        with anyio.fail_after(10):
            await stop
        stalled.stream.resume()
        assert await stalled.over() == "broken"


async def test_an_app_that_was_taken_apart_stops_with_open_streams(tmp_path: Path) -> None:
    """Its routes are served by another, so that nothing wraps them."""
    async with serving_apart("routes", tmp_path / "server") as (server, port):
        subscription = await subscribe("modern", port, ["note://a"])
        await wire.call_tool(port, "touch", uri="note://a")
        await subscription.until("note://a")
        server.send_signal(signal.SIGTERM)
        seconds, code = await server.gone()
        assert await subscription.over() == "result"
        assert seconds < PROMPT, server.log.read_text()
        assert code == -signal.SIGTERM


async def test_a_subscriber_that_waits_for_its_source_is_not_left_behind_by_a_stop() -> None:
    """The same within one process, whose server may run again: nothing of the one that waited stays."""
    mcp: Any = notes(limits=Limits(liveness=0.05))
    never, asked = asyncio.Event(), asyncio.Event()

    @mcp.on_first_subscriber("note://{name}")
    async def watch(name: str) -> None:  # noqa: ARG001 - the variable of the template
        asked.set()
        await never.wait()

    async with live(mcp) as port:
        session = await Session.start(port)
        asking = asyncio.ensure_future(session.subscribe("note://a"))
        with anyio.fail_after(20):
            await asked.wait()
        await mcp.aclose()
        assert (await asking).error["data"]["limit"] == "stopping"
        assert not mcp.notify.subscribers("note://a")
        never.set()
