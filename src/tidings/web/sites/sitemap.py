"""What a sitemap lists, and where a page links to. Without network; bounded, whatever the bytes are.

Sitemaps are XML (lists of pages, or of further sitemaps) or plain text, perhaps packed with gzip. Entities are not
resolved and nothing is loaded, so a bomb stays as small as it came. Links are found by looking for their tags, one
after another: no tree is built of a page that nobody has judged yet.
"""

import html
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from io import BytesIO
from typing import Any, cast
from urllib.parse import urljoin

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
class Listed:
    """A URL in a sitemap."""

    url: str
    modified: str | None = None


@dataclass(frozen=True)
class Sitemap:
    """What one sitemap says."""

    pages: tuple[Listed, ...] = ()
    sitemaps: tuple[str, ...] = ()
    """Further ones that it points to."""
    cut: bool = False
    """Whether there was more in it than may be."""


@dataclass(frozen=True)
class Links:
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


def links_of(body: bytes, url: str) -> Links:
    """The links of an HTML page, in their order, each once; fragments are not parts of them."""
    base = next((link for link, _, _ in _hrefs(body, b"<base", url)), url)
    feeds = [link for link, tag, _ in _hrefs(body, b"<link", base) if _is_feed(tag)]
    pages: dict[str, str] = {}
    for link, _, end in _hrefs(body, b"<a", base):
        pages[link] = pages.get(link) or _text_at(body, end)
    texts = {link: text for link, text in pages.items() if text}
    return Links(tuple(pages), tuple(dict.fromkeys(feeds)), texts)


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
    return Sitemap(tuple(map(Listed, urls[:MOST_URLS])), cut=len(urls) > MOST_URLS)


def _from_xml(body: bytes, url: str) -> Sitemap:
    pages: list[Listed] = []
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
            pages.append(Listed(whole, modified))
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
