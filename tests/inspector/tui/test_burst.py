"""Five thousand notifications at once: the screen costs the same, a key is answered at once, everything is counted."""

import pytest
from textual.pilot import Pilot

from tests.inspector.tui.inspector import NOW, Told, inspector, opened, screen
from tidings.inspector.tui.widgets.lists import RowList

pytestmark = pytest.mark.anyio

BURST = 5_000
HEIGHT = 42


async def told() -> Told:
    made = Told()
    await made.add("flood", url="http://127.0.0.1:1/mcp")
    made.record("flood", "state", state="connected")
    return made


def burst(made: Told, kind: str = "change", count: int = BURST) -> None:
    for number in range(count):
        data = {
            "change": {"change": "resource-updated", "uri": f"flood://{number}"},
            "log": {"level": "info", "logger": "flood", "data": f"entry {number}"},
            "notification": {"method": "notifications/other", "params": {"number": number}},
        }[kind]
        made.record("flood", kind, at=NOW - 10, **data)


def drawn(pilot: Pilot[None]) -> int:
    return sum(each.drawn for each in pilot.app.screen.query(RowList))


async def test_a_burst_is_drawn_once_and_a_key_is_answered_in_the_next_turn() -> None:
    made = await told()
    async with opened(made) as pilot:
        app = inspector(pilot)
        ticks, lines = app.ticks, drawn(pilot)
        burst(made)
        assert app.ticks == ticks  # Nothing is drawn while it arrives: a mark is left, and no more.
        await pilot.press("7")
        assert app.tab == "logs"
        await pilot.press("1")
        app.tick()
        await pilot.pause()
        assert len(app.panes["live"].rows.model) == BURST  # type: ignore[attr-defined]
        assert f"{BURST:,} changes" in screen(pilot)
        # Two tabs were opened and one burst shown: so many screens of lines at the very most, not thousands.
        assert drawn(pilot) - lines <= 12 * HEIGHT
        assert app.ticks - ticks <= 8


async def test_a_key_between_two_halves_of_a_burst_moves_the_choice_and_holds_the_rest_back() -> None:
    made = await told()
    async with opened(made) as pilot:
        app = inspector(pilot)
        rows = app.pane.rows
        burst(made, count=BURST // 2)
        app.tick()
        await pilot.press("j")
        chosen = rows.chosen
        assert rows.cursor == 1
        burst(made, count=BURST // 2)
        app.tick()
        await pilot.pause()
        assert rows.chosen is chosen  # What is read does not move.
        assert len(rows.model) == BURST // 2
        assert "2,500 newer held back" in screen(pilot)
        await pilot.press("g")
        assert len(rows.model) == BURST
        assert rows.chosen.uri == f"flood://{BURST // 2 - 1}"
        assert "Following" in screen(pilot)


async def test_a_paused_list_counts_what_it_holds_back() -> None:
    made = await told()
    async with opened(made) as pilot:
        app = inspector(pilot)
        burst(made, count=10)
        app.tick()
        await pilot.press("space")
        burst(made, count=7)
        app.tick()
        await pilot.pause()
        assert "7 newer held back" in screen(pilot)
        await pilot.press("space")
        assert len(app.pane.rows.model) == 17


@pytest.mark.parametrize(("kind", "source"), [("log", "logs"), ("notification", "notifications")])
async def test_logs_and_notifications_stand_a_burst_too(kind: str, source: str) -> None:
    made = await told()
    async with opened(made) as pilot:
        app = inspector(pilot)
        await pilot.press("7")
        while app.panes["logs"].source != source:  # type: ignore[attr-defined]
            await pilot.press("s")
        lines = drawn(pilot)
        burst(made, kind)
        app.tick()
        await pilot.press("j")
        assert app.pane.rows.cursor == 1
        assert drawn(pilot) - lines <= 6 * HEIGHT


async def test_what_was_dropped_is_said() -> None:
    made = await told()
    for number in range(20_010):
        body = {"jsonrpc": "2.0", "method": "notifications/other", "params": {"number": number}}
        made.record("flood", "message", incoming=True, body=body, size=60)
    async with opened(made) as pilot:
        assert "20,000 messages kept, 10 dropped" in screen(pilot)
        await pilot.press("6")
        await pilot.press("G")
        rows = inspector(pilot).pane.rows
        assert rows.chosen.body["params"]["number"] == 10
