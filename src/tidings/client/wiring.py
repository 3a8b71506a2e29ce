"""`connect()`, which makes a client; its parts are made and connected in the constructor of `ClientWiring`.

Requests go down: calls → requests → queue → link → transport. Changes come up: feed → subscriptions → cache and
refresher → watchers and events.
"""

import asyncio
import hashlib
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx2
from mcp.shared.subscriptions import event_from_wire
from mcp_types import Implementation, LoggingLevel
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from tidings._kit.bounded_json import as_dict, as_float, as_text
from tidings._kit.tasks import Wakeup
from tidings._kit.telemetry import NO_TRACE, measure, trace_of, within
from tidings.changes import CURSOR_KEY, TIMES_KEY, Change
from tidings.client import events
from tidings.client.cache import ContentCache, ContentKind, Invocation
from tidings.client.calls import Calls
from tidings.client.config import ClientConfig, State
from tidings.client.connection import Connection
from tidings.client.legacy import LegacyFeed
from tidings.client.link import Link, LinkHooks, ServerFacts, Setup
from tidings.client.live import LiveClient
from tidings.client.mirrors import Lists
from tidings.client.modern import ModernFeed
from tidings.client.pending import Pending, PendingRequest, Responder
from tidings.client.queue import QueueEntry, RequestQueue
from tidings.client.requests import Requests
from tidings.client.responders import responder_for, roots_responder
from tidings.client.server_events import EVENTS_KEPT, ServerEvents
from tidings.client.subscriptions import ChangeFeed, Subscriptions
from tidings.client.targets import HttpTarget, parse_target
from tidings.client.tasks import TASKS_KEPT, Tasks
from tidings.client.transports.http import MAY_BE_SSE, current_call
from tidings.client.transports.tap import Tap, TapReporter
from tidings.client.watching import HANDED_KEPT, HandedOut, Refresher
from tidings.errors import ConnectionLost, Disconnected, NotSupported, ResourceNotFound, TidingsError

if TYPE_CHECKING:
    from tidings.client.state_file import StateFile

_MOST_ROUNDS: Final = 10  # So often, what changed while everything was read is read, too.
# Resources under a prefix that wait to be read. Beyond that, the update is announced but not followed by a read.
_PREFIX_WAITING: Final = 1_000


