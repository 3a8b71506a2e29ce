"""The catalog: servers are added, changed, cloned, removed, imported and exported."""

import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, expect

from tests.browser.inspecting import HERE, Inspector, Look, answers, inspecting, looking
from tests.ports import free_port
from tests.server.serving import Child, eventually

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.thorough]

SAMPLE = f"{sys.executable} {HERE / 'sample.py'}"


@pytest.fixture(scope="module")
async def inspector(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Inspector]:
    folder = tmp_path_factory.mktemp("servers")
    known = {"found": {"command": "uvx", "args": ["found"], "env": {"API_KEY": "sk-very-secret"}}}
    (folder / ".cursor").mkdir()
    (folder / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": known}))
    async with inspecting(folder) as one:
        yield one


@pytest.fixture
async def look(browser: Browser, inspector: Inspector) -> AsyncGenerator[Look]:
    async with looking(browser, inspector) as one:
        yield one


def _entry(look: Look, name: str) -> Locator:
    return look("entry").filter(has=look.page.get_by_role("link", name=name, exact=True))


def _catalog(look: Look) -> dict[str, Any]:
    return json.loads((look.inspector.folder / "servers.json").read_text())["mcpServers"]


async def test_without_a_server_one_is_shown_how_to_add_it(look: Look) -> None:
    await expect(look("screen-servers")).to_contain_text("No servers yet")
    await look.page.get_by_role("link", name="Add a server").last.click()
    await expect(look("server-form")).to_be_visible()


async def test_a_command_is_added_changed_cloned_and_removed(look: Look) -> None:
    await look.general("servers", "new")
    await look("server-target").fill(f"{SAMPLE} 'two words'")
    await look("server-title").fill("mine")
    await look("server-save").click()
    await look.connected("mine")
    await expect(look("screen-live")).to_be_visible()
    assert _catalog(look)["mine"]["args"][-1] == "two words"
    await look.general("servers")
    await _entry(look, "mine").get_by_role("link", name="Edit").click()
    await expect(look("server-target")).to_have_value(f'{SAMPLE} "two words"')
    await look("server-form").get_by_text("Advanced").click()
    await look("server-form").get_by_label("Protocol version").fill("legacy")
    await look("server-form").get_by_label("Log level").select_option("debug")
    await look("server-form").get_by_label("Request timeout").fill("5")
    await look("server-form").get_by_label("Connect when").check()
    await look("server-save").click()
    await expect(look("screen-live")).to_be_visible()
    await look.connected("mine")
    await look.screen("mine", "overview")
    await expect(look("screen-overview")).to_contain_text("legacy era")
    changed = _catalog(look)["mine"]["tidings"]
    assert changed == {"era": "legacy", "logLevel": "debug", "timeouts": {"request": 5}, "autoConnect": True}
    await look.general("servers")
    await _entry(look, "mine").get_by_role("button", name="Clone").click()
    await expect(look("entry")).to_have_count(2)
    copy = look("entry").nth(1)
    await copy.get_by_test_id("remove").click()
    await copy.get_by_test_id("confirm-removal").click()
    await expect(look("entry")).to_have_count(1)
    await _entry(look, "mine").get_by_role("button", name="Disconnect").click()
    await expect(_entry(look, "mine")).to_contain_text("not connected")
    await _entry(look, "mine").get_by_test_id("connect-entry").click()
    await look.connected("mine")


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_an_address_is_added(look: Look, kind: str, tmp_path: Path) -> None:
    port = free_port()
    server = Child("tests.browser.sample", kind, str(port), log=tmp_path / "log")
    try:
        await eventually(lambda: answers(port))
        await look.general("servers", "new")
        await look("server-target").fill(f"http://127.0.0.1:{port}/{'mcp' if kind == 'http' else 'sse'}")
        await look("server-title").fill(f"by {kind}")
        await look("server-save").click()
        await look.connected(f"by {kind}")
        await expect(look("screen-live")).to_be_visible()
        await look.screen(f"by {kind}", "messages")
        await look("exchanges").click()
        await expect(look.rows("messages").first).to_contain_text("POST" if kind == "http" else f"{port}")
        await look.rows("messages").first.click()
        await expect(look("json")).to_contain_text('"url"')
        await look.general("servers")
        await _entry(look, f"by {kind}").get_by_test_id("remove").click()
        await look("confirm-removal").click()
        await expect(_entry(look, f"by {kind}")).to_have_count(0)
    finally:
        server.stop()


async def test_what_is_no_server_is_told_who_is_at_fault(look: Look) -> None:
    await look.general("servers", "new")
    await look("server-target").fill("no-such-program-anywhere --now")
    await look("server-save").click()
    await expect(look("server-state")).to_contain_text("failed")
    await look("tab-overview").click()
    await expect(look("error")).to_contain_text("no-such-program-anywhere")
    await expect(look("error").get_by_role("link", name="How to fix this")).to_be_visible()
    await look("error").get_by_role("link", name="How to fix this").click()
    await expect(look("markdown")).to_be_visible()


async def test_servers_are_imported_from_another_program_and_from_a_text(look: Look) -> None:
    await look.general("servers")
    await look("import-servers").click()
    row = look("screen-servers").locator(".row").filter(has_text="Cursor")
    await row.get_by_test_id("import-client").click()
    await expect(look("import-message")).to_contain_text("1 server added: found")
    await look("import-text").fill(json.dumps({"mcpServers": {"pasted": {"url": "http://127.0.0.1:9/mcp"}}}))
    await look("import").click()
    await expect(look("import-message")).to_contain_text("pasted")
    await look("import-text").fill("{not json")
    await look("import").click()
    await expect(look("error")).to_be_visible()
    assert {"found", "pasted"} <= _catalog(look).keys()
    await look.general("servers")
    await expect(_entry(look, "found")).to_contain_text("uvx found")
    assert "sk-very-secret" not in await look.page.content()


async def test_the_catalog_is_exported_without_its_secrets(look: Look) -> None:
    await look.general("servers")
    await expect(_entry(look, "found")).to_be_visible()
    async with look.page.expect_download() as saving:
        await look.page.get_by_role("button", name="Export").click()
    saved = (await (await saving.value).path()).read_text()
    assert json.loads(saved)["mcpServers"]["found"]["command"] == "uvx"
    assert "sk-very-secret" not in saved
