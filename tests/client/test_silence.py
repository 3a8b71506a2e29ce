"""A stream of changes that dies without a word is noticed by its silence: on virtual time, on a network in memory."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import pytest
import sse_starlette.sse
from mcp.server import _streamable_http_modern
from mcp.server.mcpserver import MCPServer

from tests.simulation.clock import simulated
from tests.simulation.loop import Node, VirtualLoop
from tests.telemetry import collect
from tidings import LiveClient, LiveServer, connect
from tidings._kit.uvicorn_seam import HttpServer
from tidings.client import Backoff, ClientConfig, Timeouts
from tidings.client.events import StateChanged
from tidings.client.http_health import StreamSilence, stated_interval
from tidings.errors import ConnectionLost

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

PORT = 8001
NOTE = "note://one"
QUICK, USUAL = Backoff(delays=(0.1,), tries=None), Backoff(tries=None)
WAYS = pytest.mark.parametrize("way", ["modern", "legacy", "sse"])


class Place:
    """A server with one note, and a client that watches it."""

    def __init__(self, way: str, make: Callable[[], MCPServer[Any]], backoff: Backoff = QUICK) -> None:
        self.loop = VirtualLoop(1)
        self.config = ClientConfig(backoff=backoff, timeouts=Timeouts(ping_interval=10_000))
        self.way, self.make = way, make
        self.server, self.client = Node("server"), Node("client")
        self.web: HttpServer
        self.serving: asyncio.Task[None]
        self.text = "old"
        self.copy = ""
        self.live: LiveClient
        self.mcp: MCPServer[Any]
        self.states: list[StateChanged] = []

    def run(self, act: Callable[["Place"], Coroutine[Any, Any, None]]) -> None:
        with simulated(self.loop, 1):
            self.loop.run_until_complete(self._all(act))

    async def _all(self, act: Callable[["Place"], Coroutine[Any, Any, None]]) -> None:
        await self.serve()
        watching = self.loop.on(self.client, self._watch())
        await self.until(lambda: self.copy == "old")
        await act(self)
        assert not watching.done()
        watching.cancel()
        await asyncio.wait([watching])
        self.web.stop()
        await asyncio.wait([self.serving])

    async def serve(self) -> None:
        """Starts the server; or another life of it, after it was killed."""
        self.server = Node("server")
        self.mcp = self.make()
        self.mcp.resource(NOTE, name="note")(lambda: self.text)
        self.mcp.add_tool(_nap, name="nap")
        app = self.mcp.sse_app() if self.way == "sse" else self.mcp.streamable_http_app()
        options: dict[str, Any] = {"loop": "none", "http": "h11", "lifespan": "on", "log_config": None}
        self.web = HttpServer(app, host="127.0.0.1", port=PORT, access_log=False, **options)
        self.serving = self.loop.on(self.server, self.web.serve())
        await asyncio.sleep(1)

    async def _watch(self) -> None:
        url = f"http://127.0.0.1:{PORT}/{'sse' if self.way == 'sse' else 'mcp'}"
        era = "auto" if self.way == "modern" else "legacy"
        async with connect(url, era=era, config=self.config) as self.live:
            self.live.on(StateChanged, self.states.append)
            async for read in self.live.watch(NOTE):
                self.copy = read.text

    async def until(self, true: Callable[[], object], seconds: float = 30) -> float:
        """Waits for something, and returns for how long."""
        began = self.loop.time()
        while not true():
            assert self.loop.time() < began + seconds, "it takes too long"
            await asyncio.sleep(0.25)
        return self.loop.time() - began

    def swallow_streams(self) -> None:
        for connection in self.loop.network.streams():
            connection.half_open()

    def cut_streams(self, *, swallow: bool) -> None:
        """Resets all streams. If told to `swallow`, nothing arrives of those that are opened instead."""
        self.loop.network.swallows_streams = swallow
        for connection in self.loop.network.streams():
            if not connection.ends[1].vanishes:
                connection.cut()

    async def change(self, text: str = "new") -> None:
        self.text = text
        assert isinstance(self.mcp, LiveServer)
        await self.loop.on(self.server, self.mcp.notify.resource_updated(NOTE))

    async def on_client(self, work: Coroutine[Any, Any, Any]) -> Any:
        return await self.loop.on(self.client, work)


async def _nap() -> str:
    return "slept"


def live() -> MCPServer[Any]:
    return LiveServer("live", log_level="CRITICAL")


def stock() -> MCPServer[Any]:
    return MCPServer("stock", log_level="CRITICAL")


# A server of ours


@WAYS
def test_a_stream_that_is_swallowed_is_lost_after_two_and_a_half_intervals(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = collect(monkeypatch)

    async def act(place: Place) -> None:
        place.swallow_streams()
        await place.change()
        noticed = await place.until(lambda: place.states, 40)
        assert noticed > 20
        assert isinstance(place.states[0].error, ConnectionLost)
        assert "has sent nothing for 38 s on a stream of changes" in place.states[0].error.message
        await place.until(lambda: place.live.connected and place.copy == "new", 5)
        assert collector.points()["tidings.client.silences"] == {(): 1}

    Place(way, live).run(act)


@WAYS
def test_nobody_is_called_fresh_while_a_stream_is_overdue(way: str) -> None:
    async def act(place: Place) -> None:
        place.swallow_streams()
        await place.change()
        await asyncio.sleep(19)
        assert place.live.connected
        await place.on_client(place.live.wait_fresh())
        assert place.copy == "new"

    Place(way, live).run(act)


@WAYS
def test_a_stream_that_is_heard_again_in_time_is_kept(way: str) -> None:
    async def act(place: Place) -> None:
        place.loop.pause(place.server)
        await asyncio.sleep(30)
        fresh = place.loop.on(place.client, place.live.wait_fresh())
        await asyncio.sleep(1)
        place.loop.resume(place.server)
        await asyncio.sleep(1)
        assert fresh.done()
        await asyncio.sleep(300)
        assert place.states == []

    Place(way, live).run(act)


@WAYS
def test_a_server_that_stands_still_is_lost_unless_it_is_busy_with_a_request(way: str) -> None:
    async def act(place: Place) -> None:
        call = place.loop.on(place.client, place.live.call_tool("nap"))
        place.loop.pause(place.server)
        await asyncio.sleep(55)
        assert place.states == []
        place.loop.resume(place.server)
        assert (await call).success
        place.loop.pause(place.server)
        await place.until(lambda: place.states, 40)
        place.loop.resume(place.server)
        await place.until(lambda: place.live.connected)

    Place(way, live).run(act)


@WAYS
def test_even_a_busy_server_is_lost_after_twice_the_time(way: str) -> None:
    async def act(place: Place) -> None:
        async def call_again_and_again() -> None:
            while True:
                with contextlib.suppress(Exception):
                    await place.live.call_tool("nap")

        calling = place.loop.on(place.client, call_again_and_again())
        place.loop.pause(place.server)
        assert await place.until(lambda: place.states, 77) > 60
        calling.cancel()
        place.loop.resume(place.server)
        await place.until(lambda: place.live.connected)

    Place(way, live).run(act)


@WAYS
def test_a_client_that_stood_still_itself_loses_nothing(way: str) -> None:
    async def act(place: Place) -> None:
        place.loop.pause(place.client)
        await asyncio.sleep(600)
        place.loop.resume(place.client)
        await asyncio.sleep(60)
        assert place.states == []

    Place(way, live).run(act)


@WAYS
def test_a_client_that_stood_still_reads_what_it_missed_before_it_is_fresh(way: str) -> None:
    async def act(place: Place) -> None:
        place.loop.pause(place.client)
        await asyncio.sleep(2)
        await place.change()
        await asyncio.sleep(2)
        fresh = place.loop.on(place.client, place.live.wait_fresh())
        place.loop.resume(place.client)
        await fresh
        assert place.copy == "new"

    Place(way, live).run(act)


@WAYS
def test_a_client_is_fresh_in_the_midst_of_changes(way: str) -> None:
    async def act(place: Place) -> None:
        async def change_again_and_again() -> None:
            for number in range(10_000):
                await place.change(str(number))
                await asyncio.sleep(0.01)

        changing = asyncio.create_task(change_again_and_again())
        await asyncio.sleep(1)
        for _ in range(5):
            before = int(place.text)
            async with asyncio.timeout(1):
                await place.on_client(place.live.wait_fresh())
            assert int(place.copy) >= before - 20  # Merging, and the way here, take some hundredths of a second.
        changing.cancel()

    Place(way, live).run(act)


@WAYS
def test_a_stream_that_is_swallowed_before_its_first_byte_is_lost_and_opened_again(way: str) -> None:
    async def act(place: Place) -> None:
        place.cut_streams(swallow=True)
        await asyncio.sleep(2)
        place.cut_streams(swallow=False)
        await place.change()
        await place.until(lambda: place.live.connected and place.copy == "new", 70)
        await asyncio.sleep(45)
        assert place.live.connected
        await place.change("newer")
        await place.until(lambda: place.copy == "newer", 1)  # It is told, and does not poll.

    Place(way, live).run(act)


@WAYS
@pytest.mark.parametrize(("seconds", "backoff"), [(60, QUICK), (600, USUAL)], ids=["often tried", "long"])
def test_a_watch_goes_on_after_its_server_was_away(way: str, seconds: float, backoff: Backoff) -> None:
    async def act(place: Place) -> None:
        place.loop.kill(place.server)
        await asyncio.sleep(seconds / 2)
        assert place.states
        place.text = "new"
        await asyncio.sleep(seconds / 2)
        await place.serve()
        await place.until(lambda: place.live.connected and place.copy == "new", 35)
        await place.on_client(place.live.wait_fresh())
        await place.change("newer")
        await place.until(lambda: place.copy == "newer", 1)

    Place(way, live, backoff).run(act)


# Other servers


def test_a_server_that_begins_its_stream_with_the_first_event_is_polled_and_kept() -> None:
    async def act(place: Place) -> None:
        place.cut_streams(swallow=True)
        await asyncio.sleep(10)
        await place.until(lambda: place.live.connected)
        place.states.clear()
        place.text = "new"
        await place.until(lambda: place.copy == "new", 70)
        await place.on_client(place.live.wait_fresh())
        await asyncio.sleep(500)
        assert place.states == []

    Place("legacy", stock).run(act)


@WAYS
def test_the_interval_of_another_server_is_learned_from_its_keep_alives(way: str) -> None:
    async def act(place: Place) -> None:
        await asyncio.sleep(100)
        place.swallow_streams()
        # On the oldest transport, the answers are on the same stream: the client waits for that of its last poll.
        await place.until(lambda: place.states, 76 if way == "sse" else 40)
        await place.until(lambda: place.live.connected)

    Place(way, stock).run(act)


@pytest.mark.parametrize("way", ["modern", "legacy"])
def test_a_server_without_keep_alives_is_connected_to_anew_from_time_to_time(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse_starlette.sse.EventSourceResponse, "DEFAULT_PING_INTERVAL", 10_000)
    monkeypatch.setattr(_streamable_http_modern, "_SSE_PING_INTERVAL", 10_000)

    async def act(place: Place) -> None:
        place.text = "new"  # Without a word.
        assert await place.until(lambda: place.states, 601) > 500
        await place.until(lambda: place.live.connected and place.copy == "new")

    Place(way, stock).run(act)


# One stream


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("15", 15), ("0.5", 0.5), (None, None), ("", None), ("soon", None), ("0", None), ("-1", None), ("nan", None),
     ("inf", None), ("3601", None)],
)  # fmt: skip
def test_an_interval_is_stated_in_seconds(header: str | None, seconds: float | None) -> None:
    assert stated_interval(header) == seconds


@contextlib.asynccontextmanager
async def watched(interval: float | None) -> AsyncGenerator[tuple[StreamSilence, list[float]]]:
    lost: list[float] = []
    silence = StreamSilence(interval, lost.append, timeouts=Timeouts(), is_busy=lambda: False, heard_again=lambda: None)
    yield silence, lost
    silence.stop()


def run(main: Coroutine[Any, Any, None]) -> None:
    with contextlib.closing(VirtualLoop(1)) as loop:
        loop.run_until_complete(main)


def test_anything_that_arrives_counts() -> None:
    async def main() -> None:
        async with watched(15) as (silence, lost):
            for part in (b"event: message\r\n", b"d", b"ata: {}\r\n\r\n", b": ping\r\n\r\n"):
                await asyncio.sleep(18)
                silence.heard(part)
                assert not silence.is_overdue
            await asyncio.sleep(19)
            assert (silence.is_overdue, lost) == (True, [])
            await asyncio.sleep(19)
            assert [round(seconds) for seconds in lost] == [38]

    run(main())


def test_keep_alives_that_come_often_or_seldom_are_waited_for() -> None:
    async def main() -> None:
        async with watched(0.01) as (_, lost):
            await asyncio.sleep(4.9)
            assert lost == []
        async with watched(None) as (silence, lost):
            for seconds in (5, 5, 12, 5, 29, 60):  # Each is shorter than the limit that those before it set.
                await asyncio.sleep(seconds)
                silence.heard(b": ping\r\n\r\n")
            await asyncio.sleep(149)
            assert lost == []
            await asyncio.sleep(2)
            assert [round(seconds) for seconds in lost] == [150]

    run(main())
