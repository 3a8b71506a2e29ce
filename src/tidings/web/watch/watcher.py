"""`PageWatcher`: the watches, when each page is due, and a look at it.

The watches are in the store, shared by every process on it. A page that is due is claimed by one process. No host gets
more than half of the looks at the same time, so that a slow one does not keep others waiting.

A look asks, stores, notifies and schedules, in this order. If anything breaks off in between, the next look announces
it; and as versions are compared with the one that was announced last, nothing is announced twice.

Two answers may be temporary, and are believed when they come twice in a row: that the page does not exist, and that it
is empty. A look that got no turn, because of rate limits or busy workers, is not a failure.
"""

import asyncio
import logging
import random as chance
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, Self
from urllib.parse import urlsplit

import anyio
from anyio.abc import TaskGroup

from tidings._kit.backoff import jittered, retry_after
from tidings.web.extract.model import ExtractionFailed
from tidings.web.fetch.request import FetchError, RateLimited
from tidings.web.ignore import IgnoreRules
from tidings.web.library import BecameEmpty, PageUnknown, Refreshed, WebLibrary
from tidings.web.pages import HttpFailed
from tidings.web.store.model import StoredPage, StoredWatch, StoreError
from tidings.web.watch.state import Intervals, SeenVersion, WatchPlan, WatchState, fresh_for, holds, of_part, uris_of

logger = logging.getLogger(__name__)

TOOL: Final = "tool"  # the cause of a watch by a tool: it survives this process and all its clients

_PUT_OFF: Final = (5.0, 30.0)  # the range of a random delay, in seconds
_NO_TURN: Final = {"busy", "stopped"}  # kinds of failed extractions that say nothing about the page


class TooManyWatches(Exception):
    """The limit of watched pages is reached. The message says what to do."""


