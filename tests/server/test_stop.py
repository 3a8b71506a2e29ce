"""The stop: who hears the signals, and that nothing slow holds it up."""

import asyncio
import signal
import sqlite3
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import pytest

from tests.server import wire
from tests.server.doubles import turns
from tests.server.serving import eventually, live, notes, serving_apart
from tests.server.wire import Era, Session, both_eras, subscribe
from tidings.server import Limits
from tidings.server.stop import StopSignals

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


# What is slow


async def test_a_bus_that_takes_nothing_holds_up_no_stop(tmp_path: Path) -> None:
    """Another process has the file locked, and a change is held back that has to be published before the end."""
    bus = tmp_path / "bus"
    async with serving_apart("hindered", tmp_path / "server", str(bus)) as (server, port):
        subscriptions = [await subscribe(era, port, ["note://a"]) for era in ("modern", "legacy") for _ in range(2)]
        await wire.call_tool(port, "touch", uri="note://a")
        for subscription in subscriptions:
            await subscription.until("note://a")
        locking = sqlite3.connect(bus, isolation_level=None)
        locking.execute("BEGIN IMMEDIATE")
        try:
            await wire.call_tool(port, "touch", uri="note://a")
            server.send_signal(signal.SIGTERM)
            seconds, code = await server.gone()
        finally:
            locking.close()
        for subscription in subscriptions:
            assert await subscription.over() == STOPPED[subscription.era]
        assert seconds < 1.2, server.log.read_text()
        assert code == -signal.SIGTERM
        assert "the bus does not take" in server.log.read_text()
        assert "ERROR" not in server.log.read_text()


@both_eras
async def test_a_source_that_is_slow_to_let_go_holds_up_no_stop(era: Era, tmp_path: Path) -> None:
    async with serving_apart("hindered", tmp_path / "server", str(tmp_path / "bus")) as (server, port):
        subscription = await subscribe(era, port, ["leaving://a"])
        server.send_signal(signal.SIGTERM)
        seconds, _ = await server.gone()
        assert await subscription.over() == STOPPED[era]
        assert seconds < 1, server.log.read_text()


@both_eras
async def test_whoever_waits_for_a_source_at_the_stop_is_told_to_come_back(era: Era, tmp_path: Path) -> None:
    async with serving_apart("hindered", tmp_path / "server", str(tmp_path / "bus")) as (server, port):
        other = await subscribe(era, port, ["note://a"])
        answers: list[wire.Json] = []

        async def wait() -> None:
            if era == "modern":
                with pytest.raises(wire.Refused) as refusal:
                    await wire.listen(port, wire.wanted(["slow://a"], []))
                answers.append(refusal.value.response.error)
            else:
                answers.append((await (await Session.start(port)).subscribe("slow://a")).error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            while await server.line() != "a is asked for":
                pass  # What the web server says of its requests.
            server.send_signal(signal.SIGTERM)
            seconds, _ = await server.gone()
        assert seconds < 1, server.log.read_text()
        assert await other.over() == STOPPED[era]
        assert answers[0]["data"]["retryable"] is True
        assert "stopping" in answers[0]["message"]


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
        with anyio.fail_after(2):
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
        assert seconds < 1, server.log.read_text()
        assert code == -signal.SIGTERM


async def test_a_subscriber_that_waits_for_its_source_is_not_left_behind_by_a_stop() -> None:
    """The same within one process, whose server may run again: nothing of the one that waited stays."""
    mcp: Any = notes(limits=Limits(liveness=0.05))
    never = asyncio.Event()
    mcp.on_first_subscriber("note://{name}")(lambda name: never.wait())
    async with live(mcp) as port:
        session = await Session.start(port)
        asking = asyncio.ensure_future(session.subscribe("note://a"))
        await eventually(lambda: "note://a" in mcp.notify.counts())
        await mcp.aclose()
        assert (await asking).error["data"]["limit"] == "stopping"
        assert "note://a" not in mcp.notify.counts()
        never.set()
