"""npm's server-everything, which others wrote: over stdio, streamable HTTP and SSE."""

from collections.abc import AsyncGenerator

import pytest
from playwright.async_api import Browser, expect

from tests.browser.inspecting import Inspector, Look, command, inspecting, looking
from tests.client import everything

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.thorough]


@pytest.fixture(scope="module")
async def inspector(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Inspector]:
    words = everything.command("stdio")
    async with everything.serving("streamableHttp") as http, everything.serving("sse") as sse:
        servers = {
            "stdio": command(*words),
            "http": {"url": f"http://127.0.0.1:{http}/mcp", "tidings": {"autoConnect": True}},
            "sse": {"url": f"http://127.0.0.1:{sse}/sse", "tidings": {"autoConnect": True, "era": "legacy"}},
        }
        async with inspecting(tmp_path_factory.mktemp("everything"), servers) as one:
            yield one


@pytest.fixture
async def look(browser: Browser, inspector: Inspector) -> AsyncGenerator[Look]:
    async with looking(browser, inspector) as one:
        yield one


@pytest.mark.parametrize("way", ["stdio", "http", "sse"])
async def test_it_is_called_read_and_prompted(look: Look, way: str) -> None:
    await look.connected(way)
    await look.screen(way, "tools")
    await look("filter").fill("echo")
    await look.rows("tools").first.click()
    await look("field-message").get_by_role("textbox").fill("over the hills")
    await look("call").click()
    await expect(look("result")).to_contain_text("over the hills")
    await look.screen(way, "resources")
    await expect(look.rows("resources").first).to_be_visible()
    await look.screen(way, "prompts")
    await look("filter").fill("simple")
    await look.rows("prompts").first.click()
    await look("get-prompt").click()
    await expect(look("result")).to_contain_text("user")
    await look.screen(way, "overview")
    await expect(look("screen-overview")).to_contain_text("legacy era")
