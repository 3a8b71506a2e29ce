"""Waiting for changes of a vault: what a model is told."""

from pathlib import Path

import pytest

from tests.server.serving import eventually, serving
from tests.server.waking.tasking import QUICK, call, get, reaches, text, wait
from tidings.changes import ResourceUpdated
from tidings.server import Waking
from tidings.vault.server import VaultServer

pytestmark = pytest.mark.anyio
INBOX = "vault://note/Inbox.md"


def server(root: Path, cache: Path) -> VaultServer:
    (root / "Inbox.md").write_text("# Inbox\n\n- milk\n")
    return VaultServer(root, cache=cache, waking=QUICK)


@pytest.mark.parametrize("uri", [INBOX, "vault://note/Inbox", "vault://note/*", "vault://*"])
async def test_an_edit_is_shown_as_a_difference(tmp_path: Path, uri: str) -> None:
    root = tmp_path / "vault"
    root.mkdir()
    vault = server(root, tmp_path / "cache")
    async with serving(vault.asgi()) as port:
        await vault.library.settled()
        task = await wait(port, uri)
        (root / "Inbox.md").write_text("# Inbox\n\n- milk\n- eggs\n")
        said = text((await reaches(port, task, "completed"))["result"])
    assert "+- eggs" in said
    assert "-- milk" not in said


@pytest.mark.parametrize("uri", [INBOX, "vault://*"])
async def test_a_note_that_the_agent_writes_itself_does_not_wake_it(tmp_path: Path, uri: str) -> None:
    root = tmp_path / "vault"
    root.mkdir()
    vault = server(root, tmp_path / "cache")
    async with serving(vault.asgi()) as port:
        await vault.library.settled()
        task = await wait(port, uri)
        written = await call(port, "append", path="Inbox.md", content="- mine")
        assert not written.get("isError"), written
        assert (await get(port, task))["status"] == "working"
        with (root / "Inbox.md").open("a") as note:
            note.write("- theirs\n")
        said = text((await reaches(port, task, "completed"))["result"])
    assert "+- theirs" in said


@pytest.mark.parametrize("uri", ["vault://nonsense/x", "vault://nonsense*", "vault://note/../x.md", "http://x", "*"])
async def test_waiting_for_what_can_never_exist_is_refused_and_says_what_there_is(tmp_path: Path, uri: str) -> None:
    root = tmp_path / "vault"
    root.mkdir()
    async with serving(server(root, tmp_path / "cache").asgi()) as port:
        refused = await call(port, "wait_for_change", uris=[uri])
    assert refused["isError"]
    assert "vault://note/" in text(refused)


@pytest.mark.parametrize("uri", ["vault://note/New.md", "vault://note/*"])
async def test_a_note_that_does_not_exist_yet_can_be_waited_for(tmp_path: Path, uri: str) -> None:
    root = tmp_path / "vault"
    root.mkdir()
    vault = server(root, tmp_path / "cache")
    async with serving(vault.asgi()) as port:
        await vault.library.settled()
        task = await wait(port, uri)
        (root / "New.md").write_text("here")
        said = text((await reaches(port, task, "completed"))["result"])
    assert "vault://note/New.md" in said
    assert "+here" in said


@pytest.mark.parametrize("declares", [True, False])
@pytest.mark.parametrize("misspelled", ["vault://note/Projetcs/Plan.md", "vault://note/Projects/Plna.md"])
async def test_a_misspelled_note_is_named_at_once_with_the_closest(
    tmp_path: Path, misspelled: str, declares: bool
) -> None:
    root = tmp_path / "vault"
    (root / "Projects").mkdir(parents=True)
    (root / "Projects" / "Plan.md").write_text("# Plan")
    async with serving(server(root, tmp_path / "cache").asgi()) as port:  # Asked before the index is complete.
        answer = await call(port, "wait_for_change", declares=declares, uris=[misspelled])
    said = answer["statusMessage"] if declares else text(answer)
    assert f"Nothing exists at {misspelled} now" in said
    assert "Did you mean 'Projects/Plan.md'?" in said


@pytest.mark.parametrize("declares", [True, False])
async def test_a_path_or_a_title_is_refused_with_its_uri(tmp_path: Path, declares: bool) -> None:
    root = tmp_path / "vault"
    (root / "Projects").mkdir(parents=True)
    (root / "Projects" / "Big Plan.md").write_text("# Big Plan")
    async with serving(server(root, tmp_path / "cache").asgi()) as port:
        path, title, misspelled = [
            text(await call(port, "wait_for_change", declares=declares, uris=[each]))
            for each in ("Projects/Big Plan.md", "Big Plan", "Bgi Plan")
        ]
    assert "Did you mean vault://note/Projects/Big%20Plan.md?" in path
    assert "Did you mean vault://note/Big%20Plan?" in title
    assert "Did you mean 'Projects/Big Plan.md'?" in misspelled


async def test_notes_that_were_read_and_have_changed_are_named_in_other_results(tmp_path: Path) -> None:
    root = tmp_path / "vault"
    root.mkdir()
    server(root, tmp_path / "cache")
    vault = VaultServer(root, cache=tmp_path / "cache", waking=Waking(hints=True))
    async with serving(vault.asgi()) as port:
        await vault.library.settled()
        assert len((await call(port, "read", paths=["Inbox"]))["content"]) == 1
        (root / "Inbox.md").write_text("# Inbox\n\n- bread\n")
        await eventually(lambda: ResourceUpdated(INBOX) in vault._bus._log._records)  # type: ignore[union-attr]
        _, hint, link = (await call(port, "search", query="bread"))["content"]
        assert hint["text"].startswith("Changed since you last read")
        assert link["uri"] == INBOX
        assert len((await call(port, "search", query="bread"))["content"]) == 1
        await call(port, "append", path="Inbox.md", content="- mine")
        assert len((await call(port, "search", query="bread"))["content"]) == 1
