"""A watched page, looked at again: asked for only if it is another, and kept only if it says something else.

What differs in nothing but what the rules ignore is not stored, and the page stays what it was for everybody else:
the validators of such an answer are handed to whoever asked, and good for them alone.

When a watched page is looked at again. Arithmetic alone: no clock, no network.

The interval of a page follows its history: half as long after a change, half as long again after a look that found
none, between `least` and `most`. What the site says of it (`Cache-Control`, `Expires`) can only make the wait longer:
before that moment nothing new can be there. A failure doubles the wait, each one more, and `Retry-After` is kept.
Chance only ever adds, so that there is never more than one request in an interval.
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

DAY = 86_400.0
LONGEST_RETRY_AFTER = 7 * DAY
"""A site that says "in ten years" means no; what is watched is still looked at, once a week."""


@dataclass(frozen=True)
class Intervals:
    """The limits of the wait between two looks, in seconds."""

    first: float = 300.0
    least: float = 60.0
    most: float = DAY
    jitter: float = 0.1
    """How much longer the wait may be by chance, as a part of it, so that many pages do not come due at once."""

    def __post_init__(self) -> None:
        if not 0 < self.least <= self.most:
            raise ValueError("the shortest interval must be more than nothing, and no longer than the longest")
        if not 0 <= self.jitter <= 1:
            raise ValueError("the jitter must be between 0 and 1")

    def within(self, seconds: float) -> float:
        """The nearest interval that is allowed."""
        return min(max(seconds, self.least), self.most)


@dataclass(frozen=True)
class LookInterval:
    """How a page is looked at: the interval that its history gives, and the wait until the next look."""

    interval: float
    wait: float


def after_look(
    interval: float | None, *, changed: bool, fresh: float | None, limits: Intervals, fixed: float | None = None
) -> LookInterval:
    """The pace after a look that worked.

    Args:
        interval: The one so far; None if this was the first look.
        changed: Whether it found a change.
        fresh: For how long the site says that nothing will be new; None if it does not say.
        limits: What is allowed.
        fixed: An interval that somebody asked for, in place of what history and site say.
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
    """The pace after `failures` looks in a row that did not work; the interval stays what it was."""
    known = limits.within(limits.first if interval is None else interval)
    doubled = limits.within(known * 2.0 ** min(max(failures, 1), 30))
    return LookInterval(known, max(doubled, min(retry_after or 0.0, LONGEST_RETRY_AFTER)))


def with_chance(wait: float, limits: Intervals, random: Callable[[], float]) -> float:
    """The wait, and a little more."""
    return wait * (1.0 + limits.jitter * random())


def fresh_for(headers: Mapping[str, str], now: float) -> float | None:
    """For how many seconds from `now` (since 1970) an answer with these headers is fresh; None if they do not say.

    `s-maxage` goes before `max-age`: what a site's own caches hold until then is what everybody gets. Zero says
    nothing about when a page changes, only that it may not be kept.
    """
    said = _directives(headers.get("cache-control", ""))
    if "no-store" in said or "no-cache" in said:
        return None
    lifetime = _seconds(said.get("s-maxage"))
    if lifetime is None:
        lifetime = _seconds(said.get("max-age"))
    if lifetime is None and (expires := _moment(headers.get("expires"))) is not None:
        lifetime = expires - (_moment(headers.get("date")) or now)
    if lifetime is None:
        return None
    left = lifetime - (_seconds(headers.get("age")) or 0.0)
    return left if left > 0 else None


def _directives(value: str) -> dict[str, str]:
    parts = (part.partition("=") for part in value.split(","))
    return {name.strip().lower(): argument.strip().strip('"') for name, _, argument in parts}


