"""`tidings web` over stdio, killed and started again: pages and waits are still there, and what changed is found."""

import stat
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.server.serving import eventually
from tests.server.waking.piped import Chat, chat
from tests.web.agent import STORY, html
from tests.web.fetch.servers import Site, site

pytestmark = pytest.mark.anyio
NEWS = "The mill will be closed meanwhile, the mayor said on Tuesday."
OPTIONS = (
    *("--allow-private", "127.0.0.0/8", "--watch-min", "0.2", "--watch-max", "0.5"),
    *("--requests-per-minute", "6000", "--workers", "1"),
)


@pytest.fixture
async def place() -> AsyncGenerator[Site]:
    async with site({"/": html(STORY)}) as running:
        yield running


def web(cache: Path, *options: str) -> AbstractAsyncContextManager[Chat]:
    return chat("web", *OPTIONS, *options, cache=cache)


async def fetched(server: Chat, place: Site) -> dict[str, str]:
    return (await server.call("fetch", urls=[place.url()]))["_meta"]["dev.tidings/data"]["pages"][0]


async def test_waits_that_a_killed_process_left_see_that_the_page_is_another(tmp_path: Path, place: Site) -> None:
    async with web(tmp_path) as first:
        page = await fetched(first, place)
        tasks = {page[kind]: await first.wait(page[kind]) for kind in ("page_uri", "diff_uri")}
        await first.kill()
    place.pages["/"] = html(STORY, NEWS)
    async with web(tmp_path) as second:
        for uri, task in tasks.items():
            assert uri in await second.outcome(task)
        found = (await second.call("changes"))["structuredContent"]
        assert [item["uri"] for item in found["changed"]] == [page["page_uri"]]
        assert place.url() in found["changed"][0]["title"]
        later = await second.call("changes", since=found["cursor"])
        assert later["structuredContent"]["changed"] == []


async def test_a_restart_alone_wakes_nobody(tmp_path: Path, place: Site) -> None:
    async with web(tmp_path) as first:
        page = await fetched(first, place)
        task = await first.wait(page["page_uri"])
        await first.kill()
    async with web(tmp_path) as second:
        before = len(place.asked)
        assert (await second.ask("tasks/get", taskId=task))["status"] == "working"
        await eventually(lambda: len(place.asked) >= before + 2, within=20)
        assert (await second.ask("tasks/get", taskId=task))["status"] == "working"


async def test_files_are_for_their_owner_alone_and_servers_that_may_fetch_other_sites_have_their_own(
    tmp_path: Path, place: Site
) -> None:
    async with web(tmp_path) as one, web(tmp_path, "--block-domain", "example.com") as other:
        await fetched(one, place)
        assert len((await one.ask("resources/list"))["resources"]) == 1
        assert (await other.ask("resources/list"))["resources"] == []
        folders = list((tmp_path / "tidings" / "web").iterdir())
        assert len(folders) == 2
        files = [file for folder in folders for file in folder.iterdir()]
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


@pytest.mark.parametrize("spoilt", ["pages.db", "changes.db", "."])
async def test_where_nothing_can_be_kept_everything_is_in_memory(tmp_path: Path, place: Site, spoilt: str) -> None:
    async with web(tmp_path) as first:
        await first.ask("tools/list")
        await first.kill()
    [folder] = (tmp_path / "tidings" / "web").iterdir()
    for file in folder.iterdir():
        file.unlink()
    if spoilt == ".":
        folder.rmdir()
        folder.write_text("in the way")
    else:
        (folder / spoilt).mkdir()
    async with web(tmp_path) as second:
        page = await fetched(second, place)
        task = await second.wait(page["page_uri"])
        place.pages["/"] = html(STORY, NEWS)
        assert page["page_uri"] in await second.outcome(task)


async def test_with_a_bus_in_memory_nothing_is_kept(tmp_path: Path, place: Site) -> None:
    async with web(tmp_path, "--bus", "memory:") as first:
        await fetched(first, place)
    assert not (tmp_path / "tidings" / "web").exists()


@pytest.mark.parametrize("tool", ["watch", "wait_for_change"])
async def test_a_channel_tells_of_pages_that_are_watched(tmp_path: Path, place: Site, tool: str) -> None:
    async with web(tmp_path, "--channel") as server:
        assert "claude/channel" in (await server.ask("server/discover"))["capabilities"]["experimental"]
        page = await fetched(server, place)
        if tool == "watch":
            await server.call("watch", page=page["page_id"])
        else:
            await server.wait(page["page_uri"])
        place.pages["/"] = html(STORY, NEWS)
        told = await server.next()
        assert told["method"] == "notifications/claude/channel"
        assert page["page_uri"] in told["params"]["content"]
        assert place.url() in told["params"]["content"]
