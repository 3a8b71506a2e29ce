"""Feeds: RSS 0.9x and 2.0, RSS 1.0 (RDF), Atom 0.3 and 1.0.

The root element tells the formats apart; otherwise they are read alike: the parts of an entry are found by name in
all namespaces that feeds use. Common errors are corrected: undeclared HTML, dates of any format, ids that are missing
or repeated. A body that is labelled as a feed and is not is read as XML.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final

from tidings.web.extract import model
from tidings.web.extract.html.page import moment, web_address
from tidings.web.extract.html.read import plain_text
from tidings.web.extract.html.tree import Element, etree
from tidings.web.extract.model import Caps, Extracted, ExtractOptions, ExtractWarning, FeedEntry
from tidings.web.extract.xml import LANGUAGE, local, read_tree, written_tree

_MARKUP = re.compile(r"<[a-zA-Z/!][^<>]{0,5000}>|&(?:[a-zA-Z]{2,20}|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});")
_LINE_START = re.compile(r"^(\s*)(#{1,6}\s|[-+]\s|>|\d{1,9}[.)]\s)", re.MULTILINE)


def _finished(feed: Extracted, total: int, caps: Caps) -> Extracted:
    """Writes a feed that has its metadata and its first entries, of `total`, with complete summaries."""
    warnings = list(feed.warnings)
    entries, cut = _prepared(feed.entries, caps.summary)
    if total > len(entries):
        warnings.append(model.left_out("the feed", len(entries), total, "entries"))
    if cut:
        message = f"the text of {cut:,} entries is cut at {caps.summary:,} characters: see their links"
        warnings.append(ExtractWarning("truncated", message))
    if not entries:
        warnings.append(ExtractWarning("empty", "the feed has no entries at present"))
    markdown, over = model.bounded(_markdown(feed, entries), caps.characters, "the feed")
    text, _ = model.bounded(_text(feed, entries), caps.characters, "the feed")
    return replace(
        feed,
        markdown=markdown,
        text=text,
        site_name=feed.title,
        warnings=(*warnings, *over),
        entries=entries,
        empty=None if text else "empty",
    )


def plain(text: str | None) -> str:
    """Returns HTML or text as text. Only text with tags or character references counts as HTML."""
    text = (text or "").strip()
    if not _MARKUP.search(text):
        return "\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines())))
    return plain_text(text.encode("utf-8", "replace"))


def line(text: str | None) -> str:
    """Returns HTML or text as one line, for a title or a name."""
    return " ".join(plain(text).split())[:500]


def _entry_id(id_: str | None, url: str, title: str, when: str | None, summary: str) -> str:
    """Returns the id of an entry: its own, its URL, or a hash of its content."""
    if id_ or url:
        return (id_ or url)[:1_000]
    return sha256(f"{title}\0{when or ''}\0{summary if not title else ''}".encode("utf-8", "replace")).hexdigest()[:16]


def _prepared(entries: Iterable[FeedEntry], most: int) -> tuple[tuple[FeedEntry, ...], int]:
    """Returns the entries with unique ids and summaries of `most` characters, and how many were longer."""
    seen: Counter[str] = Counter()
    cut = 0
    prepared: list[FeedEntry] = []
    for entry in entries:
        seen[entry.id] += 1
        id_ = entry.id if seen[entry.id] == 1 else f"{entry.id}#{seen[entry.id]}"
        long = len(entry.summary) > most
        cut += long
        summary = entry.summary[:most].rsplit(None, 1)[0] + " …" if long else entry.summary
        prepared.append(replace(entry, id=id_, summary=summary))
    return tuple(prepared), cut


def _markdown(feed: Extracted, entries: Iterable[FeedEntry]) -> str:
    parts = [f"# {model.escaped(feed.title)}"] if feed.title else []
    if feed.description and feed.description != feed.title:
        parts.append(_body(feed.description))
    for entry in entries:
        title = model.escaped(entry.title or entry.url or entry.id)
        address = model.escaped_url(entry.url)
        parts.append(f"## [{title}]({address})" if address else f"## {title}")
        if about := _about(entry):
            parts.append(model.escaped(about))
        if entry.summary:
            parts.append(_body(entry.summary))
    return "\n\n".join(parts)


def _text(feed: Extracted, entries: Iterable[FeedEntry]) -> str:
    parts = [feed.title or "", feed.description or "" if feed.description != feed.title else ""]
    for entry in entries:
        parts += ("\n".join(filter(None, (entry.title or entry.url or entry.id, _about(entry)))), entry.summary)
    return "\n\n".join(filter(None, parts))


def _about(entry: FeedEntry) -> str:
    return " · ".join(filter(None, (entry.published_at or entry.updated_at, entry.author)))


def _body(text: str) -> str:
    return _LINE_START.sub(r"\1\\\2", model.escaped(text)).replace("\n", "\n\n")


_PREFIXES: Final = {  # The prefixes of namespaces in the names of parts. Parts of other namespaces are ignored.
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

_TEXT: Final = ("summary", "description", "content:encoded", "content", "dc:description", "itunes:summary",
                "media:description")  # fmt: skip
_PUBLISHED: Final = ("published", "pubDate", "issued", "dc:date", "dcterms:created", "created", "dcterms:issued")
_UPDATED: Final = ("updated", "modified", "dcterms:modified", "lastBuildDate")
_AUTHOR: Final = ("author", "dc:creator", "itunes:author", "managingEditor", "dc:publisher", "webMaster")

Parts = dict[str, list[Element]]  # The children of an element by name, with the prefix of their namespace.


def read_feed(body: bytes, charset: str | None, url: str, options: ExtractOptions) -> Extracted:
    """Reads a feed in XML."""
    tree = read_tree(body, charset, options.bounds, "a feed")
    if tree is None:
        return Extracted("feed", "rss", empty="empty")
    root, warnings = tree
    method, head, items = _identified(root)
    if head is None:
        return written_tree(tree, options)
    parts = _parts(head)
    feed = Extracted(
        kind="feed",
        method=method,
        title=line(_first(parts, "title")) or None,
        author=_author(parts),
        published_at=_when(parts, _PUBLISHED),
        language=root.get(LANGUAGE) or line(_first(parts, "language", "dc:language")) or None,
        description=plain(_first(parts, "subtitle", "description", "tagline", "itunes:summary")) or None,
        warnings=warnings,
        entries=tuple(_entry(item, url) for item in items[: options.caps.entries]),
    )
    return _finished(feed, len(items), options.caps)


def _identified(root: Element) -> tuple[str, Element | None, Sequence[Element]]:
    """Returns the format of a feed, the element that describes it, and its entries."""
    name = local(root.tag).lower()
    if name == "feed":
        return "atom", root, [child for child in root if local(child.tag) == "entry"]
    channel = next((child for child in root if local(child.tag) == "channel"), None)
    if name == "rdf" and channel is not None:
        return "rdf", channel, [child for child in root if local(child.tag) == "item"]
    if name == "rss":
        # Broken feeds have their items outside the channel, or no channel at all.
        return "rss", root if channel is None else channel, [one for one in root.iter() if local(one.tag) == "item"]
    if name == "channel":
        return "rss", root, [child for child in root if local(child.tag) == "item"]
    return "xml", None, []


def _parts(element: Element) -> Parts:
    found: Parts = {}
    for child in element:
        if isinstance(child.tag, str):
            space, _, name = child.tag.rpartition("}")  # An undeclared prefix is a part of the name.
            if (prefix := _PREFIXES.get(space.lstrip("{"))) is not None:
                found.setdefault(prefix + name, []).append(child)
    return found


def _entry(item: Element, base: str) -> FeedEntry:
    parts = _parts(item)
    title = line(_first(parts, "title", "dc:title", "itunes:title", "media:title"))
    url = _address(parts, base) or ""
    summary = next((said for key in _TEXT if (said := plain(_first(parts, key)))), "")
    published, updated = _when(parts, _PUBLISHED), _when(parts, _UPDATED)
    id_ = _first(parts, "id", "guid") or item.get("{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about") or ""
    unique = _entry_id("".join(id_.split()), url, title, published or updated, summary)
    return FeedEntry(unique, title, url, published, updated, _author(parts), summary)


def _first(parts: Parts, *names: str) -> str | None:
    """Returns the content of the first of these parts that has any."""
    for name in names:
        for element in parts.get(name, ()):
            if (content := _content(element)).strip():
                return content
    return None


def _content(element: Element) -> str:
    """Returns the content of a part: text, or HTML, which may be escaped or elements (Atom's xhtml)."""
    if any(isinstance(child.tag, str) for child in element):
        html = [etree.tostring(child, encoding="unicode", method="html") for child in element]
        return "".join((_unmarked(element.text or ""), *html))
    text = "".join(element.itertext())
    # In Atom, text of the type "text" is not HTML.
    return _unmarked(text) if element.get("type") == "text" else text


def _unmarked(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _address(parts: Parts, base: str) -> str | None:
    """Returns the URL of an entry: Atom's alternate link, RSS's link, or an id that is a permanent URL."""
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
            text = line("".join(inner.itertext()))
            before, _, name = text.partition("(")  # RSS writes `mail@example.org (Name)`.
            name = name.rstrip(") ") if "@" in before else ""
            names[name or text] = None
        names.pop("", None)
        if names:
            return ", ".join(list(names)[:5])
    return None
