"""What happens to a client, as values in the past tense, and how they reach whoever listens.

`ResourceUpdated` is the change itself, the same type that the server published. Events are told in the order in which
things happened, synchronously: when a handler hears that a resource was updated, the old content is out of the cache.
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mcp_types import Prompt, Resource, ResourceTemplate, Tool

from tidings.changes import ResourceUpdated
from tidings.client.cache import PromptGet, ResourceRead, TemplateRead, ToolCall
from tidings.client.states import Signal, State
from tidings.errors import TidingsError

if TYPE_CHECKING:
    from tidings.client.pending import PendingRequest
    from tidings.client.queue import QueueEntry

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The connection went from one state to another."""

    old: State
    new: State
    signal: Signal
    error: TidingsError | None = None
    """Why, if something went wrong."""
    tries: int = 0
    """How many attempts have failed in a row."""
    next_retry: datetime | None = None
    """When the next attempt begins, if there will be one."""


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
    """A tool call ended, well or not."""

    tool_name: str
    call: ToolCall


@dataclass(frozen=True, slots=True)
class SubscriptionsChanged:
    """The set of subscriptions is another now."""

    uris: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscriptionFailed:
    """A subscription could not be established again; the resource's content is not kept current."""

    uri: str
    error: TidingsError


@dataclass(frozen=True, slots=True)
class ToolsChanged:
    """The server's tools were loaded, or could not be."""

    tools: tuple[Tool, ...]
    error: TidingsError | None = None


@dataclass(frozen=True, slots=True)
class ResourcesChanged:
    """The server's resources were loaded, or could not be."""

    resources: tuple[Resource, ...]
    error: TidingsError | None = None


@dataclass(frozen=True, slots=True)
class ResourceTemplatesChanged:
    """The server's resource templates were loaded, or could not be."""

    resource_templates: tuple[ResourceTemplate, ...]
    error: TidingsError | None = None


@dataclass(frozen=True, slots=True)
class PromptsChanged:
    """The server's prompts were loaded, or could not be."""

    prompts: tuple[Prompt, ...]
    error: TidingsError | None = None


@dataclass(frozen=True, slots=True)
class RefreshFailed:
    """A watched resource could not be read again."""

    uri: str
    error: TidingsError


@dataclass(frozen=True, slots=True)
class RequestChanged:
    """A request was queued, began, or ended: see its status."""

    entry: "QueueEntry"


@dataclass(frozen=True, slots=True)
class ProgressMade:
    """The server told how far it is with a request."""

    entry: "QueueEntry"
    progress: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class PendingAdded:
    """The server asks for something: `client.pending` has it."""

    request: "PendingRequest"


@dataclass(frozen=True, slots=True)
class PendingSettled:
    """What the server asked for was answered, refused, or is no longer wanted."""

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
    """The server says it gave up a request."""

    request_id: str | int | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class NotificationReceived:
    """The server sent a notification that none of the other events stands for."""

    method: str
    params: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class StderrReceived:
    """A server that runs as a command wrote a line to its error output."""

    line: str


@dataclass(frozen=True, slots=True)
class GarbageReceived:
    """The server sent something that is not a message. It was ignored."""

    text: str


@dataclass(frozen=True, slots=True)
class EventsMissed:
    """This reader was too slow: so many events before the next were dropped."""

    count: int


Event = (
    StateChanged
    | ResourceUpdated
    | ResourceContentChanged
    | ResourceTemplateContentChanged
    | PromptContentChanged
    | ToolCallResultChanged
    | SubscriptionsChanged
    | SubscriptionFailed
    | ToolsChanged
    | ResourcesChanged
    | ResourceTemplatesChanged
    | PromptsChanged
    | RefreshFailed
    | RequestChanged
    | ProgressMade
    | PendingAdded
    | PendingSettled
    | LogReceived
    | CancelledReceived
    | NotificationReceived
    | StderrReceived
    | GarbageReceived
    | EventsMissed
)

EventT = TypeVar("EventT")
Handler = Callable[[EventT], Any]


class EventHub:
    """Who listens to what. A handler that fails is logged, and reaches nobody else."""

    def __init__(self) -> None:
        self._handlers: dict[type[Any], list[Handler[Any]]] = {}
        self._everything: list[Handler[Any]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed: list[Callable[[], None]] = []
        """Called when the client is closed."""

    def on(self, kind: type[EventT], handler: Handler[EventT]) -> Callable[[], None]:
        """Call `handler` with each event of this kind, until the function that is returned is called."""
        handlers = self._handlers.setdefault(kind, [])
        handlers.append(handler)
        return lambda: handlers.remove(handler) if handler in handlers else None

    def wanted(self, kind: type[Any]) -> bool:
        """Whether anybody would hear of an event of this kind: those that come often need not be made for nobody."""
        return bool(self._everything or self._handlers.get(kind))

    def emit(self, event: Event) -> None:
        """Tell everyone who listens, now."""
        for handler in (*self._handlers.get(type(event), ()), *self._everything):
            try:
                outcome = handler(event)
                if inspect.iscoroutine(outcome):
                    self.start(outcome)
            except Exception:
                logger.exception("a handler for %s failed", type(event).__name__)

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Let something run that nobody waits for. If it fails, that is logged."""
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a handler of events failed", exc_info=error)

    async def stream(self, limit: int = 10_000) -> AsyncIterator[Event]:
        """Every event from now on, until the client is closed. At most `limit` wait for a slow reader; then the oldest
        go, which is said.
        """
        waiting: deque[Event] = deque()
        missed = 0
        wake, closed = asyncio.Event(), self._closed

        def hear(event: Event) -> None:
            nonlocal missed
            waiting.append(event)
            if len(waiting) > limit:
                waiting.popleft()
                missed += 1
            wake.set()

        self._everything.append(hear)
        closed.append(wake.set)
        try:
            while True:
                while waiting or missed:
                    if missed:
                        count, missed = missed, 0
                        yield EventsMissed(count)
                    else:
                        yield waiting.popleft()
                if closed is not self._closed:
                    return
                wake.clear()
                await wake.wait()
        finally:
            self._everything.remove(hear)
            closed.remove(wake.set)

    async def aclose(self) -> None:
        """Let handlers that are still at work go, and those who read all events come to an end."""
        closed, self._closed = self._closed, []
        for wake in closed:
            wake()
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*cast("list[Any]", tasks), return_exceptions=True)
