"""The frame around the screens: palette, keys, addresses, schemes, a narrow page, and who may come in."""

import re
from collections.abc import AsyncGenerator

import pytest
from playwright.async_api import Browser, expect

from tests.browser.inspecting import Inspector, Look, inspecting, looking, program

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

TABS = ["live", "overview", "tools", "resources", "prompts", "tasks", "messages", "logs"]


@pytest.fixture(scope="module")
async def inspector(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Inspector]:
    async with inspecting(tmp_path_factory.mktemp("frame"), {"sample": program("sample")}) as one:
        yield one


@pytest.fixture
async def look(browser: Browser, inspector: Inspector) -> AsyncGenerator[Look]:
    async with looking(browser, inspector, "/sample/live") as one:
        await one.connected("sample")
        yield one


async def test_the_token_leaves_the_address_and_the_page_needs_it_no_more(look: Look) -> None:
    await expect(look("screen-live")).to_be_visible()
    assert "token" not in look.page.url
    await look.page.reload()
    await look.connected("sample")


async def test_one_lands_where_something_is_being_watched(browser: Browser, inspector: Inspector) -> None:
    async with looking(browser, inspector, "") as look:
        await expect(look("screen-live")).to_be_visible()
        await expect(look("server").first).to_contain_text("watching 4 resources")


async def test_who_has_no_key_sees_nothing(browser: Browser, inspector: Inspector) -> None:
    context = await browser.new_context()
    try:
        page = await context.new_page()
        await page.goto(inspector.base)
        await expect(page.get_by_test_id("locked")).to_contain_text("This page is not authorized")
        await expect(page.get_by_test_id("server")).to_have_count(0)
        await page.goto(f"{inspector.base}/#token=wrong")
        await page.reload()
        await expect(page.get_by_test_id("locked")).to_be_visible()
    finally:
        await context.close()


async def test_a_link_that_was_used_opens_nothing_and_the_page_makes_another(
    browser: Browser, inspector: Inspector
) -> None:
    used = await inspector.link()
    async with looking(browser, inspector) as look:
        await look.general("settings")
        context = await browser.new_context()
        try:
            page = await context.new_page()
            await page.goto(used)
            await expect(page.get_by_test_id("locked")).to_be_visible()
            await look("new-link").click()
            await page.goto(await look("made-link").inner_text())
            await page.reload()
            await expect(page.get_by_test_id("server").first).to_be_visible()
        finally:
            await context.close()


async def test_the_palette_finds_tools_resources_and_screens(look: Look) -> None:
    await look.page.keyboard.press("Control+k")
    await look("palette-input").fill("pla")
    await look("palette").get_by_role("option").filter(has_text="note://plan").wait_for()
    await look("palette-input").fill("speak")
    await look.page.keyboard.press("Enter")
    await expect(look("palette")).to_have_count(0)
    await expect(look("field-text")).to_be_visible()
    await look.page.keyboard.press("Control+k")
    await look("palette-input").fill("settings")
    await look.page.keyboard.press("ArrowDown")
    await look.page.keyboard.press("ArrowUp")
    await look.page.keyboard.press("Enter")
    await expect(look("screen-settings")).to_be_visible()
    await look.page.keyboard.press("Control+k")
    await look("palette-input").fill("zzzz")
    await expect(look("palette")).to_contain_text("No results.")
    await look.page.keyboard.press("Escape")
    await expect(look("palette")).to_have_count(0)


async def test_the_palette_does_what_the_screen_can(look: Look) -> None:
    await look.screen("sample", "messages")
    for words in ("theme: dark", "disconnect sample", "export this session", "pings", "fold the list", "pause"):
        await look.page.keyboard.press("Control+k")
        await look("palette-input").fill(words)
        await expect(look("palette").get_by_role("option").first).to_contain_text(
            re.compile(f"^{words}", re.IGNORECASE)
        )
        await look.page.keyboard.press("Enter" if words == "pings" else "Escape")
        await expect(look("palette")).to_have_count(0)
    await expect(look("pings")).to_be_checked()


