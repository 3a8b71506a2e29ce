"""A page after parsing: its tree, its meta tags, its JSON-LD and its blocks, each read once and used by all."""

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urljoin

from lxml import html
from lxml.html import HtmlElement

from tidings.web.extract.blocks import SILENT, Blocks

# A second page behind the first one's end is read by browsers, and not by lxml unless the ends are gone.
_ENDS = re.compile(rb"</(?:body|html)\s*>", re.IGNORECASE)
_ENOUGH = 100
"""Words from which on a page is taken to say something itself."""
_LONGEST = 500_000
"""Characters of JSON-LD that are read; more is data, not description."""


@dataclass(frozen=True)
class Page:
    """What every later step looks at."""

    url: str
    base: str
    """What its links are relative to."""
    root: HtmlElement
    body: HtmlElement
    metas: dict[str, str]
    """By name or property, small; the first of each."""
    data: tuple[dict[str, Any], ...]
    """The objects of all JSON-LD scripts, nested ones too, in order."""
    blocks: Blocks
    title: str
    """Of the `title` element."""

    @property
    def types(self) -> list[str]:
        """The schema.org types that JSON-LD names, in order."""
        return [name for one in self.data for name in _names(one.get("@type"))]


def read_page(body: bytes, url: str, prepare: Callable[[HtmlElement], None] | None = None) -> Page:
    """Parse `body`, which is UTF-8 and must have passed the pre-scan; `prepare` may change the tree before it is read."""
    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    root = html.document_fromstring(_ENDS.sub(b"", body) or b"<html></html>", parser=parser, ensure_head_body=True)
    if prepare is not None:
        prepare(root)
    within = root.find("body")
    within = root if within is None else within
    title = root.find(".//title")
    return Page(
        url=url,
        base=_base(root, url),
        root=root,
        body=within,
        metas=_metas(root),
        data=tuple(_described(root)),
        blocks=_blocks(within),
        title=" ".join((title.text_content() if title is not None else "").split()),
    )


def _blocks(body: HtmlElement) -> Blocks:
    """The blocks of a page; where there is next to nothing, those for readers without scripts count too."""
    blocks = Blocks(body)
    if blocks.root.words < _ENOUGH:
        others = Blocks(body, SILENT - {"noscript"})
        if others.root.words >= _ENOUGH:
            return others
    return blocks


def _base(root: HtmlElement, url: str) -> str:
    for base in root.iter("base"):
        if base.get("href"):
            with contextlib.suppress(ValueError):
                return urljoin(url, base.get("href"))
    return url


def _metas(root: HtmlElement) -> dict[str, str]:
    found: dict[str, str] = {}
    for meta in root.iter("meta"):
        name = meta.get("property") or meta.get("name") or meta.get("itemprop")
        content = meta.get("content")
        if name and content:
            found.setdefault(name.lower(), content.strip())
    return found


def _described(root: HtmlElement) -> Iterator[dict[str, Any]]:
    for script in root.iter("script"):
        text = script.text
        if text and len(text) < _LONGEST and "ld+json" in (script.get("type") or ""):
            with contextlib.suppress(ValueError, RecursionError):
                yield from _objects(json.loads(text, strict=False), 0)


def _objects(value: object, depth: int) -> Iterator[dict[str, Any]]:
    if depth > 12:
        return
    if isinstance(value, list):
        for one in cast("list[object]", value):
            yield from _objects(one, depth + 1)
    elif isinstance(value, dict):
        one = cast("dict[str, Any]", value)
        yield one
        for inner in one.values():
            if isinstance(inner, dict | list):
                yield from _objects(cast("object", inner), depth + 1)


def _names(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [one for one in cast("list[object]", value) if isinstance(one, str)]
    return []
