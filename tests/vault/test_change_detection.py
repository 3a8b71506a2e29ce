"""A change on the disk tells exactly those whose resources are different, once."""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError

import tidings
from tidings.changes import ResourcesListChanged, ResourceUpdated
from tidings.server import Coalesce
from tidings.vault.change_detection import SubscribedResources
from tidings.vault.resources.render import render
from tidings.vault.server import VaultServer

pytestmark = pytest.mark.anyio

NOTES = {
    "Plan.md": "# Plan\nSee [[Ideas]]. #work\n",
    "Ideas.md": "Some ideas.\n",
    "Log/Monday.md": "Nothing. #work/log\n",
    "Log/Tuesday.md": "Less. See [[Plan]].\n",
    "pic.png": "not really",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    for path, text in NOTES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def serving(root: Path, **options: Any) -> VaultServer:
    return VaultServer(root, cache=root.parent / "cache", coalesce=Coalesce(0, 0), **options)


class Told:
    """What a client hears of everything in a vault."""

    def __init__(self, server: VaultServer, events: AsyncIterator[Any]) -> None:
        self._server = server
        self.events = events

    async def after(self, *paths: str) -> Counter[str]:
        """All that is told after these files may have changed, and how often."""
        await self._server.library.refresh(paths)
        await self._server.notify.resource_updated(MARK)
        heard: Counter[str] = Counter()
        with anyio.fail_after(20):
            async for event in self.events:
                if event == ResourceUpdated(MARK):
                    break
                heard["list" if event == ResourcesListChanged() else event.uri.removeprefix("vault://")] += 1
        return heard


@asynccontextmanager
async def told(server: VaultServer, *subscriptions: str) -> AsyncGenerator[Told]:
    async with Client(server) as client:
        with anyio.fail_after(20):
            await server.library.settled()
        async with client.listen(
            resource_subscriptions=[*(subscriptions or ["vault://*"]), MARK], resources_list_changed=True
        ) as events:
            yield Told(server, aiter(events))


MARK = "vault://note/Mark"
"""What is told before it, was told before it."""


def write(path: str, text: str) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text)

    return change


COME_OR_GONE = {"folder/", "stats", "structure", "recent", "list"}


@pytest.mark.parametrize(
    ("path", "change", "expected"),
    [
        pytest.param("Ideas.md", write("Ideas.md", "Other ideas.\n"), {"note/Ideas.md", "recent"}, id="a body"),
        pytest.param("Ideas.md", write("Ideas.md", NOTES["Ideas.md"]), {"recent"}, id="nothing but the time"),
        pytest.param(
            "Ideas.md",
            write("Ideas.md", "Some ideas. #new\n"),
            {"note/Ideas.md", "recent", "tags", "tag/new", "stats"},
            id="a tag",
        ),
        pytest.param(
            "Log/Monday.md",
            write("Log/Monday.md", "Nothing. #work/other\n"),
            {"note/Log/Monday.md", "recent", "tags", "tag/work/log", "tag/work/other"},
            id="another tag below the same",
        ),
        pytest.param(
            "Plan.md",
            write("Plan.md", "# Plan\nSee [[Monday]]. #work\n"),
            {"note/Plan.md", "recent", "backlinks/Ideas.md", "backlinks/Log/Monday.md"},
            id="another link",
        ),
        pytest.param(
            "Plan.md",
            write("Plan.md", "# Plan\nDo see [[Ideas]]. #work\n"),
            {"note/Plan.md", "recent", "backlinks/Ideas.md"},
            id="the line of a link",
        ),
        pytest.param(
            "Log/Wednesday.md",
            write("Log/Wednesday.md", "Even less.\n"),
            {"note/Log/Wednesday.md", "backlinks/Log/Wednesday.md", "folder/Log", *COME_OR_GONE},
            id="a new note",
        ),
        pytest.param(
            "New/Plan.md",
            write("New/Plan.md", "Another plan, of the same name.\n"),
            {"note/New/Plan.md", "backlinks/New/Plan.md", "folder/New", *COME_OR_GONE},
            id="a new note in a new folder",
        ),
        pytest.param(
            "Log/Tuesday.md",
            lambda root: (root / "Log/Tuesday.md").unlink(),
            {"note/Log/Tuesday.md", "backlinks/Log/Tuesday.md", "backlinks/Plan.md", "folder/Log", *COME_OR_GONE},
            id="a note less",
        ),
        pytest.param(
            "Ideas.md",
            lambda root: (root / "Ideas.md").unlink(),
            {"note/Ideas.md", "backlinks/Ideas.md", *COME_OR_GONE} - {"structure"},
            id="a note less that is linked to",
        ),
        pytest.param("pic.png", write("pic.png", "another picture"), {"attachment/pic.png"}, id="a picture"),
        pytest.param(".obsidian/app.json", write(".obsidian/app.json", "{}"), set[str](), id="what nobody sees"),
    ],
)
async def test_a_change_tells_exactly_those_that_are_different(
    root: Path, path: str, change: Callable[[Path], object], expected: set[str]
) -> None:
    async with told(serving(root)) as listener:
        change(root)
        heard = await listener.after(path)
        assert heard == dict.fromkeys(expected, 1)
        assert await listener.after(*NOTES, path) == {}


