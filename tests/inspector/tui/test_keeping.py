"""What is done in the terminal app is kept: servers in the catalog, the session in the journal."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import TextArea

from tests.inspector.tui.city import city
from tests.inspector.tui.inspector import inspector, on_server, until
from tests.inspector.tui.test_flood import over
from tests.inspector.tui.test_using import shows
from tidings.inspector.catalog.catalog import Catalog
from tidings.inspector.session import Session, SessionServers
from tidings.inspector.tui.app import InspectorApp

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


async def test_a_server_is_added_and_removed_in_the_catalog_too(tmp_path: Path) -> None:
    async with with_catalog(tmp_path) as pilot:
        app = inspector(pilot)
        await pilot.press("n", *NOWHERE, "enter")
        await until(pilot, lambda: "127.0.0.1:9" in in_file(tmp_path) and app.server.name == "127.0.0.1:9")  # type: ignore[union-attr]
        await pilot.press("X")
        await shows(pilot, "Remove 127.0.0.1:9?")
        await pilot.press("enter")
        await until(pilot, lambda: in_file(tmp_path) == KNOWN)
        await until(pilot, lambda: "127.0.0.1:9" not in app.session.servers)


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


async def test_a_request_is_edited_and_sent() -> None:
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
        await until(pilot, lambda: app.tab == "messages")
        await until(pilot, lambda: "42" in str([each.result for each in server.view.requests.values()]))


async def test_exchanges_over_http_are_shown_with_their_headers() -> None:
    async with over("http", "legacy") as pilot:
        app = inspector(pilot)
        await pilot.press("6", "h")
        await shows(pilot, "POST")
        await until(pilot, lambda: "200" in str([each.status for each in app.server.view.exchanges]))  # type: ignore[union-attr]
        await pilot.press("G")
        await shows(pilot, "content-type")
