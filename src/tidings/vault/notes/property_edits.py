"""Changing one property of a note without touching any other byte.

Its text is replaced in the style that it had, or in the simplest that is read as the same value. Items of a list that
stay keep their quotes and comments. A block in braces (JSON) becomes lines. The result is read again before it is
returned. YAML's own marks are not exact: a block node ends where the next node begins, after comments that are not its
own, and an alias has the marks of its anchor. `_place` and `end_of` correct that.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from tidings.vault.notes.model import TextChange
from tidings.vault.notes.properties import Frontmatter, compose, key_name, load, scalar, split

_COLON = re.compile(r"\s*:")
_ALIAS = re.compile(r"\s*(\*[^\s,\]}]+)")
_LETTER = "A-Za-z0-9_\xa1-\u1fff\u2070-\ud7ff\ue000-\ufdcf\uff01-\uffdc\U00010000-\U0001ffff"
_PLAIN = re.compile(rf"(?:[{_LETTER}./+(]|-(?=[{_LETTER}]))(?:[{_LETTER}/.,+()'\"=;?!&*@$%<>|~^\[\]{{}}\\` #:-])*")
_PLAIN_IN_FLOW = re.compile(rf"[{_LETTER}./+(](?:[{_LETTER}/.+()'\"=;&*@$%<>|~^ -])*")
_ENDS_PLAIN = re.compile(r": | #|[: ]\Z|\A\.\.\.")
_ESCAPED = re.compile('["\\\\\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class YamlSpan(NamedTuple):
    """One property of a mapping."""

    key: int  # The beginning of its name.
    colon: int  # The position after the colon.
    start: int  # The beginning of its value, and its end; both after the colon if there is none.
    end: int
    node: Node | None  # None for an alias.


def _begin(node: Node) -> int:
    return cast("int", node.start_mark.index)


def _place(text: str, key: Node, value: Node) -> YamlSpan:
    colon = _COLON.match(text, key.end_mark.index)
    after = colon.end() if colon else cast("int", key.end_mark.index)
    span, node = (_begin(value), end_of(text, value)), value
    if _begin(value) < after:
        alias = _ALIAS.match(text, after)
        span, node = alias.span(1) if alias else (after, after), None
    elif isinstance(value, ScalarNode) and _begin(value) == value.end_mark.index:
        span = after, after
    return YamlSpan(_begin(key), after, *span, node)


def end_of(text: str, node: Node) -> int:
    """Returns the end of a node's text."""
    start, end = _begin(node), cast("int", node.end_mark.index)
    if isinstance(node, ScalarNode):
        if node.style not in ("|", ">"):
            return end
        # The last line that is not empty. Lines indented less are comments.
        head, _, body = text[start:end].partition("\n")
        indents = [len(line) - len(line.lstrip(" ")) for line in body.split("\n") if line.strip()]
        given = re.search("[1-9]", head.partition("#")[0])
        return (
            _without_comments(text, start, end, 1 if given else indents[0]) if indents else start + len(head.rstrip())
        )
    if cast("CollectionNode", node).flow_style:
        return end
    nodes = cast("list[Node]", node.value)
    if isinstance(node, MappingNode):
        nodes = [part for pair in cast("list[tuple[Node, Node]]", node.value) for part in pair]
    starts = [_begin(part) for part in nodes]
    if nodes and starts == sorted(set(starts)) and starts[0] >= start:  # The marks of the last are its own.
        return end_of(text, nodes[-1])
    return _without_comments(text, start, end, 1 << 30)


def _without_comments(text: str, start: int, end: int, indent: int) -> int:
    """Returns `end` without the empty lines before it, and without comments that are indented less than `indent`."""
    lines = text[start:end].split("\n")
    while len(lines) > 1 and (bare := lines[-1].lstrip(" ")).strip()[:1] in ("", "#"):
        if bare.strip() and len(lines[-1]) - len(bare) >= indent:
            break
        lines.pop()
    return start + len("\n".join(lines).rstrip())


def style_of(node: CollectionNode) -> str | None:
    """Returns the quotes of all texts of a list; None if they differ or have none."""
    styles = {item.style if isinstance(item, ScalarNode) else None for item in cast("list[Node]", node.value)}
    style = styles.pop() if len(styles) == 1 else None
    return style if style in ("'", '"') else None


