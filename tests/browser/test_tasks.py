"""Tool calls that run as tasks: status, words and questions in place, a list of them, and their end, all live."""

import re
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests import forking
from tests.browser.inspecting import ROOT, TIDINGS, Inspector, Look, command, inspecting, looking
from tests.browser.test_screens import violations
from tests.client import everything

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
JOBS = str(ROOT / "tests/inspector/jobs.py")


@pytest.fixture(scope="module")
async def inspector(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Inspector]:
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "notes").mkdir()
    (folder / "notes" / "Today.md").write_text("# Today\n\n- call Ada\n")
    vault = command(*TIDINGS, "vault", str(folder / "notes"))
    async with inspecting(folder, {"jobs": command(*forking.command(JOBS)), "vault": vault}) as one:
        yield one


@pytest.fixture
async def look(browser: Browser, inspector: Inspector) -> AsyncGenerator[Look]:
    async with looking(browser, inspector) as one:
        yield one


async def called(look: Look, server: str, tool: str) -> None:
    await look.connected(server)
    await look.screen(server, "tools", tool)
    await look("call").click()


async def test_a_task_is_shown_listed_kept_over_a_reload_and_cancelled(look: Look) -> None:
    await called(look, "jobs", "reindex")
    await expect(look("task-status")).to_have_text("working")
    await expect(look("task-message")).to_contain_text("Reading note 2")
    await expect(look("task-timing")).to_contain_text("by notification")
    await expect(look("task-id")).to_contain_text("reindex.")
    await expect(look("tool-form")).to_contain_text("ran as a task")
    await look.screen("jobs", "tasks")
    await look("show-tasks").click()
    await look.row("requests", "reindex").click()
    await look.page.reload()
    await expect(look("task-status")).to_have_text("working")
    await look("cancel-request").click()
    await expect(look("task-status")).to_have_text("cancelled")
    await expect(look.row("requests", "reindex")).to_contain_text("cancelled")


async def test_the_question_of_a_task_is_answered_in_place(look: Look) -> None:
    await called(look, "jobs", "import_folder")
    await expect(look("task-status")).to_have_text("input required")
    question = look("request-detail").get_by_test_id("question")
    await expect(question).to_contain_text("two copies of Today.md")
    await look("questions").click()  # It is answered at one place only.
    await expect(look("question")).to_have_count(1)
    await look.page.keyboard.press("Escape")
    await question.get_by_test_id("field-keep").get_by_role("textbox").fill("the first")
    await question.get_by_test_id("answer").click()
    await expect(look("task-status")).to_have_text("completed")
    await expect(look("result")).to_contain_text("Kept the first.")


@pytest.mark.parametrize("scheme", ["dark", "light"])
async def test_tasks_can_be_used_by_everybody_also_on_a_phone(
    browser: Browser, inspector: Inspector, scheme: str
) -> None:
    options = {"color_scheme": scheme, "bypass_csp": True, "viewport": {"width": 390, "height": 844}}
    async with looking(browser, inspector, to="/jobs/tasks?show=tasks", **options) as look:
        await look.screen("jobs", "tools", "import_folder")
        await look("call").click()
        await expect(look("task-status")).to_have_text("input required")
        await look.go("#/jobs/tasks?show=tasks")
        await look.row("requests", "import_folder").click()
        await expect(look("question")).to_be_visible()
        assert await violations(look) == []
        assert await look.overflow() == 0
        await look.page.keyboard.press("Escape")  # Back to the list, which still shows tasks alone.
        await expect(look("task-to-follow")).to_be_visible()
        await expect(look.rows("requests").first).to_be_visible()
        await look.row("requests", "input required").click()
        await look("cancel-request").click()
        await expect(look("task-status")).to_have_text("cancelled")
        assert await violations(look) == []


async def test_a_wait_ends_with_the_difference_when_the_note_is_edited_elsewhere(look: Look) -> None:
    await look.connected("vault")
    await look.screen("vault", "tools", "wait_for_change")
    await look("json-toggle").click()
    await look("json-arguments").fill('{"uris": ["vault://note/Today.md"]}')
    await look("call").click()
    await expect(look("task-status")).to_have_text("working")
    await look("result").wait_for(state="detached")
    (look.inspector.folder / "notes" / "Today.md").write_text("# Today\n\n- call Ada\n- read the plan\n")
    await expect(look("task-status")).to_have_text("completed")
    await expect(look("result").locator(".add")).to_have_text(re.compile(r"\+- read the plan"))


async def test_a_task_that_is_unknown_to_the_server_is_said_to_be_so(look: Look) -> None:
    await look.connected("jobs")
    await look.go("#/jobs/tasks?show=tasks")
    await look("task-to-follow").fill("nonsense")
    await look("follow-task").click()
    await expect(look("error")).to_contain_text("unknown")


@pytest.mark.thorough
async def test_a_server_of_the_older_design_runs_its_tool_as_a_task(browser: Browser, tmp_path: Path) -> None:
    servers = {"research": command(*everything.command("stdio"))}
    async with inspecting(tmp_path, servers) as one, looking(browser, one) as look:
        await look.connected("research")
        await look.screen("research", "tools", "simulate-research-query")
        await expect(look.row("tools", "simulate-research-query")).to_contain_text("task")
        await look("field-topic").get_by_role("textbox").fill("tea")
        await look("call").click()
        await expect(look("task-timing")).to_contain_text("polled every 1")
        await expect(look("result")).to_contain_text("Research Report: tea")
        await expect(look("task-status")).to_have_text("completed")
