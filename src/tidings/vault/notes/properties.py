"""A note's properties: the block of YAML, or of JSON, between two lines of `---` at its very start.

Values are read as Obsidian and the npm package `yaml` do, by YAML 1.2: only `true` and `false` are booleans; dates are
texts; a name that is a mapping is its text, so that `{{date}}` in a template is `{"{ date }": null}`. Errors are in
words. A block with an error is read property by property, and a value that is not YAML is the text as written.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import yaml
from yaml.events import CollectionEndEvent, CollectionStartEvent, Event
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

if TYPE_CHECKING:
    from yaml import SafeLoader as _Base
else:
    _Base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML may lack libyaml.

_OPENING = re.compile(r"\ufeff?---[ \t]*\r?\n")
_CLOSING = re.compile(r"\n---[ \t]*(?:\r?\n|\Z)")
_TYPED = (":int", ":float", ":bool", ":null")
_MOST_NODES = 100_000
_DEEPEST = 100
_LONGEST = 1 << 20
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_MOST_DIGITS = 300
_NUMERIC = frozenset("0123456789+-.")
_UNPRINTABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|\ufeff")
_NAME = r"(?:\"[^\"]*+\"|'[^']*+'|(?!-[ \t]|[\[#\"']|\{[^{])\S[^\n]*?)[ \t]?:(?=[ \t]|$)"
_NAMED_LINE = re.compile(rf"([ \t]*+){_NAME}")
_VALUE_LINE = re.compile(rf"([ \t]*+(?:-[ \t]++)*+(?:{_NAME})?[ \t]*+)(.*)")
_LONGEST_NAME = 10_000
_MOST_SALVAGED = 100_000  # Characters of a block with an error that are read.
_MOST_MENDED = 100  # Properties with an error that are looked at line by line.


def scalar(text: str) -> Any:
    """Returns the value of a plain text."""
    if text in _SPECIAL:
        return _SPECIAL[text]
    if text[0] not in _NUMERIC or len(text) > _MOST_DIGITS:
        return text
    if _INTEGER.fullmatch(text):
        return int(text, 0) if text[1:2] in ("o", "x") else int(text)
    return float(text) if _FLOAT.fullmatch(text) and math.isfinite(float(text)) else text


class Frontmatter(NamedTuple):
    """The position of a note's properties."""

    start: int
    end: int
    text: str  # The text between the two lines, from start to end; empty where a new block would begin.
    kind: Literal["yaml", "json"] | None  # JSON if it is in braces; None if there is no block.
    body_start: int


def split(text: str) -> Frontmatter:
    """Finds the block of properties."""
    opening = _OPENING.match(text) if text.startswith(("---", "\ufeff")) else None
    closing = _CLOSING.search(text, opening.end() - 1) if opening else None
    if opening is None or closing is None:
        start = 1 if text.startswith("\ufeff") else 0
        return Frontmatter(start, start, "", None, start)
    start, end = opening.end(), closing.start() + 1
    block = text[start:end]
    return Frontmatter(start, end, block, "json" if block.lstrip().startswith("{") else "yaml", closing.end())


def load(block: Frontmatter) -> tuple[dict[str, Any], str | None]:
    """Returns the properties, and the problem with them if there is one. Lines count from the note's first."""
    if not block.text or block.text.isspace():
        return {}, None
    if block.kind == "json":
        with suppress(ValueError, RecursionError):
            return json.loads(block.text, parse_constant=_refuse, object_pairs_hook=_unique), None
    reader = _PropertyReader()
    try:
        properties = reader.properties(compose(block.text))
    except _UNREADABLE as error:
        return _Salvage(block.text).properties, _explained(error, block.text)
    twice = reader.twice and _problem(reader.twice.start_mark.line, f"'{key_name(reader.twice)}' occurs twice")
    return properties, twice


class _Loader(_Base):
    """Leaves the meaning of plain texts to `scalar`."""

    def resolve(self, kind: type[Node], value: Any, implicit: Any) -> str:
        return "plain" if kind is ScalarNode and implicit[0] else "text"

    def descend_resolver(self, current_node: Node | None, current_index: Any) -> None: ...

    def ascend_resolver(self) -> None: ...


def compose(text: str) -> Node | None:
    """Returns the tree of nodes with their positions. Refuses nesting that would end the process: its parser recurs."""
    if len(text) > _LONGEST:
        raise ValueError(f"they are longer than {_LONGEST} characters")
    if sum(map(text.count, "[{-?:")) > _DEEPEST * 10:  # Each level needs one of them.
        depth = 0
        events = yaml.parse(text, Loader=_Loader)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        for event in cast("Iterator[Event]", events):
            depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            if depth > _DEEPEST:
                raise yaml.MarkedYAMLError(problem="too many levels", problem_mark=event.start_mark)
    loader = _Loader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()  # pyright: ignore[reportUnknownMemberType]


_UNREADABLE = (yaml.YAMLError, ValueError, RecursionError)


