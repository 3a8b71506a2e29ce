"""Live, and what belongs to it: a note that is edited appears at once, with what changed in it."""

import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.browser.inspecting import Inspector, Look, answers, command, inspecting, looking
from tests.ports import free_port
from tests.server.serving import Child, eventually

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

NOTE = "# Launch plan\n\n- [ ] Freeze the API by Friday\n- [ ] Docs reviewed by [[Ada]]\n"
ERAS = ["modern", "legacy"]


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
async def inspector(tmp_path_factory: pytest.TempPathFactory, port: int) -> AsyncGenerator[Inspector]:
    folder = tmp_path_factory.mktemp("live")
    vault = folder / "vault"
    (vault / "Projects").mkdir(parents=True)
    for era in ERAS:
        (vault / "Projects" / f"Plan {era}.md").write_text(NOTE)
    words = (sys.executable, "-m", "tidings", "vault", str(vault))
    servers = {"modern": command(*words, era="auto"), "legacy": command(*words, era="legacy")}
    servers["sample"] = {"url": f"http://127.0.0.1:{port}/mcp", "tidings": {"autoConnect": True}}
    async with inspecting(folder, servers) as one:
        yield one


@pytest.fixture
async def look(browser: Browser, inspector: Inspector) -> AsyncGenerator[Look]:
    async with looking(browser, inspector) as one:
        yield one


@pytest.mark.parametrize("era", ["modern", pytest.param("legacy", marks=pytest.mark.thorough)])
async def test_an_edited_note_appears_with_what_changed_and_how_long_it_took(look: Look, era: str) -> None:
    await look.connected(era)
    file = look.inspector.folder / "vault" / "Projects" / f"Plan {era}.md"
    uri = f"vault://note/Projects/Plan%20{era}.md"
    await look.screen(era, "resources")
    await look("uri").fill(uri)
    await look("uri").press("Enter")
    await expect(look("markdown")).to_contain_text("Freeze the API by Friday")
    await look("subscribe").click()
    await expect(look("subscription")).to_have_text("subscribed, no updates yet")
    await look("tab-live").click()
    file.write_text(NOTE.replace("[ ] Freeze the API by Friday", "[x] Freeze the API on 14 November"))
    row = look.row("changes", f"Plan {era}.md")
    await expect(row).to_be_visible()
    await row.click()
    await expect(look("change-title")).to_have_text(f"Projects/Plan {era}.md")
    await expect(look("diff").locator(".del")).to_contain_text("by Friday")
    await expect(look("diff").locator(".del mark").last).to_have_text("by Friday")
    await expect(look("diff").locator(".add mark").last).to_have_text("on 14 November")
    await expect(look("hops")).to_contain_text("received")
    await expect(look("fresh")).to_contain_text("fresh in")
    await expect(look("version")).to_have_count(2)
    await look("diff-beside").click()
    await expect(look("diff").locator(".two .del")).to_contain_text("by Friday")
    await look("view-source").click()
    await expect(look("contents")).to_contain_text("- [x] Freeze the API on 14 November")
    await look("version").first.click()
    await expect(look("contents")).to_contain_text("by Friday")
    await look("view-rendered").click()
    await expect(look("markdown").get_by_role("img", name="to do")).to_have_count(2)
    await expect(look("chart-updated")).not_to_have_text("0")


