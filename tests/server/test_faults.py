"""What goes wrong over real HTTP: bursts, readers that stall, clients that die, and the stop of the server.

Each test that is named for a regression has met that failure in another server.
"""

import signal
import time
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from tests.client.asking import Clock
from tests.server import wire
from tests.server.serving import AT_ONCE, PROMPT, child, eventually, live, notes, serving_apart
from tests.server.wire import Era, Session, Subscription, both_eras, changed, cursor, subscribe
from tidings.bus.memory import MemoryBus
from tidings.changes import Cursor
from tidings.server import Coalesce, Limits

pytestmark = pytest.mark.anyio

SMALL = 16_384
"""Bytes for the system's buffers on each side, so that a reader that stalls is soon felt."""


def long_uri(number: int) -> str:
    return f"note://{number}-{'x' * 4_000}"


# Changes that come quickly


@both_eras
async def test_trailing_update_is_not_lost(era: Era) -> None:
    """A debounce that drops what comes within its window leaves everyone with the copy before the last."""
    bus = MemoryBus()
    mcp = notes(bus=bus, coalesce=Coalesce(window=0.03, max_wait=0.1))
    async with live(mcp) as port:
        subscription = await subscribe(era, port, ["note://a"])
        for burst in (1, 2, 3, 50):
            for _ in range(burst):
                before_last = bus.head
                await mcp.notify.resource_updated("note://a")
            while cursor(await subscription.next()) <= before_last:
                pass
        assert len(subscription.news) < 30


@both_eras
async def test_steady_stream_does_not_starve(era: Era) -> None:
    """A debounce that waits for silence says nothing while changes keep coming."""
    mcp = notes(coalesce=Coalesce(window=0.05, max_wait=0.1))
    async with live(mcp) as port:
        subscription = await subscribe(era, port, ["note://a"])
        published = 0
        began = time.monotonic()
        with anyio.fail_after(20):
            while len(subscription.news) < 6:
                await mcp.notify.resource_updated("note://a")
                await anyio.lowlevel.checkpoint()
                published += 1
        # The first at once, then one for each `max_wait`.
        assert time.monotonic() - began > 0.4
        assert published > 60


@both_eras
@pytest.mark.parametrize("coalesce", [AT_ONCE, Coalesce()], ids=["each", "merged"])
async def test_ten_thousand_updates_of_a_hundred_uris_reach_every_stream(era: Era, coalesce: Coalesce) -> None:
    """A buffer of a fixed number of events overflows here, on readers that are in good health."""
    bus = MemoryBus()
    mcp = notes(bus=bus, coalesce=coalesce)
    uris = [f"note://{number}" for number in range(100)]
    asked = uris if era == "modern" else ["note://*"]
    async with live(mcp, send_buffer=SMALL) as port:
        streams = [await subscribe(era, port, asked) for _ in range(20 if coalesce is AT_ONCE else 100)]
        before: dict[str, Cursor] = {}
        for number in range(10_000):
            uri = uris[number * 7 % 100]
            before[uri] = bus.head
            await mcp.notify.resource_updated(uri)
            if number % 5_000 == 0:
                await anyio.lowlevel.checkpoint()
        for heard in [Heard(stream) for stream in streams]:
            await heard.stream.until(lambda heard=heard: heard.has_all(before, bus.head), within=20)
            assert heard.stream.ended is None
        assert len(mcp.notify.subscribers()) == len(streams)


class Heard:
    """The newest version of each thing that one stream has told of."""

    def __init__(self, subscription: Subscription) -> None:
        self.stream = subscription.stream
        self._read = 0
        self._newest: dict[str, int] = {}

    def has_all(self, before: dict[str, Cursor], head: Cursor) -> bool:
        """Whether the stream claims to be at the head, and each URI was heard of since the last round of updates.

        A change that is delivered while an older one is held back claims only what is below that one. So cursors may
        stay where they are, and those of the last round begin where that round began.
        """
        newest = max(self._newest.values(), default=0)
        for frame in self.stream.frames[self._read :]:
            if wire.is_change(frame):
                version = cursor(frame).version
                assert version >= newest, "a cursor fell"
                newest = self._newest[changed(frame)] = version
        self._read = len(self.stream.frames)
        began = min(place.version for place in before.values())
        told = self._newest.keys() == before.keys() and min(self._newest.values()) >= began
        return told and newest == head.version


# Readers that stall


@both_eras
async def test_overflow_never_looks_graceful(era: Era) -> None:
    """A stream that ends in good order says that nothing was missed."""
    mcp = notes(limits=Limits(backlog=50))
    async with live(mcp, send_buffer=SMALL) as port:
        stalled = await subscribe(era, port, ["note://*"], receive_buffer=SMALL)
        healthy = await subscribe(era, port, ["note://*"])
        stalled.stream.stall()
        for number in range(400):
            await mcp.notify.resource_updated(long_uri(number))
            await healthy.until(long_uri(number))
        stalled.stream.resume()
        assert await stalled.over() == "broken"
        assert not any("result" in frame for frame in stalled.stream.frames)
        assert len(stalled.news) < 400
        await eventually(lambda: len(mcp.notify.subscribers()) == (1 if era == "modern" else 2))
        if stalled.session is not None:
            # The session is there still, and its next stream says that everything may have changed.
            again = Subscription("legacy", await stalled.session.stream_again(), stalled.session, None, {})
            for what in ("note://*", "tools", "prompts", "resources"):
                await again.stream.until(lambda what=what: what in [changed(frame) for frame in again.news])


