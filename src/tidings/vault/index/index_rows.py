"""Entries as rows of the index.

May import: `entries`, `index_schema`, `model`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tidings.vault.index.entries import Row, name_key
from tidings.vault.index.index_schema import ROWS
from tidings.vault.text.model import Entry

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
        "fts": ((id_, entry.title, entry.text) for id_, entry in files),
        **{table: _rows(files, table) for table in ROWS},
    }


def cleaned(rows: Rows) -> Rows:
    """The same with what no database can hold replaced: halves of characters, which only escapes can bring in."""

    def clean(value: object) -> object:
        return value.encode(errors="replace").decode() if isinstance(value, str) else value

    return {table: (tuple(map(clean, row)) for row in some) for table, some in rows.items()}


def _rows(files: Iterable[tuple[int, Entry]], table: str) -> Iterator[Row]:
    for id_, entry in files:
        for n, row in enumerate(entry.rows.get(table, ())):
            yield (id_, n, *row)


def _file(id_: int, entry: Entry) -> Row:
    path = entry.path
    return (
        *(id_, path, path.rpartition("/")[0], name_key(path, entry.kind), entry.kind),
        *entry.stamp,
        *(entry.hash, entry.title, entry.words, entry.properties, entry.problem),
    )
