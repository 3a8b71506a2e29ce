"""Tasks on the wire, in both eras: how a call becomes one, and how its state is asked for.

In the modern era, a server may answer `tools/call` with a task instead of a result. In 2025-11-25, the *client* makes a
call a task: here, for tools that demand it. Such a task belongs to a session. `tasks/get` tells its status only: the
result, or the error, is the answer to `tasks/result`, on whose stream its questions to the user arrive, too.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, Self, cast, get_args

from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp_types import Result, Tool
from pydantic import ConfigDict

from tidings._kit.bounded_json import as_dict, as_dict_or_none, as_float, as_text
from tidings.errors import MalformedMessage, RequestFailed, TidingsError

if TYPE_CHECKING:
    from tidings.client.link import Link

NOTIFICATION: Final = "notifications/tasks"
Ask = Callable[..., Awaitable[dict[str, Any]]]  # Sends a request about one task: its method, and further parameters.
TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]
_STATUSES: Final = get_args(TaskStatus)
_FAULT: Final = "This is a fault of the server: report it to its authors."


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task as the server described it last, in either era. Times are in seconds."""

    task_id: str
    status: TaskStatus
    message: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    ttl: float | None = None
    """The seconds since its creation for which the server keeps it. None if there is no limit, or none is stated."""
    poll_interval: float | None = None
    asked: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The questions that are not answered, by key."""
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None

    @classmethod
    def parse(cls, answer: Mapping[str, Any], *, method: str) -> Self:
        """Returns the task in an answer to `method`. Raises `MalformedMessage` if there is none in it."""
        task_id, status = as_text(answer.get("taskId")), as_text(answer.get("status"))
        if not task_id or status not in _STATUSES:
            text = f"The server's answer to {method} describes no task: taskId {task_id!r}, status {status!r}. {_FAULT}"
            raise MalformedMessage(text, method=method)
        return cls(
            task_id,
            cast("TaskStatus", status),
            as_text(answer.get("statusMessage")),
            _time(answer.get("createdAt")),
            _time(answer.get("lastUpdatedAt")),
            _seconds(answer.get("ttlMs", answer.get("ttl"))),
            _seconds(answer.get("pollIntervalMs", answer.get("pollInterval"))),
            as_dict(answer.get("inputRequests")),
            as_dict_or_none(answer.get("result")),
            as_dict_or_none(answer.get("error")),
        )

    @property
    def over(self) -> bool:
        return self.status in ("completed", "failed", "cancelled")

    @property
    def lacks_outcome(self) -> bool:
        """True if the task is over, and its result or error is not told."""
        return (self.status == "completed" and self.result is None) or (self.status == "failed" and self.error is None)


class TaskForm:
    """The way in which an era looks at a task: here the extension's."""

    outlives_session: bool = True  # A later process can ask for it, and a stream may carry it.

    async def look(self, ask: Ask, wake: Callable[[], object]) -> TaskState:
        """Asks the server for the state. Calls `wake` when it is worth another look before long."""
        return TaskState.parse(await ask("tasks/get", routine=True), method="tasks/get")

    def close(self) -> None:
        """Ends what `look` has begun."""


def _seconds(milliseconds: object) -> float | None:
    number = as_float(milliseconds)
    return None if number is None or number <= 0 else number / 1000


def _time(value: object) -> datetime | None:
    try:
        time = datetime.fromisoformat(as_text(value) or "")
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


class CreatedTask(Result):
    """The answer to `tools/call` that is a task. `TaskState.parse` reads its fields."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"]


class BecameTask(Exception):
    """The server answered a call with a task."""

    def __init__(self, state: TaskState) -> None:
        super().__init__(f"The call became the task {state.task_id}")
        self.state = state


class TasksDeclared(ClientExtension):
    """Declares the extension in the modern era, and takes tasks out of the SDK."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> Sequence[ResultClaim[Any]]:
        async def became(created: CreatedTask, _: ClaimContext) -> NoReturn:
            raise BecameTask(TaskState.parse(created.model_dump(by_alias=True, mode="json"), method="tools/call"))

        return (ResultClaim(result_type="task", model=CreatedTask, resolve=became),)


# The legacy era.


def demands_task(link: "Link", tool: Tool | None) -> bool:
    """Returns whether the server of a legacy connection runs this tool as a task only."""
    if tool is None or tool.execution is None or tool.execution.task_support != "required":
        return False
    tasks = link.client.server_capabilities.tasks
    return link.facts.era == "legacy" and bool(tasks and tasks.requests and tasks.requests.tools)


async def begin_task(
    link: "Link", name: str, arguments: Mapping[str, Any], meta: Mapping[str, Any] | None
) -> TaskState:
    """Calls a tool as a task."""
    params = {"name": name, "arguments": dict(arguments), "task": {}, "_meta": dict(meta or {})}
    answer = await link.send_raw("tools/call", params)
    return TaskState.parse(as_dict(answer.get("task")), method="tools/call")


def related_task(params: Any) -> str | None:
    """Returns the id of the task that a question belongs to, if it names one."""
    related = as_dict(getattr(params, "meta", None)).get("io.modelcontextprotocol/related-task")
    return as_text(as_dict(related).get("taskId"))


class LegacyForm(TaskForm):
    """Looks at one task of the older design."""

    outlives_session = False

    def __init__(self) -> None:
        self._asking: asyncio.Task[None] | None = None  # Carries the questions of the task.

    async def look(self, ask: Ask, wake: Callable[[], object]) -> TaskState:
        state = await super().look(ask, wake)
        if state.status == "input_required" and (self._asking is None or self._asking.done()):

            async def carry_questions() -> None:
                with contextlib.suppress(TidingsError):  # The next look tells.
                    await ask("tasks/result")
                wake()

            self._asking = asyncio.create_task(carry_questions(), name="tidings questions of a task")
        if state.status in ("completed", "failed"):
            try:
                return replace(state, status="completed", result=await ask("tasks/result"))
            except RequestFailed as error:
                code = as_dict(error.data).get("rpc_code")
                return replace(state, status="failed", error={"code": code, "message": error.message})
        return state

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
