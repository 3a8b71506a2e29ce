"""Watched resources: the content now, and each new content, to as many watchers as there are, from one subscription.

A resource may be gone for a while (a note that is renamed, the last one with a tag): whoever has seen something already
waits until there is content again. Whoever has not may have mistyped its URI, and is told.

The lane in which content is read again, beside the queue of the user's requests.

A resource is read again when it may have changed. However often that is said while one read runs, one more follows.
What could not be read for a reason that may pass is tried again; a connection that was lost is waited for.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import Final, Protocol, cast

from tidings.changes import check_uri
from tidings.client.cache import ResourceRead, lasts
from tidings.client.config import Poll
from tidings.client.pulse import Wakeup
from tidings.errors import Cancelled, GaveUp, InvalidUri, NotConnected, ResourceNotFound, TidingsError


def check_watched(uri: object) -> str:
    """`uri` as one that can be watched.

    Raises:
        InvalidUri: It is none, or stands for many.
    """
    if isinstance(uri, str) and uri.endswith("*"):
        shown = uri if len(uri) <= 80 else "…" + uri[-79:]
        raise InvalidUri(
            f"`watch` takes the URIs of resources, and {shown!a} stands for many. For all that begin so: "
            f"subscribe([{shown!a}]) and on(ResourceUpdated, ...)."
        )
    return check_uri(uri)


class WatchedResource:
    """One watched resource, for all who watch it."""

    __slots__ = ("digest", "error", "latest", "polling", "uri", "watchers")

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.watchers: set[Watcher] = set()
        self.latest: ResourceRead | None = None
        self.digest: str | None = None
        self.error: TidingsError | None = None
        self.polling: asyncio.Task[None] | None = None

    def update(self, read: ResourceRead) -> None:
        """Take new content; if it is the same as before, nobody is told."""
        self.error = None
        if (digest := read.digest) != self.digest:
            self.latest, self.digest = read, digest
            self._tell()

    def fail(self, error: TidingsError) -> None:
        """Tell those who watch that there will be no more; or that it is gone, and may come back."""
        self.error = error
        if self.is_gone:  # What comes after it is new even if it is the same, to whoever begins to watch meanwhile.
            self.latest = self.digest = None
        self._tell()

    @property
    def is_gone(self) -> bool:
        """Whether there is no such resource at present."""
        return isinstance(self.error, ResourceNotFound)

    def _tell(self) -> None:
        for watcher in self.watchers:
            watcher.tell(self)


class Watcher:
    """One loop over one or more watched resources: so many, and whether it waits though none of them is there."""

    __slots__ = ("_missing", "_news", "_number", "_patient", "_pulse", "_seen", "_wake")

    def __init__(self, number: int, pulse: Wakeup, *, patient: bool) -> None:
        self._number = number
        self._patient = patient
        self._pulse = pulse
        self._missing: set[str] = set()
        self._news: dict[str, WatchedResource] = {}
        self._seen: dict[str, str | None] = {}
        self._wake: asyncio.Future[None] | None = None

    def tell(self, watched: WatchedResource) -> None:
        """There is something new of this."""
        self._news[watched.uri] = watched
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    @property
    def owed(self) -> bool:
        """Whether it waits although there is something new: it will have it in a moment."""
        return self._wake is not None and bool(self._news)

    async def next(self) -> ResourceRead:
        """The next content that is different from what was seen.

        Raises:
            ResourceNotFound: None of them is there, nor was, and it is not to wait for them.
            TidingsError: There will be no more of one of them.
        """
        while True:
            while self._news:
                watched = self._news.pop(next(iter(self._news)))
                if watched.error is not None and not self._waits_for(watched):
                    raise watched.error
                if watched.latest is not None and self._seen.get(watched.uri) != watched.digest:
                    self._seen[watched.uri] = watched.digest
                    return watched.latest
            self._wake = asyncio.get_running_loop().create_future()
            try:
                await self._wake
            finally:
                self._wake = None
            self._pulse()  # It is not owed anything any more, whether or not this is for it to see.

    def _waits_for(self, watched: WatchedResource) -> bool:
        """Whether it goes on although there is no content of this."""
        if not watched.is_gone:
            return False
        self._missing.add(watched.uri)
        return self._patient or bool(self._seen) or len(self._missing) < self._number


class WatchSource(Protocol):
    """Where watched content comes from."""

    def watch_added(self, watched: WatchedResource) -> None:
        """Somebody watches this: keep it current."""
        ...

    def watch_removed(self, watched: WatchedResource) -> None:
        """Nobody watches this any more."""
        ...


class Watches:
    """All watched resources of one client."""

    def __init__(self, source: WatchSource, pulse: Wakeup) -> None:
        self._source = source
        self._pulse = pulse
        self._watched: dict[str, WatchedResource] = {}
        self._watchers: set[Watcher] = set()

    def __contains__(self, uri: str) -> bool:
        return uri in self._watched

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._watched))

    def get(self, uri: str) -> WatchedResource | None:
        """The watched resource with this URI, if it is watched."""
        return self._watched.get(uri)

    @property
    def handed_over(self) -> bool:
        """Whether every loop that waits for content has been given what there is."""
        return not any(watcher.owed for watcher in self._watchers)

    async def watch(self, uris: Sequence[str], *, patient: bool = False) -> AsyncGenerator[ResourceRead]:
        """The content of each now, and again whenever one is different. Only the newest is kept for a slow reader."""
        uris = tuple(dict.fromkeys(uris))
        watcher = Watcher(len(uris), self._pulse, patient=patient)
        self._watchers.add(watcher)
        watched = [self._hold(uri, watcher) for uri in uris]
        try:
            while True:
                yield await watcher.next()
        finally:
            self._watchers.discard(watcher)
            for each in watched:
                self._release(each, watcher)

    def _hold(self, uri: str, watcher: Watcher) -> WatchedResource:
        watched = self._watched.get(uri)
        is_new = watched is None
        if watched is None:
            watched = self._watched[uri] = WatchedResource(uri)
        watched.watchers.add(watcher)
        if is_new:
            self._source.watch_added(watched)
        elif watched.latest is not None or watched.error is not None:
            watcher.tell(watched)
        return watched

    def _release(self, watched: WatchedResource, watcher: Watcher) -> None:
        watched.watchers.discard(watcher)
        if not watched.watchers and self._watched.get(watched.uri) is watched:
            del self._watched[watched.uri]
            self.stop_polling(watched)
            self._source.watch_removed(watched)

    def fail_all(self, error: TidingsError) -> None:
        """There will be no more of any of them."""
        for watched in tuple(self._watched.values()):
            self.stop_polling(watched)
            watched.fail(error)

    def start_polling(self, watched: WatchedResource, poll: Poll, read: Callable[[str], None]) -> None:
        """Read it again and again: the server does not tell when it changes."""
        if watched.polling is None:
            watched.polling = asyncio.create_task(_poll(watched, poll, read))

    def stop_polling(self, watched: WatchedResource) -> None:
        """It is told when it changes, or nobody watches it any more."""
        if watched.polling is not None:
            watched.polling.cancel()
            watched.polling = None


async def _poll(watched: WatchedResource, poll: Poll, read: Callable[[str], None]) -> None:
    pause = poll.interval
    while True:
        before = watched.digest
        read(watched.uri)
        least = 0.0 if watched.latest is None else lasts(watched.latest.result)
        spread = 1 + random.uniform(-poll.jitter, poll.jitter)  # noqa: S311 - spreads load, guards nothing
        await asyncio.sleep(max(pause * spread, least))
        pause = poll.interval if watched.digest != before else min(pause * 1.5, poll.longest)


logger = logging.getLogger(__name__)

_AT_ONCE: Final = 16
_PAUSES: Final = (0.2, 1.0, 5.0, 30.0)

Read = Callable[[str], Awaitable[ResourceRead]]


class Refresher:
    """Reads what is stale, a few at a time, until nothing is."""

    def __init__(
        self, read: Read, *, failed: Callable[[str, TidingsError], None], pulse: Wakeup, at_once: int = _AT_ONCE
    ) -> None:
        self._read = read
        self._failed = failed
        self._pulse = pulse
        self._at_once = at_once
        self._stale: dict[str, None] = {}
        self._reading: set[str] = set()
        self._failures: dict[str, int] = {}
        self._workers: set[asyncio.Task[None]] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._parked: set[str] = set()

    def want(self, uri: str) -> None:
        """Read this, once more if it is being read."""
        self._stop_timer(uri)
        self._parked.discard(uri)
        self._stale[uri] = None
        if len(self._workers) < self._at_once and uri not in self._reading:
            self._workers.add(asyncio.create_task(self._work()))

    def forget(self, uri: str) -> None:
        """This need not be read any more."""
        self._stop_timer(uri)
        self._parked.discard(uri)
        self._stale.pop(uri, None)
        self._failures.pop(uri, None)

    def is_stale(self, uri: str) -> bool:
        """Whether this waits to be read, or is being read."""
        return uri in self._stale or uri in self._reading or uri in self._timers or uri in self._parked

    @property
    def idle(self) -> bool:
        """Whether nothing waits, and nothing is being read."""
        return not (self._stale or self._reading or self._timers or self._parked)

    async def _work(self) -> None:
        try:
            await self._read_all()
        finally:
            # Here, not when the task is found to have ended: who wants something meanwhile starts another.
            self._workers.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _read_all(self) -> None:
        while (uri := next((uri for uri in self._stale if uri not in self._reading), None)) is not None:
            del self._stale[uri]
            self._reading.add(uri)
            try:
                await self._read(uri)
                self._failures.pop(uri, None)
            except TidingsError as error:
                self._deal_with(uri, error)
            except Exception:
                logger.exception("reading %s again failed", uri)
            finally:
                self._reading.discard(uri)
                self._pulse()

    def _deal_with(self, uri: str, error: TidingsError) -> None:
        if uri in self._stale:
            return  # It is read once more in any case.
        if isinstance(error, NotConnected | GaveUp):
            self._parked.add(uri)
        elif error.retryable or isinstance(error, Cancelled):
            failures = self._failures[uri] = self._failures.get(uri, 0) + 1
            pause = _PAUSES[min(failures, len(_PAUSES)) - 1]
            self._timers[uri] = asyncio.get_running_loop().call_later(pause, self.want, uri)
        if not isinstance(error, Cancelled):  # Somebody cancelled this read; nobody gave up what it is for.
            self._failed(uri, error)

    def resume(self) -> None:
        """There is a connection again: go on with what was put aside for want of one."""
        for uri in tuple(self._parked):
            self.want(uri)

    def _stop_timer(self, uri: str) -> None:
        if (timer := self._timers.pop(uri, None)) is not None:
            timer.cancel()

    async def aclose(self) -> None:
        """Stop reading."""
        self._stale.clear()
        self._parked.clear()
        for uri in tuple(self._timers):
            self._stop_timer(uri)
        workers = tuple(self._workers)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        self._workers.difference_update(workers)  # One that had not begun could not take itself out.
