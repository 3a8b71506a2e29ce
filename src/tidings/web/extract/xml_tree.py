"""XML as a tree, with nothing left in it that XML can do to a reader.

Declarations of entities are taken out before the parser sees them: those that refer to other entities or to files are
refused, plain ones are put in place within a bound, as are the names of HTML, which feeds use without declaring them.
No network, no DTD, no huge trees; depth and elements are counted first. What is not well-formed is read as far as it
makes sense, and said to be so.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from html.entities import html5
from typing import Any, cast

# lxml comes without types; see tree.py.
from lxml import etree  # pyright: ignore[reportMissingTypeStubs, reportAttributeAccessIssue, reportUnknownVariableType]

from tidings.web.extract.charset import as_utf8
from tidings.web.extract.model import ExtractionFailed
from tidings.web.extract.prescan import Bounds, scan
from tidings.web.extract.tree import Element

_DEPTH = 250
"""libxml2 stops at 256, without a word that anybody hears."""
_DOCTYPE = re.compile(
    rb"<!DOCTYPE\s++[^>\[]{0,2000}+"
    rb"(?:\[((?:<!--(?:[^-]++|-(?!->))*+-->|[^\]\"'<]++|<(?!!--)|\"[^\"]*+\"|'[^']*+')*+)\]\s*+)?+>?+"
)
_COMMENT = re.compile(rb"<!--(?:[^-]++|-(?!->))*+-->")
_ENTITY = re.compile(rb"<!ENTITY\s++(%\s++)?+([\w:.-]++)\s++(?:\"([^\"]*+)\"|'([^']*+)'|(SYSTEM|PUBLIC))")
_REFERENCE = re.compile(rb"&([A-Za-z][\w:.-]{0,60});")
_DECLARATION = re.compile(rb"^\s*<\?xml\b[^>]{0,200}\?>")
_OWN = frozenset((b"amp", b"lt", b"gt", b"quot", b"apos"))
_MOST_GROWTH = 1_000_000
"""Characters that entities may add."""


@dataclass(frozen=True)
class Tree:
    """The root, and what was wrong with the text of it, in words (or None)."""

    root: Element
    fault: str | None


def read_tree(body: bytes, charset: str | None, bounds: Bounds) -> Tree | None:
    """The tree of `body`; None where there is no element in it.

    Raises:
        ExtractionFailed: It is too deep or has too many elements, or its entities are a bomb or lead elsewhere.
    """
    text = as_utf8(body, charset)
    text = text[max(text.find(b"<"), 0) :]
    text, declared = _without_doctype(_DECLARATION.sub(b"", text, count=1))
    shape = scan(text, replace(bounds, depth=min(bounds.depth, _DEPTH)))
    if shape.refused:
        raise ExtractionFailed("bomb", f"The XML has {shape.refused} and is not read: ask for it as raw.")
    return _parsed(_resolved(text, declared))


def _parsed(text: bytes) -> Tree | None:
    lxml = cast("Any", etree)
    parser = lxml.XMLParser(
        encoding="utf-8", recover=True, resolve_entities=False, no_network=True, load_dtd=False, dtd_validation=False,
        huge_tree=False, remove_comments=True, remove_pis=True, strip_cdata=True,
    )  # fmt: skip
    try:
        root = lxml.fromstring(text, parser)
    except lxml.XMLSyntaxError:
        return None
    faults = [
        error
        for error in parser.error_log
        if error.level >= lxml.ErrorLevels.ERROR and error.domain_name != "NAMESPACE"
    ]
    if any("depth" in error.message.lower() for error in faults):
        raise ExtractionFailed("bomb", f"The XML is nested more than {_DEPTH} deep and is not read: ask for it as raw.")
    if root is None:
        return None
    return Tree(cast("Element", root), f"line {faults[0].line}: {faults[0].message}" if faults else None)


def _without_doctype(text: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """The text without its document type, and the entities that this declared."""
    found = _DOCTYPE.search(text)
    if found is None:
        return text, {}
    declared: dict[bytes, bytes] = {}
    for entity in _ENTITY.finditer(_COMMENT.sub(b"", found[1] or b"")):
        value = entity[3] if entity[3] is not None else entity[4]
        if entity[5]:
            raise ExtractionFailed("bomb", "The XML wants other files to be read into it, which is never done.")
        if entity[1] or b"&" in value.replace(b"&#", b"") or b"%" in value:
            raise ExtractionFailed("bomb", "The XML declares entities made of entities, as bombs do, and is not read.")
        declared[entity[2]] = value
    return text[: found.start()] + text[found.end() :], declared


def _resolved(text: bytes, declared: Mapping[bytes, bytes]) -> bytes:
    """With the entities that are known put in place, and the others shown as they are written."""
    room = _MOST_GROWTH

    def written(reference: re.Match[bytes]) -> bytes:
        nonlocal room
        name = reference[1]
        if name in _OWN:
            return reference[0]
        if name in declared:
            found = declared[name]
        else:
            letters = html5.get(f"{name.decode('ascii', 'replace')};")
            found = escape(letters).encode() if letters else b"&amp;" + name + b";"
        room -= len(found)
        if room < 0:
            raise ExtractionFailed("bomb", f"The XML grows by more than {_MOST_GROWTH:,} characters and is not read.")
        return found

    return _REFERENCE.sub(written, text)
