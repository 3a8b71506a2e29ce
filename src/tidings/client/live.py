"""`LiveClient`: a client that stays current."""

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

import anyio
import mcp_types as types

from tidings._kit.backoff import is_number
from tidings.client.cache import Cache, PromptGet, ResourceRead, TemplateRead, ToolCall
from tidings.client.calls import StartedCall
from tidings.client.config import State
from tidings.client.events import Event, EventT, Handler
from tidings.client.link import Era
from tidings.client.mirrors import Malformed
from tidings.client.pending import Pending
from tidings.client.queue import QueueEntry, RequestQueue
from tidings.client.requests import OnProgress
from tidings.client.server_events import EventsTruncated, ServerEvent
from tidings.client.targets import CommandTarget, HttpTarget, ServerTarget
from tidings.client.tasks import RemoteTask
from tidings.client.watching import ChangeBatch, change_loop, check_watched
from tidings.errors import NotSupported, RequestTimedOut, TidingsError

if TYPE_CHECKING:
    from tidings.client.wiring import ClientWiring

YieldT = TypeVar("YieldT")


class LiveClient:
    """A client of one MCP server. You connect once, and your copy stays current.

    `tidings.connect` creates it. Use it with `async with`, or call `connect` and `aclose`.
    """

    def __init__(self, wiring: Any) -> None:  # A `ClientWiring`, which is no part of the public types.
        self._wiring: ClientWiring = wiring
        self._connection, self._calls = self._wiring.connection, self._wiring.calls
        self._subscriptions, self._lists = self._wiring.subscriptions, self._wiring.lists

    # The connection.

    @property
    def name(self) -> str:
        """The server's name, to show to people. It contains no secrets."""
        return self._wiring.name

    @property
    def state(self) -> State:
        """The state of the connection."""
        return self._connection.state

    @property
    def connected(self) -> bool:
        """True if the server answers, as far as the client knows."""
        return self._connection.connected

    @property
    def error(self) -> TidingsError | None:
        """The last failure of the connection. None once it is connected again."""
        return self._connection.error

    @property
    def tries(self) -> int:
        """The number of attempts to connect that have failed in a row."""
        return self._connection.tries

    @property
    def next_retry(self) -> datetime | None:
        """The time of the next automatic attempt to connect, if there will be one."""
        return self._connection.next_retry

    @property
    def transport(self) -> Literal["stdio", "http", "sse", "memory"]:
        """The transport. For a URL, the one that was last found to work."""
        match self._wiring.target:
            case HttpTarget(kind=kind):
                return "sse" if self._wiring.is_sse else kind or "http"
            case CommandTarget():
                return "stdio"
            case ServerTarget():
                return "memory"

    @property
    def pid(self) -> int | None:
        """The process id of a server that runs as a command, while it is connected."""
        link = self._connection.link
        return None if link is None else link.pid

    @property
    def protocol_version(self) -> str | None:
        """The protocol version that both sides last agreed on."""
        return self._wiring.server and self._wiring.server.protocol_version

    @property
    def era(self) -> Era | None:
        """The era of `protocol_version`: "modern" (2026-07-28 and later) or "legacy", which begins with a handshake."""
        return self._wiring.server and self._wiring.server.era

    @property
    def server_info(self) -> types.Implementation | None:
        """The name and version that the server states."""
        return self._wiring.server and self._wiring.server.info

    @property
    def capabilities(self) -> types.ServerCapabilities | None:
        """The capabilities that the server states."""
        return self._wiring.server and self._wiring.server.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's instructions for models."""
        return self._wiring.server and self._wiring.server.instructions

    async def __aenter__(self) -> Self:
        try:
            await self.connect()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def connect(self) -> None:
        """Connects, and loads the mirrored lists.

        Raises:
            TidingsError: All attempts failed.
        """
        await self._wiring.begin()

    async def reconnect(self) -> None:
        """Tries to connect again now, without waiting for the next attempt, or after the client gave up."""
        self._subscriptions.abandon(None)
        await self._connection.reconnect()

    async def disconnect(self) -> None:
        """Ends the connection on purpose. Waiting requests fail, and content and subscriptions are dropped."""
        await self._wiring.end(forget=True)

    async def aclose(self) -> None:
        """Ends the connection and closes the client. A `state` file keeps its content for the next process."""
        with anyio.CancelScope(shield=True):  # It takes a few seconds at most, and leaves nothing behind.
            await self._wiring.end()
            await self._wiring.events.aclose()
            if self._wiring.store is not None:
                await self._wiring.store.aclose()

    def on(self, kind: type[EventT], handler: Handler[EventT]) -> Callable[[], None]:
        """Calls `handler` with each event of this kind. Call the returned function to stop this.

        A handler may be async. If it raises, this is logged, and other handlers are not affected.
        """
        return self._wiring.events.on(kind, handler)

    @overload
    def events(self, *, limit: int = 10_000) -> AsyncIterator[Event]: ...

    @overload
    def events(
        self, name: str, *, arguments: Mapping[str, Any] | None = None, since: str | None = None
    ) -> AsyncGenerator[ServerEvent | EventsTruncated]: ...

    def events(
        self,
        name: str | None = None,
        *,
        arguments: Mapping[str, Any] | None = None,
        since: str | None = None,
        limit: int = 10_000,
    ) -> AsyncIterator[Any]:
        """Yields every event of this client until it is closed. With a name, yields events of the server (MCP Events).

        For events of the client, `EventsMissed` says that the loop was more than `limit` events behind.

        Events of the server come by stream or by polling, and continue after a lost connection. `EventsTruncated` says
        that some are lost. With `state`, a loop over the same name and arguments continues where the last one ended,
        even after a restart. An event counts as handled when the loop asks for the next one.

        Args:
            name: The name of an event of the server, for example "order.created".
            arguments: The arguments that select the events.
            since: The cursor of an event, to begin after it. Without `since` and `state`, the loop begins now.
            limit: The number of the client's events that may wait for the loop.

        Raises:
            EventNotFound: The server has no such event for this user.
            NotSupported: The server has no MCP Events.
            TidingsError: No more events will come, or `since` is not a cursor of this server.
        """
        if name is None:
            return self._wiring.events.stream(limit)
        return self._begun(self._wiring.server_events.follow(name, arguments or {}, since))

    @property
    def tools(self) -> list[types.Tool]:
        """The server's tools, as last loaded."""
        return list(self._lists.tools.items)

    @property
    def resources(self) -> list[types.Resource]:
        """The server's resources, as last loaded."""
        return list(self._lists.resources.items)

    @property
    def resource_templates(self) -> list[types.ResourceTemplate]:
        """The server's resource templates, as last loaded."""
        return list(self._lists.templates.items)

    @property
    def prompts(self) -> list[types.Prompt]:
        """The server's prompts, as last loaded."""
        return list(self._lists.prompts.items)

    @property
    def malformed(self) -> list[Malformed]:
        """Items of the lists that break the protocol, with the reason."""
        return [each for mirror in self._lists for each in mirror.malformed]

    async def list_tools(self) -> list[types.Tool]:
        """Loads all pages of the server's tools."""
        return list(await self._lists.tools.load())

    async def list_resources(self) -> list[types.Resource]:
        """Loads all pages of the server's resources."""
        return list(await self._lists.resources.load())

    async def list_resource_templates(self) -> list[types.ResourceTemplate]:
        """Loads all pages of the server's resource templates."""
        return list(await self._lists.templates.load())

    async def list_prompts(self) -> list[types.Prompt]:
        """Loads all pages of the server's prompts."""
        return list(await self._lists.prompts.load())

    # Requests.

    @property
    def queue(self) -> RequestQueue:
        """The requests that are waiting, running or ended."""
        return self._wiring.queue

    @property
    def pending(self) -> Pending:
        """The server's questions to the user that are not answered yet."""
        return self._wiring.pending

    @property
    def cache(self) -> Cache:
        """The latest result of each read, prompt and tool call: the same objects that the calls returned."""
        return self._wiring.cache

    async def read_resource(
        self,
        uri: str,
        metadata: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> ResourceRead:
        """Reads a resource. This always asks the server. `cache.get_resource` returns what was read last."""
        return await self._calls.read(uri, metadata, timeout)

    async def read_resource_from_template(
        self, uri_template: str, params: Mapping[str, str], metadata: Mapping[str, Any] | None = None
    ) -> TemplateRead:
        """Reads a resource by one of `resource_templates`, filled in with `params`."""
        return await self._calls.read_from_template(uri_template, params, metadata)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, Any] | None = None, metadata: Mapping[str, Any] | None = None
    ) -> PromptGet:
        """Gets a prompt, filled in by the server. Arguments that are not strings are sent as JSON."""
        return await self._calls.get_prompt(name, arguments, metadata)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - a limit that progress moves
        on_progress: OnProgress | None = None,
        idempotent: bool = False,
    ) -> ToolCall:
        """Calls a tool. A failure that the tool reports is in `result.is_error`. Others are raised, and also cached.

        If the connection is lost meanwhile, `idempotent` lets the client call again, even if the server does not say
        that this is safe.

        A server may run the tool as a task, which the client follows to its end, however long that takes. A `timeout`
        limits the time without a new status message. The task continues even after that: see `tasks`.

        Raises:
            EffectUnknown: The connection was lost meanwhile, and the tool is not marked as safe to call twice.
            TaskFailed: The tool ran as a task, which ended with an error.
            TaskCancelled: The task was cancelled, but not by this call.
            TaskLost: The server no longer knows the task.
            TidingsError: Anything else that went wrong.
        """
        call = self._calls.add(name, arguments, metadata, timeout, on_progress, idempotent=idempotent)
        return await self._calls.run(*call)

    @property
    def tasks(self) -> list[RemoteTask]:
        """The tool calls that run as tasks at the server, if this client does not have their outcome yet.

        With `state`, they include tasks that an earlier process began.
        """
        return self._wiring.tasks.known

    def task(self, task_id: str) -> RemoteTask:
        """Returns a task by its id, even if another client began it. Nothing is sent until you use the task."""
        return self._wiring.tasks.find(task_id)

    def start_call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        idempotent: bool = False,
    ) -> StartedCall:
        """Starts a tool call, and returns it immediately. Await it for what `call_tool` returns or raises."""
        call = self._calls.add(name, arguments, metadata, timeout, on_progress, idempotent=idempotent)
        return self._calls.start(*call)

    async def complete(
        self,
        ref: types.ResourceTemplateReference | types.PromptReference,
        argument: Mapping[str, str],
        context: Mapping[str, str] | None = None,
    ) -> types.CompleteResult:
        """Asks the server to complete an argument of a prompt or a resource template."""
        return await self._calls.complete(ref, argument, context)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - a limit that progress moves
        safe: bool = False,
        on_progress: OnProgress | None = None,
        started: Callable[[QueueEntry], None] | None = None,
        capabilities: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Sends any request through the queue, and returns its result unchanged: nothing is checked or cached.

        With `safe`, the request is sent again if the connection is lost meanwhile. `started` is called with its entry
        in `queue`. In the modern era, the request states `capabilities` instead of the client's own.

        Raises:
            EffectUnknown: The connection was lost meanwhile, and `safe` was not given.
            TidingsError: Anything else that went wrong.
            ValueError: The request cannot be sent: `params` is not JSON, or `method` is that of a notification.
        """
        more: Any = {"on_progress": on_progress, "started": started, "capabilities": capabilities}
        return await self._calls.request(method, params, timeout, safe=safe, **more)

    async def send_notification(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Sends any notification. Raises a `TidingsError` if there is no connection."""
        await (await self._connection.ready()).notify_raw(method, dict(params or {}))

    async def ping(self) -> float:
        """Asks the server, outside the queue, whether it is there. Returns the seconds that the answer took.

        Raises:
            RequestTimedOut: There was no answer within `Timeouts.ping`.
            TidingsError: Anything else that went wrong.
        """
        return await self._calls.ping(lambda: self._wiring.feed().ping())

    def cancel(self, request_id: str) -> bool:
        """Cancels a request that waits or runs, by its id in `queue`. Returns False if it has already ended."""
        return self.queue.cancel(request_id)

    async def set_log_level(self, level: types.LoggingLevel) -> None:
        """Asks the server for log messages of this level and above, on this and later connections."""
        await self._wiring.set_log_level(level)

    # Subscriptions.

    @property
    def supports_subscriptions(self) -> bool:
        """True if the connected server offers subscriptions to resources."""
        return self._subscriptions.supported

    @property
    def subscriptions(self) -> list[str]:
        """The established subscriptions: URIs, and prefixes that end in `*`."""
        return list(self._subscriptions)

    def is_subscribed(self, uri: str) -> bool:
        """Returns whether `uri` is one of `subscriptions`."""
        return uri in self._subscriptions

    def is_fresh(self, uri: str) -> bool:
        """Returns whether the copy in the cache is known to be current."""
        return self.connected and self._subscriptions.is_fresh(uri)

    async def subscribe(self, uris: str | Sequence[str], *, refresh: bool = False) -> None:
        """Subscribes to resources. A string that ends in `*` is a prefix: it stands for all URIs that begin with it.

        Subscriptions last until `unsubscribe` or `disconnect`, even if the connection is lost meanwhile. An update
        drops the cached content, and is announced as `ResourceUpdated`.

        Args:
            uris: One URI or prefix, or several.
            refresh: Read each resource now and after each change. Resources that a prefix covers are read only after a
                change. Each read is announced as `ResourceContentChanged` or `RefreshFailed`.

        Raises:
            NotSupported: The server offers no subscriptions. (`watch` works anyway: it polls.)
            RequestTimedOut: No connection lasted long enough to establish the subscriptions.
            TidingsError: The server refused one of the subscriptions. The others are established.
        """
        seconds = self._wiring.config.timeouts.total
        try:
            async with asyncio.timeout(seconds):
                await self._connection.ready()
                if not self._subscriptions.supported:
                    text = f"{self.name} offers no subscriptions to resources. Use `watch`, which polls."
                    raise NotSupported(text, server=self.name, method="resources/subscribe")
                await self._subscriptions.add([uris] if isinstance(uris, str) else uris, refresh=refresh)
        except TimeoutError:
            cure = "Give it longer with Timeouts(total=...)."
            text = f"{self.name} accepted no subscription within {seconds:g} s. {cure}"
            raise RequestTimedOut(text, server=self.name, method="resources/subscribe", elapsed=seconds) from None

    async def unsubscribe(self, uris: str | Sequence[str]) -> None:
        """Ends subscriptions. URIs without a subscription are ignored."""
        await self._subscriptions.remove([uris] if isinstance(uris, str) else uris)

    def watch(
        self, uris: str | Sequence[str], *, missing: Literal["raise", "wait"] = "raise"
    ) -> AsyncGenerator[ResourceRead]:
        """Yields the content of each resource now, and again whenever it is different.

        A resource that disappears does not end the loop. When it is back, its content is yielded if it is different.

        Args:
            uris: One URI or several.
            missing: If none of them exists at the beginning, "wait" for one to appear, or "raise" an error.

        Raises:
            InvalidUri: One of them is not a URI.
            ResourceNotFound: None of them exists at the beginning.
            TidingsError: No more content will come: one of them cannot be read, or the client gave up connecting.
        """
        return self._begun(self._subscriptions.watches.watch(*check_watched(uris, missing)))

    def changes(
        self,
        uris: str | Sequence[str],
        *,
        at_most_every: float = 1.0,
        name: str = "",
        first: bool = False,
        missing: Literal["raise", "wait"] = "raise",
    ) -> AsyncGenerator[ChangeBatch]:
        """Yields what changed since the last time, in batches: for agents, which need a turn for each batch.

        Each change has the URI, the new text, and the difference from what was yielded before. Changes that follow each
        other quickly may be merged, but the last one is always yielded. A batch counts as handled when the loop asks
        for the next one; otherwise the next loop gets it again. With `state`, this holds across restarts.

        Args:
            uris: One URI or several.
            at_most_every: The minimum number of seconds from one batch to the next.
            name: Tells loops apart. What was yielded is recorded for each name separately.
            first: Also yield the content of resources that are new to the loop. Otherwise, only later changes.
            missing: As for `watch`.

        Raises:
            InvalidUri: One of them is not a URI.
            ResourceNotFound: None of them exists at the beginning, and none did in earlier runs of this loop.
            TidingsError: No more changes will come: one of them cannot be read, or the client gave up connecting.
        """
        watched, patient = check_watched(uris, missing)
        if not watched:
            raise ValueError("changes() needs one URI or several, and got none")
        if not is_number(at_most_every) or not 0 <= at_most_every < math.inf:
            raise ValueError(f"at_most_every= is a number of seconds that is not negative, not {at_most_every!r}")
        loop = change_loop(
            self._subscriptions.watches,
            self._wiring.handed_out,
            watched,
            name=name,
            at_most_every=at_most_every,
            first=first,
            patient=patient,
        )
        return self._begun(loop)

    async def _begun(self, loop: AsyncGenerator[YieldT]) -> AsyncGenerator[YieldT]:
        self._connection.check()  # When the loop begins, not when it is made.
        async with contextlib.aclosing(loop):
            async for each in loop:
                yield each

    async def wait_fresh(self) -> None:
        """Waits until everything that is subscribed to, watched or mirrored is known to be current.

        The client asks the server whether it is there: one that died a moment ago could not have announced a change.
        Changes that arrive before the answer are read first, such as those that came while this process was suspended.

        Raises:
            TidingsError: This will not happen, because the client gave up connecting or was disconnected.
        """
        await self._wiring.until_fresh()
