"""The main screens, dark and light, compared with what they looked like when somebody last looked at them.

After a change that is meant: `UPDATE_SNAPSHOTS=1 pytest tests/inspector/tui/test_snapshots.py`, then look at the files
in `snapshots/` (any browser shows them) before they are committed.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.inspector.tui.inspector import Told, in_utc, inspector, opened
from tests.inspector.tui.sample import sample

SNAPSHOTS = Path(__file__).with_name("snapshots")
SCREENS = {
    "live": [],
    "tools": ["2"],
    "resources": ["3", "j"],
    "tasks": ["5", "j"],
    "messages": ["6", "j"],
    "logs": ["7"],
    "questions": ["a"],
    "keys": ["question_mark"],
}
LIGHT = {"live": [], "resources-source": ["3", "j", "v"], "tools-choice": ["2", "j", "j"]}


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    before = os.environ.get("TZ")
    in_utc()
    yield
    if before is None:
        os.environ.pop("TZ")
    else:
        os.environ["TZ"] = before


def without_addresses(svg: str) -> str:
    """The picture without fonts that would be fetched from elsewhere."""
    return re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL).replace("Fira Code", "ui-monospace")


async def picture(keys: list[str], *, dark: bool, told: Told | None = None, size: tuple[int, int] = (140, 36)) -> str:
    async with opened(told or await sample(), dark=dark, size=size) as pilot:
        for key in keys:
            await pilot.press(key)
        for blinking in pilot.app.screen.query("Input"):
            blinking.cursor_blink = False  # type: ignore[attr-defined]
        inspector(pilot).touch()
        inspector(pilot).tick()
        await pilot.pause()
        return without_addresses(pilot.app.export_screenshot(simplify=True))


def compare(name: str, made: str) -> None:
    path = SNAPSHOTS / f"{name}.svg"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        SNAPSHOTS.mkdir(exist_ok=True)
        path.write_text(made)
    assert made == path.read_text(), f"{name} looks different now: see the module's docstring"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "scheme"), [*((name, "dark") for name in SCREENS), *((name, "light") for name in LIGHT)]
)
async def test_a_screen_looks_as_it_did(name: str, scheme: str) -> None:
    keys = (SCREENS if scheme == "dark" else LIGHT)[name]
    compare(f"{name}-{scheme}", await picture(keys, dark=scheme == "dark"))


@pytest.mark.anyio
async def test_an_empty_session_teaches() -> None:
    compare("empty-dark", await picture([], dark=True, told=Told()))


@pytest.mark.anyio
async def test_a_narrow_terminal_is_enough() -> None:
    compare("narrow-dark", await picture(["2"], dark=True, size=(80, 24)))
