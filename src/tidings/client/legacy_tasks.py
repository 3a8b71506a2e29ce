"""Tasks as 2025-11-25 has them, an experiment of that version, for tools that demand to be run so.

There, the *client* makes a call a task, by a `task` in its parameters. `tasks/get` tells the status only: the result,
or the error, is the answer to `tasks/result`. While the task asks the user something, its questions arrive on the
stream of that request, so it is sent then, too. Tasks belong to a session, and no later process can have them.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from mcp_types import Tool

from tidings._kit.bounded_json import as_dict, as_text
from tidings.client.link import Link
from tidings.client.task_wire import Ask, TaskForm, TaskState
from tidings.errors import RequestFailed, TidingsError

_RELATED: Final = "io.modelcontextprotocol/related-task"


def demands_task(link: Link, tool: Tool | None) -> bool:
    """Returns whether the server of a legacy connection runs this tool as a task only."""
    if tool is None or tool.execution is None or tool.execution.task_support != "required":
        return False
    tasks = link.client.server_capabilities.tasks
    return link.facts.era == "legacy" and bool(tasks and tasks.requests and tasks.requests.tools)


async def begin_task(link: Link, name: str, arguments: Mapping[str, Any], meta: Mapping[str, Any] | None) -> TaskState:
    """Calls a tool as a task."""
    params = {"name": name, "arguments": dict(arguments), "task": {}, "_meta": dict(meta or {})}
    answer = await link.send_raw("tools/call", params)
    return TaskState.parse(as_dict(answer.get("task")), method="tools/call")


def related_task(params: Any) -> str | None:
    """Returns the id of the task that a question belongs to, if it names one."""
    meta = getattr(params, "meta", None)
    return as_text(as_dict(as_dict(meta).get(_RELATED)).get("taskId"))


class LegacyForm(TaskForm):
    """Looks at one task of the older design."""

    outlives_session = False

    def __init__(self) -> None:
        self._asking: asyncio.Task[None] | None = None  # Carries the questions of the task.

    async def look(self, ask: Ask, wake: Callable[[], None]) -> TaskState:
        state = await super().look(ask, wake)
        if state.status == "input_required" and (self._asking is None or self._asking.done()):
            self._asking = asyncio.create_task(self._carry_questions(ask, wake), name="tidings questions of a task")
        if state.status in ("completed", "failed"):
            try:
                return replace(state, status="completed", result=await ask("tasks/result"))
            except RequestFailed as error:
                code = as_dict(error.data).get("rpc_code")
                return replace(state, status="failed", error={"code": code, "message": error.message})
        return state

    async def _carry_questions(self, ask: Ask, wake: Callable[[], None]) -> None:
        with contextlib.suppress(TidingsError):  # The next look tells.
            await ask("tasks/result")
        wake()

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
