"""The order of logs and of standard error: standard error from its start, logs by choice."""

import pytest

from tests.inspector.tui.inspector import NOW, Told, inspector, opened
from tests.inspector.tui.test_narrow import press

pytestmark = pytest.mark.anyio

TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "weather.py", line 2',
    "\traise ValueError",
    "ValueError: no",
]


async def filled(count: int = 60) -> Told:
    told = Told()
    await told.add("weather", command="python", args=["weather.py"])
    for at in range(count):
        told.record("weather", "stderr", at=NOW - 200 + at, text=f"line {at}")
        told.record("weather", "log", at=NOW - 200 + at, level="info", data=f"log {at}")
    return told


async def test_standard_error_is_read_from_its_start_and_follows_at_its_end() -> None:
    told = await filled()
    for at, text in enumerate(TRACEBACK):
        told.record("weather", "stderr", at=NOW - 9 + at / 1000, text=text)
    async with opened(told, size=(160, 30)) as pilot:
        shown = await press(pilot, "7", "s")
        lines = [line for line in shown.splitlines() if "│" in line or "23:" in line or ":" in line]
        places = [next(at for at, line in enumerate(lines) if text.strip() in line[:90]) for text in TRACEBACK]
        assert places == sorted(places)
        assert "    raise ValueError" in shown  # Indented as it was written, with a tab.
        assert "line 0" not in shown
        told.record("weather", "stderr", at=NOW, text="started again")
        assert "started again" in await press(pilot)
        assert "line 0" in await press(pilot, "g")
        told.record("weather", "stderr", at=NOW, text="a late line")
        shown = await press(pilot)
        assert "a late line" not in shown
        assert "1 newer" in shown
        assert "G follows" in shown
        assert "a late line" in await press(pilot, "G")
        lines = (await press(pilot, "o")).splitlines()
        assert next(at for at, line in enumerate(lines) if "a late line" in line) < 8


async def test_logs_are_newest_first_until_the_user_wants_the_other_order() -> None:
    async with opened(await filled(5), size=(160, 30)) as pilot:
        shown = await press(pilot, "7")
        assert shown.index("log 4") < shown.index("log 0")
        assert "o order" in shown.splitlines()[-1]
        shown = await press(pilot, "o")
        assert shown.index("log 0") < shown.index("log 4")


async def test_a_wheel_turned_up_holds_back_what_arrives_below() -> None:
    told = await filled()
    async with opened(told, size=(160, 30)) as pilot:
        await press(pilot, "7", "s")
        rows = inspector(pilot).pane.rows
        rows.scroll_relative(y=-3, animate=False, immediate=True)
        told.record("weather", "stderr", at=NOW, text="a late line")
        shown = await press(pilot)
        assert "a late line" not in shown
        assert "Paused" in shown
