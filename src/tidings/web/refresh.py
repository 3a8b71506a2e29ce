"""A page looked at again: requested only if it changed, kept only if its content differs; and when to look next.

A difference in nothing but what the rules ignore is not stored, and the page stays what it was for everyone else: the
validators of such an answer are returned to the caller, and are valid for that caller alone.

The interval of a page follows its history: half as long after a change, half as long again after a look that found
none, between `least` and `most`. `Cache-Control` and `Expires` can only make the wait longer: nothing new can be there
before. Failures in a row double the wait, from `least` up to `LONGEST_RETRY`; so do looks that find that the page is
gone. An interval that a caller set is kept through all of this. Only `Retry-After` is respected before anything else.
Randomness only ever adds, so that there is never more than one request in an interval.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from anyio import to_thread

from tidings._kit.text import mail_date
from tidings.web.documents.model import version_hash
from tidings.web.ignore import IgnoreRules, same_content
from tidings.web.page_options import FetchOptions
from tidings.web.pages import AT, Fetching, Validators, newest_of, speaks_for
from tidings.web.store.model import PageFacts, StoredPage, StoredVersion, Version
from tidings.web.store.store import Store

DAY = 86_400.0
LONGEST_RETRY = 3600.0  # seconds between two looks at a page that fails or is gone, unless the site asks for more
LONGEST_RETRY_AFTER = 7 * DAY  # a site that says "in ten years" means no; a watched page is still looked at once a week


@dataclass(frozen=True)
class Intervals:
    """The limits of the wait between two looks, in seconds."""

    first: float = 300.0
    least: float = 60.0
    most: float = DAY
    jitter: float = 0.1  # the largest random addition, a share of the wait: many pages must not come due at once

    def within(self, seconds: float) -> float:
        """Returns the nearest interval that is allowed."""
        return min(max(seconds, self.least), self.most)


class LookInterval(NamedTuple):
    """The interval that the history of a page gives, and the wait until its next look."""

    interval: float
    wait: float


def after_look(
    interval: float | None, *, changed: bool, fresh: float | None, limits: Intervals, fixed: float | None = None
) -> LookInterval:
    """Returns the interval after a look that worked.

    `interval` is the one so far, None at the first look. `fresh` is for how many seconds the site calls its answer
    fresh. `fixed`, the caller's interval, counts in place of what history and site say.
    """
    if fixed is not None:
        asked = limits.within(fixed)
        return LookInterval(asked, asked)
    known = limits.first if interval is None else interval
    following = limits.within(known * (0.5 if changed else 1.0 if interval is None else 1.5))
    return LookInterval(following, limits.within(max(following, fresh or 0.0)))


def after_failure(
    interval: float | None, *, failures: int, retry_after: float | None, limits: Intervals, fixed: float | None = None
) -> LookInterval:
    """Returns the interval after `failures` failed looks in a row. Only the wait depends on them."""
    known = limits.within(limits.first if interval is None else interval)
    doubled = min(limits.least * 2.0 ** min(max(failures, 1), 30), max(LONGEST_RETRY, limits.least))
    wait = limits.within(doubled if fixed is None else fixed)
    return LookInterval(known, max(wait, min(retry_after or 0.0, LONGEST_RETRY_AFTER)))


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
    moment = mail_date(value) if value and len(value) <= 100 else None
    return moment and moment.timestamp()


class PageUnknown(LookupError):
    """There is no such page, or none that can be fetched. The message says what to do."""

    def __init__(self, page_id: str) -> None:
        super().__init__(f"No page {page_id} that can be fetched is known here. `fetch` its URL first.")


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


@dataclass(frozen=True)
class PageRefresher:
    """Looks at pages again."""

    fetching: Fetching
    store: Store

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
        """Looks at a page again, by `url`. `known` are the validators of the look before.

        No request is made if one was made within `unless_younger` seconds. A page that has no text any more is stored
        only if `even_empty`. Raises `PageUnknown`, or what `WebLibrary.fetch` raises.
        """
        page = await self._page(page_id)
        variant = options.variant(url)
        newest = newest_of(page, variant, known and known.source_id)
        young = page.age(self.store.clock()) < unless_younger
        if young and newest and newest.variant == variant and speaks_for(page, newest):
            return replace(_unchanged(newest), asked=False, validators=known)
        sent = None
        if newest and known and known.source_id == newest.source_id:
            sent = known
        elif newest and speaks_for(page, newest):
            sent = Validators.of(newest.source_id, page)
        before = await self.store.get(newest.source_id) if newest else None
        # A look costs one request: if the site cannot answer now, it is asked at the next look.
        got = await self.fetching.get(url, options, known=sent, before=before, insist=False)
        fresh = fresh_for(got.headers, self.store.clock())
        if got.entry is None or got.facts is None:
            assert newest is not None  # noqa: S101 - the request was conditional
            assert sent is not None  # noqa: S101 - see above
            # Noted for everyone, if the answer is about exactly what is stored.
            if speaks_for(page, newest) and (page.etag, page.last_modified) == (sent.etag, sent.last_modified):
                await self.store.checked(page.page_id, etag=sent.etag, last_modified=sent.last_modified, of=page)
            return replace(_unchanged(newest), not_modified=True, fresh=fresh, validators=sent)
        has_text = not got.empty or even_empty
        compared = await self._compared(page, newest, got.entry, got.facts, ignore, has_text=has_text)
        return replace(compared, fresh=fresh)

    async def bury(self, page_id: str, url: str, options: FetchOptions, status: int) -> Refreshed:
        """Stores a version that says that the page does not exist any more. Raises `PageUnknown` or `StoreError`."""
        page = await self._page(page_id)
        got = await self.fetching.gone(url, status, options)
        assert got.entry is not None  # noqa: S101 - `gone` makes one
        facts = PageFacts(url, options.address(url), options=options.to_json(url))
        newest = newest_of(page, options.variant(url))
        buried = await self._compared(page, newest, got.entry, facts, IgnoreRules(ready=()), has_text=True)
        return replace(buried, gone=True)

    async def same(self, before: str, after: str, ignore: IgnoreRules) -> bool:
        """Returns whether two versions are the same except for what is ignored; False if one of them is gone."""
        old, new = await self.store.get(before), await self.store.get(after)
        return old is not None and new is not None and await to_thread.run_sync(same_content, old, new, ignore)

    async def _page(self, page_id: str) -> StoredPage:
        page = await self.store.page_of(page_id)
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
        before = await self.store.get(newest.source_id) if newest else None
        if newest and before:
            unchanged = replace(_unchanged(newest), validators=Validators.of(newest.source_id, facts))
            if newest.content_hash == version_hash(entry.packet):
                if speaks_for(page, newest):
                    # Validators from another URL say nothing about where the page is known to be.
                    there = facts.options.get(AT) == page.options.get(AT)
                    etag, modified = (facts.etag, facts.last_modified) if there else (None, None)
                    await self.store.checked(page.page_id, etag=etag, last_modified=modified, of=page)
                return unchanged
            if not has_text and before.packet["content"].strip():
                return replace(_unchanged(newest), empty=True)
            if await to_thread.run_sync(same_content, before, entry, ignore):
                return unchanged
        put = await self.store.put(entry, facts)
        source_id = entry.packet["source_id"]
        return Refreshed(
            source_id,
            version_hash(entry.packet),
            stored=True,
            before=before.packet["source_id"] if before else None,
            listed=put.new or bool(put.gone),
            validators=Validators.of(source_id, facts),
        )


def _unchanged(version: Version) -> Refreshed:
    return Refreshed(version.source_id, version.content_hash)