async def test_a_moved_folder_is_one_change(root: Path) -> None:
    async with told(serving(root)) as listener:
        (root / "Log").rename(root / "Diary")
        heard = await listener.after("Log", "Diary")
        paths = {f"{folder}/{name}.md" for folder in ("Log", "Diary") for name in ("Monday", "Tuesday")}
        expected = {f"{kind}/{path}" for kind in ("note", "backlinks") for path in paths}
        expected |= {"backlinks/Plan.md", "tag/work", "tag/work/log", "folder/Log", "folder/Diary", *COME_OR_GONE}
        assert set(heard) == expected - {"stats"}
        assert set(heard.values()) == {1}


@pytest.mark.parametrize(
    ("subscription", "path", "text", "expected"),
    [
        ("vault://note/ideas", "Ideas.md", "Other ideas.\n", True),
        ("vault://note/Ideas.md?mode=summary", "Ideas.md", "# Other\n", True),
        ("vault://note/Ideas.md?limit=1", "Ideas.md", "Some ideas.\nAnd more.\n", False),
        ("vault://recent?limit=1", "Ideas.md", "Other ideas.\n", True),
        ("vault://tag/%23WORK", "Ideas.md", "To do. #Work\n", True),
        ("vault://tag/play", "Ideas.md", "To do. #Work\n", False),
        ("vault://backlinks/monday", "Ideas.md", "[[Log/Monday]]\n", True),
        ("vault://backlinks/tuesday", "Ideas.md", "[[Log/Monday]]\n", False),
        ("vault://folder/log", "Log/Extra.md", "More.\n", True),
        ("vault://folder/log", "Extra.md", "More.\n", False),
        ("vault://daily/2026-01-31", "2026-01-31.md", "A day.\n", True),
        ("vault://daily/2026-02-01", "2026-01-31.md", "A day.\n", False),
    ],
)
async def test_a_resource_is_told_of_however_it_was_asked_for(
    root: Path, subscription: str, path: str, text: str, expected: bool
) -> None:
    async with told(serving(root), subscription) as listener:
        write(path, text)(root)
        heard = await listener.after(path)
        assert heard["list"] == (path not in NOTES)
        assert (subscription.removeprefix("vault://") in heard) == expected


async def next_told(listener: Told) -> str:
    with anyio.fail_after(20):
        return (await anext(listener.events)).uri


@pytest.mark.parametrize("query", ["milk", "tag%3A%23shop", "path%3ALog%20milk", "%2Fm.lk%2F", "modified%3A7d%20milk"])
async def test_a_search_is_told_of_when_what_it_finds_is_different_and_not_otherwise(root: Path, query: str) -> None:
    uri = f"vault://search/{query}"
    async with told(serving(root), uri) as listener:
        write("Ideas.md", "Nothing that is looked for.\n")(root)
        write("Log/Monday.md", "Buy milk. #shop\n")(root)
        assert await next_told(listener) == uri
        write("Ideas.md", "Nothing still.\n")(root)
        write("Log/Monday.md", "Bought.\n")(root)
        assert await next_told(listener) == uri
        assert uri.removeprefix("vault://") not in await listener.after()


