"""What other pages, other programs and servers try: nothing leads elsewhere, nothing halts, nobody gets in."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.async_api import Browser, expect

from tests.browser.attacker import RESOURCES
from tests.browser.inspecting import Inspector, Look, inspecting, looking, program

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.thorough]

NAME = "@scope/attacker"
HERE = quote(NAME, safe="")
REFUSED = ("sandboxed", "Content Security Policy", "violates the following", "Unsafe attempt to")


class Elsewhere:
    """A page of somebody else's on this machine, and who came to see it."""

    def __init__(self) -> None:
        self.port = 0
        self.came: list[str] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came.append("somebody")
        try:
            self.came[-1] = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<h1>Elsewhere</h1>")
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture(scope="module")
async def elsewhere() -> AsyncGenerator[Elsewhere]:
    one = Elsewhere()
    async with await asyncio.start_server(one.answer, "127.0.0.1", 0) as server:
        one.port = server.sockets[0].getsockname()[1]
        yield one


@pytest.fixture(scope="module")
async def inspector(tmp_path_factory: pytest.TempPathFactory, elsewhere: Elsewhere) -> AsyncGenerator[Inspector]:
    entry = program("attacker", era="legacy") | {"env": {"ELSEWHERE": str(elsewhere.port)}}
    async with inspecting(tmp_path_factory.mktemp("attacks"), {NAME: entry}) as one:
        yield one


@pytest.fixture
async def look(browser: Browser, inspector: Inspector) -> AsyncGenerator[Look]:
    async with looking(browser, inspector) as one:
        yield one
        one.faults[:] = [each for each in one.faults if not any(words in each for words in REFUSED)]


@pytest.mark.parametrize("uri", [uri for uri in RESOURCES if uri.endswith("leads")])
async def test_a_page_of_a_server_connects_to_nobody(look: Look, elsewhere: Elsewhere, uri: str) -> None:
    await look.connected(NAME)
    await look.screen(HERE, "resources", quote(uri, safe=""))
    frame = look.page.frame_locator("iframe")
    await expect(frame.get_by_text("Hello")).to_be_visible()
    if uri.startswith("page"):
        await frame.locator("#send").click()
        await frame.locator("#top").click()
    assert elsewhere.came == []
    if uri.startswith("page"):
        await frame.locator("#here").click()  # A browser may connect at a click, before it knows that it must not ask.
        await expect(frame.get_by_text("Hello")).to_be_hidden()
        assert all(each == "somebody" for each in elsewhere.came)
    assert look.page.url.startswith(look.inspector.base)
    elsewhere.came.clear()
    look.outside.clear()  # What was asked for and not sent is among them.


@pytest.mark.parametrize("uri", [uri for uri in RESOURCES if uri.startswith(("slow", "many"))])
async def test_no_text_takes_the_page_long(look: Look, uri: str) -> None:
    await look.connected(NAME)
    await look.screen(HERE, "resources", quote(uri, safe=""))
    await expect(look("markdown")).to_be_visible()
    if uri.startswith("many"):
        await expect(look("markdown")).to_contain_text("See the rest in Source")
    await look.screen(HERE, "tools")


async def test_json_that_is_nested_without_end_is_no_fault(look: Look) -> None:
    await look.connected(NAME)
    await look.screen(HERE, "resources", quote("deep://json", safe=""))
    await expect(look("json")).to_contain_text(re.compile(r"^\W*\[|nested too deeply"))


@pytest.mark.parametrize(("method", "params"), [("tools/call", {"name": "fine"}), ("prompts/get", {"name": "x"})])
async def test_a_result_that_nobody_checked_is_shown_as_it_is(look: Look, method: str, params: dict[str, Any]) -> None:
    await look.connected(NAME)
    answer = await _asked(look, "POST", f"/api/servers/{HERE}/request", {"method": method, "params": params})
    await look.screen(HERE, "tasks", json.loads(answer)["id"])
    await expect(look("result").get_by_text("unexpected").first).to_be_visible()


async def _asked(look: Look, method: str, path: str, body: Any = None) -> str:
    """What the page itself would be answered."""
    return await look.page.evaluate(
        """async ([method, path, body]) => {
          const headers = { 'X-Tidings': localStorage.getItem('tidings.key'), 'Content-Type': 'application/json' }
          return await (await fetch(path, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) })).text()
        }""",
        [method, path, body],
    )


