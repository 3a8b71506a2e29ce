"""The one place that touches lxml: a page parsed into a tree, and the little of an element that the rest uses."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, cast

# lxml comes without types; `Element` below is what the rest of the room knows of it.
from lxml import html  # pyright: ignore[reportMissingTypeStubs]

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
    attrib: Mapping[str, str]

    def __iter__(self) -> Iterator["Element"]: ...
    def get(self, key: str) -> str | None: ...
    def find(self, path: str) -> "Element | None": ...
    def iterfind(self, path: str) -> Iterator["Element"]: ...
    def iter(self, *tags: str) -> Iterator["Element"]: ...
    def itertext(self) -> Iterator[str]: ...
    def itersiblings(self, *tags: str, preceding: bool) -> Iterator["Element"]: ...
    def getparent(self) -> "Element | None": ...
    def xpath(self, path: str) -> "list[Element]": ...
    def drop_tree(self) -> None: ...


def parse(body: bytes) -> Element:
    """The root of the tree of `body`, which is UTF-8 and has passed the pre-scan. It has a head and a body."""
    lxml = cast("Any", html)
    parser = lxml.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    text = _ENDS.sub(b"", body)
    if not text.strip():
        text = b"<html></html>"
    return cast("Element", lxml.document_fromstring(text, parser=parser, ensure_head_body=True))


def unseen(root: Element) -> list[Element]:
    """The elements that a style of their own, or `hidden`, keeps from the eye of a reader."""
    return [one for one in root.xpath(_SUSPECT) if one.get("hidden") is not None or concealing(one.get("style") or "")]


def concealing(style: str) -> bool:
    """Whether a style hides what it is put on."""
    return _CONCEALING.search(style) is not None
