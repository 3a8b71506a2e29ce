"""What servers do to a page: scripts in everything, floods, sizes, lies. Nothing runs, and the page stays usable."""

import asyncio
import re
from collections.abc import AsyncGenerator
from urllib.parse import quote

import pytest
from playwright.async_api import Browser, expect

from tests.browser.hostile import RESOURCES, SCRIPT, TURNED
from tests.browser.inspecting import Inspector, Look, inspecting, looking, program

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.thorough]

NOT_RUN = ("sandboxed", "Content Security Policy", "violates the following")
"""What the browser says when it does not run what is in a frame."""
MOST_ROWS = 120


@pytest.fixture(scope="module")
async def elsewhere() -> AsyncGenerator[int]:
    """The port of what the contents of the hostile server want to load from: nobody may come."""
    came: list[object] = []

    def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(writer.get_extra_info("peername"))
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        assert came == []


@pytest.fixture(scope="module")
async def inspector(tmp_path_factory: pytest.TempPathFactory, elsewhere: int) -> AsyncGenerator[Inspector]:
    hostile = program("hostile") | {"env": {"ELSEWHERE": str(elsewhere)}}
    servers = {"hostile": hostile, "many": program("hostile", "2000")}
    async with inspecting(tmp_path_factory.mktemp("hostile"), servers) as one:
        yield one


@pytest.fixture
async def look(browser: Browser, inspector: Inspector) -> AsyncGenerator[Look]:
    async with looking(browser, inspector) as one:
        yield one
        assert await one.page.evaluate("window.__ran") is None, "a script of a server was run"
        one.faults[:] = [each for each in one.faults if not any(words in each for words in NOT_RUN)]


async def _call(look: Look, tool: str, server: str = "hostile") -> None:
    await look.connected(server)
    await look.screen(server, "tools", quote(tool, safe=""))
    await look("call").click()


async def test_scripts_in_names_titles_and_descriptions_are_texts(look: Look) -> None:
    await look.connected("hostile")
    for screen in ("overview", "tools", "resources", "prompts", "messages", "logs", "tasks"):
        await look.screen("hostile", screen)
        assert await look.page.locator("img[src=x], main script").count() == 0
    await look.screen("hostile", "overview")
    await expect(look("screen-overview")).to_contain_text("hostile <img src=x")
    await look.screen("hostile", "logs")
    await look("logs-stderr").click()
    await look.row("logs", "<script>").click()
    await expect(look("text")).to_contain_text(SCRIPT)
    await _call(look, SCRIPT)
    await expect(look("tool-form")).to_contain_text("onerror=window.__ran=1")
    await expect(look("result")).to_contain_text("onerror=window.__ran=1")
    await look.page.keyboard.press("Control+k")
    await look("palette-input").fill("onerror")
    await expect(look("palette").get_by_role("option").first).to_contain_text("<img src=x")


async def test_what_turns_the_direction_of_a_text_is_shown_and_not_obeyed(look: Look) -> None:
    await _call(look, f"turned{TURNED}")
    await expect(look("tool-form")).to_contain_text("Does [U+202E]gnihtemos[U+202C].")
    await expect(look("result")).to_contain_text("[U+202E]")
    await look.screen("hostile", "resources", quote("note://turned.md", safe=""))
    await expect(look("markdown")).to_contain_text("[U+202E]")
    for screen in ("tools", "resources", "messages", "tasks", "overview"):
        await look.screen("hostile", screen)
        assert "\u202e" not in await look.page.inner_text("body"), screen
    await look.page.keyboard.press("Control+k")
    await look("palette-input").fill("turned")
    await expect(look("palette").get_by_role("option").first).to_contain_text("turned[U+202E]")


@pytest.mark.parametrize("uri", [uri for uri in RESOURCES if not uri.startswith(("big", "note://turned"))])
async def test_no_resource_runs_whatever_it_is(look: Look, uri: str) -> None:
    await look.connected("hostile")
    await look.screen("hostile", "resources", quote(uri, safe=""))
    if " " in uri:  # which is no URI
        await expect(look("error")).to_contain_text("<img src=x")
        return
    await expect(look("contents")).to_be_visible()
    kind = RESOURCES[uri][0]
    if kind in ("text/html", "image/svg+xml"):
        frame = look("contents").locator("iframe")
        await expect(frame).to_have_attribute("sandbox", "")
        shown = frame.content_frame.locator("h1, circle")
        await expect(shown).to_have_count(1)
        assert await shown.evaluate("() => window.__ran") is None
        await look("reading").get_by_role("button", name="Source").click()
        await expect(look("text")).to_contain_text("__ran=1")
    elif kind == "text/markdown":
        await expect(look("markdown")).to_contain_text("image: x")
        await expect(look("markdown").locator("a")).to_have_count(0)
        await look("markdown").get_by_text("click", exact=True).click()
    elif kind == "application/json":
        await expect(look("text")).to_contain_text('{"a": [1, 2')
    elif kind == "application/octet-stream":
        await expect(look("contents")).to_contain_text("2.0 KB, application/octet-stream: binary")
    await look("subscribe").click()
    await expect(look("subscription")).to_be_visible()
    await expect(look("contents")).to_be_visible()
    await look("subscribe").click()


