"""`Notifier`, which is `server.notify`: publishes changes, and lists the subscribers.

A notification also says when the change happened at its source, when it was published and in which trace, if this
process published it. The bus carries the change alone, so other replicas send neither.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeVar
from urllib.parse import quote

from pydantic import AnyUrl, BaseModel
from pydantic_core import Url

from tidings._kit.tasks import Background
from tidings._kit.telemetry import trace_meta
from tidings.changes import FEATURES, TIMES_KEY, Change, ResourceUpdated, check_uri
from tidings.errors import BusUnavailable, InvalidUri, TransportError
from tidings.server.hub import Hub
from tidings.server.subscriber import SubscriberInfo

T = TypeVar("T")

# Changes whose times are remembered: they wait to be published, or for the bus to bring them back.
_MOST: Final = 10_000
_MOST_TEXTS: Final = 100  # Texts that are remembered until their change is delivered.
_MOST_OF_CALL: Final = 100  # Resources that are remembered as changed by one call.
_MOST_WAITING: Final = 100_000  # Changes that wait for the bus, or for the start of the server.
# Stands for all changes that waited, if there were too many. Its subscribers are told that anything may have changed.
EVERYTHING: Final = ResourceUpdated("*")
NOTICE: Final = "tidings-session:"  # Begins the URI of a change that is for the replicas alone.
TASKS: Final = NOTICE + "tasks/"  # Begins one that names the first characters of tasks that have changed.
EVENTS: Final = NOTICE + "events/"  # Begins one that names an event type that has new events.
REVOKED: Final = NOTICE + "revoked/"  # Begins one that names a principal whose rights have changed.


def add_waiting(waiting: dict[Change, T], change: Change, value: T) -> None:
    """Adds a change to those that wait. Too many are replaced by `EVERYTHING`, which also covers those that follow."""
    if EVERYTHING in waiting or (len(waiting) >= _MOST_WAITING and change not in waiting):
        waiting.clear()
        change = EVERYTHING
    waiting[change] = value


@dataclass(slots=True)
class ToolCaller:
    """The caller of a tool, and the resources that were published during the call."""

    key: str  # Its identity: that of a signed-in user, or of a pipe; all others are one.
    changed: dict[str, None] = field(default_factory=dict[str, None])
    is_over: bool = False


CALLER: Final[ContextVar[ToolCaller | None]] = ContextVar("tidings_caller", default=None)
"""The caller of the tool that runs in this context. What it publishes is this caller's doing."""


def note_own(uris: Iterable[str]) -> None:
    """Notes that the tool that runs in this context has changed resources, although others have published that."""
    caller = CALLER.get()
    if caller is not None and not caller.is_over:
        for uri in islice(uris, max(_MOST_OF_CALL - len(caller.changed), 0)):
            caller.changed[uri] = None


