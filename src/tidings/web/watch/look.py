"""One look at a watched page: ask, store, notify, schedule.

In this order: the version that was announced is written down after it was announced. So if anything breaks off in
between, the next look announces it, in whichever process. Nothing is lost. And as a version is compared with the one
that was announced last, nothing is announced twice, whichever process stored it.

Two answers may be temporary: that the page does not exist, and that it is empty. They are believed when they come twice
in a row. Then the page gets a version that says that it is gone, and is looked at rarely. A look that got no turn,
because of rate limits or busy workers, is not a failure.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

import anyio

from tidings._kit.backoff import retry_after
from tidings.web.extract.model import ExtractionFailed
from tidings.web.fetch.request import FetchError, RateLimited
from tidings.web.library import WebLibrary
from tidings.web.pages import HttpFailed
from tidings.web.refresh import Intervals, LookInterval, PageUnknown, Refreshed, after_failure, after_look
from tidings.web.store.model import StoredWatch, StoreError
from tidings.web.watch.state import SeenVersion, WatchPlan, WatchState, uris_of

logger = logging.getLogger(__name__)

_NO_TURN: Final = {"busy", "stopped"}  # kinds of failed extractions that say nothing about the page


class LookOutcome(NamedTuple):
    """The result of a look."""

    wait: float  # seconds until the next look
    failures: int  # in a row
    state: WatchState


class _BecameEmpty(Exception):
    """The page had text before, and has none now."""


@dataclass(frozen=True)
class Looker:
    """Looks at pages."""

    library: WebLibrary  # fetches and keeps them; its `on_change` notifies subscribers
    limits: Intervals
    patience: float  # seconds that a look may take
    clock: Callable[[], float] = time.time  # the store's

    async def look(self, watch: StoredWatch) -> LookOutcome:
        """Looks at a page, and notifies subscribers if it has changed; with a `StoreError`, nobody was notified."""
        plan, state = WatchPlan.from_json(watch.options, watch.url), WatchState.from_json(watch.state)
        try:
            with anyio.fail_after(self.patience):
                found = await self._find(watch.page_id, plan, state)
            changed = await self._announce(watch.page_id, plan, state, found)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - of this page only: others are still looked at, and this one again
            return self._after(error, watch, state)
        if found.asked:
            pace = after_look(state.interval, changed=changed, fresh=found.fresh, limits=self.limits, fixed=plan.every)
        else:
            interval = self.limits.within(self.limits.first if state.interval is None else state.interval)
            pace = LookInterval(interval, interval)
        # A page that is gone stays so at the next 404.
        wait, doubt = (self.limits.most, "404") if found.gone else (pace.wait, None)
        seen = SeenVersion(found.source_id, found.content_hash)
        return LookOutcome(wait, 0, WatchState(pace.interval, seen, found.validators, doubt))

    def _after(self, error: Exception, watch: StoredWatch, state: WatchState) -> LookOutcome:
        """Returns the outcome of a look that failed."""
        if isinstance(error, RateLimited) or (isinstance(error, ExtractionFailed) and error.kind in _NO_TURN):
            return LookOutcome(self.limits.least, watch.failures, state)
        doubt, wait, problem = None, None, str(error)
        match error:
            case HttpFailed():
                doubt = "404" if error.status == 404 else None
                wait = retry_after(error.headers.get("retry-after"), datetime.fromtimestamp(self.clock(), UTC))
            case _BecameEmpty():
                doubt = "empty"
            case TimeoutError():
                problem = f"It could not be looked at within {self.patience:g} s."
            case FetchError() | ExtractionFailed() | PageUnknown():
                pass
            case _:
                logger.error("%s could not be looked at", watch.url, exc_info=error)
                problem = f"It could not be looked at ({type(error).__name__})."
        failures = watch.failures + 1
        pace = after_failure(state.interval, failures=failures, retry_after=wait, limits=self.limits)
        return LookOutcome(pace.wait, failures, replace(state, doubt=doubt, problem=problem[:500]))

    async def _find(self, page_id: str, plan: WatchPlan, state: WatchState) -> Refreshed:
        refresher = self.library.refresher
        try:
            found = await refresher.refresh(
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
                return await refresher.bury(page_id, plan.url, plan.options, error.status)
            raise
        if found.empty:
            raise _BecameEmpty("It has no text any more.")
        return found

    async def _announce(self, page_id: str, plan: WatchPlan, state: WatchState, found: Refreshed) -> bool:
        """Notifies subscribers of a change. Returns whether there is one."""
        seen = state.seen or plan.since
        differs = seen is not None and seen.content_hash != found.content_hash
        changed = differs
        if changed and seen is not None and found.before != seen.source_id:
            # Another process stored it, or the announced version is no longer the one before it.
            changed = not await self.library.refresher.same(seen.source_id, found.source_id, plan.ignore)
        if changed or found.listed:
            await self.library.on_change(uris_of(page_id) if changed else (), found.listed)
        if found.stored or differs:
            await self.library.store.announced(page_id, found.content_hash)
        return changed
