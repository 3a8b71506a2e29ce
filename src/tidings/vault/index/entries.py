"""What is known of a file, as rows of the index: made where the file is read, which may be another process.

May import: `model`, `names`. No more, so that the processes which only parse start quickly.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, cast

from tidings.vault.text.model import Entry, Kind, Link, Note, Stamp
from tidings.vault.text.names import key

Row = tuple[Any, ...]


def make_entry(
    path: str,
    kind: Kind,
    stamp: Stamp,
    *,
    version: str | None = None,
    text: str = "",
    note: Note | None = None,
    problem: str | None = None,
) -> Entry:
    """The entry of a file: of one that was not read, if no more is given.

    Args:
        path: Where it is.
        kind: What it is.
        stamp: What the file system says of it.
        version: The hash of its bytes.
        text: What can be searched.
        note: What was found in it.
        problem: Why it was not read, or not read as it is.
    """
    problems = [each for each in (problem, note and note.problem) if each]
    return Entry(
        path,
        kind,
        stamp,
        version,
        text,
        note.title if note else _title(path, kind),
        note.words if note else 0,
        _json(note.properties) if note else "{}",
        " ".join(problems) or None,
        {table: rows for table, find in _FOUND.items() if (rows := [*find(note)])} if note else {},
    )


def name_key(path: str, kind: str) -> str:
    """What `files.name` says of a file."""
    name = key(path.rpartition("/")[2])
    return name[:-3] if kind == "note" else name


def link_key(target: str) -> str:
    """What `links.name` says of a link: its target can only be a file whose name is that."""
    return key(target.rpartition("/")[2]).removesuffix(".md")


def _title(path: str, kind: Kind) -> str:
    name = path.rpartition("/")[2]
    return name if kind == "attachment" else name.rpartition(".")[0]


def _link(link: Link) -> Row:
    return (
        *(link_key(link.target), link.target, link.subpath, link.shown),
        *(link.kind, link.embed, link.line, link.start, link.end),
    )


_FOUND: Final[Mapping[str, Callable[[Note], Iterable[Row]]]] = {
    "tags": lambda note: ((key(tag.name), tag.name, tag.line) for tag in note.tags),
    "links": lambda note: map(_link, note.links),
    "headings": lambda note: ((heading.level, heading.text, heading.line) for heading in note.headings),
    "blocks": lambda note: ((block.id, block.line) for block in note.blocks),
    "tasks": lambda note: ((task.line, task.status, task.text) for task in note.tasks),
    "properties": lambda note: ((key(name), *row) for name, some in note.properties.items() for row in _values(some)),
    "aliases": lambda note: ((key(alias), alias) for alias in note.aliases),
}


def _values(value: Any) -> list[tuple[str | None, float | None]]:
    if isinstance(value, list | tuple):
        return [_value(item) for item in cast("list[Any]", value)] or [(None, None)]
    return [_value(value)]


def _value(value: Any) -> tuple[str | None, float | None]:
    match value:
        case None:
            return None, None
        case bool():
            return ("true" if value else "false"), None
        case int() | float():
            return _json(value), _number(value)
        case str():
            return value, None
        case _:
            return _json(value), None


def _number(value: float) -> float | None:
    with suppress(OverflowError):  # There are longer integers than numbers of the database.
        number = float(value)
        return number if math.isfinite(number) else None
    return None


def _json(value: Any) -> str:
    """JSON of what a YAML block holds; what JSON has no form for (`.nan`, something within itself) as text."""
    with suppress(ValueError, TypeError, RecursionError):
        return json.dumps(value, default=str, allow_nan=False)
    if isinstance(value, dict):
        parts = {str(name): _json(part) for name, part in cast("dict[Any, Any]", value).items() if part is not value}
        return f"{{{', '.join(f'{json.dumps(name)}: {part}' for name, part in parts.items())}}}"
    return json.dumps(str(value)[:1000])
