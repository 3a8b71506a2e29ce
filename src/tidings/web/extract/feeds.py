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
from tidings.web.extract.model import Extracted, ExtractOptions, ExtractWarning, FeedEntry
from tidings.web.extract.xml import LANGUAGE, local, read_tree, written_tree

_MARKUP: Final = re.compile(r"<[a-zA-Z/!][^<>]{0,5000}>|&(?:[a-zA-Z]{2,20}|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});")
_LINE_START: Final = re.compile(r"^(\s*)(#{1,6}\s|[-+]\s|>|\d{1,9}[.)]\s)", re.MULTILINE)
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
_ABOUT: Final = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"
_TEXT: Final = ("summary", "description", "content:encoded", "content", "dc:description", "itunes:summary",
                "media:description")  # fmt: skip
_PUBLISHED: Final = ("published", "pubDate", "issued", "dc:date", "dcterms:created", "created", "dcterms:issued")
_UPDATED: Final = ("updated", "modified", "dcterms:modified", "lastBuildDate")
_AUTHOR: Final = ("author", "dc:creator", "itunes:author", "managingEditor", "dc:publisher", "webMaster")

Parts = dict[str, list[Element]]  # The children of an element by name, with the prefix of their namespace.


def read_feed(body: bytes, charset: str | None, url: str, options: ExtractOptions) -> Extracted:
    """Reads a feed in XML."""
    caps = options.caps
    tree = read_tree(body, charset, caps, "a feed")
    if tree is None:
        return Extracted("feed", "rss", empty="empty")
    root, faults = tree
    method, head, items = _identified(root)
    if head is None:
        return written_tree(tree, options)
    parts, warnings = _parts(head), list(faults)
    entries, cut = _prepared((_entry(item, url) for item in items[: caps.entries]), caps.summary)
    if len(items) > len(entries):
        warnings.append(model.left_out("the feed", len(entries), len(items), "entries"))
    if cut:
        message = f"the text of {cut:,} entries is cut at {caps.summary:,} characters: see their links"
        warnings.append(ExtractWarning("truncated", message))
    if not entries:
        warnings.append(ExtractWarning("empty", "the feed has no entries at present"))
    title = _line(_first(parts, "title")) or None
    description = _plain(_first(parts, "subtitle", "description", "tagline", "itunes:summary")) or None
    markdown, text = _written(title, description if description != title else None, entries)
    markdown, over = model.bounded(markdown, caps.characters, "the feed")
    text, _ = model.bounded(text, caps.characters, "the feed")
    return Extracted(
        kind="feed",
        method=method,
        markdown=markdown,
        text=text,
        title=title,
        site_name=title,
        author=_author(parts),
        published_at=_when(parts, _PUBLISHED),
        language=root.get(LANGUAGE) or _line(_first(parts, "language", "dc:language")) or None,
        description=description,
        warnings=(*warnings, *over),
        entries=entries,
        empty=None if text else "empty",
    )


def _plain(text: str | None) -> str:
    """Returns HTML or text as text. Only text with tags or character references counts as HTML."""
    text = (text or "").strip()
    if not _MARKUP.search(text):
        return "\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines())))
    return plain_text(text.encode("utf-8", "replace"))


def _line(text: str | None) -> str:
    return " ".join(_plain(text).split())[:500]


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


def _written(title: str | None, about: str | None, entries: Iterable[FeedEntry]) -> tuple[str, str]:
    """Returns a feed as Markdown and as text."""
    marked, plain = [f"# {model.escaped(title)}" if title else "", _body(about or "")], [title, about]
    for entry in entries:
        name, address = entry.title or entry.url or entry.id, model.escaped_url(entry.url)
        by = " · ".join(filter(None, (entry.published_at or entry.updated_at, entry.author)))
        heading = f"## [{model.escaped(name)}]({address})" if address else f"## {model.escaped(name)}"
        marked += (heading, model.escaped(by), _body(entry.summary))
        plain += ("\n".join(filter(None, (name, by))), entry.summary)
    return "\n\n".join(filter(None, marked)), "\n\n".join(filter(None, plain))


def _body(text: str) -> str:
    return _LINE_START.sub(r"\1\\\2", model.escaped(text)).replace("\n", "\n\n")


def _identified(root: Element) -> tuple[str, Element | None, Sequence[Element]]:
    """Returns the format of a feed, the element that describes it, and its entries."""
    name = local(root.tag).lower()
    items = [child for child in root if local(child.tag) == ("entry" if name == "feed" else "item")]
    channel = next((child for child in root if local(child.tag) == "channel"), None)
    if name == "feed":
        return "atom", root, items
    if name == "rdf" and channel is not None:
        return "rdf", channel, items
    if name == "rss":
        # Broken feeds have their items outside the channel, or no channel at all.
        return "rss", root if channel is None else channel, [one for one in root.iter() if local(one.tag) == "item"]
    return ("rss", root, items) if name == "channel" else ("xml", None, [])


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
    title = _line(_first(parts, "title", "dc:title", "itunes:title", "media:title"))
    url = _address(parts, base) or ""
    summary = next((said for key in _TEXT if (said := _plain(_first(parts, key)))), "")
    published, updated = _when(parts, _PUBLISHED), _when(parts, _UPDATED)
    id_ = "".join((_first(parts, "id", "guid") or item.get(_ABOUT) or "").split()) or url
    if not id_:
        content = f"{title}\0{published or updated or ''}\0{summary if not title else ''}"
        id_ = sha256(content.encode("utf-8", "replace")).hexdigest()[:16]
    return FeedEntry(id_[:1_000], title, url, published, updated, _author(parts), summary)


def _first(parts: Parts, *names: str) -> str | None:
    """Returns the content of the first of these parts that has any: text, or HTML, which may be escaped or elements."""
    for name in names:
        for element in parts.get(name, ()):
            inner = list(element) if any(isinstance(child.tag, str) for child in element) else []
            html = [etree.tostring(child, encoding="unicode", method="html") for child in inner]
            content = (element.text or "") if html else "".join(element.itertext())
            if html or element.get("type") == "text":  # Text that is not HTML.
                content = content.replace("&", "&amp;").replace("<", "&lt;")
            if (content := "".join((content, *html))).strip():
                return content
    return None


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
    said = next((one.get("url") for one in parts.get("enclosure", ())), None)
    return web_address(base, said) if said else None


def _when(parts: Parts, names: Sequence[str]) -> str | None:
    return next((when for name in names if (when := moment(_first(parts, name)))), None)


def _author(parts: Parts) -> str | None:
    for key in _AUTHOR:
        names: dict[str, None] = {}
        for element in parts.get(key, ()):
            inner = next((child for child in element if local(child.tag) == "name"), element)
            text = _line("".join(inner.itertext()))
            before, _, name = text.partition("(")  # RSS writes `mail@example.org (Name)`.
            names[(name.rstrip(") ") if "@" in before else "") or text] = None
        if named := list(filter(None, names))[:5]:
            return ", ".join(named)
    return None
