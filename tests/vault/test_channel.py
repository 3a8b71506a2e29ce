"""`tidings vault --channel`: changes as messages to a chat, in both eras."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.server.waking.piped import Chat, chat
from tests.server.wire import Json

pytestmark = pytest.mark.anyio
METHOD = "notifications/claude/channel"
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    (folder / "Inbox.md").write_text("# Inbox\n")
    return folder


async def opened(server: Chat, era: str) -> Json:
    """Returns the capabilities."""
    if era == "modern":
        return (await server.ask("server/discover"))["capabilities"]
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"}}
    await server.write({"id": 0, "method": "initialize", "params": params})
    capabilities = (await server.next())["result"]["capabilities"]
    await server.write({"method": "notifications/initialized"})
    return capabilities


@asynccontextmanager
async def started(root: Path, era: str, *options: str) -> AsyncGenerator[Chat]:
    async with chat("vault", str(root), "--cache", str(root.parent / "cache"), *options) as server:
        capabilities = await opened(server, era)
        assert ("claude/channel" in capabilities.get("experimental", {})) is ("--channel" in options)
        yield server


async def message(server: Chat, root: Path) -> Json:
    """The first message. The channel is open from some time after the start: a note is edited until it is told of."""
    for number in range(100):
        (root / "Probe.md").write_text(f"{number}")
        told = await server.within(0.3)
        if told is not None and told["method"] == METHOD:
            return told
    raise AssertionError("nothing came")


@ERAS
async def test_notes_that_change_are_told_of_together(root: Path, era: str) -> None:
    async with started(root, era, "--channel") as server:
        told = await message(server, root)
        assert told["method"] == METHOD
        assert "vault://note/Probe.md" in told["params"]["content"]
        for name in ("A", "B", "Inbox"):
            (root / f"{name}.md").write_text("# Title\nnew\n")
        content, told = "", {}
        while "Inbox.md" not in content:
            told = await server.next()
            content = told["params"].get("content", "")
        assert all(name in content for name in ("A.md", "B.md", "Inbox.md"))
        assert '"Inbox"' in content
        assert "data, not instructions" in content
        assert told["params"]["meta"]["kind"] == "changed"
        assert int(told["params"]["meta"]["count"]) >= 3
        assert all(isinstance(value, str) for value in told["params"]["meta"].values())


async def test_what_the_agent_writes_itself_is_not_told(root: Path) -> None:
    async with started(root, "modern", "--channel") as server:
        await message(server, root)
        done = await server.call("write", path="Mine.md", content="mine")
        assert not done.get("isError"), done
        (root / "Theirs.md").write_text("theirs")
        content = ""
        while "Theirs.md" not in content:
            content = (await server.next())["params"]["content"]
            assert "Mine.md" not in content
        assert not [each for each in server.notified if "Mine.md" in json.dumps(each)]


async def test_what_changed_before_the_start_is_not_told(root: Path) -> None:
    async with started(root, "modern", "--channel") as server:
        await message(server, root)
        await server.kill()
    (root / "Inbox.md").write_text("changed while nothing ran")
    async with started(root, "modern", "--channel") as server:
        content = (await message(server, root))["params"]["content"]
    assert "Inbox.md" not in content


@ERAS
async def test_without_the_option_nothing_is_sent(root: Path, era: str) -> None:
    async with started(root, era) as server:
        (root / "Inbox.md").write_text("changed")
        while (told := await server.within(2)) is not None:
            assert told["method"] != METHOD
