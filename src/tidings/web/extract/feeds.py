"""Feeds in XML: RSS 0.9x and 2.0, RSS 1.0 (RDF), Atom 0.3 and 1.0.

Told apart by their root and read alike: an entry's parts are looked for by name, in the namespaces where they may
stand, and what a feed gets wrong (HTML undeclared, dates of any sort, ids missing or doubled) is put right. XML
that is labelled as a feed and is none is read as XML.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, cast

from lxml import etree  # pyright: ignore[reportMissingTypeStubs, reportAttributeAccessIssue, reportUnknownVariableType]

from tidings.web.extract.feed_entries import Feed, as_extracted, line, named, plain
from tidings.web.extract.metadata import web_address
from tidings.web.extract.model import Entry, Extracted, ExtractionFailed, ExtractOptions
from tidings.web.extract.moments import moment
from tidings.web.extract.tree import Element
from tidings.web.extract.xml_text import faults, local, written_tree
from tidings.web.extract.xml_tree import read_tree

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
        Feed(
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


def _entry(item: Element, base: str) -> Entry:
    parts = _parts(item)
    title = line(_first(parts, "title", "dc:title", "itunes:title", "media:title"))
    url = _address(parts, base) or ""
    summary = next((said for key in _TEXT if (said := plain(_first(parts, key)))), "")
    published, updated = _when(parts, _PUBLISHED), _when(parts, _UPDATED)
    id_ = "".join(
        (_first(parts, "id", "guid") or item.get("{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about") or "").split()
    )
    return Entry(
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
