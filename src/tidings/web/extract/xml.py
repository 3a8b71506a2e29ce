"""XML as a safe tree, and as an outline of it: names, attributes and values, a line for each element.

Entity declarations are removed before the parser sees them. Those that refer to other entities or to files are refused;
plain ones are substituted within a limit, as are the entities of HTML, which feeds use without declaring them. Elements
are counted first; the parser refuses what is nested too deep. Broken XML is read as far as possible, with a warning.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from html import escape
from html.entities import html5
from typing import cast

from tidings.web.extract.html.tree import Element, etree, scan
from tidings.web.extract.model import Caps, Extracted, ExtractionFailed, ExtractOptions, ExtractWarning, bounded
from tidings.web.extract.sniff import as_utf8

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
_MORE = 5  # times as many elements as in a page: feeds and lists have tens of thousands of short entries.


Tree = tuple[Element, tuple[ExtractWarning, ...]]  # The root, and a warning if the text is not well-formed.


def read_tree(body: bytes, charset: str | None, caps: Caps, what: str) -> Tree | None:
    """Returns the tree of a body sent as `what`; None if it is empty. Raises `ExtractionFailed` for a bomb."""
    text = as_utf8(body, charset)
    text = text[max(text.find(b"<"), 0) :]
    text, declared = _without_doctype(_DECLARATION.sub(b"", text, count=1))
    if refused := scan(text, replace(caps, elements=_MORE * caps.elements)):
        raise ExtractionFailed("bomb", f"The XML has {refused} and is not read: ask for it as raw.")
    tree = _parsed(_resolved(text, declared))
    if tree is None and body.strip(b"\0 \t\r\n\xef\xbb\xbf\xff\xfe"):
        raise ExtractionFailed("broken", f"It is sent as {what} and has no element in it: ask for it as raw.")
    return tree


def _parsed(text: bytes) -> Tree | None:
    parser = etree.XMLParser(
        encoding="utf-8", recover=True, resolve_entities=False, no_network=True, load_dtd=False, dtd_validation=False,
        huge_tree=False, remove_comments=True, remove_pis=True, strip_cdata=True,
    )  # fmt: skip
    try:
        root = etree.fromstring(text, parser)
    except etree.XMLSyntaxError:
        return None
    errors = (error for error in parser.error_log if error.level >= etree.ErrorLevels.ERROR)
    faults = [error for error in errors if error.domain_name != "NAMESPACE"]
    if any("depth" in error.message.lower() for error in faults):
        raise ExtractionFailed("bomb", "The XML is nested too deep and is not read: ask for it as raw.")
    if root is None:
        return None
    fault = f"line {faults[0].line}: {faults[0].message}" if faults else ""
    warning = ExtractWarning("extraction_fallback", f"it is not well-formed ({fault}): parts may be missing")
    return cast("Element", root), (warning,) if fault else ()


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
        found = declared.get(name)
        if found is None:
            letters = html5.get(f"{name.decode('ascii', 'replace')};")
            found = escape(letters).encode() if letters else b"&amp;" + name + b";"
        room -= len(found)
        if room < 0:
            message = f"The entities of the XML add more than {_MOST_GROWTH:,} characters: ask for it as raw."
            raise ExtractionFailed("bomb", message)
        return found

    return _REFERENCE.sub(written, text)


_DEEPEST = 20  # Levels of indentation; deeper elements stay at the last.
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def read_xml(body: bytes, charset: str | None, _url: str, options: ExtractOptions) -> Extracted:
    """Reads any XML."""
    tree = read_tree(body, charset, options.caps, "XML")
    return Extracted("data", "xml", empty="empty") if tree is None else written_tree(tree, options)


def written_tree(tree: Tree, options: ExtractOptions) -> Extracted:
    """Writes a tree as an outline."""
    root, faults = tree
    markdown, warnings = bounded("\n".join(_lines(root)), options.caps.characters, "the XML")
    text = "\n".join(line.replace("- ", "", 1) for line in markdown.split("\n"))
    titles = (_flat(child)[:500] for child in root if local(child.tag).lower() in {"title", "name"})
    has_content = any(one.items() or (one.text or "").strip() or (one.tail or "").strip() for one in root.iter())
    return Extracted(
        kind="data",
        method="xml",
        markdown=markdown,
        text=text,
        title=next(filter(None, titles), None),
        language=root.get(LANGUAGE),
        warnings=(*faults, *warnings),
        empty=None if has_content else "empty",
    )


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
        around = (element.text, *(child.tail for child in children))
        mixed = bool(children) and any((text or "").strip() for text in around)
        text = _flat(element) if mixed or not children else ""
        attributes = ", ".join(f"{local(key)}: {' '.join(value.split())}" for key, value in element.items())
        name = local(element.tag) + (f" ({attributes})" if attributes else "")
        yield "  " * min(level, _DEEPEST) + "- " + (f"{name}: {text}" if text else name)
        if not mixed:
            todo.extend((child, level + 1) for child in reversed(children))
