"""Watched resources: the content now, and each new content, to as many watchers as there are, from one subscription."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Protocol

from tidings.client.config import Poll
from tidings.client.invocations import ResourceRead
from tidings.client.pulse import Pulse
from tidings.errors import TidingsError


class Watched:
    """One watched resource, for all who watch it."""

    __slots__ = ("changed", "digest", "error", "latest", "polling", "uri", "users")

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.users = 0
        self.latest: ResourceRead | None = None
        self.digest: str | None = None
        self.error: TidingsError | None = None
        self.changed = Pulse()
        self.polling: asyncio.Task[None] | None = None

    def update(self, read: ResourceRead) -> bool:
        """Take new content. False if it is the same as before."""
        digest = read.digest
        self.error = None
        if digest == self.digest:
            return False
        self.latest, self.digest = read, digest
        self.changed()
        return True

    def fail(self, error: TidingsError) -> None:
        """Tell those who watch that there will be no more."""
        self.error = error
        self.changed()


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

    def __init__(self, source: Source) -> None:
        self._source = source
        self._watched: dict[str, Watched] = {}

    def __contains__(self, uri: str) -> bool:
        return uri in self._watched

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._watched))

    def get(self, uri: str) -> Watched | None:
        """The watched resource with this URI, if it is watched."""
        return self._watched.get(uri)

    async def watch(self, uris: Sequence[str]) -> AsyncGenerator[ResourceRead]:
        """The content of each now, and again whenever one is different. Only the newest is kept for a slow reader."""
        watched = [self._hold(uri) for uri in dict.fromkeys(uris)]
        seen: dict[str, str | None] = {}
        try:
            while True:
                ready = [each for each in watched if each.error is not None or seen.get(each.uri) != each.digest]
                for each in ready:
                    if each.error is not None:
                        raise each.error
                    seen[each.uri] = each.digest
                    if each.latest is not None:
                        yield each.latest
                if not ready:
                    await _first(watched)
        finally:
            for each in watched:
                self._release(each)

    def _hold(self, uri: str) -> Watched:
        watched = self._watched.get(uri)
        if watched is None:
            watched = self._watched[uri] = Watched(uri)
        watched.users += 1
        if watched.users == 1:
            self._source.watch_added(watched)
        return watched

    def _release(self, watched: Watched) -> None:
        watched.users -= 1
        if watched.users == 0:
            self._watched.pop(watched.uri, None)
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


async def _first(watched: Sequence[Watched]) -> None:
    """Wait until one of them changes."""
    if len(watched) == 1:
        await watched[0].changed.wait()
        return
    waits = [asyncio.ensure_future(each.changed.wait()) for each in watched]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def _poll(watched: Watched, poll: Poll, read: Callable[[str], None]) -> None:
    pause = poll.interval
    while True:
        before = watched.digest
        read(watched.uri)
        lasts = 0.0 if watched.latest is None else watched.latest.result.ttl_ms / 1000
        spread = 1 + random.uniform(-poll.jitter, poll.jitter)  # noqa: S311 - spreads load, guards nothing
        await asyncio.sleep(max(pause * spread, lasts))
        pause = poll.interval if watched.digest != before else min(pause * 1.5, poll.longest)
