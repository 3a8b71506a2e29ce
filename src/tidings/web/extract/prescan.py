"""How deep, how many, how wide: counted on the bytes of a page before any parser sees them.

Three shapes make parsers hang or lose text without a word: tags nested thousands deep, hundreds of thousands of
elements, hundreds of thousands of attributes on one tag. `scan` counts all three in one pass that is linear in the size
of the page and ends at the first limit that is passed. It never counts less than a parser would build: what stands in
scripts, comments and broken quotes is counted too, so that nothing can be hidden in them.
"""

import re
from dataclasses import dataclass
from itertools import islice

TAG = re.compile(
    rb"<(/?)([a-zA-Z][a-zA-Z0-9:_-]*)"
    # Quotes protect a ">" only behind "=". Possessive throughout, so that nothing is ever tried twice.
    rb"""((?:[^>"'=]++|=\s*+"[^"]*+"|=\s*+'[^']*+'|[="'])*+)"""
)
_ATTRIBUTE = re.compile(rb"""[^\s"'>/=]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>"']++))?+""")

# They cannot hold anything, so they add no depth.
_VOID = frozenset(b"area base br col embed hr img input link meta param source track wbr".split())
# A parser closes these by itself when the next one opens: pages that never close them are not deep.
_SELF_CLOSING = frozenset(b"p li dt dd tr td th option optgroup thead tbody tfoot colgroup".split())

_LONG = 2_000
"""Bytes within a tag from which on its attributes are counted: shorter ones cannot hold enough to matter."""


@dataclass(frozen=True)
class Bounds:
    """What a page may have and still be given to a parser. Pages met in practice stay well below."""

    depth: int = 1_000
    elements: int = 150_000
    attributes: int = 10_000
    """On one tag, and five times as many on all wide tags together. What a script holds can look like a wide tag."""


@dataclass(frozen=True)
class Shape:
    """What was counted, and which bound was passed, in words (or None)."""

    elements: int
    depth: int
    refused: str | None = None


def scan(body: bytes, bounds: Bounds | None = None) -> Shape:
    """Count `body`; stop where a bound is passed."""
    bounds = bounds or Bounds()
    open_tags: list[bytes] = []
    standing: dict[bytes, int] = {}
    elements = deepest = 0
    wide = 0
    for tag in TAG.finditer(body):
        closing, name, attributes = tag.groups()
        name = name.lower()
        if closing:
            if standing.get(name):
                _close(open_tags, standing, name)
            continue
        elements += 1
        if elements > bounds.elements:
            return Shape(elements, deepest, f"more than {bounds.elements:,} elements")
        if len(attributes) > _LONG:
            number = _attributes(attributes, bounds.attributes)
            wide += number
            if number > bounds.attributes or wide > 5 * bounds.attributes:
                return Shape(elements, deepest, f"tags with more than {bounds.attributes:,} attributes")
        if name in _VOID or attributes.endswith(b"/"):
            continue
        if name in _SELF_CLOSING and standing.get(name) and _closes_itself(open_tags, name):
            _close(open_tags, standing, name)
        open_tags.append(name)
        standing[name] = standing.get(name, 0) + 1
        if len(open_tags) > deepest:
            deepest = len(open_tags)
            if deepest > bounds.depth:
                return Shape(elements, deepest, f"tags nested more than {bounds.depth:,} deep")
    return Shape(elements, deepest)


def _close(open_tags: list[bytes], standing: dict[bytes, int], name: bytes) -> None:
    """As a parser does: a closing tag closes everything that was opened within."""
    while True:
        last = open_tags.pop()
        standing[last] -= 1
        if last == name:
            return


def _closes_itself(open_tags: list[bytes], name: bytes) -> bool:
    """Whether one of the same name stands open with nothing around it that keeps it open."""
    for last in reversed(open_tags):
        if last == name:
            return True
        if last not in _SELF_CLOSING:
            return False
    return False


def _attributes(text: bytes, most: int) -> int:
    """How many there are; counting ends when there are more than `most`."""
    return sum(1 for _ in islice(_ATTRIBUTE.finditer(text), most + 1))
