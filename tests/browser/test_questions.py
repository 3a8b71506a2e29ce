"""What a server asks waits in a tray, and the page goes on behind it; in both eras."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from playwright.async_api import Browser, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.browser.inspecting import Inspector, Look, inspecting, looking, program
from tests.ports import free_port
from tests.server.serving import serving

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.thorough]
ERAS = ["modern", "legacy"]


@pytest.fixture(scope="module")
async def inspector(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Inspector]:
    servers = {"modern": program("sample"), "legacy": program("sample", era="legacy")}
    servers["modern"]["tidings"]["roots"] = ["/srv/a folder"]
    async with inspecting(tmp_path_factory.mktemp("questions"), servers) as one:
        yield one


@pytest.fixture
async def look(browser: Browser, inspector: Inspector) -> AsyncGenerator[Look]:
    async with looking(browser, inspector) as one:
        yield one


async def _asked(look: Look, era: str, tool: str) -> None:
    await look.connected(era)
    await look.screen(era, "tools", tool)
    await look("call").click()
    await expect(look("questions")).to_contain_text("1 question")


@pytest.mark.parametrize("era", ERAS)
async def test_a_form_waits_and_is_answered_while_the_page_goes_on(look: Look, era: str) -> None:
    await _asked(look, era, "greet")
    await look.screen(era, "tools", "add")
    await look("field-a").get_by_role("textbox").fill("1")
    await look("call").click()
    await expect(look("result")).to_contain_text('"total": 3')
    await look("questions").click()
    question = look("question")
    await expect(question).to_contain_text("Who are you?")
    await expect(question.get_by_test_id("asker")).to_have_text("greet")
    await question.get_by_test_id("field-name").get_by_role("textbox").fill("A")
    await look("answer").click()
    await expect(question.get_by_test_id("field-name").get_by_role("alert")).to_be_visible()
    await question.get_by_test_id("field-name").get_by_role("textbox").fill("Ada")
    await look("answer").click()
    await expect(look("question")).to_have_count(0)
    await look.screen(era, "tools", "greet")
    await expect(look("result")).to_contain_text("Hello Ada, 30")


@pytest.mark.parametrize("era", ERAS)
async def test_a_question_can_be_declined(look: Look, era: str) -> None:
    await _asked(look, era, "greet")
    await look("questions").click()
    await look("refuse").click()
    await expect(look("questions")).to_have_count(0)
    await expect(look("result")).to_contain_text("decline!")


async def test_a_question_leads_to_the_call_that_asked_it(look: Look) -> None:
    await _asked(look, "modern", "greet")
    await look("questions").click()
    await look("asker").click()
    await expect(look("screen-tasks")).to_be_visible()
    await expect(look("screen-tasks").get_by_role("option", selected=True)).to_contain_text("greet")
    await look("refuse").click()


@pytest.mark.parametrize("era", ERAS)
async def test_a_person_can_be_the_model(look: Look, era: str) -> None:
    await _asked(look, era, "capital")
    await look("questions").click()
    await expect(look("question")).to_contain_text("The capital of France?")
    await look("sampling-text").fill("Paris")
    await look("answer").click()
    await expect(look("result")).to_contain_text("a person says Paris")


@pytest.mark.parametrize("era", ERAS)
async def test_folders_come_from_a_setting_without_asking(look: Look, era: str) -> None:
    await look.connected(era)
    await look.screen(era, "tools", "where")
    await look("call").click()
    await expect(look("result")).to_contain_text("file:///srv/a%20folder" if era == "modern" else "text")
    await expect(look("questions")).to_have_count(0)


async def test_rules_answer_before_anybody_is_asked(look: Look) -> None:
    await look.connected("modern")
    await look.screen("modern", "tools", "greet")
    await look.page.keyboard.press("q")
    await expect(look("questions-panel")).to_contain_text("1 folder")
    await look("rules").click()
    await look("rules-text").fill('[{"elicitation": "*are you*", "accept": {"name": 7}}')
    await look("rules-save").click()
    await expect(look("questions-panel").get_by_role("alert")).to_contain_text("Invalid JSON")
    await look("rules-text").fill('[{"elicitation": "*are you*", "say": "yes"}]')
    await look("rules-save").click()
    await expect(look("error")).to_contain_text("rule 1")
    await look("rules-text").fill('[{"elicitation": "*are you*", "accept": {"name": "Grace", "age": 80}}]')
    await look("rules-save").click()
    await expect(look("rules-text")).to_have_count(0)
    await look("call").click()
    await expect(look("result")).to_contain_text("Hello Grace, 80")
    await look("rules").click()
    await look("rules-text").fill("")
    await look("rules-save").click()
    await expect(look("rules-text")).to_have_count(0)


async def test_a_model_at_any_address_writes_the_text(look: Look) -> None:
    asked: list[dict[str, Any]] = []

    async def complete(request: Request) -> JSONResponse:
        asked.append(await request.json())
        return JSONResponse({"model": "small", "choices": [{"message": {"role": "assistant", "content": "Paris"}}]})

    port = free_port()
    model = Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])
    async with serving(model, port=port):
        await _asked(look, "modern", "capital")
        await look("questions").click()
        await look("ask-model").click()
        await look("model-address").fill(f"http://127.0.0.1:{port}/v1")
        await look("model-name").fill("small")
        await look("ask-model").click()
        await expect(look("sampling-text")).to_have_value("Paris")
        await look("answer").click()
        await expect(look("result")).to_contain_text("small says Paris")
    assert asked[0]["messages"] == [{"role": "user", "content": "The capital of France?"}]