def _seconds(value: str | None) -> float | None:
    text = (value or "").strip()
    # Digits alone, and not too many of them: a number that nothing can hold is no number of seconds.
    return float(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _moment(value: str | None) -> float | None:
    if not value or len(value) > 100:
        return None
    try:
        moment = parsedate_to_datetime(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, IndexError, TypeError):
        return None


logger = logging.getLogger(__name__)


class PageUnknown(LookupError):
    """There is no such page, or none that can be fetched. Says what to do."""

    def __init__(self, page_id: str) -> None:
        super().__init__(f"No page {page_id} that can be fetched is known here: `fetch` its URL first.")


@dataclass(frozen=True)
class Validators:
    """What an answer said of itself that was the version `source_id`, or the same but for what is ignored."""

    source_id: str
    etag: str | None
    last_modified: str | None
    url: str | None = None
    """Where it was, if the page's URL led on."""


@dataclass(frozen=True)
class Refreshed:
    """A page that was looked at again."""

    source_id: str
    content_hash: str
    """Of its newest version, in the variant that was asked for."""
    asked: bool = True
    """Whether there was a request: not, if somebody just made one."""
    not_modified: bool = False
    stored: bool = False
    """Whether another version was stored."""
    before: str | None = None
    """The source_id of the version that it was compared with, and found to be different from."""
    listed: bool = False
    """Whether versions came or went."""
    fresh: float | None = None
    """For how many seconds the site says that nothing will be new."""
    validators: Validators | None = None
    """To be given to the next look."""
    empty: bool = False
    """It said nothing, where it said something before. Nothing was stored."""
    gone: bool = False
    """There is no such page any more."""


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
        """Look at a page again.

        Args:
            page_id: Which one.
            url: The URL that it is fetched by.
            options: How it is fetched and read.
            ignore: What does not count as a change.
            known: What the look before gave.
            unless_younger: No request is made if one was made within so many seconds.
            even_empty: Store it even if it says nothing any more.

        Raises:
            PageUnknown: There is no such page.
            FetchError, ExtractionFailed, StoreError: As `Library.fetch` does.
        """
        page = await self._page(page_id)
        variant = options.variant(url)
        newest = newest_of(page, variant, known and known.source_id)
        young = page.age(self._clock()) < unless_younger
        if young and newest and is_of(newest, variant) and speaks_for(page, newest):
            return replace(_standing(newest), asked=False, validators=known)
        sent = _sendable(page, newest, known)
        # A look costs one request: a site that cannot serve it now is asked at the next.
        etag, modified, of = (sent.etag, sent.last_modified, sent.url) if sent else (None, None, None)
        got = await self._fetching.get(url, options, etag=etag, last_modified=modified, of=of, insist=False)
        fresh = fresh_for(got.headers, self._clock())
        if got.entry is None or got.facts is None:
            assert newest is not None  # noqa: S101 - only of it can the site have said that it still is
            assert sent is not None  # noqa: S101 - see above
            await self._confirm(page, newest, sent)
            return replace(_standing(newest), not_modified=True, fresh=fresh, validators=sent)
        entry, facts = as_version_of(page, got.entry), replace(got.facts, aliases=())
        said = not got.empty or even_empty
        return replace(await self._compared(page, newest, entry, facts, ignore, said=said), fresh=fresh)

    async def bury(self, page_id: str, url: str, options: FetchOptions, status: int) -> Refreshed:
        """Store a version of a page that says that there is none any more.

        Raises:
            PageUnknown: There is no such page.
            StoreError: It could not be kept.
        """
        page = await self._page(page_id)
        got = await self._fetching.gone(url, status, options)
        assert got.entry is not None  # noqa: S101 - it was made
        facts = PageFacts(url, options=options.to_json(url))
        newest = newest_of(page, options.variant(url))
        buried = await self._compared(
            page, newest, as_version_of(page, got.entry), facts, IgnoreRules(ready=()), said=True
        )
        return replace(buried, gone=True)

    async def same(self, before: str, after: str, ignore: IgnoreRules) -> bool:
        """Whether two versions say the same but for what is ignored; False if one of them is not there any more."""
        old, new = await self._store.get(before), await self._store.get(after)
        return old is not None and new is not None and await _same(old, new, ignore)

    async def _page(self, page_id: str) -> StoredPage:
        page = await self._store.page_of(page_id)
        if page is None or page.page_id != page_id:
            raise PageUnknown(page_id)
        return page

    async def _confirm(self, page: StoredPage, newest: Version, said: Validators) -> None:
        """Write down for everybody that the page is what it was, if what it was is exactly what is stored."""
        if speaks_for(page, newest) and (page.etag, page.last_modified) == (said.etag, said.last_modified):
            await self._store.checked(page.page_id, etag=said.etag, last_modified=said.last_modified, of=page)

    async def _compared(
        self,
        page: StoredPage,
        newest: Version | None,
        entry: StoredVersion,
        facts: PageFacts,
        ignore: IgnoreRules,
        *,
        said: bool,
    ) -> Refreshed:
        before = await self._store.get(newest.source_id) if newest else None
        if newest and before:
            standing = replace(_standing(newest), validators=_marks(newest.source_id, facts))
            if newest.content_hash == entry.packet["hashes"]["content_hash"]:
                if speaks_for(page, newest):
                    # Marks of somewhere else say nothing of where the page is known to be.
                    there = facts.options.get(AT) == page.options.get(AT)
                    etag, modified = (facts.etag, facts.last_modified) if there else (None, None)
                    await self._store.checked(page.page_id, etag=etag, last_modified=modified, of=page)
                return standing
            if not said and before.packet["content"].strip():
                return replace(_standing(newest), empty=True)
            if await _same(before, entry, ignore):
                return standing
        put = await self._store.put(entry, facts)
        source_id = entry.packet["source_id"]
        return Refreshed(
            source_id,
            entry.packet["hashes"]["content_hash"],
            stored=True,
            before=before.packet["source_id"] if before else None,
            listed=put.new or bool(put.gone),
            validators=_marks(source_id, facts),
        )


def _sendable(page: StoredPage, newest: Version | None, known: Validators | None) -> Validators | None:
    """What the site can be asked with whether the newest version still is the page; None if that is not known."""
    if newest is None:
        return None
    if known is not None and known.source_id == newest.source_id:
        return known
    if not speaks_for(page, newest):
        return None
    return Validators(newest.source_id, page.etag, page.last_modified, page.options.get(AT))


def _marks(source_id: str, facts: PageFacts) -> Validators:
    return Validators(source_id, facts.etag, facts.last_modified, facts.options.get(AT))


def _standing(version: Version) -> Refreshed:
    return Refreshed(version.source_id, version.content_hash)


async def _same(before: StoredVersion, after: StoredVersion, ignore: IgnoreRules) -> bool:
    judged = await to_thread.run_sync(judge, before, after, ignore)
    for pattern in judged.too_slow:
        logger.warning("an ignore rule takes too long and is left out for %s: %r", after.page_id, pattern)
    return judged.same
