"""What is done in the terminal app is kept: servers in the catalog, the session in the journal."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from tests.inspector.tui.city import city
from tests.inspector.tui.inspector import inspector, on_server, until
from tests.inspector.tui.test_flood import over
from tests.inspector.tui.test_using import shows
from tidings.inspector.catalog import Catalog
from tidings.inspector.session import Session, SessionServers
from tidings.inspector.sessions.saved import import_session, list_sessions
from tidings.inspector.tui.app import InspectorApp
from tidings.inspector.tui.dialogs import CopyAs

pytestmark = pytest.mark.anyio

NOWHERE = "http://127.0.0.1:9/mcp"
KNOWN = {"known": {"url": NOWHERE, "headers": {"Authorization": "Bearer secret-of-known"}, "kept": 5}}


@asynccontextmanager
async def with_catalog(folder: Path, *, read_only: bool = False) -> AsyncGenerator[Pilot[None]]:
    path = folder / "catalog.json"
    path.write_text(json.dumps({"mcpServers": KNOWN}))
    async with Session(journal=folder / "sessions.db") as session:
        servers = SessionServers(session, Catalog(path, read_only=read_only), {})
        await servers.begin(())
        async with InspectorApp(session, servers=servers).run_test(size=(120, 40), notifications=True) as pilot:
            await pilot.pause()
            yield pilot


def in_file(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "catalog.json").read_text())["mcpServers"]


async def test_a_server_is_added_edited_cloned_and_removed_in_the_catalog_too(tmp_path: Path) -> None:
    async with with_catalog(tmp_path) as pilot:
        app = inspector(pilot)
        await pilot.press("n", *NOWHERE, "enter")
        await until(pilot, lambda: "127.0.0.1:9" in in_file(tmp_path) and app.server.name == "127.0.0.1:9")  # type: ignore[union-attr]

        app.choose("known")
        await pilot.press("E")
        await shows(pilot, "Edit known")
        await until(pilot, lambda: isinstance(app.focused, Input))
        await pilot.press("end", *" better", "ctrl+r")
        await until(pilot, lambda: "known better" in in_file(tmp_path))
        # What is masked, and what nobody here knows, is as it was.
        assert in_file(tmp_path)["known better"] == KNOWN["known"]
        await until(pilot, lambda: app.server is not None and app.server.name == "known better")

        app.action_clone_server()
        await until(pilot, lambda: "known better copy" in in_file(tmp_path))
        await until(pilot, lambda: app.server is not None and app.server.name == "known better copy")
        await pilot.press("X")
        await shows(pilot, "Remove known better copy?")
        await pilot.press("enter")
        await until(pilot, lambda: list(in_file(tmp_path)) == ["known better", "127.0.0.1:9"])
        await until(pilot, lambda: "known better copy" not in app.session.servers)


async def test_a_catalog_that_is_only_read_stays_as_it_is(tmp_path: Path) -> None:
    async with with_catalog(tmp_path, read_only=True) as pilot:
        app = inspector(pilot)
        await pilot.press("n")
        await shows(pilot, "It is not kept")
        await pilot.press(*NOWHERE, "enter")
        await until(pilot, lambda: "127.0.0.1:9" in app.session.servers)
        app.choose("known")
        await pilot.press("X", "enter")
        await shows(pilot, "read-only")
        assert in_file(tmp_path) == KNOWN


async def test_servers_of_other_clients_are_imported_without_being_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".cursor").mkdir()
    entry = {"command": "nonesuch-program", "args": ["--now"]}
    (tmp_path / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": {"first": entry, "other": entry}}))
    (tmp_path / ".claude.json").write_text("{ no JSON")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    async with with_catalog(tmp_path) as pilot:
        app = inspector(pilot)
        await pilot.press("i")
        await shows(pilot, "first  (Cursor)")
        await shows(pilot, "Claude Code:")  # What could not be read is said.
        await pilot.press("space", "enter")
        await until(pilot, lambda: "first" in in_file(tmp_path))
        await until(pilot, lambda: app.server is not None and app.server.name == "first")
        assert "other" not in app.session.servers
        assert app.session.servers["first"].view.state == "disconnected"


async def test_a_session_is_listed_named_exported_and_deleted(tmp_path: Path) -> None:
    for _ in range(2):
        async with with_catalog(tmp_path):
            pass
    async with with_catalog(tmp_path) as pilot:
        await pilot.press("S")
        await shows(pilot, "this one")
        await pilot.press("m", *"mine", "enter")
        await until(pilot, lambda: list_sessions(tmp_path / "sessions.db")[0].title == "mine")
        await shows(pilot, "mine")
        await pilot.press("e")
        await shows(pilot, "as JSON Lines")
        file = tmp_path / "session.jsonl"
        pilot.app.screen.query_one(Input).value = str(file)
        await pilot.press("enter")
        await until(pilot, lambda: file.exists() and file.stat().st_size)
        assert import_session(file).records[0].server == "known"
        assert "secret-of-known" not in file.read_text()
        await pilot.press("j", "d", "enter")
        await until(pilot, lambda: len(list_sessions(tmp_path / "sessions.db")) == 2)


async def test_without_a_journal_it_says_that_nothing_is_kept() -> None:
    async with on_server(city()) as pilot:
        await pilot.press("S")
        await shows(pilot, "Nothing of this session is kept")


async def test_a_request_is_edited_and_sent_and_copied() -> None:
    async with on_server(city()) as pilot:
        app = inspector(pilot)
        await until(pilot, lambda: app.server is not None and "add" in app.server.view.tools)
        server: Any = app.server
        await server.wait(server.call("add", {"a": 1, "b": 2}))
        await pilot.press("6", "slash", *"tools/call", "enter", "e")
        await shows(pilot, "Edit the request")
        area = app.screen.query_one(TextArea)
        assert "_meta" not in area.text
        area.text = "{ no JSON"
        await pilot.press("ctrl+r")
        await shows(pilot, "This is not JSON")
        area.text = json.dumps({"name": "add", "arguments": {"a": 40, "b": 2}})
        await pilot.press("ctrl+r")
        await until(pilot, lambda: app.tab == "requests")
        await shows(pilot, "42")

        await pilot.press("c")
        await until(pilot, lambda: isinstance(app.screen, CopyAs))
        copy: Any = app.screen
        assert "client.call_tool('add', {'a': 40, 'b': 2})" in copy.text
        await pilot.press("2")
        assert json.loads(copy.text)["params"]["arguments"] == {"a": 40, "b": 2}
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard.startswith('{\n  "jsonrpc"'))


async def test_exchanges_over_http_are_shown_with_their_headers() -> None:
    async with over("http", "legacy") as pilot:
        app = inspector(pilot)
        await pilot.press("6", "h")
        await shows(pilot, "POST")
        await until(pilot, lambda: "200" in str([each.status for each in app.server.view.exchanges]))  # type: ignore[union-attr]
        await pilot.press("G")
        await shows(pilot, "content-type")
