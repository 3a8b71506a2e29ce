"""The tasks extension (`io.modelcontextprotocol/tasks`) as this client speaks it: declaration, and shapes of answers.

Every request of the modern era declares the extension. A server may then answer `tools/call` with a task instead of a
result: `BecameTask` carries it out of the SDK, which knows no tasks.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, NoReturn, Self, cast, get_args

from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp_types import Result
from pydantic import ConfigDict

from tidings._kit.bounded_json import as_dict, as_dict_or_none, as_float, as_text
from tidings.errors import MalformedMessage

EXTENSION: Final = "io.modelcontextprotocol/tasks"
NOTIFICATION: Final = "notifications/tasks"
Ask = Callable[..., Awaitable[dict[str, Any]]]  # Sends a request about one task: its method, and further parameters.
TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]
_STATUSES: Final = get_args(TaskStatus)
_FAULT: Final = "This is a fault of the server: tell its authors."


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

    def is_older_than(self, other: "TaskState") -> bool:
        """Returns whether the server made this statement before the other one, as far as it says so."""
        return self.updated_at is not None and other.updated_at is not None and self.updated_at < other.updated_at


class TaskForm:
    """The way in which an era looks at a task: here the extension's."""

    outlives_session: bool = True  # A later process can ask for it, and a stream may carry it.

    async def look(self, ask: Ask, wake: Callable[[], None]) -> TaskState:
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

    identifier = EXTENSION

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=CreatedTask, resolve=_became),)


async def _became(created: CreatedTask, _: ClaimContext) -> NoReturn:
    raise BecameTask(TaskState.parse(created.model_dump(by_alias=True, mode="json"), method="tools/call"))
