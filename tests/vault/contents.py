"""All that an index holds, so that two can be compared."""

from collections.abc import Iterable
from typing import Any

from tidings.vault.index.index import ROWS, Index
from tidings.vault.index.read_file import make_entry
from tidings.vault.notes.model import IndexEntry, Note, NoteTag, Stamp

Rows = dict[str, list[tuple[Any, ...]]]


def contents(index: Index) -> Rows:
    """The rows of all tables, without ids, which say when a file came, and ctimes, which say when it was read."""
    ask = index.queries.connection.execute
    ask("INSERT INTO fts (fts) VALUES ('integrity-check')")
    paths = dict(ask("SELECT id, path FROM files").fetchall())
    columns = "path, folder, name, kind, size, mtime, inode, hash, title, words, properties, problem"
    found: Rows = {"files": sorted(ask(f"SELECT {columns} FROM files"), key=repr)}
    for table in ("texts", *ROWS):
        rows = ask(f"SELECT * FROM {table}").fetchall()
        found[table] = sorted(((paths[number], *row) for number, *row in rows), key=repr)
    found["tag_counts"] = sorted(ask("SELECT * FROM tag_counts"))
    return found


def tagged(path: str, tags: Iterable[tuple[str, int]], *, digest: str = "1") -> IndexEntry:
    """A note with nothing but tags: each with its line."""
    found = tuple(NoteTag(name, line, 0, 0) for name, line in tags)
    note = Note(path, {}, 0, found, (), (), (), (), (), 0, None)
    return make_entry(path, "note", Stamp(0, 0, 0, 0), version=digest, note=note)
