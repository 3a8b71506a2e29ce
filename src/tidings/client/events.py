"""The events of a client, named in the past tense, and `EventHub`, which delivers them.

`ResourceUpdated` is the change itself, of the type that the server published. Events are delivered synchronously, in
the order in which things happened: when a handler gets `ResourceUpdated`, the cache no longer has the old content.
"""

import inspect
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from mcp_types import Prompt, Resource, ResourceTemplate, Tool

from tidings._kit.tasks import Background, Wakeup
from tidings.changes import Change, ResourceUpdated
from tidings.client.cache import PromptGet, ResourceRead, TemplateRead, ToolCall
from tidings.client.config import Signal, State
from tidings.errors import TidingsError

if TYPE_CHECKING:
    from tidings.client.mirrors import Malformed
    from tidings.client.pending import PendingRequest
    from tidings.client.queue import QueueEntry
    from tidings.client.tasks import RemoteTask

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The connection went from one state to another."""

    old: State
    new: State
    signal: Signal
    error: TidingsError | None = None
    """The reason, if something went wrong."""
    tries: int = 0
    """The number of attempts that have failed in a row."""
    next_retry: datetime | None = None
    """The time of the next attempt, if there will be one."""


@dataclass(frozen=True, slots=True)
class ChangeReceived:
    """The server sent a notification of a change. This event comes before its effects, such as `ResourceUpdated`.

    It is sent for every such notification, even if nobody subscribed to the resource. Times are seconds since 1970.
    """

    change: Change
    received: float
    published: float | None = None
    """The time at which the server published the change, if the server says so."""
    source: float | None = None
    """The time at which the source of the resource changed, if the server says so."""
    cursor: str | None = None
    """The position in the server's log, if it has one."""
    unread: int = 0
    """The number of earlier changes to the same resource that have not been read yet."""


@dataclass(frozen=True, slots=True)
class ReadCompleted:
    """A resource was read, for the user or again after a change. Sent for every read that succeeds.

    `ResourceContentChanged` is sent only if there is something new.
    """

    read: ResourceRead
    entry: "QueueEntry"
    """The request, with its times."""
    change: ChangeReceived | None = None
    """The latest change before the read began, unless an earlier read already covered it."""
    changes: int = 0
    """The number of changes that this read is the first to cover."""


@dataclass(frozen=True, slots=True)
class ResourceContentChanged:
    """A resource was read."""

    uri: str
    read: ResourceRead


@dataclass(frozen=True, slots=True)
class ResourceTemplateContentChanged:
    """A resource was read through its template."""

    uri_template: str
    read: TemplateRead


@dataclass(frozen=True, slots=True)
class PromptContentChanged:
    """A prompt was fetched."""

    name: str
    prompt: PromptGet


@dataclass(frozen=True, slots=True)
class ToolCallResultChanged:
    """A tool call ended, successfully or not."""

    tool_name: str
    call: ToolCall


@dataclass(frozen=True, slots=True)
class SubscriptionsChanged:
    """The set of subscriptions changed."""

    uris: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangesMissed:
    """The stream of changes was interrupted, and the server cannot say which were missed. Everything is read again.

    This event is also sent when a lost connection is restored. If only the stream was lost, no `StateChanged` is sent.
    """


@dataclass(frozen=True, slots=True)
class SubscriptionFailed:
    """The server refused a subscription that it had accepted before, or one that `watch` needs. `watch` then polls."""

    uri: str
    error: TidingsError


@dataclass(frozen=True, slots=True)
class ToolsChanged:
    """The server's tools were loaded, or could not be loaded."""

    tools: tuple[Tool, ...]
    error: TidingsError | None = None


@dataclass(frozen=True, slots=True)
class ResourcesChanged:
    """The server's resources were loaded, or could not be loaded."""

    resources: tuple[Resource, ...]
    error: TidingsError | None = None


@dataclass(frozen=True, slots=True)
class ResourceTemplatesChanged:
    """The server's resource templates were loaded, or could not be loaded."""

    resource_templates: tuple[ResourceTemplate, ...]
    error: TidingsError | None = None


@dataclass(frozen=True, slots=True)
class PromptsChanged:
    """The server's prompts were loaded, or could not be loaded."""

    prompts: tuple[Prompt, ...]
    error: TidingsError | None = None


@dataclass(frozen=True, slots=True)
class ListLoaded:
    """A list was loaded, or could not be loaded. Follows the list's own event, such as `ToolsChanged`."""

    name: Literal["tools", "resources", "templates", "prompts"]
    items: tuple[Mapping[str, Any], ...]
    """The valid items, exactly as the server sent them."""
    malformed: "tuple[Malformed, ...]" = ()
    error: TidingsError | None = None


