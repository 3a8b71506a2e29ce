"""The truth about the connection: a server that is killed is lost, history stays, and it is back by itself."""

import os
import re
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import psutil
import pytest
from playwright.async_api import Browser, expect

from tests.browser.inspecting import Inspector, Look, answers, inspecting, looking, program
from tests.ports import free_port
from tests.server.serving import Child, eventually

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.thorough]


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return {kind: free_port() for kind in ("http", "sse")}


@pytest.fixture(scope="module")
async def inspector(tmp_path_factory: pytest.TempPathFactory, ports: dict[str, int]) -> AsyncGenerator[Inspector]:
    servers = {
        "stdio": program("sample", connect=False),
        "http": {"url": f"http://127.0.0.1:{ports['http']}/mcp"},
        "sse": {"url": f"http://127.0.0.1:{ports['sse']}/sse"},
    }
    async with inspecting(tmp_path_factory.mktemp("lost"), servers) as one:
        yield one


@pytest.fixture
async def look(browser: Browser, inspector: Inspector) -> AsyncGenerator[Look]:
    async with looking(browser, inspector) as one:
        yield one


async def _opened(look: Look, name: str) -> None:
    await look.screen(name, "overview")
    await look("connect").click()
    await look.connected(name)
    await look.screen(name, "tools", "speak")
    await look("field-text").get_by_role("textbox").fill("before the end")
    await look("call").click()
    await expect(look("request-status")).to_contain_text("done")
    await look.screen(name, "overview")


async def _history(look: Look, name: str) -> None:
    """What was said before it was killed is still there."""
    await look.screen(name, "tasks")
    await look.row("requests", "speak").click()
    await expect(look("result")).to_contain_text("said")
    await look.screen(name, "messages")
    await expect(look.row("messages", "tools/call")).to_be_visible()


async def test_a_program_that_is_killed_is_lost_and_started_again(look: Look) -> None:
    await _opened(look, "stdio")
    old = int(re.findall(r"process (\d+)", await look("screen-overview").inner_text())[0])
    assert psutil.Process(old).cmdline()[0] == sys.executable
    os.kill(old, signal.SIGKILL)
    await expect(look("screen-overview")).not_to_contain_text(f"process {old}")
    await look.connected("stdio")
    await expect(look("screen-overview")).to_contain_text("process")
    await expect(look("screen-overview")).to_contain_text(re.compile("lost"))
    await _history(look, "stdio")
    await look.screen("stdio", "logs")
    await look("logs-stderr").click()
    await expect(look.row("logs", "before the end")).to_be_visible()


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_web_server_that_is_killed_is_lost_until_it_runs_again(
    look: Look, ports: dict[str, int], kind: str, tmp_path: Path
) -> None:
    words = ("tests.browser.sample", kind, str(ports[kind]))
    server = Child(*words, log=tmp_path / "first")
    try:
        await eventually(lambda: answers(ports[kind]))
        await _opened(look, kind)
        server.send_signal(signal.SIGKILL)
        await expect(look("server-state")).to_contain_text("lost; trying again")
        await expect(look("error")).to_be_visible()
        await _history(look, kind)
        await expect(look("server-state")).to_contain_text("lost")
        server.stop()
        server = Child(*words, log=tmp_path / "second")
        await look.connected(kind)
        await expect(look("server-state")).to_contain_text("connected, ")
        await _history(look, kind)
        await look.screen(kind, "tools", "add")
        await look("field-a").get_by_role("textbox").fill("1")
        await look("call").click()
        await expect(look("result")).to_contain_text('"total": 3')
    finally:
        server.stop()


async def test_one_may_stop_trying_and_connect_again(look: Look) -> None:
    await look.screen("http", "overview")
    if not await look("connect").is_visible():
        await look.page.get_by_role("button", name="Stop trying").or_(look("disconnect")).first.click()
    await expect(look("server-state")).to_contain_text("not connected")
    await look("connect").click()
    await expect(look("server-state")).to_contain_text("trying again")
    await look("retry-now").click()
    await look.page.get_by_role("button", name="Stop trying").click()
    await expect(look("server-state")).to_contain_text("not connected")


async def test_the_page_says_that_the_inspector_itself_is_gone_and_comes_back(browser: Browser, tmp_path: Path) -> None:
    async with inspecting(tmp_path, {"sample": program("sample")}) as inspector, looking(browser, inspector) as look:
        await look.connected("sample")
        await look.screen("sample", "overview")
        await look.page.context.set_offline(True)
        inspector.process.send_signal(signal.SIGSTOP)
        inspector.process.send_signal(signal.SIGCONT)
        await look.page.context.set_offline(False)
        await expect(look("server-state")).to_contain_text("connected, ")
        inspector.process.terminate()
        await expect(look.page.get_by_text("The inspector is not responding")).to_be_visible()
