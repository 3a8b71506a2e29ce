"""Watched resources: the content now, and each new content, to as many watchers as there are, from one subscription.

A resource may be gone for a while (a note that is renamed, the last one with a tag): whoever has seen something already
waits until there is content again. Whoever has not may have mistyped its URI, and is told.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Protocol

from tidings.changes import check_uri
from tidings.client.cache import lasts
from tidings.client.config import Poll
from tidings.client.invocations import ResourceRead
from tidings.client.pulse import Pulse
from tidings.errors import InvalidUri, ResourceNotFound, TidingsError


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


class Watched:
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

    def __init__(self, number: int, pulse: Pulse, *, patient: bool) -> None:
        self._number = number
        self._patient = patient
        self._pulse = pulse
        self._missing: set[str] = set()
        self._news: dict[str, Watched] = {}
        self._seen: dict[str, str | None] = {}
        self._wake: asyncio.Future[None] | None = None

    def tell(self, watched: Watched) -> None:
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

    def _waits_for(self, watched: Watched) -> bool:
        """Whether it goes on although there is no content of this."""
        if not watched.is_gone:
            return False
        self._missing.add(watched.uri)
        return self._patient or bool(self._seen) or len(self._missing) < self._number


class Source(Protocol):
    """Where watched content comes from."""

    def watch_added(self, watched: Watched) -> None:
        """Somebody watches this: keep it current."""
        ...

    def watch_removed(self, watched: Watched) -> None:
        """Nobody watches this any more."""
        ...


class Watches:
    """All watched resources of one client."""

    def __init__(self, source: Source, pulse: Pulse) -> None:
        self._source = source
        self._pulse = pulse
        self._watched: dict[str, Watched] = {}
        self._watchers: set[Watcher] = set()

    def __contains__(self, uri: str) -> bool:
        return uri in self._watched

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._watched))

    def get(self, uri: str) -> Watched | None:
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

    def _hold(self, uri: str, watcher: Watcher) -> Watched:
        watched = self._watched.get(uri)
        is_new = watched is None
        if watched is None:
            watched = self._watched[uri] = Watched(uri)
        watched.watchers.add(watcher)
        if is_new:
            self._source.watch_added(watched)
        elif watched.latest is not None or watched.error is not None:
            watcher.tell(watched)
        return watched

    def _release(self, watched: Watched, watcher: Watcher) -> None:
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

    def start_polling(self, watched: Watched, poll: Poll, read: Callable[[str], None]) -> None:
        """Read it again and again: the server does not tell when it changes."""
        if watched.polling is None:
            watched.polling = asyncio.create_task(_poll(watched, poll, read))

    def stop_polling(self, watched: Watched) -> None:
        """It is told when it changes, or nobody watches it any more."""
        if watched.polling is not None:
            watched.polling.cancel()
            watched.polling = None


async def _poll(watched: Watched, poll: Poll, read: Callable[[str], None]) -> None:
    pause = poll.interval
    while True:
        before = watched.digest
        read(watched.uri)
        least = 0.0 if watched.latest is None else lasts(watched.latest.result)
        spread = 1 + random.uniform(-poll.jitter, poll.jitter)  # noqa: S311 - spreads load, guards nothing
        await asyncio.sleep(max(pause * spread, least))
        pause = poll.interval if watched.digest != before else min(pause * 1.5, poll.longest)
