"""Questions of a legacy server that are answered as tasks: the server asks, and fetches the answer when it is ready."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from tidings._kit.bounded_json import as_dict

OnRequest = Callable[[Any, str, Mapping[str, Any] | None], Awaitable[dict[str, Any]]]

_QUESTIONS: Final = ("sampling/createMessage", "elicitation/create")
_MOST: Final = 100  # Tasks that are kept. Of more, the oldest are forgotten.
_POLL_MS: Final = 500


@dataclass
class _QuestionTask:
    id: str
    began: str
    ttl: Any
    answer: asyncio.Future[dict[str, Any]]

    @property
    def facts(self) -> dict[str, Any]:
        status = "working"
        if self.answer.cancelled():
            status = "cancelled"
        elif self.answer.done():
            status = "completed" if self.answer.exception() is None else "failed"
        now = datetime.now(UTC).isoformat()
        times = {"createdAt": self.began, "lastUpdatedAt": now, "ttl": self.ttl, "pollInterval": _POLL_MS}
        return {"taskId": self.id, "status": status, **times}


class QuestionTasks:
    """Answers the requests of a server on one connection: questions with `task` as tasks, all others directly."""

    def __init__(self, directly: OnRequest) -> None:
        self._directly = directly
        self._tasks: dict[str, _QuestionTask] = {}
        self._numbers = count(1)

    async def __call__(self, context: Any, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
        given = dict(params or {})
        if method in _QUESTIONS and isinstance(given.get("task"), dict):
            ttl = as_dict(given.pop("task")).get("ttl")
            return {"task": self._begin(context, method, given, ttl).facts}
        match method:
            case "tasks/list":
                return {"tasks": [task.facts for task in self._tasks.values()]}
            case "tasks/get":
                return self._find(given).facts
            case "tasks/cancel":
                task = self._find(given)
                if not task.answer.cancel():
                    raise MCPError(INVALID_PARAMS, f"Task {task.id} has ended: it is {task.facts['status']}")
                await asyncio.wait([task.answer])
                return task.facts
            case "tasks/result":
                task = self._find(given)
                await asyncio.wait([task.answer])
                if task.answer.cancelled():
                    raise MCPError(INVALID_PARAMS, f"Task {task.id} was cancelled")
                result = await task.answer
                related = {"io.modelcontextprotocol/related-task": {"taskId": task.id}}
                return {**result, "_meta": {**(result.get("_meta") or {}), **related}}
            case _:
                return await self._directly(context, method, params)

    def close(self) -> None:
        """Ends the questions that are still open, because the connection has ended."""
        for task in self._tasks.values():
            task.answer.cancel()

    def _begin(self, context: Any, method: str, params: dict[str, Any], ttl: Any) -> _QuestionTask:
        while len(self._tasks) >= _MOST:
            self._tasks.pop(next(iter(self._tasks))).answer.cancel()
        answer = asyncio.ensure_future(self._directly(context, method, params))
        # Whoever asks for the result is told of an error.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        task = _QuestionTask(f"question-{next(self._numbers)}", datetime.now(UTC).isoformat(), ttl, answer)
        self._tasks[task.id] = task
        return task

    def _find(self, params: dict[str, Any]) -> _QuestionTask:
        if (task := self._tasks.get(str(params.get("taskId")))) is None:
            raise MCPError(INVALID_PARAMS, f"There is no task {params.get('taskId')!r}")
        return task
