"""The parts of a live client, and how they hear of each other.

Notifications that are not of changes, as events.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_types import Implementation, LoggingLevel, ServerCapabilities, Tool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tidings.client.cache import ContentCache, ContentKind, Invocation
from tidings.client.calls import Calls
from tidings.client.config import ClientConfig
from tidings.client.connection import Connection
from tidings.client.events import (
    CancelledReceived,
    Event,
    EventHub,
    GarbageReceived,
    LogReceived,
    NotificationReceived,
    PendingAdded,
    PendingSettled,
    RefreshFailed,
    RequestChanged,
    StderrReceived,
)
from tidings.client.feed import ChangeFeed
from tidings.client.legacy import LegacyFeed
from tidings.client.link import Link, Setup
from tidings.client.mirrors import Lists
from tidings.client.modern import ModernFeed
from tidings.client.pending import Pending, PendingRequest, Responder
from tidings.client.pulse import Wakeup
from tidings.client.queue import QueueEntry, RequestQueue
from tidings.client.requests import Requests
from tidings.client.shapes import as_text
from tidings.client.subscriptions import Subscriptions
from tidings.client.targets import HttpTarget, Target
from tidings.client.transports.http import current_call, fallback_to_sse
from tidings.client.transports.tap import Tap, TapReporter
from tidings.client.watching import Refresher
from tidings.errors import ConnectionLost, Disconnected, ResourceNotFound, TidingsError

if TYPE_CHECKING:
    from tidings.client.state_file import StateFile


def notice(method: str, params: Mapping[str, Any] | None) -> Event | None:
    """The event that a notification stands for. None for progress, which is told by the request it is of."""
    told: Mapping[str, Any] = params or {}
    match method:
        case "notifications/progress":
            return None
        case "notifications/message":
            return LogReceived(str(told.get("level", "info")), told.get("data"), as_text(told.get("logger")))
        case "notifications/cancelled":
            request_id = told.get("requestId")
            known = request_id if isinstance(request_id, str | int) else None
            return CancelledReceived(known, as_text(told.get("reason")))
        case _:
            return NotificationReceived(method, params)


class ClientWiring:
    """Makes the parts of one client, and passes on what one of them must know of another."""

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
        self._events = EventHub()
        self._pulse = Wakeup()
        self._held: dict[str, list[QueueEntry]] = {}
        self._feed: ChangeFeed | None = None
        self._last_server: tuple[str, Implementation | None, ServerCapabilities, str | None] | None = None
        self._sse = False
        self._restored = False
        self._log_level: LoggingLevel | None = log_level
        identity = hashlib.sha256(target.identity.encode()).hexdigest()
        self._store = None if state is None else _state_file(state, identity)
        self._cache = ContentCache(config.cache, held=self._is_held, on_change=self._cache_changed)
        self.queue: RequestQueue = RequestQueue(
            concurrency=config.concurrency, history=config.history, on_change=self._request_changed
        )
        """The requests that wait, run and ended."""
        self.pending: Pending = Pending(
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
            teller=None if tap is None else TapReporter(tap, target),
        )
        self._connection = Connection(
            target.name,
            self._open_link,
            config,
            self._events,
            attach=self._attach,
            detach=self._detach,
            gave_up=self._gave_up,
            is_busy=lambda: any(self.queue.running()),
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

    @property
    def name(self) -> str:
        """The server, as people call it. Secrets are left out."""
        return self._target.name

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

    # One connection after the other.

    async def _open_link(self, seconds: float) -> tuple[Link, ChangeFeed]:
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

    def _make_feed(self, link: Link) -> ChangeFeed:
        seconds, subscriptions = self._config.timeouts.request, self._subscriptions
        if link.client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return ModernFeed(link, subscriptions, seconds, since=subscriptions.cursor, known=subscriptions.known)
        return LegacyFeed(link, subscriptions, seconds)

    async def _attach(self, link: Link, feed: ChangeFeed) -> None:
        self._feed = feed
        self._lists.attach(link.client.server_capabilities)
        self._subscriptions.attach(link, feed)
        if self._log_level is not None and link.client.server_capabilities.logging is not None:
            self._events.start(self._ask_for_logs(self._log_level))

    async def _ask_for_logs(self, level: LoggingLevel) -> None:
        await self._requests.run(
            "logging/setLevel",
            {"level": level},
            lambda _link, _entry: self._require_feed().set_log_level(level),
            safe=True,
            aside=True,
        )

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

    def _require_feed(self) -> ChangeFeed:
        if self._feed is None:
            raise ConnectionLost(f"{self.name} went away.", server=self.name)
        return self._feed

    # What one part asks of another.

    async def _fetch_page(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        result, _ = await self._requests.run(
            method, params, lambda link, _: link.send_raw(method, dict(params)), safe=True, aside=True
        )
        return result

    def _absorb_tools(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        link = self._connection.link
        return tuple(tools) if link is None else link.absorb_tools(tools)

    def _refresh_failed(self, uri: str, error: TidingsError) -> None:
        watched = self._subscriptions.watches.get(uri)
        if watched is not None and watched.is_gone and isinstance(error, ResourceNotFound):
            return  # As was said: whoever waits for it is told when it is there.
        self._events.emit(RefreshFailed(uri, error))
        if watched is not None and not error.retryable:
            watched.fail(error)

    def _is_held(self, uri: str) -> bool:
        return self._subscriptions.is_covered(uri)

    def _cache_changed(self, invocation: Invocation | None, kind: ContentKind, key: str) -> None:
        if self._store is None:
            return
        if invocation is None:
            self._store.note_removed(kind, key)
        elif self._restored:  # What comes from the file is in it.
            covered = kind is ContentKind.RESOURCE and self._subscriptions.is_covered(key)
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


def _state_file(path: Path, identity: str) -> "StateFile":
    from tidings.client.state_file import StateFile  # noqa: PLC0415 - a database, for those who keep something in one

    return StateFile(path, identity)
