"""Depth, number of elements and attributes, counted on the bytes of a page before any parser sees them.

Three shapes make parsers hang or silently lose text: tags nested thousands deep, hundreds of thousands of elements,
hundreds of thousands of attributes on one tag. `scan` counts all three in one pass, linear in the size of the page,
and stops at the first limit that is exceeded. It never counts less than a parser would build: the content of scripts,
comments and broken quotes counts too, so that nothing can be hidden there.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

TAG = re.compile(
    rb"<(/?)([a-zA-Z][a-zA-Z0-9:_-]*)"
    # Quotes protect a ">" only after "=". All quantifiers are possessive, so there is no backtracking.
    rb"""([^>"'=]*+(?:(?:=(?:\s*+"[^"]*+"|\s*+'[^']*+')?+|["'])[^>"'=]*+)*+)"""
)
_ATTRIBUTE = re.compile(rb"""[^\s"'>/=]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>"']++))?+""")

# Void elements have no content, so they add no depth.
_VOID = frozenset(b"area base br col embed hr img input link meta param source track wbr".split())
# A parser closes these when the next one opens: pages that never close them are not deep.
_SELF_CLOSING = frozenset(b"p li dt dd tr td th option optgroup thead tbody tfoot colgroup".split())

_LONG = 2_000  # Bytes of a tag from which its attributes are counted: shorter tags cannot hold enough of them.


@dataclass(frozen=True)
class TreeBounds:
    """The limits of a page that is given to a parser. Real pages stay well below."""

    depth: int = 1_000
    elements: int = 150_000
    # On one tag; all wide tags together may have five times as many, because scripts can look like wide tags.
    attributes: int = 10_000


def scan(body: bytes, bounds: TreeBounds | None = None) -> str | None:  # noqa: C901 - one pass, three bounds
    """Returns a description of the limit that `body` exceeds, or None.

    Counts as a parser does, with tags that close themselves and closing tags that close others.
    """
    bounds = bounds or TreeBounds()
    body = body.lower()
    # Each tag has the slash of a closing one, a name and the rest. `findall` is faster than `finditer`, but would hold
    # too many tags for a bomb.
    few = body.count(b"<") <= bounds.elements
    tags: Iterable[tuple[bytes, ...]] = TAG.findall(body) if few else (tag.groups() for tag in TAG.finditer(body))
    stack: list[bytes] = []
    standing: dict[bytes, int] = {}
    elements = wide = 0
    for closing, name, rest in tags:
        if closing:
            if standing.get(name):
                _close(name, stack, standing)
            continue
        elements += 1
        if elements > bounds.elements:
            return f"more than {bounds.elements:,} elements"
        if len(rest) > _LONG:
            number = _attributes(rest, bounds.attributes)
            wide += number
            if number > bounds.attributes or wide > 5 * bounds.attributes:
                return f"tags with more than {bounds.attributes:,} attributes"
        if name in _VOID or rest[-1:] == b"/":
            continue
        if name in _SELF_CLOSING and standing.get(name):
            # It closes the one before it, if nothing inside that keeps it open.
            around = next(last for last in reversed(stack) if last == name or last not in _SELF_CLOSING)
            if around == name:
                _close(name, stack, standing)
        stack.append(name)
        standing[name] = standing.get(name, 0) + 1
        if len(stack) > bounds.depth:
            return f"tags nested more than {bounds.depth:,} deep"
    return None


def _close(name: bytes, stack: list[bytes], standing: dict[bytes, int]) -> None:
    """Closes a tag and everything that was opened inside it."""
    last = b""
    while last != name:
        last = stack.pop()
        standing[last] -= 1


def _attributes(text: bytes, most: int) -> int:
    """Counts attributes, up to one more than `most`."""
    return sum(1 for _ in islice(_ATTRIBUTE.finditer(text), most + 1))
