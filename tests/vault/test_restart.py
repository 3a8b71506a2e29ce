"""`tidings vault` over stdio, killed and started again, and several at once: waits go on, and see what was missed."""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from tests.bus.files import change_file
from tests.server.waking.piped import Chat, chat

pytestmark = pytest.mark.anyio
INBOX = "vault://note/Inbox.md"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    (folder / "Inbox.md").write_text("# Inbox\n\n- milk\n")
    (folder / "Plan.md").write_text("A plan. #work\n")
    return folder


def vault(root: Path, *options: str) -> AbstractAsyncContextManager[Chat]:
    return chat("vault", str(root), "--cache", str(root.parent / "cache"), *options)


async def settled(server: Chat) -> None:
    """Until the index is complete."""
    with anyio.fail_after(30):
        while "indexing" in await server.said("info"):  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(0.05)


@asynccontextmanager
async def two_chats(root: Path) -> AsyncGenerator[tuple[Chat, Chat]]:
    """Two processes that start at once, as chats that are resumed do."""
    async with vault(root) as one, vault(root) as two:
        await settled(one)
        await settled(two)
        yield one, two


def edit(root: Path) -> None:
    (root / "Inbox.md").write_text("# Inbox\n\n- milk\n- eggs\n")


async def test_waits_that_a_killed_process_left_see_what_was_edited_meanwhile(root: Path) -> None:
    uris = [INBOX, "vault://note/*", "vault://*", "vault://note/Inbox", "vault://attachment/A.png"]
    async with vault(root) as first:
        await settled(first)
        tasks = {uri: await first.wait(uri) for uri in uris}
        for task in tasks.values():
            assert (await first.ask("tasks/get", taskId=task))["status"] == "working"
        await first.kill()
    edit(root)
    (root / "A.png").write_bytes(b"x")
    async with vault(root) as second:
        for uri, task in tasks.items():
            said = await second.outcome(task)
            assert (uri if uri[-1] != "*" else INBOX) in said
            if uri == INBOX:
                assert "+- eggs" in said
            assert await second.outcome(task) == said


async def test_all_kinds_of_resources_are_compared_across_a_restart(root: Path) -> None:
    summary = "vault://note/Plan.md?mode=summary"
    uris = [
        "vault://tag/work",
        "vault://tag/*",
        "vault://backlinks/Plan.md",
        "vault://folder/Sub",
        "vault://search/eggs",
    ]
    async with vault(root) as first:
        await settled(first)
        tasks = {uri: await first.wait(uri) for uri in [*uris, summary]}
        unchanged = await first.wait("vault://search/bread")
        await first.kill()
    (root / "Sub").mkdir()
    (root / "Sub/New.md").write_text("#work on [[Plan]]: eggs")
    (root / "Plan.md").write_text("A plan. #work [[Inbox]]\n")
    async with vault(root) as second:
        for uri, task in tasks.items():
            assert uri.rstrip("*") in await second.outcome(task)
        assert (await second.ask("tasks/get", taskId=unchanged))["status"] == "working"


async def test_a_restart_alone_wakes_nobody(root: Path) -> None:
    async with vault(root) as first:
        await settled(first)
        tasks = {
            uri: await first.wait(uri) for uri in (INBOX, "vault://note/*", "vault://tag/work", "vault://search/milk")
        }
        await first.kill()
    for _ in range(2):
        async with vault(root) as again:
            for task in tasks.values():
                assert (await again.ask("tasks/get", taskId=task))["status"] == "working"
            await settled(again)
            await anyio.lowlevel.checkpoint()
            for task in tasks.values():
                assert (await again.ask("tasks/get", taskId=task))["status"] == "working"
            await again.kill()
    edit(root)
    (root / "Inbox.md").write_text("milk, milk #work\n")
    async with vault(root) as last:
        for uri, task in tasks.items():
            assert uri.rstrip("*") in await last.outcome(task)


async def test_what_one_process_has_seen_wakes_the_next_with_the_same_id(root: Path) -> None:
    """The note changes while the process runs, and nobody asks before it is killed."""
    async with vault(root) as first:
        await settled(first)
        task = await first.wait("vault://note/*")
        edit(root)
        async with vault(root) as other:
            await settled(other)
            with anyio.fail_after(30):
                while INBOX not in await other.said("changes"):  # noqa: ASYNC110
                    await anyio.sleep(0.05)
            await first.kill()
            await other.kill()
    async with vault(root) as second:
        assert INBOX in await second.outcome(task)


async def test_several_processes_on_one_vault_publish_a_change_once(root: Path) -> None:
    async with two_chats(root) as (one, two):
        tasks = [(server, await server.wait("vault://note/*")) for server in (one, two)]
        edit(root)
        for server, task in tasks:
            said = await server.outcome(task)
            assert INBOX in said
            cursor = said.rpartition('since="')[2].partition('"')[0]
            # Nothing more comes, although the other process has seen the same edit.
            result = await server.call(
                "wait_for_change", declares=False, uris=["vault://note/*"], since=cursor, until=1
            )
            assert "No change until" in result["content"][0]["text"]


async def test_a_task_of_one_process_is_answered_by_another_that_runs(root: Path) -> None:
    async with two_chats(root) as (one, two):
        await settled(two)
        task = await one.wait(INBOX)
        assert (await two.ask("tasks/get", taskId=task))["status"] == "working"
        await one.kill()
        edit(root)
        assert "+- eggs" in await two.outcome(task)


