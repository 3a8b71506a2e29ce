"""`connect()` and `LiveClient`: a client that stays fresh."""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from mcp_types import (
    CompleteResult,
    Implementation,
    LoggingLevel,
    Prompt,
    PromptReference,
    Resource,
    ResourceTemplate,
    ResourceTemplateReference,
    ServerCapabilities,
    Tool,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tidings.client.cache import Cache, ContentCache, Kind
from tidings.client.calls import Calls
from tidings.client.config import ClientConfig
from tidings.client.connection import Connection
from tidings.client.events import (
    Event,
    Events,
    EventT,
    GarbageReceived,
    Handler,
    PendingAdded,
    PendingSettled,
    RefreshFailed,
    RequestChanged,
    StderrReceived,
)
from tidings.client.feed import Feed
from tidings.client.invocations import Invocation, PromptGet, ResourceRead, TemplateRead, ToolCall
from tidings.client.legacy import LegacyFeed
from tidings.client.link import Link
from tidings.client.lists import Lists
from tidings.client.mirrors import Malformed
from tidings.client.modern import ModernFeed
from tidings.client.notices import notice
from tidings.client.pending import Pending, PendingRequest, Responder
from tidings.client.pulse import Pulse
from tidings.client.queue import QueueEntry, RequestQueue
from tidings.client.refresh import Refresher
from tidings.client.requests import OnProgress, Requests
from tidings.client.responders import roots_responder
from tidings.client.sdk import Setup
from tidings.client.states import State
from tidings.client.store import StateFile
from tidings.client.subscriptions import Subscriptions
from tidings.client.tapping import Teller
from tidings.client.targets import CommandTarget, HttpTarget, ServerTarget, Target
from tidings.client.transports import current_call, fallback_to_sse
from tidings.client.watching import check_watched
from tidings.client.wire import Tap
from tidings.errors import (
    ConnectionLost,
    Disconnected,
    NotSupported,
    RequestTimedOut,
    ResourceNotFound,
    TidingsError,
)

logger = logging.getLogger(__name__)


class LiveClient:
    """A client of one MCP server: connect once, and your copy stays fresh.

    Made by `tidings.connect`. Use it with `async with`, or call `connect` and `aclose`.
    """

    def __init__(
        self,
        target: Target,
        *,
        era: str = "auto",
        config: ClientConfig | None = None,
        state: Path | None = None,
        answer: Responder | None = None,
        roots: Responder | None = None,
        log_level: LoggingLevel | None = None,
        tap: Tap | None = None,
    ) -> None:
        self._target = target
        self._config = config = config or ClientConfig()
        self._events = Events()
        self._pulse = Pulse()
        self._held: dict[str, list[QueueEntry]] = {}
        self._feed: Feed | None = None
        self._last_server: tuple[str, Implementation | None, ServerCapabilities, str | None] | None = None
        self._sse = False
        self._restored = False
        self._log_level: LoggingLevel | None = log_level
        identity = hashlib.sha256(target.identity.encode()).hexdigest()
        self._store = None if state is None else StateFile(state, identity)
        self._cache = ContentCache(config.cache, held=self._is_held, on_change=self._cache_changed)
        self.queue = RequestQueue(
            concurrency=config.concurrency, history=config.history, on_change=self._request_changed
        )
        """The requests that wait, run and ended."""
        self.pending = Pending(
            server=target.name,
            responder=answer,
            roots=roots,
            timeout=config.timeouts.answer,
            on_added=self._asked,
            on_settled=self._answered,
        )
        """What the server asks of the user, and is not answered yet."""
        self._setup = Setup(
            target,
            config,
            era=era,
            log_level=log_level,
            sampling=None if answer is None else self.pending.sampling,
            elicitation=None if answer is None else self.pending.elicitation,
            roots=None if answer is None and roots is None else self.pending.roots,
            on_stderr=lambda line: self._events.emit(StderrReceived(target.clean(line))),
            on_garbage=lambda text: self._events.emit(GarbageReceived(target.clean(text))),
            teller=None if tap is None else Teller(tap, target),
        )
        self._connection = Connection(
            target.name,
            self._open_link,
            config,
            self._events,
            attach=self._attach,
            detach=self._detach,
            gave_up=self._gave_up,
        )
        self._requests = Requests(self._connection, self.queue, config.timeouts, self._events)
        self._lists = Lists(
            self._fetch_page,
            chosen=config.list_changed,
            cache=self._cache,
            events=self._events,
            pulse=self._pulse,
            max_pages=config.max_pages,
            absorb_tools=self._absorb_tools,
        )
        self._subscriptions = Subscriptions(
            cache=self._cache,
            events=self._events,
            pulse=self._pulse,
            poll=config.poll,
            list_changed=self._lists.changed,
            lists=lambda: self._lists.wanted,
        )
        self._calls = Calls(self._requests, self._subscriptions, self._lists, self._cache, self._events)
        self._subscriptions.refresher = Refresher(self._calls.refresh, failed=self._refresh_failed, pulse=self._pulse)
        if self._store is not None:
            self._subscriptions.keeps = True
            self._subscriptions.on_cursor = self._store.note_cursor
            self._subscriptions.on_subscriptions = self._store.note_subscriptions
            self._subscriptions.on_uncovered = self._uncovered

    # The connection.

    async def __aenter__(self) -> Self:
        try:
            await self.connect()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def connect(self) -> None:
        """Connect, and load the lists that are mirrored.

        Raises:
            TidingsError: No connection came about within the tries that are set.
        """
        await self._restore()
        self._subscriptions.broken = None
        await self._connection.connect()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._config.timeouts.connect):
                await self._lists.first_loads()

    async def reconnect(self) -> None:
        """Try again now, after it was given up, or before the pause is over."""
        self._subscriptions.broken = None
        await self._connection.reconnect()

    async def disconnect(self) -> None:
        """End the connection on purpose: what waits is rejected, and nothing is kept: no content, no subscription."""
        await self._end()
        self._lists.clear()
        self._subscriptions.clear()
        self._cache.clear_all()
        if self._store is not None:
            await self._store.clear()

    async def aclose(self) -> None:
        """End the connection and let everything go. What `state` keeps is kept for the next process."""
        await self._end()
        await self._events.aclose()
        if self._store is not None:
            await self._store.aclose()

    async def _end(self) -> None:
        gone = Disconnected("The client was disconnected.", server=self.name)
        self._subscriptions.broken = gone
        self.queue.reject_all(
            lambda entry: Disconnected(
                f"The client was disconnected before {entry.method} was done.", server=self.name, method=entry.method
            )
        )
        self.pending.close("The client was disconnected.")
        await self._subscriptions.refresher.aclose()
        await self._lists.aclose()
        await self._connection.disconnect()
        self._subscriptions.watches.fail_all(gone)
        self._pulse()

    async def _restore(self) -> None:
        """Begin where the process before this one ended."""
        if self._store is None or self._restored:
            return
        saved = await self._store.load()
        now = datetime.now(UTC)
        covered = frozenset(saved.covered)
        # Restored first: what is covered is held by its subscription, however old.
        self._subscriptions.restore(saved.subscriptions, covered, saved.cursor)
        for invocation in saved.invocations:
            self._cache.put(invocation, age=(now - invocation.timestamp).total_seconds())
        self._restored = True

    async def _open_link(self, seconds: float) -> tuple[Link, Feed]:
        deadline = asyncio.get_running_loop().time() + seconds
        self._setup = replace(self._setup, log_level=self._log_level)
        link = Link(self._setup, self._hear, transport="sse" if self._sse else None)
        try:
            await link.open(seconds)
        except TidingsError:
            target = self._target
            may_be_sse = isinstance(target, HttpTarget) and target.kind is None and not self._sse
            if not (may_be_sse and link.web.first_status is not None and fallback_to_sse(link.web.first_status)):
                raise
            link = await self._open_sse(deadline)
            if link is None:
                raise
        client = link.client
        self._last_server = (
            client.protocol_version,
            client.server_info,
            client.server_capabilities,
            client.instructions,
        )
        return link, self._make_feed(link)

    async def _open_sse(self, deadline: float) -> Link | None:
        """The server may be one of the oldest: it takes no POST, and offers a stream of events instead."""
        link = Link(self._setup, self._hear, transport="sse")
        try:
            await link.open(max(deadline - asyncio.get_running_loop().time(), 1.0))
        except TidingsError:
            if link.web.stream_opened.is_set() and not link.web.deaf:
                raise  # It is one of those, and something else is wrong with it.
            return None
        self._sse = True
        return link

    def _make_feed(self, link: Link) -> Feed:
        seconds, subscriptions = self._config.timeouts.request, self._subscriptions
        if link.client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return ModernFeed(link, subscriptions, seconds, since=subscriptions.cursor, known=subscriptions.known)
        return LegacyFeed(link, subscriptions, seconds)

    async def _attach(self, link: Link, feed: Feed) -> None:
        self._feed = feed
        self._lists.attach(link.client.server_capabilities)
        self._subscriptions.attach(link, feed)
        if self._log_level is not None and link.client.server_capabilities.logging is not None:
            self._events.start(self.set_log_level(self._log_level))

    async def _detach(self) -> None:
        self._feed = None
        self._requests.let_go()
        await self._subscriptions.detach()

    def _gave_up(self, error: TidingsError) -> None:
        self._subscriptions.broken = error
        self._subscriptions.watches.fail_all(error)
        self.queue.reject_all(lambda _: error)
        self._pulse()

    def _hear(self, method: str, params: Mapping[str, Any] | None) -> bool:
        if self._feed is not None and self._feed.hear(method, params):
            return True
        if (event := notice(method, params)) is not None:
            self._events.emit(event)
        return True

    @property
    def name(self) -> str:
        """The server, as people call it. Secrets are left out."""
        return self._target.name

    @property
    def state(self) -> State:
        """Where the connection stands."""
        return self._connection.state

    @property
    def connected(self) -> bool:
        """Whether the server answers, as far as is known."""
        link = self._connection.link
        return self._connection.state is State.CONNECTED and link is not None and not link.over

    @property
    def error(self) -> TidingsError | None:
        """What went wrong last, until it is mended."""
        return self._connection.error

    @property
    def tries(self) -> int:
        """How many attempts to connect have failed in a row."""
        return self._connection.tries

    @property
    def next_retry(self) -> datetime | None:
        """When the next attempt to connect begins by itself, if there is to be one."""
        return self._connection.next_retry

    @property
    def transport(self) -> Literal["stdio", "http", "sse", "memory", "custom"]:
        """The way to the server: of one at a URL the one that was found last; "custom" is a transport of the SDK's."""
        match self._target:
            case HttpTarget(kind=kind):
                return "sse" if self._sse else kind or "http"
            case CommandTarget():
                return "stdio"
            case ServerTarget():
                return "memory"
            case _:
                return "custom"

    @property
    def pid(self) -> int | None:
        """The number of the server's process, while it is connected and a command."""
        link = self._connection.link
        return None if link is None else link.pid

    @property
    def protocol_version(self) -> str | None:
        """The version of the protocol that the two sides agreed on, last."""
        return self._last_server and self._last_server[0]

    @property
    def server_info(self) -> Implementation | None:
        """Who the server says it is."""
        return self._last_server and self._last_server[1]

    @property
    def capabilities(self) -> ServerCapabilities | None:
        """What the server says it can do."""
        return self._last_server and self._last_server[2]

    @property
    def instructions(self) -> str | None:
        """What the server tells a model about its use."""
        return self._last_server and self._last_server[3]

    # Events.

    def on(self, kind: type[EventT], handler: Handler[EventT]) -> Callable[[], None]:
        """Call `handler` with each event of this kind, until the function that is returned is called.

        A handler may be a coroutine function. One that fails is logged, and reaches nobody else.
        """
        return self._events.on(kind, handler)

    def events(self, *, limit: int = 10_000) -> AsyncIterator[Event]:
        """Every event from when the loop begins until the client is closed. A reader who falls behind by more than
        `limit` is told so.
        """
        return self._events.stream(limit)

    # The lists.

    @property
    def tools(self) -> list[Tool]:
        """The server's tools, as last loaded."""
        return list(self._lists.tools.items)

    @property
    def resources(self) -> list[Resource]:
        """The server's resources, as last loaded."""
        return list(self._lists.resources.items)

    @property
    def resource_templates(self) -> list[ResourceTemplate]:
        """The server's resource templates, as last loaded."""
        return list(self._lists.templates.items)

    @property
    def prompts(self) -> list[Prompt]:
        """The server's prompts, as last loaded."""
        return list(self._lists.prompts.items)

    @property
    def malformed(self) -> list[Malformed]:
        """Items of the lists that are not what the protocol says, with the reason."""
        return [each for mirror in self._lists for each in mirror.malformed]

    async def list_tools(self) -> list[Tool]:
        """Load the server's tools, all pages."""
        return list(await self._lists.tools.load())

    async def list_resources(self) -> list[Resource]:
        """Load the server's resources, all pages."""
        return list(await self._lists.resources.load())

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        """Load the server's resource templates, all pages."""
        return list(await self._lists.templates.load())

    async def list_prompts(self) -> list[Prompt]:
        """Load the server's prompts, all pages."""
        return list(await self._lists.prompts.load())

    async def _fetch_page(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        result, _ = await self._requests.run(
            method, params, lambda link, _: link.send_raw(method, dict(params)), safe=True, aside=True
        )
        return result

    def _absorb_tools(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        link = self._connection.link
        return tuple(tools) if link is None else link.absorb_tools(tools)

    # Requests.

    @property
    def cache(self) -> Cache:
        """The latest result of each read, prompt and tool call: the same objects that the calls returned."""
        return self._cache

    async def read_resource(
        self,
        uri: str,
        metadata: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> ResourceRead:
        """Read a resource. Always asks the server; `cache.get_resource` has what was read last."""
        return await self._calls.read(uri, metadata, timeout=timeout)

    async def read_resource_from_template(
        self, uri_template: str, params: Mapping[str, str], metadata: Mapping[str, Any] | None = None
    ) -> TemplateRead:
        """Read the resource that one of `resource_templates` stands for, filled in with `params`."""
        return await self._calls.read_from_template(uri_template, params, metadata)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, Any] | None = None, metadata: Mapping[str, Any] | None = None
    ) -> PromptGet:
        """Get a prompt, filled in by the server. Arguments that are not texts are sent as JSON."""
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
        """Call a tool. A failure that the tool reports is in `result.is_error`; others are raised, and cached too.

        With `idempotent` it is called again if the connection was lost meanwhile, though the server does not say that
        this does no harm.

        Raises:
            EffectUnknown: The connection was lost meanwhile, and the tool is not marked as safe to call twice.
            TidingsError: What else went wrong, by its name.
        """
        return await self._calls.call_tool(
            name, arguments, metadata, timeout=timeout, on_progress=on_progress, idempotent=idempotent
        )

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - a limit that progress moves
        safe: bool = False,
    ) -> dict[str, Any]:
        """Send any request, in its turn, and return its result as it is: nothing is checked or cached.

        With `safe` it is sent again if the connection was lost meanwhile.

        Raises:
            EffectUnknown: The connection was lost meanwhile, and it was not said to be safe to send twice.
            TidingsError: What else went wrong, by its name.
            ValueError: It cannot be sent: `params` is no JSON, or `method` is that of a notification.
        """
        return await self._calls.request(method, params, timeout=timeout, safe=safe)

    async def ping(self) -> float:
        """Ask the server whether it is there, past the queue; how many seconds it took to answer.

        Raises:
            RequestTimedOut: It did not within `Timeouts.ping`.
            TidingsError: What else went wrong, by its name.
        """
        return await self._calls.ping(lambda: self._require_feed().ping())

    def cancel(self, request_id: str) -> bool:
        """Cancel a request that waits or runs, by its id in `queue`. False if there is none any more."""
        return self.queue.cancel(request_id)

    async def complete(
        self,
        ref: ResourceTemplateReference | PromptReference,
        argument: Mapping[str, str],
        context: Mapping[str, str] | None = None,
    ) -> CompleteResult:
        """Ask the server to complete an argument of a prompt or a resource template."""
        return await self._calls.complete(ref, argument, context)

    async def set_log_level(self, level: LoggingLevel) -> None:
        """Have the server send log messages of this level and above: now, and on later connections."""
        self._log_level = level
        await self._requests.run(
            "logging/setLevel",
            {"level": level},
            lambda _link, _entry: self._require_feed().set_log_level(level),
            safe=True,
            aside=True,
        )

    async def set_roots(self, roots: Sequence[str | Path]) -> None:
        """Give the server other roots. It must have been connected with `roots=...` or `answer=...`."""
        self.pending.set_roots(roots_responder(roots))
        await self._requests.run(
            "notifications/roots/list_changed",
            {},
            lambda _link, _entry: self._require_feed().roots_changed(),
            safe=True,
            aside=True,
        )

    def _require_feed(self) -> Feed:
        if self._feed is None:
            raise ConnectionLost(f"{self.name} went away.", server=self.name)
        return self._feed

    # Subscriptions.

    @property
    def supports_subscriptions(self) -> bool:
        """Whether the server that is connected offers subscriptions to resources."""
        return self._subscriptions.supported

    @property
    def subscriptions(self) -> list[str]:
        """What is subscribed to."""
        return list(self._subscriptions)

    def is_subscribed(self, uri: str) -> bool:
        """Whether this is subscribed to."""
        return uri in self._subscriptions

    async def subscribe(self, uris: str | Sequence[str]) -> None:
        """Subscribe to a resource or several, or to all whose URI begins with what stands before a `*`.

        Kept over lost connections, until `unsubscribe` or `disconnect`. An update drops the cached content, and is
        told as `ResourceUpdated`.

        Raises:
            NotSupported: The server offers no subscriptions. (`watch` polls then.)
            RequestTimedOut: No connection lasted long enough to establish them.
            TidingsError: The server refused one of them; the others are subscribed to.
        """
        seconds = self._config.timeouts.total
        try:
            async with asyncio.timeout(seconds):
                await self._subscribe([uris] if isinstance(uris, str) else uris)
        except TimeoutError:
            raise RequestTimedOut(
                f"{self.name} took no subscription within {seconds:g} s. Give it longer with Timeouts(total=...).",
                server=self.name,
                method="resources/subscribe",
                elapsed=seconds,
            ) from None

    async def _subscribe(self, uris: Sequence[str]) -> None:
        await self._connection.ready()
        if not self._subscriptions.supported:
            raise NotSupported(
                f"{self.name} offers no subscriptions to resources. `watch` works all the same: it polls.",
                server=self.name,
                method="resources/subscribe",
            )
        await self._subscriptions.add(uris)

    async def unsubscribe(self, uris: str | Sequence[str]) -> None:
        """Undo `subscribe`. What is not subscribed to is passed over."""
        await self._subscriptions.remove([uris] if isinstance(uris, str) else uris)

    def watch(
        self, uris: str | Sequence[str], *, missing: Literal["raise", "wait"] = "raise"
    ) -> AsyncGenerator[ResourceRead]:
        """The content of a resource now, and again whenever it is different; of several, each.

        A resource that goes away ends nothing: its content comes when it is there again, if it is different then.

        Args:
            uris: One URI or several.
            missing: What to do if none of them is there at the beginning: "wait" for one to appear, or "raise".

        Raises:
            InvalidUri: One of them is no URI.
            ResourceNotFound: None of them is there at the beginning.
            TidingsError: There will be no more: one of them cannot be read, or the connection was given up.
        """
        if missing not in ("raise", "wait"):
            raise ValueError(f"missing= is 'raise' or 'wait', not {missing!r}")
        texts = [uris] if isinstance(uris, str) else list(uris)
        return self._watch([check_watched(uri) for uri in texts], patient=missing == "wait")

    async def _watch(self, uris: Sequence[str], *, patient: bool) -> AsyncGenerator[ResourceRead]:
        self._connection.check()
        async with contextlib.aclosing(self._subscriptions.watches.watch(uris, patient=patient)) as reads:
            async for read in reads:
                yield read

    def is_fresh(self, uri: str) -> bool:
        """Whether the copy in the cache is known to be what the server has now."""
        return self.connected and self._subscriptions.is_fresh(uri)

    async def wait_fresh(self) -> None:
        """Wait until everything that is subscribed to, watched or mirrored is known to be current. The server is asked
        whether it is there: one that died a moment ago would not have told of a change.

        Raises:
            TidingsError: It will not be: the connection was given up, or ended on purpose.
        """
        while True:
            while not self._all_fresh():
                self._connection.check()
                await self._pulse.wait()
            link = self._connection.link
            # Whatever comes meanwhile came after: to wait for a moment without news might take for ever.
            if link is not None and await self._connection.answers(link):
                return
            await asyncio.sleep(0)  # Let whoever sees the connection end say so.

    def _all_fresh(self) -> bool:
        return (
            self.connected
            and self._subscriptions.settled
            and self._subscriptions.refresher.idle
            and self._subscriptions.watches.handed_over
            and not self._lists.busy
        )

    def _refresh_failed(self, uri: str, error: TidingsError) -> None:
        watched = self._subscriptions.watches.get(uri)
        if watched is not None and watched.is_gone and isinstance(error, ResourceNotFound):
            return  # As was said: whoever waits for it is told when it is there.
        self._events.emit(RefreshFailed(uri, error))
        if watched is not None and not error.retryable:
            watched.fail(error)

    # What others tell this client of itself.

    def _is_held(self, uri: str) -> bool:
        return self._subscriptions.is_covered(uri)

    def _cache_changed(self, invocation: Invocation | None, kind: Kind, key: str) -> None:
        if self._store is None:
            return
        if invocation is None:
            self._store.note_removed(kind, key)
        elif self._restored:  # What comes from the file is in it.
            covered = kind is Kind.RESOURCE and self._subscriptions.is_covered(key)
            self._store.note_put(invocation, covered)

    def _uncovered(self, uri: str) -> None:
        if self._store is not None and (read := self._cache.get_resource(uri)) is not None:
            self._store.note_put(read, covered=False)

    def _request_changed(self, entry: QueueEntry) -> None:
        if self._events.wanted(RequestChanged):
            self._events.emit(RequestChanged(entry))

    def _asked(self, request: PendingRequest) -> None:
        call = current_call.get(None)
        if isinstance(call, QueueEntry):
            self._held[request.id] = self._requests.hold(call)
        elif request.kind != "roots" or not self.pending.has_roots:
            # Not known whose it is: anyone's. A fixed list of roots, though, an old-era server asks for when it likes.
            self._held[request.id] = self._requests.hold(None)
        self._events.emit(PendingAdded(request))

    def _answered(self, request: PendingRequest, outcome: Any) -> None:
        self._requests.release(self._held.pop(request.id, []))
        self._events.emit(PendingSettled(request, outcome))
