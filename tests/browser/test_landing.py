"""The page opens on what is true of the server: it failed, it has only tools, or something there can be watched."""

import json
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
CLOCK = """\
@server.resource("time://now")
def now() -> str:
    import time
    return str(time.time())
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


async def test_a_bridge_shows_the_servers_behind_it_and_what_it_watches(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "plain.py"
    path.write_text(PLAIN.replace('server.run("stdio")', CLOCK))
    config = tmp_path / "mcp.json"
    broken = {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]}
    config.write_text(
        json.dumps({"mcpServers": {"plain": {"command": sys.executable, "args": [str(path)]}, "broken": broken}})
    )
    bridge = command(sys.executable, "-m", "tidings", "bridge", str(config), "--interval", "0.5s")
    async with inspecting(tmp_path, {"bridge": bridge}) as one, looking(browser, one) as look:
        await look.connected("bridge")
        await look.screen("bridge", "resources")
        await look.row("resources", "now").click()
        if await look("subscribe").get_attribute("aria-pressed") == "false":
            await look("subscribe").click()
        await look("tab-overview").click()
        upstreams = look("upstream")
        await expect(upstreams).to_have_count(2)
        await expect(upstreams.filter(has_text="plain")).to_contain_text("connected")
        await expect(upstreams.filter(has_text="broken")).to_contain_text("exit code 3")
        await expect(look("watched").filter(has_text="time://now")).to_contain_text("a read every 0.5 s")
        await look.picture("bridge")


async def test_a_command_that_serves_http_is_told_at_once_with_its_address(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "serves.py"
    path.write_text("import sys, time\nprint('Listening on port 4123', file=sys.stderr, flush=True)\ntime.sleep(120)\n")
    async with (
        inspecting(tmp_path, {"Web": command(sys.executable, str(path))}) as one,
        looking(browser, one, "/Web/overview") as look,
    ):
        await expect(look("error")).to_contain_text("It seems to serve HTTP, at http://127.0.0.1:4123/mcp")
        assert await look("server").first.get_attribute("data-state") == "connecting"
