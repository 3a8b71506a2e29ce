"""Feeds in XML: RSS 0.9x and 2.0, RSS 1.0 (RDF), Atom 0.3 and 1.0.

Told apart by their root and read alike: an entry's parts are looked for by name, in the namespaces where they may
stand, and what a feed gets wrong (HTML undeclared, dates of any sort, ids missing or doubled) is put right. XML
that is labelled as a feed and is none is read as XML.

What a feed becomes, whichever sort it is: entries, each with an id of its own, and their markdown.

JSON Feed, versions 1 and 1.1. What is labelled so and is none is read as JSON.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from typing import Any, Final, cast

from lxml import etree  # pyright: ignore[reportMissingTypeStubs, reportAttributeAccessIssue, reportUnknownVariableType]

from tidings.web.extract.data import NotJson, parsed, read_json
from tidings.web.extract.html.page import moment, web_address
from tidings.web.extract.html.read import plain_text
from tidings.web.extract.html.tree import Element
from tidings.web.extract.model import (
    Caps,
    Extracted,
    ExtractionFailed,
    ExtractOptions,
    ExtractWarning,
    FeedEntry,
    PageLink,
    bounded,
    left_out,
)
from tidings.web.extract.sniff import as_text
from tidings.web.extract.xml import faults, local, read_tree, written_tree

_MARKUP = re.compile(r"<[a-zA-Z/!][^<>]{0,5000}>|&(?:[a-zA-Z]{2,20}|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});")
_SPECIAL = re.compile(r"([\\`*_\[\]])")
_LINE_START = re.compile(r"^(\s*)(#{1,6}\s|[-+]\s|>|\d{1,9}[.)]\s)", re.MULTILINE)


@dataclass(frozen=True)
class ParsedFeed:
    """A feed before it is written. The summaries are whole, and may be HTML no more."""

    method: str
    title: str | None = None
    author: str | None = None
    language: str | None = None
    description: str | None = None
    published_at: str | None = None
    updated_at: str | None = None
    entries: Sequence[FeedEntry] = ()
    """At most one more than the caps allow."""
    total: int = 0
    warnings: tuple[ExtractWarning, ...] = ()


def as_extracted(feed: ParsedFeed, caps: Caps) -> Extracted:
    """The feed, its first entries and their text."""
    warnings = list(feed.warnings)
    entries, cut = _shortened(_told_apart(feed.entries[: caps.entries]), caps.summary)
    if feed.total > len(entries):
        warnings.append(left_out("the feed", len(entries), feed.total, "entries"))
    if cut:
        warnings.append(
            ExtractWarning(
                "truncated", f"the text of {cut:,} entries is cut at {caps.summary:,} characters: see their links"
            )
        )
    if not entries:
        warnings.append(ExtractWarning("empty", "the feed has no entries at present"))
    markdown, over = bounded(_markdown(feed, entries), caps.characters, "the feed")
    text, _ = bounded(_text(feed, entries), caps.characters, "the feed")
    return Extracted(
        kind="feed",
        method=feed.method,
        markdown=markdown,
        text=text,
        title=feed.title,
        author=feed.author,
        published_at=feed.published_at,
        modified_at=feed.updated_at,
        language=feed.language,
        site_name=feed.title,
        description=feed.description,
        links=tuple(dict.fromkeys(PageLink(entry.title or entry.url, entry.url) for entry in entries if entry.url)),
        warnings=(*warnings, *over),
        entries=entries,
        empty=None if text else "empty",
    )


def plain(text: str | None) -> str:
    """What a feed gives as HTML, or as text, as text. Only what holds tags or references is taken for HTML."""
    text = (text or "").strip()
    if not _MARKUP.search(text):
        return "\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines())))
    return plain_text(text.encode("utf-8", "replace"))


def line(text: str | None) -> str:
    """The same, in one line: a title, a name."""
    return " ".join(plain(text).split())[:500]


def named(id_: str | None, url: str, title: str, when: str | None, summary: str) -> str:
    """The id of an entry: its own, its address, or one made of what it says."""
    if id_ or url:
        return (id_ or url)[:1_000]
    return sha256(f"{title}\0{when or ''}\0{summary if not title else ''}".encode("utf-8", "replace")).hexdigest()[:16]


def _told_apart(entries: Iterable[FeedEntry]) -> list[FeedEntry]:
    """With ids that differ: some feeds give the same to many."""
    seen: dict[str, int] = {}
    apart: list[FeedEntry] = []
    for entry in entries:
        number = seen[entry.id] = seen.get(entry.id, 0) + 1
        apart.append(entry if number == 1 else replace(entry, id=f"{entry.id}#{number}"))
    return apart


def _shortened(entries: Iterable[FeedEntry], most: int) -> tuple[tuple[FeedEntry, ...], int]:
    """With summaries of at most `most` characters, and how many were longer."""
    cut = 0
    short: list[FeedEntry] = []
    for entry in entries:
        if len(entry.summary) > most:
            cut += 1
            kept = entry.summary[:most].rsplit(None, 1)[0] + " …"
            short.append(replace(entry, summary=kept))
        else:
            short.append(entry)
    return tuple(short), cut


def _markdown(feed: ParsedFeed, entries: Iterable[FeedEntry]) -> str:
    parts = [f"# {_escaped(feed.title)}"] if feed.title else []
    if feed.description and feed.description != feed.title:
        parts.append(_body(feed.description))
    for entry in entries:
        title = _escaped(entry.title or entry.url or entry.id)
        address = entry.url.replace(" ", "%20").replace("(", "%28").replace(")", "%29")
        parts.append(f"## [{title}]({address})" if address else f"## {title}")
        if about := _about(entry):
            parts.append(_escaped(about))
        if entry.summary:
            parts.append(_body(entry.summary))
    return "\n\n".join(parts)


def _text(feed: ParsedFeed, entries: Iterable[FeedEntry]) -> str:
    parts = [feed.title or "", feed.description or "" if feed.description != feed.title else ""]
    for entry in entries:
        parts += ("\n".join(filter(None, (entry.title or entry.url or entry.id, _about(entry)))), entry.summary)
    return "\n\n".join(filter(None, parts))


def _about(entry: FeedEntry) -> str:
    return " · ".join(filter(None, (entry.published_at or entry.updated_at, entry.author)))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def _body(text: str) -> str:
    return _LINE_START.sub(r"\1\\\2", _escaped(text)).replace("\n", "\n\n")


_PREFIXES: Final = {
    "": "",
    "http://www.w3.org/2005/Atom": "",
    "http://purl.org/atom/ns#": "",
    "http://purl.org/rss/1.0/": "",
    "http://my.netscape.com/rdf/simple/0.9/": "",
    "http://backend.userland.com/rss2": "",
    "http://purl.org/dc/elements/1.1/": "dc:",
    "http://purl.org/dc/terms/": "dcterms:",
    "http://purl.org/rss/1.0/modules/content/": "content:",
    "http://www.itunes.com/dtds/podcast-1.0.dtd": "itunes:",
    "http://search.yahoo.com/mrss/": "media:",
}
"""What the parts of a feed are called here. Parts of other namespaces are left out."""

_TEXT: Final = ("summary", "description", "content:encoded", "content", "dc:description", "itunes:summary",
                "media:description")  # fmt: skip
_PUBLISHED: Final = ("published", "pubDate", "issued", "dc:date", "dcterms:created", "created", "dcterms:issued")
_UPDATED: Final = ("updated", "modified", "dcterms:modified", "lastBuildDate")
_AUTHOR: Final = ("author", "dc:creator", "itunes:author", "managingEditor", "dc:publisher", "webMaster")
_LANGUAGE: Final = "{http://www.w3.org/XML/1998/namespace}lang"

Parts = dict[str, list[Element]]
"""The children of an element by their names here."""


def read_feed(body: bytes, charset: str | None, url: str, options: ExtractOptions) -> Extracted:
    """The entries of a feed, the first of them as text."""
    tree = read_tree(body, charset, options.bounds)
    if tree is None:
        if body.strip(b"\0 \t\r\n\xef\xbb\xbf\xff\xfe"):
            raise ExtractionFailed("broken", "It is sent as a feed and has no element in it: ask for it as raw.")
        return Extracted("feed", "rss", empty="empty")
    method, head, items = _sorted(tree.root)
    if head is None:
        return written_tree(tree, url, options)
    parts = _parts(head)
    base = url
    return as_extracted(
        ParsedFeed(
            method=method,
            title=line(_first(parts, "title")) or None,
            author=_author(parts),
            language=tree.root.get(_LANGUAGE) or line(_first(parts, "language", "dc:language")) or None,
            description=plain(_first(parts, "subtitle", "description", "tagline", "itunes:summary")) or None,
            published_at=_when(parts, _PUBLISHED),
            updated_at=_when(parts, _UPDATED),
            entries=[_entry(item, base) for item in islice(items, options.caps.entries)],
            total=len(items),
            warnings=faults(tree),
        ),
        options.caps,
    )


def _sorted(root: Element) -> tuple[str, Element | None, Sequence[Element]]:
    """Which sort of feed it is, the element that describes it, and its entries."""
    name = local(root.tag).lower()
    if name == "feed":
        return "atom", root, [child for child in root if local(child.tag) == "entry"]
    channel = next((child for child in root if local(child.tag) == "channel"), None)
    if name == "rdf" and channel is not None:
        return "rdf", channel, [child for child in root if local(child.tag) == "item"]
    if name == "rss":
        # Broken ones have their items beside the channel, or no channel at all.
        return "rss", root if channel is None else channel, [one for one in root.iter() if local(one.tag) == "item"]
    if name == "channel":
        return "rss", root, [child for child in root if local(child.tag) == "item"]
    return "xml", None, []


def _parts(element: Element) -> Parts:
    found: Parts = {}
    for child in element:
        if isinstance(child.tag, str):
            space, _, name = child.tag.rpartition("}")
            # A prefix that the feed forgot to declare stays a part of the name.
            prefix = _PREFIXES.get(space.lstrip("{"))
            if prefix is not None:
                found.setdefault(prefix + name, []).append(child)
    return found


def _entry(item: Element, base: str) -> FeedEntry:
    parts = _parts(item)
    title = line(_first(parts, "title", "dc:title", "itunes:title", "media:title"))
    url = _address(parts, base) or ""
    summary = next((said for key in _TEXT if (said := plain(_first(parts, key)))), "")
    published, updated = _when(parts, _PUBLISHED), _when(parts, _UPDATED)
    id_ = "".join(
        (_first(parts, "id", "guid") or item.get("{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about") or "").split()
    )
    return FeedEntry(
        id=named(id_, url, title, published or updated, summary),
        title=title,
        url=url,
        published_at=published,
        updated_at=updated,
        author=_author(parts),
        summary=summary,
    )


def _first(parts: Parts, *names: str) -> str | None:
    """The text of the first of these parts that has any."""
    for name in names:
        for element in parts.get(name, ()):
            said = _said(element)
            if said.strip():
                return said
    return None


def _said(element: Element) -> str:
    """What stands in a part, as HTML where it may be that: escaped, or as elements (Atom's xhtml)."""
    if any(isinstance(child.tag, str) for child in element):
        return "".join(_serialised(element))
    text = "".join(element.itertext())
    # Atom says of its text whether it is HTML; a "<" in one that is not means itself.
    return text.replace("&", "&amp;").replace("<", "&lt;") if element.get("type") == "text" else text


def _serialised(element: Element) -> Iterator[str]:
    yield (element.text or "").replace("&", "&amp;").replace("<", "&lt;")
    for child in element:
        yield cast("Any", etree).tostring(child, encoding="unicode", method="html")


def _address(parts: Parts, base: str) -> str | None:
    """Where a feed or an entry leads: Atom's alternate link, RSS's link, or an id that is a permanent address."""
    links = parts.get("link", ())
    for element in (*(one for one in links if one.get("rel") in {None, "alternate"}), *links):
        said = element.get("href") or "".join(element.itertext())
        if said.strip() and element.get("rel") in {None, "alternate", "related", "via"}:
            return web_address(base, said)
    for element in parts.get("guid", ()):
        said = "".join(element.itertext()).strip()
        if element.get("isPermaLink") != "false" and said.startswith(("http://", "https://")):
            return web_address(base, said)
    enclosed = next(iter(parts.get("enclosure", ())), None)
    said = enclosed.get("url") if enclosed is not None else None
    return web_address(base, said) if said else None


def _when(parts: Parts, names: Sequence[str]) -> str | None:
    return next((when for name in names if (when := moment(_first(parts, name)))), None)


def _author(parts: Parts) -> str | None:
    names: dict[str, None] = {}
    for key in _AUTHOR:
        for element in parts.get(key, ()):
            inner = next((child for child in element if local(child.tag) == "name"), element)
            if name := _person(line("".join(inner.itertext()))):
                names[name] = None
        if names:
            return ", ".join(list(names)[:5])
    return None


def _person(said: str) -> str:
    """RSS writes `mail@example.org (Name)`."""
    before, bracket, name = said.partition("(")
    return name.rstrip(") ") if bracket and "@" in before and name.rstrip(") ") else said


def read_json_feed(body: bytes, charset: str | None, url: str, options: ExtractOptions) -> Extracted:
    """The entries of a feed, the first of them as text."""
    feed = _object(as_text(body, charset))
    items: Any = feed.get("items")
    if not isinstance(items, list):
        return read_json(body, charset, url, options)
    entries = [cast("dict[str, Any]", one) for one in cast("list[Any]", items) if isinstance(one, dict)]
    return as_extracted(
        ParsedFeed(
            method="jsonfeed",
            title=_line(feed, "title"),
            author=_json_author(feed),
            language=_line(feed, "language"),
            description=_line(feed, "description"),
            entries=[_json_entry(one, url) for one in entries[: options.caps.entries]],
            total=len(entries),
        ),
        options.caps,
    )


def _object(text: str) -> dict[str, Any]:
    try:
        said = parsed(text)
    except NotJson:
        return {}
    return cast("dict[str, Any]", said) if isinstance(said, dict) else {}


def _json_entry(item: dict[str, Any], base: str) -> FeedEntry:
    title, url = (
        _line(item, "title") or "",
        _json_address(item, "url", base) or _json_address(item, "external_url", base) or "",
    )
    summary = next((said for key in ("summary", "content_html") if (said := plain(_json_text(item, key)))), "")
    summary = summary or _json_text(item, "content_text").strip()
    published, updated = moment(_json_text(item, "date_published")), moment(_json_text(item, "date_modified"))
    return FeedEntry(
        id=named(_json_text(item, "id").strip(), url, title, published or updated, summary),
        title=title,
        url=url,
        published_at=published,
        updated_at=updated,
        author=_json_author(item),
        summary=summary,
    )


def _json_text(item: dict[str, Any], key: str) -> str:
    value = item.get(key)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _line(item: dict[str, Any], key: str) -> str | None:
    return " ".join(_json_text(item, key).split())[:500] or None


def _json_address(item: dict[str, Any], key: str, base: str) -> str | None:
    said = _json_text(item, key)
    return web_address(base, said) if said else None


def _json_author(item: dict[str, Any]) -> str | None:
    """Version 1 has one author, version 1.1 several."""
    people: list[Any] = cast("list[Any]", item.get("authors")) if isinstance(item.get("authors"), list) else []
    named_ = [cast("dict[str, Any]", one) for one in (*people, item.get("author")) if isinstance(one, dict)]
    names = dict.fromkeys(filter(None, (line(_json_text(one, "name")) for one in named_)))
    return ", ".join(list(names)[:5]) or None
