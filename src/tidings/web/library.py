"""Pages: fetched, read, kept, and looked at again. What the server's tools and the watcher ask.

    fetch       a page: from the store while it is fresh, else by a request that says what is known already
    fetch_all   many of them; one that fails does not fail the others
    extract     bytes that the caller has
    refresh     a page that is watched, as it is now
    map         the pages of a site

Who asks for the same page at the same time gets the same answer, by one request. `on_change` is told when versions come
or go; that a page has changed is the watcher's to say (see `watching`).
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

import anyio

from tidings.web.extract.model import ExtractionFailed
from tidings.web.fetch.request import FetchError
from tidings.web.fetch.urls import parse
from tidings.web.ignore import IgnoreRules
from tidings.web.page_options import FetchOptions
from tidings.web.pages import AT, Extracts, Fetching, Got, Renders, last_request, newest_of, speaks_for
from tidings.web.refresh import PageRefresher, PageUnknown, Refreshed
from tidings.web.sharing import Progress, SingleFlight
from tidings.web.site_map import Mapper, SiteMap, Sites
from tidings.web.store.model import PutOutcome, StoredPage, StoredVersion, StoreError, Version
from tidings.web.store.store import Store

OnChange = Callable[[Sequence[str], bool], Awaitable[None]]
"""Told the URIs of resources that are different now, and whether the list of versions is."""

Failure = FetchError | ExtractionFailed | StoreError
"""What can go wrong with one page."""

USUAL: Final = FetchOptions()


@dataclass(frozen=True)
class Fetched:
    """A page that was asked for."""

    entry: StoredVersion
    page_id: str
    from_cache: bool = False
    """Whether the site was not asked."""
    not_modified: bool = False
    """Whether the site said that it is what it was."""
    put: PutOutcome | None = None
    """What became of it in the store; None if it came from there."""


async def _nobody(_uris: Sequence[str], _listed: bool) -> None:
    return None


class WebLibrary:
    """The pages of one server. Its parts are entered and left by whoever made them.

    Args:
        fetcher: The way to the network.
        workers: What reads pages.
        store: What keeps them.
        renderer: What renders them, if anything does.
        cache_ttl: For how many seconds a page is fresh, if the caller does not say.
        at_once: How many pages of one `fetch_all` are fetched at the same time.
        per_host: How many of them from one host; as the fetcher has it.
        read_pdf: Whether PDF files are read; otherwise they are kept as bytes.
        on_change: Told when versions come or go.
        clock: Tells the time in seconds since 1970; the same as the store's.
    """

    def __init__(
        self,
        fetcher: Sites,
        workers: Extracts,
        store: Store,
        *,
        renderer: Renders | None = None,
        cache_ttl: float = 300.0,
        at_once: int = 8,
        per_host: int = 4,
        read_pdf: bool = True,
        on_change: OnChange = _nobody,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self.on_change = on_change
        self.on_new_version: Callable[[str], Awaitable[None]] | None = None
        """Told the page_id when `fetch` has found another content than before; the watcher listens."""
        self._fetching = Fetching(fetcher, workers, renderer, read_pdf=read_pdf)
        self.refresher = PageRefresher(self._fetching, store, clock)
        self._mapper = Mapper(fetcher, workers)
        self._cache_ttl = cache_ttl
        self._at_once = at_once
        self._per_host = per_host
        self._clock = clock
        self._flights: SingleFlight[Fetched] = SingleFlight()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._flights.aclose()

    # For those who ask

    async def fetch(self, url: str, options: FetchOptions = USUAL, progress: Progress | None = None) -> Fetched:
        """A page.

        Raises:
            FetchError: It could not be had; `HttpFailed` if the site answered with an error.
            ExtractionFailed: It could not be read.
            StoreError: It could not be kept.
        """
        place = str(parse(url))
        page = await self.store.page_of(place)
        if page is not None and (found := await self._cached(page, place, options)):
            return found
        key = (options.variant(place), options.keep_raw, options.timeout, options.max_redirects)
        return await self._flights.share(key, lambda tell: self._fetch(place, page, options, tell), progress)

    async def fetch_all(
        self,
        urls: Sequence[str],
        options: FetchOptions = USUAL,
        done: Callable[[int, int], Awaitable[None]] | None = None,
    ) -> list[Fetched | Failure]:
        """Many pages, in the order of asking; in the place of each that fails, why. `done` is told how many are.

        Each has its own time from when its turn at its host comes: slow pages do not use up that of others.
        """
        results: dict[int, Fetched | Failure] = {}
        room = anyio.CapacityLimiter(self._at_once)
        turns = {_host(url): anyio.CapacityLimiter(self._per_host) for url in urls}

        async def one(place: int, url: str) -> None:
            async with turns[_host(url)], room:
                try:
                    results[place] = await self.fetch(url, options)
                except (FetchError, ExtractionFailed, StoreError) as error:
                    results[place] = error
            if done is not None:
                await done(len(results), len(urls))

        async with anyio.create_task_group() as tasks:
            for place, url in enumerate(urls):
                tasks.start_soon(one, place, url)
        return [results[place] for place in range(len(urls))]

    async def extract(self, body: bytes, content_type: str, url: str, options: FetchOptions = USUAL) -> Fetched:
        """The page that the caller has the bytes of, said to be those of `url`.

        Raises:
            FetchError: `url` is none.
            ExtractionFailed: They could not be read.
            StoreError: They could not be kept.
        """
        return await self._keep(await self._fetching.given(body, content_type, str(parse(url)), options))

    async def map(self, url: str, *, limit: int = 500, same_host: bool = True) -> SiteMap:
        """The pages of the site that `url` is of; see `mapping`.

        Raises:
            FetchError: `url` could not be had.
        """
        return await self._mapper.map(url, limit=limit, same_host=same_host)

    async def refresh(self, page_id: str, ignore: IgnoreRules | None = None) -> Refreshed:
        """Look at a page again, as it was fetched last; see `refreshing`.

        Raises:
            PageUnknown: There is no such page, or none that can be fetched.
            FetchError, ExtractionFailed, StoreError: As `fetch` does.
        """
        page = await self.store.page_of(page_id)
        if page is None or page.url is None:
            raise PageUnknown(page_id)
        url, options = last_request(page, page.url)
        refreshed = await self.refresher.refresh(page.page_id, url, options, ignore or IgnoreRules())
        if refreshed.stored and self.on_new_version is not None:
            await self.on_new_version(page.page_id)
        if refreshed.listed:
            await self.on_change((), True)
        return refreshed

    # Behind these

    async def _cached(self, page: StoredPage, place: str, options: FetchOptions) -> Fetched | None:
        ttl = self._cache_ttl if options.cache_ttl is None else options.cache_ttl
        newest = await self._comparable(page, place, options)
        if newest is None or page.age(self._clock()) >= ttl:
            return None
        entry = await self.store.get(newest.source_id)
        if entry is None or entry.packet["status"] >= 400:
            return None
        return Fetched(entry, page.page_id, from_cache=True)

    async def _fetch(self, place: str, page: StoredPage | None, options: FetchOptions, tell: Progress) -> Fetched:
        newest = await self._comparable(page, place, options) if page else None
        if page is not None and newest is not None:
            etag, modified, of = page.etag, page.last_modified, page.options.get(AT)
            got = await self._fetching.get(place, options, tell, etag=etag, last_modified=modified, of=of)
            if got.entry is not None:
                return await self._keep(got)
            etag, modified = got.etag or page.etag, got.modified(page)
            await self.store.checked(page.page_id, etag=etag, last_modified=modified, of=page)
            if stored := await self.store.get(newest.source_id):
                return Fetched(stored, page.page_id, not_modified=True)
            # It went while the site was asked: what it is has to be fetched after all.
        return await self._keep(await self._fetching.get(place, options, tell))

    async def _comparable(self, page: StoredPage, place: str, options: FetchOptions) -> Version | None:
        """The version that "not modified" would speak of, and that would do as an answer."""
        newest = newest_of(page, options.variant(place))
        if newest is None or not speaks_for(page, newest):
            return None
        lacks_raw = options.keep_raw and await self.store.part(newest.source_id, "raw") is None
        return None if lacks_raw else newest

    async def _keep(self, got: Got) -> Fetched:
        assert got.entry is not None  # noqa: S101 - nobody asked whether it is what it was
        assert got.facts is not None  # noqa: S101 - see above
        put = await self.store.put(got.entry, got.facts)
        if put.changed and self.on_new_version is not None:
            await self.on_new_version(got.entry.page_id)
        if put.new or put.gone:
            await self.on_change((), True)
        return Fetched(got.entry, got.entry.page_id, put=put)


def _host(url: str) -> str:
    with suppress(ValueError):
        return urlsplit(url).netloc.lower()
    return ""
