"""Tool calls that run as tasks, as a session shows and follows them."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from tests.client import everything
from tests.inspector.jobs import jobs
from tests.inspector.watching import watched
from tests.server.serving import eventually, serving
from tidings.inspector.catalog.entry import ServerEntry
from tidings.inspector.server import InspectedServer
from tidings.inspector.session import Session
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


async def test_a_task_that_is_left_goes_on_and_is_followed_again_by_the_next_connection() -> None:
    async with on_the_web() as entry, Session() as session:
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