@dataclass(frozen=True, slots=True)
class RefreshFailed:
    """A resource that is kept current could not be read again."""

    uri: str
    error: TidingsError


@dataclass(frozen=True, slots=True)
class RequestChanged:
    """A request was queued, began, or ended: see its status."""

    entry: "QueueEntry"


@dataclass(frozen=True, slots=True)
class ProgressMade:
    """The server reported progress of a request."""

    entry: "QueueEntry"
    progress: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class TaskChanged:
    """A tool call became a task at the server, a task is followed again, or the server reports something new about it.

    Also sent when notifications of the task's changes begin or end.
    """

    task: "RemoteTask"


@dataclass(frozen=True, slots=True)
class PendingAdded:
    """The server asked for something. The question is in `client.pending`."""

    request: "PendingRequest"


@dataclass(frozen=True, slots=True)
class PendingSettled:
    """A question of the server was answered or refused, or is no longer open."""

    request: "PendingRequest"
    outcome: Any


@dataclass(frozen=True, slots=True)
class LogReceived:
    """The server sent a log message."""

    level: str
    data: Any
    logger: str | None = None


@dataclass(frozen=True, slots=True)
class CancelledReceived:
    """The server cancelled a request."""

    request_id: str | int | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class NotificationReceived:
    """The server sent a notification for which there is no other event."""

    method: str
    params: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class StderrReceived:
    """A server that runs as a command wrote a line to its standard error."""

    line: str


@dataclass(frozen=True, slots=True)
class GarbageReceived:
    """The server sent something that is not a message. It was ignored."""

    text: str


@dataclass(frozen=True, slots=True)
class EventsMissed:
    """This reader was too slow: the `count` events before the next one were dropped."""

    count: int


# fmt: off
Event = (
    StateChanged | LogReceived | CancelledReceived | NotificationReceived | StderrReceived | GarbageReceived
    | ChangeReceived | ChangesMissed | ResourceUpdated | ReadCompleted
    | SubscriptionsChanged | SubscriptionFailed | RefreshFailed
    | ResourceContentChanged | ResourceTemplateContentChanged | PromptContentChanged | ToolCallResultChanged
    | ToolsChanged | ResourcesChanged | ResourceTemplatesChanged | PromptsChanged | ListLoaded
    | RequestChanged | ProgressMade | TaskChanged | PendingAdded | PendingSettled | EventsMissed
)
# fmt: on

EventT = TypeVar("EventT")
Handler = Callable[[EventT], Any]


class EventHub:
    """Delivers events to handlers. If a handler raises, this is logged, and the other handlers still get the event."""

    def __init__(self) -> None:
        self._handlers: dict[type[Any], list[Handler[Any]]] = {}
        self._everything: list[Handler[Any]] = []
        self._background = Background()
        self.start = self._background.start  # Runs something in the background until `aclose`. A failure is logged.
        self._wakeup = Wakeup()
        self._closes = 0  # Times that it was closed.

    def on(self, kind: type[EventT], handler: Handler[EventT]) -> Callable[[], None]:
        handlers = self._handlers.setdefault(kind, [])
        handlers.append(handler)
        return lambda: handlers.remove(handler) if handler in handlers else None

    def wanted(self, kind: type[Any]) -> bool:
        """Returns whether events of this kind have a handler. Without one, frequent events need not be created."""
        return bool(self._everything or self._handlers.get(kind))

    def emit(self, event: Event) -> None:
        for handler in (*self._handlers.get(type(event), ()), *self._everything):
            try:
                outcome = handler(event)
                if inspect.iscoroutine(outcome):
                    self.start(outcome)
            except Exception:
                logger.exception("a handler for %s failed", type(event).__name__)

    async def stream(self, limit: int = 10_000) -> AsyncIterator[Event]:
        """Yields every event until the client is closed. If more than `limit` events wait, the oldest are dropped."""
        waiting: deque[Event] = deque(maxlen=limit)
        missed, closes = 0, self._closes

        def hear(event: Event) -> None:
            nonlocal missed
            missed += len(waiting) == limit
            waiting.append(event)
            self._wakeup()

        self._everything.append(hear)
        try:
            while True:
                while waiting or missed:
                    if missed:
                        count, missed = missed, 0
                        yield EventsMissed(count)
                    else:
                        yield waiting.popleft()
                if closes != self._closes:
                    return
                await self._wakeup.wait()
        finally:
            self._everything.remove(hear)

    async def aclose(self) -> None:
        self._closes += 1
        self._wakeup()
        self._background.cancel()
        await self._background.finished()
