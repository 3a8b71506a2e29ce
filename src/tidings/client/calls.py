"""Reads, prompts and tool calls: always fetched, then cached, then announced as an event."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, TypeVar, cast

import anyio
from mcp.shared.exceptions import MCPError
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate
from mcp_types import CallToolResult, CompleteResult, PromptReference, ReadResourceResult, ResourceTemplateReference
from pydantic_core import to_json

from tidings._kit.suggest import did_you_mean, there_are
from tidings._kit.tasks import Wakeup
from tidings._kit.telemetry import measure
from tidings.changes import ResourceUpdated, check_uri
from tidings.client import events
from tidings.client.cache import ContentCache, PromptGet, ResourceRead, TemplateRead, ToolCall, digest
from tidings.client.failures import AWAY, FAULT, is_broken_off
from tidings.client.link import Link
from tidings.client.mirrors import Lists
from tidings.client.pending import PendingRequest
from tidings.client.queue import QueueEntry, RequestQueue, Status
from tidings.client.requests import OnProgress, Requests
from tidings.client.subscriptions import Subscriptions
from tidings.client.task_wire import BecameTask, LegacyForm, TaskForm, begin_task, demands_task
from tidings.client.tasks import RemoteTask, Tasks
from tidings.errors import MalformedMessage, RequestCancelled, ResourceNotFound, TidingsError

ValueT = TypeVar("ValueT")
Metadata = Mapping[str, Any]
MakeCall = Callable[[], Coroutine[Any, Any, ToolCall]]
_MOST_UNREAD: Final = 10_000
_ENDING_SECONDS: Final = 1.0


class UnreadChanges:
    """The changes of resources that no read has followed yet: for each, the latest and their number."""

    def __init__(self) -> None:
        self._changes: dict[str, tuple[events.ChangeReceived, int]] = {}

    def add(self, received: events.ChangeReceived) -> events.ChangeReceived:
        """Counts a change, and returns it with the number of those before it."""
        if not isinstance(received.change, ResourceUpdated):
            return received
        uri = received.change.uri
        _, number = self._changes.pop(uri, (None, 0))
        received = replace(received, unread=number)
        self._changes[uri] = received, number + 1
        if len(self._changes) > _MOST_UNREAD:
            del self._changes[next(iter(self._changes))]
        return received

    def take(self, uri: str) -> tuple[events.ChangeReceived | None, int]:
        """Returns the latest change and their number: a read begins."""
        return self._changes.pop(uri, (None, 0))

    def put_back(self, uri: str, change: events.ChangeReceived | None, number: int) -> None:
        """Undoes `take`: the read failed."""
        if change is not None:
            latest, more = self._changes.pop(uri, (change, 0))
            self._changes[uri] = latest, number + more


@dataclass(eq=False, repr=False)
class StartedCall(Awaitable[ToolCall]):
    """A tool call that was started with `client.start_call`. Await it to get its result, or to raise its error.

    If an asyncio task is cancelled while it awaits the call, the call is cancelled, too. A call that nobody awaits
    continues until it ends or the client is closed.
    """

    entry: QueueEntry
    """The call in `client.queue`."""
    _task: asyncio.Future[ToolCall]
    _queue: RequestQueue
    _events: events.EventHub

    @property
    def id(self) -> str:
        """The id of the call in `client.queue`."""
        return self.entry.id

    @property
    def task(self) -> RemoteTask | None:
        """The task that the call has become at the server. None if it is not a task, or not yet."""
        return self.entry.task

    @property
    def state(self) -> Status | Literal["waiting", "sent", "working", "asking"]:
        """The state of the call: a final `Status`, or one of the following.

        "waiting" for its turn or for a connection; "sent"; "working" as a task at the server; "asking" the user.
        """
        if self.entry.over:
            return self.entry.status
        if any(question.outcome is None for question in self.entry.questions):
            return "asking"
        if self.task is not None:
            return "working"
        return "sent" if self.entry.is_sent and not self.entry.held_back else "waiting"

    @property
    def progress(self) -> events.ProgressMade | None:
        """The last progress that the server reported."""
        return self.entry.progress

    @property
    def questions(self) -> list[PendingRequest]:
        """The questions to the user that the call is known to have caused: oldest first, answered ones included."""
        return list(self.entry.questions)

    def cancel(self) -> bool:
        """Cancels the call. Awaiting it then raises `RequestCancelled`. Returns False if the call has already ended.

        If the call has become a task, the server is asked to cancel the task.
        """
        return self._queue.cancel(self.id)

    async def follow(self) -> AsyncGenerator[events.ProgressMade]:
        """Yields the latest progress, then each further step until the call ends. A slow loop skips some.

        Each status message of a task counts as one step of progress.
        """
        seen, wakeup = None, Wakeup()
        forget = self._events.on(events.ProgressMade, lambda _: wakeup())
        self._task.add_done_callback(lambda _: wakeup())
        try:
            while self.progress is not seen or not self._task.done():
                if self.progress is seen:
                    await wakeup.wait()
                elif (seen := self.progress) is not None:
                    yield seen
        finally:
            forget()

    def __await__(self) -> Generator[Any, None, ToolCall]:
        return self._result().__await__()

    async def _result(self) -> ToolCall:
        try:
            await asyncio.wait((self._task,))
        except asyncio.CancelledError:
            self._task.cancel()
            with anyio.CancelScope(shield=True):  # The server is told. Cancelling again would prevent that.
                await asyncio.wait((self._task,))
            raise
        if self._task.cancelled():
            raise RequestCancelled("A task that awaited this call was cancelled.", method=self.entry.method)
        return self._task.result()


@dataclass(eq=False, repr=False)
class Calls:
    """The calls of one client."""

    requests: Requests
    subscriptions: Subscriptions
    lists: Lists
    cache: ContentCache
    events: events.EventHub
    tasks: Tasks

    def __post_init__(self) -> None:
        self.unread = UnreadChanges()
        self._running: dict[asyncio.Future[ToolCall], StartedCall] = {}

    async def read(self, uri: str, metadata: Metadata | None, seconds: float | None = None) -> ResourceRead:
        read, generation, entry = await self._read(check_uri(uri), metadata, aside=False, seconds=seconds)
        if entry.asked_user or self._differs(read):
            self.cache.clear_resource_and_resource_template(uri)  # No older read may pass for the last one.
        if not entry.asked_user:
            self.subscriptions.has_read(read, generation)
        self.events.emit(events.ResourceContentChanged(uri, read))
        return read

    async def refresh(self, uri: str) -> ResourceRead:
        """Reads a resource again, outside the queue. Announced only if it differs from before."""
        measure("tidings.client.rereads")
        read, generation, entry = await self._read(uri, None, aside=True)
        changed = self._differs(read)
        if changed:  # Nothing announced it, for example because there was no connection.
            self.cache.clear_resource_and_resource_template(uri)
        is_new = self.cache.peek(uri) is None
        if not self.subscriptions.has_read(read, generation, keep=not entry.asked_user):
            # It changed again, and will be read again. If it keeps changing, watchers must not wait for the end.
            self.subscriptions.pass_on(read)
        elif is_new:
            if changed:
                self.events.emit(ResourceUpdated(uri))
            self.events.emit(events.ResourceContentChanged(uri, read))
        return read

    def _differs(self, read: ResourceRead) -> bool:
        """Returns whether the cache has a copy with other content, read by URI or through a template."""
        return any(digest(copy.result) != read.digest for copy in self.cache.copies(read.uri))

    async def _read(
        self, uri: str, metadata: Metadata | None, *, aside: bool, seconds: float | None = None
    ) -> tuple[ResourceRead, int, QueueEntry]:
        generation = 0
        meta: Any = _sendable("metadata", metadata)
        change: events.ChangeReceived | None = None
        changes = 0

        def send(link: Link, _: QueueEntry) -> Awaitable[ReadResourceResult]:
            nonlocal generation, change, changes
            generation = self.subscriptions.generation(uri)
            latest, more = self.unread.take(uri)
            change, changes = latest or change, changes + more
            return link.client.read_resource(uri, meta=meta)

        try:
            entry = self.requests.queue.add("resources/read", {"uri": uri}, aside=aside)
            result = await self.requests.run(entry, send, safe=True, timeout=seconds)
        except BaseException as error:
            self.unread.put_back(uri, change, changes)
            if isinstance(error, ResourceNotFound) and self.cache.copies(uri):
                self.cache.clear_resource_and_resource_template(uri)
                self.events.emit(ResourceUpdated(uri))
            raise
        read = ResourceRead(uri, result, metadata=metadata)
        self.events.emit(events.ReadCompleted(read, entry, change, changes))
        return read, generation, entry

    async def read_from_template(
        self, uri_template: str, params: Mapping[str, str], metadata: Metadata | None
    ) -> TemplateRead:
        known = [template.uri_template for template in self.lists.templates.items]
        if uri_template not in known:
            known = [template.uri_template for template in await self.lists.templates.load()]
        if uri_template not in known:
            text = f"The server has no resource template {uri_template!r}; it has {', '.join(known) or 'none'}."
            raise ResourceNotFound(text)
        try:
            template = UriTemplate.parse(uri_template)
        except InvalidUriTemplate as error:
            text = f"The server's resource template {uri_template!r} is not valid ({error})."
            raise MalformedMessage(f"{text} {FAULT}") from None
        # The URI without a variable is that of another resource, unless it belongs to the query or the fragment.
        needed = {each.name: each.operator not in ("?", "&", ";", "#") for each in template.variables}
        if unknown := [name for name in params if name not in needed]:
            meant = did_you_mean(unknown[0], needed) or there_are(needed)
            raise ValueError(f"The resource template {uri_template!r} has no variable {unknown[0]!r}.{meant}")
        if missing := [name for name, is_needed in needed.items() if is_needed and name not in params]:
            raise ValueError(f"The resource template {uri_template!r} needs a value for {missing[0]!r}.")
        uri = template.expand(dict(params))
        read = await self.read(uri, metadata)
        filled = TemplateRead(uri_template, uri, dict(params), read.result, read.timestamp, metadata)
        self.cache.replace(filled, keep=self.cache.peek(uri) is read)
        self.events.emit(events.ResourceTemplateContentChanged(uri_template, filled))
        return filled

    async def get_prompt(self, name: str, arguments: Metadata | None, metadata: Metadata | None) -> PromptGet:
        _sendable("name", {name: None})
        pairs = (arguments or {}).items()
        given = {key: value if isinstance(value, str) else json.dumps(value) for key, value in pairs}
        texts = None if arguments is None else _sendable("arguments", given)
        meta: Any = _sendable("metadata", metadata)
        entry = self.requests.queue.add("prompts/get", {"name": name, "arguments": texts or {}})
        result = await self.requests.run(
            entry, lambda link, _: link.client.get_prompt(name, texts, meta=meta), safe=True
        )
        prompt = PromptGet(name, result, texts, metadata=metadata)
        self.cache.replace(prompt, keep=not entry.asked_user)
        self.events.emit(events.PromptContentChanged(name, prompt))
        return prompt

    def add(
        self,
        name: str,
        arguments: Metadata | None,
        metadata: Metadata | None,
        seconds: float | None,
        on_progress: OnProgress | None,
        *,
        idempotent: bool,
    ) -> tuple[QueueEntry, MakeCall]:
        """Queues a tool call. Pass what it returns to `run` or `start`."""
        _sendable("name", {name: None})
        params = _sendable("arguments", arguments) or {}
        meta: Any = _sendable("metadata", metadata)
        tool = next((tool for tool in self.lists.tools.items if tool.name == name), None)
        hints = None if tool is None else tool.annotations
        is_safe = hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)
        entry = self.requests.queue.add("tools/call", {"name": name, "arguments": params})

        async def send(link: Link, _: QueueEntry) -> CallToolResult | RemoteTask:
            try:
                if not (link.config.tasks and demands_task(link, tool)):
                    return await link.client.call_tool(name, params, meta=meta)
                state, form = await begin_task(link, name, params, meta), LegacyForm()
            except BecameTask as became:
                state, form = became.state, TaskForm()
            return self.tasks.new(state, name, params, form)

        run = partial(self.requests.run, entry, send, safe=idempotent or is_safe, on_progress=on_progress)
        return entry, partial(self._made, entry, run, partial(ToolCall, name, params, metadata=metadata), seconds)

    async def run(self, entry: QueueEntry, make_call: MakeCall) -> ToolCall:
        """Makes a call in the task of the caller. In a task of its own, it would take three more turns of the loop."""
        outcome: asyncio.Future[ToolCall] = asyncio.get_running_loop().create_future()
        self._running[outcome] = StartedCall(entry, outcome, self.requests.queue, self.events)
        try:
            made = await make_call()
            if not outcome.done():
                outcome.set_result(made)
        except Exception as error:
            if entry.task is not None and not outcome.done():  # Others may await the task that it has become.
                outcome.set_exception(error)
                outcome.exception()
            raise
        finally:
            outcome.cancel()
            del self._running[outcome]
        return made

    def start(self, entry: QueueEntry, make_call: MakeCall) -> StartedCall:
        def over(task: asyncio.Task[ToolCall]) -> None:
            del self._running[task]
            if task.cancelled() or task.exception():  # Retrieved, because nobody may await the call.
                self.requests.queue.end(entry, asyncio.CancelledError())

        task = asyncio.get_running_loop().create_task(make_call(), name=f"tidings call of {entry.name}")
        self._running[task] = started = StartedCall(entry, task, self.requests.queue, self.events)
        task.add_done_callback(over)
        return started

    def resume(self, task: RemoteTask, on_progress: OnProgress | None = None) -> StartedCall:
        """Follows a task to its end, as the call that began it would."""
        if task.call is not None and not task.call.entry.over:
            return task.call
        params = {"taskId": task.id}
        if task.tool is not None:
            params = {"name": task.tool, "arguments": task.arguments}
        entry = self.requests.queue.add("tools/call", params, aside=True)
        entry.aside = False  # It is a call of the user's, and only bypasses the queue.

        async def known(_link: Link, _entry: QueueEntry) -> CallToolResult | RemoteTask:
            return task

        run = partial(self.requests.run, entry, known, safe=True, on_progress=on_progress)
        make = partial(ToolCall, task.tool or "")
        task.call = self.start(entry, partial(self._made, entry, run, partial(make, task.arguments or {})))
        return task.call

    async def _made(
        self, entry: QueueEntry, run: Callable[..., Awaitable[Any]], make: Callable[..., ToolCall], seconds: Any = None
    ) -> ToolCall:
        async def finish(answer: CallToolResult | RemoteTask) -> CallToolResult | RemoteTask:
            if isinstance(answer, CallToolResult):
                return answer
            future, answer.call = next(each for each in self._running.items() if each[1].entry is entry)
            future.add_done_callback(lambda _: self.requests.queue.cancel(entry.id))  # Another awaits it, and ends.
            return await self.tasks.finish(answer, entry, seconds)

        try:
            result = await run(timeout=seconds, finish=finish)
        except TidingsError as error:
            self._called(make(result=None, success=False, error=error.message))
            raise
        made = make(result=result, success=True)
        self._called(made, keep=not entry.asked_user)
        return made

    async def ended(self) -> None:
        """Waits for calls that the queue has rejected. Not for long: a responder may call this, and its call waits."""
        if self._running:
            await asyncio.wait(self._running, timeout=_ENDING_SECONDS)

    def _called(self, call: ToolCall, *, keep: bool = True) -> None:
        if call.tool_name:  # Otherwise it is the outcome of a task whose tool is not known.
            self.cache.replace(call, keep=keep)
            self.events.emit(events.ToolCallResultChanged(call.tool_name, call))

    async def request(
        self,
        method: str,
        params: Metadata | None,
        seconds: float | None,
        *,
        safe: bool,
        on_progress: OnProgress | None = None,
        started: Callable[[QueueEntry], None] | None = None,
        capabilities: Metadata | None = None,
    ) -> dict[str, Any]:
        if method.startswith("notifications/"):
            raise ValueError(f"{method} is a notification, which has no answer. Send a request.")
        _sendable("method", {method: None})
        given = _sendable("params", params) or {}
        entry = self.requests.queue.add(method, given)
        if started is not None:
            started(entry)

        async def send(link: Link, _: QueueEntry) -> dict[str, Any]:
            # Copies of what the session adds to: its version of the protocol needs more in `_meta`.
            params = {**given, "_meta": dict(given["_meta"])} if "_meta" in given else dict(given)
            return await link.send_raw(method, params, capabilities=capabilities)

        return await self.requests.run(entry, send, safe=safe, timeout=seconds, on_progress=on_progress)

    async def ping(self, ask: Callable[[], Awaitable[None]]) -> float:
        """Returns the seconds that the server takes to answer. An error is an answer, too."""

        async def send(_link: Link, entry: QueueEntry) -> float:
            began = time.perf_counter()
            try:
                await ask()
            except MCPError as error:
                if is_broken_off(error) or entry.http_status in AWAY:
                    raise
            return time.perf_counter() - began

        entry = self.requests.queue.add("ping", {}, aside=True)
        return await self.requests.run(entry, send, safe=True, timeout=self.requests.timeouts.ping)

    async def complete(
        self,
        ref: ResourceTemplateReference | PromptReference,
        argument: Mapping[str, str],
        context: Mapping[str, str] | None,
    ) -> CompleteResult:
        given, known = _sendable("argument", argument) or {}, _sendable("context", context)
        if not all(isinstance(given.get(key), str) for key in ("name", "value")):
            raise ValueError(f"The argument to complete needs a name and a value, both strings, not {given!r}")
        entry = self.requests.queue.add("completion/complete", {"argument": given})
        return await self.requests.run(entry, lambda link, _: link.client.complete(ref, given, known), safe=True)


def _sendable(what: str, values: Mapping[str, ValueT] | None) -> dict[str, ValueT] | None:
    """Returns a copy of `values` if it is JSON: a mistake of the caller must not cost the connection."""
    if values is None:
        return None
    given = dict(values)
    try:
        to_json(given)
    except ValueError as error:
        raise ValueError(f"The {what} cannot be sent as JSON: {error}") from None
    for name in cast("dict[object, ValueT]", given):
        if not isinstance(name, str):
            raise ValueError(f"The {what} must have strings for names, not {name!r}")  # noqa: TRY004 - a value of a mapping
    return given
