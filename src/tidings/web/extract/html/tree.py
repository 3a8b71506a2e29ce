"""The one place that touches lxml: a page parsed into a tree, and the little of an element that the rest uses."""

import contextlib
import re
from collections.abc import Collection, Iterator
from typing import Any, Protocol, cast

# lxml comes without types; `Element` below is what the rest of the room knows of it.
from lxml import etree  # pyright: ignore[reportMissingTypeStubs, reportAttributeAccessIssue, reportUnknownVariableType]

# A second page behind the first one's end is read by browsers, and not by lxml unless the ends are gone.
_ENDS = re.compile(rb"</(?:body|html)\s*>", re.IGNORECASE)
_CONCEALING = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|(?:font-size|opacity)\s*:\s*0(?:px|em|%)?\s*(?:;|!|$)", re.IGNORECASE
)


class TooDeep(Exception):
    """The parser gave up where the tags are nested too deep, and lost what is within them."""


class Element(Protocol):
    """An element as lxml gives it."""

    tag: Any
    text: str | None
    tail: str | None

    def __iter__(self) -> Iterator["Element"]: ...
    def keys(self) -> list[str]: ...
    def items(self) -> list[tuple[str, str]]: ...
    def get(self, key: str) -> str | None: ...
    def find(self, path: str) -> "Element | None": ...
    def iter(self, *tags: str) -> Iterator["Element"]: ...
    def itertext(self) -> Iterator[str]: ...
    def itersiblings(self, *tags: str, preceding: bool) -> Iterator["Element"]: ...
    def getparent(self) -> "Element | None": ...
    def xpath(self, path: str) -> "list[Element]": ...


_FATAL = 3
"""The level of the errors that a parser does not recover from."""


def parse(body: bytes) -> Element:
    """The root of the tree of `body`, which is UTF-8 and has passed the pre-scan. It has a body.

    `TooDeep` where the pre-scan was deceived: in comments and scripts, ends of tags can stand that end nothing.
    """
    # Not lxml.html: it asks Python for the class of every element that is touched.
    lxml = cast("Any", etree)
    parser = lxml.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    root = None
    with contextlib.suppress(lxml.XMLSyntaxError):  # nothing in it at all
        root = lxml.fromstring(_ENDS.sub(b"", body), parser)
    if any(error.level == _FATAL and error.type_name == "ERR_RESOURCE_LIMIT" for error in parser.error_log):
        raise TooDeep
    if root is None:
        root = lxml.Element("html")
    if root.find("body") is None:
        lxml.SubElement(root, "body")
    return cast("Element", root)


class TreeWalk(Protocol):
    """A walk through a tree: where each element starts and where it ends, in the order of the page."""

    def __iter__(self) -> Iterator[tuple[str, Element]]: ...
    def __next__(self) -> tuple[str, Element]: ...
    def skip_subtree(self) -> None: ...


def walked(root: Element) -> TreeWalk:
    """Through `root` and all that is in it."""
    return cast("TreeWalk", cast("Any", etree).iterwalk(root, events=("start", "end")))


def passed(walk: TreeWalk, element: Element) -> str | None:
    """Leave out all that is in the element that has just started; returns the text behind it."""
    walk.skip_subtree()
    next(walk)
    return element.tail


def drop(element: Element) -> None:
    """Take an element out of its tree; the text behind it stays."""
    parent = cast("Any", element.getparent())
    if parent is None:
        return
    before = cast("Any", element).getprevious()
    if element.tail and before is not None:
        before.tail = (before.tail or "") + element.tail
    elif element.tail:
        parent.text = (parent.text or "") + element.tail
    parent.remove(element)


def voiced(element: Element, silent: Collection[str], inline: Collection[str]) -> Iterator[str]:
    """The text within an element, without that of silent tags; all but inline ones part words."""
    walk = cast("Any", etree).iterwalk(element, events=("start", "end"))
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


def flagged(element: Element, among: Collection[Element]) -> Iterator[tuple[str, bool]]:
    """The text within an element, piece by piece, and whether it stands in one of those given."""
    within = 0
    for event, one in cast("Any", etree).iterwalk(element, events=("start", "end")):
        if event == "start":
            within += one in among
            if one.text:
                yield one.text, within > 0
        else:
            within -= one in among
            if one is not element and one.tail:
                yield one.tail, within > 0


def concealing(style: str) -> bool:
    """Whether a style hides what it is put on."""
    return _CONCEALING.search(style) is not None
