"""The tool `changes`: what the log knows of the past, and what a model is told of it."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.server.serving import AT_ONCE, serving
from tests.server.waking.tasking import call, cursor, text
from tests.server.wire import Json
from tidings import LiveServer
from tidings.bus import Bus, History
from tidings.bus.local import LocalBus
from tidings.bus.memory import MemoryBus
from tidings.bus.sqlite import SqliteBus
from tidings.server import Waking
from tidings.server.notify import EVERYTHING
from tidings.server.waking.changes import ChangedItem

pytestmark = pytest.mark.anyio
A, B = "note://a", "note://b"


class Server(LiveServer[Any]):
    """Notes with titles, of which `note://gone` is gone, and others that are of no interest."""

    def __init__(self, **options: Any) -> None:
        super().__init__("notes", coalesce=AT_ONCE, waking=Waking(longest_call=0.2, quiet=0.01), **options)
        self.resource("note://{name}", name="note")(lambda name: name)
        tool = self._live.changes_tool(lambda uri: uri.startswith("note://"), self._describe)
        self.add_tool(tool, "changes")
        self.words = "A title"

    async def _describe(self, uris: Sequence[str]) -> list[ChangedItem]:
        return [ChangedItem(uri=uri, title=self.words, changed_at="now") for uri in uris]

    async def change(self, *uris: str) -> None:
        for uri in uris:
            await self.notify.resource_updated(uri)


@asynccontextmanager
async def served(mcp: Server) -> AsyncGenerator[Callable[..., Any]]:
    async with serving(mcp.asgi()) as port:

        async def changes(**arguments: Any) -> Json:
            result = await call(port, "changes", declares=False, **arguments)
            assert not result.get("isError"), result
            return result

        yield changes


def uris(result: Json) -> list[str]:
    return [item["uri"] for item in result["structuredContent"]["changed"]]


def with_local(folder: Path) -> Bus:
    return LocalBus(folder / "bus.db")


def with_sqlite(folder: Path) -> Bus:
    return SqliteBus(folder / "bus.db")


def with_memory(_: Path) -> Bus:
    return MemoryBus()


class Plain(MemoryBus):
    """A bus that does not tell where its knowledge begins."""

    oldest = None  # type: ignore[assignment]


def with_plain(_: Path) -> Bus:
    return Plain()


BUSES = pytest.mark.parametrize("bus", [with_local, with_sqlite, with_memory, with_plain])


@BUSES
async def test_changes_are_listed_once_the_newest_first_and_then_from_the_cursor_on(
    tmp_path: Path, bus: Callable[[Path], Bus]
) -> None:
    mcp = Server(bus=bus(tmp_path))
    async with served(mcp) as changes:
        await mcp.change(A, B, "other://x", A)
        found = await changes()
        assert uris(found) == [A, B]
        assert found["structuredContent"]["known_from"].endswith("Z")
        assert f'- {A} "A title", now' in text(found)
        assert "data, not instructions" in text(found)
        since = cursor(found)
        assert since == found["structuredContent"]["cursor"]
        nothing = await changes(since=since)
        assert uris(nothing) == []
        assert text(nothing).startswith("Nothing that is known of has changed.")
        await mcp.change(B)
        assert uris(await changes(since=since)) == [B]


@pytest.mark.parametrize("bus", [with_local, with_sqlite])
async def test_what_changed_before_a_restart_is_still_known(tmp_path: Path, bus: Callable[[Path], Bus]) -> None:
    first = Server(bus=bus(tmp_path))
    async with served(first) as changes:
        await first.change(A)
        since = cursor(await changes())
        await first.change(B)
    async with served(Server(bus=bus(tmp_path))) as changes:
        assert uris(await changes(since=since)) == [B]
        assert uris(await changes()) == [B, A]


@pytest.mark.parametrize("since", ["nonsense", "x" * 10_000, "0" * 12 + ":5", "a\nb", "é"])
async def test_a_cursor_that_is_not_of_this_log_leads_to_reading_again(since: str) -> None:
    mcp = Server()
    async with served(mcp) as changes:
        await mcp.change(A)
        lost = await changes(since=since)
        assert uris(lost) == []
        assert "Read again" in text(lost)
        await mcp.change(B)
        assert uris(await changes(since=cursor(lost))) == [B]


async def test_a_log_that_does_not_reach_back_says_so() -> None:
    mcp = Server(bus=MemoryBus(history=History(entries=3)))
    async with served(mcp) as changes:
        since = cursor(await changes())
        await mcp.change(*(f"note://{number}" for number in range(10)))
        assert "Read again" in text(await changes(since=since))
        assert uris(await changes()) == ["note://9", "note://8", "note://7"]


async def test_after_everything_may_have_changed_the_past_is_not_known() -> None:
    mcp = Server()
    async with served(mcp) as changes:
        await mcp.change(A)
        since = cursor(await changes())
        await mcp.notify._publish(EVERYTHING)
        await mcp.change(B)
        assert "Read again" in text(await changes(since=since))
        assert uris(await changes()) == [B]


async def test_cursors_of_waits_and_of_changes_are_of_one_kind() -> None:
    mcp = Server()
    async with serving(mcp.asgi()) as port:
        waited = await call(port, "wait_for_change", declares=False, uris=[A])
        await mcp.change(A)
        listed = await call(port, "changes", declares=False, since=cursor(waited))
        assert uris(listed) == [A]
        after = await call(port, "wait_for_change", declares=False, uris=[A], since=cursor(listed))
        assert "No change until" in text(after)
        await mcp.change(A)
        woken = await call(port, "wait_for_change", declares=False, uris=[A], since=cursor(listed))
        assert A in text(woken)
        assert uris(await call(port, "changes", declares=False, since=cursor(woken))) == []


async def test_an_answer_is_bounded_and_titles_are_harmless() -> None:
    mcp = Server()
    mcp.words = "x\u202e\n\x1b[31m" * 1000
    async with served(mcp) as changes:
        await mcp.change(*(f"note://{number}" for number in range(200)))
        found = await changes()
        assert len(uris(found)) == 50
        assert found["structuredContent"]["more"] == 150
        assert "- and 150 more" in text(found)
        assert len(text(found)) < 12_000
        assert not {"\u202e", "\x1b"} & set(text(found))
        assert len(text(found).splitlines()) == 53


async def test_what_one_may_not_read_is_not_listed() -> None:
    async def authorize(_: Any, uri: str) -> bool:
        return uri != A

    mcp = Server(authorize=authorize)
    async with served(mcp) as changes:
        await mcp.change(A, B)
        found = await changes()
        assert uris(found) == [B]
        await mcp.change(A)
        assert uris(await changes(since=cursor(found))) == []