async def test_a_wait_of_the_second_process_is_found_by_one_that_takes_the_place_of_the_first(root: Path) -> None:
    """Each process has an index of its own; the next process may take another one's."""
    async with two_chats(root) as (one, two):
        await settled(one)
        await settled(two)
        tasks = [await two.wait(uri) for uri in (INBOX, "vault://tag/work")]
        await two.kill()
        (root / "Inbox.md").write_text("now #work\n")
        with anyio.fail_after(30):  # The first one has taken note of it, and nobody there is interested in the tag.
            while INBOX not in await one.said("changes"):  # noqa: ASYNC110
                await anyio.sleep(0.05)
        await one.kill()
    async with vault(root) as three:
        for task, uri in zip(tasks, (INBOX, "vault://tag/work"), strict=True):
            assert uri in await three.outcome(task)


async def test_what_is_excluded_is_not_in_the_log_of_the_server_that_excludes_it(root: Path) -> None:
    async with vault(root) as open_, vault(root, "--exclude", "Inbox*") as closed:
        await settled(open_)
        await settled(closed)
        edit(root)
        (root / "Plan.md").write_text("Another plan.\n")
        with anyio.fail_after(30):
            while "Plan.md" not in (said := await closed.said("changes")):  # noqa: ASYNC110
                await anyio.sleep(0.05)
            assert "Inbox" not in said
            while "Inbox" not in await open_.said("changes"):  # noqa: ASYNC110
                await anyio.sleep(0.05)


async def test_a_bus_of_its_own_is_as_before(root: Path) -> None:
    async with vault(root, "--bus", "memory:") as first:
        await first.wait(INBOX)
        assert not list((root.parent / "cache").glob("changes*"))


# What may go wrong


def only(folder: Path, pattern: str) -> Path:
    [found] = folder.glob(pattern)
    return found


async def test_after_a_restart_of_the_machine_one_is_told_to_read_again(root: Path) -> None:
    async with vault(root) as first:
        await settled(first)
        tasks = [await first.wait(uri) for uri in (INBOX, "vault://note/*")]
        cursor = (await first.call("changes"))["structuredContent"]["cursor"]
        await first.kill()
    change_file(only(root.parent / "cache", "changes-*.db"), "UPDATE log SET boot = 'another'")
    async with vault(root) as second:
        for task in tasks:
            assert "Read them again" in await second.outcome(task)
        assert "Read again" in await second.said("changes", since=cursor)


async def test_when_the_index_is_lost_a_wait_for_a_prefix_is_told_to_read_again_and_others_are_exact(
    root: Path,
) -> None:
    async with vault(root) as first:
        await settled(first)
        quiet, changed, prefix = [await first.wait(uri) for uri in ("vault://note/Plan.md", INBOX, "vault://note/*")]
        await first.kill()
    for file in (root.parent / "cache").glob("index-*"):
        file.unlink()
    edit(root)
    async with vault(root) as second:
        await settled(second)
        for task in (changed, prefix, quiet):
            assert "Read them again" in await second.outcome(task)


async def test_a_second_server_that_builds_its_index_disturbs_nobody(root: Path) -> None:
    async with vault(root) as first:
        await settled(first)
        task = await first.wait("vault://*")
        async with vault(root) as second:
            await settled(second)
            await second.said("changes")
            assert (await first.ask("tasks/get", taskId=task))["status"] == "working"
            edit(root)
            assert INBOX in await first.outcome(task)


async def test_many_servers_start_at_once(root: Path) -> None:
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(vault(root)) for _ in range(5)]
        tasks = [await server.wait(INBOX) for server in servers]
        for server in servers:
            await settled(server)
        edit(root)
        for task in tasks:
            assert "+- eggs" in await servers[-1].outcome(task)


async def test_what_one_chat_writes_wakes_the_other_and_not_itself(root: Path) -> None:
    async with two_chats(root) as (one, two):
        for server in (one, two):
            await settled(server)
        mine, theirs = await one.wait("vault://note/*"), await two.wait("vault://note/*")
        await one.call("append", path="Inbox.md", content="- eggs")
        assert INBOX in await two.outcome(theirs)
        assert (await one.ask("tasks/get", taskId=mine))["status"] == "working"
        await two.call("append", path="Inbox.md", content="- bread")
        assert INBOX in await one.outcome(mine)


async def test_a_file_that_is_in_the_way_costs_the_log_and_nothing_else(root: Path) -> None:
    async with vault(root) as first:
        await first.ask("tools/list")
        await first.kill()
    log = only(root.parent / "cache", "changes-*.db")
    for file in (root.parent / "cache").glob("changes-*"):
        file.unlink()
    log.mkdir()
    async with vault(root) as second:
        await settled(second)
        task = await second.wait(INBOX)
        edit(root)
        assert "+- eggs" in await second.outcome(task)


async def test_a_log_that_is_locked_while_the_server_runs_costs_the_waits_and_nothing_else(root: Path) -> None:
    async with vault(root) as server:
        await settled(server)
        task = await server.wait(INBOX)
        with closing(sqlite3.connect(only(root.parent / "cache", "changes-*.db"), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            edit(root)
            assert "Read them again" in await server.outcome(task)
            again = await server.wait(INBOX)
            (root / "Inbox.md").write_text("# Inbox\n\n- bread\n")
            assert "+- bread" in await server.outcome(again)