class ClientWiring:
    """The parts of one client."""

    def __init__(
        self,
        setup: Setup,
        *,
        state: str | Path | None = None,
        answer: Responder | None = None,
        roots: Responder | None = None,
    ) -> None:
        self.setup = setup
        self.target, self.config = target, config = setup.target, setup.config
        self.name = target.name
        self.events = events.EventHub()
        self.wakeup = Wakeup()
        self.server: ServerFacts | None = None
        self._identity: str | None = None  # The identity of the server that content and cursor come from.
        self.is_sse = False
        self._restored = False
        self.store = None if state is None else _state_file(state, target.identity)
        self.cache: ContentCache = ContentCache(
            config.cache,
            held=lambda uri: self.subscriptions.is_covered(uri),  # noqa: PLW0108 - made below
            on_change=self._cache_changed,
        )
        self.queue = RequestQueue(
            concurrency=config.concurrency,
            history=config.history,
            on_change=lambda entry: self.events.emit(events.RequestChanged(entry)),
        )
        self.pending = Pending(
            server=target.name,
            responder=answer,
            roots=roots,
            timeout=config.timeouts.answer,
            cause=lambda kind, params: self.requests.cause(kind, params),  # noqa: PLW0108 - made below
            asking=self._asking,
        )
        self._hooks = LinkHooks(self._hear, self.queue, self.wakeup, self.pending, self.events)
        self.connection = Connection(
            target.name,
            self._open_link,
            config,
            self.events,
            attach=self._attach,
            detach=self._detach,
            gave_up=self._gave_up,
            is_busy=self.queue.is_busy,
            asks_person=isinstance(target, HttpTarget) and target.auth is not None,
        )
        self.requests = Requests(self.connection, self.queue, config.timeouts, self.events)
        self.lists = Lists(
            self.requests.run_aside,
            config,
            self.cache,
            self.events,
            self.wakeup,
            unlisted=lambda uri: self.subscriptions.unlisted(uri),  # noqa: PLW0108 - made below
        )
        refresher = partial(Refresher, self._read_again, failed=self._refresh_failed, wakeup=self.wakeup)
        self.subscriptions: Subscriptions = Subscriptions(
            cache=self.cache,
            events=self.events,
            wakeup=self.wakeup,
            poll=config.poll,
            lists=self.lists,
            refresher=refresher(),
            prefix_refresher=refresher(at_once=4, most_waiting=_PREFIX_WAITING),
            store=self.store,
        )
        self.handed_out = HandedOut(self.store)
        self.tasks = Tasks(
            self.connection,
            self.requests,
            self.pending,
            self.events,
            clean=target.clean,
            resume=lambda task, on_progress: self.calls.resume(task, on_progress),  # noqa: PLW0108 - made below
            store=self.store,
        )
        self.server_events = ServerEvents(self.connection, self.requests, store=self.store)
        self.calls = Calls(self.requests, self.subscriptions, self.lists, self.cache, self.events, self.tasks)

    async def begin(self) -> None:
        """Connects, and waits until the mirrored lists are loaded, or that takes too long."""
        await self._restore()
        self.subscriptions.abandon(None)
        await self.connection.connect()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.config.timeouts.connect):
                await self.lists.first_loads(lambda: self.connection.state is State.DISCONNECTED)
        self.connection.check()  # It may have been disconnected meanwhile.

    async def _restore(self) -> None:
        """Continues where the process before this one ended, once."""
        if self.store is None or self._restored:
            return
        saved = await self.store.load()
        now = datetime.now(UTC)
        self._identity = saved.server
        # Before the content: the cache keeps what is covered, however old it is.
        self.subscriptions.restore(saved.subscriptions, saved.covered, saved.cursor)
        for invocation in saved.invocations:
            self.cache.put(invocation, age=(now - invocation.timestamp).total_seconds())
        self.tasks.restore(saved.kept.get(TASKS_KEPT, {}))
        self.server_events.restore(saved.kept.get(EVENTS_KEPT, {}))
        self.handed_out.restore(saved.kept.get(HANDED_KEPT, {}))
        self._restored = True

    async def end(self, *, forget: bool = False) -> None:
        """Ends the connection, and fails everything that waits for it. `forget`: drops content and subscriptions."""
        gone = Disconnected("The client was disconnected.", server=self.name)
        self.subscriptions.abandon(gone)
        why = "The client was disconnected before {0} was done."
        self.queue.reject_all(lambda each: Disconnected(why.format(each), server=self.name, method=each))
        self.pending.close("The client was disconnected.")
        await self.subscriptions.aclose()
        await self.lists.loads.aclose()
        await self.connection.disconnect()
        await self.calls.ended()
        self.subscriptions.watches.fail_all(gone)
        self.wakeup()
        if forget:
            self.lists.clear()
            self.subscriptions.clear()
            self.cache.clear_all()
            if self.store is not None:
                await self.store.clear()

    def feed(self) -> ChangeFeed:
        """Returns the feed of the current connection. Raises `ConnectionLost` if there is none."""
        if self.connection.feed is None:
            raise ConnectionLost(f"{self.name} went away.", server=self.name)
        return self.connection.feed

    async def set_log_level(self, level: LoggingLevel) -> None:
        self.setup = replace(self.setup, log_level=level)
        entry = self.queue.add("logging/setLevel", {"level": level}, aside=True)
        await self.requests.run(entry, lambda _link, _entry: self.feed().set_log_level(level), safe=True)

    async def until_fresh(self) -> None:
        """Waits until everything is current: see `LiveClient.wait_fresh`."""
        connection, subscriptions = self.connection, self.subscriptions
        while True:
            while not (connection.connected and subscriptions.are_established):
                connection.check()
                await self.wakeup.wait()
            link = connection.link
            if link is not None and await connection.answers(link):
                # What arrives from here on is newer than the question. A quiet moment is better, but may never come.
                for _ in range(_MOST_ROUNDS):
                    await subscriptions.until_read(lambda link=link: link.over)
                    await self.lists.loads.until_read(lambda link=link: link.over)
                    if not subscriptions.is_reading:
                        break
                if connection.connected and subscriptions.are_established and not link.over:
                    return
            await asyncio.sleep(0)  # Lets the task that notices the end of the connection run.

    async def _open_link(self, seconds: float) -> tuple[Link, ChangeFeed]:
        deadline = asyncio.get_running_loop().time() + seconds
        link = Link(self.setup, self._hooks, transport="sse" if self.is_sse else None)
        try:
            await link.open(seconds)
        except TidingsError:
            self.is_sse, was_sse = False, self.is_sse  # Another server may be there next time.
            target = self.target
            may_be_sse = isinstance(target, HttpTarget) and target.kind is None and not was_sse
            if not (may_be_sse and link.http.first_status in MAY_BE_SSE):
                raise
            if (link := await self._open_sse(deadline)) is None:
                raise
        self.server = link.facts
        seconds, subscriptions = self.config.timeouts.request, self.subscriptions
        if (identity := self.server.identity) != self._identity:  # Another server was at this address before.
            self._identity = identity
            subscriptions.begin_anew()
            if self.store is not None:
                self.store.note_server(identity)
        era = ModernFeed if self.server.era == "modern" else LegacyFeed
        return link, era(link, subscriptions, seconds)

    async def _open_sse(self, deadline: float) -> Link | None:
        """Tries the oldest transport: the server accepts no POST, and may offer a stream of events instead."""
        link = Link(self.setup, self._hooks, transport="sse")
        try:
            await link.open(max(deadline - asyncio.get_running_loop().time(), 1.0))
        except TidingsError:
            if link.http.status in (429, 503) or (link.http.stream_opened.is_set() and not link.http.deaf):
                raise  # It has this transport, and something else is wrong.
            return None
        self.is_sse = True
        return link

    async def _attach(self, link: Link, feed: ChangeFeed) -> None:
        self.lists.attach(link.client.server_capabilities, link.absorb_tools)
        self.subscriptions.attach(link, feed)
        if (level := self.setup.log_level) is not None and link.client.server_capabilities.logging is not None:

            async def ask_for_log() -> None:
                with suppress(TidingsError):  # A server that refuses this may send messages all the same.
                    await self.set_log_level(level)

            self.events.start(ask_for_log())

    async def _detach(self) -> None:
        self.requests.release_waiting()
        await self.subscriptions.detach()

    def _gave_up(self, error: TidingsError) -> None:
        self.subscriptions.abandon(error)
        self.subscriptions.watches.fail_all(error)
        self.queue.reject_all(lambda _: error)
        self.wakeup()

    def _hear(self, method: str, params: Mapping[str, Any] | None) -> bool:
        told = as_dict(params)
        meta = as_dict(told.get("_meta"))
        # What follows from a change belongs to the trace of its publisher, not to that of whoever connected.
        with within(trace_of(meta) or NO_TRACE):
            if (change := event_from_wire(method, params)) is not None:
                self._note_change(change, method, meta)
            feed = self.connection.feed
            own = self.tasks.stream.hear(method, told) or self.server_events.hear(method, told)
            if own or (feed is not None and feed.hear(method, told)):
                return True
            if (event := notification_event(method, params)) is not None:
                self.events.emit(event)
            return True

    def _note_change(self, change: Change, method: str, meta: Mapping[str, Any]) -> None:
        now, times, about = time.time(), as_dict(meta.get(TIMES_KEY)), {"mcp.method.name": method}
        published = as_float(times.get("published"))
        measure("tidings.client.changes", 1, about)
        if published is not None:
            measure("tidings.client.delivery.lag", max(now - published, 0.0), about)
        if self.events.wanted(events.ChangeReceived) or self.events.wanted(events.ReadCompleted):
            source, cursor = as_float(times.get("source")), as_text(meta.get(CURSOR_KEY))
            received = events.ChangeReceived(change, now, published=published, source=source, cursor=cursor)
            self.events.emit(self.calls.unread.add(received))

    async def _read_again(self, uri: str) -> None:
        await self.calls.refresh(uri)

    def _refresh_failed(self, uri: str, error: TidingsError) -> None:
        watched = self.subscriptions.watches.resources.get(uri)
        if isinstance(error, NotSupported) and watched is not None and (watched.latest or watched.is_gone):
            # The server that had it was replaced by one without resources, and may come back.
            link = self.connection.link
            if link is not None and link.facts.capabilities.resources is not None and not watched.is_gone:
                link.lose_to_another()  # In its handshake, the server of this connection had them.
            error = ResourceNotFound(f"{self.name} has no resources any more: {error.message}", server=self.name)
        if watched is not None and watched.is_gone and isinstance(error, ResourceNotFound):
            return  # As announced before: watchers wait until it is there again.
        self.events.emit(events.RefreshFailed(uri, error))
        if watched is not None and not error.retryable:
            watched.fail(error)

    def _cache_changed(self, invocation: Invocation | None, kind: ContentKind, key: str) -> None:
        if self.store is None:
            return
        if invocation is None:
            self.store.note_removed(kind, key)
        elif self._restored:  # Before that, it comes from the file.
            covered = kind is ContentKind.RESOURCE and self.subscriptions.is_covered(key)
            self.store.note_put(invocation, covered)

    @contextmanager
    def _asking(self, request: PendingRequest) -> Generator[None]:
        """Stops the clock of the requests that wait for a person, and announces the question and its end."""
        held: list[QueueEntry] = []
        if request.call is not None:
            request.call.questions.append(request)
            held = self.requests.hold(request.call)
        elif current_call.get() is None and (request.kind != "roots" or not self.pending.has_roots):
            # It is not known which request it belongs to, so all are held. But a server of the legacy era may ask for a
            # fixed list of roots at any time.
            held = self.requests.hold(None)
        self.events.emit(events.PendingAdded(request))
        try:
            yield
        finally:
            for entry in held:
                entry.release()
            self.events.emit(events.PendingSettled(request, request.outcome))