def _explained(error: Exception, text: str) -> str:
    match error:
        case yaml.MarkedYAMLError():
            mark = error.problem_mark or error.context_mark
            cause = error.problem or "not YAML"
            if cause == "found character that cannot start any token" and "\t" in text:
                cause = "YAML does not allow a tab there, only spaces"
            return _problem(mark.line if mark else 0, cause)
        case yaml.reader.ReaderError():
            return _problem(text.count("\n", 0, error.position), error.reason)
        case RecursionError():
            return _problem(0, "too many levels")
        case _:
            return f"Not all properties can be read: {error}"


def _problem(line: int, cause: str) -> str:
    return f"Not all properties can be read: {cause} (line {line + 2})"


class _Salvage:
    """The properties that can be read of a block with an error."""

    def __init__(self, text: str) -> None:
        self.properties: dict[str, Any] = {}
        self._left = _MOST_MENDED
        kept = text if len(text) <= _MOST_SALVAGED else text[: text.rfind("\n", 0, _MOST_SALVAGED) + 1]
        lines = _UNPRINTABLE.sub("\ufffd", kept).replace("\r\n", "\n").split("\n")
        named = [(at, len(found[1])) for at, line in enumerate(lines) if (found := _NAMED_LINE.match(line))]
        starts = [at for at, indent in named if indent <= named[0][1]]
        self._read([lines[start:end] for start, end in zip(starts, [*starts[1:], None], strict=False)])

    def _read(self, parts: Sequence[list[str]]) -> None:
        """Reads properties, each some lines: all at once if possible, else one half after the other."""
        if not parts or self._add([line for part in parts for line in part]):
            return
        if len(parts) > 1:
            self._read(parts[: len(parts) // 2])
            self._read(parts[len(parts) // 2 :])
            return
        self._left -= 1
        part = parts[0]
        mended = list(map(_mended, part)) if self._left > 0 else []
        attempts = (mended, [line for line in mended if _is_value(line)], mended[:1])
        if not any(attempt and self._add(attempt) for attempt in attempts):
            name, _, value = part[0].partition(":")
            self.properties[name.strip(" \t\"'")] = value.strip()

    def _add(self, lines: Sequence[str]) -> bool:
        with suppress(*_UNREADABLE):
            self.properties |= _PropertyReader().properties(compose("\n".join([*lines, ""])))
            return True
        return False


def _is_value(line: str) -> bool:
    return _NAMED_LINE.match(line) is not None or line.lstrip().startswith("- ")


def _mended(line: str) -> str:
    """Returns a line whose value is a quoted text if it is not YAML."""
    found = _VALUE_LINE.match(line)
    if found is None or not found[2] or not _is_value(line):
        return line
    value = json.dumps(found[2].partition(" #")[0].rstrip())
    with suppress(*_UNREADABLE):
        compose(f"x: {found[2]}")
        value = found[2]
    return found[1].expandtabs(2) + value


class _PropertyReader:
    """Turns nodes into values. Aliases are followed within a limit on all values."""

    def __init__(self) -> None:
        self.twice: Node | None = None
        self._count = 0

    def properties(self, root: Node | None) -> dict[str, Any]:
        if root is None or (isinstance(root, ScalarNode) and not root.value):
            return {}
        if not isinstance(root, MappingNode):
            raise yaml.MarkedYAMLError(problem="properties are lines of 'name: value'", problem_mark=root.start_mark)
        return self.value(root)

    def value(self, node: Node) -> Any:
        self._count += 1
        if self._count > _MOST_NODES:
            raise yaml.MarkedYAMLError(problem="too many values", problem_mark=node.start_mark)
        if isinstance(node, ScalarNode):
            return scalar(node.value) if node.tag == "plain" or node.tag.endswith(_TYPED) else node.value
        if isinstance(node, SequenceNode):
            return [self.value(item) for item in cast("list[Node]", node.value)]
        result: dict[str, Any] = {}
        for key, value in cast("list[tuple[Node, Node]]", node.value):
            name = key_name(key)
            if name in result:
                self.twice = self.twice or key
            result[name] = self.value(value)
        return result


def key_name(node: Node, depth: int = 0) -> str:
    """Returns the name that a node is as a key: that of a list or a mapping is its text on one line."""
    if isinstance(node, ScalarNode):
        return str(node.value)
    pairs = cast("list[tuple[Node, ...]]", node.value)
    if isinstance(node, SequenceNode):
        pairs = [(item,) for item in cast("list[Node]", node.value)]
    start, end = "[]" if isinstance(node, SequenceNode) else "{}"
    name = ""
    for pair in pairs:
        name += (", " if name else "") + ": ".join(filter(None, (key_name(part, depth + 1) for part in pair)))
        if len(name) > _LONGEST_NAME or depth > _DEEPEST:  # An alias may contain itself, or many others.
            raise yaml.MarkedYAMLError(problem="too many levels", problem_mark=node.start_mark)
    return f"{start} {name} {end}" if name else start + end


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(result := dict(pairs)) != len(pairs):
        raise ValueError("a name occurs twice")
    return result
