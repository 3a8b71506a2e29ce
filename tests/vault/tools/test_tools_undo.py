"""Undoing writes, their history, and what an agent is told after a crash."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

import tidings
from tests.vault.agent import Agent, at
from tidings.vault.files.journal import Operation, Step
from tidings.vault.index.index import journal_in
from tidings.vault.server import VaultServer

pytestmark = pytest.mark.anyio


async def history(agent: Agent, query: str = "") -> list[dict[str, Any]]:
    read = await agent.client.read_resource(f"vault://history{query}")
    return json.loads(read.contents[0].text)["items"]


async def test_what_was_deleted_comes_back_and_is_found_again(tmp_path: Path) -> None:
    async with at(tmp_path, {"A.md": "apple\n", "B.md": "[[A]]\n"}) as agent:
        await agent.call("delete", path="A")
        done = await agent.call("undo")
        assert done == {"done": "Undid: Deleted A.md.", "changed": ["A.md"]}
        assert agent.on_disk("A.md") == "apple\n"
        assert (await agent.call("search", query="apple"))["total"] == 1
        assert "nothing that could be undone" in await agent.refused("undo")


async def test_the_history_says_what_was_changed_and_can_be_undone_by_id(tmp_path: Path) -> None:
    async with at(tmp_path, {"A.md": "one #x\n", "B.md": "[[A]] #x\n"}) as agent:
        await agent.call("edit", path="A", edits=[{"find": "one", "content": "two"}])
        await agent.call("rename_tag", tag="x", to="y")
        await agent.call("move", path="A", to="C")
        items = await history(agent, "?mode=full")
        assert [item["did"] for item in items] == ["Moved A.md to C.md", "Renamed #x to #y", "Edited A.md"]
        assert "A.md → C.md" in items[0]["diff"]
        assert "+[[C]] #y" in items[0]["diff"]
        assert "-one #x\n+two #x" in items[2]["diff"]
        said = await agent.refused("undo", change=items[2]["id"])
        assert "'A.md' no longer exists" in said
        for item in items:
            await agent.call("undo", change=item["id"])
        assert (agent.on_disk("A.md"), agent.on_disk("B.md")) == ("one #x\n", "[[A]] #x\n")
        assert [item["state"] for item in await history(agent) if "state" in item] == ["undone"] * 3


async def test_who_watches_the_history_is_told_of_each_write(tmp_path: Path) -> None:
    (tmp_path / "Vault").mkdir()
    server = VaultServer(tmp_path / "Vault", cache=tmp_path / "cache")
    async with tidings.connect(server) as client:
        with anyio.fail_after(20):
            async for found in client.watch("vault://history"):
                total = json.loads(found.text or "")["total"]
                if total == 2:
                    break
                await client.call_tool("write", {"path": f"{total}.md", "content": "x"})


async def test_an_agent_is_told_what_was_finished_after_a_crash(tmp_path: Path) -> None:
    (root := tmp_path / "Vault").mkdir()
    (root / "A.md").write_text("new\n")
    (root / "B.md").write_text("old\n")
    server = VaultServer(root, cache=tmp_path / "cache")
    killed = Operation("Renamed #x to #y", journal_in(tmp_path / "cache", server.vault))
    killed.intend(*(Step(path, before=b"old\n", after=b"new\n") for path in ("A.md", "B.md")))
    killed.end("begun")
    async with Client(server, cache=None) as client:
        with anyio.fail_after(20):
            await server.library.settled()
        agent = Agent(server, client, root)
        assert agent.on_disk("B.md") == "new\n"
        assert "'Renamed #x to #y' was interrupted, and has been finished" in (await agent.call("info"))["note"]
        assert (await history(agent))[0]["state"] == "recovered"
        assert "new" in (await agent.client.read_resource("vault://note/B")).contents[0].text


async def test_a_note_whose_name_begins_with_a_space_is_read_and_written(tmp_path: Path) -> None:
    async with at(tmp_path, {" lead.md": "one\n", "lead.md": "other\n"}) as agent:
        await agent.call("append", path=" lead.md", content="two")
        assert agent.on_disk(" lead.md") == "one\ntwo\n"
        read = await agent.client.read_resource("vault://note/%20lead.md")
        assert read.contents[0].text == "one\ntwo\n"


async def test_an_alias_stands_for_its_note(tmp_path: Path) -> None:
    files = {"Plan.md": "---\naliases: [The big plan]\n---\nx\n", "Two.md": "---\naliases: Both\n---\n"}
    async with at(tmp_path, {**files, "Three.md": "---\naliases: both\n---\n"}) as agent:
        await agent.call("append", path="the big plan", content="y")
        assert agent.on_disk("Plan.md").endswith("x\ny\n")
        assert "'Three.md', 'Two.md'" in await agent.refused("append", path="Both", content="y")


async def test_a_conflict_after_the_facts_of_a_note_knows_its_old_text(tmp_path: Path) -> None:
    text = "line\n" * 1000
    async with at(tmp_path, {"A.md": f"{text}old\n"}) as agent:
        version = (await agent.call("info", path="A"))["version"]
        agent.put({"A.md": f"{text}new\n"})
        said = await agent.refused("append", path="A", content="x", if_match=version)
        assert "-old\n+new" in said


async def test_headings_that_are_alike_are_told_apart_by_their_lines(tmp_path: Path) -> None:
    async with at(tmp_path, {"A.md": "# A\n## B\none\n## B\ntwo\n"}) as agent:
        said = await agent.refused("edit", path="A", edits=[{"section": "B", "content": "x"}])
        assert "Name its lines instead" in said
