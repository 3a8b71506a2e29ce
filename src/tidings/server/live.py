"""`Live`: one server's wiring and life, from its start until it is drained; and the choice of the era.

`attach()` adds a `Live` to an existing server; a `LiveServer` has one from the start.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar, cast
from urllib.parse import unquote

import anyio
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ValidationError

from tidings._kit.tasks import Users
from tidings._kit.uvicorn_seam import worker_count
from tidings.bus import Bus, Records
from tidings.bus.memory import MemoryBus
from tidings.bus.streams import Retention
from tidings.changes import FEATURES, ResourcesListChanged, ResourceUpdated
from tidings.errors import TransportError
from tidings.server import legacy
from tidings.server.adapters import Adapter, answers_held_open, keep_alive_seconds
from tidings.server.borrowed_stream import BorrowedStream
from tidings.server.config import CoalesceSetting, Events, Waking
from tidings.server.core import Core, invalid_params, rpc_errors
from tidings.server.events.catalogue import ModelT
from tidings.server.events.extension import EventsExtension
from tidings.server.events.messages import METHODS, with_capability
from tidings.server.hooks import Hook, HookEvent
from tidings.server.http_exchange import ASGIApp
from tidings.server.legacy import LegacyEra
from tidings.server.modern import ModernEra, is_modern
from tidings.server.notify import EVENTS, REVOKED, TASKS, Notifier
from tidings.server.policy import RequestContext, SubscriptionPolicy
from tidings.server.sessions import SharedSessions
from tidings.server.stdio import serve_stdio
from tidings.server.stop import BUS, DRAIN, END, FLUSH, HOOKS, RunningCalls, StopBudget, StopSignals
from tidings.server.subscriber import Subscriber
from tidings.server.waking.changes import ChangesTool, Describe, HostChannel, Shows, shown_resources
from tidings.server.waking.extension import WakingExtension
from tidings.server.waking.running import TaskMode
from tidings.server.wrapper import LOOK_SECONDS, Borrowing, PassedRequests, SessionGate

logger = logging.getLogger(__name__)

HookT = TypeVar("HookT", bound=Hook)


# They check their parameters themselves, and end by themselves at a stop.
_SUBSCRIPTION_METHODS = METHODS | {"subscriptions/listen", "resources/subscribe", "resources/unsubscribe"}
_ENDS_AT_ONCE: Final = 200  # Streams that end before the web server writes their last bytes.


class Live:
    """Subscriptions and change notifications of one server, in both eras and on every transport."""

    def __init__(
        self,
        adapter: Adapter,
        policy: SubscriptionPolicy,
        *,
        bus: Bus | None,
        coalesce: CoalesceSetting,
        notifier: type[Notifier],
        waking: Waking | None,
        events: Events | None,
        shows: Shows = shown_resources,
    ) -> None:
        self._server = adapter.lowlevel
        self._bus = bus if bus is not None else MemoryBus()
        self._signals = StopSignals(self._begin_close)
        installed = partial(self._signals.install, only_if_handled=True)
        self._core = Core(self._bus, policy, coalesce=coalesce, on_unwrapped=installed, on_notice=self._hear_notice)
        records: Records | None = getattr(bus, "records", None)
        self._sessions = (
            None
            if bus is None or records is None  # A bus of its own, or one without records: no other replica has it.
            else SharedSessions(bus, records, idle=policy.limits.session_idle, position=lambda: self._core.position)
        )
        self._legacy = LegacyEra(self._core, self._server, self._sessions)
        self._waking_settings = waking
        ours = (self._middleware, self._admit_session)
        self._waking = None if waking is None else WakingExtension(self._core, adapter, waking, ours, shows)
        self._events = None if events is None else EventsExtension(self._core, adapter, events)
        self._extensions = [each for each in (self._waking, self._events) if each is not None]
        self._modern = ModernEra(self._core, self._server, self._waking)
        self._started = self._core.position, 0.0  # In the log, and when.
        self._calls = RunningCalls(self._core.broken_off)
        self._requests = PassedRequests(self._core.broken_off)
        self._users = Users(self._start, self._stop)
        self._unsubscribe: Callable[[], None] = lambda: None
        self._closing: asyncio.Task[None] | None = None
        self._budget: StopBudget
        self.notify: Notifier = notifier(self._core.hub, self._core.times)
        """Publishes changes, and lists the subscribers."""
        adapter.watch(self.notify.soon)
        server = self._server
        server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, self._modern.listen)
        server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, self._legacy.subscribe)
        server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, self._legacy.unsubscribe)
        server.middleware.append(self._middleware)
        server.middleware.insert(0, self._admit_session)
        theirs = server.lifespan

        @asynccontextmanager
        async def lifespan(server: Server[Any]) -> AsyncGenerator[Any]:
            async with self.running(), theirs(server) as state:
                try:
                    yield state
                finally:
                    # The last user leaves: tools that run as tasks use what the server's lifespan has.
                    with anyio.CancelScope(shield=True):
                        if self._waking is not None and self._users.count == 1:
                            await self._waking.running.end(StopBudget(asyncio.get_running_loop().time))

        server.lifespan = lifespan  # It runs as long as the server does.

    async def _admit_session(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        # Before all other middleware: the SDK keeps a session whose handshake was refused by any.
        if ctx.method == "initialize":
            self._legacy.admit(ctx)
        return await call_next(ctx)

    async def _middleware(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        if ctx.method in _SUBSCRIPTION_METHODS:
            try:
                return await call_next(ctx)
            except ValidationError as error:
                raise invalid_params(ctx.method, error) from error
        if ctx.request_id is None:
            result = await call_next(ctx)
        else:
            self._signals.install(only_if_handled=True)
            served = call_next if self._waking is None else partial(self._waking.serve, call_next=call_next)
            with rpc_errors(ctx):
                self._calls.check()
            result = await self._calls.run(ctx, served)
        if self._events is not None and ctx.method in ("initialize", "server/discover") and isinstance(result, dict):
            # The SDK drops what it does not know of the capabilities that a handler returns, so this comes after it.
            result = with_capability(result)
        if ctx.method == "initialize":
            answer = cast("dict[str, Any]", result)
            self._legacy.advertise(ctx, answer)
            await self._legacy.begin(ctx, answer)
        elif ctx.method == "logging/setLevel":
            await self._legacy.set_level(ctx)
        elif ctx.method == "notifications/initialized":
            self._legacy.initialized(ctx)
        return result

    def _hear_notice(self, uri: str | None) -> None:
        for extension in self._extensions:
            extension.noticed(uri)
        if uri is not None and uri.startswith(REVOKED):
            principal = unquote(uri.removeprefix(REVOKED))
            self._legacy.revoked(principal)
            self._core.revoked(principal)
        elif self._sessions is not None and (uri is None or not uri.startswith((TASKS, EVENTS))):
            self._sessions.noticed(uri)

    def on_first_subscriber(self, pattern: str) -> Callable[[HookT], HookT]:
        """Decorates a function to be called when a resource gets its first subscriber.

        The function is called with the variables of `pattern` (a URI, a prefix or a template), and with the subscribed
        URI if it has a parameter `uri`. It may be async. The subscription is acknowledged only after the call, so no
        change is missed that the function watches for. If the function raises, the subscription is refused. Only
        `ResourceNotFound`, `NotSubscribable` and `SourceUnavailable` of `tidings.errors` are shown to the subscriber. A
        prefix is passed unchanged: `feed://*` matches `feed://{id}` with `id="*"`.
        """
        return self._hook("on_first_subscriber", pattern)

    def on_last_subscriber(self, pattern: str) -> Callable[[HookT], HookT]:
        """Decorates a function to be called when a resource has lost its last subscriber.

        The function is also called when an `on_first_subscriber` function raised, to clean up after it.
        """
        return self._hook("on_last_subscriber", pattern)

    def _hook(self, event: HookEvent, pattern: str) -> Callable[[HookT], HookT]:
        if callable(pattern):  # The decorator was used without its parentheses.
            raise TypeError(f'{event} needs a URI, a prefix or a template: write @{event}("note://{{id}}")')

        def register(hook: HookT) -> HookT:
            self._core.hooks.add(event, pattern, hook)
            return hook

        return register

    def task(self, tool: str, mode: TaskMode = True) -> None:
        """Lets a tool run as a task for clients that declare the tasks extension. Other clients wait for its result.

        The call is answered immediately. The client polls for the result or listens for it, on any replica and even
        after a restart. `ctx.report_progress` sets the status message, and `ctx.elicit` asks the user a question.

        Args:
            tool: The name of the tool. With a `LiveServer`, use `tool(task=...)` instead.
            mode: "required" refuses clients without the extension; False makes it an ordinary tool again.

        Raises:
            ValueError: There is no such mode, or the mode is "required" and the server has no tasks (`waking=None`).
        """
        if mode not in (True, False, "required"):
            raise ValueError(f"task is True, False or 'required', not {mode!r}.")
        if self._waking is not None:
            self._waking.running.modes[tool] = mode
        elif mode == "required":
            raise ValueError(f"The tool {tool!r} has to run as a task, but this server has none: waking is None.")

    def event(
        self,
        name: str,
        *,
        description: str | None = None,
        arguments: type[BaseModel] | None = None,
        retention: Retention | None = None,
    ) -> Callable[[ModelT], ModelT]:
        """Decorates a pydantic model: the payload of a type of event, which `notify.event` publishes.

        Args:
            name: The name of the event, for example "order.created".
            description: Explains the event to models. By default, the docstring of the payload.
            arguments: A pydantic model of the arguments that select events. An argument that a subscriber gives must
                equal the payload's field of the same name, unless the model has a method `matches(payload) -> bool`.
            retention: The events that are kept. By default, `Events.retention`.

        With `authorize`, a subscriber needs permission for `event:NAME`, and for the resource that an event is `about`.

        Raises:
            ValueError: The name is not valid or already taken, or this server has no events (`events=None`).
        """
        if self._events is None:
            raise ValueError(f"The event {name!r} cannot be declared, because this server has none: events is None.")
        return self._events.declare(name, description=description, arguments=arguments, retention=retention)

    @property
    def trouble(self) -> str:
        """The reason why this process accepts no subscribers: it is stopping, or cannot reach its bus. Or empty."""
        return self._core.trouble

    def deliver_here(self, uris: Sequence[str], *, listed: bool = False) -> None:
        """Notifies only the subscribers of this process: the resources, or their list, changed only here."""
        for change in [*map(ResourceUpdated, uris), *([ResourcesListChanged()] if listed else [])]:
            self._core.deliver_here(change)

    def changes_tool(self, wanted: Callable[[str], bool], describe: Describe) -> Callable[..., Any]:
        return ChangesTool(self._core, lambda: self._started, wanted, describe).changes

    def also_serves(self, owns: Callable[[str], bool], names: Callable[[], list[str]]) -> None:
        """Allows subscriptions to the URIs and prefixes for which `owns` returns true. `names` lists the templates."""
        self._core.policy.also_serves(owns, names)

    def wrap(self, app: ASGIApp) -> ASGIApp:
        """Wraps an ASGI app of this server. Tidings then writes to its streams directly and loses no change."""
        shared = app if self._sessions is None else SessionGate(app, self._sessions)
        borrowing = Borrowing(shared, self, self._legacy, keep_alive_seconds())
        return borrowing if self._waking is None else self._waking.looks.wrap(borrowing)

    async def run_stdio_async(self) -> None:
        await serve_stdio(self._server, self.aclose)

    async def run_channel_async(
        self, channel: Sequence[str], describe: Describe, ready: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        """Serves over standard input and output, and sends changes to a host with channels: see `HostChannel`."""
        sending = HostChannel(self._core, self._waking_settings or Waking(), channel, describe, ready)
        self._server.middleware.append(sending.middleware)
        try:
            await serve_stdio(self._server, self.aclose, sending.run)
        finally:
            self._server.middleware.remove(sending.middleware)

    async def aclose(self) -> None:
        """Publishes changes that are held back, sends those that wait, and ends every stream with its result.

        This takes less than a second, because readers that do not read are cut off. Until the server runs again, new
        subscribers are refused and told to come back later. A second call has no effect.
        """
        await asyncio.shield(self._begin_close())

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keeps the server live. The SDK enters this once for an HTTP app, and once for each other connection."""
        await self._users.enter()
        try:
            yield
        finally:
            await self._users.leave()

    async def _start(self) -> None:
        await self._bus.__aenter__()
        self._closing = None
        self._calls.begin()
        self._requests.stopping = False
        self._unsubscribe = self._core.start()
        self._started = self._core.position, time.time()
        for extension in self._extensions:
            extension.start()
        if self._core.policy.asks or self._extensions:
            await self._core.seals.share_key()
        if self._sessions is not None:
            self._sessions.start()
        elif isinstance(self._bus, MemoryBus) and (count := worker_count()) > 1:
            logger.warning(
                "%d worker processes run this server, and each has a bus of its own: a change in one does not reach "
                "the subscribers of the others, and legacy sessions are not found. Give them one bus, for example "
                "LiveServer(bus='sqlite:///path/to/changes.db').",
                count,
            )
        if not getattr(self._bus, "lists_known", False) and (
            self._bus.head.version or not isinstance(self._bus, MemoryBus)
        ):
            # Clients from before a restart have a cursor, and the program may have other lists now. A log that outlives
            # the process may be empty: a cursor at its beginning is one, too.
            with suppress(TransportError):  # They are kept, which is logged.
                await asyncio.gather(*map(self._core.publish, FEATURES.values()))
        self.notify.start(self._core.publish, None if self._events is None else self._events.publish)

    async def _stop(self) -> None:
        broken_off = self._core.broken_off
        try:
            await self.aclose()
            self._signals.uninstall()
            self._unsubscribe()
            broken_off.add(await self._core.hooks.finish(self._budget.left(HOOKS)))
            await _at_most(self._budget.left(BUS), self._leave_bus(), "The bus takes too long to close")
        finally:  # After a second Ctrl-C, the event loop cancels all of the above.
            self._calls.break_off()
            self._requests.break_off()
            if self._waking is not None:
                self._waking.running.break_off()
            await broken_off.leave()

    async def _leave_bus(self) -> None:
        for extension in self._extensions:
            await extension.aclose()
        if self._sessions is not None:
            await self._sessions.aclose()
        await self._core.aclose()
        await self._bus.__aexit__(None, None, None)

    def _begin_close(self) -> asyncio.Task[None]:
        if self._closing is None:
            loop = asyncio.get_running_loop()
            self._budget = StopBudget(loop.time, len(self._core.hub))
            self._calls.begin_stop()
            self._requests.stopping = True
            self._closing = loop.create_task(self._close(self._budget))
        return self._closing

    async def _close(self, budget: StopBudget) -> None:
        core = self._core
        core.begin_stop()
        if self._waking is not None:
            self._waking.begin_stop()
        with answers_held_open():
            tasks = [] if self._waking is None else [self._waking.running.end(budget)]
            await asyncio.gather(self._calls.end(budget), *tasks)
        await _at_most(budget.left(FLUSH), self._flush(), "The bus does not accept the last changes")
        subscribers = tuple(core.hub)
        # Noted now: the SDK ends some streams by itself at a stop, and their rest has to be read, too.
        streams = [subscriber.stream for subscriber in subscribers if subscriber.stream is not None]
        busy = [subscriber for subscriber in subscribers if subscriber.busy]
        # Subscribers that have everything are released at once: a web server that stops may not wait for the others.
        for count, subscriber in enumerate(set(subscribers).difference(busy), 1):
            subscriber.end()
            if not count % _ENDS_AT_ONCE:
                await asyncio.sleep(0)

        async def end_drained(subscriber: Subscriber) -> None:
            await subscriber.drain()
            subscriber.end()

        try:
            async with asyncio.timeout(budget.left(DRAIN)):
                await asyncio.gather(*map(end_drained, busy))
        except TimeoutError:
            for subscriber in busy:
                if subscriber.busy:
                    stream = subscriber.stream
                    if core.policy.asks and subscriber.writing is not None:
                        core.broken_off.add([subscriber.writing])
                    subscriber.cut("the server stops, and it does not read")
                    if stream is not None:
                        stream.drop()  # The SDK may have ended it meanwhile, so that there was nothing to cut.
        await self._end(subscribers, streams, budget)
        await self._requests.end(budget.left(END))

    async def _flush(self) -> None:
        await self.notify.stop()
        self._core.flush()

    async def _end(
        self, subscribers: Sequence[Subscriber], streams: Sequence[BorrowedStream], budget: StopBudget
    ) -> None:
        for subscriber in subscribers:
            subscriber.end()
        try:
            async with asyncio.timeout(budget.left(END)):
                await self._core.streams_ended.wait()
                # No event reports that the system has taken the last bytes.
                while any(stream.unsent for stream in streams):  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            if subscribers:
                logger.warning("Some streams did not end in time, because their readers do not read.")
            # A web server that waits for these readers would wait for ever.
            for stream in streams:
                stream.drop()

    # For the wrapper: see `wrapper.Lender`

    def request_started(self) -> PassedRequests:
        self._signals.install(only_if_handled=True)
        return self._requests

    def stream_started(self, stream: BorrowedStream) -> None:
        self._signals.install(only_if_handled=True)
        stream.give_up_after(self._core.policy.limits.liveness)


async def _at_most(seconds: float, work: Coroutine[Any, Any, None], otherwise: str) -> None:
    """Waits at most `seconds` for `work`, which goes on by itself if it takes longer."""
    task = asyncio.get_running_loop().create_task(work)
    _, late = await asyncio.wait([task], timeout=seconds)
    if late:
        logger.warning("%s: stopping without it.", otherwise)
    else:
        task.result()


@contextmanager
def not_found_in_era(context: Context[Any, Any] | None, uri: str) -> Generator[None]:
    """Turns `ResourceNotFoundError` into the error of the client's era."""
    try:
        yield
    except ResourceNotFoundError as error:
        if context is None or is_modern(context.protocol_version):
            raise
        raise MCPError(legacy.RESOURCE_NOT_FOUND, str(error), {"uri": uri}) from error
