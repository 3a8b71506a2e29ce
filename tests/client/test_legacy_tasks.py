"""Tools of legacy servers that demand to be called as a task, in the form of 2025-11-25."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from tests.client import everything
from tests.client.bad_servers import LEGACY, behaved, count, failure, refuse, web
from tests.client.library import eventually, hear
from tests.client.misbehaving import Asked
from tests.client.test_task_faults import DONE, in_turn
from tests.client.test_tasks import task_of, text
from tidings.client import ClientConfig, LiveClient, Timeouts, connect
from tidings.client.events import ProgressMade
from tidings.errors import RequestCancelled, RequestFailed, TaskCancelled, TaskFailed, TaskLost

pytestmark = pytest.mark.anyio
SECONDS = 60
TOOL = "simulate-research-query"
TRANSPORTS = pytest.mark.parametrize("transport", ["stdio", "http"])


@asynccontextmanager
async def researcher(transport: str, **options: Any) -> AsyncGenerator[LiveClient]:
    """A client of npm's `server-everything`."""
    with anyio.fail_after(SECONDS):
        if transport == "stdio":
            async with connect(everything.command("stdio"), **options) as client:
                yield client
        else:
            async with (
                everything.serving("streamableHttp") as port,
                connect(f"http://127.0.0.1:{port}/mcp", **options) as client,
            ):
                yield client


@TRANSPORTS
async def test_a_tool_that_demands_a_task_is_called_as_one(transport: str) -> None:
    async with researcher(transport) as client:
        told = hear(client, ProgressMade)
        call = client.start_call(TOOL, {"topic": "tides"})
        task = await task_of(call)
        assert (task.tool, task.status, call.state, task.listening) == (TOOL, "working", "working", False)
        assert task.ttl == 300
        assert "Research Report: tides" in text(await call)
        assert len({event.message for event in told}) >= 3
        assert client.tasks == []
        assert text(await client.call_tool("echo", {"message": "plain"})) == "Echo: plain"


@TRANSPORTS
async def test_its_question_waits_for_a_person_for_longer_than_a_request_may_take(transport: str) -> None:
    timeouts = Timeouts(request=6, total=7)
    async with researcher(transport, answer="ask", config=ClientConfig(timeouts=timeouts), roots=[]) as client:
        call = client.start_call(TOOL, {"topic": "python", "ambiguous": True})
        task = await task_of(call)
        await eventually(lambda: len(client.pending))
        [question] = client.pending
        assert (question.call, call.state, task.status) == (call.entry, "asking", "input_required")
        began = anyio.current_time()
        await eventually(lambda: anyio.current_time() > began + 8)
        client.pending.resolve(question.id, {"interpretation": "snake"})
        assert "python (snake)" in text(await call)
        assert task.questions == [question]


@TRANSPORTS
async def test_a_question_that_comes_as_a_task_is_answered_when_a_person_is_ready(transport: str) -> None:
    async with researcher(transport, answer="ask") as client:
        call = client.start_call("trigger-sampling-request-async", {"prompt": "the tide"})
        await eventually(lambda: len(client.pending))
        [question] = client.pending
        assert (question.kind, question.call) == ("sampling", call.entry)
        client.pending.resolve(question.id, "It comes in.")
        assert "It comes in." in text(await call)


async def test_it_can_be_cancelled() -> None:
    async with researcher("stdio") as client:
        call = client.start_call(TOOL, {"topic": "tides"})
        task = await task_of(call)
        call.cancel()
        with pytest.raises(RequestCancelled):
            await call
        assert (await client.request("tasks/get", {"taskId": task.id}))["status"] == "cancelled"
        assert client.tasks == []


async def test_without_tasks_the_server_refuses() -> None:
    async with researcher("stdio", config=ClientConfig(tasks=False)) as client:
        call = await client.call_tool(TOOL, {"topic": "tides"})
        assert call.result is not None
        assert call.result.is_error


# A server that answers as a test says.

TASK = {"taskId": "t1", "status": "working", "createdAt": "2026-11-18T10:00:00Z", "ttl": 60_000, "pollInterval": 1}


def peer(get: Any, result: Any = DONE) -> dict[str, Any]:
    tasks = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    does = behaved(LEGACY, {"tools": {}, "tasks": tasks})
    tool = {"name": "tool", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}}
    created = {"task": TASK}
    return does | {
        "tools/list": {"tools": [tool]},
        "tools/call": created,
        "tasks/get": get,
        "tasks/result": result,
        "tasks/cancel": {**TASK, "status": "cancelled"},
    }


@pytest.mark.parametrize(
    ("get", "result", "error"),
    [
        ({**TASK, "status": "cancelled", "statusMessage": "enough"}, DONE, TaskCancelled),
        ({**TASK, "status": "failed"}, lambda asked: refuse(asked, -32603, "it broke"), TaskFailed),
        (lambda asked: refuse(asked, -32602, "no such task"), DONE, TaskLost),
        (lambda asked: refuse(asked, -32000, "something else"), DONE, RequestFailed),
    ],
)
async def test_its_ends_have_the_same_names(get: Any, result: Any, error: type[Exception]) -> None:
    with anyio.fail_after(SECONDS):
        async with web(peer(get, result)) as here, connect(here.url) as client:
            assert isinstance(await failure(client.call_tool("tool"), SECONDS), error)
            assert count(here, "tools/call") == 1


async def test_a_result_is_fetched_when_the_task_is_over_and_a_failed_tool_has_one_too() -> None:
    failed = {"content": [{"type": "text", "text": "no luck"}], "isError": True}
    with anyio.fail_after(SECONDS):
        async with (
            web(peer(in_turn(TASK, {**TASK, "status": "failed"}), failed)) as here,
            connect(here.url) as client,
        ):
            result = (await client.call_tool("tool")).result
            assert result is not None
            assert result.is_error
            [called] = [each.message["params"] for each in here.asked if b'"tools/call"' in each.body]
            assert called["task"] == {}
            assert count(here, "tasks/result") == 1


async def test_a_lost_connection_does_not_call_again() -> None:
    async def broken_off(asked: Asked) -> None:
        asked.reset()

    get = in_turn(TASK, broken_off, {**TASK, "status": "completed"})
    with anyio.fail_after(SECONDS):
        async with web(peer(get)) as here, connect(here.url) as client:
            assert text(await client.call_tool("tool")) == "done"
            assert count(here, "tools/call") == 1
