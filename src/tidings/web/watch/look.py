"""One look at a watched page: ask, store, tell, and say when to look again.

In this order: the version that was told of is written down after it was told, so whatever breaks off in between is told
at the next look, by whoever makes it. Nothing is lost; and as a version is compared with the one that was told of last,
nothing is told twice, whoever stored it.

What a site may answer for a moment only, that there is no such page or nothing on it, is believed when it is so twice
in a row. Then the page gets a version that says that it is gone, and is looked at rarely. Having no turn, because of
rate limits or of busy workers, is no failure.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import anyio

from tidings._kit.backoff import retry_after
from tidings.web.extract.model import ExtractionFailed
from tidings.web.fetch.request import FetchError, RateLimited
from tidings.web.library import WebLibrary
from tidings.web.pages import HttpFailed
from tidings.web.refresh import Intervals, LookInterval, PageUnknown, Refreshed, after_failure, after_look
from tidings.web.store.model import StoredWatch, StoreError
from tidings.web.watch.following import Follower
from tidings.web.watch.state import SeenVersion, WatchState, Wish, uris_of

logger = logging.getLogger(__name__)

_NO_TURN: Final = {"busy", "stopped"}
"""Kinds of failed extractions that say nothing of the page."""


@dataclass(frozen=True)
class LookOutcome:
    """What follows from a look."""

    wait: float
    """Seconds until the next."""
    failures: int
    """In a row."""
    state: WatchState


class _Empty(Exception):
    """It said something before, and says nothing now."""


class Looker:
    """Looks at pages.

    Args:
        library: What fetches and keeps them.
        limits: How often.
        patience: For how many seconds at most.
        follower: What tells of changes, if each process tells its own clients.
        clock: The store's.
    """

    def __init__(
        self,
        library: WebLibrary,
        limits: Intervals,
        *,
        patience: float,
        follower: Follower | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._library = library
        self._limits = limits
        self._patience = patience
        self._follower = follower
        self._clock = clock

    async def look(self, watch: StoredWatch) -> LookOutcome:
        """Look at a page, and tell of it if it has changed.

        Raises:
            StoreError: It could not be compared or kept; nobody was told.
        """
        wish, state = Wish.from_json(watch.options, watch.url), WatchState.from_json(watch.state)
        try:
            with anyio.fail_after(self._patience):
                found = await self._find(watch.page_id, wish, state)
            changed = await self._tell(watch.page_id, wish, state, found)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - of this page only: others are still looked at, and it again
            return self._after(error, watch, state)
        return self._done(state, wish, found, changed=changed)

    def _after(self, error: Exception, watch: StoredWatch, state: WatchState) -> LookOutcome:
        """What follows from a look that did not work."""
        if isinstance(error, RateLimited) or (isinstance(error, ExtractionFailed) and error.kind in _NO_TURN):
            return LookOutcome(self._limits.least, watch.failures, state)
        match error:
            case HttpFailed():
                doubt, asked = "404" if error.status == 404 else None, self._asked(error)
                return self._failed(watch, state, str(error), doubt=doubt, asked=asked)
            case _Empty():
                return self._failed(watch, state, str(error), doubt="empty")
            case TimeoutError():
                return self._failed(watch, state, f"It could not be looked at within {self._patience:g} s.")
            case FetchError() | ExtractionFailed() | PageUnknown():
                return self._failed(watch, state, str(error))
            case _:
                logger.error("%s could not be looked at", watch.url, exc_info=error)
                return self._failed(watch, state, f"It could not be looked at ({type(error).__name__}).")

    def _asked(self, error: HttpFailed) -> float | None:
        """The seconds that the site asked to be left alone for."""
        return retry_after(error.headers.get("retry-after"), datetime.fromtimestamp(self._clock(), UTC))

    async def _find(self, page_id: str, wish: Wish, state: WatchState) -> Refreshed:
        refresher = self._library.refresher
        try:
            found = await refresher.refresh(
                page_id,
                wish.url,
                wish.options,
                wish.ignore,
                known=state.validators,
                unless_younger=self._limits.least,
                even_empty=state.doubt == "empty",
            )
        except HttpFailed as error:
            if error.status == 410 or (error.status == 404 and state.doubt == "404"):
                return await refresher.bury(page_id, wish.url, wish.options, error.status)
            raise
        if found.empty:
            raise _Empty("It has no text any more.")
        return found

    async def _tell(self, page_id: str, wish: Wish, state: WatchState, found: Refreshed) -> bool:
        """Tell of a change if there is one; whether there is."""
        seen = state.seen or wish.since
        changed = seen is not None and seen.content_hash != found.content_hash
        if changed and seen is not None and found.before != seen.source_id:
            # Somebody else stored it, or what was told of is no longer the version before it.
            changed = not await self._library.refresher.same(seen.source_id, found.source_id, wish.ignore)
        mine = changed and self._follower is None
        if mine or found.listed:
            await self._library.on_change(uris_of(page_id) if mine else (), found.listed)
        if self._follower is not None:
            await self._follower.compare(page_id, changed=changed)
        if found.stored or (seen is not None and seen.content_hash != found.content_hash):
            await self._library.store.told(page_id, found.content_hash)
        return changed

    def _done(self, state: WatchState, wish: Wish, found: Refreshed, *, changed: bool) -> LookOutcome:
        if found.asked:
            pace = after_look(state.interval, changed=changed, fresh=found.fresh, limits=self._limits, fixed=wish.every)
        else:
            interval = self._limits.within(self._limits.first if state.interval is None else state.interval)
            pace = LookInterval(interval, interval)
        wait = self._limits.most if found.gone else pace.wait
        # Once it is gone it stays so at the next 404.
        doubt = "404" if found.gone else None
        return LookOutcome(wait, 0, WatchState(pace.interval, SeenVersion.of(found), found.validators, doubt))

    def _failed(
        self, watch: StoredWatch, state: WatchState, why: str, *, doubt: str | None = None, asked: float | None = None
    ) -> LookOutcome:
        failures = watch.failures + 1
        pace = after_failure(state.interval, failures=failures, retry_after=asked, limits=self._limits)
        return LookOutcome(pace.wait, failures, replace(state, doubt=doubt, problem=why[:500]))
