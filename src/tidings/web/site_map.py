"""The pages of a site: those that a page links to, then those that its sitemaps list; so a limit cuts off the end.

Sitemaps are those of robots.txt, or else /sitemap.xml, and those that they point to. What cannot be read is named in
the notes. Links are found by searching for their tags: no tree is built from a page that was not checked.
"""

import html
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from io import BytesIO
from typing import Any, Final, Literal, NamedTuple, cast
from urllib.parse import urljoin

import anyio
from anyio import to_thread

from tidings._kit.decompress import Corrupt, OverLimit, gunzip, is_gzip
from tidings.web.documents.invisible import disarm
from tidings.web.fetch.fetcher import Fetcher
from tidings.web.fetch.request import FetchError, Request
from tidings.web.fetch.urls import Url, parse
from tidings.web.pages import failed

MOST_URLS = 50_000  # the limit of the sitemap standard; also the number of links of a page that are looked at
MOST_UNPACKED = 50 * 1024 * 1024
_LONGEST_TAG = 4096
_LONGEST_URL = 2048
_LONGEST_LINK = 2048
_LONGEST_TEXT = 200
MOST_SITEMAPS: Final = 20
DEEPEST: Final = 3
_AT_ONCE: Final = 4

_HREF = re.compile(rb"""\bhref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_TAG = re.compile(rb"<[^<>]*(?:>|$)")
_LINK_END = re.compile(rb"</?a\b", re.IGNORECASE)
Source = Literal["page", "sitemap"]

_CURES: Final[dict[int, str]] = dict.fromkeys((404, 410), "check the address, or begin with the front page of the site")


class Sitemap(NamedTuple):
    """The contents of one sitemap."""

    pages: tuple[tuple[str, str | None], ...] = ()  # their URLs, and when each was modified
    sitemaps: tuple[str, ...] = ()  # further sitemaps that it points to
    cut: bool = False  # true if it lists more than the limit


class BadSitemap(ValueError):
    """A body is not a sitemap, or cannot be decompressed."""


def read_sitemap(body: bytes, url: str) -> Sitemap:
    """Returns what the sitemap at `url` lists. Raises `BadSitemap` if it is not a sitemap."""
    if is_gzip(body):
        try:
            body = gunzip(body, MOST_UNPACKED)
        except (Corrupt, OverLimit) as error:
            raise BadSitemap(f"it cannot be decompressed: {error}") from error
    if body[:512].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        return _from_xml(body, url)
    lines = body[:MOST_UNPACKED].decode("utf-8", "replace").lstrip("\ufeff").splitlines()
    urls = [line.strip() for line in lines if re.match(r"\s*https?://\S+\s*$", line[: _LONGEST_URL + 1])]
    if not urls:
        raise BadSitemap("it lists no URLs")
    return Sitemap(tuple((each, None) for each in urls[:MOST_URLS]), cut=len(urls) > MOST_URLS)


def _from_xml(body: bytes, url: str) -> Sitemap:
    # Imported late, for a quick start; lxml has no types.
    lxml = cast("Any", import_module("lxml.etree"))
    options = {"resolve_entities": False, "no_network": True, "load_dtd": False, "huge_tree": False, "recover": True}
    elements = lxml.iterparse(BytesIO(body), tag=("{*}url", "{*}sitemap"), **options)
    pages: list[tuple[str, str | None]] = []
    sitemaps: list[str] = []
    try:
        for _, element in elements:
            if len(pages) + len(sitemaps) >= MOST_URLS:
                return Sitemap(tuple(pages), tuple(sitemaps), cut=True)
            place, modified = (
                next(((each.text or "").strip() for each in element.iterchildren(f"{{*}}{name}")), "")
                for name in ("loc", "lastmod")
            )
            if 0 < len(place) <= _LONGEST_URL and (whole := _joined(url, place)):
                if lxml.QName(element).localname == "sitemap":
                    sitemaps.append(whole)
                else:
                    pages.append((whole, modified or None))
            # Freed at once, so that the tree never takes more memory than the file.
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]
    except lxml.XMLSyntaxError as error:
        raise BadSitemap(f"it is not XML: {error}") from error
    if elements.root is None or lxml.QName(elements.root).localname not in ("urlset", "sitemapindex"):
        raise BadSitemap("it is not a sitemap")
    return Sitemap(tuple(pages), tuple(sitemaps))


def links_of(body: bytes, url: str) -> dict[str, str]:
    """Returns the links of an HTML page in their order, without fragments, each with its text."""
    base = next((link for link, _ in _hrefs(body, b"<base", url)), url)
    pages: dict[str, str] = {}
    for link, end in _hrefs(body, b"<a", base):
        if not pages.get(link):
            inside = _LINK_END.split(body[end : end + _LONGEST_LINK], maxsplit=1)[0]
            plain = html.unescape(_TAG.sub(b" ", inside).decode("utf-8", "replace"))
            pages[link] = " ".join(plain.split())[:_LONGEST_TEXT]
    return pages


def _hrefs(body: bytes, opening: bytes, base: str) -> Iterable[tuple[str, int]]:
    """Yields the targets of all tags that begin with `opening`, and where the tags end."""
    lower = body.lower()
    place = looked = 0
    while looked < MOST_URLS and (place := lower.find(opening, place)) >= 0:
        looked += 1
        after = place + len(opening)
        end = body.find(b">", after, after + _LONGEST_TAG)
        place = after
        if end < 0 or not body[after : after + 1].isspace():
            continue
        place, found = end, _HREF.search(body, after, end)
        href = (found[1] or found[2] or found[3] or b"") if found else b""
        text = html.unescape(href.decode("utf-8", "replace")).strip()
        if text and (target := _joined(base, text)):
            yield target, end + 1


def _joined(base: str, place: str) -> str | None:
    try:
        whole = urljoin(base, place).partition("#")[0]
    except ValueError:  # for example "http://["
        return None
    return whole if whole.startswith(("http://", "https://")) and len(whole) <= _LONGEST_URL else None


@dataclass(frozen=True)
class SitePage:
    """A page of a site, and where it was found first."""

    url: str
    source: Source
    modified: str | None = None
    title: str | None = None


@dataclass(frozen=True)
class SiteMap:
    """The pages that were found of a site."""

    url: str
    pages: tuple[SitePage, ...]
    total: int  # the number of pages that were found; there are more than `pages` if the limit left some out
    notes: tuple[str, ...] = ()  # the parts that could not be read, and why


class Mapper:
    """Finds the pages of one site."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._host = ""
        self._pages: dict[str, SitePage] = {}
        self._notes: list[str] = []

    async def map(self, url: str, *, limit: int) -> SiteMap:
        """Returns up to `limit` pages of the host of `url`. Raises `FetchError` if `url` could not be fetched."""
        page = await self._fetcher.fetch(Request(url))
        if page.status >= 400:
            raise failed(page, _CURES)
        site = parse(page.url)
        self._host = _bare(site.host)
        links = await to_thread.run_sync(links_of, page.body, page.url)
        for link, text in links.items():
            self._add(link, "page", title=text or None)
        kind = page.content_type.partition(";")[0]
        if not links and kind and not kind.lower().startswith(("text/html", "application/xhtml")):
            self._notes.append(f"{page.url} is {kind}, not HTML: it has no links. The pages come from sitemaps.")
        await self._read_sitemaps(site)
        pages = tuple(self._pages.values())
        return SiteMap(page.url, pages[:limit], len(pages), tuple(self._notes))

    def _add(self, url: str, source: Source, modified: str | None = None, title: str | None = None) -> None:
        with suppress(FetchError):
            place = parse(url)
            if len(self._pages) < MOST_URLS and _bare(place.host) == self._host:
                self._pages.setdefault(str(place), SitePage(str(place), source, modified, title))

    def _note(self, what: str, why: Exception) -> None:
        self._notes.append(disarm(f"{what}: {why}")[:300])

    async def _read_sitemaps(self, site: Url) -> None:
        named: Sequence[str] = ()
        try:
            named = (await self._fetcher.robots(str(site))).sitemaps()
        except FetchError as error:
            self._note(f"{site.origin}/robots.txt", error)
        known = dict.fromkeys(named or [str(replace(site, target="/sitemap.xml"))])
        level, room, left = list(known), MOST_SITEMAPS, 0
        for _ in range(DEEPEST):
            read, left = level[:room], left + len(level[room:])
            room -= len(read)
            level = [url for url in dict.fromkeys(await self._read_all(read)) if url not in known]
            known |= dict.fromkeys(level)
        if left := left + len(level):
            self._notes.append(
                f"{left} further sitemaps were not read: the limit is {MOST_SITEMAPS}, {DEEPEST} steps deep."
            )

    async def _read_all(self, urls: Sequence[str]) -> list[str]:
        """Reads some sitemaps, a few at a time, adds their pages in their order, and returns further sitemaps."""
        read: dict[str, Sitemap] = {}
        room = anyio.CapacityLimiter(_AT_ONCE)

        async def one(url: str) -> None:
            asked = Request(url, accept="application/xml, text/xml;q=0.9, */*;q=0.5")
            async with room:
                try:
                    response = await self._fetcher.fetch(asked)
                    if response.status >= 400:
                        raise failed(response)
                    read[url] = await to_thread.run_sync(read_sitemap, response.body, response.url)
                except (FetchError, BadSitemap) as error:
                    self._note(url, error)

        async with anyio.create_task_group() as tasks:
            for url in urls:
                tasks.start_soon(one, url)
        following: list[str] = []
        for url in filter(read.__contains__, urls):
            for page, modified in read[url].pages:
                self._add(page, "sitemap", disarm(modified)[:40] if modified else None)
            if read[url].cut:
                self._notes.append(f"{url}: it lists more than {MOST_URLS:,} URLs; the rest is left out.")
            following += read[url].sitemaps
        return following


def _bare(host: str) -> str:
    return host.removeprefix("www.")
