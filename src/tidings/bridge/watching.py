"""`WatchedSources` hears of the changes of what somebody subscribes to, however the server behind it tells.

A server with subscriptions is subscribed to, once for all clients. What a server is silent about (many accept
subscriptions and never notify) is read again and again, while somebody listens, and compared. On a shared bus, each
read is claimed in a record that all replicas see, so that there is one in each interval.
"""

import asyncio
import hashlib
import json
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tidings._kit.bounded_json import as_dict, as_float, as_text
from tidings._kit.tasks import Wakeup
from tidings.bridge.settings import Ignored, Json
from tidings.bridge.upstream import Upstream
from tidings.bus import Records
from tidings.changes import ResourceUpdated
from tidings.client import events
from tidings.errors import ResourceNotFound, TidingsError, TransportError

logger = logging.getLogger(__name__)

_READY: Final = 5.0  # Seconds that a subscriber waits for the server to be subscribed to.
_LONGEST: Final = 12.0  # A pause grows up to this many intervals while nothing changes.
_KEPT: Final = 7 * 86_400.0  # Seconds for which the last state of a resource is remembered.
_SOON: Final = 0.05  # Seconds between a call that may have changed something and the next read.
_MOST_UNDER_PREFIX: Final = 500
_SETTLED: Final = 1.0  # Seconds after a change that is told, in which more of them are waited for.
_LARGEST_KEPT: Final = 1 << 20  # Bytes of a content that is kept for readers.

