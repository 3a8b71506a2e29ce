"""`WebLibrary`: pages fetched, read, kept, and looked at again. The tools and the watcher ask it.

A page comes from the store while it is fresh, else by a conditional request. Callers that ask for the same page at the
same time share one request. `on_change` is called when versions come or go; it is the watcher that notifies subscribers
of a changed page.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final, Self

from tidings._kit.tasks import Progress, SingleFlight
from tidings.web.extract.pool import ExtractionPool
from tidings.web.fetch.fetcher import Fetcher
from tidings.web.fetch.urls import parse
from tidings.web.page_options import FetchOptions
from tidings.web.pages import NO_STORE, Fetching, Got, Renders, Validators, newest_of, speaks_for
from tidings.web.refresh import PageRefresher
from tidings.web.site_map import Mapper, SiteMap
from tidings.web.store.model import PutOutcome, StoredPage, StoredVersion, Version
from tidings.web.store.store import Store

OnChange = Callable[[Sequence[str], bool], Awaitable[None]]  # the URIs that changed; did the list of versions?
OnNewVersion = Callable[[str], Awaitable[None]]  # called with the page_id

USUAL: Final = FetchOptions()


@dataclass(frozen=True)
class Fetched:
    """A page that was asked for."""

    entry: StoredVersion
    from_cache: bool = False  # true if there was no request to the site
    not_modified: bool = False  # true if the site answered that it has not changed
    put: PutOutcome | None = None  # the outcome in the store; None if it came from there


async def _ignore(_uris: Sequence[str], _listed: bool) -> None:
    return None


@dataclass(eq=False)
class WebLibrary:
    """The pages of one server. Its parts are entered and left by the caller."""

    fetcher: Fetcher
    workers: ExtractionPool
    store: Store
    _: KW_ONLY
    renderer: Renders | None = None
    cache_ttl: float = 300.0  # seconds for which a page is fresh, unless the caller sets them
    read_pdf: bool = True  # otherwise the bytes of PDF files are kept
    on_change: OnChange = _ignore

    def __post_init__(self) -> None:
        self._on_new_version: OnNewVersion | None = None
        self._fetching = Fetching(self.fetcher, self.workers, self.renderer, self.read_pdf, self._pages_of)
        self.refresher = PageRefresher(self._fetching, self.store)
        self._flights: SingleFlight[Fetched] = SingleFlight()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._flights.aclose()

    def report_new_versions(self, to: OnNewVersion | None) -> None:
        """Has `to` called, from now on, when `fetch` found another content than before."""
        self._on_new_version = to

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

    async def _pages_of(self, url: str, most: int) -> Sequence[str]:
        return [page.url for page in (await self.map(url, limit=most)).pages]

    async def _cached(self, page: StoredPage, url: str, options: FetchOptions) -> Fetched | None:
        ttl = self.cache_ttl if options.cache_ttl is None else options.cache_ttl
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
            got = await self._fetching.get(url, options, report, known=known, before=before)
            if got.entry is not None:
                return await self._keep(got)
            # A 304 need not repeat the validators: then the known ones stay.
            etag = got.headers.get("etag") or page.etag
            modified = got.headers.get("last-modified", page.last_modified)
            await self.store.checked(page.page_id, etag=etag, last_modified=modified, of=page)
            if stored := await self.store.get(newest.source_id):
                return Fetched(stored, not_modified=True)
            # The version expired during the request: the page has to be fetched after all.
        return await self._keep(await self._fetching.get(url, options, report, before=before))

    async def _comparable(self, page: StoredPage, url: str, options: FetchOptions) -> Version | None:
        """Returns the version that "not modified" would be about, and that would do as an answer."""
        newest = newest_of(page, options.variant(url))
        if newest is None or not speaks_for(page, newest):
            return None
        lacks_raw = options.keep_raw and await self.store.part(newest.source_id, "raw") is None
        return None if lacks_raw else newest

    async def _keep(self, got: Got) -> Fetched:
        assert got.entry is not None  # noqa: S101 - the request was not conditional
        assert got.facts is not None  # noqa: S101 - see above
        put = await self.store.put(got.entry, got.facts)
        if put.changed and self._on_new_version is not None:
            await self._on_new_version(got.entry.page_id)
        if put.new or put.gone:
            await self.on_change((), True)
        return Fetched(got.entry, put=put)
