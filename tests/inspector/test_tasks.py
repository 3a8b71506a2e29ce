"""Tool calls that run as tasks, as a session shows and follows them; and tasks that outlive an inspector."""

import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.client import everything
from tests.inspector.jobs import jobs
from tests.inspector.watching import watched
from tests.server.serving import eventually, serving
from tidings.inspector.catalog.entry import ServerEntry
from tidings.inspector.kept_tasks import KeptTask, KeptTasks
from tidings.inspector.server import InspectedServer
from tidings.inspector.session import Session
from tidings.inspector.view.fold import replay
from tidings.inspector.view.items import RequestView

pytestmark = pytest.mark.anyio


async def working(server: InspectedServer, known: str) -> RequestView:
    """Waits until a call is a task."""
    request = server.view.requests[known]
    await eventually(lambda: request.over or (request.task is not None and request.task.status is not None))
    return request


def texts(request: RequestView) -> str:
    assert request.result is not None, request.error
    return "".join(each["text"] for each in request.result["content"])


async def test_a_call_that_becomes_a_task_shows_its_status_words_and_times_until_its_end() -> None:
    async with watched(jobs()) as (_, server):
        known = server.call("reindex", {"notes": 3})
        request = await working(server, known)
        await eventually(lambda: request.task is not None and "note 2" in (request.task.message or ""))
        task = request.task
        assert task is not None
        assert (request.status, request.state, task.status) == ("in_progress", "working", "working")
        assert task.pending
        assert task.created_at is not None
        assert task.created_at <= time.time() < (task.ends or 0)
        await eventually(lambda: task.listening)
        server.call("go_on")
        with anyio.fail_after(10):
            await server.wait(known)
        assert (request.status, request.state, task.status, task.pending) == ("completed",) * 3 + (False,)
        assert texts(request) == "3 notes are in the index."


async def test_the_question_of_a_task_names_its_call_and_is_answered() -> None:
    async with watched(jobs()) as (_, server):
        known = server.call("import_folder")
        await eventually(lambda: server.view.questions)
        question = next(iter(server.view.questions.values()))
        assert question.request == known
        await eventually(lambda: server.view.requests[known].state == "input_required")
        server.answer(question.id, {"keep": "the first"})
        with anyio.fail_after(10):
            assert texts(await server.wait(known)) == "Kept the first."


async def test_a_cancelled_task_is_cancelled_at_the_server_and_cannot_be_followed() -> None:
    async with watched(jobs()) as (_, server):
        known = server.call("reindex")
        request = await working(server, known)
        assert server.cancel(known)
        with anyio.fail_after(10):
            await server.wait(known)
        assert (request.status, request.state) == ("cancelled", "cancelled")
        assert request.task is not None
        assert server.client is not None
        assert (await server.client.task(request.task.id).refresh()).status == "cancelled"


async def test_a_call_that_is_repeated_is_followed_like_the_first() -> None:
    async with watched(jobs()) as (_, server):
        known = server.request("tools/call", {"name": "break_down", "arguments": {}})
        with anyio.fail_after(10):
            request = await server.wait(known)
        assert request.task is not None
        assert request.result["isError"] is True
        # Anything else about it, such as metadata, is sent as it is.
        raw = await server.wait(server.request("tools/call", {"name": "break_down", "_meta": {"x": 1}}))
        assert raw.task is None
        assert raw.result["resultType"] == "task"


async def test_an_unknown_task_is_said_to_be_unknown() -> None:
    async with watched(jobs()) as (_, server):
        with anyio.fail_after(10):
            request = await server.wait(server.follow_task("nonsense"))
        assert request.error is not None
        assert (request.error.code, request.error.who) == ("task-lost", "the server")
        assert (request.state, request.title) == ("error", "tools/call")


async def test_a_task_that_is_left_goes_on_and_is_followed_again_by_the_next_connection(tmp_path: Path) -> None:
    async with on_the_web() as entry, Session(journal=tmp_path / "journal.sqlite") as session:
        server = await session.add(entry, connect=False)
        await server.connect()
        left = await working(server, server.call("reindex", {"notes": 4}))
        await server.disconnect()
        await eventually(lambda: left.over)
        assert left.state == "left"
        await server.connect()
        again = next(each for each in server.view.requests.values() if not each.over and each.task is not None)
        assert (again.title, again.params["arguments"]) == ("reindex", {"notes": 4})
        assert left.state == "cancelled"  # It is followed by the other.
        assert server.follow_task(again.task.id if again.task else "") == again.id
        server.call("go_on")
        with anyio.fail_after(10):
            assert texts(await server.wait(again.id)) == "4 notes are in the index."


