"""What servers ask of the user, in both eras, answered with keys; and what they suggest while one types."""

from typing import Any

import pytest
from mcp_types import Completion
from textual.widgets import Input

from tests.client.asking import Asking
from tests.inspector.tui.city import city
from tests.inspector.tui.inspector import inspector, on_server, screen, until
from tests.inspector.tui.test_using import open_tool, shows

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_every_kind_of_question_is_answered_in_its_panel(era: str) -> None:
    async with on_server(Asking(), era=era) as pilot:
        app = await open_tool(pilot, "greet")
        await pilot.press("ctrl+r")
        await shows(pilot, "1 question waits")
        await pilot.press("escape", "a")
        await shows(pilot, "Who are you?")
        await shows(pilot, "Asked by greet")
        await pilot.press("enter", *"Ada", "ctrl+r")
        await shows(pilot, "Ada, 30")

        app.choose("weather", "tools", "capital")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: app.server is not None and app.server.view.questions)
        await shows(pilot, "The capital of France?")  # The panel is still open.
        await shows(pilot, "Asked by capital")
        app.query_one("#questions").list.focus()  # type: ignore[attr-defined]
        await pilot.press("enter", *"Paris", "ctrl+r")
        await shows(pilot, "assistant tidings: Paris")


async def test_in_little_room_the_answer_has_the_focus_until_it_is_accepted() -> None:
    async with on_server(Asking(), size=(80, 24)) as pilot:
        app = await open_tool(pilot, "greet")
        await pilot.press("ctrl+r")
        await shows(pilot, "1 question waits")
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.focused, Input))
        await pilot.press("ctrl+r")  # Without a name, which is needed: the field keeps the focus.
        await pilot.pause()
        assert isinstance(app.focused, Input)
        await pilot.press(*"Ada", "ctrl+r")
        await shows(pilot, "Ada, 30")
        await until(pilot, lambda: app.focused is app.pane.rows)
        assert app.server is not None
        assert len([each for each in app.server.view.requests.values() if each.method == "tools/call"]) == 1
        assert "Close Esc" not in screen(pilot)


async def test_a_sample_that_is_refused_fails_the_call_and_says_who_refused() -> None:
    async with on_server(Asking()) as pilot:
        await open_tool(pilot, "capital")
        await pilot.press("ctrl+r")
        await shows(pilot, "1 question waits")
        await pilot.press("escape", "a", "ctrl+x")
        await shows(pilot, "rejected")


async def test_what_a_server_suggests_completes_what_is_typed() -> None:
    server = city()

    @server.completion()
    async def complete(_ref: Any, argument: Any, _context: Any) -> Completion:
        known = {"who": ["Ada", "Adam"], "name": ["Bergen", "Berlin"]}
        return Completion(values=[each for each in known.get(argument.name, []) if each.startswith(argument.value)])

    async with on_server(server) as pilot:
        app = inspector(pilot)
        await until(pilot, lambda: app.server is not None and app.server.view.prompts and app.server.view.templates)
        for tab, key, typed, whole, said in (
            ("prompts", "greet", "Ad", "Ada", "Say hello to Ada."),
            ("resources", "city://{name}/streets", "Berg", "Bergen", "the streets of Bergen"),
        ):
            app.choose("weather", tab, key)
            await pilot.press("enter", *typed)
            field: Any = app.focused
            assert isinstance(field, Input)
            await until(pilot, lambda field=field, whole=whole: field._suggestion == whole)
            await pilot.press("right", "ctrl+r")
            assert field.value == whole
            await shows(pilot, said)
            await pilot.press("escape")
