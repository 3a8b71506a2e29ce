"""Two processes on one vault, one of which sees changes late."""

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest

import tidings
from tidings.vault.files.paths import Vault
from tidings.vault.server import VaultServer
from tidings.vault.watch import Happening, LookAround

pytestmark = pytest.mark.anyio


async def _blind(_: Vault) -> AsyncGenerator[Happening]:
    """Sees how the vault is at the start, and nothing after it."""
    yield LookAround("events")
    await anyio.sleep_forever()


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("vault://note/Inbox.md", "eggs"),
        ("vault://note/*", "eggs"),
        ("vault://tag/urgent", "Inbox.md"),
        ("vault://search/eggs", "Inbox.md"),
        ("vault://recent", "Inbox.md"),
    ],
)
async def test_what_another_process_publishes_first_is_read_fresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str, text: str
) -> None:
    root = tmp_path / "vault"
    root.mkdir()
    (root / "Inbox.md").write_text("# Inbox\n")
    (root / "Plan.md").write_text("# Plan\n")
    slow = VaultServer(root, cache=tmp_path / "cache", durable=True)
    monkeypatch.setattr(slow.library, "watcher", _blind)
    quick = VaultServer(root, cache=tmp_path / "cache", durable=True)
    async with tidings.connect(slow) as one, tidings.connect(quick) as two:
        await one.subscribe(uri)
        await two.subscribe(uri)
        note = uri if "*" not in uri else "vault://note/Inbox.md"
        before = (await one.read_resource(note)).text
        seen = [before]
        with anyio.fail_after(10):
            async for fresh in one.watch(note):
                seen.append(fresh.text)
                if len(seen) == 2:
                    (root / "Inbox.md").write_text("# Inbox\n\n- eggs #urgent\n")
                elif text in fresh.text and fresh.text != before:
                    break


async def test_a_wait_shows_what_another_process_has_seen_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "vault"
    root.mkdir()
    (root / "Inbox.md").write_text("# Inbox\n")
    slow = VaultServer(root, cache=tmp_path / "cache", durable=True)
    monkeypatch.setattr(slow.library, "watcher", _blind)
    quick = VaultServer(root, cache=tmp_path / "cache", durable=True)
    async with tidings.connect(slow) as one, tidings.connect(quick) as two, anyio.create_task_group() as tasks:
        await two.subscribe("vault://note/Inbox.md")
        await two.read_resource("vault://note/Inbox.md")

        async def edit() -> None:
            while not slow.notify.subscribers():  # noqa: ASYNC110 - nobody tells
                await anyio.sleep(0.01)
            (root / "Inbox.md").write_text("# Inbox\n\n- eggs\n")

        tasks.start_soon(edit)
        with anyio.fail_after(10):
            told = await one.call_tool("wait_for_change", {"uris": ["vault://note/Inbox.md"]})
        assert "- eggs" in str(told.result)


async def test_what_a_process_publishes_itself_is_not_looked_at_again(tmp_path: Path) -> None:
    root = tmp_path / "vault"
    root.mkdir()
    (root / "Inbox.md").write_text("# Inbox\n")
    server = VaultServer(root, cache=tmp_path / "cache", durable=True)
    async with tidings.connect(server) as client:
        await client.subscribe("vault://note/Inbox.md")
        with anyio.fail_after(10):
            async for fresh in client.watch("vault://note/Inbox.md"):
                if "eggs" in fresh.text:
                    break
                (root / "Inbox.md").write_text("# Inbox\n\n- eggs\n")
            assert server.library._rounds == 0
            await server.notify.resource_updated("vault://note/Inbox.md")  # A program that knows more.
            while not server.library._rounds:  # noqa: ASYNC110 - nobody tells
                await anyio.sleep(0.01)
