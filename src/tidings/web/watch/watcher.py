"""Watching pages: who wants it, and when each is due.

The watches are the store's, shared by every process on it. A page that is due is claimed by one process, which looks at
it (see `looking`) and says when it is due again. A page is watched as long as there is a cause: a subscription, which
ends with its process at the latest, or `TOOL`, which does not end until somebody says so.

No host gets more than half of the looks at the same time. One whose rate limit makes them slow, because a thousand of
its pages are watched, does not keep those of others waiting: what is too much of it is put off for some seconds.
"""

import asyncio
import logging
import random as chance
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

import anyio
from anyio.abc import TaskGroup

from tidings.web.ignore import IgnoreRules
from tidings.web.library import WebLibrary
from tidings.web.refresh import Intervals, PageUnknown, with_chance
from tidings.web.store.model import StoredPage, StoredWatch, StoreError
from tidings.web.watch.following import Follower
from tidings.web.watch.look import Looker
from tidings.web.watch.state import WatchState, Wish, uris_of

logger = logging.getLogger(__name__)

TOOL: Final = "tool"
"""The cause of a watch that somebody asked for by a tool: it survives this process and all its clients."""


_PUT_OFF: Final = (5.0, 30.0)
"""Seconds, from and to, by chance."""


class TooManyWatches(Exception):
    """As many pages are watched as may be. Says what to do."""


