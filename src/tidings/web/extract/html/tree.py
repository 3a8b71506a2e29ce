"""The seam to lxml: a page parsed into a tree, and the part of an element's interface that the rest uses.

Two shapes make parsers hang: hundreds of thousands of elements, and hundreds of thousands of attributes on one tag.
`scan` counts both before any parser sees them, linear in the size of the page. It never counts less than a parser would
build: the content of scripts, comments and broken quotes counts too, so that nothing can be hidden there. Depth is left
to the parsers, which stop at a limit of their own and say so.
"""

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any, Protocol, cast

from lxml import etree as _etree  # pyright: ignore[reportMissingTypeStubs, reportAttributeAccessIssue, reportUnknownVariableType]

from tidings.web.extract.model import Caps

etree = cast("Any", _etree)  # It has no types; the `Element` below stands for its own.

# The attributes of each opening tag. Quotes protect a ">" only after "=". All quantifiers are possessive, so there is
# no backtracking.
_TAG = re.compile(
    rb"<[a-zA-Z][a-zA-Z0-9:_-]*+"
    rb"""([^>"'=]*+(?:(?:=(?:\s*+"[^"]*+"|\s*+'[^']*+')?+|["'])[^>"'=]*+)*+)"""
)
_ATTRIBUTE = re.compile(rb"""[^\s"'>/=]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>"']++))?+""")
_LONG = 2_000  # Bytes of a tag from which its attributes are counted: shorter tags cannot hold enough of them.
# Browsers read content after the end of the page; lxml does so only without the end tags.
_ENDS = re.compile(rb"</(?:[bB][oO][dD][yY]|[hH][tT][mM][lL])\s*>")  # This form is searched for quickly.


class Unparsable(Exception):
    """A page would harm the parser, or is so deep that it lost content. The message completes "the page has"."""


class Element(Protocol):
    """An element of etree."""

    tag: Any
    text: str | None
    tail: str | None

    def __iter__(self) -> Iterator["Element"]: ...
    def items(self) -> list[tuple[str, str]]: ...
    def get(self, key: str) -> str | None: ...
    def find(self, path: str) -> "Element | None": ...
    def iter(self, *tags: str) -> Iterator["Element"]: ...
    def itertext(self) -> Iterator[str]: ...
    def itersiblings(self, *tags: str, preceding: bool) -> Iterator["Element"]: ...
    def getparent(self) -> "Element | None": ...
    def xpath(self, path: str) -> "list[Element]": ...


def scan(body: bytes, caps: Caps) -> str | None:
    """Returns a description of the limit of elements or attributes that `body` exceeds, or None."""
    # `findall` is faster than `finditer`, but would hold too many tags for a bomb.
    few = body.count(b"<") <= caps.elements
    tags: Iterable[bytes] = _TAG.findall(body) if few else (tag[1] for tag in _TAG.finditer(body))
    wide = 0
    for elements, attributes in enumerate(tags, 1):
        if elements > caps.elements:
            return f"more than {caps.elements:,} elements"
        if len(attributes) > _LONG:
            number = sum(1 for _ in islice(_ATTRIBUTE.finditer(attributes), caps.attributes + 1))
            wide += number
            if number > caps.attributes or wide > 5 * caps.attributes:
                return f"tags with more than {caps.attributes:,} attributes"
    return None


def parse(body: bytes, caps: Caps | None = None) -> Element:
    """Returns the root of `body`, which is UTF-8, always with a body element. Raises `Unparsable`."""
    caps = caps or Caps()
    if scan(body, caps):
        # All scripts but JSON-LD go: their code can look like tags with thousands of attributes. What is left is what
        # the parser gets, so nothing can be hidden there.
        small, kept, at = body.lower(), list[bytes](), 0
        while (start := small.find(b"<script", at)) >= 0 and (end := small.find(b"</script", start)) >= 0:
            data = b"ld+json" in small[start : small.find(b">", start)]
            kept.append(body[at : end if data else start])
            at = end
        body = b"".join((*kept, body[at:]))
        if refused := scan(body, caps):
            raise Unparsable(refused)
    # Not lxml.html, which looks up a Python class for every element.
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    root = None
    with contextlib.suppress(etree.XMLSyntaxError):  # It is empty.
        root = etree.fromstring(_ENDS.sub(b"", body), parser)
    fatal = etree.ErrorLevels.FATAL
    if any(error.level == fatal and error.type_name == "ERR_RESOURCE_LIMIT" for error in parser.error_log):
        raise Unparsable("tags nested too deep")
    if root is None:
        root = etree.Element("html")
    if root.find("body") is None:
        etree.SubElement(root, "body")
    return cast("Element", root)


class TreeWalk(Protocol):
    """A walk through a tree that yields the start and the end of each element, in document order."""

    def __iter__(self) -> Iterator[tuple[str, Element]]: ...
    def __next__(self) -> tuple[str, Element]: ...
    def skip_subtree(self) -> None: ...


def walk_through(root: Element) -> TreeWalk:
    """Walks through `root` and everything in it."""
    return cast("TreeWalk", etree.iterwalk(root, events=("start", "end")))


def skip(walk: TreeWalk, element: Element) -> str | None:
    """Skips the content of the element that has just started; returns the text after it."""
    walk.skip_subtree()
    next(walk)
    return element.tail


def drop(element: Element) -> None:
    """Removes an element from its tree; the text after it stays."""
    parent = cast("Any", element.getparent())
    if parent is None:
        return
    before = cast("Any", element).getprevious()
    if element.tail and before is not None:
        before.tail = (before.tail or "") + element.tail
    elif element.tail:
        parent.text = (parent.text or "") + element.tail
    parent.remove(element)


def text_pieces(element: Element, silent: Collection[str], inline: Collection[str]) -> Iterator[str]:
    """Yields the text in an element without that of silent tags; all but inline tags separate words."""
    walk = walk_through(element)
    for event, one in walk:
        if one.tag not in inline:
            yield " "
        if event == "end":
            if one is not element and one.tail:
                yield one.tail
        elif one.tag in silent:
            walk.skip_subtree()
        elif one.text:
            yield one.text


def pieces_within(element: Element, among: Collection[Element]) -> Iterator[tuple[str, bool]]:
    """Yields the pieces of text in an element (`br` is a line end), and whether each is inside one of `among`."""
    within = 0
    for event, one in walk_through(element):
        if event == "start":
            within += one in among
            if one.tag == "br":
                yield "\n", within > 0
            elif one.text:
                yield one.text, within > 0
        else:
            within -= one in among
            if one is not element and one.tail:
                yield one.tail, within > 0