def scalar_text(value: Any, quote: str | None = None, *, in_flow: bool = False) -> str:
    """Writes a text, number, boolean or None; a text in these quotes if possible."""

    def escape(found: re.Match[str]) -> str:
        code = ord(found[0])
        return _SHORT.get(found[0]) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")

    if not isinstance(value, str):
        return json.dumps(value)
    if quote == "'" and not _ESCAPED.search(value.replace('"', "").replace("\\", "")):
        return "'" + value.replace("'", "''") + "'"
    plain = (_PLAIN_IN_FLOW if in_flow else _PLAIN).fullmatch(value) and not _ENDS_PLAIN.search(value)
    if quote is None and plain and scalar(value) is value:
        return value
    return '"' + _ESCAPED.sub(escape, value) + '"'


def flow_text(value: Any, quote: str | None = None) -> str:
    """Writes a value on one line: `[a, b]`, `{a: b}`."""
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return "{" + ", ".join(f"{scalar_text(k, in_flow=True)}: {flow_text(v)}" for k, v in pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join([flow_text(item, quote) for item in cast("list[Any]", value)]) + "]"
    return scalar_text(value, quote, in_flow=True)


def mapping_text(properties: Mapping[str, Any], indent: str, step: str = "  ") -> str:
    """Writes lines of `name: value`."""
    named = properties.items()
    return "".join(f"{indent}{scalar_text(name)}:{after_colon(value, indent, step)}\n" for name, value in named)


def after_colon(value: Any, indent: str, step: str = "  ", quote: str | None = None) -> str:
    """Writes what follows `name:`, without the last line end. Lists are indented by `step`."""
    if value is None:
        return ""
    if isinstance(value, list) and value:
        return "".join(f"\n{indent}{step}- {item_text(item)}" for item in cast("list[Any]", value))
    if isinstance(value, dict) and value:
        return "\n" + mapping_text(cast("dict[str, Any]", value), indent + "  ").removesuffix("\n")
    return " " + item_text(value, quote)


def item_text(value: Any, quote: str | None = None) -> str:
    """Writes what follows `- `."""
    return flow_text(value) if isinstance(value, list | dict) else scalar_text(value, quote)


class BadProperties(ValueError):
    """The properties cannot be changed safely. Says why, and where."""


def set_property(text: str, key: str, value: Any) -> str:
    """Returns the note with the property set in its place, whatever its case; or at the end. Raises `BadProperties`."""
    wanted = _dumped({key: value})
    block = split(text)
    if block.kind is None:
        newline = _newline(text)
        made = mapping_text({key: value}, "").replace("\n", newline)
        return _checked(f"{text[: block.start]}---{newline}{made}---{newline}{text[block.start :]}", wanted)
    editor = _Editor(block)
    name = editor.name(key) or key
    if name in editor.properties and _dumped(editor.properties[name]) == _dumped(value):
        return text
    return editor.apply(text, {**editor.properties, name: value}, lambda: editor.written(name, value))


def remove_property(text: str, key: str) -> str:
    """Returns the note without the property, if it has it. Raises `BadProperties` if another one depends on it."""
    block = split(text)
    editor = _Editor(block) if block.kind else None
    if editor is None or (name := editor.name(key)) is None:
        return text
    others = {other: value for other, value in editor.properties.items() if other != name}
    return editor.apply(text, others, lambda: editor.removed(name))


def _newline(text: str) -> str:
    return "\r\n" if text[: text.find("\n") + 1].endswith("\r\n") else "\n"


def _dumped(value: Any) -> str:
    """Returns a text that is equal for values that are equal and of the same types."""
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadProperties(f"This value cannot be a property: {error}") from error


def _checked(text: str, wanted: str) -> str:
    properties, problem = load(split(text))
    if problem is not None or _dumped(properties) != wanted:
        raise BadProperties(f"The property cannot be changed alone: {problem or 'others would change too'}")
    return text


class _Editor:
    r"""One block of properties. Changes have `\n` as line end, and positions in the block."""

    def __init__(self, block: Frontmatter) -> None:
        self.properties, problem = load(block)
        if problem is not None:
            raise BadProperties(problem)
        self._block, self._text = block, block.text
        root = compose(block.text) if block.kind == "yaml" else None
        pairs = cast("list[tuple[Node, Node]]", root.value) if isinstance(root, MappingNode) else []
        self._places = {key_name(key): _place(self._text, key, value) for key, value in pairs}
        self._in_braces = block.kind == "json" or (isinstance(root, MappingNode) and root.flow_style is True)
        first = next(iter(self._places.values()), None)
        self._indent = "" if first is None else self._text[self._line(first.key) : first.key]

    def name(self, key: str) -> str | None:
        alike = (name for name in self.properties if name.casefold() == key.casefold())
        return key if key in self.properties else next(alike, None)

    def apply(self, text: str, wanted: dict[str, Any], change: Callable[[], TextChange]) -> str:
        """Returns the note with the `wanted` properties, by a change of the block."""
        lines = TextChange(0, len(self._text), mapping_text(wanted, "")) if self._in_braces else change()
        start, end = self._block.start + lines.start, self._block.start + lines.end
        written = lines.text.replace("\n", _newline(text))
        return _checked(text[:start] + written + text[end:], _dumped(wanted))

    def removed(self, name: str) -> TextChange:
        place = self._places[name]
        return TextChange(self._line(place.key), self._text.find("\n", place.end) + 1 or len(self._text), "")

    def written(self, name: str, value: Any) -> TextChange:
        if name not in self.properties:
            end = len(self._text)
            return TextChange(end, end, mapping_text({name: value}, self._indent, self._step()))
        place, old = self._places[name], self.properties[name]
        node = place.node
        if isinstance(value, list) and value and isinstance(old, list) and isinstance(node, SequenceNode) and old:
            values, olds = cast("list[Any]", value), cast("list[Any]", old)
            change = self._flow_items(node, olds, values) if node.flow_style else self._items(node, olds, values)
            if change is not None:
                return change
        in_braces = isinstance(node, SequenceNode | MappingNode) and node.flow_style is True
        if isinstance(value, list | dict) and in_braces:
            return TextChange(place.start, place.end, flow_text(value))
        quote = node.style if isinstance(node, ScalarNode) and node.style in ("'", '"') else None
        written = after_colon(value, self._indent, self._step(), quote)
        gap = self._text[place.colon : place.start]
        comment = gap.partition("\n")[0].rstrip() if "#" in gap else ""
        if comment and "\n" in written:  # The value begins on the next line: the comment can stay.
            return TextChange(place.colon + len(comment), place.end, written)
        return TextChange(place.colon, place.end, written + comment)

    def _items(self, node: SequenceNode, olds: list[Any], values: list[Any]) -> TextChange | None:
        """Changes a list with one line per item: items that stay keep their lines, and the comments below them."""
        column, end = cast("int", node.start_mark.column), end_of(self._text, node)
        dash = re.compile(rf"^ {{{column}}}-(?=\s)", re.MULTILINE)
        starts = [match.start() for match in dash.finditer(self._text, _begin(node) - column, end + 1)]
        if len(starts) != len(olds):  # They are ambiguous.
            return None
        last = self._text.find("\n", end) % (len(self._text) + 1)  # -1 is the end of the text.
        ends = [*[start - 1 for start in starts[1:]], last]
        lines = [self._text[start:end].rstrip("\r") for start, end in zip(starts, ends, strict=True)]
        indent, quote = " " * column, style_of(node)
        kept = [line.replace("\r\n", "\n") for line in lines]
        written = _reused(olds, kept, values, lambda value: f"{indent}- {item_text(value, quote)}")
        return TextChange(starts[0], ends[-1] - self._text.endswith("\r", 0, ends[-1]), "\n".join(written))

    def _flow_items(self, node: SequenceNode, olds: list[Any], values: list[Any]) -> TextChange | None:
        """Changes a list in brackets: new items at its end are appended, else it becomes one line."""
        nodes = cast("list[Node]", node.value)
        starts = [_begin(item) for item in nodes]
        if starts != sorted(set(starts)) or starts[0] < _begin(node):
            return None
        quote, ends = style_of(node), [end_of(self._text, item) for item in nodes]
        if _dumped(values[: len(olds)]) == _dumped(olds):  # Comments between the items stay.
            added = (f", {flow_text(value, quote)}" for value in values[len(olds) :])
            return TextChange(ends[-1], ends[-1], "".join(added))
        kept = [self._text[start:end] for start, end in zip(starts, ends, strict=True)]
        written = _reused(olds, kept, values, lambda value: flow_text(value, quote))
        return TextChange(starts[0], ends[-1], ", ".join(written))

    def _step(self) -> str:
        for place in self._places.values():
            if isinstance(place.node, SequenceNode) and not place.node.flow_style:
                return " " * max(0, cast("int", place.node.start_mark.column) - len(self._indent))
        return "  "

    def _line(self, position: int) -> int:
        return self._text.rfind("\n", 0, position) + 1


def _reused(olds: list[Any], texts: list[str], values: list[Any], write: Callable[[Any], str]) -> list[str]:
    """Returns the texts of values: of those that were in the list before, the old ones, each once."""
    left: dict[str, list[str]] = {}
    for old, text in zip(reversed(olds), reversed(texts), strict=True):
        left.setdefault(_dumped(old), []).append(text)
    return [kept.pop() if (kept := left.get(_dumped(value))) else write(value) for value in values]
