"""What a client wants to hear of, over all its connections, and what it does when it hears.

Subscriptions are kept while there is no connection, and established again on the next. What came before is then told by
the server (a Tidings server, from the cursor on) or is unknown, and read again. A copy is *covered* while every change
of it would have been told: it was read while its subscription was established, and nothing has been said since.

What a client wants to hear of: what its user subscribed to, what is watched, what the next process needs.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tidings.changes import (
    MAX_URI_LENGTH,
    Change,
    Filter,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
    check_subscription,
)
from tidings.client.cache import ContentCache, ResourceRead
from tidings.client.config import Poll
from tidings.client.events import EventHub, SubscriptionFailed, SubscriptionsChanged
from tidings.client.feed import ChangeFeed, without
from tidings.client.link import Link
from tidings.client.pulse import Wakeup
from tidings.client.watching import Refresher, WatchedResource, Watches
from tidings.errors import NotSupported, TidingsError

_SEPARATORS: Final = ("/", "?", "#")
"""What may stand between a resource's URI and that of a part of it."""


class Interest:
    """The URIs, and prefixes with a `*`, that somebody wants. After a change of them, call `changed`."""

    def __init__(self, watched: Watches) -> None:
        self._watched = watched
        self._asking: Counter[str] = Counter()
        """How many wait for the first word on a subscription."""
        self._prefixes: tuple[str, ...] = ()
        self.explicit: dict[str, None] = {}
        """What the user subscribed to, or is about to."""
        self.kept: set[str] = set()
        """What nobody wants now, but may after a restart."""

    def changed(self) -> None:
        """What is explicit is another now."""
        self._prefixes = tuple(text[:-1] for text in self.explicit if text.endswith("*"))

    def granted(self) -> list[str]:
        """What the user subscribed to, and the server took."""
        return [uri for uri in self.explicit if uri not in self._asking]

    def is_granted(self, uri: object) -> bool:
        """Whether this is one of those."""
        return uri in self.explicit and uri not in self._asking

    @property
    def all(self) -> frozenset[str]:
        """Everything."""
        return frozenset(self.explicit).union(self._watched, self.kept)

    def wants(self, uri: str) -> bool:
        """Whether somebody wants this very URI."""
        return uri in self.explicit or uri in self._watched or uri in self.kept

    def concerned(self, uri: str) -> list[str]:
        """The resources whose content an update of `uri` concerns: itself and what it is a part of, as far as
        somebody subscribed.
        """
        parents = {uri[:place] for place, sign in enumerate(uri) if sign in _SEPARATORS}
        parents |= {parent + "/" for parent in parents}
        found = [parent for parent in parents if parent != uri and self.wants(parent)]
        if found or self.wants(uri) or uri.startswith(self._prefixes):
            found.append(uri)
        return found

    def ask(self, uris: Iterable[str]) -> list[str]:
        """Somebody asks for these, and waits for a word on those that are returned."""
        new = [uri for uri in dict.fromkeys(uris) if uri not in self.explicit or uri in self._asking]
        self.explicit.update(dict.fromkeys(new))
        self._asking.update(new)
        return new

    def grant(self, uris: Iterable[str]) -> set[str]:
        """The server took these. Returns those that somebody waited for."""
        granted = self._asking.keys() & set(uris)
        for uri in granted:
            del self._asking[uri]
        return granted

    def give_up(self, uris: Iterable[str]) -> list[str]:
        """One who asked for these does not wait any more. Returns those that nobody waits for now, nor has got."""
        waited = [uri for uri in uris if uri in self._asking]
        self._asking.subtract(waited)
        return [uri for uri in waited if not self._asking[uri]]

    def drop(self, uri: str) -> None:
        """The user does not want this any more."""
        self.explicit.pop(uri, None)
        del self._asking[uri]
        self.kept.discard(uri)


logger = logging.getLogger(__name__)

_PAUSES: Final = (0.5, 2.0, 10.0, 60.0)
"""Seconds before a subscription that failed for a reason that may pass is tried again."""