async def test_every_list_is_moved_in_by_keys_wherever_the_focus_is(look: Look) -> None:
    for name, keys in (("tools", "jjk"), ("resources", "jjj"), ("prompts", "j"), ("messages", "jjk")):
        await look.screen("sample", name)
        await look.page.evaluate("document.activeElement?.blur()")
        await expect(look.rows(name).first).to_be_visible()
        for key in keys:
            await look.page.keyboard.press(key)
        await expect(look(name)).to_be_focused()
        await expect(look(name).get_by_role("option", selected=True)).to_have_count(1)
        await look.page.wait_for_url(re.compile(f"/sample/{name}/."))
    await look.general("sessions")
    await expect(look("session").first).to_be_visible()
    await look.page.keyboard.press("j")
    await expect(look("session-open").first).to_be_focused()


async def test_keys_lead_everywhere_and_the_sheet_tells_them(look: Look) -> None:
    await look.page.keyboard.press("?")
    await expect(look("shortcuts")).to_contain_text("Find")
    await look.page.keyboard.press("Escape")
    await expect(look("shortcuts")).to_have_count(0)
    await look.page.keyboard.press("g")
    await look.page.keyboard.press("t")
    await expect(look("screen-tools")).to_be_visible()
    await look.page.keyboard.press("/")
    await expect(look("filter")).to_be_focused()
    await look.page.keyboard.type("add")
    await expect(look.rows("tools")).to_have_count(2)
    await look.page.keyboard.press("Escape")
    await expect(look("filter")).to_have_value("")
    await look.page.keyboard.press("Escape")
    await expect(look("filter")).not_to_be_focused()
    await look("tools").focus()
    await look.page.keyboard.press("j")
    await expect(look.rows("tools").nth(0)).to_have_attribute("aria-selected", "true")
    await look.page.keyboard.press("j")
    await expect(look.rows("tools").nth(1)).to_have_attribute("aria-selected", "true")
    await look.page.keyboard.press("k")
    await look.page.keyboard.press("End")
    await expect(look.rows("tools").last).to_have_attribute("aria-selected", "true")
    await look.page.keyboard.press("Escape")
    await expect(look.page).to_have_url(re.compile("/tools$"))
    await look.page.keyboard.press("g")
    await look.page.keyboard.press("v")
    await expect(look("screen-servers")).to_be_visible()


async def test_the_focus_goes_in_order_and_is_seen(look: Look) -> None:
    await look.screen("sample", "tools", "add")
    await expect(look("field-a")).to_be_visible()
    await look.page.evaluate("document.activeElement?.blur()")
    seen: list[str] = []
    for _ in range(40):
        await look.page.keyboard.press("Tab")
        at = await look.page.evaluate(
            """() => {
                const one = document.activeElement
                const { outlineStyle, outlineWidth } = getComputedStyle(one.closest('label.filter') ?? one)
                const box = one.getBoundingClientRect()
                const text = one.getAttribute('aria-label') ?? one.textContent.trim().slice(0, 20)
                return {
                    name: one.dataset.testid ?? text,
                    tag: one.tagName,
                    outline: outlineStyle !== 'none' && parseFloat(outlineWidth) >= 1,
                    shown: box.width > 0 && box.height > 0 && box.bottom > 0 && box.right > 0,
                }
            }"""
        )
        if at["tag"] == "BODY":
            break
        assert at["outline"], at
        assert at["shown"], at
        seen.append(at["name"])
    order = [seen.index(name) for name in ("Skip to content", "find", "server", "tab-live", "filter", "tools", "call")]
    assert order == sorted(order)


