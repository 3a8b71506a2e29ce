"""Messages, requests, logs and sessions: what went over the wire, again and otherwise, and what is kept of it."""

import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest
from playwright.async_api import Browser, expect

from tests.browser.inspecting import Inspector, Look, inspecting, looking, program

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
ERAS = ["modern", pytest.param("legacy", marks=pytest.mark.thorough)]
SPEAK = """
async (text) => {
    const headers = { 'X-Tidings': localStorage.getItem('tidings.key'), 'Content-Type': 'application/json' }
    const body = JSON.stringify({ tool: 'speak', arguments: { text } })
    await fetch('/api/servers/modern/call', { method: 'POST', headers, body })
}
"""


@pytest.fixture(scope="module")
async def inspector(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Inspector]:
    servers = {"modern": program("sample"), "legacy": program("sample", era="legacy"), "logger": program("hostile")}
    async with inspecting(tmp_path_factory.mktemp("wire"), servers) as one:
        yield one


@pytest.fixture
async def look(browser: Browser, inspector: Inspector) -> AsyncGenerator[Look]:
    async with looking(browser, inspector, permissions=["clipboard-read", "clipboard-write"]) as one:
        yield one


async def _call(look: Look, era: str, tool: str, **texts: str) -> None:
    await look.connected(era)
    await look.screen(era, "tools", tool)
    for name, text in texts.items():
        await look(f"field-{name}").get_by_role("textbox").fill(text)
    calls = await look("history").get_by_role("button").count()
    await look("call").click()
    await expect(look("history").get_by_role("button")).to_have_count(calls + 1)
    await expect(look("request-status")).to_contain_text("done")


async def _clipboard(look: Look) -> str:
    return await look.page.evaluate("navigator.clipboard.readText()")


@pytest.mark.parametrize("era", ERAS)
async def test_a_message_is_sent_again_as_it_was_and_otherwise(look: Look, era: str) -> None:
    await _call(look, era, "add", a="1")
    await look.screen(era, "messages")
    await look.rows("messages").filter(has_text="→").filter(has_text="tools/call").first.click()
    await expect(look("json")).to_contain_text('"name": "add"')
    await look("pin").click()
    await look("replay").click()
    await expect(look("result")).to_contain_text('"total": 3')
    await look.screen(era, "messages")
    await look.rows("messages").filter(has_text="→").filter(has_text="tools/call").first.click()
    await look("edit").click()
    await look("edit-params").fill("{")
    await look("send-edited").click()
    await expect(look.page.get_by_text("Invalid JSON")).to_be_visible()
    await look("edit-params").fill('{"name": "add", "arguments": {"a": 20, "b": 22}}')
    await look("send-edited").click()
    await expect(look("screen-tasks")).to_be_visible()
    await expect(look("result")).to_contain_text('"total": 42')


@pytest.mark.thorough
async def test_a_pinned_message_is_found_again(look: Look) -> None:
    await _call(look, "modern", "add", a="1")
    await look.screen("modern", "messages")
    await look.rows("messages").first.click()
    await look("pin").click()
    await look.page.get_by_role("button", name="Pinned 1").click()
    await expect(look.rows("messages")).to_have_count(1)
    await look("pin").click()
    await expect(look("screen-messages")).to_contain_text("No pinned messages")


@pytest.mark.thorough
async def test_a_call_is_copied_as_json_curl_and_python(look: Look) -> None:
    await _call(look, "modern", "add", a="1")
    await look("screen-tools").get_by_test_id("copy-python").first.click()
    await expect(look("screen-tools").get_by_test_id("copy-python").first).to_have_text("Copied")
    assert "call_tool('add'" in await _clipboard(look)
    await look.screen("modern", "messages")
    await look.rows("messages").filter(has_text="→").filter(has_text="tools/call").first.click()
    await look("copy-json").click()
    await expect(look("copy-json")).to_have_text("Copied")
    assert json.loads(await _clipboard(look))["method"] == "tools/call"


async def test_messages_are_filtered(look: Look) -> None:
    await _call(look, "legacy", "add", a="1")
    await look.screen("legacy", "messages")
    await expect(look.row("messages", "initialize")).to_be_visible()
    await look("filter").fill("tools/call")
    await expect(look.row("messages", "initialize")).to_have_count(0)
    await expect(look.rows("messages").first).to_contain_text("tools/call")


@pytest.mark.parametrize("era", ERAS)
async def test_logs_have_levels_search_and_standard_error(look: Look, era: str) -> None:
    await _call(look, era, "speak", text="a quiet word", level="info")
    await _call(look, era, "speak", text="a loud word", level="error")
    await look.screen(era, "logs")
    await expect(look.row("logs", "a loud word")).to_contain_text("error")
    await look("level").select_option("warning")
    await expect(look.row("logs", "a quiet word")).to_have_count(0)
    await look("level").select_option("debug")
    await look("filter").fill("quiet")
    await expect(look.rows("logs")).to_have_count(1)
    await look.rows("logs").first.click()
    await expect(look("text")).to_contain_text("a quiet word")
    await look("logs-stderr").click()
    await expect(look.row("logs", "stderr: a quiet word")).to_be_visible()


