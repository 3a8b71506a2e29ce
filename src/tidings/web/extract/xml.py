"""XML as a safe tree, and as an indented outline of names, attributes and values.

    <book id="1"><title>Sea</title></book>   ->   - book (id: 1)
                                                    - title: Sea

An element that mixes text with other elements is prose, and written in one line.

Entity declarations are removed before the parser sees them. Those that refer to other entities or to files are refused;
plain ones are substituted within a limit, as are the entities of HTML, which feeds use without declaring them. No
network, no DTD, no huge trees; depth and elements are counted first. Broken XML is read as far as possible, with a
warning.
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

_DEPTH = 250  # libxml2 silently stops at 256.
_DOCTYPE = re.compile(
    rb"<!DOCTYPE\s++[^>\[]{0,2000}+"
    rb"(?:\[((?:<!--(?:[^-]++|-(?!->))*+-->|[^\]\"'<]++|<(?!!--)|\"[^\"]*+\"|'[^']*+')*+)\]\s*+)?+>?+"
)
_COMMENT = re.compile(rb"<!--(?:[^-]++|-(?!->))*+-->")
_ENTITY = re.compile(rb"<!ENTITY\s++(%\s++)?+([\w:.-]++)\s++(?:\"([^\"]*+)\"|'([^']*+)'|(SYSTEM|PUBLIC))")
_REFERENCE = re.compile(rb"&([A-Za-z][\w:.-]{0,60});")
_DECLARATION = re.compile(rb"^\s*<\?xml\b[^>]{0,200}\?>")
_OWN = frozenset((b"amp", b"lt", b"gt", b"quot", b"apos"))
_MOST_GROWTH = 1_000_000  # Characters that entities may add.


@dataclass(frozen=True)
class Tree:
    """The root, and a description of the first error in the text, or None."""

    root: Element
    fault: str | None


def read_tree(body: bytes, charset: str | None, bounds: TreeBounds) -> Tree | None:
    """Returns the tree, or None without an element. Raises `ExtractionFailed` for a bomb or entities that are files."""
    text = as_utf8(body, charset)
    text = text[max(text.find(b"<"), 0) :]
    text, declared = _without_doctype(_DECLARATION.sub(b"", text, count=1))
    shape = scan(text, replace(bounds, depth=min(bounds.depth, _DEPTH)))
    if shape.refused:
        raise ExtractionFailed("bomb", f"The XML has {shape.refused} and is not read: ask for it as raw.")
    return _parsed(_resolved(text, declared))


def _parsed(text: bytes) -> Tree | None:
    lxml = cast("Any", etree)  # It has no types.
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
    """Returns the text without its document type, and the entities that the document type declares."""
    found = _DOCTYPE.search(text)
    if found is None:
        return text, {}
    declared: dict[bytes, bytes] = {}
    for entity in _ENTITY.finditer(_COMMENT.sub(b"", found[1] or b"")):
        value = entity[3] if entity[3] is not None else entity[4]
        if entity[5]:
            raise ExtractionFailed("bomb", "The XML includes other files, which is not supported: ask for it as raw.")
        if entity[1] or b"&" in value.replace(b"&#", b"") or b"%" in value:
            message = "The XML declares entities made of other entities, as bombs do: ask for it as raw."
            raise ExtractionFailed("bomb", message)
        declared[entity[2]] = value
    return text[: found.start()] + text[found.end() :], declared


def _resolved(text: bytes, declared: Mapping[bytes, bytes]) -> bytes:
    """Substitutes the known entities, and escapes the others."""
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
            grown = f"The entities of the XML add more than {_MOST_GROWTH:,} characters"
            raise ExtractionFailed("bomb", f"{grown}: ask for it as raw.")
        return found

    return _REFERENCE.sub(written, text)


_DEEPEST = 20  # Levels of indentation; deeper elements stay at the last.
_LINKS = 1_000


def read_xml(body: bytes, charset: str | None, url: str, options: ExtractOptions) -> Extracted:
    """Reads any XML."""
    tree = read_tree(body, charset, options.bounds)
    if tree is None:
        if body.strip(b"\0 \t\r\n\xef\xbb\xbf\xff\xfe"):
            raise ExtractionFailed("broken", "It is sent as XML and has no element in it: ask for it as raw.")
        return Extracted("data", "xml", empty="empty")
    return written_tree(tree, url, options)


def written_tree(tree: Tree, url: str, options: ExtractOptions) -> Extracted:
    """Writes a tree as an outline."""
    markdown, warnings = bounded("\n".join(_lines(tree.root)), options.caps.characters, "the XML")
    text = "\n".join(line.replace("- ", "", 1) for line in markdown.split("\n"))
    has_content = any(one.items() or (one.text or "").strip() or (one.tail or "").strip() for one in tree.root.iter())
    return Extracted(
        kind="data",
        method="xml",
        markdown=markdown,
        text=text,
        title=_title(tree.root),
        language=tree.root.get("{http://www.w3.org/XML/1998/namespace}lang"),
        links=_links(tree.root, url),
        warnings=(*faults(tree), *warnings),
        empty=None if has_content else "empty",
    )


def faults(tree: Tree) -> tuple[ExtractWarning, ...]:
    """Returns the warning of a tree from broken XML."""
    if tree.fault is None:
        return ()
    return (ExtractWarning("extraction_fallback", f"it is not well-formed ({tree.fault}): parts may be missing"),)


def local(tag: object) -> str:
    """Returns the name of an element or an attribute without its namespace."""
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def _flat(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())


def _lines(root: Element) -> Iterator[str]:
    # Without recursion, because trees may be as deep as the parser allows.
    todo: list[tuple[Element, int]] = [(root, 0)]
    while todo:
        element, level = todo.pop()
        children = [child for child in element if isinstance(child.tag, str)]
        mixed = bool(children) and (
            bool((element.text or "").strip()) or any((child.tail or "").strip() for child in children)
        )
        text = _flat(element) if mixed or not children else ""
        attributes = ", ".join(f"{local(key)}: {' '.join(value.split())}" for key, value in element.items())
        name = local(element.tag) + (f" ({attributes})" if attributes else "")
        yield "  " * min(level, _DEEPEST) + "- " + (f"{name}: {text}" if text else name)
        if not mixed:
            todo.extend((child, level + 1) for child in reversed(children))


def _title(root: Element) -> str | None:
    titles = (_flat(child)[:500] for child in root if local(child.tag).lower() in {"title", "name"})
    return next(filter(None, titles), None)


def _links(root: Element, url: str) -> tuple[PageLink, ...]:
    """Returns the texts and attributes that are web addresses."""
    found: dict[PageLink, None] = {}
    for element in root.iter():
        for value in (element.text or "", *(value for _, value in element.items())):
            address = value.strip()
            absolute = address.startswith(("http://", "https://")) and " " not in address and len(address) < 2_000
            if absolute and (whole := web_address(url, address)):
                found[PageLink(local(element.tag), whole)] = None
        if len(found) >= _LINKS:
            break
    return tuple(found)
