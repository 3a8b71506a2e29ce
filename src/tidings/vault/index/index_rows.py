"""Entries as rows of the index.

May import: `model`, `paths`, `index_schema`.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, cast

from tidings.vault.files.paths import key
from tidings.vault.index.index_schema import ROWS
from tidings.vault.text.model import Entry, Link, Note

Row = tuple[Any, ...]
Rows = Mapping[str, Iterable[Row]]
"""Rows by the name of their table; made while they are stored, so that not all of them are there at once."""

INSERTS: Final = {
    "files": "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "fts": "INSERT INTO fts (rowid, title, body) VALUES (?, ?, ?)",
    **{table: f"INSERT INTO {table} VALUES (?, ?{', ?' * len(columns)})" for table, columns in ROWS.items()},  # noqa: S608
}


def collect(files: Sequence[tuple[int, Entry]]) -> Rows:
    """The rows of files, by table. Each file comes with its id."""
    return {
        "files": (_file(id_, entry) for id_, entry in files),
        "fts": ((id_, _title(entry), entry.text) for id_, entry in files),
        **{table: _rows(files, find) for table, find in _FOUND.items()},
    }


def cleaned(rows: Rows) -> Rows:
    """The same with what no database can hold replaced: halves of characters, which only escapes can bring in."""

    def clean(value: object) -> object:
        return value.encode(errors="replace").decode() if isinstance(value, str) else value

    return {table: (tuple(map(clean, row)) for row in some) for table, some in rows.items()}


def _rows(files: Iterable[tuple[int, Entry]], find: Callable[[Note], Iterable[Row]]) -> Iterator[Row]:
    for id_, entry in files:
        if entry.note:
            for n, row in enumerate(find(entry.note)):
                yield (id_, n, *row)


def _file(id_: int, entry: Entry) -> Row:
    path, note = entry.path, entry.note
    folder, _, _ = path.rpartition("/")
    properties = _json(note.properties) if note else "{}"
    problems = [problem for problem in (entry.problem, note and note.problem) if problem]
    return (
        *(id_, path, folder, name_key(path, entry.kind), entry.kind),
        *entry.stamp,
        *(entry.hash, _title(entry), note.words if note else 0, properties, " ".join(problems) or None),
    )


def name_key(path: str, kind: str) -> str:
    """What `files.name` says of a file."""
    name = key(path.rpartition("/")[2])
    return name[:-3] if kind == "note" else name


def link_key(target: str) -> str:
    """What `links.name` says of a link: its target can only be a file whose name is that."""
    return key(target.rpartition("/")[2]).removesuffix(".md")


def _title(entry: Entry) -> str:
    if entry.note:
        return entry.note.title
    name = entry.path.rpartition("/")[2]
    return name if entry.kind == "attachment" else name.rpartition(".")[0]


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
