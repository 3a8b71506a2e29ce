"""The pages of a site: those that a page links to, that its feeds tell of, and that its sitemaps list.

In this order, for a limit cuts off the end, and what the page itself names is closest to what was asked for. Sitemaps
are those of robots.txt, or else /sitemap.xml; one may point to others, which is followed a few steps. What cannot be
had is named in the notes, and does not keep the rest back.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

import anyio
from anyio import to_thread

from tidings.web.extract.model import ExtractionFailed, Unsupported
from tidings.web.net.model import FetchError, Request, Response
from tidings.web.net.urls import Url, parse
from tidings.web.packets.injection import disarm
from tidings.web.pages.answers import failed
from tidings.web.pages.fetching import Extracts, Fetches
from tidings.web.sites.sitemap import BadSitemap, Listed, Sitemap, links_of, read_sitemap

Source = Literal["page", "feed", "sitemap"]

MOST_SITEMAPS: Final = 20
MOST_FEEDS: Final = 3
DEEPEST: Final = 3
MOST_KNOWN: Final = 50_000
_AT_ONCE: Final = 4
_CURES: Final[dict[int, str]] = dict.fromkeys((404, 410), "check the address, or begin with the front page of the site")


class HasSitemaps(Protocol):
    """What a robots.txt says; see `net.robots.Robots`."""

    def sitemaps(self) -> Sequence[str]: ...


class Sites(Fetches, Protocol):
    """What fetches pages, and knows what a site says to robots; see `net.fetch.Fetcher`."""

    async def robots(self, url: str) -> HasSitemaps: ...


@dataclass(frozen=True)
class SitePage:
    """A page of a site, and where it was found first."""

    url: str
    source: Source
    modified: str | None = None
    title: str | None = None


@dataclass(frozen=True)
class SiteMap:
    """What was found of a site."""

    url: str
    pages: tuple[SitePage, ...]
    total: int
    """How many were found; more than `pages` if the limit left some out."""
    sitemaps: tuple[str, ...] = ()
    """Those that were read."""
    notes: tuple[str, ...] = ()
    """What could not be had, and why."""


@dataclass
class _Found:
    """What has been found so far."""

    wanted: Callable[[Url], bool]
    pages: dict[str, SitePage] = field(default_factory=dict[str, SitePage])
    sitemaps: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])

    def add(self, url: str, source: Source, modified: str | None = None, title: str | None = None) -> None:
        try:
            place = parse(url)
        except FetchError:
            return
        if len(self.pages) < MOST_KNOWN and self.wanted(place):
            self.pages.setdefault(str(place), SitePage(str(place), source, modified, title))

    def note(self, what: str, why: Exception) -> None:
        self.notes.append(disarm(f"{what}: {why}")[:300])


class Mapper:
    """Finds the pages of sites."""

    def __init__(self, fetcher: Sites, workers: Extracts) -> None:
        self._fetcher = fetcher
        self._workers = workers

    async def map(self, url: str, *, limit: int, same_host: bool = True) -> SiteMap:
        """The pages of the site that `url` is of, up to `limit`; with `same_host`, those of its host alone.

        Raises:
            FetchError: `url` itself could not be had.
        """
        page = await self._fetcher.fetch(Request(url))
        if page.status >= 400:
            raise failed(page, _CURES)
        site = parse(page.url)
        found = _Found(lambda place: not same_host or _bare(place.host) == _bare(site.host))
        links = await to_thread.run_sync(links_of, page.body, page.url)
        for link in links.pages:
            found.add(link, "page", title=links.texts.get(link))
        if not links.pages and _is_no_html(page.content_type):
            kind = page.content_type.partition(";")[0]
            found.notes.append(
                f"{page.url} is {kind}, not HTML: it has no links. What is found is of the site's sitemaps."
            )
        await self._feeds(links.feeds[:MOST_FEEDS], found)
        await self._sitemaps(site, found)
        pages = tuple(found.pages.values())
        return SiteMap(page.url, pages[:limit], len(pages), tuple(found.sitemaps), tuple(found.notes))

    async def _feeds(self, urls: Sequence[str], found: _Found) -> None:
        for url in urls:
            try:
                feed = await self._get(url)
                extracted = await self._workers.extract(feed.body, feed.content_type, feed.url)
            except (FetchError, ExtractionFailed, Unsupported) as error:
                found.note(url, error)
                continue
            for entry in extracted.entries:
                found.add(entry.url, "feed", entry.updated_at or entry.published_at, disarm(entry.title) or None)

    async def _sitemaps(self, site: Url, found: _Found) -> None:
        named: Sequence[str] = ()
        try:
            named = (await self._fetcher.robots(str(site))).sitemaps()
        except FetchError as error:
            found.note(f"{site.origin}/robots.txt", error)
        known = dict.fromkeys(named or [str(site.at("/sitemap.xml"))])
        level, tried, left = list(known), 0, 0
        for _ in range(DEEPEST):
            room = MOST_SITEMAPS - tried
            left += len(level[room:])
            tried += len(level[:room])
            following = [each for read in await self._read_all(level[:room], found) for each in read.sitemaps]
            level = [url for url in dict.fromkeys(following) if url not in known]
            known |= dict.fromkeys(level)
        if left := left + len(level):
            found.notes.append(f"{left} further sitemaps were not read: {MOST_SITEMAPS} are, {DEEPEST} steps deep.")

    async def _read_all(self, urls: Sequence[str], found: _Found) -> list[Sitemap]:
        """Read some sitemaps, a few at a time; what they list is found in their order."""
        read: dict[str, Sitemap] = {}
        room = anyio.CapacityLimiter(_AT_ONCE)

        async def one(url: str) -> None:
            async with room:
                try:
                    response = await self._get(url)
                    read[url] = await to_thread.run_sync(read_sitemap, response.body, response.url)
                except (FetchError, BadSitemap) as error:
                    found.note(url, error)

        async with anyio.create_task_group() as tasks:
            for url in urls:
                tasks.start_soon(one, url)
        for url in urls:
            if url in read:
                self._take(url, read[url], found)
        return [read[url] for url in urls if url in read]

    def _take(self, url: str, sitemap: Sitemap, found: _Found) -> None:
        found.sitemaps.append(url)
        for listed in sitemap.pages:
            found.add(listed.url, "sitemap", _modified(listed))
        if sitemap.cut:
            found.notes.append(f"{url}: it lists more than {MOST_KNOWN:,} URLs; the others are left out.")

    async def _get(self, url: str) -> Response:
        response = await self._fetcher.fetch(Request(url, accept="application/xml, text/xml;q=0.9, */*;q=0.5"))
        if response.status >= 400:
            raise failed(response)
        return response


def _is_no_html(content_type: str) -> bool:
    return bool(content_type) and not content_type.lower().startswith(("text/html", "application/xhtml"))


def _bare(host: str) -> str:
    return host.removeprefix("www.")


def _modified(listed: Listed) -> str | None:
    return disarm(listed.modified)[:40] if listed.modified else None
