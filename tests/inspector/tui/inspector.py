"""The application on a real session, for the tests: with a clock that stands still, and records that a test tells."""

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot

from tests.inspector.tui.terminal import PATIENCE
from tidings.inspector.catalog.entry import ServerEntry
from tidings.inspector.records import Record
from tidings.inspector.server import ConnectionSpec
from tidings.inspector.session import Session
from tidings.inspector.tui.app import InspectorApp

NOW = 1_794_751_400.0
"""What time it is where the clock stands still."""


class Told:
    """A session to which a test tells records, each at its time. No server is connected to."""

    def __init__(self) -> None:
        self.now = NOW
        self.session = Session(clock=lambda: self.now)

    async def add(self, name: str, **entry: Any) -> None:
        await self.session.add(ServerEntry(name, **entry), connect=False)

    def record(self, server: str, kind: str, /, at: float = NOW, **data: Any) -> Record:
        self.now = at
        record = self.session.record(server, kind, data)
        self.now = NOW
        assert record is not None
        return record


def in_utc() -> None:
    os.environ["TZ"] = "UTC"
    time.tzset()


@asynccontextmanager
async def opened(told: Told, *, dark: bool = True, size: tuple[int, int] = (150, 42)) -> AsyncIterator[Pilot[None]]:
    """The application, showing what was told."""
    app = InspectorApp(told.session, now=lambda: told.now, dark=dark)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield pilot


@asynccontextmanager
async def on_server(
    server: object, name: str = "weather", era: str = "auto", size: tuple[int, int] = (150, 42)
) -> AsyncIterator[Pilot[None]]:
    """The application, connected to a server in this process."""
    async with Session() as session:
        await session.add(ConnectionSpec(name, server, era=era))
        app = InspectorApp(session)
        async with app.run_test(size=size, notifications=True) as pilot:
            await until(pilot, lambda: session.servers[name].view.state == "connected")
            yield pilot


def inspector(pilot: Pilot[None]) -> InspectorApp:
    app = pilot.app
    assert isinstance(app, InspectorApp)
    return app


async def until(pilot: Pilot[None], is_so: Any) -> None:
    """Let the application run until this is so."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, f"It never came to be:\n{screen(pilot)}"
        await pilot.pause(0.02)


def screen(pilot: Pilot[None]) -> str:
    """What is on the screen, as text."""
    return "\n".join(strip.text.rstrip() for strip in pilot.app.screen._compositor.render_strips())