@both_eras
async def test_a_bounded_filter_never_overflows(era: Era) -> None:
    """However small the backlog may be: one entry for each thing that was asked for is always allowed."""
    mcp = notes(limits=Limits(backlog=1))
    uris = [long_uri(number) for number in range(60)]
    async with live(mcp, send_buffer=SMALL) as port:
        subscription = await subscribe(era, port, uris, receive_buffer=SMALL)
        subscription.stream.stall()
        for _ in range(3):
            for uri in uris:
                await mcp.notify.resource_updated(uri)
        [info] = mcp.notify.subscribers()
        assert 0 < info.waiting <= 60
        subscription.stream.resume()
        await mcp.notify.resource_updated(uris[0])
        assert set(await subscription.until(uris[-1])) <= set(uris)
        await eventually(lambda: mcp.notify.subscribers()[0].waiting == 0)
        last = {changed(frame): cursor(frame).version for frame in subscription.news}
        assert len(last) == 60
        assert min(last.values()) > 120


@both_eras
async def test_a_stalled_reader_is_cut_off_at_the_deadline_and_delays_nobody(
    era: Era, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    mcp = notes(limits=Limits(write_deadline=60))
    uris = [long_uri(number) for number in range(60)]
    async with live(mcp, send_buffer=SMALL) as port:
        stalled = await subscribe(era, port, uris, receive_buffer=SMALL)
        others = [await subscribe(other, port, uris) for other in ("modern", "legacy") for _ in range(3)]
        stalled.stream.stall()
        for uri in uris:
            await mcp.notify.resource_updated(uri)
        for other in others:
            await other.until(uris[-1])
            assert len(other.news) == 60
        await eventually(lambda: [each.waiting > 0 for each in mcp.notify.subscribers()].count(True) == 1)

        clock = Clock(monkeypatch)
        await clock.move(50)
        assert "Cut off" not in caplog.text
        await clock.move(11)
        await eventually(lambda: "read nothing for 60 s" in caplog.text)
        stalled.stream.resume()
        assert await stalled.over() == "broken"
        assert not any("result" in frame for frame in stalled.stream.frames)

        await mcp.notify.resource_updated(uris[0])
        for other in others:
            assert await other.until(uris[0]) == [uris[0]]


@both_eras
async def test_a_reader_that_stalls_at_what_it_missed_is_cut_off_though_nothing_more_changes(
    era: Era, caplog: pytest.LogCaptureFixture
) -> None:
    mcp = notes(limits=Limits(write_deadline=0.3))
    uris = [long_uri(number) for number in range(80)]
    # A modern acknowledgment that named them all would fill the socket before the first of them is told.
    asked = ["note://*"] if era == "modern" else uris
    async with live(mcp, send_buffer=SMALL) as port:
        first = await subscribe(era, port, asked)
        first.stream.abort()
        await eventually(lambda: first.session or mcp.notify.subscribers() == [])
        for uri in uris:
            await mcp.notify.resource_updated(uri)
        stalled = await wire.Connection.open(port, receive_buffer=SMALL)
        if first.session is None:
            since = first.acknowledged["params"]["_meta"][wire.CURSOR]
            await stalled.stream(wire.listen_request(wire.wanted(asked, []), **{"dev.tidings/since": since}))
        else:
            stalled.close()
            stalled = await first.session.stream_again(receive_buffer=SMALL)
        stalled.stall()
        await eventually(lambda: "read nothing for 0.3 s" in caplog.text)
        stalled.resume()
        assert await stalled.over() == "broken"
        assert len(stalled.frames) < len(uris)


# Clients that die


@both_eras
async def test_client_killed_with_9(era: Era, tmp_path: Path) -> None:
    # A stream that ends is the end of a modern subscription, and not of a session.
    mcp = notes(limits=Limits(liveness=60 if era == "modern" else 0.4))
    first: list[str] = []
    last: list[str] = []

    @mcp.on_first_subscriber("note://{name}")
    def begin(name: str) -> None:
        first.append(name)

    @mcp.on_last_subscriber("note://{name}")
    def stop(name: str) -> None:
        last.append(name)

    async with live(mcp) as port:
        with child("tests.server.programs", "listen", str(port), era, "note://a", log=tmp_path / "client") as client:
            said = await client.line()
            await eventually(lambda: len(mcp.notify.subscribers("note://a")) == 1)
            client.send_signal(signal.SIGKILL)
            killed = time.monotonic()
            await eventually(lambda: mcp.notify.subscribers() == [] and last == ["a"])
        seconds = time.monotonic() - killed
        if era == "modern":
            assert seconds < PROMPT
            return
        # Nobody knows that no stream will follow until none has for a while.
        assert seconds > 0.3
        await mcp.notify.resource_updated("note://a")
        session = Session(port)
        session.id = said
        stream = await session.stream()
        told = {changed(await stream.next()) for _ in range(4)}
        assert told == {"note://a", "tools", "prompts", "resources"}
        assert first == ["a", "a"]
        assert len(mcp.notify.subscribers("note://a")) == 1
        await mcp.notify.resource_updated("note://a")
        assert changed(await stream.next()) == "note://a"


async def test_a_session_that_was_parked_is_told_what_it_missed_whatever_brings_it_back() -> None:
    mcp = notes(limits=Limits(liveness=0.2))
    async with live(mcp) as port:
        session = await Session.start(port)
        await session.subscribe("note://a")
        await eventually(lambda: mcp.notify.subscribers() == [])
        await mcp.notify.resource_updated("note://a")
        assert (await session.subscribe("note://b")).json["result"] == {}
        assert len(mcp.notify.subscribers("note://a")) == 1
        stream = await session.stream()
        told = {changed(await stream.next()) for _ in range(5)}
        assert told == {"note://a", "note://b", "tools", "prompts", "resources"}


async def test_a_parked_session_can_unsubscribe() -> None:
    mcp = notes(limits=Limits(liveness=0.05))
    async with live(mcp) as port:
        session = await Session.start(port)
        await session.subscribe("note://a")
        await session.subscribe("note://b")
        await eventually(lambda: mcp.notify.subscribers() == [])
        await session.unsubscribe("note://a")
        assert mcp.notify.subscribers() == []
        stream = await session.stream()
        assert {changed(await stream.next()) for _ in range(4)} == {"note://b", "tools", "prompts", "resources"}
        assert "note://a" not in mcp.notify.counts()


# The stop


KINDS = ["run", "uvicorn", "mounted"]
EXIT_CODES = {
    # uvicorn raises the signal again when it is done; SIGINT is taken for a wish to leave, and no error.
    "run": {signal.SIGTERM: -signal.SIGTERM, signal.SIGINT: 0},
    "uvicorn": {signal.SIGTERM: -signal.SIGTERM, signal.SIGINT: 0},
    "mounted": {signal.SIGTERM: -signal.SIGTERM, signal.SIGINT: 0},
}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("kind", KINDS)
async def test_sigterm_with_open_streams(kind: str, number: signal.Signals, tmp_path: Path) -> None:
    """A web server waits for its streams to end, and they for the app to be shut down, which comes after."""
    async with serving_apart(kind, tmp_path / "server") as (server, port):
        modern = [await subscribe("modern", port, ["note://a"], ["tools"]) for _ in range(3)]
        legacy = [await subscribe("legacy", port, ["note://a"]) for _ in range(3)]
        await wire.call_tool(port, "touch", uri="note://a")
        server.send_signal(number)
        seconds, code = await server.gone()
        for subscription in modern:
            assert await subscription.over() == "result"
            assert subscription.stream.frames[-1]["id"] == subscription.number
        for subscription in legacy:
            assert await subscription.over() == "end"
        for subscription in modern + legacy:
            assert changed(await subscription.next()) == "note://a"
        assert seconds < PROMPT, server.log.read_text()
        assert code == EXIT_CODES[kind][number]
        assert "ERROR" not in server.log.read_text()


@both_eras
@pytest.mark.parametrize("amount", [20, 28, 29, 60], ids=lambda amount: f"{amount * 4} KB")
@pytest.mark.parametrize("kind", ["uvicorn", "mounted"])
async def test_sigterm_with_a_stalled_reader(kind: str, amount: int, era: Era, tmp_path: Path) -> None:
    """Whether what it does not read lies in the system's buffers, in the web server's, or waits in ours."""
    uri = long_uri(0)
    async with serving_apart(kind, tmp_path / "server") as (server, port):
        stalled = await subscribe(era, port, [uri], receive_buffer=SMALL)
        healthy = await subscribe(era, port, [uri])
        stalled.stream.stall()
        await wire.call_tool(port, "touch", uri=uri, times=amount)
        server.send_signal(signal.SIGTERM)
        seconds, code = await server.gone()
        assert seconds < PROMPT, server.log.read_text()
        assert code == -signal.SIGTERM
        assert await healthy.over() == ("result" if era == "modern" else "end")
        assert cursor(healthy.news[-1]).version == amount
        stalled.stream.resume()
        if await stalled.over() != "broken":
            assert cursor(stalled.news[-1]).version == amount


async def test_sigterm_with_a_stream_of_a_session_that_never_said_it_was_initialized(tmp_path: Path) -> None:
    async with serving_apart("uvicorn", tmp_path / "server") as (server, port):
        session = wire.Session(port)
        await session.initialize()
        stream = await session.stream()
        server.send_signal(signal.SIGTERM)
        seconds, _ = await server.gone()
        assert seconds < PROMPT
        assert await stream.over() in ("end", "broken")
