"""The one place that touches lxml: a page parsed into a tree, and the little of an element that the rest uses."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any, Protocol, cast

# lxml comes without types; `Element` below is what the rest of the room knows of it.
from lxml import etree  # pyright: ignore[reportMissingTypeStubs, reportAttributeAccessIssue, reportUnknownVariableType]

# A second page behind the first one's end is read by browsers, and not by lxml unless the ends are gone.
_ENDS = re.compile(rb"</(?:body|html)\s*>", re.IGNORECASE)


_SUSPECT = "/descendant::*[@style[contains(., 'one') or contains(., 'idden') or contains(., '0')] or @hidden]"
_CONCEALING = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|(?:font-size|opacity)\s*:\s*0(?:px|em|%)?\s*(?:;|!|$)", re.IGNORECASE
)


class Element(Protocol):
    """An element as lxml gives it."""

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


def parse(body: bytes) -> Element:
    """The root of the tree of `body`, which is UTF-8 and has passed the pre-scan. It has a body."""
    # Not lxml.html: it asks Python for the class of every element that is touched.
    lxml = cast("Any", etree)
    parser = lxml.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    root = None
    with contextlib.suppress(lxml.XMLSyntaxError):  # nothing in it at all
        root = lxml.fromstring(_ENDS.sub(b"", body), parser)
    if root is None:
        root = lxml.Element("html")
    if root.find("body") is None:
        lxml.SubElement(root, "body")
    return cast("Element", root)


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


def unseen(root: Element) -> list[Element]:
    """The elements that a style of their own, or `hidden`, keeps from the eye of a reader."""
    return [one for one in root.xpath(_SUSPECT) if one.get("hidden") is not None or concealing(one.get("style") or "")]


def concealing(style: str) -> bool:
    """Whether a style hides what it is put on."""
    return _CONCEALING.search(style) is not None
