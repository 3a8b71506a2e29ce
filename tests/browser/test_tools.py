"""Tools, resources and prompts in both eras: forms from any schema, what is sent and what comes back."""

import re
from collections.abc import AsyncGenerator

import pytest
from playwright.async_api import Browser, expect

from tests.browser.inspecting import Inspector, Look, inspecting, looking, program

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
ERAS = ["modern", pytest.param("legacy", marks=pytest.mark.thorough)]


@pytest.fixture(scope="module")
async def inspector(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Inspector]:
    servers = {
        "modern": program("sample"),
        "legacy": program("sample", era="legacy"),
        "forms": program("hostile"),
        "..": program("sample", connect=False),
    }
    async with inspecting(tmp_path_factory.mktemp("tools"), servers) as one:
        yield one


@pytest.fixture
async def look(browser: Browser, inspector: Inspector) -> AsyncGenerator[Look]:
    async with looking(browser, inspector) as one:
        yield one


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_is_checked_sent_and_its_result_stands_beside_the_form(look: Look, era: str) -> None:
    await look.connected(era)
    await look.screen(era, "tools")
    await look.row("tools", "Add two").click()
    await expect(look("tool-form").get_by_text("read-only")).to_be_visible()
    await look("field-a").get_by_role("textbox").fill("forty")
    await look("call").click()
    await expect(look("problems")).to_contain_text("a")
    await expect(look("field-a").get_by_role("alert")).to_be_visible()
    await look("call-anyway").click()
    await expect(look("tool-failed").or_(look("error"))).to_be_visible()
    await look("field-a").get_by_role("textbox").fill("40")
    await look("field-a").get_by_role("textbox").press("Enter")
    await expect(look("result")).to_contain_text('"total": 42')
    await expect(look("request-status")).to_contain_text("done")
    await expect(look("history").get_by_role("button")).to_have_count(2)
    await look("history").get_by_role("button").last.click()
    await expect(look("result").or_(look("error")).first).not_to_contain_text('"total"')


async def test_a_number_that_is_too_large_for_a_browser_is_sent_and_shown_as_it_is(look: Look) -> None:
    await look.connected("modern")
    await look.screen("modern", "tools", "add")
    await look("field-a").get_by_role("textbox").fill("9007199254740993")
    await look("json-toggle").click()
    await expect(look("json-arguments")).to_have_value('{\n  "a": 9007199254740993\n}')
    await look("form-toggle").click()
    await expect(look("field-a").get_by_role("textbox")).to_have_value("9007199254740993")
    await look("call").click()
    await expect(look("result")).to_contain_text('"total": 9007199254740995')


async def test_large_numbers_of_a_schema_are_offered_sent_and_saved_as_they_are(look: Look) -> None:
    await look.connected("forms")
    await look.screen("forms", "tools", "large")
    limit = look("field-limit").get_by_role("textbox")
    await expect(limit).to_have_attribute("placeholder", "not sent; default 9223372036854775807")
    await limit.fill("9223372036854775807")
    await look("field-one").get_by_role("combobox").select_option(label="9223372036854775805")
    await look("choice").select_option(label="Number")
    chosen = look("field-which").get_by_role("button", name="9223372036854775807")
    await expect(chosen).to_have_attribute("aria-pressed", "true")
    await look("call").click()
    result = look("result")
    for line in ('"limit": 9223372036854775807', '"one": 9223372036854775805', '"which": 9223372036854775807'):
        await expect(result).to_contain_text(line)
    await look("save-call").click()
    await look("save-name").fill("the largest")
    await look("save-confirm").click()
    await expect(look.page.get_by_role("link", name="the largest")).to_be_visible()
    await look.go("#/forms/overview")
    await look.page.reload()
    await look.page.get_by_role("link", name="the largest").click()
    await expect(look("field-one").get_by_role("combobox")).to_have_value("1")
    await expect(look("choice")).to_have_value("1")
    await look("json-toggle").click()
    await expect(look("json-arguments")).to_have_value(re.compile('"one": 9223372036854775805'))


async def test_progress_and_messages_in_numbers_too_large_for_a_browser_are_shown(look: Look) -> None:
    await look.connected("forms")
    await look.screen("forms", "tools", "far")
    await look("call").click()
    await expect(look("progress")).to_contain_text("1000000000000000000 of 2000000000000000000")
    await expect(look("progress").get_by_role("progressbar")).to_have_js_property("value", 0.5)
    await look("cancel-request").click()
    await look.screen("forms", "messages")
    await look.page.reload()
    await look("filter").fill("ping")
    await look.rows("messages").filter(has_text="←").filter(has_text="ping").first.click()
    await expect(look("json")).to_contain_text('"id": 9223372036854775807')
    await expect(look("json-answer")).to_contain_text('"id": 9223372036854775807')


