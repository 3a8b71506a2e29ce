"""Live, and what belongs to it: a note that is edited appears at once, with what changed in it."""

import sys
from collections.abc import AsyncGenerator

import pytest
from playwright.async_api import Browser, expect

from tests.browser.inspecting import Inspector, Look, command, inspecting, looking

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

NOTE = "# Launch plan\n\n- [ ] Freeze the API by Friday\n- [ ] Docs reviewed by [[Ada]]\n"
ERAS = ["modern", "legacy"]


@pytest.fixture(scope="module")
async def inspector(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Inspector]:
    folder = tmp_path_factory.mktemp("live")
    vault = folder / "vault"
    (vault / "Projects").mkdir(parents=True)
    for era in ERAS:
        (vault / "Projects" / f"Plan {era}.md").write_text(NOTE)
    words = (sys.executable, "-m", "tidings", "vault", str(vault))
    servers = {"modern": command(*words, era="auto"), "legacy": command(*words, era="legacy")}
    async with inspecting(folder, servers) as one:
        yield one


@pytest.fixture
async def look(browser: Browser, inspector: Inspector) -> AsyncGenerator[Look]:
    async with looking(browser, inspector) as one:
        yield one


@pytest.mark.parametrize("era", ERAS)
async def test_an_edited_note_appears_with_what_changed_and_how_long_it_took(look: Look, era: str) -> None:
    await look.connected(era)
    file = look.inspector.folder / "vault" / "Projects" / f"Plan {era}.md"
    uri = f"vault://note/Projects/Plan%20{era}.md"
    await look.screen(era, "resources")
    await look("uri").fill(uri)
    await look("uri").press("Enter")
    await expect(look("markdown")).to_contain_text("Freeze the API by Friday")
    await look("subscribe").click()
    await expect(look("subscription")).to_have_text("subscribed; no change yet")
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
    await expect(look("markdown").get_by_role("img", name="open")).to_have_count(2)
    await expect(look("strip-updated")).not_to_have_text("0")


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