async def test_a_server_with_a_slash_in_its_name_is_one_like_others(look: Look) -> None:
    await look.connected(NAME)
    await look.screen(HERE, "tools")
    await look.row("tools", "fine").click()
    await look("call").click()
    await expect(look("screen-tools")).to_contain_text("unexpected")
    await look.screen(HERE, "overview")
    await look("disconnect").click()
    await look("connect").click()
    await look.connected(NAME)


async def test_who_forgets_what_was_chosen_is_not_locked_out(look: Look) -> None:
    await look.connected(NAME)
    await look.general("settings")
    await look("theme-dark").check()
    await look.page.get_by_role("button", name="Reset").click()
    assert await look.page.evaluate("Object.keys(localStorage)") == ["tidings.key"]
    await look.page.reload()
    await look.connected(NAME)


async def test_a_page_of_another_port_learns_and_changes_nothing(
    look: Look, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    await look.connected(NAME)
    key = await look.page.evaluate("localStorage.getItem('tidings.key')")
    other = await look.page.context.new_page()
    await other.goto(f"http://127.0.0.1:{elsewhere.port}/")
    # Cookies know no ports: whoever listens there has ours, and even if they had the key as well …
    assert any("tidings-" in each for each in elsewhere.came)
    mark = tmp_path / "run"
    done = await other.evaluate(
        """async ([base, key, body]) => {
          const tried = {}
          const told = async (name, act) => { tried[name] = await act().then(() => 'yes', () => 'no') }
          const loads = (made, from) => new Promise((yes, no) => {
            Object.assign(made, { onload: yes, onerror: no, src: from })
            document.body.append(made)
          })
          const opens = (made) => new Promise((yes, no) => { made.onopen = yes; made.onerror = no })
          const json = { 'Content-Type': 'application/json', 'X-Tidings': key }
          const ours = { credentials: 'include' }
          const blind = { ...ours, mode: 'no-cors' }
          const post = { method: 'POST', body }
          await told('read', () => fetch(`${base}/api/snapshot?key=${key}`, ours))
          await told('read blindly', () => fetch(`${base}/api/snapshot?key=${key}`, blind))
          await told('change', () => fetch(`${base}/api/catalog`, { ...ours, ...post, headers: json }))
          await told('change blindly', () => fetch(`${base}/api/catalog`, { ...blind, ...post }))
          await told('script', () => loads(document.createElement('script'), `${base}/api/snapshot?key=${key}`))
          await told('picture', () => loads(new Image(), `${base}/api/sessions?key=${key}`))
          const stream = `${base}/api/stream?after=0&key=${key}`
          await told('stream', () => opens(new EventSource(stream, { withCredentials: true })))
          await told('socket', () => opens(new WebSocket(stream.replace('http', 'ws'))))
          return tried
        }""",
        [look.inspector.base, key, json.dumps({"name": "mine", "command": "touch", "args": [str(mark)]})],
    )  # fmt: skip
    assert set(done.values()) == {"no"}, done
    async with other.expect_response("**/api/catalog") as answered:
        await other.evaluate(
            """(base) => {
              const form = document.createElement('form')
              Object.assign(form, { method: 'post', enctype: 'text/plain', action: `${base}/api/catalog` })
              document.body.append(form)
              form.submit()
            }""",
            look.inspector.base,
        )
    assert (await answered.value).status == 403
    assert [each["name"] for each in json.loads(await _asked(look, "GET", "/api/catalog"))["entries"]] == [NAME]
    assert not mark.exists()
    await other.close()
    elsewhere.came.clear()
    look.outside.clear()
    look.faults.clear()


async def test_ten_tabs_are_no_more_than_a_browser_can_take(look: Look) -> None:
    await look.connected(NAME)
    for _ in range(9):
        page = await look.page.context.new_page()
        await page.goto(look.inspector.base)
        await expect(page.get_by_test_id("server")).to_contain_text("attacker")
    await look.screen(HERE, "tools")
    await look.row("tools", "fine").click()
    await look("call").click()
    await expect(look("screen-tools")).to_contain_text("unexpected")
