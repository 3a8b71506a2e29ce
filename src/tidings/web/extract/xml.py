"""XML as text that can be read: an indented tree of names, attributes and values.

    <book id="1"><title>Sea</title></book>   ->   - book (id: 1)
                                                    - title: Sea

An element that mixes text with other elements is taken as prose and written in one line.

XML as a tree, with nothing left in it that XML can do to a reader.

Declarations of entities are taken out before the parser sees them: those that refer to other entities or to files are
refused, plain ones are put in place within a bound, as are the names of HTML, which feeds use without declaring them.
No network, no DTD, no huge trees; depth and elements are counted first. What is not well-formed is read as far as it
makes sense, and said to be so.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from html import escape
from html.entities import html5
from typing import Any, cast

from lxml import etree  # pyright: ignore[reportMissingTypeStubs, reportAttributeAccessIssue, reportUnknownVariableType]

from tidings.web.extract.html.page import web_address
from tidings.web.extract.html.tree import Element
from tidings.web.extract.model import Extracted, ExtractionFailed, ExtractOptions, ExtractWarning, PageLink, bounded
from tidings.web.extract.prescan import TreeBounds, scan
from tidings.web.extract.sniff import as_utf8

# lxml comes without types; see tree.py.


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


def read_tree(body: bytes, charset: str | None, bounds: TreeBounds) -> Tree | None:
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


_DEEPEST = 20
"""Levels that are shown by indentation; what is deeper stands at the last."""
_TITLES = ("title", "name")
_LINKS = 1_000


def read_xml(body: bytes, charset: str | None, url: str, options: ExtractOptions) -> Extracted:
    """The tree of any XML."""
    tree = read_tree(body, charset, options.bounds)
    if tree is None:
        if body.strip(b"\0 \t\r\n\xef\xbb\xbf\xff\xfe"):
            raise ExtractionFailed("broken", "It is sent as XML and has no element in it: ask for it as raw.")
        return Extracted("data", "xml", empty="empty")
    return written_tree(tree, url, options)


def written_tree(tree: Tree, url: str, options: ExtractOptions) -> Extracted:
    """A tree as it is shown to readers."""
    whole = "\n".join(_lines(tree.root, 0))
    markdown, warnings = bounded(whole, options.caps.characters, "the XML")
    text = "\n".join(line.replace("- ", "", 1) for line in markdown.split("\n"))
    return Extracted(
        kind="data",
        method="xml",
        markdown=markdown,
        text=text,
        title=_title(tree.root),
        language=tree.root.get("{http://www.w3.org/XML/1998/namespace}lang"),
        links=_links(tree.root, url),
        warnings=(*faults(tree), *warnings),
        empty=None if _says_something(tree.root) else "empty",
    )


def faults(tree: Tree) -> tuple[ExtractWarning, ...]:
    """That the XML is broken, where it is."""
    if tree.fault is None:
        return ()
    return (ExtractWarning("extraction_fallback", f"it is not well-formed ({tree.fault}): parts may be missing"),)


def local(tag: object) -> str:
    """The name of an element or an attribute without its namespace."""
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def flat(element: Element) -> str:
    """All text in an element, in one line."""
    return " ".join("".join(element.itertext()).split())


def _lines(root: Element, depth: int) -> Iterator[str]:
    # Not by recursion: trees may be as deep as the parser allows.
    todo: list[tuple[Element, int]] = [(root, depth)]
    while todo:
        element, level = todo.pop()
        children = [child for child in element if isinstance(child.tag, str)]
        mixed = bool(children) and _is_mixed(element, children)
        said = flat(element) if mixed or not children else ""
        yield "  " * min(level, _DEEPEST) + "- " + _line(element, said)
        if not mixed:
            todo.extend((child, level + 1) for child in reversed(children))


def _line(element: Element, said: str) -> str:
    attributes = ", ".join(f"{local(key)}: {' '.join(value.split())}" for key, value in element.items())
    name = local(element.tag) + (f" ({attributes})" if attributes else "")
    return f"{name}: {said}" if said else name


def _is_mixed(element: Element, children: list[Element]) -> bool:
    return bool((element.text or "").strip()) or any((child.tail or "").strip() for child in children)


def _says_something(root: Element) -> bool:
    return any(one.items() or (one.text or "").strip() or (one.tail or "").strip() for one in root.iter())


def _title(root: Element) -> str | None:
    for child in root:
        if local(child.tag).lower() in _TITLES and (said := flat(child)):
            return said[:500]
    return None


def _links(root: Element, url: str) -> tuple[PageLink, ...]:
    """What is an address of the web, as a whole text or as a whole attribute."""
    found: dict[PageLink, None] = {}
    for element in root.iter():
        for value in (element.text or "", *(value for _, value in element.items())):
            address = value.strip()
            if address.startswith(("http://", "https://")) and " " not in address and len(address) < 2_000:
                whole = web_address(url, address)
                # Namespaces are declared, not linked to: lxml keeps those apart from attributes.
                if whole is not None:
                    found[PageLink(local(element.tag), whole)] = None
        if len(found) >= _LINKS:
            break
    return tuple(found)