class PageWatcher:
    """Looks at the pages that somebody watches, from entering this until leaving it.

    Args:
        library: What fetches and keeps pages; its `on_change` is told of changes.
        limits: How often a page is looked at.
        at_once: How many are looked at at the same time.
        most: How many may be watched.
        lease: For how many seconds a page is claimed. A look that takes nearly as long is given up.
        rest: The longest wait, in seconds, before the store is asked what is due: other processes write to it, too.
        follow: Tell the clients of this process of changes, whoever found them. For processes that no bus connects.
        clock: Tells the time in seconds since 1970; the same as the store's.
        random: A number from 0 to 1.
    """

    def __init__(
        self,
        library: WebLibrary,
        *,
        limits: Intervals | None = None,
        at_once: int = 8,
        most: int = 10_000,
        lease: float = 180.0,
        rest: float = 20.0,
        follow: bool = False,
        clock: Callable[[], float] = time.time,
        random: Callable[[], float] = chance.random,
    ) -> None:
        self._library = library
        self._store = library.store
        self._limits = limits or Intervals()
        self._follower = Follower(library) if follow else None
        self._looker = Looker(library, self._limits, patience=lease * 0.75, follower=self._follower, clock=clock)
        self._at_once = at_once
        self._most = most
        self._lease = lease
        self._rest = rest
        self._clock = clock
        self._random = random
        self._causes: dict[str, set[str]] = {}
        self._left: set[str] = set()  # pages that nobody wants any more, if that cannot be written down at present
        self._turn = anyio.Lock()
        self._count: int | None = None
        self._busy: Counter[str] = Counter()  # looks, by host
        self._wake = asyncio.Event()
        self._scope = anyio.CancelScope()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._library.on_new_version = self.nudge
        if self._follower is not None:
            await self._follower.start()
        self._scope = anyio.CancelScope()
        self._task = asyncio.get_running_loop().create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._library.on_new_version = None
        if self._task is not None:
            # Not the task itself: that would break off what is being written, and nobody would learn what was claimed.
            self._scope.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([self._task])
            self._task = None

    # For those who want a page watched

    async def begin(
        self, page_id: str, cause: str = TOOL, *, ignore: IgnoreRules | None = None, every: float | None = None
    ) -> StoredWatch:
        """Watch a page from now on. Begun twice for the same cause, it is watched as was said last.

        Args:
            page_id: The page.
            cause: `TOOL`, or whatever tells subscriptions from each other, such as their URIs.
            ignore: What does not count as a change.
            every: The seconds between two looks; None: as the page's history gives it.

        Raises:
            PageUnknown: There is no such page, or none that can be fetched.
            TooManyWatches: There are as many as may be.
            StoreError: It could not be written down.
        """
        async with self._turn:
            watch = await self._begin(page_id, cause == TOOL, ignore or IgnoreRules(), every)
            if self._follower is not None:
                self._follower.begun(watch)
            if cause != TOOL:
                self._causes.setdefault(page_id, set()).add(cause)
                self._left.discard(page_id)
        self._wake.set()
        return watch

    async def end(self, page_id: str, cause: str = TOOL) -> bool:
        """End what was begun for this cause; whether the page is still watched, for whatever cause, by whomever.

        Raises:
            StoreError: It could not be written down.
        """
        async with self._turn:
            causes = self._causes.get(page_id, set())
            if cause != TOOL and causes - {cause}:
                causes.discard(cause)
                return True
            if cause != TOOL:
                self._causes.pop(page_id, None)
                self._left.add(page_id)
            watched = await self._store.end_watch(page_id, explicit=cause == TOOL)
            self._left.discard(page_id)
            self._count = None
            return watched

    async def nudge(self, page_id: str) -> None:
        """Somebody found another content of this page: if it is watched, compare now, or soon.

        If it is not, tell of it as it is: whoever watched it may have been cut off, and will ask for what they missed.
        """
        try:
            if self._follower is not None:
                await self._follower.compare(page_id, changed=True)
            elif await self._store.hasten(page_id):
                self._wake.set()
            elif page := await self._store.page_of(page_id):
                await self._tell_as_it_is(page)
        except StoreError as error:
            logger.warning("what changed on %s is told at its next look only: %s", page_id, error)

    async def look_at_all_due(self) -> int:
        """Look at every page that is due now, and return when that is done; how many they were."""
        looked = 0
        while claimed := await self._store.due(self._at_once, self._lease):
            looked += len(claimed)
            async with anyio.create_task_group() as tasks:
                for watch in claimed:
                    tasks.start_soon(self._look, watch)
        return looked

    async def _begin(self, page_id: str, explicit: bool, ignore: IgnoreRules, every: float | None) -> StoredWatch:
        page = await self._store.page_of(page_id)
        if page is None or page.page_id != page_id or page.url is None:
            raise PageUnknown(page_id)
        if not page.watched:
            await self._check_room()
        # Not before its time if it was just looked at, and at once if not: it may have changed since.
        now = self._clock()
        first = now + max(self._limits.least - page.age(now), 0.0)
        wish = Wish.begun(page, page.url, ignore, every)
        watch = await self._store.begin_watch(page_id, explicit=explicit, options=wish.to_json(), next_at=first)
        if watch is None:
            raise PageUnknown(page_id)
        if page.untold and self._follower is None and WatchState.from_json(watch.state).seen is None:
            # Somebody died before it was told, and no look knows of it. Who was subscribed then may be this one.
            await self._tell_as_it_is(page)
        return watch

    async def _tell_as_it_is(self, page: StoredPage) -> None:
        await self._library.on_change(uris_of(page.page_id), False)
        await self._store.told(page.page_id, page.content_hash)

    async def _check_room(self) -> None:
        if self._count is None or self._count >= self._most:
            self._count = len(await self._store.watches())
        if self._count >= self._most:
            raise TooManyWatches(
                f"{self._count:,} pages are watched, which is as many as may be: end some with `unwatch`, or start the "
                "server with a greater --max-watches."
            )
        self._count += 1

    # The schedule

    async def _run(self) -> None:
        with self._scope:
            async with anyio.create_task_group() as tasks:
                while True:
                    self._wake.clear()
                    pause = await self._round_or_rest(tasks)
                    with anyio.move_on_after(pause):
                        await self._wake.wait()

    async def _round_or_rest(self, tasks: TaskGroup) -> float:
        try:
            return await self._round(tasks)
        except StoreError as error:
            logger.warning("the watches cannot be read at present: %s", error)
        except Exception:
            logger.exception("what is due could not be found out; it is tried again")
        return self._rest

    async def _round(self, tasks: TaskGroup) -> float:
        """Begin the looks that are due and that there is room for; the seconds until there may be more."""
        await self._end_left()
        if self._follower is not None:
            await self._follower.catch_up()
        free = self._at_once - self._busy.total()
        if free == 0:
            await self._store.heartbeat()
            return self._rest
        with anyio.CancelScope(shield=True):  # stopped meanwhile: what is claimed is given back by its own look
            for watch in await self._store.due(free, self._lease):
                host = _host(watch)
                if self._busy[host] >= max(1, self._at_once // 2):
                    least, most = _PUT_OFF
                    later = self._clock() + least + (most - least) * self._random()
                    await self._store.reschedule(watch.page_id, later, failures=watch.failures)
                else:
                    self._busy[host] += 1
                    tasks.start_soon(self._work, watch, host)
        due = await self._store.next_due()
        # Not at once: what is due and was not claimed is another process's, which will be done with it.
        return self._rest if due is None else min(max(due - self._clock(), 0.1), self._rest)

    async def _end_left(self) -> None:
        """Write down what could not be when it ended: nobody asks for that a second time."""
        async with self._turn:
            for page_id in list(self._left):
                await self._store.end_watch(page_id, explicit=False)
                self._left.discard(page_id)

    async def _work(self, watch: StoredWatch, host: str) -> None:
        try:
            await self._look(watch)
        finally:
            self._busy -= Counter({host: 1})
            self._wake.set()

    async def _look(self, watch: StoredWatch) -> None:
        """Look at a page that was claimed, and give it back."""
        try:
            looked = await self._looker.look(watch)
            next_at = self._clock() + with_chance(looked.wait, self._limits, self._random)
            await self._store.reschedule(watch.page_id, next_at, failures=looked.failures, state=looked.state.to_json())
        except StoreError as error:
            logger.warning("%s is looked at again when its claim ends: %s", watch.url, error)
        except Exception:
            # Of this page only: what is raised here would end the looks at all others.
            logger.exception("%s is looked at again when its claim ends", watch.url)
        except BaseException:
            # Stopped: another process need not wait until the claim ends.
            with anyio.move_on_after(0.5, shield=True), suppress(StoreError):
                await self._store.release(watch.page_id)
            raise


def _host(watch: StoredWatch) -> str:
    return urlsplit(watch.url).hostname or ""
