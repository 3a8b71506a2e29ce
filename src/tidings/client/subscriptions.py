"""The subscriptions of a client over all its connections, and what follows from a change.

Subscriptions outlive a connection and are established again on the next one. The server then sends what was missed (a
Tidings server, from the cursor on); otherwise the past is unknown, and everything is read again. A copy in the cache is
*covered* as long as the server would have announced every change of it: it was read while its subscription was
established, and no change has arrived since.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from mcp_types import LoggingLevel

from tidings._kit.backoff import Pauses
from tidings._kit.tasks import Wakeup
from tidings.changes import MAX_URI_LENGTH, Change, Filter, ResourceUpdated, check_subscription
from tidings.client.cache import ContentCache, ResourceRead
from tidings.client.config import Poll
from tidings.client.events import ChangesMissed, EventHub, SubscriptionFailed, SubscriptionsChanged
from tidings.client.link import Link
from tidings.client.mirrors import Lists
from tidings.client.watching import Refresher, WatchedResource, Watches
from tidings.errors import ConnectionLost, NotSupported, TidingsError

if TYPE_CHECKING:
    from tidings.client.state_file import StateFile

logger = logging.getLogger(__name__)

_RETRY_DELAYS: Final = (0.5, 2.0, 10.0, 60.0)
_MOST_BROKEN_OFF: Final = 2  # Answers in a row that may be broken off before a subscription counts as refused.


class ChangeFeed(Protocol):
    """The changes that the server announces on one connection, in one era."""

    supported: bool  # True if the server offers subscriptions to resources.

    @property
    def is_deaf(self) -> bool:
        """True if changes may be missed at present: a stream is overdue, or was lost and is not open again yet."""
        ...

    async def sync(self, wanted: Filter) -> dict[str, TidingsError]:
        """Subscribes to exactly `wanted`. Returns what was refused, and why."""
        ...

    def hear(self, method: str, params: Mapping[str, Any]) -> bool:
        """Takes a notification. Returns True if it announced a change."""
        ...

    async def ping(self) -> None:
        """Asks the server for any answer."""

    async def set_log_level(self, level: LoggingLevel) -> None:
        """Asks for log messages of this level and above."""

    async def aclose(self) -> None: ...


def without(wanted: Filter, known: Filter) -> Filter:
    """Returns what is in `wanted` and not in `known`."""
    return Filter(
        tools=wanted.tools and not known.tools,
        prompts=wanted.prompts and not known.prompts,
        resources=wanted.resources and not known.resources,
        uris=wanted.uris - known.uris,
        prefixes=wanted.prefixes - known.prefixes,
    )


@dataclass(eq=False, repr=False, kw_only=True)
class Subscriptions:
    """The wanted subscriptions, the established ones, and which copies are known to be current.

    `refresher` reads what is watched, `prefix_refresher` what a prefix covers. With a `store`, covered copies stay
    covered for the next process when nobody watches them any more.
    """

    cache: ContentCache
    events: EventHub
    wakeup: Wakeup
    poll: Poll
    lists: Lists
    refresher: Refresher
    prefix_refresher: Refresher
    store: "StateFile | None" = None

    def __post_init__(self) -> None:
        self._explicit: dict[str, None] = {}  # Subscriptions of the user, established or about to be.
        self._prefixes: tuple[str, ...] = ()  # Those of `_explicit` that end in a `*`, without it.
        self._refreshed: set[str] = set()  # Those of `_explicit` that are prefixes, and are read after each change.
        self._asking: Counter[str] = Counter()  # The number of callers that wait for the first answer to each.
        self._kept: set[str] = set()  # URIs that nobody needs now, but the next process may.
        # Raised with each change of what is wanted. `_synced` is the version that the server has been told.
        self._version = 1
        self._synced = 0
        self._refused: dict[str, TidingsError] = {}
        self.known = Filter()  # The part of the filter that the server has announced without a gap, up to the cursor.
        self._established: frozenset[str] = frozenset()
        self._generations: dict[str, int] = {}
        self._covered: set[str] = set()
        self._feed: ChangeFeed | None = None
        self._is_told = True  # The server could be told what is wanted, the last time.
        self._task: asyncio.Task[None] | None = None
        self._broken: TidingsError | None = None
        self.cursor: str | None = None
        self.watches = Watches(self._watch_added, self._watch_removed, self.wakeup)

    def __iter__(self) -> Iterator[str]:
        return iter([uri for uri in self._explicit if uri in self])

    def __contains__(self, uri: object) -> bool:
        return uri in self._explicit and uri not in self._asking

    @property
    def all(self) -> frozenset[str]:
        """Everything that is wanted: by the user, for a watcher, for the next process."""
        return frozenset(self._explicit).union(self.watches.resources, self._kept)

    def _wants(self, uri: str) -> bool:
        return uri in self._explicit or uri in self.watches.resources or uri in self._kept

    @property
    def supported(self) -> bool:
        return self._feed is not None and self._feed.supported

    async def add(self, uris: Iterable[str], *, refresh: bool = False) -> None:
        """Subscribes, and waits until that is established. Raises the error of one that the server refused."""
        wanted = [check_subscription(uri) for uri in uris]
        new = [uri for uri in dict.fromkeys(wanted) if uri not in self._explicit or uri in self._asking]
        self._explicit.update(dict.fromkeys(new))
        self._asking.update(new)
        version = self._touch()
        try:
            await self.wakeup.until(lambda: self._synced >= version or self._broken is not None)
        except BaseException:
            self._give_up(new)
            raise
        if self._broken is not None:
            self._give_up(new)
            raise self._broken
        failed = {uri: self._refused[uri] for uri in new if uri in self._refused}
        established = self._asking.keys() & set(new).difference(failed)
        for uri in established:
            del self._asking[uri]
        self._give_up(failed)
        if established:
            self._announce()
        if refresh:
            for uri in (uri for uri in wanted if uri in self):
                self._refreshed.add(uri) if uri.endswith("*") else self.watches.pin(uri)
        if failed:
            raise next(iter(failed.values()))

    def _give_up(self, uris: Iterable[str]) -> None:
        """Drops those that no other caller waits for, and that the server has not accepted."""
        waited = [uri for uri in uris if uri in self._asking]
        self._asking.subtract(waited)
        if alone := [uri for uri in waited if not self._asking[uri]]:
            self._drop(alone)

    async def remove(self, uris: Iterable[str]) -> None:
        """Unsubscribes, and waits until the server has been told, if there is a connection."""
        old = [uri for uri in uris if uri in self._explicit]
        if not old:
            return
        version = self._drop(old)
        self._announce()
        await self.wakeup.until(lambda: self._synced >= version or self._feed is None)

    def _drop(self, uris: Iterable[str]) -> int:
        for uri in uris:
            self.watches.unpin(uri)
            self._refreshed.discard(uri)
            self._explicit.pop(uri, None)
            del self._asking[uri]
            self._kept.discard(uri)
            self._forget_unwanted(uri)
        return self._touch()

    def _forget_unwanted(self, uri: str) -> None:
        if not self._wants(uri):
            self._generations.pop(uri, None)
            self._uncover(uri)
            self._refused.pop(uri, None)
            self.refresher.forget(uri)

    def clear(self) -> None:
        had = any(self)
        self._drop([*self._explicit, *self._kept])
        self.known, self.cursor = Filter(), None
        if had:
            self._announce()

    def restore(self, uris: Iterable[str], covered: Iterable[str], cursor: str | None) -> None:
        self._explicit.update(dict.fromkeys(uris))
        if cursor is not None:
            self._covered = set(covered)
            self._kept = self._covered.difference(self._explicit)
            self.known, self.cursor = Filter.of(self._covered), cursor
        self._touch()

    def begin_anew(self) -> None:
        """Drops the content and the cursor of another server. What is wanted stays, and is asked of the new one."""
        held = self.cache.uris()
        self.known, self._covered, self._kept = Filter(), set(), set()
        self.cache.clear_content()
        self.moved(None)
        for uri in sorted(held):
            if uri in self._generations:
                self._generations[uri] += 1
            if self._concerned(uri):
                self.events.emit(ResourceUpdated(uri))

    def _touch(self) -> int:
        self._version += 1
        self._prefixes = tuple(text[:-1] for text in self._explicit if text.endswith("*"))
        self.wakeup()
        return self._version

    def _announce(self) -> None:
        if self.store is not None:
            self.store.note_subscriptions(frozenset(self))
        self.events.emit(SubscriptionsChanged(tuple(self)))

    def attach(self, link: Link, feed: ChangeFeed) -> None:
        self._feed = feed
        self._synced = 0
        for watched in self.watches.resources.values():
            watched.stop_polling()  # It begins again, with a read, if this server announces nothing either.
            if watched.is_gone:  # Its last change was announced, and could not be read.
                self.refresher.want(watched.uri)
        self._task = asyncio.create_task(self._keep_synced(link, feed))
        self.refresher.resume()
        self.prefix_refresher.resume()

    async def detach(self) -> None:
        task, feed, self._task, self._feed = self._task, self._feed, None, None
        self._synced = 0
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if feed is not None:
            await feed.aclose()

    def abandon(self, error: TidingsError | None) -> None:
        """Fails all callers that wait for a subscription: there will be no connection. None: they can wait again."""
        self._broken = error

    async def aclose(self) -> None:
        await self.refresher.aclose()
        await self.prefix_refresher.aclose()

    async def _keep_synced(self, link: Link, feed: ChangeFeed) -> None:
        pauses, broken_off = Pauses(_RETRY_DELAYS, below=0.5), 0
        while not link.over:
            version, lists = self._version, self.lists.wanted
            uris = self.all if feed.supported else frozenset[str]()
            wanted = Filter.of(uris, tools=lists.tools, prompts=lists.prompts, resources=lists.resources)
            try:
                refused = await feed.sync(wanted)
                problems, self._is_told = list(refused.values()), True
            except TidingsError as error:
                self._is_told = False
                if link.over:
                    return
                logger.info("subscriptions at %s: %s", link.name, error)
                self.lists.reload(wanted)
                refused, problems = dict.fromkeys(wanted.subscriptions, error), [error]
            # A replica may have died, and others go on; or the link is lost, which is noticed soon.
            if broken_off < _MOST_BROKEN_OFF and any(isinstance(error, ConnectionLost) for error in problems):
                broken_off, self._is_told = broken_off + 1, False
                await asyncio.sleep(pauses.next())
                continue
            broken_off = 0
            self._settle(version, wanted, refused, feed)
            pause: float | None = None
            if any(error.retryable for error in problems):
                pause = pauses.next() + max(error.retry_after or 0 for error in problems)
            else:
                pauses.reset()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self.wakeup.until(lambda version=version: self._version != version)

    def _settle(self, version: int, wanted: Filter, refused: dict[str, TidingsError], feed: ChangeFeed) -> None:
        if not feed.supported:
            none = NotSupported("The server offers no subscriptions to resources.", method="resources/subscribe")
            refused = dict.fromkeys(self.all, none)
        before, self._refused = self._refused, refused
        for uri, error in refused.items():
            self._uncover(uri)
            if uri not in before and (uri in self._established or uri in self.watches.resources):
                self.events.emit(SubscriptionFailed(uri, error))
        self.known = without(wanted, Filter.of(refused))
        self._established = self.known.subscriptions
        for uri in self._covered - self.known.uris:
            self._uncover(uri)
        self._synced = version
        for watched in tuple(self.watches.resources.values()):
            self._set_polling(watched.uri)
            if watched.latest is None and not watched.is_gone:
                self._provide(watched)
        self.wakeup()

    def _set_polling(self, uri: str) -> None:
        if (watched := self.watches.resources.get(uri)) is None:
            return
        if uri in self._refused:  # If the reason may pass, the subscription is tried again besides.
            watched.start_polling(self.poll, self.refresher.want)
        else:
            watched.stop_polling()

    @property
    def are_established(self) -> bool:
        """True if the server knows of everything that is wanted, and announces its changes."""
        return self._hears and self._synced >= self._version

    @property
    def is_reading(self) -> bool:
        return not (self.refresher.idle and self.prefix_refresher.idle)

    async def until_read(self, given_up: Callable[[], bool]) -> None:
        """Waits until everything that has changed by now is read, and every watcher has it, or until `given_up`."""
        await self.refresher.until_read(given_up)
        await self.prefix_refresher.until_read(given_up)
        await self.wakeup.until(lambda: given_up() or self.watches.handed_over)

    @property
    def _hears(self) -> bool:
        return self._feed is not None and self._is_told and not self._feed.is_deaf

    # The feed reports what it receives, synchronously and in the order of arrival.

    def changed(self, change: Change) -> None:
        if not isinstance(change, ResourceUpdated):
            self.lists.changed(change)
            return
        if not (concerned := self._concerned(change.uri)):
            return
        for uri in concerned:
            self._generations[uri] = self._generations.get(uri, 0) + 1
            self._covered.discard(uri)
            self.cache.clear_resource_and_resource_template(uri)
        self.events.emit(change)
        for uri in concerned:
            if uri in self.watches.resources:
                self.refresher.want(uri)
            elif not uri.endswith("*") and any(uri.startswith(prefix[:-1]) for prefix in self._refreshed):
                self.prefix_refresher.want(uri)

    def _concerned(self, uri: str) -> list[str]:
        """Returns the wanted resources that an update of `uri` concerns: itself, and those that it is a part of."""
        if len(uri) > MAX_URI_LENGTH:
            return []
        parents = {uri[:place] for place, sign in enumerate(uri) if sign in "/?#"}
        parents |= {parent + "/" for parent in parents}
        found = [parent for parent in parents if parent != uri and self._wants(parent)]
        if found or self._wants(uri) or uri.startswith(self._prefixes):
            found.append(uri)
        return found

    def unlisted(self, uri: str) -> None:
        """Drops the content of a resource that is gone from the server's list, and reads it again if it is wanted."""
        watched = self.watches.resources.get(uri)
        is_told = self.refresher.is_stale(uri) or (watched is not None and watched.is_gone)
        if not is_told and (watched is not None or uri in self._covered):
            self.changed(ResourceUpdated(uri))
        else:
            self.cache.clear_resource(uri)

    def _uncover(self, uri: str) -> None:
        if uri in self._covered:
            self._covered.discard(uri)
            if self.store is not None and (read := self.cache.peek(uri)) is not None:
                self.store.note_put(read, covered=False)

    def unknown(self, what: Filter) -> None:
        """From now on, changes of this are announced. What happened before is unknown, so it is read again."""
        if not what:
            return
        if without(what, self.known) != what:
            self.events.emit(ChangesMissed())
        self.lists.reload(what)
        held = self.cache.uris()
        for uri in what.uris:
            self._generations[uri] = self._generations.get(uri, 0) + 1
            self._uncover(uri)
            if uri in self.watches.resources or uri in held:
                self.refresher.want(uri)
        for prefix in what.prefixes:
            for uri in held - what.uris - self._covered:
                if uri.startswith(prefix):
                    self.changed(ResourceUpdated(uri))
            if prefix + "*" in self._established:  # Anything under it may have changed since.
                self.events.emit(ResourceUpdated(prefix + "*"))

    def refused(self, uri: str, error: TidingsError) -> None:
        """Changes of this are no longer announced."""
        self._refused[uri] = error
        self._uncover(uri)
        self.known = without(self.known, Filter.of([uri]))
        self._established = self.known.subscriptions
        self.events.emit(SubscriptionFailed(uri, error))
        self._set_polling(uri)
        if error.retryable:
            self._touch()

    def moved(self, cursor: str | None) -> None:
        """Everything up to this place in the server's log has been announced."""
        self.cursor = cursor
        if self.store is not None:
            self.store.note_cursor(cursor)

    def generation(self, uri: str) -> int:
        """Returns a number that grows with each change of `uri`."""
        return self._generations.get(uri, 0)

    def has_read(self, read: ResourceRead, generation: int, *, keep: bool = True) -> bool:
        """Caches a read and passes it on to watchers, unless the resource changed meanwhile. Returns whether it did."""
        if generation != self.generation(read.uri):
            return False
        if keep:
            if self._feed is not None and read.uri in self.known.uris and self._wants(read.uri):
                self._covered.add(read.uri)
            self.cache.put(read)
        self.pass_on(read)
        return True

    def pass_on(self, read: ResourceRead) -> None:
        if (watched := self.watches.resources.get(read.uri)) is not None:
            watched.update(read)

    def is_covered(self, uri: str) -> bool:
        """Returns whether the copy in the cache is current as far as the server has announced."""
        return uri in self._covered

    def is_fresh(self, uri: str) -> bool:
        """Returns whether the copy in the cache is known to be what the server has now."""
        return self._hears and self._synced > 0 and uri in self._covered and not self.refresher.is_stale(uri)

    def _watch_added(self, watched: WatchedResource) -> None:
        # If a newer version is on its way to the server, `known` may be about to change.
        if self._synced >= self._version and watched.uri in self.known.uris:
            self._provide(watched)
        else:
            self._touch()  # Subscribed first and read then, so that no change is missed in between.

    def _provide(self, watched: WatchedResource) -> None:
        """Gives a watcher its first content, from the cache if that is known to be current."""
        uri, cached = watched.uri, self.cache.peek(watched.uri)
        if cached is not None and self.is_fresh(uri):
            watched.update(cached)
        elif uri in self.known.uris and not self.refresher.is_stale(uri):
            self.refresher.want(uri)

    def _watch_removed(self, watched: WatchedResource) -> None:
        uri = watched.uri
        if uri in self._explicit or uri in self._kept:
            return
        if self.store is not None and uri in self._covered:
            self._kept.add(uri)
            return
        self._forget_unwanted(uri)
        self._touch()
