"""A steady stream of changes: what changes faster than it can be asked for is shown all the same."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Route, expect

from tests.browser.inspecting import Inspector, Look, inspecting, looking, program
from tests.server.serving import serving
from tidings import LiveServer

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

SLOW = 0.3
"""Seconds that an answer takes: several changes come meanwhile."""


@pytest.fixture(scope="module")
async def inspector(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Inspector]:
    async with inspecting(tmp_path_factory.mktemp("stream"), {"sample": program("sample")}) as one:
        yield one


@pytest.fixture
async def look(browser: Browser, inspector: Inspector) -> AsyncGenerator[Look]:
    """The page on a server whose plan and tools change each 50 ms, for as long as the test takes."""
    async with looking(browser, inspector) as one:
        await one.connected("sample")
        await one.screen("sample", "tools", "beat")
        await one("call").click()
        await expect(one("cancel-request")).to_be_visible()
        yield one
        await one.page.unroute_all(behavior="wait")
        await one.screen("sample", "tools", "beat")
        await one("cancel-request").click()
        await expect(one("request-status")).to_contain_text("cancelled")


async def _slowed(look: Look, address: str) -> None:
    async def later(route: Route) -> None:
        await asyncio.sleep(SLOW)
        await route.continue_()

    await look.page.route(address, later)


async def test_what_changed_is_shown_while_it_changes(look: Look) -> None:
    await look.screen("sample", "resources", "note://plan")
    await look("subscribe").click()
    await expect(look("version")).not_to_have_count(0)
    await look("view-rendered").click()
    await _slowed(look, "**/diff?**")
    await look("view-changes").click()
    await expect(look("diff").locator(".add")).to_contain_text("beat")
    await look("subscribe").click()


async def test_a_list_is_shown_while_it_changes_and_what_is_typed_stays(look: Look) -> None:
    await _slowed(look, "**/list/tools**")
    await look.screen("sample", "tools", "speak")
    text = look("field-text").get_by_role("textbox")
    await text.fill("typed")
    pulse = look.row("tools", "pulse")
    seen = await pulse.inner_text()
    await expect(pulse).not_to_have_text(seen)
    await expect(text).to_have_value("typed")


@pytest.mark.thorough
async def test_a_resource_of_1_mb_that_changes_ten_times_a_second_leaves_the_page_usable(
    browser: Browser, tmp_path: Path
) -> None:
    server, texts = (
        LiveServer("large"),
        ["".join(f"line {n:05} of version {at}\n" for n in range(38_000)) for at in (1, 2)],
    )
    read = iter(itertools.cycle(texts))

    @server.resource("note://large", mime_type="text/plain")
    def large() -> str:
        return next(read)

    assert large
    async with serving(server.asgi()) as port:
        entry = {"url": f"http://127.0.0.1:{port}/mcp", "tidings": {"autoConnect": True}}
        async with inspecting(tmp_path, {"large": entry}) as inspector, looking(browser, inspector) as look:
            await look.connected("large")
            await look.screen("large", "resources", "note%3A%2F%2Flarge")
            await look("subscribe").click()
            await expect(look("subscription")).to_be_visible()
            before = await _heap(look)
            for number in range(300):
                began = time.monotonic()
                await server.notify.resource_updated("note://large")
                if number % 20 == 0:  # The page answers meanwhile.
                    await look("tab-messages" if number % 40 else "tab-live").click()
                    await expect(look("screen-messages" if number % 40 else "screen-live")).to_be_visible()
                await asyncio.sleep(max(0.0, 0.1 - (time.monotonic() - began)))
            await expect(look.rows("messages").or_(look.rows("changes")).first).to_be_visible()
            assert await _heap(look) - before < 30e6


async def _heap(look: Look) -> float:
    """The bytes that the page holds."""
    session = await look.page.context.new_cdp_session(look.page)
    await session.send("HeapProfiler.collectGarbage")
    return (await session.send("Runtime.getHeapUsage"))["usedSize"]


@pytest.mark.thorough
async def test_what_ends_after_thousands_of_others_is_still_one_row_in_its_place(
    browser: Browser, inspector: Inspector
) -> None:
    def row(seq: int, title: str, status: str) -> dict[str, Any]:
        head = {"seq": seq, "at": 1.0, "server": "sample", "kind": "request"}
        return {**head, "id": f"r{seq}", "method": "tools/call", "title": title, "status": status}

    first, later = 10_000_000, [row(10_000_001 + n, "another", "completed") for n in range(2_500)]
    batches = ([row(first, "the first", "in_progress"), *later], [row(first, "the first", "completed")])
    facts: dict[str, Any] = {"to": first + len(later), "now": 1.0, "facts": {}, "held": 0}
    told = "".join(f"event: batch\ndata: {json.dumps({**facts, 'rows': rows})}\n\n" for rows in batches)
    streams: list[Route] = []

    async def tell(route: Route) -> None:
        streams.append(route)
        if len(streams) == 1:  # Those that come later hear nothing.
            await route.fulfill(content_type="text/event-stream", body=told)

    async with looking(browser, inspector) as look:
        await look.connected("sample")
        await look.page.route("**/api/stream?**", tell)
        await look.page.reload()
        await look.screen("sample", "tasks")
        await expect(look.rows("requests").first).to_contain_text("another")
        await look("filter").fill("the first")
        await expect(look.rows("requests")).to_have_count(1)
        await expect(look.rows("requests")).to_contain_text("done")
