"""The terminal app used as a person uses it, with keys, on a real server in this process."""

from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Select

from tests.inspector.tui.city import city
from tests.inspector.tui.inspector import inspector, on_server, screen, until
from tidings.inspector.tui.app import InspectorApp

pytestmark = pytest.mark.anyio


async def shows(pilot: Pilot[None], words: str) -> None:
    await until(pilot, lambda: words in screen(pilot))


async def open_tool(pilot: Pilot[None], name: str) -> InspectorApp:
    app = inspector(pilot)
    await until(pilot, lambda: app.server is not None and name in app.server.view.tools)
    app.choose("weather", "tools", name)
    await pilot.pause()
    return app


async def test_a_tool_is_called_with_its_form_and_the_result_stands_beside_it() -> None:
    async with on_server(city()) as pilot:
        await open_tool(pilot, "add")
        await pilot.press("enter", "2", "0", "tab", "backspace", "4", "2", "ctrl+r")
        await shows(pilot, "✓ fits its schema")
        assert '"result": 62' in screen(pilot)


async def test_arguments_that_break_the_schema_are_said_before_anything_is_sent() -> None:
    async with on_server(city()) as pilot:
        app = await open_tool(pilot, "add")
        await pilot.press("enter", *"many-", "ctrl+r")  # The field takes only the sign.
        await shows(pilot, "a: expected an integer")
        assert app.server is not None
        assert not [each for each in app.server.view.requests.values() if each.method == "tools/call"]


async def test_the_form_and_json_are_two_sides_of_the_same() -> None:
    async with on_server(city()) as pilot:
        app = await open_tool(pilot, "add")
        await pilot.press("enter", "7", "ctrl+j")
        await shows(pilot, '"a": 7')
        await pilot.press("ctrl+j")
        await pilot.pause()
        form = app.panes["tools"].caller.form  # type: ignore[attr-defined]
        assert form.filled().value == {"a": 7, "b": 1}
        await pilot.press("ctrl+r")
        await shows(pilot, '"result": 8')


async def test_a_call_that_runs_shows_how_far_it_is_and_is_cancelled() -> None:
    async with on_server(city()) as pilot:
        await open_tool(pilot, "slow")
        await pilot.press("ctrl+r")
        await shows(pilot, "laying stones")
        await shows(pilot, "30 % in")
        await pilot.press("ctrl+x")
        await shows(pilot, "Cancelled.")


async def test_a_tool_that_fails_says_so_and_both_calls_stay() -> None:
    async with on_server(city()) as pilot:
        app = await open_tool(pilot, "fail")
        for count in (1, 2):
            await pilot.press("ctrl+r")
            calls: Any = app.panes["tools"].caller.calls  # type: ignore[attr-defined]
            await until(pilot, lambda c=calls, n=count: len(c) == n and all(each.over for each in c))
        await shows(pilot, "The tool says that it failed")
        await shows(pilot, "Error executing tool fail")


async def test_a_subscription_shows_what_changed() -> None:
    async with on_server(city()) as pilot:
        app = inspector(pilot)
        await until(pilot, lambda: app.server is not None and "city://oslo" in app.server.view.resources)
        app.choose("weather", "resources", "city://oslo")
        await pilot.press("s")
        await shows(pilot, "subscribed, 0 updates")
        await shows(pilot, "Temperature: 20")
        assert app.server is not None
        app.server.call("warm")
        await shows(pilot, "1 line added, 1 removed")
        await shows(pilot, "Temperature: 21")
        await pilot.press("1")
        await shows(pilot, "fresh in")
        await pilot.press("3", "s")
        await until(pilot, lambda: app.server is not None and not app.server.view.subscriptions)


async def test_a_template_is_filled_in_and_read() -> None:
    async with on_server(city()) as pilot:
        app = inspector(pilot)
        await until(pilot, lambda: app.server is not None and app.server.view.templates)
        app.choose("weather", "resources", "city://{name}/streets")
        await pilot.press("enter", *"Bergen", "ctrl+r")
        await shows(pilot, "the streets of Bergen")


