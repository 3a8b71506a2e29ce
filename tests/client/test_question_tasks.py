"""Questions of a legacy server that are answered as tasks."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tidings.client.question_tasks import QuestionTasks

pytestmark = pytest.mark.anyio


class Desk:
    """Somebody who answers when told to."""

    def __init__(self) -> None:
        self.answers: list[asyncio.Future[dict[str, Any]]] = []
        self.tasks = QuestionTasks(self)

    async def __call__(self, context: Any, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
        if method == "ping":
            return {}
        assert "task" not in (params or {})
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]

    async def ask(self) -> str:
        given = {"message": "?", "task": {"ttl": 60_000}}
        task = (await self.tasks(None, "elicitation/create", given))["task"]
        assert (task["status"], task["ttl"]) == ("working", 60_000)
        await asyncio.sleep(0)
        return task["taskId"]

    async def get(self, task: str, what: str = "get") -> dict[str, Any]:
        return await self.tasks(None, f"tasks/{what}", {"taskId": task})


async def test_the_answer_is_fetched_when_it_is_ready() -> None:
    desk = Desk()
    task = await desk.ask()
    result = asyncio.ensure_future(desk.get(task, "result"))
    assert (await desk.get(task))["status"] == "working"
    assert not result.done()
    desk.answers[0].set_result({"action": "accept", "_meta": {"a": 1}})
    related = {"io.modelcontextprotocol/related-task": {"taskId": task}}
    assert await result == {"action": "accept", "_meta": {"a": 1, **related}}
    assert (await desk.get(task))["status"] == "completed"
    assert [each["taskId"] for each in (await desk.tasks(None, "tasks/list", None))["tasks"]] == [task]


async def test_a_refusal_is_the_result() -> None:
    desk = Desk()
    task = await desk.ask()
    desk.answers[0].set_exception(MCPError(-1, "rejected"))
    with pytest.raises(MCPError, match="rejected"):
        await desk.get(task, "result")
    assert (await desk.get(task))["status"] == "failed"


async def test_a_task_can_be_cancelled_once() -> None:
    desk = Desk()
    task = await desk.ask()
    assert (await desk.get(task, "cancel"))["status"] == "cancelled"
    assert desk.answers[0].cancelled()
    with pytest.raises(MCPError, match="has ended"):
        await desk.get(task, "cancel")
    with pytest.raises(MCPError, match="was cancelled"):
        await desk.get(task, "result")


async def test_everything_else_is_answered_directly() -> None:
    desk = Desk()
    assert await desk.tasks(None, "ping", None) == {}
    with pytest.raises(MCPError, match="no task 'x'"):
        await desk.get("x")
    direct = asyncio.ensure_future(desk.tasks(None, "elicitation/create", {"message": "?"}))
    await asyncio.sleep(0)
    desk.answers[0].set_result({"action": "decline"})
    assert await direct == {"action": "decline"}


async def test_open_questions_end_with_the_connection_and_old_ones_are_forgotten() -> None:
    desk = Desk()
    first, *_, last = [await desk.ask() for _ in range(101)]
    with pytest.raises(MCPError, match="no task"):
        await desk.get(first)
    desk.tasks.close()
    await asyncio.sleep(0)
    assert (await desk.get(last))["status"] == "cancelled"
