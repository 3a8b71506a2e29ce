"""Where one lands in the terminal app: what a server can do decides."""

import pytest

from tests.inspector.tui.inspector import until
from tidings import LiveServer
from tidings.inspector.server import ConnectionSpec
from tidings.inspector.session import Session
from tidings.inspector.tui.app import InspectorApp

pytestmark = pytest.mark.anyio


async def test_the_first_resources_of_a_server_are_watched_from_the_start() -> None:
    server = LiveServer("rooms")
    for number in range(7):
        server.resource(f"note://{number}", name=str(number))(lambda: "x")
    async with Session() as session:
        await session.add(ConnectionSpec("rooms", server))
        app = InspectorApp(session, lands=True)
        async with app.run_test(size=(120, 40)) as pilot:
            view = session.servers["rooms"].view
            await until(pilot, lambda: list(view.subscriptions) == [f"note://{number}" for number in range(5)])
            assert app.tab == "live"
            await server.notify.resource_updated("note://4")
            await until(pilot, lambda: any(change.uri == "note://4" for change in view.changes))


async def test_the_tools_of_a_server_with_nothing_to_watch_are_shown() -> None:
    server = LiveServer("tools")

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    async with Session() as session:
        await session.add(ConnectionSpec("tools", server))
        app = InspectorApp(session, lands=True)
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda: app.tab == "tools")
            await pilot.press("1")
            await until(pilot, lambda: app.tab == "live")
            assert not session.servers["tools"].view.subscriptions
