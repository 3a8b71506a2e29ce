"""Tasks in the terminal app: their status and words, their questions, and those that go on without it."""

import pytest
from textual.pilot import Pilot

from tests.inspector.jobs import jobs
from tests.inspector.tui.inspector import NOW, Told, in_utc, inspector, on_server, opened, screen, until
from tests.inspector.tui.test_snapshots import compare, picture
from tests.inspector.tui.test_using import open_tool, shows

pytestmark = pytest.mark.anyio


async def test_a_task_shows_its_status_words_and_id_and_its_result_when_it_ends() -> None:
    async with on_server(jobs()) as pilot:
        app = await open_tool(pilot, "reindex")
        await pilot.press("ctrl+r")
        await shows(pilot, "● working")
        await shows(pilot, "Reading note 2")
        await shows(pilot, "task reindex.")
        await shows(pilot, "by notification")
        assert app.server is not None
        app.server.call("go_on")
        await shows(pilot, "3 notes are in the index.")


async def test_a_task_is_cancelled_with_a_key() -> None:
    async with on_server(jobs()) as pilot:
        await open_tool(pilot, "reindex")
        await pilot.press("ctrl+r")
        await shows(pilot, "● working")
        await pilot.press("ctrl+x")
        await shows(pilot, "Cancelled.")


async def test_the_question_of_a_task_is_answered_in_the_panel() -> None:
    async with on_server(jobs()) as pilot:
        await open_tool(pilot, "import_folder")
        await pilot.press("ctrl+r")
        await shows(pilot, "◆ input required")
        await pilot.press("escape", "a")
        await shows(pilot, "Asked by import_folder")
        await pilot.press("enter", *"both", "ctrl+r")
        await shows(pilot, "Kept both.")


async def test_a_task_that_is_left_is_listed_and_followed_again() -> None:
    async with on_server(jobs()) as pilot:
        app = await open_tool(pilot, "reindex")
        await pilot.press("ctrl+r")
        await shows(pilot, "● working")
        server = app.server
        assert server is not None
        await pilot.press("escape", "5")
        server.call("go_on")
        await shows(pilot, "3 notes are in the index.")
        assert "go_on" not in screen(pilot)
        await _leave(pilot)
        await shows(pilot, "not followed")
        await pilot.press("g", "f")
        await until(pilot, lambda: sum(each.task is not None for each in server.view.requests.values()) == 3)
        await shows(pilot, "task-lost")


async def _leave(pilot: Pilot[None]) -> None:
    """Tells the session of a task that was left."""
    app = inspector(pilot)
    assert app.server is not None
    request = {"id": "old", "method": "tools/call", "params": {"name": "reindex"}, "status": "cancelled"}
    app.session.record("weather", "request", {**request, "created_at": app.now()})
    app.session.record("weather", "task", {"request": "old", "id": "gone", "status": "working", "pending": True})
    app.touch()


async def test_the_tools_and_tasks_of_the_older_design_are_marked() -> None:
    told = Told()
    await told.add("research", command="server")
    tool = {"name": "study", "description": "Studies a topic.", "inputSchema": {"type": "object"}}
    told.record("research", "state", state="connected")
    told.record("research", "list", list="tools", added=[{**tool, "execution": {"taskSupport": "required"}}], total=1)
    async with opened(told) as pilot:
        await pilot.press("2")
        await shows(pilot, "runs as a task")


async def test_the_list_of_tasks_looks_as_it_did() -> None:
    in_utc()
    told = Told()
    await told.add("jobs", command="server")
    told.record("jobs", "state", state="connected", at=NOW - 90)
    for known, tool, status, words, over in (
        ("r1", "reindex", "completed", None, True),
        ("r2", "wait_for_change", "working", "Waiting for a change of 1 resource.", False),
        ("r3", "import_folder", "input_required", "Asks which copy to keep.", False),
    ):
        at = NOW - 90 + int(known[1]) * 20
        asked = {"id": known, "method": "tools/call", "params": {"name": tool, "arguments": {}}, "created_at": at}
        told.record("jobs", "request", at=at, **asked, status="in_progress", started_at=at)
        task = {
            "request": known,
            "id": f"{tool}.7MlBP_CulZof7RPZ",
            "status": status,
            "message": words,
            "pending": not over,
        }
        told.record(
            "jobs", "task", at=at, **task, created_at=at, ttl=3600.0, poll_interval=1.0, listening=known == "r2"
        )
        if over:
            result = {"content": [{"type": "text", "text": "3 notes are in the index."}]}
            told.record("jobs", "request", at=at + 9, id=known, status="completed", completed_at=at + 9, result=result)
    compare("task-list-dark", await picture(["5", "j"], dark=True, told=told))
