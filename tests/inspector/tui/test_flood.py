"""Five thousand notifications over a real wire: all counted, keys answered in between, few screens drawn."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from tests.inspector.tui.inspector import inspector, on_server
from tests.ports import free_port
from tidings.inspector.records import Record
from tidings.inspector.tui.app import RATE, InspectorApp
from tidings.inspector.tui.widgets.lists import RowList

pytestmark = pytest.mark.anyio

FLOOD = Path(__file__).with_name("flood.py")
EACH = 2_500
KEYS = {1_000: "5", 2_500: "6", 4_000: "1"}
"""After so many notifications, this key is pressed."""
TABS = {"5": "tasks", "6": "messages", "1": "live"}
HEIGHT = 42
PATIENCE = 100.0


@dataclass
class Answer:
    """How long a key waited: in notifications that were taken in meanwhile, in turns of the loop, in seconds."""

    tab: str
    notifications: int
    turns: int
    seconds: float


class Presser:
    """Presses keys in the middle of a flood, and sees when they have their effect."""

    def __init__(self, app: InspectorApp) -> None:
        self.app = app
        self.seen = 0
        self.turns = 0
        self.answers: list[Answer] = []
        self.all = asyncio.Event()
        self._pressed: dict[str, tuple[int, int, float]] = {}
        self._loop = asyncio.get_running_loop()
        app.session.listen(self._heard)
        self._open = app.action_tab
        app.action_tab = self._opened  # type: ignore[method-assign]

    def _turn(self) -> None:
        """Counts the turns of the loop while a key waits, and only then: to count, it keeps the loop from resting."""
        self.turns += 1
        if len(self.answers) < len(self._pressed):
            self._loop.call_soon(self._turn)

    def _heard(self, record: Record) -> None:
        if record.kind not in ("log", "change"):
            return
        self.seen += 1
        if self.seen >= 2 * EACH:
            self.all.set()
        if (key := KEYS.get(self.seen)) is not None:
            self._pressed[TABS[key]] = (self.seen, self.turns, time.perf_counter())
            self.app.post_message(events.Key(key, key))
            self._loop.call_soon(self._turn)

    def _opened(self, name: str) -> None:
        self._open(name)
        seen, turns, at = self._pressed[name]
        self.answers.append(Answer(name, self.seen - seen, self.turns - turns, time.perf_counter() - at))


@asynccontextmanager
async def over(wire: str, era: str) -> AsyncGenerator[Pilot[None]]:
    if wire == "stdio":
        async with on_server([sys.executable, str(FLOOD), "stdio"], era=era) as pilot:
            yield pilot
        return
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(FLOOD), str(port), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with on_server(f"http://127.0.0.1:{port}/mcp", era=era) as pilot:
            yield pilot
    finally:
        process.kill()
        await process.wait()


def lines_drawn(pilot: Pilot[None]) -> int:
    return sum(each.drawn for each in pilot.app.screen.query(RowList))


@pytest.mark.thorough
@pytest.mark.parametrize(("wire", "era"), [("stdio", "auto"), ("http", "legacy")])
async def test_a_flood_over_a_wire_is_counted_whole_while_keys_are_answered(wire: str, era: str) -> None:
    async with over(wire, era) as pilot:
        app = inspector(pilot)
        server: Any = app.server
        await server.subscribe("flood://level")
        ticks, drawn = app.ticks, lines_drawn(pilot)
        presser, began = Presser(app), time.monotonic()
        call = server.call("flood", {"logs": EACH, "updates": EACH})
        async with asyncio.timeout(PATIENCE):
            await server.wait(call)
            await presser.all.wait()
        took = time.monotonic() - began

        counts = server.view.counts
        # Changes that one read answers are one row.
        assert (counts["logs"].total, sum(1 + each.merged for each in server.view.changes)) == (EACH, EACH)
        assert counts["logs"].dropped == counts["changes"].dropped == 0
        assert [each.tab for each in presser.answers] == [TABS[key] for key in KEYS.values()]
        for answer in presser.answers:
            # On a machine with nothing else to do, this takes some 10 ms. What it must never do is wait for the flood.
            assert answer.turns <= 40, answer
            assert answer.notifications <= 100, answer
        assert app.ticks - ticks <= RATE * took + len(KEYS) + 2
        assert lines_drawn(pilot) - drawn <= 2 * HEIGHT * (app.ticks - ticks + len(KEYS) + 2)
