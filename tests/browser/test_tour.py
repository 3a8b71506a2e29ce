"""The tour of `tidings demo` in its page: each step is clicked, and ticked off when its effect is seen."""

import re
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.browser.inspecting import Inspector, Look, looking
from tests.demo.showing import are_gone, shown

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


@pytest.fixture
async def look(browser: Browser, tmp_path: Path) -> AsyncGenerator[Look]:
    with shown(tmp_path, "--for", "600") as demo:
        url = demo.expect(r"^http://\S+$")[0]
        async with looking(browser, Inspector(url, tmp_path, demo.process), "") as one:  # type: ignore[arg-type]
            yield one
        processes = demo.processes()
        demo.process.terminate()
        assert demo.process.wait(30) == 0
        assert are_gone(processes)
        assert demo.left() == []


async def test_each_step_of_the_tour_shows_its_effect_and_is_ticked_off(look: Look) -> None:
    await expect(look("tour")).to_be_visible()
    await expect(look("tour-seen")).to_have_text("0 of 5 done")
    await expect(look("screen-live")).to_be_visible()
    await expect(look("server").first).to_contain_text("watching 5 resources")

    await look("do-edit").click()
    await expect(look("outcome")).to_contain_text(re.compile(r"file saved.*notified.*received.*fresh copy.*fresh in"))
    await expect(look("screen-live")).to_be_visible()
    await expect(look("change-title")).to_have_text("Projects/Launch plan.md")
    await expect(look("diff").locator(".add").first).to_contain_text("Borrow a ladder")
    await look.picture("tour-edit")

    await look("tour-next").focus()
    await look.page.keyboard.press("Enter")
    await expect(look("do-wake")).to_be_focused()
    await look.page.keyboard.press("Enter")
    await expect(look("outcome")).to_contain_text(re.compile(r"file saved.*agent continues.*the agent says: “New in"))
    await expect(look("diff").locator(".add").first).to_contain_text("Two sacks of rye are left")
    await look.picture("tour-wake")

    await look("tour-next").click()
    await look("do-ask").click()
    await expect(look("outcome")).to_contain_text(re.compile(r"search answered in .*: \d+ notes"))
    await expect(look("screen-tasks")).to_contain_text("Shop/Flour.md")

    await look("tour-next").click()
    await look("do-page").click()
    await expect(look("outcome")).to_contain_text(re.compile(r"page changed.*4 lines added, 4 removed"))
    await expect(look("server-name")).to_have_text("web")
    await expect(look("diff").locator(".add").first).to_contain_text("The ferry was here")
    await look.picture("tour-page")

    await look("tour-next").click()
    await expect(look("tour")).to_contain_text(re.compile(r"kill -9 \d+"))
    await look("do-kill").click()
    await expect(look("server-state")).to_contain_text("lost; trying again")
    await expect(look("outcome")).to_contain_text("Running.")
    await expect(look("outcome")).to_contain_text(re.compile("killed.*noticed.*started again.*connected.*fresh copy"))
    await expect(look("server-state")).to_contain_text("connected")
    await expect(look("diff").locator(".add")).to_contain_text("Written while the server was away (1)")
    await expect(look("tour-seen")).to_have_text("5 of 5 done")
    await look.picture("tour-kill")

    await look("tour-next").click()
    for words in ("tidings install vault ~/Notes", "tidings.attach(server)", "tidings.connect("):
        await expect(look("tour")).to_contain_text(words)
    await look.picture("tour-last")
    await _hidden_and_shown_again(look)

    await look.page.set_viewport_size({"width": 400, "height": 800})
    assert await look.overflow() <= 0


async def _hidden_and_shown_again(look: Look) -> None:
    await look("tour-toggle").click()
    await expect(look("step-edit")).to_have_count(0)
    await look.page.reload()
    await expect(look("tour-toggle")).to_have_text("Show tour")
    await look("tour-toggle").focus()
    await look.page.keyboard.press("Enter")
    await look("step-edit").focus()
    await look.page.keyboard.press("Enter")
    await expect(look("do-edit")).to_have_text("Run again")
    await look("do-edit").focus()
    await look.page.keyboard.press("Enter")
    await expect(look("diff").locator(".add").first).to_contain_text("Print the opening hours")