async def test_a_server_may_be_called_as_a_step_in_a_path(look: Look) -> None:
    await look.screen("..", "overview")
    await look("connect").click()
    await look.connected("..")
    await look.screen("..", "tools", "add")
    await look("field-a").get_by_role("textbox").fill("1")
    await look("call").click()
    await expect(look("result")).to_contain_text('"total": 3')


async def test_the_form_and_its_json_are_the_same_thing(look: Look) -> None:
    await look.connected("modern")
    await look.screen("modern", "tools", "add")
    await look("field-a").get_by_role("textbox").fill("1")
    await look("json-toggle").click()
    await expect(look("json-arguments")).to_have_value('{\n  "a": 1\n}')
    await look("json-arguments").fill("{not json")
    await look("call").click()
    await expect(look("problems")).to_contain_text("Invalid JSON")
    await look("json-arguments").fill('{"a": 5, "b": 6}')
    await look("call").click()
    await expect(look("result")).to_contain_text('"total": 11')
    await look("form-toggle").click()
    await expect(look("field-b").get_by_role("textbox")).to_have_value("6")


async def test_a_call_that_is_saved_can_be_opened_again(look: Look) -> None:
    await look.connected("modern")
    await look.screen("modern", "tools", "add")
    await look("field-a").get_by_role("textbox").fill("77")
    await look("save-call").click()
    await look("save-name").fill("seventy-seven")
    await look("save-confirm").click()
    await look.screen("modern", "live")
    await look.page.get_by_role("link", name="seventy-seven").click()
    await expect(look("field-a").get_by_role("textbox")).to_have_value("77")


@pytest.mark.parametrize("era", ERAS)
async def test_a_long_call_tells_how_far_it_is_and_ends_as_cancelled(look: Look, era: str) -> None:
    await look.connected(era)
    await look.screen(era, "tools", "slow")
    await look("call").click()
    await expect(look("progress")).to_contain_text("of 1000")
    await look.screen(era, "tasks")
    await expect(look.row("requests", "slow")).to_contain_text("running")
    await look.row("requests", "slow").click()
    await expect(look("progress")).to_contain_text("step")
    await look("cancel-request").click()
    await expect(look("request-status")).to_contain_text("cancelled")
    await expect(look.row("requests", "slow")).to_contain_text("cancelled")
    await look("again").click()
    await look("cancel").click()
    await expect(look.rows("requests").filter(has_text="cancelled")).to_have_count(2)
    await look("again").click()
    await look.row("requests", "running").click()
    await look.page.keyboard.press("x")
    await expect(look.rows("requests").filter(has_text="cancelled")).to_have_count(3)


async def test_a_tool_that_fails_says_so(look: Look) -> None:
    await look.connected("modern")
    await look.screen("modern", "tools", "fail")
    await look("call").click()
    await expect(look("tool-failed")).to_be_visible()
    await expect(look("result")).to_contain_text("It did not work out.")


async def test_a_tool_that_appears_is_in_the_list_at_once(look: Look) -> None:
    await look.connected("modern")
    await look.screen("modern", "tools", "grow")
    await look("field-name").get_by_role("textbox").fill("flower")
    await look("call").click()
    await expect(look.row("tools", "flower")).to_be_visible()
    await look.screen("modern", "live")
    await expect(look.row("changes", "tools list")).to_be_visible()
    await look.row("changes", "tools list").click()
    await expect(look("differences")).to_contain_text("flower")


async def test_output_that_breaks_its_schema_is_told_with_its_path(look: Look) -> None:
    await look.connected("forms")
    await look.screen("forms", "tools", "broken")
    await look("call").click()
    await expect(look("output-problems").get_by_role("listitem")).to_contain_text("total")


async def test_alternatives_at_the_root_have_fields(look: Look) -> None:
    await look.connected("forms")
    await look.screen("forms", "tools", "either")
    await look("choice").select_option(label="By number")
    await look("field-n").get_by_role("textbox").fill("7")
    await look("call").click()
    await expect(look("result")).to_contain_text('"n": 7')
    await look("choice").select_option(label="By name")
    await look("field-name").get_by_role("textbox").fill("seven")
    await look("call").click()
    await expect(look("result")).to_contain_text('"name": "seven"')


