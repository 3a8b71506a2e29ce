"""The pages of a site: those that a page links to, that its feeds tell of, and that its sitemaps list.

In this order, for a limit cuts off the end, and what the page itself names is closest to what was asked for. Sitemaps
are those of robots.txt, or else /sitemap.xml; one may point to others, which is followed a few steps. What cannot be
had is named in the notes, and does not keep the rest back.

What a sitemap lists, and where a page links to. Without network; bounded, whatever the bytes are.

Sitemaps are XML (lists of pages, or of further sitemaps) or plain text, perhaps packed with gzip. Entities are not
resolved and nothing is loaded, so a bomb stays as small as it came. Links are found by looking for their tags, one
after another: no tree is built of a page that nobody has judged yet.

Which pages a site has.
"""

import html
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from io import BytesIO
from typing import Any, Final, Literal, Protocol, cast
from urllib.parse import urljoin

import anyio
from anyio import to_thread

from tidings.web.documents.injection import disarm
from tidings.web.extract.model import ExtractionFailed, Unsupported
from tidings.web.fetch.request import FetchError, Request, Response
from tidings.web.fetch.urls import Url, parse
from tidings.web.pages import Extracts, Fetches, failed

MOST_URLS = 50_000
"""What one sitemap may list, as its standard says; and the most that is looked at in a page."""
MOST_UNPACKED = 50 * 1024 * 1024
_LONGEST_TAG = 4096
_LONGEST_URL = 2048
_LONGEST_LINK = 2048
_LONGEST_TEXT = 200

