"""A page looked at again: requested only if it changed, kept only if its content differs; and when to look next.

A difference in nothing but what the rules ignore is not stored, and the page stays what it was for everyone else: the
validators of such an answer are returned to the caller, and are valid for that caller alone.

The interval of a page follows its history: half as long after a change, half as long again after a look that found
none, between `least` and `most`. `Cache-Control` and `Expires` can only make the wait longer: nothing new can be there
before. Each failure in a row doubles the wait, and `Retry-After` is respected. Randomness only ever adds, so that there
is never more than one request in an interval.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC
from email.utils import parsedate_to_datetime

from anyio import to_thread

from tidings.web.ignore import IgnoreRules, judge
from tidings.web.page_options import FetchOptions
from tidings.web.pages import AT, Fetching, as_version_of, is_of, newest_of, speaks_for
from tidings.web.store.model import PageFacts, StoredPage, StoredVersion, Version
from tidings.web.store.store import Store

logger = logging.getLogger(__name__)

DAY = 86_400.0
LONGEST_RETRY_AFTER = 7 * DAY  # a site that says "in ten years" means no; a watched page is still looked at once a week


@dataclass(frozen=True)
class Intervals:
    """The limits of the wait between two looks, in seconds."""

    first: float = 300.0
    least: float = 60.0
    most: float = DAY
    jitter: float = 0.1
    """The largest random addition, as a share of the wait, so that many pages do not come due at once."""

    def __post_init__(self) -> None:
        if not 0 < self.least <= self.most:
            raise ValueError("the shortest interval must be more than 0, and no longer than the longest")
        if not 0 <= self.jitter <= 1:
            raise ValueError("the jitter must be between 0 and 1")

    def within(self, seconds: float) -> float:
        """Returns the nearest interval that is allowed."""
        return min(max(seconds, self.least), self.most)


@dataclass(frozen=True)
class LookInterval:
    """The interval that the history of a page gives, and the wait until its next look."""

    interval: float
    wait: float


def after_look(
    interval: float | None, *, changed: bool, fresh: float | None, limits: Intervals, fixed: float | None = None
) -> LookInterval:
    """Returns the interval after a look that worked.

    Args:
        interval: The one so far; None if this was the first look.
        changed: Whether it found a change.
        fresh: Seconds for which the answer is fresh; None if the site does not say.
        limits: The limits.
        fixed: The caller's interval, in place of what history and site say.
    """
    if fixed is not None:
        asked = limits.within(fixed)
        return LookInterval(asked, asked)
    known = limits.first if interval is None else interval
    following = limits.within(known * (0.5 if changed else 1.0 if interval is None else 1.5))
    return LookInterval(following, limits.within(max(following, fresh or 0.0)))


def after_failure(
    interval: float | None, *, failures: int, retry_after: float | None, limits: Intervals
) -> LookInterval:
    """Returns the interval after `failures` failed looks in a row. Only the wait grows."""
    known = limits.within(limits.first if interval is None else interval)
    doubled = limits.within(known * 2.0 ** min(max(failures, 1), 30))
    return LookInterval(known, max(doubled, min(retry_after or 0.0, LONGEST_RETRY_AFTER)))


def with_chance(wait: float, limits: Intervals, random: Callable[[], float]) -> float:
    """Returns the wait with a random addition."""
    return wait * (1.0 + limits.jitter * random())


def fresh_for(headers: Mapping[str, str], now: float) -> float | None:
    """Returns for how many seconds from `now` an answer with these headers is fresh; None if they do not say.

    `s-maxage` goes before `max-age`: what a site's own caches hold until then is what everyone gets. Zero says nothing
    about when a page changes, only that it may not be cached.
    """
    parts = (part.partition("=") for part in headers.get("cache-control", "").split(","))
    directives = {name.strip().lower(): argument.strip().strip('"') for name, _, argument in parts}
    if "no-store" in directives or "no-cache" in directives:
        return None
    lifetime = _seconds(directives.get("s-maxage"))
    if lifetime is None:
        lifetime = _seconds(directives.get("max-age"))
    if lifetime is None and (expires := _moment(headers.get("expires"))) is not None:
        lifetime = expires - (_moment(headers.get("date")) or now)
    if lifetime is None:
        return None
    left = lifetime - (_seconds(headers.get("age")) or 0.0)
    return left if left > 0 else None


def _seconds(value: str | None) -> float | None:
    text = (value or "").strip()
    # Only digits, and not too many of them.
    return float(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _moment(value: str | None) -> float | None:
    if not value or len(value) > 100:
        return None
    try:
        moment = parsedate_to_datetime(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, IndexError, TypeError):
        return None


class PageUnknown(LookupError):
    """There is no such page, or none that can be fetched. The message says what to do."""

    def __init__(self, page_id: str) -> None:
        super().__init__(f"No page {page_id} that can be fetched is known here. `fetch` its URL first.")


@dataclass(frozen=True)
class Validators:
    """The validators of an answer that was the version `source_id`, or the same except for what is ignored."""

    source_id: str
    etag: str | None
    last_modified: str | None
    url: str | None = None  # the URL where it was found, if the page's URL redirected


@dataclass(frozen=True)
class Refreshed:
    """The result of looking at a page again."""

    source_id: str
    content_hash: str  # of its newest version, in the variant that was asked for
    asked: bool = True  # true if there was a request; there is none shortly after another one
    not_modified: bool = False
    stored: bool = False  # true if a new version was stored
    before: str | None = None  # the source_id of the version that it was compared with, and differs from
    listed: bool = False  # true if versions came or went
    fresh: float | None = None  # seconds for which the answer is fresh, if the site says so
    validators: Validators | None = None  # for the next look
    empty: bool = False  # true if it has no text, and had some before. Nothing was stored.
    gone: bool = False  # true if the page does not exist any more


class PageRefresher:
    """Looks at pages again. `clock` is the store's."""

    def __init__(self, fetching: Fetching, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._fetching = fetching
        self._store = store
        self._clock = clock

    async def refresh(
        self,
        page_id: str,
        url: str,
        options: FetchOptions,
        ignore: IgnoreRules,
        *,
        known: Validators | None = None,
        unless_younger: float = 0.0,
        even_empty: bool = False,
    ) -> Refreshed:
        """Looks at a page again.

        Args:
            page_id: The page.
            url: The URL that it is fetched by.
            options: How it is fetched and read.
            ignore: What does not count as a change.
            known: The validators of the look before.
            unless_younger: No request is made if one was made within so many seconds.
            even_empty: Store it even if it has no text any more.

        Raises:
            PageUnknown: There is no such page.
            FetchError, ExtractionFailed, StoreError: As for `WebLibrary.fetch`.
        """
        page = await self._page(page_id)
        variant = options.variant(url)
        newest = newest_of(page, variant, known and known.source_id)
        young = page.age(self._clock()) < unless_younger
        if young and newest and is_of(newest, variant) and speaks_for(page, newest):
            return replace(_unchanged(newest), asked=False, validators=known)
        sent = _sendable(page, newest, known)
        # A look costs one request: if the site cannot answer now, it is asked at the next look.
        etag, modified, of = (sent.etag, sent.last_modified, sent.url) if sent else (None, None, None)
        got = await self._fetching.get(url, options, etag=etag, last_modified=modified, of=of, insist=False)
        fresh = fresh_for(got.headers, self._clock())
        if got.entry is None or got.facts is None:
            assert newest is not None  # noqa: S101 - the request was conditional
            assert sent is not None  # noqa: S101 - see above
            # Noted for everyone, if the answer is about exactly what is stored.
            if speaks_for(page, newest) and (page.etag, page.last_modified) == (sent.etag, sent.last_modified):
                await self._store.checked(page.page_id, etag=sent.etag, last_modified=sent.last_modified, of=page)
            return replace(_unchanged(newest), not_modified=True, fresh=fresh, validators=sent)
        entry, facts = as_version_of(page, got.entry), replace(got.facts, aliases=())
        has_text = not got.empty or even_empty
        return replace(await self._compared(page, newest, entry, facts, ignore, has_text=has_text), fresh=fresh)

    async def bury(self, page_id: str, url: str, options: FetchOptions, status: int) -> Refreshed:
        """Stores a version that says that the page does not exist any more.

        Raises `PageUnknown` if there is no such page. Raises `StoreError` if it could not be kept.
        """
        page = await self._page(page_id)
        got = await self._fetching.gone(url, status, options)
        assert got.entry is not None  # noqa: S101 - `gone` makes one
        facts = PageFacts(url, options=options.to_json(url))
        newest = newest_of(page, options.variant(url))
        buried = await self._compared(
            page, newest, as_version_of(page, got.entry), facts, IgnoreRules(ready=()), has_text=True
        )
        return replace(buried, gone=True)

    async def same(self, before: str, after: str, ignore: IgnoreRules) -> bool:
        """Returns whether two versions are the same except for what is ignored; False if one of them is gone."""
        old, new = await self._store.get(before), await self._store.get(after)
        return old is not None and new is not None and await _same(old, new, ignore)

    async def _page(self, page_id: str) -> StoredPage:
        page = await self._store.page_of(page_id)
        if page is None or page.page_id != page_id:
            raise PageUnknown(page_id)
        return page

    async def _compared(
        self,
        page: StoredPage,
        newest: Version | None,
        entry: StoredVersion,
        facts: PageFacts,
        ignore: IgnoreRules,
        *,
        has_text: bool,
    ) -> Refreshed:
        before = await self._store.get(newest.source_id) if newest else None
        if newest and before:
            unchanged = replace(_unchanged(newest), validators=_validators(newest.source_id, facts))
            if newest.content_hash == entry.packet["hashes"]["content_hash"]:
                if speaks_for(page, newest):
                    # Validators from another URL say nothing about where the page is known to be.
                    there = facts.options.get(AT) == page.options.get(AT)
                    etag, modified = (facts.etag, facts.last_modified) if there else (None, None)
                    await self._store.checked(page.page_id, etag=etag, last_modified=modified, of=page)
                return unchanged
            if not has_text and before.packet["content"].strip():
                return replace(_unchanged(newest), empty=True)
            if await _same(before, entry, ignore):
                return unchanged
        put = await self._store.put(entry, facts)
        source_id = entry.packet["source_id"]
        return Refreshed(
            source_id,
            entry.packet["hashes"]["content_hash"],
            stored=True,
            before=before.packet["source_id"] if before else None,
            listed=put.new or bool(put.gone),
            validators=_validators(source_id, facts),
        )


def _sendable(page: StoredPage, newest: Version | None, known: Validators | None) -> Validators | None:
    """Returns the validators for a conditional request about the newest version; None if there are none."""
    if newest is None:
        return None
    if known is not None and known.source_id == newest.source_id:
        return known
    if not speaks_for(page, newest):
        return None
    return Validators(newest.source_id, page.etag, page.last_modified, page.options.get(AT))


def _validators(source_id: str, facts: PageFacts) -> Validators:
    return Validators(source_id, facts.etag, facts.last_modified, facts.options.get(AT))


def _unchanged(version: Version) -> Refreshed:
    return Refreshed(version.source_id, version.content_hash)


async def _same(before: StoredVersion, after: StoredVersion, ignore: IgnoreRules) -> bool:
    judged = await to_thread.run_sync(judge, before, after, ignore)
    for pattern in judged.too_slow:
        logger.warning("an ignore rule takes too long and is skipped for %s: %r", after.page_id, pattern)
    return judged.same
