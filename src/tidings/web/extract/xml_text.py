"""XML as text that can be read: an indented tree of names, attributes and values.

    <book id="1"><title>Sea</title></book>   ->   - book (id: 1)
                                                    - title: Sea

An element that mixes text with other elements is taken as prose and written in one line.
"""

from collections.abc import Iterator

from tidings.web.extract.metadata import web_address
from tidings.web.extract.model import Extracted, ExtractionFailed, ExtractOptions, Link, Warning_
from tidings.web.extract.tree import Element
from tidings.web.extract.written import bounded
from tidings.web.extract.xml_tree import Tree, read_tree

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


def faults(tree: Tree) -> tuple[Warning_, ...]:
    """That the XML is broken, where it is."""
    if tree.fault is None:
        return ()
    return (Warning_("extraction_fallback", f"it is not well-formed ({tree.fault}): parts may be missing"),)


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


def _links(root: Element, url: str) -> tuple[Link, ...]:
    """What is an address of the web, as a whole text or as a whole attribute."""
    found: dict[Link, None] = {}
    for element in root.iter():
        for value in (element.text or "", *(value for _, value in element.items())):
            address = value.strip()
            if address.startswith(("http://", "https://")) and " " not in address and len(address) < 2_000:
                whole = web_address(url, address)
                # Namespaces are declared, not linked to: lxml keeps those apart from attributes.
                if whole is not None:
                    found[Link(local(element.tag), whole)] = None
        if len(found) >= _LINKS:
            break
    return tuple(found)