_HREF = re.compile(rb"""\bhref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_REL = re.compile(rb"""\brel\s*=\s*["']?([^"'>]*)""", re.IGNORECASE)
_TYPE = re.compile(rb"""\btype\s*=\s*["']?([^"'>\s]*)""", re.IGNORECASE)
_TAG = re.compile(rb"<[^<>]*(?:>|$)")
_LINK_END = re.compile(rb"</?a\b", re.IGNORECASE)
_FEED_TYPES = (b"application/rss+xml", b"application/atom+xml", b"application/feed+json")


@dataclass(frozen=True)
class SitemapEntry:
    """A URL in a sitemap."""

    url: str
    modified: str | None = None


@dataclass(frozen=True)
class Sitemap:
    """What one sitemap says."""

    pages: tuple[SitemapEntry, ...] = ()
    sitemaps: tuple[str, ...] = ()
    """Further ones that it points to."""
    cut: bool = False
    """Whether there was more in it than may be."""


@dataclass(frozen=True)
class PageLinks:
    """Where a page leads to."""

    pages: tuple[str, ...] = ()
    feeds: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the links to pages say, of those that say something."""


class BadSitemap(ValueError):
    """It is no sitemap, or cannot be unpacked."""


def read_sitemap(body: bytes, url: str) -> Sitemap:
    """What the sitemap at `url` lists.

    Raises:
        BadSitemap: It is none.
    """
    body = _unpacked(body)
    beginning = body[:512].lstrip(b"\xef\xbb\xbf \t\r\n")
    return _from_xml(body, url) if beginning.startswith(b"<") else _from_text(body)


def links_of(body: bytes, url: str) -> PageLinks:
    """The links of an HTML page, in their order, each once; fragments are not parts of them."""
    base = next((link for link, _, _ in _hrefs(body, b"<base", url)), url)
    feeds = [link for link, tag, _ in _hrefs(body, b"<link", base) if _is_feed(tag)]
    pages: dict[str, str] = {}
    for link, _, end in _hrefs(body, b"<a", base):
        pages[link] = pages.get(link) or _text_at(body, end)
    texts = {link: text for link, text in pages.items() if text}
    return PageLinks(tuple(pages), tuple(dict.fromkeys(feeds)), texts)


def _unpacked(body: bytes) -> bytes:
    if not body.startswith(b"\x1f\x8b"):
        return body
    try:
        unpacking = zlib.decompressobj(wbits=31)
        unpacked = unpacking.decompress(body, MOST_UNPACKED)
    except zlib.error as error:
        raise BadSitemap(f"it cannot be unpacked: {error}") from error
    if unpacking.unconsumed_tail:
        raise BadSitemap(f"it has more than {MOST_UNPACKED // 1024 // 1024} MiB unpacked")
    return unpacked


def _from_text(body: bytes) -> Sitemap:
    lines = body[:MOST_UNPACKED].decode("utf-8", "replace").lstrip("\ufeff").splitlines()
    urls = [line.strip() for line in lines if re.match(r"\s*https?://\S+\s*$", line[: _LONGEST_URL + 1])]
    if not urls:
        raise BadSitemap("it lists no URL")
    return Sitemap(tuple(map(SitemapEntry, urls[:MOST_URLS])), cut=len(urls) > MOST_URLS)


def _from_xml(body: bytes, url: str) -> Sitemap:
    pages: list[SitemapEntry] = []
    sitemaps: list[str] = []
    cut = False
    for kind, place, modified in _entries(body):
        if len(pages) + len(sitemaps) >= MOST_URLS:
            cut = True
            break
        whole = _joined(url, place)
        if whole is None:
            continue
        if kind == "sitemap":
            sitemaps.append(whole)
        else:
            pages.append(SitemapEntry(whole, modified))
    return Sitemap(tuple(pages), tuple(sitemaps), cut)


def _entries(body: bytes) -> Iterator[tuple[str, str, str | None]]:
    """Each `url` or `sitemap` of the document: which it is, its `loc`, its `lastmod`."""
    # Imported when the first sitemap comes; and lxml comes without types.
    lxml = cast("Any", import_module("lxml.etree"))
    options = {"resolve_entities": False, "no_network": True, "load_dtd": False, "huge_tree": False, "recover": True}
    try:
        known = False
        for event, element in lxml.iterparse(BytesIO(body), events=("start", "end"), **options):
            name = _local(element)
            if event == "start":
                known = known or name in {"urlset", "sitemapindex"}
                continue
            if name in {"url", "sitemap"}:
                said = {_local(child): (child.text or "").strip() for child in element}
                if 0 < len(said.get("loc", "")) <= _LONGEST_URL:
                    yield name, said["loc"], said.get("lastmod") or None
                # Freed as it goes: what a sitemap weighs is its file, not its tree.
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]
    except lxml.XMLSyntaxError as error:
        raise BadSitemap(f"it is no XML: {error}") from error
    if not known:
        raise BadSitemap("it is no sitemap")


def _local(element: Any) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _hrefs(body: bytes, opening: bytes, base: str) -> Iterable[tuple[str, bytes, int]]:
    """The targets of all tags that begin with `opening`, the tags, and where they end."""
    lower = body.lower()
    place = looked = 0
    while looked < MOST_URLS and (place := lower.find(opening, place)) >= 0:
        looked += 1
        after = place + len(opening)
        end = body.find(b">", after, after + _LONGEST_TAG)
        place = after
        if end < 0 or not body[after : after + 1].isspace():
            continue
        place, tag = end, body[after:end]
        found = _HREF.search(tag)
        if found and (target := _absolute(found[1] or found[2] or found[3] or b"", base)):
            yield target, tag, end + 1


def _text_at(body: bytes, start: int) -> str:
    """What the link says whose tag ends there."""
    inside = _LINK_END.split(body[start : start + _LONGEST_LINK], maxsplit=1)[0]
    plain = html.unescape(_TAG.sub(b" ", inside).decode("utf-8", "replace"))
    return " ".join(plain.split())[:_LONGEST_TEXT]


def _absolute(target: bytes, base: str) -> str | None:
    text = html.unescape(target.decode("utf-8", "replace")).strip()
    return _joined(base, text) if text else None


def _joined(base: str, place: str) -> str | None:
    try:
        whole = urljoin(base, place).partition("#")[0]
    except ValueError:  # "http://[": no URL at all
        return None
    return whole if whole.startswith(("http://", "https://")) and len(whole) <= _LONGEST_URL else None


def _is_feed(tag: bytes) -> bool:
    rel, kind = _REL.search(tag), _TYPE.search(tag)
    return bool(rel and kind and b"alternate" in rel[1].lower().split() and kind[1].lower() in _FEED_TYPES)


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
class _SiteFound:
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
        found = _SiteFound(lambda place: not same_host or _bare(place.host) == _bare(site.host))
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

    async def _feeds(self, urls: Sequence[str], found: _SiteFound) -> None:
        for url in urls:
            try:
                feed = await self._get(url)
                extracted = await self._workers.extract(feed.body, feed.content_type, feed.url)
            except (FetchError, ExtractionFailed, Unsupported) as error:
                found.note(url, error)
                continue
            for entry in extracted.entries:
                found.add(entry.url, "feed", entry.updated_at or entry.published_at, disarm(entry.title) or None)

    async def _sitemaps(self, site: Url, found: _SiteFound) -> None:
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

    async def _read_all(self, urls: Sequence[str], found: _SiteFound) -> list[Sitemap]:
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

    def _take(self, url: str, sitemap: Sitemap, found: _SiteFound) -> None:
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


def _modified(listed: SitemapEntry) -> str | None:
    return disarm(listed.modified)[:40] if listed.modified else None
