"""Where the parts of a block of YAML stand, to the character: what its nodes do not tell exactly.

A node that is a block ends, by its mark, where the next thing begins: after empty lines and comments that are not its
own. An alias has the marks of what it stands for.
"""

import re
from typing import NamedTuple, cast

from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

_COLON = re.compile(r"\s*:")
_ALIAS = re.compile(r"\s*(\*[^\s,\]}]+)")


class Place(NamedTuple):
    """One property of a mapping."""

    key: int
    """Where its name begins."""
    colon: int
    """Where its value may begin: after the colon."""
    start: int
    end: int
    """Its value; both where the value would begin if there is none."""
    node: Node | None
    """None for an alias."""


def index(node: Node) -> int:
    """Where a node begins."""
    return cast("int", node.start_mark.index)


def places(text: str, root: MappingNode) -> dict[str, Place]:
    """All properties, in their order."""
    return {str(key.value): _place(text, key, value) for key, value in cast("list[tuple[Node, Node]]", root.value)}


def _place(text: str, key: Node, value: Node) -> Place:
    colon = _COLON.match(text, key.end_mark.index)
    if colon is None:  # A name without a value, between braces.
        end = cast("int", key.end_mark.index)
        return Place(index(key), end, end, end, value)
    after = colon.end()
    if index(value) < after:
        alias = _ALIAS.match(text, after)
        start, end = alias.span(1) if alias else (after, after)
        return Place(index(key), after, start, end, None)
    if isinstance(value, ScalarNode) and index(value) == value.end_mark.index:
        return Place(index(key), after, after, after, value)
    return Place(index(key), after, index(value), end_of(text, value), value)


def end_of(text: str, node: Node) -> int:
    """Where a node's text ends."""
    end = cast("int", node.end_mark.index)
    if isinstance(node, ScalarNode):
        return _end_of_literal(text, node) if node.style in ("|", ">") else end
    block = cast("CollectionNode", node)
    if block.flow_style:
        return end
    last = _last(block)
    if last is not None:
        return end_of(text, last)
    return _without_comments(text, index(node), end, 1 << 30)


def _last(node: CollectionNode) -> Node | None:
    """The last part of a block, if its marks are its own."""
    if isinstance(node, MappingNode):
        nodes = [part for pair in cast("list[tuple[Node, Node]]", node.value) for part in pair]
    else:
        nodes = cast("list[Node]", node.value)
    starts = [index(part) for part in nodes]
    return nodes[-1] if nodes and starts == sorted(set(starts)) and starts[0] >= index(node) else None


def _end_of_literal(text: str, node: ScalarNode) -> int:
    """Of a text after `|` or `>`: its last line that is not empty. What is indented less is a comment."""
    start, end = index(node), cast("int", node.end_mark.index)
    head, _, body = text[start:end].partition("\n")
    indents = [len(line) - len(line.lstrip(" ")) for line in body.split("\n") if line.strip()]
    if not indents:
        return start + len(head.rstrip())
    given = re.search("[1-9]", head.partition("#")[0])
    return _without_comments(text, start, end, 1 if given else indents[0])


def _without_comments(text: str, start: int, end: int, indent: int) -> int:
    """`end` without the empty lines before it, and without the comments there that are indented less than this."""
    lines = text[start:end].split("\n")
    while len(lines) > 1:
        line = lines[-1]
        bare = line.strip()
        if bare and not (bare.startswith("#") and len(line) - len(line.lstrip(" ")) < indent):
            break
        lines.pop()
    return start + len("\n".join(lines).rstrip())


def item_lines(text: str, node: SequenceNode) -> list[int] | None:
    """Where the lines of a list begin that hold its items' dashes; None if that is not clear."""
    column = cast("int", node.start_mark.column)
    begin = index(node) - column
    dash = re.compile(rf"^ {{{column}}}-(?=\s)", re.MULTILINE)
    found = [match.start() for match in dash.finditer(text, begin, end_of(text, node) + 1)]
    return found if len(found) == len(cast("list[Node]", node.value)) else None


def style_of(node: CollectionNode) -> str | None:
    """The quotes that all texts of a list are in."""
    styles = {item.style if isinstance(item, ScalarNode) else None for item in cast("list[Node]", node.value)}
    style = styles.pop() if len(styles) == 1 else None
    return style if style in ("'", '"') else None