async def test_what_the_app_hides_from_searches_is_told_of(root: Path) -> None:
    (root / ".obsidian").mkdir()
    async with told(serving(root), "vault://search/ideas", "vault://daily/2026-01-31") as listener:
        write(".obsidian/app.json", '{"userIgnoreFilters": ["Ideas.md"]}')(root)
        assert {await next_told(listener), await next_told(listener)} == {
            "vault://search/ideas",
            "vault://daily/2026-01-31",
        }


@pytest.mark.parametrize("prefix", ["vault://search/*", "vault://daily/2026*"])
async def test_what_has_no_end_cannot_be_subscribed_to_as_a_whole(root: Path, prefix: str) -> None:
    async with Client(serving(root)) as client:
        with pytest.raises(MCPError, match="vault://"):
            async with client.listen(resource_subscriptions=[prefix]):
                pass


async def test_a_note_that_is_not_indexed_yet_is_waited_for(root: Path) -> None:
    async with Client(serving(root)) as client:
        (content,) = (await client.read_resource("vault://note/Ideas")).contents
        assert content.text == NOTES["Ideas.md"]
        with pytest.raises(MCPError, match="Nowhere"):
            await client.read_resource("vault://note/Nowhere")


async def test_a_write_of_a_tool_is_told_of_once_and_before_the_tool_returns(root: Path) -> None:
    server = serving(root)
    async with told(server, "vault://note/Ideas.md") as listener, Client(server) as client:
        result = await client.call_tool("append", {"path": "Ideas.md", "content": "One more."})
        assert not result.is_error, result
        assert await listener.after("Ideas.md") == {"note/Ideas.md": 1}


async def test_the_triggers_of_an_embedding_program_tell_whoever_listens(root: Path) -> None:
    server = serving(root)
    async with told(server) as listener:
        notify = server.notify
        for trigger in (notify.recent_changed, notify.stats_changed, notify.tags_changed):
            await trigger()
        await notify.resource_updated("vault://note/Log/Mon%20day.md")
        assert set(await listener.after()) == {"recent", "stats", "tags", "note/Log/Mon%20day.md"}


async def held_by(server: VaultServer, state: Path, uri: str, expected: str | None = None) -> str | None:
    """What a client holds that was here before, once that is `expected`. It reads only what it is told of."""
    async with tidings.connect(server, state=state) as client:
        await client.subscribe(uri)
        held = client.cache.get_resource(uri) or await client.read_resource(uri)
        with anyio.fail_after(20):
            while expected is not None and held.text != expected:
                await anyio.sleep(0.01)
                held = client.cache.get_resource(uri) or held
        return held.text


@pytest.mark.parametrize("uri", ["vault://note/Ideas.md", "vault://search/ideas", "vault://tags"])
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_listener_that_was_away_hears_what_it_missed(root: Path, uri: str, restarted: bool) -> None:
    bus = f"sqlite:///{root.parent / 'bus.db'}"
    state = root.parent / "agent.db"
    server = serving(root, bus=bus)
    async with AsyncExitStack() as life:
        await life.enter_async_context(Client(server))
        await server.library.settled()
        before = await held_by(server, state, uri)
        if restarted:
            await life.aclose()
        write("Ideas.md", "Other ideas. #new\n")(root)
        if restarted:
            server = serving(root, bus=bus)
            await life.enter_async_context(Client(server))
        await server.library.settled()
        await server.library.refresh(["Ideas.md"])
        fresh = await server.library.ask(lambda view: render(view, uri).text)
        assert fresh != before
        assert await held_by(server, state, uri, expected=fresh) == fresh


async def test_an_interest_that_was_forgotten_counts_as_changed() -> None:
    now = 0.0
    interest = SubscribedResources(outlived=False, keep=60, clock=lambda: now)
    assert not interest.begin("vault://tags")
    interest.end("vault://tags")
    now = 59
    assert interest.remembered() == ["vault://tags"]
    assert not interest.begin("vault://tags")
    interest.end("vault://tags")
    now = 120
    assert interest.remembered() == []
    assert interest.begin("vault://tags")
    assert not interest.begin("vault://tags")
