"""The modern era's streams: opened again when they end, asked what was missed, and as few as the server allows."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from tests.client.cutting import Cut, cable
from tests.client.library import ERAS, SECONDS, Forgetful, Library, connected, eventually, hear, on_the_web
from tidings import ResourceUpdated
from tidings.changes import Filter
from tidings.client import Backoff, ClientConfig, LiveClient, Poll, connect
from tidings.client.events import ChangesMissed, StateChanged, SubscriptionFailed
from tidings.client.modern import ModernFeed, _FilterPart
from tidings.server import Limits

pytestmark = pytest.mark.anyio

POLLING = ClientConfig(poll=Poll(interval=0.01, longest=0.02), backoff=Backoff(delays=(0.01,), tries=None))
URIS = [f"note://{number}" for number in range(30)]


class Copies:
    """What somebody who watches has seen last."""

    def __init__(self, client: LiveClient, uris: list[str]) -> None:
        self.texts: dict[str, str] = {}
        self._task = asyncio.create_task(self._keep(client, uris))

    async def _keep(self, client: LiveClient, uris: list[str]) -> None:
        async for read in client.watch(uris):
            self.texts[read.uri] = read.text

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@asynccontextmanager
async def kept(client: LiveClient, uris: list[str]) -> AsyncGenerator[dict[str, str]]:
    copies = Copies(client, uris)
    try:
        await eventually(lambda: len(copies.texts) == len(uris))
        with anyio.fail_after(SECONDS):
            await client.wait_fresh()
        yield copies.texts
    finally:
        await copies.stop()


async def test_of_a_stream_that_broke_only_what_changed_meanwhile_is_read_again() -> None:
    library = Library()
    async with on_the_web(library) as url, cable(url) as cut, connect(cut.url) as client, kept(client, URIS) as copies:
        states, missed = hear(client, StateChanged), hear(client, ChangesMissed)
        for number in range(3):
            reads = library.asked.copy()
            cut.cut_one(b"subscriptions/listen")
            await library.write(URIS[number], f"new {number}")
            await eventually(lambda number=number: copies[URIS[number]] == f"new {number}")
            with anyio.fail_after(SECONDS):
                await client.wait_fresh()
            read_again = {uri for uri in URIS if library.asked[uri] != reads[uri]}
            assert read_again == {URIS[number]}
        assert states == missed == []
        assert all(map(client.is_fresh, URIS))


async def test_nothing_is_fresh_before_what_was_missed_has_been_told() -> None:
    library = Library()
    async with on_the_web(library) as url, cable(url) as cut, connect(cut.url) as client:
        with anyio.fail_after(SECONDS):
            await client.subscribe(URIS)
            for uri in URIS[:3]:
                await client.read_resource(uri)
            await client.wait_fresh()
        library.gates["after the acknowledgment"] = gate = anyio.Event()
        cut.cut_one(b"subscriptions/listen")
        for uri in URIS[:3]:
            await library.write(uri, "new")
        await eventually(lambda: library.running["after the acknowledgment"])
        with anyio.fail_after(SECONDS):
            await client.read_resource("note://elsewhere")  # By now the acknowledgment is here.
        waiting = asyncio.create_task(client.wait_fresh())
        await anyio.wait_all_tasks_blocked()
        stale = [uri for uri in URIS[:3] if client.cache.get_resource(uri) is not None]
        assert stale == URIS[:3]
        assert not any(map(client.is_fresh, stale))
        assert not waiting.done()
        gate.set()
        with anyio.fail_after(SECONDS):
            await waiting
        assert [client.cache.get_resource(uri) for uri in stale] == [None] * 3


@pytest.mark.parametrize("way", ["ended", "broken"])
async def test_of_a_stream_that_knows_nothing_of_the_past_all_is_read_again(way: str) -> None:
    library = Forgetful()
    async with on_the_web(library) as url, cable(url) as cut, connect(cut.url) as client, kept(client, URIS) as copies:
        states, missed = hear(client, StateChanged), hear(client, ChangesMissed)
        for number in range(3):
            reads = library.asked.copy()
            if way == "ended":
                library.handler.close()
            else:
                cut.cut_one(b"subscriptions/listen")
            library.texts[URIS[number]] = f"new {number}"  # Told to nobody.
            await eventually(lambda number=number: copies[URIS[number]] == f"new {number}")
            with anyio.fail_after(SECONDS):
                await client.wait_fresh()
            assert all(library.asked[uri] > reads[uri] for uri in URIS)
            assert len(missed) == number + 1
        assert states == []
        await library.write(URIS[9], "told")
        await eventually(lambda: copies[URIS[9]] == "told")


@ERAS
async def test_what_is_refused_when_a_connection_comes_back_is_told_and_polled(era: str) -> None:
    allowed = set(URIS)

    async def authorize(_: Any, uri: str) -> bool:
        return uri in allowed

    library = Library(authorize=authorize)
    async with on_the_web(library) as url, cable(url) as cut, connect(cut.url, era=era, config=POLLING) as client:
        failed, states = hear(client, SubscriptionFailed), hear(client, StateChanged)
        async with kept(client, URIS[:2]) as copies:
            allowed.remove(URIS[0])
            if era == "auto":
                cut.cut_one(b"subscriptions/listen")
            else:
                await cut.cut(refuse=False)
            await eventually(lambda: failed)
            assert [event.uri for event in failed] == [URIS[0]]
            library.texts[URIS[0]] = "unheard of"
            await eventually(lambda: copies[URIS[0]] == "unheard of")
            for text in ("again", "and again"):
                library.texts[URIS[0]] = text
                await eventually(lambda text=text: copies[URIS[0]] == text)
                assert not client.is_fresh(URIS[0])
            await library.write(URIS[1], "heard of")
            await eventually(lambda: copies[URIS[1]] == "heard of")
        assert bool(states) is (era == "legacy")


async def test_where_a_stream_takes_only_so_many_there_are_as_few_as_that_allows() -> None:
    library = Library(limits=Limits(subscriptions=8))
    async with connected(library) as client:
        failed = hear(client, SubscriptionFailed)
        async with kept(client, URIS) as copies:
            assert len(library.notify.subscribers()) <= 8
            assert all(library.notify.counts()[uri] == 1 for uri in URIS)
            for uri in URIS:
                await library.write(uri, "new")
            await eventually(lambda: set(copies.values()) == {"new"})
        assert failed == []


SEALED = pytest.mark.parametrize("authorize", [None, lambda _, __: True], ids=["plain", "sealed"])
LOST, OPEN, NEW = "note://2", "note://1", "note://3"


@asynccontextmanager
async def half_lost(library: Library, cut: Cut, **options: Any) -> AsyncGenerator[LiveClient]:
    """A client with two streams. The first has heard of more than the second, which was lost before a change."""
    async with connect(cut.url, **options) as client:
        with anyio.fail_after(SECONDS):
            await client.subscribe([LOST, OPEN])
            for uri in (LOST, OPEN):
                await client.read_resource(uri)
            await client.wait_fresh()
        cut.cut_one(f'["{LOST}"]'.encode())
        await eventually(lambda: LOST not in library.notify.counts() and not client.is_fresh(LOST))
        await library.write(LOST, "new")
        await library.write(OPEN, "new")
        await eventually(lambda: client.cache.get_resource(OPEN) is None)
        assert client.cache.get_resource(LOST) is not None
        yield client


@pytest.fixture
def never_reopened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.client.modern._REOPEN", Backoff((3600.0,)))


@SEALED
@pytest.mark.usefixtures("never_reopened")
async def test_the_place_of_a_stream_that_is_lost_is_not_forgotten_while_another_goes_on(authorize: Any) -> None:
    library = Library(limits=Limits(subscriptions=1), authorize=authorize)
    async with on_the_web(library) as url, cable(url) as cut, half_lost(library, cut) as client:
        with anyio.fail_after(SECONDS):
            await client.subscribe(NEW)  # New streams take the place of all.
            await client.wait_fresh()
        assert client.cache.get_resource(LOST) is None
        assert library.asked[LOST] == library.asked[OPEN] == 1


@SEALED
@pytest.mark.usefixtures("never_reopened")
async def test_nor_is_it_forgotten_by_the_next_process(authorize: Any, tmp_path: Path) -> None:
    library = Library(limits=Limits(subscriptions=1), authorize=authorize)
    state = tmp_path / "state"
    async with on_the_web(library) as url, cable(url) as cut:
        async with half_lost(library, cut, state=state):
            pass
        async with connect(cut.url, state=state) as client:
            with anyio.fail_after(SECONDS):
                await client.wait_fresh()
            assert client.cache.get_resource(LOST) is None
        assert library.asked[LOST] == library.asked[OPEN] == 1


@ERAS
async def test_while_a_stream_is_away_nothing_is_said_to_be_fresh(era: str) -> None:
    library = Library()
    stream = "subscriptions/listen" if era == "auto" else "GET"
    async with on_the_web(library) as url, connect(url, era=era) as client:
        with anyio.fail_after(SECONDS):
            await client.subscribe("note://1")
            await client.read_resource("note://1")
            await client.wait_fresh()
        assert client.is_fresh("note://1")
        before = library.asked[stream]
        gate = library.gates[stream] = anyio.Event()
        library.hang_up(stream)
        await eventually(lambda: not client.is_fresh("note://1"))
        assert client.connected
        waiting = asyncio.create_task(client.wait_fresh())
        await library.write("note://1", "new")
        await eventually(lambda: library.asked[stream] > before)
        assert not waiting.done()
        heard = hear(client, ResourceUpdated)
        gate.set()
        await eventually(lambda: heard)
        with anyio.fail_after(SECONDS):
            await waiting
            if client.cache.get_resource("note://1") is None:  # A Tidings server tells what was missed.
                await client.read_resource("note://1")
        assert client.is_fresh("note://1")
        read = client.cache.get_resource("note://1")
        assert read is not None
        assert read.text == "new"


async def test_the_place_of_a_stream_that_is_still_to_be_opened_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a connection that is lost between the first stream and the second would skip what the second missed."""
    link: Any = SimpleNamespace(client=SimpleNamespace(server_capabilities=SimpleNamespace(resources=None)), over=False)
    feed = ModernFeed(link, cast("Any", SimpleNamespace(cursor="old", known=Filter())), 1.0)
    feed._most = 1
    cursors: list[str | None] = []

    async def open_one(wanted: Filter, since: str | None) -> _FilterPart:
        stream = _FilterPart(wanted, since)
        stream.is_open = True
        feed._parts[str(len(feed._parts))] = stream
        stream.cursor = "new"
        cursors.append(feed.cursor)
        return stream

    monkeypatch.setattr(feed, "_open", open_one)
    await feed._open_all(Filter.of(["note://a", "note://b"]), feed.cursor, {})
    assert cursors == ["new\nold", "new\nold"]
    assert feed.cursor == "new"