def notification_event(method: str, params: Mapping[str, Any] | None) -> events.Event | None:
    """Returns the event for a notification that is not a change. None for progress, which belongs to its request."""
    given: Mapping[str, Any] = params or {}
    match method:
        case "notifications/progress":
            return None
        case "notifications/message":
            return events.LogReceived(str(given.get("level", "info")), given.get("data"), as_text(given.get("logger")))
        case "notifications/cancelled":
            request_id = given.get("requestId")
            known = request_id if isinstance(request_id, str | int) else None
            return events.CancelledReceived(known, as_text(given.get("reason")))
        case _:
            return events.NotificationReceived(method, params)


def _state_file(path: str | Path, identity: str) -> "StateFile":
    from tidings.client.state_file import StateFile  # noqa: PLC0415 - SQLite, only for those who use it

    return StateFile(Path(path), hashlib.sha256(identity.encode()).hexdigest())


def connect(
    target: object,
    *,
    era: str = "auto",
    config: ClientConfig | None = None,
    state: str | Path | None = None,
    headers: Mapping[str, str] | None = None,
    token: str | None = None,
    auth: httpx2.Auth | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
    answer: Responder | str | Path | None = None,
    roots: Sequence[str | Path] | None = None,
    log_level: LoggingLevel | None = None,
    tap: Tap | None = None,
    client_info: Implementation | None = None,
    experimental: Mapping[str, Mapping[str, Any]] | None = None,
    extensions: Mapping[str, Mapping[str, Any]] | None = None,
) -> LiveClient:
    """Returns a client for one server, for use with `async with`.

    Args:
        target: A URL (`"https://host/mcp"`, for streamable HTTP, or SSE if the server has only that), a command
            (`["python", "server.py"]`, or one string), a JSON file of servers (`"mcp.json#name"`), or a server object.
        era: `"auto"` (the newest version that both sides know), `"legacy"` (the old handshake) or a modern version.
        config: Timeouts, limits, backoff and other settings.
        state: A file that keeps content, subscriptions and the position in the server's log for the next process.
        headers: Sent with each HTTP request.
        token: Sent as `Authorization: Bearer …`.
        auth: An `httpx2.Auth`, such as the SDK's `OAuthClientProvider`.
        env: Variables to add to the environment of a command.
        cwd: The folder in which a command runs.
        environ: The variables for `${NAME}` in a JSON file: pass `os.environ`.
        answer: Answers the server's questions to the user. Pass `"ask"` to put them into `client.pending`, a function,
            or the path of a script in YAML or JSON. Without it, the server is told that nobody can be asked.
        roots: The folders or URIs that the server may work in.
        log_level: The lowest level of log messages that the server should send.
        tap: Gets each message and HTTP exchange, with secrets masked. See `tidings.client.Tap`.
        client_info: The name and version of your program, which the server sees. By default, those of Tidings.
        experimental: Experimental capabilities of your program, by name.
        extensions: Extensions that your program supports, by identifier, with their settings.

    Raises:
        BadTarget: `target` is not valid, or an option does not fit it.
        ValueError: `era` or `answer` is not one of the above.
    """
    if era not in ("auto", "legacy", *MODERN_PROTOCOL_VERSIONS):
        hint = " (for this version use era='legacy')" if era in HANDSHAKE_PROTOCOL_VERSIONS else ""
        raise ValueError(f"era is 'auto', 'legacy' or one of {', '.join(MODERN_PROTOCOL_VERSIONS)}, not {era!r}{hint}")
    where = parse_target(target, headers=headers, token=token, auth=auth, env=env, cwd=cwd, environ=environ or {})
    stated = {"experimental": experimental, "extensions": extensions}
    capabilities = {
        name: {key: dict(value) for key, value in given.items()} for name, given in stated.items() if given is not None
    }
    reporter = None if tap is None else TapReporter(tap, where)
    setup = Setup(where, config or ClientConfig(), era, log_level, client_info, capabilities, reporter)
    fixed_roots = None if roots is None else roots_responder(roots)
    return LiveClient(ClientWiring(setup, state=state, answer=responder_for(answer), roots=fixed_roots))