class Subscriptions:
    """The wanted subscriptions, the established ones, and what is known to be current."""

    def __init__(
        self,
        *,
        cache: ContentCache,
        events: EventHub,
        pulse: Wakeup,
        poll: Poll,
        list_changed: Callable[[Change], None],
        lists: Callable[[], Filter],
    ) -> None:
        self._cache = cache
        self._events = events
        self._pulse = pulse
        self._poll = poll
        self._list_changed = list_changed
        self._lists = lists
        self._version = 1
        self._synced = 0
        self._refused: dict[str, TidingsError] = {}
        self._known = Filter()
        self._established: frozenset[str] = frozenset()
        self._generations: dict[str, int] = {}
        self._covered: set[str] = set()
        self._feed: ChangeFeed | None = None
        self._task: asyncio.Task[None] | None = None
        self.cursor: str | None = None
        self.keeps = False
        """Whether covered copies stay covered when nobody watches them any more: for a process that comes after."""
        self.broken: TidingsError | None = None
        """Why nothing will be established any more, if that is so."""
        self.watches = Watches(self, pulse)
        self._wanted = Interest(self.watches)
        self.refresher: Refresher
        self.on_cursor: Callable[[str | None], None] = lambda _: None
        self.on_uncovered: Callable[[str], None] = lambda _: None
        self.on_subscriptions: Callable[[frozenset[str]], None] = lambda _: None

    # What is wanted.

    def __iter__(self) -> Iterator[str]:
        return iter(self._wanted.granted())

    def __contains__(self, uri: object) -> bool:
        return self._wanted.is_granted(uri)

    @property
    def all(self) -> frozenset[str]:
        """Everything that is subscribed to: for the user, for a watcher, for the next process."""
        return self._wanted.all

    @property
    def supported(self) -> bool:
        """Whether the server that is connected offers subscriptions."""
        return self._feed is not None and self._feed.supported

    async def add(self, uris: Iterable[str]) -> None:
        """Subscribe, and wait until that is established.

        Raises:
            TidingsError: The server refused one of them; the others are subscribed to.
        """
        new = self._wanted.ask(map(check_subscription, uris))
        version = self._touch()
        try:
            await self._established_at(version)
        except BaseException:
            self._give_up(new)
            raise
        failed = {uri: self._refused[uri] for uri in new if uri in self._refused}
        established = self._wanted.grant(set(new).difference(failed))
        self._give_up(failed)
        if established:
            self._tell()
        if failed:
            raise next(iter(failed.values()))

    def _give_up(self, uris: Iterable[str]) -> None:
        """One who asked for these does not wait any more. What others wait for, or have got, stays."""
        if alone := self._wanted.give_up(uris):
            self._drop(alone)

    async def _established_at(self, version: int) -> None:
        await self._pulse.until(lambda: self._synced >= version or self.broken is not None)
        if self.broken is not None:
            raise self.broken

    async def remove(self, uris: Iterable[str]) -> None:
        """Unsubscribe, and wait until the server has been told, if there is one."""
        old = [uri for uri in uris if uri in self._wanted.explicit]
        if not old:
            return
        version = self._drop(old)
        self._tell()
        await self._pulse.until(lambda: self._synced >= version or self._feed is None)

    def _drop(self, uris: Iterable[str]) -> int:
        for uri in uris:
            self._wanted.drop(uri)
            self._forget(uri)
        return self._touch()

    def _forget(self, uri: str) -> None:
        """Nobody wants this any more, unless somebody does."""
        if not self._wanted.wants(uri):
            self._generations.pop(uri, None)
            self._uncover(uri)
            self._refused.pop(uri, None)
            self.refresher.forget(uri)

    def clear(self) -> None:
        """Want nothing any more."""
        had = any(self)
        self._drop(self.all - frozenset(self.watches))
        self._known, self.cursor = Filter(), None
        if had:
            self._tell()

    def restore(self, uris: Iterable[str], covered: Iterable[str], cursor: str | None) -> None:
        """Go on where an earlier process ended."""
        self._wanted.explicit.update(dict.fromkeys(uris))
        if cursor is not None:
            self._covered = set(covered)
            self._wanted.kept = self._covered.difference(self._wanted.explicit)
            self._known, self.cursor = Filter.of(self._covered), cursor
        self._touch()

    def _touch(self) -> int:
        self._version += 1
        self._wanted.changed()
        self._pulse()
        return self._version

    def _tell(self) -> None:
        self.on_subscriptions(frozenset(self))
        self._events.emit(SubscriptionsChanged(tuple(self)))

    # Keeping the server informed of it.

    @property
    def known(self) -> Filter:
        """What was told of without a gap, up to the cursor."""
        return self._known

    def attach(self, link: Link, feed: ChangeFeed) -> None:
        """Use this feed from now on."""
        self._feed = feed
        self._synced = 0
        self._task = asyncio.create_task(self._keep(link, feed))
        self.refresher.resume()

    async def detach(self) -> None:
        """The feed is of no use any more."""
        task, feed, self._task, self._feed = self._task, self._feed, None, None
        self._synced = 0
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if feed is not None:
            await feed.aclose()

    async def _keep(self, link: Link, feed: ChangeFeed) -> None:
        failures = 0
        while not link.over:
            version, wanted = self._version, self._filter(feed)
            failed: TidingsError | None = None
            try:
                refused = await feed.sync(wanted)
            except TidingsError as error:
                failed = error
                if link.over:
                    return
                logger.info("subscriptions at %s: %s", link.name, error)
                for change in _list_changes(wanted):
                    self._list_changed(change)
                refused = dict.fromkeys(wanted.subscriptions, error)
            self._settle(version, wanted, refused, feed)
            retry = any(error.retryable for error in (*refused.values(), failed) if error is not None)
            failures = failures + 1 if retry else 0
            pause = _PAUSES[min(failures, len(_PAUSES)) - 1] if retry else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._pulse.until(lambda version=version: self._version != version)

    def _filter(self, feed: ChangeFeed) -> Filter:
        lists = self._lists()
        uris = self.all if feed.supported else frozenset[str]()
        return Filter.of(uris, tools=lists.tools, prompts=lists.prompts, resources=lists.resources)

    def _settle(self, version: int, wanted: Filter, refused: dict[str, TidingsError], feed: ChangeFeed) -> None:
        if not feed.supported:
            none = NotSupported("The server offers no subscriptions to resources.", method="resources/subscribe")
            refused = dict.fromkeys(self.all, none)
        before, self._refused = self._refused, refused
        for uri, error in refused.items():
            self._uncover(uri)
            if uri not in before and uri in self._established:
                self._events.emit(SubscriptionFailed(uri, error))
        self._known = Filter(
            tools=wanted.tools,
            prompts=wanted.prompts,
            resources=wanted.resources,
            uris=wanted.uris - refused.keys(),
            prefixes=frozenset(prefix for prefix in wanted.prefixes if prefix + "*" not in refused),
        )
        self._established = self._known.subscriptions
        for uri in self._covered - self._known.uris:
            self._uncover(uri)
        self._synced = version
        for uri in self.watches:
            self._set_polling(uri)
            if (watched := self.watches.get(uri)) is not None and watched.latest is None and not watched.is_gone:
                self._provide(watched)
        self._pulse()

    def _set_polling(self, uri: str) -> None:
        if (watched := self.watches.get(uri)) is None:
            return
        if uri in self._refused:  # If for a while only, the subscription is tried again besides.
            self.watches.start_polling(watched, self._poll, self.refresher.want)
        else:
            self.watches.stop_polling(watched)

    @property
    def settled(self) -> bool:
        """Whether the server has been told all that is wanted now."""
        return self._hears and self._synced >= self._version

    @property
    def _hears(self) -> bool:
        return self._feed is not None and not self._feed.is_deaf

    # Hearing of changes.

    def changed(self, change: Change) -> None:
        if not isinstance(change, ResourceUpdated):
            self._list_changed(change)
            return
        concerned = self._wanted.concerned(change.uri) if len(change.uri) <= MAX_URI_LENGTH else []
        if not concerned:
            return
        for uri in concerned:
            self._let_go(uri)
        self._events.emit(change)
        for uri in concerned:
            if uri in self.watches:
                self.refresher.want(uri)

    def _let_go(self, uri: str) -> None:
        self._generations[uri] = self._generations.get(uri, 0) + 1
        self._covered.discard(uri)
        self._cache.clear_resource_and_resource_template(uri)

    def _uncover(self, uri: str) -> None:
        if uri in self._covered:
            self._covered.discard(uri)
            self.on_uncovered(uri)

    def unknown(self, what: Filter) -> None:
        for change in _list_changes(what):
            self._list_changed(change)
        held = self._cache.uris()
        for uri in what.uris:
            self._generations[uri] = self._generations.get(uri, 0) + 1
            self._uncover(uri)
            if uri in self.watches or uri in held:
                self.refresher.want(uri)
        for prefix in what.prefixes:
            for uri in held - what.uris - self._covered:
                if uri.startswith(prefix):
                    self.changed(ResourceUpdated(uri))
            if prefix + "*" in self._established:  # It was heard of before: what stands for it now is not known.
                self._events.emit(ResourceUpdated(prefix + "*"))

    def refused(self, uri: str, error: TidingsError) -> None:
        self._refused[uri] = error
        self._uncover(uri)
        self._known = without(self._known, Filter.of([uri]))
        self._established = self._known.subscriptions
        self._events.emit(SubscriptionFailed(uri, error))
        self._set_polling(uri)
        if error.retryable:
            self._touch()

    def moved(self, cursor: str | None) -> None:
        self.cursor = cursor
        self.on_cursor(cursor)

    def resumed(self) -> None:
        self._pulse()

    # Reading.

    def generation(self, uri: str) -> int:
        """A number that is another when something was heard of `uri` since."""
        return self._generations.get(uri, 0)

    def has_read(self, read: ResourceRead, generation: int, *, keep: bool = True) -> bool:
        """Somebody read a resource: it counts, and is kept, unless it changed meanwhile. Whether it counts."""
        if generation != self.generation(read.uri):
            return False
        if keep:
            if self._feed is not None and read.uri in self._known.uris and self._wanted.wants(read.uri):
                self._covered.add(read.uri)
            self._cache.put(read)
        self.pass_on(read)
        return True

    def pass_on(self, read: ResourceRead) -> None:
        """Let watchers have this content."""
        if (watched := self.watches.get(read.uri)) is not None:
            watched.update(read)

    def is_covered(self, uri: str) -> bool:
        """Whether the copy in the cache would have been let go of, had it changed, up to the last word heard."""
        return uri in self._covered

    def is_fresh(self, uri: str) -> bool:
        """Whether the copy in the cache is known to be the server's, now."""
        return self._hears and self._synced > 0 and uri in self._covered and not self.refresher.is_stale(uri)

    # What watchers need.

    def watch_added(self, watched: WatchedResource) -> None:
        # While the server is being told of something newer, what is known may be about to end.
        if self._synced >= self._version and watched.uri in self._known.uris:
            self._provide(watched)
        else:
            self._touch()  # Established first, read then: so no change falls between.

    def _provide(self, watched: WatchedResource) -> None:
        """Give a watcher its first content: from the cache if that is known to be current."""
        uri = watched.uri
        cached = self._cache.get_resource(uri)
        if cached is not None and self.is_fresh(uri):
            watched.update(cached)
        elif uri in self._known.uris and not self.refresher.is_stale(uri):
            self.refresher.want(uri)

    def watch_removed(self, watched: WatchedResource) -> None:
        uri = watched.uri
        if uri in self._wanted.explicit or uri in self._wanted.kept:
            return
        if self.keeps and uri in self._covered:
            self._wanted.kept.add(uri)
            return
        self._forget(uri)
        self._touch()


def _list_changes(what: Filter) -> Iterator[Change]:
    if what.tools:
        yield ToolsListChanged()
    if what.prompts:
        yield PromptsListChanged()
    if what.resources:
        yield ResourcesListChanged()