async def test_each_screen_has_an_address_that_leads_to_it_again(look: Look) -> None:
    for tab in TABS:
        await look(f"tab-{tab}").click()
        await expect(look(f"screen-{tab}")).to_be_visible()
        await expect(look.page).to_have_url(re.compile(f"#/sample/{tab}"))
        await look.page.reload()
        await expect(look(f"screen-{tab}")).to_be_visible()
        await expect(look(f"tab-{tab}")).to_have_attribute("aria-current", "page")


async def test_back_and_forward_go_from_screen_to_screen(look: Look) -> None:
    await look("tab-tools").click()
    await look.row("tools", "Add two").click()
    await expect(look("field-a")).to_be_visible()
    await look("tab-logs").click()
    await look.page.go_back()
    await expect(look("field-a")).to_be_visible()
    await look.page.go_back()
    await expect(look("field-a")).to_have_count(0)
    await look.page.go_forward()
    await expect(look("field-a")).to_be_visible()


async def test_what_is_not_there_is_told_and_leads_on(look: Look) -> None:
    await look.go("#/nobody/live")
    await expect(look.page.get_by_text("No server named nobody")).to_be_visible()
    await look.screen("sample", "tools", "nothing")
    await expect(look("screen-tools")).to_contain_text("No tool named nothing")
    await look.screen("sample", "tasks", "none-such")
    await expect(look("error")).to_be_visible()
    await look.general("help", "none-such")
    await expect(look("screen-help").get_by_role("alert")).to_be_visible()


async def test_the_scheme_is_the_systems_until_another_is_chosen(look: Look) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = await look.page.evaluate(ground)
    await look.general("settings")
    await look("theme-light").check()
    light = await look.page.evaluate(ground)
    assert light != dark
    await look.page.reload()
    await expect(look("theme-light")).to_be_checked()
    assert await look.page.evaluate(ground) == light
    await look("theme-auto").check()
    assert await look.page.evaluate(ground) == dark
    await look.page.emulate_media(color_scheme="light")
    assert await look.page.evaluate(ground) == light


async def test_help_has_a_page_for_each_error(look: Look) -> None:
    await look.general("help")
    await look("screen-help").get_by_role("link", name="connection-lost").click()
    await expect(look("markdown")).to_contain_text("connection")
    await look.page.get_by_role("link", name="All errors").click()
    await expect(look("screen-help").get_by_role("link", name="gave-up")).to_be_visible()


async def test_a_width_that_was_dragged_is_remembered(look: Look) -> None:
    await look.screen("sample", "tools")
    handle = look.page.get_by_role("separator").first
    before = await handle.get_attribute("aria-valuenow")
    await handle.focus()
    for _ in range(3):
        await look.page.keyboard.press("ArrowRight")
    after = await handle.get_attribute("aria-valuenow")
    assert int(str(after)) == int(str(before)) + 6
    await look.page.reload()
    await expect(look.page.get_by_role("separator").first).to_have_attribute("aria-valuenow", str(after))


async def test_on_a_phone_every_screen_can_be_reached_and_used(browser: Browser, inspector: Inspector) -> None:
    phone = {"width": 360, "height": 720}
    async with looking(browser, inspector, "/sample/live", viewport=phone, has_touch=True) as look:
        for tab in TABS:
            if tab not in ("live", "tools", "resources", "messages"):
                await look("phone-more").tap()
                await look(f"more-{tab}").tap()
            else:
                await look(f"phone-{tab}").tap()
            await expect(look(f"screen-{tab}")).to_be_visible()
            assert await look.overflow() == 0
        await look("phone-tools").tap()
        await look.row("tools", "Add two").tap()
        await look("field-a").get_by_role("textbox").fill("1")
        await look("call").tap()
        await expect(look("result")).to_contain_text('"total": 3')
        await look.page.get_by_role("button", name="Back").tap()
        await expect(look("tools")).to_be_visible()
        await look("menu").tap()
        await look.page.get_by_role("link", name="Settings").tap()
        await expect(look("screen-settings")).to_be_visible()
        assert await look.overflow() == 0