async def test_a_prompt_is_got_with_its_arguments() -> None:
    async with on_server(city()) as pilot:
        app = inspector(pilot)
        await until(pilot, lambda: app.server is not None and app.server.view.prompts)
        app.choose("weather", "prompts", "greet")
        await pilot.press("enter", *"Ada", "ctrl+r")
        await shows(pilot, "Say hello to Ada.")


async def test_a_question_waits_in_its_panel_and_blocks_nothing() -> None:
    async with on_server(city(), era="legacy") as pilot:
        app = await open_tool(pilot, "ask")
        await pilot.press("ctrl+r")
        await shows(pilot, "1 question waits")
        await pilot.press("escape", "1", "2")  # Everything else goes on.
        assert app.tab == "tools"
        await pilot.press("a")
        await shows(pilot, "Which calendar?")
        await pilot.press("enter", *"work", "ctrl+r")
        await shows(pilot, "accept: calendar='work'")
        assert "1 question waits" not in screen(pilot)


async def test_a_question_is_refused() -> None:
    async with on_server(city(), era="legacy") as pilot:
        await open_tool(pilot, "ask")
        await pilot.press("ctrl+r")
        await shows(pilot, "1 question waits")
        await pilot.press("escape", "a", "ctrl+x")
        await shows(pilot, "decline")


async def test_every_list_is_searched() -> None:
    async with on_server(city()) as pilot:
        app = inspector(pilot)
        await until(pilot, lambda: app.server is not None and len(app.server.view.tools) == 6)
        await pilot.press("2", "slash", *"warm")
        await shows(pilot, "1 of 6 tools")
        await pilot.press("enter")
        assert app.pane.rows.chosen["name"] == "warm"
        await pilot.press("escape")
        await shows(pilot, "6 tools")
        await pilot.press("6", "slash", *"tools/list")
        await until(pilot, lambda: app.pane.rows.model.filtered == "tools/list")
        await pilot.press("slash", *"zzz")
        await shows(pilot, "Nothing here has")


async def test_the_palette_finds_a_tool_by_its_name() -> None:
    async with on_server(city()) as pilot:
        app = inspector(pilot)
        await until(pilot, lambda: app.server is not None and "warm" in app.server.view.tools)
        await pilot.press("ctrl+p", *"warm")
        await shows(pilot, "tool of weather")
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.tab == "tools" and app.pane.rows.chosen["name"] == "warm")


async def test_connect_disconnect_and_the_scheme() -> None:
    async with on_server(city()) as pilot:
        app = inspector(pilot)
        await pilot.press("D")
        await shows(pilot, "not connected")
        await pilot.press("t")
        assert app.theme == "tidings-light"
        await pilot.press("question_mark")
        await shows(pilot, "In a form")
        await pilot.press("escape")


async def test_a_server_is_added_by_its_address_or_refused_with_the_reason() -> None:
    async with on_server(city()) as pilot:
        app = inspector(pilot)
        await pilot.press("n", *"nonesuch", "enter")
        await shows(pilot, "is not a known server or program")
        app.screen.query_one("#target", Input).value = "http://127.0.0.1:9/mcp"
        await pilot.press("enter")
        await until(pilot, lambda: "127.0.0.1:9" in app.session.servers)
        await until(pilot, lambda: app.server is app.session.servers["127.0.0.1:9"])
        await shows(pilot, "trying again")


async def test_a_click_chooses_a_tab_and_a_row() -> None:
    async with on_server(city()) as pilot:
        app = inspector(pilot)
        await until(pilot, lambda: app.server is not None and len(app.server.view.tools) == 6)
        await pilot.click("#tabs", offset=(12, 0))
        assert app.tab == "tools"
        await pilot.click(app.pane.rows, offset=(4, 2))
        assert app.pane.rows.cursor == 2
        assert not app.screen.query(Select)
