"""`WebLibrary`: pages fetched, read, kept, and looked at again. The tools and the watcher ask it.

A page comes from the store while it is fresh, else by a conditional request, which callers at the same time share. A
page that is looked at again is kept only if its content differs in more than what the rules ignore. Otherwise it stays
what it was for everyone else, and the validators of the answer are valid for the caller alone.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Final

from anyio import to_thread

from tidings._kit.tasks import Progress, SingleFlight
from tidings.web.documents.model import version_hash
from tidings.web.extract.pool import ExtractionPool
from tidings.web.fetch.fetcher import Fetcher
from tidings.web.fetch.urls import parse
from tidings.web.ignore import IgnoreRules, same_content
from tidings.web.page_options import FetchOptions
from tidings.web.pages import AT, NO_STORE, Fetching, Got, NotModified, Renders, Validators, newest_of, speaks_for
from tidings.web.site_map import Mapper, SiteMap
from tidings.web.store.model import PutOutcome, StoredPage, StoredVersion, Version
from tidings.web.store.store import Store

OnChange = Callable[[Sequence[str], bool], Awaitable[None]]  # the URIs that changed; did the list of versions?
OnNewVersion = Callable[[str], Awaitable[None]]  # called with the page_id

USUAL: Final = FetchOptions()
_MOST_PAGES: Final = 5_000  # of a site that is watched


class PageUnknown(LookupError):
    """There is no such page, or none that can be fetched. The message says what to do."""

    def __init__(self, page_id: str) -> None:
        super().__init__(f"No page {page_id} that can be fetched is known here. `fetch` its URL first.")


class BecameEmpty(Exception):
    """The page had text before, and has none now."""


@dataclass(frozen=True)
class Fetched:
    """A page that was asked for."""

    entry: StoredVersion
    from_cache: bool = False  # true if there was no request to the site
    not_modified: bool = False  # true if the site answered that it has not changed
    put: PutOutcome | None = None  # the outcome in the store; None if it came from there


@dataclass(frozen=True)
class Refreshed:
    """The result of looking at a page again."""

    source_id: str
    content_hash: str  # of its newest version, in the variant that was asked for
    headers: Mapping[str, str] | None = None  # of the answer; None if nothing was asked, shortly after another request
    put: PutOutcome | None = None  # the outcome in the store, if a new version was stored
    before: str | None = None  # the source_id of the version that it was compared with, and differs from
    validators: Validators | None = None  # for the next look
    gone: bool = False  # true if the page does not exist any more


async def _ignore(_uris: Sequence[str], _listed: bool) -> None:
    return None


@dataclass(eq=False)
class WebLibrary:
    """The pages of one server. The caller enters and leaves its parts, and closes it before them."""

    fetcher: Fetcher
    workers: ExtractionPool
    store: Store
    _: KW_ONLY
    renderer: Renders | None = None
    on_change: OnChange = _ignore
    on_new_version: OnNewVersion | None = None  # called when `fetch` found another content than before

    def __post_init__(self) -> None:
        self._fetching = Fetching(self.fetcher, self.workers, self.renderer)
        self._flights: SingleFlight[Fetched] = SingleFlight()

    async def aclose(self) -> None:
        await self._flights.aclose()

    async def fetch(self, url: str, options: FetchOptions = USUAL, progress: Progress | None = None) -> Fetched:
        """Returns a page. Raises `FetchError` (`HttpFailed` for an error answer), `ExtractionFailed`, `StoreError`."""
        url = str(parse(url))
        page = await self.store.page_of(options.address(url))
        if page is not None and (found := await self._cached(page, url, options)):
            return found
        key = (options.variant(url), options.keep_raw, options.timeout, options.max_redirects)
        return await self._flights.share(key, lambda report: self._fetch(url, page, options, report), progress)

    async def extract(self, body: bytes, content_type: str, url: str, options: FetchOptions = USUAL) -> Fetched:
        """Returns the page of bytes that the caller says to be those of `url`. Raises the same errors as `fetch`."""
        return await self._keep(await self._fetching.given(body, content_type, str(parse(url)), options))

    async def map(self, url: str, *, limit: int = 500) -> SiteMap:
        """Returns the pages of the site of `url`; see `site_map`. Raises `FetchError` if `url` could not be fetched."""
        return await Mapper(self.fetcher).map(url, limit=limit)

    async def _get(self, url: str, options: FetchOptions, progress: Progress | None = None, **how: Any) -> Got:
        if options.part != "site":
            return await self._fetching.get(url, options, progress, **how)
        pages = (await self.map(url, limit=_MOST_PAGES)).pages
        return await self._fetching.listed(url, [page.url for page in pages], options)

    async def _cached(self, page: StoredPage, url: str, options: FetchOptions) -> Fetched | None:
        ttl = self.fetcher.limits.cache_ttl if options.cache_ttl is None else options.cache_ttl
        newest = await self._comparable(page, url, options)
        if newest is None or page.age(self.store.clock()) >= ttl or page.options.get(NO_STORE):
            return None
        entry = await self.store.get(newest.source_id)
        if entry is None or entry.packet["status"] >= 400:
            return None
        return Fetched(entry, from_cache=True)

    async def _fetch(self, url: str, page: StoredPage | None, options: FetchOptions, report: Progress) -> Fetched:
        newest = await self._comparable(page, url, options) if page else None
        last = newest_of(page, options.variant(url)) if page else None
        before = await self.store.get(last.source_id) if last else None
        if page is not None and newest is not None:
            known = Validators.of(newest.source_id, page)
            try:
                return await self._keep(await self._get(url, options, report, known=known, before=before))
            except NotModified as same:
                # A 304 need not repeat the validators: then the known ones stay.
                etag = same.headers.get("etag") or page.etag
                modified = same.headers.get("last-modified", page.last_modified)
            await self.store.checked(page.page_id, etag=etag, last_modified=modified, of=page)
            if stored := await self.store.get(newest.source_id):
                return Fetched(stored, not_modified=True)
            # The version expired during the request: the page has to be fetched after all.
        return await self._keep(await self._get(url, options, report, before=before))

    async def _comparable(self, page: StoredPage, url: str, options: FetchOptions) -> Version | None:
        """Returns the version that "not modified" would be about, and that would do as an answer."""
        newest = newest_of(page, options.variant(url))
        if newest is None or not speaks_for(page, newest):
            return None
        lacks_raw = options.keep_raw and await self.store.part(newest.source_id, "raw") is None
        return None if lacks_raw else newest

    async def _keep(self, got: Got) -> Fetched:
        put = await self.store.put(got.entry, got.facts)
        if put.changed and self.on_new_version is not None:
            await self.on_new_version(got.entry.page_id)
        if put.new or put.gone:
            await self.on_change((), True)
        return Fetched(got.entry, put=put)

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
        """Looks at a page again, unless a request was made within `unless_younger` seconds.

        `known` are the validators of the look before. Raises `PageUnknown`, `BecameEmpty`, or what `fetch` raises.
        """
        page = await self._page(page_id)
        variant = options.variant(url)
        newest = newest_of(page, variant, known and known.source_id)
        current = newest is not None and speaks_for(page, newest)
        if newest and current and newest.variant == variant and page.age(self.store.clock()) < unless_younger:
            return Refreshed(newest.source_id, newest.content_hash, validators=known)
        sent = known if newest and known and known.source_id == newest.source_id else None
        if newest and current and sent is None:
            sent = Validators.of(newest.source_id, page)
        before = await self.store.get(newest.source_id) if newest else None
        try:
            # A look costs one request: if the site cannot answer now, it is asked at the next look.
            got = await self._get(url, options, known=sent, before=before, insist=False)
        except NotModified as same:
            assert newest and sent  # noqa: S101, PT018 - the request was conditional
            # Noted for everyone, if the answer is about exactly what is stored.
            if current and (page.etag, page.last_modified) == (sent.etag, sent.last_modified):
                await self.store.checked(page.page_id, etag=sent.etag, last_modified=sent.last_modified, of=page)
            return Refreshed(newest.source_id, newest.content_hash, same.headers, validators=sent)
        return await self._compared(page, newest, before, got, ignore, even_empty=even_empty)

    async def bury(self, page_id: str, url: str, options: FetchOptions, status: int) -> Refreshed:
        """Stores a version that says that the page does not exist any more. Raises `PageUnknown` or `StoreError`."""
        page = await self._page(page_id)
        got = await self._fetching.gone(url, status, options)
        newest = newest_of(page, options.variant(url))
        before = await self.store.get(newest.source_id) if newest else None
        return replace(await self._compared(page, newest, before, got, IgnoreRules(ready=())), gone=True)

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
        before: StoredVersion | None,
        got: Got,
        ignore: IgnoreRules,
        *,
        even_empty: bool = False,
    ) -> Refreshed:
        """Stores what was got, if it differs from the newest version, which is `before`."""
        entry, facts, hash_ = got.entry, got.facts, version_hash(got.entry.packet)
        if newest and before:
            validators = Validators.of(newest.source_id, facts)
            unchanged = Refreshed(newest.source_id, newest.content_hash, got.headers, validators=validators)
            if newest.content_hash == hash_:
                if speaks_for(page, newest):
                    # Validators from another URL say nothing about where the page is known to be.
                    there = facts.options.get(AT) == page.options.get(AT)
                    etag, modified = (facts.etag, facts.last_modified) if there else (None, None)
                    await self.store.checked(page.page_id, etag=etag, last_modified=modified, of=page)
                return unchanged
            if got.empty and not even_empty and before.packet["content"].strip():
                raise BecameEmpty("It has no text any more.")
            if await to_thread.run_sync(same_content, before, entry, ignore):
                return unchanged
        source_id, old = entry.packet["source_id"], before and before.packet["source_id"]
        put = await self.store.put(entry, facts)
        return Refreshed(source_id, hash_, got.headers, put, old, Validators.of(source_id, facts))