async def test_the_next_run_of_the_inspector_follows_the_tasks_of_the_one_before(tmp_path: Path) -> None:
    journal = tmp_path / "state" / "journal.sqlite"
    async with on_the_web() as entry:
        async with Session(journal=journal) as session:
            server = await session.add(entry, connect=False)
            await server.connect()
            await working(server, server.call("reindex"))
        kept = json.loads(journal.with_name("tasks.json").read_text())["servers"]
        assert [task["tool"] for tasks in kept.values() for task in tasks.values()] == ["reindex"]
        assert journal.with_name("tasks.json").stat().st_mode & 0o777 == 0o600
        async with Session(journal=journal) as session:
            server = await session.add(entry, connect=False)
            await server.connect()
            (request,) = (each for each in server.view.requests.values() if each.task is not None)
            server.call("go_on")
            with anyio.fail_after(10):
                assert texts(await server.wait(request.id)) == "3 notes are in the index."
            records = session.since(0)
            assert records is not None
            assert replay(records).servers["it"].requests[request.id].task == request.task
        assert json.loads(journal.with_name("tasks.json").read_text()) == {"servers": {}}


@asynccontextmanager
async def on_the_web() -> AsyncGenerator[ServerEntry]:
    server = jobs()
    async with serving(server.asgi()) as port:
        yield ServerEntry("it", url=f"http://127.0.0.1:{port}/mcp", literal=True)


async def test_a_server_of_the_older_design_runs_its_tool_as_a_task() -> None:
    async with watched(everything.command("stdio")) as (_, server):
        await eventually(lambda: server.view.tools)
        assert server.view.tools["simulate-research-query"]["execution"] == {"taskSupport": "required"}
        known = server.call("simulate-research-query", {"topic": "tea"})
        request = await working(server, known)
        assert request.task is not None
        assert (request.task.pending, request.task.listening) == (True, False)
        with anyio.fail_after(30):
            assert "Research Report: tea" in texts(await server.wait(known))


# The file.


async def test_several_inspectors_share_the_file_of_tasks(tmp_path: Path) -> None:
    path = tmp_path / "new" / "tasks.json"
    one, other = KeptTasks(path), KeptTasks(path)
    first, second = KeptTask("a", "write", {"x": 1}, None), KeptTask("b", None, {}, time.time() + 60)
    one.keep("server", first)
    await one.flush()
    other.keep("server", second)
    other.keep("server", KeptTask("old", None, {}, time.time() - 1))
    await other.flush()
    assert await one.of("server") == [first, second]
    assert await one.of("another") == []
    one.drop("server", "a")
    assert await one.of("server") == [second]


async def test_inspectors_that_write_at_the_same_time_keep_the_tasks_of_both(tmp_path: Path) -> None:
    path = tmp_path / "tasks.json"
    both = [KeptTasks(path), KeptTasks(path)]

    def write(kept: KeptTasks, number: int) -> None:
        for each in range(20):
            task = KeptTask(f"{number} {each}", None, {}, None)
            kept._write(path, {("s", task.id): task})

    async with anyio.create_task_group() as tasks:
        for number, kept in enumerate(both):
            tasks.start_soon(anyio.to_thread.run_sync, write, kept, number)
    assert len(await KeptTasks(path).of("s")) == 40


async def test_arguments_that_are_too_large_are_not_kept(tmp_path: Path) -> None:
    kept = KeptTasks(tmp_path / "tasks.json")
    kept.keep("server", KeptTask("a", "write", {"x": "y" * 100_000}, None))
    assert await kept.of("server") == [KeptTask("a", "write", {}, None)]


@pytest.mark.parametrize(
    "content", ["", "[]", '{"servers": 7}', '{"servers": {"s": [1]}}', '{"servers": {"s": {"a": 1}}}']
)
async def test_a_damaged_file_is_read_as_far_as_it_goes(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tasks.json"
    path.write_text(content)
    assert [task.id for task in await KeptTasks(path).of("s")] == (["a"] if '"a"' in content else [])


async def test_a_folder_that_cannot_be_written_keeps_nothing_and_is_logged(caplog: Any) -> None:
    kept = KeptTasks(Path("/dev/null/nowhere/tasks.json"))
    kept.keep("server", KeptTask("a", None, {}, None))
    assert await kept.of("server") == []
    assert "tasks are not kept" in caplog.text
