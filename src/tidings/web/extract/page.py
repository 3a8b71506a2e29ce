"""A page after parsing: its tree, its meta tags, its JSON-LD and its blocks, each read once and used by all."""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urljoin

from tidings.web.extract.blocks import Blocks
from tidings.web.extract.hiding import Sight, sight_of, words_of
from tidings.web.extract.tags import SILENT
from tidings.web.extract.tree import Element, parse

_ENOUGH = 100
"""Words from which on a page is taken to say something itself."""
_LONGEST = 500_000
"""Characters of JSON-LD that are read; more is data, not description."""

_TAGS = ("base", "link", "meta", "script", "style", "time", "title")


@dataclass(frozen=True)
class Page:
    """What every later step looks at."""

    url: str
    base: str
    """What its links are relative to."""
    root: Element
    body: Element
    parts: dict[str, list[Element]]
    """The elements of each of some tags that more than one step looks for, or that stand anywhere."""
    metas: dict[str, str]
    """By name or property, small; the first of each."""
    data: tuple[dict[str, Any], ...]
    """The objects of all JSON-LD scripts, nested ones too, in order."""
    blocks: Blocks
    title: str
    """Of the `title` element."""
    hidden: tuple[str, ...]
    """Text that the page holds and does not show."""

    @property
    def types(self) -> list[str]:
        """The schema.org types that JSON-LD names, in order."""
        return [name for one in self.data for name in _names(one.get("@type"))]


def read_page(body: bytes, url: str, prepare: Callable[[Element], None] | None = None) -> Page:
    """Parse `body`, which is UTF-8 and has passed the pre-scan; `prepare` may change the tree before it is read."""
    root = parse(body)
    if prepare is not None:
        prepare(root)
    within = root.find("body")
    within = root if within is None else within
    parts = _parts(root)
    blocks = _blocks(within, sight_of(parts["style"]))
    return Page(
        url=url,
        base=_base(parts["base"], url),
        root=root,
        body=within,
        parts=parts,
        metas=_metas(parts["meta"]),
        data=tuple(_described(parts["script"])),
        blocks=blocks,
        title=" ".join("".join(text for one in parts["title"][:1] for text in one.itertext()).split()),
        hidden=tuple(words_of(blocks.told)),
    )


def _parts(root: Element) -> dict[str, list[Element]]:
    found: dict[str, list[Element]] = {tag: [] for tag in _TAGS}
    for one in root.iter(*_TAGS):
        found[one.tag].append(one)
    return found


def _blocks(body: Element, sight: Sight) -> Blocks:
    """The blocks of a page; where there is next to nothing, those for readers without scripts count too."""
    blocks = Blocks(body, sight=sight)
    if blocks.root.words < _ENOUGH:
        others = Blocks(body, SILENT - {"noscript"}, sight)
        if others.root.words >= _ENOUGH:
            return others
    return blocks


def _base(bases: Iterable[Element], url: str) -> str:
    for base in bases:
        if href := base.get("href"):
            with contextlib.suppress(ValueError):
                return urljoin(url, href)
    return url


def _metas(metas: Iterable[Element]) -> dict[str, str]:
    found: dict[str, str] = {}
    for meta in metas:
        name = meta.get("property") or meta.get("name") or meta.get("itemprop")
        content = meta.get("content")
        if name and content:
            found.setdefault(name.lower(), content.strip())
    return found


def _described(scripts: Iterable[Element]) -> Iterator[dict[str, Any]]:
    for script in scripts:
        text = script.text if "ld+json" in (script.get("type") or "") else None
        if text and len(text) < _LONGEST:
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