Read = Callable[[], Awaitable[Json]]


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of one resource: its server, its URI there, and how to read it."""

    upstream: Upstream
    uri: str
    read: Read
    interval: float
    is_fixed: bool  # The user has set the interval.
    can_be_told: bool  # It is a resource of the server, which may offer subscriptions.
    ignored: Ignored | None = None  # What does not count as a change.


@dataclass(frozen=True, slots=True)
class News:
    """Publishes changes, and remembers what was read last."""

    publish: Callable[[str], None]
    records: Records | None
    durable: bool


class SourceWatch:
    """One resource that somebody subscribes to."""

    def __init__(self, uri: str, source: Source, news: News, key: str) -> None:
        self.uri = uri
        self.source = source
        self.is_subscribed = False
        self.reads = 0
        self.changes = 0
        self.took: float | None = None  # The seconds of the last read. `trouble` says why it failed, if it did.
        self.trouble = ""
        self.read_at: float | None = None
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._news = news
        self._key = key
        self._last: str | None = None  # The state that this process knows.
        self._soon = Wakeup()
        self._is_hurried = False
        self._content: tuple[Json, float] | None = None
        self._task = asyncio.create_task(self._run(), name=f"tidings bridge watch of {uri}")

    async def aclose(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self.is_subscribed:
            with suppress(TidingsError, TimeoutError):
                async with asyncio.timeout(_READY):
                    await self.source.upstream.client.unsubscribe(self.source.uri)

    @property
    def is_told(self) -> bool:
        """Returns whether the server is subscribed to, and has shown that it notifies."""
        return self.is_subscribed and self.source.upstream.notifies

    def hurry(self) -> None:
        """Reads soon: something may have changed."""
        self._content = None
        self._is_hurried = True
        self._soon()

    def content(self) -> Json | None:
        """Returns the content as it was read last, if it is polled and that was within the interval."""
        if self.is_told or self._content is None or time.monotonic() - self._content[1] > self.source.interval:
            return None
        return self._content[0]

    def told(self) -> None:
        """Publishes a change that the server tells of."""
        self.changes += 1
        self._news.publish(self.uri)
        if self._news.durable:
            self.hurry()

    def _is_ready(self) -> None:
        if not self.ready.done():
            self.ready.set_result(None)

    async def _run(self) -> None:
        client = self.source.upstream.client
        await self.source.upstream.wakeup.until(lambda: client.connected)
        if self.source.can_be_told and client.supports_subscriptions:
            try:
                await client.subscribe(self.source.uri)
                self.is_subscribed = True
            except ResourceNotFound as error:
                if not self.ready.done():
                    self.ready.set_exception(error)
                    return
            except TidingsError as error:
                name = self.source.upstream.spec.name
                logger.info("%s refuses a subscription to %s, which is polled: %s", name, self.source.uri, error)
        await self._poll()
        await self._remember()

    async def _remember(self) -> None:
        """Keeps the state of a resource whose changes are told, so that the next process knows what it missed."""
        while self._news.durable:
            _, before = await self._claim()
            state, _ = await self._state()
            await self._store(state or before)
            if not self.ready.done() and None not in (state, before) and state != before:
                self._news.publish(self.uri)
            self._is_ready()
            await self._soon.wait()
            await asyncio.sleep(_SETTLED)
        self._is_ready()

    async def _poll(self) -> None:
        """Reads and compares, until the server notifies."""
        pause = 0.0
        while not self.is_told:
            if pause and not self._is_hurried:
                spread = 1 + random.uniform(-0.1, 0.1)  # noqa: S311 - spreads load, guards nothing
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause * spread):
                        await self._soon.wait()
            if self._is_hurried:
                await asyncio.sleep(_SOON)
            claimed, before = await self._claim()
            if not claimed:
                self._is_ready()
                pause = self.source.interval
                continue
            state, ttl = await self._state()
            await self._store(state or before)
            changed = state is not None and before is not None and state != before
            if changed:
                self.changes += 1
                self._news.publish(self.uri)
            self._is_ready()
            fastest = self.source.interval
            slower = pause * 1.5 if pause and not changed and not self.source.is_fixed else fastest
            pause = max(min(max(slower, fastest), fastest * _LONGEST), ttl)

    async def _claim(self) -> tuple[bool, str | None]:
        """Takes the turn to read, unless another replica has just read. Returns the last known state, too."""
        hurried, self._is_hurried = self._is_hurried, False
        if self._news.records is None:
            return True, self._last
        try:
            stored = await self._news.records.get(self._key)
            known = as_dict(json.loads(stored.value)) if stored else {}
            at, state = as_float(known.get("at")) or 0.0, as_text(known.get("state"))
            if not hurried and self._last is not None and 0 <= time.time() - at < self.source.interval * 0.8:
                self._last = state or self._last
                return False, state
            revision = stored.revision if stored else 0
            taken = await self._news.records.put(self._key, _record(state), seconds=_KEPT, revision=revision)
        except TransportError:  # Without the bus, each replica reads for itself.
            return True, self._last
        return taken is not None, state

    async def _store(self, state: str | None) -> None:
        self._last = state
        if self._news.records is not None:
            with suppress(TransportError):
                await self._news.records.put(self._key, _record(state), seconds=_KEPT)

    async def _state(self) -> tuple[str | None, float]:
        """Reads the resource. Returns a text that is equal for equal contents, None if it failed, and its TTL."""
        self.reads += 1
        began, self.trouble = time.monotonic(), ""
        try:
            result = await self.source.read()
        except ResourceNotFound:
            return "missing", 0.0
        except Exception as error:  # noqa: BLE001 - the next read may succeed
            self.trouble = str(error)
            logger.info("%s cannot be read now: %s", self.uri, error)
            return None, 0.0
        finally:
            self.read_at = time.monotonic()
            self.took = self.read_at - began
        contents = result.get("contents")
        if self.source.ignored is not None:
            contents = await asyncio.to_thread(self.source.ignored.compared, contents)
        text = json.dumps(contents, sort_keys=True, ensure_ascii=False)
        self._content = (result, self.read_at) if len(text) <= _LARGEST_KEPT else None
        return hashlib.sha256(text.encode(errors="replace")).hexdigest(), (as_float(result.get("ttlMs")) or 0.0) / 1000


def _record(state: str | None) -> bytes:
    return json.dumps({"at": time.time(), "state": state}).encode()


class WatchedSources:
    """Everything that somebody, or one `owner`, subscribes to. `find` returns the origin of a URI, or raises."""

    def __init__(
        self, find: Callable[[str], Source], members: Callable[[str], list[str]], news: News, owner: str | None
    ) -> None:
        self._find = find
        self._members = members
        self._news = news
        self._owner = owner or ""
        self._watches: dict[str, SourceWatch] = {}
        self._wanted: dict[str, set[str]] = {}  # The resources that each subscription stands for.

    def __bool__(self) -> bool:
        return bool(self._wanted)

    async def begin(self, uri: str) -> None:
        """Watches what a subscription stands for. Raises `ResourceNotFound` if the server says that there is none."""
        self._wanted.setdefault(uri, set())
        watches = self._adjust(uri)
        if watches:
            await asyncio.wait([watch.ready for watch in watches], timeout=_READY)
        if not uri.endswith("*"):
            for watch in watches:
                if watch.ready.done() and (error := watch.ready.exception()) is not None:
                    raise error

    async def end(self, uri: str) -> None:
        for member in self._wanted.pop(uri, set()):
            if member in self._watches and not any(member in wanted for wanted in self._wanted.values()):
                await self._watches.pop(member).aclose()

    def _adjust(self, uri: str) -> list[SourceWatch]:
        """Brings the watches of one subscription up to date."""
        members = self._members(uri)[:_MOST_UNDER_PREFIX] if uri.endswith("*") else [uri]
        wanted = self._wanted[uri]
        for member in members:
            if member not in self._watches:
                key = f"bridge/{hashlib.sha256(f'{self._owner} {member}'.encode()).hexdigest()}"
                self._watches[member] = SourceWatch(member, self._find(member), self._news, key)
            wanted.add(member)
        return [self._watches[member] for member in members]

    def lists_changed(self) -> None:
        """Watches what has come under the prefixes that somebody subscribes to, and what is there again."""
        for uri in [uri for uri in self._wanted if uri.endswith("*") or uri not in self._watches]:
            with suppress(TidingsError, ValueError):
                self._adjust(uri)

    async def renew(self, gone: Iterable[Upstream]) -> None:
        """Lets go of sessions that have ended. What they watched is watched in the new ones, if there are any."""
        lost = [member for member, watch in self._watches.items() if watch.source.upstream in gone]
        await asyncio.gather(*(self._watches.pop(member).aclose() for member in lost))
        self.lists_changed()
        for member in lost:
            self._news.publish(member)

    def hear(self, upstream: Upstream) -> None:
        """Publishes what the server tells."""

        def updated(event: ResourceUpdated) -> None:
            upstream.notifies = True
            uri = upstream.naming.uri_out(event.uri)
            if (watch := self._watches.get(uri)) is not None:
                watch.told()
            elif any(uri.startswith(wanted.removesuffix("*")) for wanted in self._wanted):
                self._news.publish(uri)

        def missed(_: events.ChangesMissed) -> None:
            for uri, watch in tuple(self._watches.items()):
                if watch.source.upstream is upstream and watch.is_subscribed:
                    self._news.publish(uri)

        upstream.client.on(ResourceUpdated, updated)
        upstream.client.on(events.ChangesMissed, missed)

    def hurry(self, upstream: Upstream) -> None:
        """Reads what is polled of a server soon: a tool was called that may have changed something."""
        for watch in self._watches.values():
            if watch.source.upstream is upstream and not watch.is_told:
                watch.hurry()

    def content(self, uri: str) -> Json | None:
        """Returns the content of a resource that is polled, if it was read within its interval."""
        watch = self._watches.get(uri)
        return None if watch is None else watch.content()

    def describe(self) -> list[Json]:
        """Returns what is watched, for the status of the bridge. `lag` is the age of what is known, in seconds."""
        now = time.monotonic()
        return [
            {
                "uri": watch.uri,
                "server": watch.source.upstream.spec.name,
                "by": "subscription" if watch.is_told else f"a read every {watch.source.interval:g} s",
                "reads": watch.reads,
                "changes": watch.changes,
                "read_seconds": None if watch.took is None else round(watch.took, 3),
                "lag": None if watch.is_told or watch.read_at is None else round(now - watch.read_at, 1),
                "trouble": watch.trouble or None,
            }
            for watch in self._watches.values()
        ]

    async def aclose(self) -> None:
        watches, self._watches = list(self._watches.values()), {}
        self._wanted.clear()
        await asyncio.gather(*(watch.aclose() for watch in watches))