async def test_definitions_arrays_in_arrays_and_titled_choices_have_fields(look: Look) -> None:
    await look.connected("forms")
    await look.screen("forms", "tools", "trip")
    stops = look("field-stops")
    await stops.get_by_test_id("add-item").click()
    await stops.get_by_test_id("field-city").get_by_role("textbox").fill("O")
    await stops.get_by_test_id("field-days").get_by_role("textbox").fill("2")
    await look("field-colour").get_by_role("button", name="Green").click()
    grid = look("field-grid")
    await grid.get_by_test_id("add-item").click()
    await grid.get_by_test_id("add-item").first.click()
    await grid.get_by_role("textbox").fill("5")
    await look("call").click()
    await expect(look("problems")).to_contain_text("stops[0].city")
    await stops.get_by_test_id("field-city").get_by_role("textbox").fill("Oslo")
    await look("call").click()
    result = look("result")
    for line in ('"city": "Oslo"', '"days": 2', '"colour": "g"', '"grid"'):
        await expect(result).to_contain_text(line)


async def test_a_schema_that_lies_still_lets_one_call(look: Look) -> None:
    await look.connected("forms")
    await look.screen("forms", "tools", "liar")
    await look("json-toggle").click()
    await look("json-arguments").fill('{"x": 1}')
    await look("call").click()
    await expect(look("result").or_(look("problems")).first).to_be_visible()
    if await look("problems").is_visible():
        await look("call-anyway").click()
    await expect(look("result")).to_contain_text('"x": 1')


@pytest.mark.parametrize("era", ERAS)
async def test_resources_are_shown_by_their_kind(look: Look, era: str) -> None:
    await look.connected(era)
    await look.screen(era, "resources")
    await look("filter").fill("plan")
    await look.row("resources", "plan").click()
    await expect(look("markdown").get_by_role("table")).to_contain_text("Ada")
    await look("reading").get_by_role("button", name="Source").click()
    await expect(look("text")).to_contain_text("- [ ] Freeze the API by Friday")
    await look("filter").fill("facts")
    await look.row("resources", "facts").click()
    await look("reading").get_by_role("button", name="Rendered").click()
    await expect(look("json")).to_contain_text('"name": "Mars"')
    await look("json").get_by_role("button", name="Fold").nth(1).click()
    await expect(look("json")).not_to_contain_text("Mars")
    await look("filter").fill("dot")
    await look.row("resources", "dot").click()
    picture = look("contents").get_by_role("img")
    await expect(picture).to_be_visible()
    await expect(picture).to_have_js_property("naturalWidth", 1)
    await look("filter").fill("some")
    await look.row("resources", "some").click()
    await expect(look("contents")).to_contain_text("binary")


async def test_a_template_is_filled_in_with_what_the_server_completes(look: Look) -> None:
    await look.connected("modern")
    await look.screen("modern", "resources")
    await look("part-templates").click()
    await look.row("templates", "item://").click()
    shelf = look("field-shelf").locator("input")
    await shelf.fill("u")
    offered = look("field-shelf").locator("datalist option")
    await expect(offered).to_have_count(2)
    await shelf.fill("upper")
    await look("field-name").locator("input").fill("a box")
    await expect(look("made-uri")).to_have_text("item://upper/a%20box")
    await look("open-made").click()
    await expect(look("contents")).to_contain_text("a box on upper")


@pytest.mark.parametrize("era", ERAS)
async def test_a_subscription_shows_each_change_and_can_be_ended(look: Look, era: str) -> None:
    await look.connected(era)
    await look.screen(era, "resources", "note%3A%2F%2Fplan")
    await look("subscribe").click()
    await expect(look("subscription")).to_be_visible()
    await look.screen(era, "tools", "write")
    await look("field-text").get_by_role("textbox").fill("# Another plan")
    await look("call").click()
    await expect(look("request-status")).to_contain_text("done")
    await look.screen(era, "resources", "note%3A%2F%2Fplan")
    await expect(look("subscription")).to_contain_text("1 update")
    await expect(look("diff").locator(".add")).to_contain_text("# Another plan")
    await look("part-subscribed").click()
    await expect(look.rows("resources")).to_have_count(1)
    await look("subscribe").click()
    await expect(look("subscribe")).to_have_text("Subscribe")
    await expect(look.rows("resources")).to_have_count(0)


@pytest.mark.parametrize("era", ERAS)
async def test_a_prompt_is_filled_in_and_fetched(look: Look, era: str) -> None:
    await look.connected(era)
    await look.screen(era, "prompts")
    await look.row("prompts", "review").click()
    await expect(look("get-prompt")).to_be_disabled()
    await look("field-language").locator("input").fill("p")
    await expect(look("field-language").locator("datalist option")).to_have_count(2)
    await look("field-language").locator("input").fill("python")
    await look("get-prompt").click()
    await expect(look("result")).to_contain_text("Review this python code, be kind.")