async def test_the_server_is_told_which_level_to_send(look: Look) -> None:
    await look.connected("logger")
    await look.screen("logger", "logs")
    await expect(look("server-level")).to_have_value("info")
    await look("server-level").select_option("error")
    await look.screen("logger", "messages")
    told = look.rows("messages").filter(has_text="→").filter(has_text="logging/setLevel")
    await expect(told).to_have_count(2)
    await told.first.click()
    await expect(look("json")).to_contain_text('"level": "error"')


async def test_a_paused_list_counts_what_it_holds_back(look: Look) -> None:
    await _call(look, "modern", "speak", text="the first")
    await look.screen("modern", "logs")
    await look("logs-log").click()
    await look("logs-pause").click()
    await expect(look("logs-status")).to_contain_text("Paused, no new rows")
    for n in range(2):
        await look.page.evaluate(SPEAK, f"later {n}")
    await expect(look("logs-status")).to_contain_text("2 new rows")
    await expect(look.row("logs", "later")).to_have_count(0)
    await look("logs-follow").click()
    await expect(look.rows("logs").filter(has_text="later")).to_have_count(2)


@pytest.mark.thorough
async def test_logs_are_exported_line_by_line(look: Look) -> None:
    await _call(look, "modern", "speak", text="to be kept")
    await look.screen("modern", "logs")
    await look("logs-log").click()
    await look("filter").fill("to be kept")
    await expect(look.rows("logs").first).to_be_visible()
    async with look.page.expect_download() as saving:
        await look("export").click()
    lines = (await (await saving.value).path()).read_text().splitlines()
    assert "to be kept" in json.loads(lines[0])["text"]


async def test_a_session_is_named_exported_imported_and_compared(look: Look, tmp_path: Path) -> None:
    await _call(look, "modern", "add", a="1")
    await look.general("sessions")
    await look("session-name").fill("before the change")
    await look("session-save").click()
    current = look("session").filter(has_text="current")
    await expect(look("session").filter(has_text="before the change").first).to_be_visible()
    file = tmp_path / "kept.jsonl"
    async with look.page.expect_download() as saving:
        await current.get_by_test_id("session-export").click()
    await (await saving.value).save_as(file)
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert any(record.get("kind") == "request" for record in records)
    await look("session-import").set_input_files(file)
    imported = look("session").filter(has_text="kept")
    await expect(imported).to_be_visible()
    await _call(look, "modern", "add", a="4")
    await look.general("sessions")
    await imported.get_by_role("checkbox").check()
    await current.get_by_role("checkbox").check()
    await look("session-compare").click()
    await look.page.get_by_role("group", name="Server").get_by_text("modern").click()
    same = look.rows("compared-requests").filter(has_text="add").filter(has_text="same")
    await expect(same.first).to_be_visible()
    await same.first.click()
    await expect(look("compared-request")).to_contain_text("The results are the same.")
    # The imported session was begun later, but knows nothing of the last call.
    await look("compared-only_old").click()
    await expect(look.rows("compared-requests")).to_have_count(1)
    await expect(look("compared-request")).to_contain_text("Sent only in the earlier session.")
    address = look.page.url
    await look.page.reload()
    await expect(look.rows("compared-requests").first).to_be_visible()
    assert look.page.url == address
    await look.general("sessions")
    await imported.get_by_role("button", name="Delete").click()
    await imported.get_by_role("button", name="Confirm deletion").click()
    await expect(imported).to_have_count(0)


async def test_a_kept_session_opens_in_the_same_screens_and_becomes_a_test(look: Look, tmp_path: Path) -> None:
    await _call(look, "modern", "add", a="20")
    await _call(look, "modern", "fail")
    await look.general("sessions")
    current = look("session").filter(has_text="current")
    async with look.page.expect_download() as saving:
        await current.get_by_test_id("session-test").click()
    path = tmp_path / "test_kept.py"
    await (await saving.value).save_as(path)
    await current.get_by_test_id("session-open").click()
    await expect(look("kept-session")).to_be_visible()
    await look.screen("modern", "messages")
    await look.row("messages", "fail").click()
    await expect(look("json-answer")).to_contain_text("It did not work out.")
    await look.screen("modern", "tools", "add")
    await look("call").click()
    await expect(look("error")).to_contain_text("kept session")
    await look("moment").fill("2")
    await look.screen("modern", "messages")
    await expect(look.row("messages", "fail")).to_have_count(0)
    await look("close-kept").click()
    await expect(look("kept-session")).to_have_count(0)
    await look.connected("modern")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    tested = await anyio.run_process(command, cwd=tmp_path, check=False)
    assert b"1 passed" in tested.stdout, tested.stdout.decode()
    path.write_text(path.read_text().replace("'total': 22", "'total': 23"))
    tested = await anyio.run_process(command, cwd=tmp_path, check=False)
    assert b"1 failed" in tested.stdout, "a different answer is noticed"
