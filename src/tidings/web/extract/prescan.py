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

_SLASH = ord("/")
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
    stack = _Stack()
    elements = deepest = wide = 0
    for tag in TAG.finditer(body):
        closing, name = tag.group(1, 2)
        name = name.lower()
        if closing:
            stack.close(name)
            continue
        elements += 1
        if elements > bounds.elements:
            return Shape(elements, deepest, f"more than {bounds.elements:,} elements")
        end = tag.end()
        if end - tag.end(2) > _LONG:
            number = _attributes(tag[3], bounds.attributes)
            wide += number
            if number > bounds.attributes or wide > 5 * bounds.attributes:
                return Shape(elements, deepest, f"tags with more than {bounds.attributes:,} attributes")
        if name not in _VOID and body[end - 1] != _SLASH:
            depth = stack.open(name)
            deepest = max(deepest, depth)
            if depth > bounds.depth:
                return Shape(elements, deepest, f"tags nested more than {bounds.depth:,} deep")
    return Shape(elements, deepest)


class _Stack:
    """The tags that stand open, as a parser would see them."""

    def __init__(self) -> None:
        self._names: list[bytes] = []
        self._standing: dict[bytes, int] = {}

    def open(self, name: bytes) -> int:
        """Put a tag on top; returns how many stand open now."""
        if name in _SELF_CLOSING and self._closes_itself(name):
            self.close(name)
        self._names.append(name)
        self._standing[name] = self._standing.get(name, 0) + 1
        return len(self._names)

    def close(self, name: bytes) -> None:
        """A closing tag closes everything that was opened within; one that was never opened is nothing."""
        if not self._standing.get(name):
            return
        while True:
            last = self._names.pop()
            self._standing[last] -= 1
            if last == name:
                return

    def _closes_itself(self, name: bytes) -> bool:
        """Whether one of the same name stands open with nothing around it that keeps it open."""
        if not self._standing.get(name):
            return False
        for last in reversed(self._names):
            if last == name:
                return True
            if last not in _SELF_CLOSING:
                break
        return False


def _attributes(text: bytes, most: int) -> int:
    """How many there are; counting ends when there are more than `most`."""
    return sum(1 for _ in islice(_ATTRIBUTE.finditer(text), most + 1))