@dataclass(eq=False)
class PageWatcher:
    """Looks at watched pages while it is entered."""

    library: WebLibrary  # fetches and keeps pages; its `on_change` notifies subscribers
    _: KW_ONLY
    limits: Intervals = field(default_factory=Intervals)  # how often a page is looked at
    at_once: int = 8  # looks at the same time
    most: int = 10_000  # pages that may be watched
    lease: float = 180.0  # seconds for which a page is claimed; a look that takes nearly as long is stopped
    rest: float = 20.0  # the longest wait before the store is asked what is due: other processes write to it, too
    random: Callable[[], float] = chance.random  # from 0 to 1

    def __post_init__(self) -> None:
        self._store = self.library.store
        self._patience = self.lease * 0.75  # seconds that a look may take
        self._causes: dict[str, set[str]] = {}
        self._to_end: set[str] = set()  # pages whose watch has ended, until the store has it
        self._turn = anyio.Lock()
        self._count: int | None = None
        self._busy: Counter[str] = Counter()  # looks, by host
        self._wake = asyncio.Event()
        self._scope = anyio.CancelScope()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self.library.on_new_version = self.nudge
        self._scope = anyio.CancelScope()
        self._task = asyncio.get_running_loop().create_task(self._run())
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.library.on_new_version = None
        if self._task is not None:
            # Not the task itself: that would break off a write, and leave unknown what was claimed.
            self._scope.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([self._task])
            self._task = None

    async def begin(
        self,
        page_id: str,
        cause: str = TOOL,
        *,
        ignore: IgnoreRules | None = None,
        every: float | None = None,
        when: str = "",
    ) -> StoredWatch:
        """Watches a page every so many seconds, or as often as its history suggests. The last call for a cause counts.

        `cause` is `TOOL`, or a text that identifies a subscription, such as its URI. Raises `PageUnknown` for a page
        that cannot be fetched, `TooManyWatches` or `StoreError`.
        """
        async with self._turn:
            page = await self._store.page_of(page_id)
            if page is None or page.page_id != page_id or page.url is None:
                raise PageUnknown(page_id)
            if not page.watched:
                await self._check_room()
            # Not before its time if it was just looked at, and at once if not: it may have changed since.
            now = self._store.clock()
            first = now + max(self.limits.least - page.age(now), 0.0)
            plan = WatchPlan.begun(page, page.url, ignore or IgnoreRules(), every)
            newest = await self._store.get(page.versions[0].source_id) if when and page.versions else None
            when = of_part(when) if plan.options.part else when
            plan = replace(plan, when=when, held=newest is not None and holds(when, newest.packet))
            watch = await self._store.begin_watch(
                page_id, explicit=cause == TOOL, options=plan.to_json(), next_at=first
            )
            if watch is None:
                raise PageUnknown(page_id)
            if page.unannounced and WatchState.from_json(watch.state).seen is None:
                # A process died before it announced the change, and no look knows of it. This may be its subscriber.
                await self._announce(page)
            if cause != TOOL:
                self._causes.setdefault(page_id, set()).add(cause)
                self._to_end.discard(page_id)
        self._wake.set()
        return watch

    async def end(self, page_id: str, cause: str = TOOL) -> bool:
        """Ends what was begun for this cause. Returns whether the page is still watched, by any process."""
        async with self._turn:
            causes = self._causes.get(page_id, set())
            if cause != TOOL and causes - {cause}:
                causes.discard(cause)
                return True
            if cause != TOOL:
                self._causes.pop(page_id, None)
                self._to_end.add(page_id)
            watched = await self._store.end_watch(page_id, explicit=cause == TOOL)
            self._to_end.discard(page_id)
            self._count = None
            return watched

    async def nudge(self, page_id: str) -> None:
        """Has a page compared of which another content was found."""
        try:
            if await self._store.hasten(page_id):
                self._wake.set()
            elif page := await self._store.page_of(page_id):
                # Nobody watches it. But a client that did may have been cut off, and will ask for what it missed.
                await self._announce(page)
        except StoreError as error:
            logger.warning("a change of %s is announced only at its next check: %s", page_id, error)

    async def _announce(self, page: StoredPage) -> None:
        await self.library.on_change(uris_of(page.page_id), False)
        await self._store.announced(page.page_id, page.content_hash)

    async def _check_room(self) -> None:
        if self._count is None or self._count >= self.most:
            self._count = len(await self._store.watches())
        if self._count >= self.most:
            raise TooManyWatches(
                f"{self._count:,} pages are watched, and no more are allowed. End some with `unwatch`, or start the "
                "server with a greater --max-watches."
            )
        self._count += 1

    async def _run(self) -> None:
        with self._scope:
            async with anyio.create_task_group() as tasks:
                while True:
                    self._wake.clear()
                    pause = self.rest
                    try:
                        pause = await self._round(tasks)
                    except StoreError as error:
                        logger.warning("the watches cannot be read at present: %s", error)
                    except Exception:
                        logger.exception("the watches that are due cannot be found; trying again")
                    with anyio.move_on_after(pause):
                        await self._wake.wait()

    async def _round(self, tasks: TaskGroup) -> float:
        """Begins the looks that are due and that there is room for. Returns the seconds until there may be more."""
        async with self._turn:
            for page_id in list(self._to_end):
                await self._store.end_watch(page_id, explicit=False)
                self._to_end.discard(page_id)
        free = self.at_once - self._busy.total()
        if free == 0:
            await self._store.heartbeat()
            return self.rest
        with anyio.CancelScope(shield=True):  # when stopped meanwhile, each look gives back what it claimed
            for watch in await self._store.due(free, self.lease):
                host = urlsplit(watch.url).hostname or ""
                if self._busy[host] >= max(1, self.at_once // 2):
                    least, most = _PUT_OFF
                    wait = min(least + (most - least) * self.random(), self.limits.least)
                    await self._store.reschedule(watch.page_id, self._store.clock() + wait, failures=watch.failures)
                else:
                    self._busy[host] += 1
                    tasks.start_soon(self._look, watch, host)
        due = await self._store.next_due()
        # Not at once: a page that is due and was not claimed belongs to another process, which will finish.
        return self.rest if due is None else min(max(due - self._store.clock(), 0.1), self.rest)

    async def _look(self, watch: StoredWatch, host: str) -> None:
        """Looks at a claimed page, and gives it back."""
        try:
            wait, failures, state = await self._looked(watch)
            next_at = self._store.clock() + jittered(wait, above=self.limits.jitter, chance=self.random)
            await self._store.reschedule(watch.page_id, next_at, failures=failures, state=state.to_json())
        except StoreError as error:
            logger.warning("%s is checked again when its claim ends: %s", watch.url, error)
        except Exception:
            # Of this page only: raising here would end the looks at all others.
            logger.exception("%s is checked again when its claim ends", watch.url)
        except BaseException:
            # Stopped: another process need not wait until the claim ends.
            with anyio.move_on_after(0.5, shield=True), suppress(StoreError):
                await self._store.release(watch.page_id)
            raise
        finally:
            self._busy -= Counter({host: 1})
            self._wake.set()

    async def _looked(self, watch: StoredWatch) -> tuple[float, int, WatchState]:
        """Returns the seconds until the next look, how many looks in a row have failed, and the state of the watch."""
        plan, state = WatchPlan.from_json(watch.options, watch.url), WatchState.from_json(watch.state)
        try:
            with anyio.fail_after(self._patience):
                found = await self._find(watch.page_id, plan, state)
            changed, held = await self._compared(watch.page_id, plan, state, found)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - of this page only: others are still looked at, and this one again
            return self._failed(error, watch, plan, state)
        seen = SeenVersion(found.source_id, found.content_hash)
        if found.gone:
            failures = watch.failures + 1
            wait = self.limits.after_failure(failures, retry_after=None, fixed=plan.every)
            # It stays gone at the next 404.
            state = WatchState(state.interval, seen, found.validators, "404", "It does not exist any more.", held)
            return wait, failures, state
        known = self.limits.first if state.interval is None else state.interval
        fresh = fresh_for(found.headers or {}, self._store.clock())
        # Without a request, there is nothing to learn.
        fixed = known if plan.every is None and found.headers is None else plan.every
        interval, wait = self.limits.after_look(state.interval, changed=changed, fresh=fresh, fixed=fixed)
        return wait, 0, WatchState(interval, seen, found.validators, held=held)

    def _failed(
        self, error: Exception, watch: StoredWatch, plan: WatchPlan, state: WatchState
    ) -> tuple[float, int, WatchState]:
        if isinstance(error, RateLimited) or (isinstance(error, ExtractionFailed) and error.kind in _NO_TURN):
            return self.limits.least, watch.failures, state
        doubt, wanted, problem = None, None, str(error)
        match error:
            case HttpFailed():
                doubt = "404" if error.status == 404 else None
                now = datetime.fromtimestamp(self._store.clock(), UTC)
                wanted = retry_after(error.headers.get("retry-after"), now)
            case BecameEmpty():
                doubt = "empty"
            case TimeoutError():
                problem = f"It could not be looked at within {self._patience:g} s."
            case FetchError() | ExtractionFailed() | PageUnknown():
                pass
            case _:
                logger.error("%s could not be looked at", watch.url, exc_info=error)
                problem = f"It could not be looked at ({type(error).__name__})."
        failures = watch.failures + 1
        wait = self.limits.after_failure(failures, retry_after=wanted, fixed=plan.every)
        return wait, failures, replace(state, doubt=doubt, problem=problem[:500])

    async def _find(self, page_id: str, plan: WatchPlan, state: WatchState) -> Refreshed:
        try:
            return await self.library.refresh(
                page_id,
                plan.url,
                plan.options,
                plan.ignore,
                known=state.validators,
                unless_younger=self.limits.least,
                even_empty=state.doubt == "empty",
            )
        except HttpFailed as error:
            if error.status == 410 or (error.status == 404 and state.doubt == "404"):
                return await self.library.bury(page_id, plan.url, plan.options, error.status)
            raise

    async def _compared(
        self, page_id: str, plan: WatchPlan, state: WatchState, found: Refreshed
    ) -> tuple[bool, bool | None]:
        """Notifies subscribers of a change. Returns whether there is one, and whether the condition holds."""
        seen = state.seen or plan.since
        differs = changed = seen is not None and seen.content_hash != found.content_hash
        if changed and seen is not None and found.before != seen.source_id:
            # Another process stored it, or the announced version is no longer the one before it.
            changed = not await self.library.same(seen.source_id, found.source_id, plan.ignore)
        held = plan.held if state.held is None else state.held
        if plan.when:
            entry = await self._store.get(found.source_id)
            held, before = holds(plan.when, entry.packet) if entry else held, held
            changed = held and not before
        listed = found.put is not None and bool(found.put.new or found.put.gone)
        if changed or listed:
            await self.library.on_change(uris_of(page_id) if changed else (), listed)
        if found.put or differs:
            await self._store.announced(page_id, found.content_hash)
        return changed, held if plan.when else None