async def test_scripts_in_results_prompts_and_errors_are_texts(look: Look) -> None:
    await _call(look, "hostile")
    await expect(look("tool-failed")).to_be_visible()
    await expect(look("result")).to_contain_text("onerror=window.__ran=1")
    await expect(look("result").locator("iframe, img, a:not([href^='#/'])")).to_have_count(0)
    await _call(look, "refuse")
    await expect(look("error")).to_contain_text("The server: ")
    await look("error").get_by_text("Raw response").click()
    await expect(look("error").locator("pre")).to_contain_text("<script>")
    await look.screen("hostile", "prompts", quote(SCRIPT, safe=""))
    await look("get-prompt").click()
    await expect(look("result")).to_contain_text("onerror=window.__ran=1")


async def test_an_address_with_a_script_in_it_is_a_text(look: Look) -> None:
    await look.connected("hostile")
    for address in (
        f"#/{quote(SCRIPT, safe='')}/live",
        f"#/hostile/tools/{quote(SCRIPT)}",
        "#/~/help/..%2F..%2Fetc",
        "#/%/%/%",
    ):
        await look.go(address)
        await expect(look.page.locator("main")).to_be_visible()
    await look.go("#/hostile/resources/javascript:window.__ran=1")
    await expect(look("error")).to_be_visible()


async def test_what_is_malformed_or_twice_in_a_list_is_told(look: Look) -> None:
    await look.connected("hostile")
    await look.screen("hostile", "tools")
    await expect(look("list-problems")).to_contain_text("2 malformed items, 1 duplicate name")
    await look("list-problems").get_by_role("button").click()
    await expect(look("list-problems")).to_contain_text("not a tool at all")
    await expect(look.rows("tools").filter(has_text="twice")).to_have_count(1)


async def test_what_is_no_message_does_not_end_the_connection(look: Look) -> None:
    await _call(look, "garbage")
    await expect(look("result")).to_contain_text("sent")
    await look.connected("hostile")


async def test_a_resource_of_5_mb_of_json_is_read_with_few_lines_in_the_page(look: Look) -> None:
    await look.connected("hostile")
    await look.screen("hostile", "resources", quote("big://json", safe=""))
    await expect(look("json")).to_contain_text('"item 0"')
    assert await look("json").locator(".line").count() < MOST_ROWS
    box = await look("json").element_handle()
    await look.page.wait_for_function(  # it grows while its lines are made
        """(box) => { box.scrollTop = box.scrollHeight; return box.textContent.includes('"item 74999"') }""", arg=box
    )
    assert await look("json").locator(".line").count() < MOST_ROWS


async def test_a_resource_of_50_mb_leaves_the_page_usable_and_is_told(look: Look) -> None:
    await look.connected("hostile")
    await look.screen("hostile", "resources", quote("big://text", safe=""))
    told = look("contents").get_by_text(re.compile("Only the beginning")).or_(look("error"))
    await expect(told).to_be_visible()
    await look("tab-tools").click()
    await expect(look.rows("tools").first).to_be_visible()
    await look.connected("hostile")


async def test_5000_notifications_at_once_are_all_counted_while_few_are_drawn(look: Look) -> None:
    await look.connected("hostile")
    await look.screen("hostile", "tools", "flood")
    await look("field-count").get_by_role("textbox").fill("5000")
    await look("call").click()
    await look("tab-logs").click()
    await expect(look("logs-log")).to_contain_text("5,000")
    await expect(look.rows("logs").first).to_contain_text("flood 4999")
    assert await look.rows("logs").count() < MOST_ROWS
    await look("logs").evaluate("(box) => { box.scrollTop = box.scrollHeight }")
    await expect(look.row("logs", "flood 0")).to_be_visible()
    await expect(look("logs-status")).to_contain_text("Scrolled")
    await look("filter").fill("flood 4999")
    await expect(look.rows("logs")).to_have_count(1)


async def test_2000_tools_are_filtered_and_chosen(look: Look) -> None:
    await look.connected("many")
    await look.screen("many", "tools")
    await expect(look.rows("tools").first).to_be_visible()
    assert await look.rows("tools").count() < MOST_ROWS
    await look("filter").fill("tool_1999")
    await expect(look.rows("tools")).to_have_count(1)
    await look.rows("tools").first.click()
    await look("call").click()
    await expect(look("result")).to_contain_text("tool_1999")