async def test_the_changes_of_all_servers_are_together_and_one_can_look_back(look: Look) -> None:
    await look.connected("modern")
    await look.connected("legacy")
    folder = look.inspector.folder / "vault" / "Projects"
    for era in ("modern", "legacy"):
        await look.screen(era, "resources")
        await look("uri").fill(f"vault://note/Projects/Plan%20{era}.md")
        await look("uri").press("Enter")
        await expect(look("subscribe")).to_be_visible()
        if await look("subscribe").get_attribute("aria-pressed") == "false":
            await look("subscribe").click()
        await expect(look("subscribe")).to_have_attribute("aria-pressed", "true")
    await look("all-servers").click()
    await expect(look("lane")).to_have_count(await look("server").count())
    for era in ("modern", "legacy"):
        of_note = look.rows("changes").filter(has_text=f"Plan {era}.md")
        seen = await of_note.count()
        (folder / f"Plan {era}.md").write_text(f"# Together, {era}")
        await expect(of_note).not_to_have_count(seen)
        await expect(of_note.first).to_contain_text(era)
    await look.row("changes", "Plan modern.md").click()
    await expect(look("change-title")).to_have_text("Projects/Plan modern.md")
    await expect(look("screen-live")).to_contain_text("Together, modern")
    # Before the first of these changes there is nothing.
    await look("lanes").press("Home")
    await expect(look("screen-live")).to_contain_text("No changes before this moment")
    (folder / "Plan legacy.md").write_text("# Meanwhile")
    await expect(look("lanes-follow")).to_be_visible()
    await look("lanes-follow").click()
    await expect(look.row("changes", "Plan legacy.md")).to_be_visible()


async def test_the_address_of_a_change_leads_to_it_again(look: Look) -> None:
    await look.connected("modern")
    await look.screen("modern", "live")
    await look.rows("changes").first.click()
    title = await look("change-title").text_content()
    address = look.page.url
    assert "/live/" in address
    await look.page.reload()
    await expect(look("change-title")).to_have_text(str(title))
    assert look.page.url == address


async def test_a_change_of_a_list_and_what_changed_while_away_say_what_is_different(
    look: Look, port: int, tmp_path: Path
) -> None:
    words = ("tests.browser.sample", "http", str(port))
    server = Child(*words, log=tmp_path / "first")
    try:
        await eventually(lambda: answers(port))
        await look.connected("sample")
        await look.screen("sample", "resources", "note://plan")
        await look("subscribe").click()
        await _call(look, "grow", "name", "sprig")
        await _call(look, "write", "text", "# Another plan")
        await look("tab-live").click()
        await look.row("changes", "tools list: sprig added").click()
        await expect(look("differences")).to_have_text("+addedsprig")
        await expect(look("fresh")).to_contain_text("fresh in")
        await look.row("changes", "note://plan").click()
        await expect(look("diff").locator(".add")).to_contain_text("# Another plan")
        server.stop()
        server = Child(*words, log=tmp_path / "second")
        await look.row("changes", "tools list: sprig removed").click()
        await expect(look("hops")).to_contain_text("changed while the server was offline")
        await expect(look("differences")).to_contain_text("removedsprig")
        await look.rows("changes").filter(has_text="note://plan").filter(has_text="offline").click()
        await expect(look("diff").locator(".del")).to_contain_text("# Another plan")
        await expect(look("diff")).to_contain_text("Freeze the API by Friday")
    finally:
        server.stop()


async def test_what_a_prefix_covers_is_shown_with_what_changed(look: Look) -> None:
    await look.connected("modern")
    await look.screen("modern", "resources")
    await look("uri").fill("vault://note/Projects/*")
    await look("uri").press("Enter")
    await look("subscribe").click()
    await expect(look("subscribe")).not_to_have_text("Subscribe")
    await look("tab-live").click()
    file = look.inspector.folder / "vault" / "Projects" / "Plan legacy.md"
    for text in ("# One\n", "# Two\n"):
        file.write_text(text)
        # The newest change is shown until another one is selected.
        await expect(look("change-title")).to_have_text("Projects/Plan legacy.md")
        await expect(look("screen-live")).to_contain_text(text.strip("# \n"))
    await expect(look("diff").locator(".del")).to_contain_text("# One")


async def _call(look: Look, tool: str, field: str, text: str) -> None:
    await look.screen("sample", "tools", tool)
    await look(f"field-{field}").get_by_role("textbox").fill(text)
    await look("call").click()
    await expect(look("request-status")).to_contain_text("done")
