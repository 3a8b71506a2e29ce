"""How many notes have which tag: kept up to date by what a batch of files changes of it.

A tag counts for those that it is nested in: a note with `#a/b` is in the total of `a`. A tag is shown as it was written
first, which is where the path is lowest, then the line.

May import: `entries`.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tidings.vault.index.entries import Row


class _First(NamedTuple):
    """Where a tag is written first."""

    path: str
    line: int
    shown: str


class TagChanges:
    """What becomes of the tags when some files' rows are replaced: made before, stored after."""

    def __init__(self, connection: sqlite3.Connection, replaced: Mapping[int, str]) -> None:
        self._connection = connection
        self._notes: Counter[str] = Counter()
        self._total: Counter[str] = Counter()
        self._firsts: dict[str, _First] = {}
        self._replaced = set(replaced.values())
        rows = connection.execute(
            "SELECT file, key FROM tags WHERE file IN (SELECT value FROM json_each(?))", (json.dumps([*replaced]),)
        )
        before: dict[int, set[str]] = {}
        for file, tag in rows:
            before.setdefault(file, set()).add(tag)
        for tags in before.values():
            self._count(tags, -1)

    def add(self, rows: Iterable[Row], paths: Mapping[int, str]) -> None:
        """Count the rows of tags that come in their place."""
        after: dict[int, set[str]] = {}
        for file, _, tag, shown, line in rows:
            after.setdefault(file, set()).add(tag)
            for outer, outer_shown in zip(_outward(tag), _outward(shown), strict=True):
                first = _First(paths[file], line, outer_shown)
                known = self._firsts.setdefault(outer, first)
                # Of two in one line, the one to the left.
                if first[:2] < known[:2]:
                    self._firsts[outer] = first
        for tags in after.values():
            self._count(tags, +1)

    def store(self) -> None:
        """Write what has changed, once the rows of the tags themselves are written."""
        rows = self._connection.execute(
            "SELECT key, path, line, shown FROM tag_counts WHERE key IN (SELECT value FROM json_each(?))",
            (json.dumps([*self._total]),),
        )
        known = {tag: _First(*first) for tag, *first in rows}
        # What no note has any more goes first: it is nowhere written first.
        self._connection.executemany(
            "UPDATE tag_counts SET notes = notes + ?, total = total + ? WHERE key = ?",
            [(self._notes[tag], self._total[tag], tag) for tag in known],
        )
        self._connection.execute("DELETE FROM tag_counts WHERE total = 0")
        left = {tag for tag in known if self._total[tag] >= 0 or self._is_left(tag)}
        self._connection.executemany(
            "UPDATE tag_counts SET path = ?, line = ?, shown = ? WHERE key = ?",
            [(*first, tag) for tag in left if (first := self._first(tag, known[tag])) != known[tag]],
        )
        self._connection.executemany(
            "INSERT INTO tag_counts (key, notes, total, path, line, shown) VALUES (?, ?, ?, ?, ?, ?)",
            [
                (tag, self._notes[tag], self._total[tag], *first)
                for tag, first in self._firsts.items()
                if tag not in known
            ],
        )

    def _count(self, tags: set[str], by: int) -> None:
        for tag in tags:
            self._notes[tag] += by
        for outer in {outer for tag in tags for outer in _outward(tag)}:
            self._total[outer] += by

    def _is_left(self, tag: str) -> bool:
        return self._connection.execute("SELECT 1 FROM tag_counts WHERE key = ?", (tag,)).fetchone() is not None

    def _first(self, tag: str, known: _First) -> _First:
        """Where a tag is written first by now. What was known is gone if its file was replaced."""
        new = self._firsts.get(tag)
        if known.path not in self._replaced:
            return min(new, known, key=lambda first: first[:2]) if new else known
        # All files that were not replaced come after the one that was known.
        if new and new.path <= known.path:
            return new
        path, line, shown = self._connection.execute(
            "SELECT files.path, line, shown FROM tags CROSS JOIN files ON files.id = tags.file "
            "WHERE key = :tag OR (key >= :tag || '/' AND key < :tag || '0') ORDER BY path, line, n LIMIT 1",
            {"tag": tag},
        ).fetchone()
        return _First(path, line, "/".join(shown.split("/")[: tag.count("/") + 1]))


def _outward(tag: str) -> Iterator[str]:
    """A tag and those that it is nested in."""
    while tag:
        yield tag
        tag = tag.rpartition("/")[0]
