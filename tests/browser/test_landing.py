"""The page opens on what is true of the server: it failed, it has only tools, or something there can be watched."""

import sys
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.browser.inspecting import HERE, command, inspecting, looking

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

FAILING = """\
import sys
print("weather 0.4.1 is starting", file=sys.stderr)
def main():
    from forecasts_of_nowhere import Forecast
main()
"""
PLAIN = """\
from mcp.server.mcpserver import MCPServer
server = MCPServer("Plain tools")
@server.tool()
def add(a: int) -> int:
    "Adds one."
    return a + 1
server.run("stdio")
"""


async def test_a_command_that_fails_shows_the_cause_and_its_standard_error_in_order(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "weather.py"
    path.write_text(FAILING)
    async with (
        inspecting(tmp_path, {"Weather": command(sys.executable, str(path))}) as one,
        looking(browser, one, "") as look,
    ):
        failed = look("failed")
        await expect(failed).to_contain_text("Weather stopped before it could answer")
        await expect(look("error")).to_contain_text("It has no package forecasts_of_nowhere")
        await expect(look("server").first).to_contain_text("failed: exit code 1")
        assert [await each.inner_text() for each in await look("tabs").get_by_role("link").all()] == [
            "Overview",
            "Messages",
            "Logs",
        ]
        lines = (await look("stderr").inner_text()).splitlines()
        told = [line for line in lines if line and not line[0].isdigit()]
        assert told[0] == "weather 0.4.1 is starting"
        assert told[1].startswith("Traceback")
        assert any(line.startswith("    from forecasts") for line in told), "its indentation is kept"
        assert told[-1].startswith("ModuleNotFoundError")
        path.write_text(PLAIN)
        await look("retry-now").click()
        await look.connected("Weather")
        await look("tab-tools").click()
        await expect(look.row("tools", "add")).to_be_visible()


async def test_a_server_without_subscriptions_opens_on_its_tools_under_its_own_name(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "plain.py"
    path.write_text(PLAIN)
    async with inspecting(tmp_path, {}, f"{sys.executable} {path}") as one, looking(browser, one, "") as look:
        await expect(look("screen-tools")).to_be_visible()
        await expect(look("server-name")).to_have_text("Plain tools")


async def test_the_command_is_edited_from_the_page_of_its_failure(browser: Browser, tmp_path: Path) -> None:
    servers = {"gone": command("no-such-program-anywhere")}
    async with inspecting(tmp_path, servers) as one, looking(browser, one, "") as look:
        await expect(look("failed")).to_contain_text("could not be started")
        await look.page.keyboard.press("e")
        await look("server-target").fill(f"{sys.executable} {HERE / 'sample.py'}")
        await look("server-save").click()
        await look.connected("gone")