class Times:
    """The times, traces and originators of changes on their way. Of merged changes, the first counts."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._sources: dict[Change, float] = {}
        self._traces: dict[Change, dict[str, str]] = {}
        self._published: dict[Change, dict[str, Any]] = {}
        self._before: dict[Change, str] = {}
        self._origins: dict[Change, str] = {}  # The key of the caller; '' if there were several, or others as well.

    def happened(self, change: Change, at: float | None, before: str | None = None) -> None:
        """Notes the current span, when `change` happened, in seconds since the epoch, and the text before, if known."""
        if before is not None:
            self.comes(change, before)
        if at is not None:
            _bound(self._sources)
            self._sources.setdefault(change, at)
        if trace := trace_meta():
            _bound(self._traces)
            self._traces.setdefault(change, trace)
        caller = CALLER.get()
        if caller is not None and not caller.is_over and isinstance(change, ResourceUpdated):
            if len(caller.changed) < _MOST_OF_CALL:
                caller.changed[change.uri] = None
            _bound(self._origins)
            # Another's may be on its way, too.
            before = self._origins.get(change, "" if change in self._published else caller.key)
            self._origins[change] = caller.key if before == caller.key else ""
        elif change in self._origins:
            self._origins[change] = ""

    def comes(self, change: Change, before: str) -> None:
        _bound(self._before, _MOST_TEXTS)
        self._before.setdefault(change, before)

    def unsent(self, change: Change) -> tuple[str, str | None]:
        """Returns the key of the caller whose doing a change is ('' if not known), and the text before, if known."""
        return self._origins.pop(change, ""), self._before.pop(change, None)

    def publishing(self, change: Change) -> None:
        meta = self._published.get(change)
        if meta is None:
            _bound(self._published)
            meta = self._published[change] = {TIMES_KEY: {"published": self._clock()}}
        if self._sources and (source := self._sources.pop(change, None)) is not None:
            meta[TIMES_KEY].setdefault("source", source)
        if self._traces and (trace := self._traces.pop(change, None)) is not None and "traceparent" not in meta:
            meta |= trace

    def take(self, change: Change) -> dict[str, Any] | None:
        return self._published.pop(change, None)

    def forget(self) -> None:
        self._published.clear()
        self._origins.clear()
        self._before.clear()


def _bound(noted: dict[Change, Any], most: int = _MOST) -> None:
    if len(noted) >= most:
        del noted[next(iter(noted))]


class Notifier:
    """Publishes changes to all their subscribers, in both eras, on every transport and every replica."""

    def __init__(self, hub: Hub, times: Times | None = None) -> None:
        self._hub = hub
        self._times = times or Times()
        self._submit: Callable[[Change], Coroutine[Any, Any, None]] | None = None
        self._submit_event: Callable[..., Coroutine[Any, Any, str]] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._soon: dict[Change, None] = {}
        self._scheduled = False
        self._has_run = False
        self._lock = threading.Lock()
        self._background = Background()

    async def resource_updated(
        self, uri: str | AnyUrl, *, changed_at: float | None = None, before: str | None = None
    ) -> None:
        """Notifies subscribers that the resource at `uri` changed.

        When this returns, the change is stored as durably as the bus promises. Equal changes that follow each other
        quickly are merged later, on their way to the subscribers. On another event loop, or while the server is not
        running, the change is only handed over, as by `soon`: a server that starts publishes it.

        Args:
            uri: The resource.
            changed_at: The time of the change at its source, if known, in seconds since the epoch. It is sent with the
                notification, so that a reader can see how long the change took to arrive.
            before: The text of the resource before the change, if known. A wait for a prefix shows the difference.

        Raises:
            InvalidUri: `uri` is not a URI, or it is a prefix. Prefixes are only for subscribing.
            BusUnavailable, BusMismatch: The bus cannot store the change now. The server keeps it in memory, and
                publishes it when the bus is back. You need not publish it again, but doing so does no harm.
        """
        change = ResourceUpdated(str(uri) if isinstance(uri, AnyUrl | Url) else uri)
        await self.publish(change, changed_at=changed_at, before=before)

    def comes(self, uri: str, *, before: str) -> None:
        self._times.comes(ResourceUpdated(uri), before)

    async def tools_changed(self) -> None:
        """Notifies that the list of tools changed. A `LiveServer` does this when you add or remove one."""
        await self.publish(FEATURES["tools"])

    async def prompts_changed(self) -> None:
        """Notifies that the list of prompts changed. A `LiveServer` does this when you add or remove one."""
        await self.publish(FEATURES["prompts"])

    async def resources_changed(self) -> None:
        """Notifies that the list of resources or templates changed. A `LiveServer` does this when you add one."""
        await self.publish(FEATURES["resources"])

    async def revoke(self, principal: str | None = None) -> None:
        """Ends all streams of a principal immediately, on every replica. Call it when its rights have changed.

        Its clients must subscribe again. Their tokens are checked again, and `authorize` is called again.

        Args:
            principal: The subject of its token, or the token's client if the token has no subject. `subscribers()`
                shows it. None ends the streams of everybody.

        Raises:
            BusUnavailable, BusMismatch: The other replicas are notified when the bus is back. See `resource_updated`.
        """
        if principal is not None and not principal:
            raise ValueError("revoke() needs the name of a principal, or None for everybody.")
        await self._publish(ResourceUpdated(REVOKED + quote(principal or "", safe="")))

    async def event(
        self,
        name: str,
        payload: BaseModel | Mapping[str, Any],
        *,
        event_id: str | None = None,
        happened_at: float | None = None,
        about: str | None = None,
    ) -> str:
        """Publishes an event that was declared with `event()`, and returns its id once it is stored.

        Args:
            name: The name of the event, as declared.
            payload: The data: an instance of the declared model, or a mapping with its fields.
            event_id: The id, if the source has one. Receivers treat an event with a known id as a repetition.
            happened_at: The time of the event, in seconds since the epoch. By default, now.
            about: The URI of a resource. Only clients that may subscribe to this resource get the event.

        Raises:
            ValueError: No such event is declared, or the payload does not fit its model, or is too large.
            BusUnavailable: The bus cannot store the event now, or the server is not running. The event may be stored or
                not: publish it again with the same `event_id`.
        """
        if self._submit_event is None or self._loop is None:
            raise BusUnavailable("This server is not running, so it cannot store events. Publish while it runs.")
        work = self._submit_event(name, payload, event_id=event_id, happened_at=happened_at, about=about)
        if self._loop is asyncio.get_running_loop():
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def publish(self, change: Change, *, changed_at: float | None = None, before: str | None = None) -> None:
        """Publishes any change, as the methods above do.

        Raises:
            BusUnavailable, BusMismatch: See `resource_updated`.
            InvalidUri: The change has no valid URI.
            TypeError: The argument is not a change.
        """
        _check(change)
        await self._publish(change, changed_at, before)

    async def _publish(self, change: Change, changed_at: float | None = None, before: str | None = None) -> None:
        if self._loop is None or self._submit is None or self._loop is not asyncio.get_running_loop():
            self._publish_soon(change, changed_at, before)
        else:
            self._times.happened(change, changed_at, before)
            await self._submit(change)

    def soon(self, change: Change, *, changed_at: float | None = None) -> None:
        """Publishes `change` soon, from any thread, without waiting. Equal changes in one turn of the loop are merged.

        When this returns, the change is only in memory: it is lost if the process is killed now. Where that matters,
        await `resource_updated` or `publish` instead. If the bus cannot be reached, this is logged, and the change is
        kept until the bus is back.

        Raises:
            InvalidUri: The change has no valid URI.
            TypeError: The argument is not a change.
        """
        _check(change)
        self._publish_soon(change, changed_at, None)

    def _publish_soon(self, change: Change, changed_at: float | None, before: str | None) -> None:
        with self._lock:
            self._times.happened(change, changed_at, before)
            add_waiting(self._soon, change, None)
            if self._loop is None or self._scheduled:
                return
            self._scheduled = True
            self._loop.call_soon_threadsafe(self._send_soon)

    def subscribers(self, what: str | None = None) -> list[SubscriberInfo]:
        """Returns all subscribers, or only those of a list ("tools", "prompts", "resources") or of a URI."""
        return [subscriber.info for subscriber in (self._hub if what is None else self._hub.audience(what))]

    def counts(self) -> dict[str, int]:
        """Returns the number of subscribers of each list, and of each URI and prefix that has any.

        Subscribers that cannot be reached at present are counted only under "unreachable".
        """
        lists = {each: sum(one.reachable for one in self._hub.audience(each)) for each in FEATURES}
        unreachable = sum(not subscriber.reachable for subscriber in self._hub)
        return lists | self._hub.subscriptions() | {"unreachable": unreachable}

    def start(
        self,
        submit: Callable[[Change], Coroutine[Any, Any, None]],
        submit_event: Callable[..., Coroutine[Any, Any, str]] | None = None,
    ) -> None:
        """Begins to publish through these functions, on this event loop. Changes that were kept are published first.

        List changes from before the first run are dropped, because no client has seen an earlier list. List changes
        between two runs are kept, because clients of the first run may come back in the second.
        """
        with self._lock:
            if not self._has_run:
                self._soon = {change: None for change in self._soon if isinstance(change, ResourceUpdated)}
            self._has_run = True
            self._submit, self._submit_event = submit, submit_event
            self._loop = asyncio.get_running_loop()
            self._scheduled = bool(self._soon)
        if self._soon:
            self._send_soon()

    async def stop(self) -> None:
        """Publishes the changes that were kept so far. Later changes are kept for the next start."""
        if self._scheduled:
            self._send_soon()
        await self._background.finished()
        with self._lock:
            self._loop = self._submit = self._submit_event = None

    def _send_soon(self) -> None:
        with self._lock:
            self._scheduled = False
            submit = self._submit
            if submit is None:
                return  # It was stopped meanwhile: what waits is for the next start.
            changes, self._soon = self._soon, {}

        async def submit_quietly(change: Change) -> None:
            with suppress(TransportError):  # The change is kept, and the outage of the bus is logged.
                await submit(change)

        for change in changes:
            self._background.start(submit_quietly(change))


def _check(change: object) -> None:
    if not isinstance(change, Change):
        raise TypeError(
            f"Publish a change, e.g. ResourceUpdated(uri) or ToolsListChanged(), not {type(change).__name__}."
        )
    if isinstance(change, ResourceUpdated) and check_uri(change.uri).endswith("*"):
        raise InvalidUri(f"{change.uri!r} is a prefix. Prefixes are for subscribing: publish the URI of one resource.")
    if isinstance(change, ResourceUpdated) and change.uri.startswith(NOTICE):
        raise InvalidUri(f"{NOTICE!r} is reserved for messages between replicas. Use another scheme.")
