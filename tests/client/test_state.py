"""A client with a state file: the next process is warm at once, and reads only what changed while it was away."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port
from tests.server.serving import AT_ONCE, serving
from tidings import LiveServer
from tidings.bus.sqlite import SqliteBus
from tidings.client import ClientConfig, LiveClient, Timeouts, connect

URIS = [f"note://{number}" for number in range(20)]
CONFIG = ClientConfig(timeouts=Timeouts(connect=10, request=10))


class Notes:
    """A server that counts how often each note is read."""

    def __init__(self, bus: Any = None) -> None:
        self.values = dict.fromkeys(URIS, "first")
        self.reads: Counter[str] = Counter()
        self.mcp: LiveServer[Any] = LiveServer("notes", coalesce=AT_ONCE, bus=bus)

        @self.mcp.resource("note://{name}")
        def note(name: str) -> str:
            self.reads[f"note://{name}"] += 1
            return self.values[f"note://{name}"]

    async def change(self, uri: str, text: str) -> None:
        self.values[uri] = text
        await self.mcp.notify.resource_updated(uri)


@pytest.fixture
async def served(anyio_backend: str, tmp_path: Path) -> AsyncGenerator[tuple[Notes, str]]:  # noqa: ARG001
    notes = Notes(SqliteBus(tmp_path / "bus.db"))
    async with serving(notes.mcp.asgi()) as port:
        yield notes, f"http://127.0.0.1:{port}/mcp"


async def _contents(client: LiveClient, count: int = len(URIS)) -> dict[str, str]:
    seen: dict[str, str] = {}
    async with asyncio.timeout(15):
        async for read in client.watch(URIS):
            seen[read.uri] = read.text
            if len(seen) == count:
                break
        await client.wait_fresh()
    return seen


@pytest.mark.anyio
async def test_the_next_process_reads_only_what_changed_while_it_was_away(
    served: tuple[Notes, str], tmp_path: Path
) -> None:
    notes, url = served
    state = tmp_path / "agent.db"
    async with connect(url, state=state, config=CONFIG) as client:
        assert await _contents(client) == notes.values
    assert notes.reads == Counter(URIS)

    notes.reads.clear()
    await notes.change("note://3", "second")
    await notes.change("note://7", "second")
    async with connect(url, state=state, config=CONFIG) as client:
        assert await _contents(client) == notes.values
    assert notes.reads == Counter(["note://3", "note://7"])


@pytest.mark.anyio
async def test_what_nobody_changed_is_there_without_a_single_read(served: tuple[Notes, str], tmp_path: Path) -> None:
    notes, url = served
    async with connect(url, state=tmp_path / "agent.db", config=CONFIG) as client:
        await _contents(client)
    notes.reads.clear()
    async with connect(url, state=tmp_path / "agent.db", config=CONFIG) as client:
        await client.wait_fresh()
        assert client.is_fresh("note://0")
        assert await _contents(client) == notes.values
    assert not notes.reads


@pytest.mark.anyio
async def test_a_change_while_warm_is_heard_of(served: tuple[Notes, str], tmp_path: Path) -> None:
    notes, url = served
    for expected in ("second", "third", "fourth"):
        async with connect(url, state=tmp_path / "agent.db", config=CONFIG) as client:
            watching = client.watch("note://1")
            async with asyncio.timeout(10):
                await anext(watching)
                await notes.change("note://1", expected)
                assert (await anext(watching)).text == expected
            await watching.aclose()


@pytest.mark.anyio
async def test_subscriptions_outlive_the_process(served: tuple[Notes, str], tmp_path: Path) -> None:
    notes, url = served
    async with connect(url, state=tmp_path / "agent.db", config=CONFIG) as client:
        await client.subscribe(["note://1", "note://2"])
        await client.read_resource("note://1")
    await notes.change("note://1", "second")
    async with connect(url, state=tmp_path / "agent.db", config=CONFIG) as client:
        await client.wait_fresh()
        assert sorted(client.subscriptions) == ["note://1", "note://2"]
        assert client.cache.get_resource("note://1") is None  # It changed meanwhile.


@pytest.mark.anyio
async def test_a_disconnect_on_purpose_leaves_nothing_in_the_file(served: tuple[Notes, str], tmp_path: Path) -> None:
    notes, url = served
    async with connect(url, state=tmp_path / "agent.db", config=CONFIG) as client:
        await client.subscribe("note://1")
        await _contents(client)
        await client.disconnect()
        assert not client.subscriptions
        assert len(client.cache) == 0
    notes.reads.clear()
    async with connect(url, state=tmp_path / "agent.db", config=CONFIG) as client:
        assert not client.subscriptions
        assert await _contents(client) == notes.values
    assert notes.reads == Counter(URIS)


@pytest.mark.anyio
async def test_in_the_old_era_everything_is_read_again(served: tuple[Notes, str], tmp_path: Path) -> None:
    notes, url = served
    for _ in range(2):
        notes.reads.clear()
        async with connect(url, era="legacy", state=tmp_path / "agent.db", config=CONFIG) as client:
            assert await _contents(client) == notes.values
        assert notes.reads == Counter(URIS)


@pytest.mark.anyio
async def test_after_the_log_was_lost_everything_is_read_again(tmp_path: Path) -> None:
    log = tmp_path / "bus.db"
    state = tmp_path / "agent.db"
    listening = free_port()
    for text in ("first", "second"):
        log.unlink(missing_ok=True)
        notes = Notes(SqliteBus(log))
        notes.values = dict.fromkeys(URIS, text)
        async with (
            serving(notes.mcp.asgi(), port=listening),
            connect(f"http://127.0.0.1:{listening}/mcp", state=state, config=CONFIG) as client,
            asyncio.timeout(10),
        ):
            await client.wait_fresh()
            assert await _contents(client) == notes.values
        assert notes.reads == Counter(URIS)
