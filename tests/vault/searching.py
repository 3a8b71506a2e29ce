"""An index of notes that a test writes down, and what is found in it."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from tidings.vault.files.paths import Vault
from tidings.vault.index.index import Index
from tidings.vault.index.read_file import make_entry
from tidings.vault.notes.model import IndexEntry, Kind, Stamp
from tidings.vault.notes.parse import parse
from tidings.vault.search.search import search

KINDS: Mapping[str, Kind] = {"md": "note", "canvas": "canvas", "base": "base"}


def entry(path: str, text: str, *, mtime: int = 0) -> IndexEntry:
    """What the index keeps of a file with this text."""
    name, _, extension = path.rpartition("/")[2].rpartition(".")
    kind = KINDS.get(extension, "attachment")
    note = parse(text, name) if kind == "note" else None
    return make_entry(
        path, kind, Stamp(len(text.encode()), mtime, mtime, 0), version=str(hash(text)), text=text, note=note
    )


def indexed(root: Path, notes: Mapping[str, str]) -> Index:
    """An index in memory; each file was modified a day after the one before, from 2024-05-01 on."""
    index = Index(Vault([root]), memory=True)
    day = 86_400 * 10**9
    first = 1_714_521_600 * 10**9 + day // 2
    index.apply([entry(path, text, mtime=first + n * day) for n, (path, text) in enumerate(notes.items())])
    return index


def found(connection: sqlite3.Connection, query: str) -> set[str]:
    """The paths that a query finds, all of them."""
    result = search(connection, query, limit=10_000)
    assert result.problem is None
    assert result.exact
    assert result.total == len(result.hits)
    return {hit.path for hit in result.hits}
