"""Canvases in JSON Canvas 1.0: their files, the links in their texts, and their words.

A change replaces only the texts that change: the rest of the file stays as the app wrote it. A file that is not a
canvas has no links and no words.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from tidings._kit.bounded_json import as_dict, as_dicts, as_float, as_texts
from tidings._kit.text import applied
from tidings.vault.notes.links import rewrite
from tidings.vault.notes.model import NoteLink, TextChange
from tidings.vault.notes.parse import parse

_LONGEST = 60  # Characters of a card at the end of an edge.
_MOST_COMPARED = 2_000_000  # Pairs of a card and a group.
_WRITTEN = re.compile(r'"(file|text)"\s*+:\s*+("(?:[^"\\]++|\\.)*+")', re.DOTALL)

Placed = tuple[str, int, int]  # A string of the JSON, and its position, quotes included.


def canvas_links(text: str) -> list[NoteLink]:
    """Returns the files on a canvas, and the links in its texts, at the positions of their strings in the JSON."""
    found: list[NoteLink] = []
    line, seen = 1, 0
    for (_, start, end), links in _places(text):
        line += text.count("\n", seen, start)
        seen = start
        found += [link._replace(line=line, start=start, end=end) for link in links]
    return found


def canvas_rewrite(text: str, new_target: Callable[[NoteLink], str | None]) -> str:
    """Returns the canvas with other targets in its links, as `links.rewrite` does for a note."""
    changes: list[TextChange] = []
    for (value, start, end), links in _places(text):
        if links and links[0].kind == "canvas":
            target = new_target(links[0])
            changed = value if target is None else target
        else:
            changed = rewrite(value, links, new_target)
        if changed != value:
            changes.append(TextChange(start, end, json.dumps(changed, ensure_ascii=False)))
    return applied(text, changes)


def canvas_text(text: str) -> str:
    """Returns the words of a canvas: its texts, the labels of groups and edges, its files and pages."""
    words = [part.get(name) for part in _parts(text) for name in ("label", "text", "file", "url")]
    return "\n\n".join(as_texts(words))


def canvas_outline(text: str) -> str:
    """Returns a canvas as Markdown: its cards, by the groups that they lie in, and the edges between them."""
    parts = [*_parts(text)]
    nodes = {str(node.get("id")): node for node in parts if "fromNode" not in node}
    groups = [node for node in nodes.values() if node.get("type") == "group"]
    groups.sort(key=lambda node: _place(node, "width") * _place(node, "height"))
    del groups[_MOST_COMPARED // (len(nodes) or 1) :]  # Cards in a larger one count as in none.
    held: dict[str, list[str]] = {}
    for node in sorted(nodes.values(), key=lambda node: (_place(node, "y"), _place(node, "x"))):
        if node.get("type") != "group":
            group = next((str(each.get("id")) for each in groups if _within(node, each)), "")
            held.setdefault(group, []).append(_card(node))
    lines: list[str] = []
    for group in sorted(held, key=lambda each: (bool(each), *(_place(nodes[each], axis) for axis in "yx" if each))):
        lines += ["", f"## {_card(nodes[group]) if group else 'Cards'}", ""]
        lines += ["- " + card.replace("\n", "\n  ") for card in held[group]]
    edges = [_edge(edge, nodes) for edge in parts if "fromNode" in edge]
    return "\n".join([*lines, *(["", "## Connections", "", *edges] if edges else [])]).lstrip("\n") + "\n"


def _edge(edge: dict[str, Any], nodes: dict[str, dict[str, Any]]) -> str:
    ends = [_card(nodes.get(str(edge.get(name)), {})).partition("\n")[0][:_LONGEST] for name in ("fromNode", "toNode")]
    back = "←" if edge.get("fromEnd") == "arrow" else "—"
    arrow = back if edge.get("toEnd") == "none" else "↔" if back == "←" else "→"
    label = as_texts([edge.get("label")])
    return f"- {ends[0]} {arrow} {ends[1]}{f': {label[0]}' if label else ''}"


def _card(node: dict[str, Any]) -> str:
    """Returns a card as text; a file as a link."""
    if file := as_texts([node.get("file")]):
        return f"[[{file[0].removesuffix('.md')}{''.join(as_texts([node.get('subpath')]))}]]"
    return next(iter(as_texts([node.get(name) for name in ("text", "url", "label")])), "(empty)").strip() or "(empty)"


def _place(node: dict[str, Any], name: str) -> float:
    return as_float(node.get(name)) or 0.0


def _within(node: dict[str, Any], group: dict[str, Any]) -> bool:
    return all(
        _place(group, axis) <= _place(node, axis)
        and _place(node, axis) + _place(node, size) <= _place(group, axis) + _place(group, size)
        for axis, size in (("x", "width"), ("y", "height"))
    )


def _places(text: str) -> Iterator[tuple[Placed, list[NoteLink]]]:
    """Yields the files and texts of the cards, in their order, with the links that they are or have."""
    written = _WRITTEN.finditer(text)
    for node in _parts(text):
        name, value = str(node.get("type")), node.get(str(node.get("type")))
        if name not in ("file", "text") or not isinstance(value, str):
            continue
        same = (each.span(2) for each in written if each[1] == name and json.loads(each[2]) == value)
        if (place := next(same, None)) is None:
            return
        links = [link for link in parse(value, "").links if link.kind != "property"]
        if name == "file":
            subpath = "".join(as_texts([node.get("subpath")]))
            links = [NoteLink("canvas", True, value, subpath, None, 1, 0, len(value))]
        yield (value, *place), links


def _parts(text: str) -> Iterator[dict[str, Any]]:
    try:
        canvas: Any = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return
    for kind in ("nodes", "edges"):
        yield from as_dicts(as_dict(canvas).get(kind))
