"""The index of a vault: the side that writes.

`apply` is one transaction, in which all that is known of a file is replaced by what was read of it now. Whatever goes
wrong in between, the index is as it was before. What was read is compared by its hash, so that a file which was merely
touched costs next to nothing.

May import: `index_*`, `model`, `paths`, `queries`, `scan_file`.

Entries as rows of the index.

May import: `entries`, `index_schema`, `model`.

How many notes have which tag: kept up to date by what a batch of files changes of it.

A tag counts for those that it is nested in: a note with `#a/b` is in the total of `a`. A tag is shown as it was written
first, which is where the path is lowest, then the line.

May import: `entries`.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from tidings.vault.files.paths import Vault
from tidings.vault.index import database
from tidings.vault.index.database import ROWS, create, explain
from tidings.vault.index.queries import Queries
from tidings.vault.index.read_file import Row, Same, name_key
from tidings.vault.notes.model import IndexEntry, Stamp

Rows = Mapping[str, Iterable[Row]]
"""Rows by the name of their table; made while they are stored, so that not all of them are there at once."""

INSERTS: Final = {
    "files": "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "fts": "INSERT INTO fts (rowid, title, body) VALUES (?, ?, ?)",
    **{table: f"INSERT INTO {table} VALUES (?, ?{', ?' * len(columns)})" for table, columns in ROWS.items()},  # noqa: S608
}


def collect(files: Sequence[tuple[int, IndexEntry]]) -> Rows:
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


def _rows(files: Iterable[tuple[int, IndexEntry]], table: str) -> Iterator[Row]:
    for id_, entry in files:
        for n, row in enumerate(entry.rows.get(table, ())):
            yield (id_, n, *row)


def _file(id_: int, entry: IndexEntry) -> Row:
    path = entry.path
    return (
        *(id_, path, path.rpartition("/")[0], name_key(path, entry.kind), entry.kind),
        *entry.stamp,
        *(entry.hash, entry.title, entry.words, entry.properties, entry.problem),
    )


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


_LONGEST_LOG: Final = 64 * 2**20
_LONG_LOG: Final = 4 * 2**20
"""How long the log of the database may get before it is worked into the main file: at all, and when nobody waits."""

_MERGED_PAGES: Final = 200
"""How much of the full text is merged at once."""

_Files = Sequence[tuple[int, IndexEntry]]


class _KnownFile(NamedTuple):
    """What the index says of a file, so far as it decides what to write."""

    id: int
    kind: str
    hash: str | None
    problem: str | None


class Index:
    """The index of `vault`, used by one thread at a time.

    Args:
        vault: The folders that are served.
        cache: The folder to keep it in; if none is given, one in the user's cache. What is found there is used.
        memory: Keep it in memory instead.

    If it cannot be kept in the folder, it is in memory, and `notes` says why.

    Raises:
        VaultUnusable: The folder lies in the vault itself.
    """

    def __init__(self, vault: Vault, cache: Path | None = None, *, memory: bool = False) -> None:
        self._mounts = [mount.name for mount in vault.mounts]
        opened = database.open_in_memory() if memory else database.open_in(database.folder_for(vault, cache))
        self._address, self.place, self._lock, self.notes = opened[1:]
        self._begin(opened.connection)

    def _begin(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA cache_size = -8000")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LONGEST_LOG // database.PAGE}")
        connection.execute(f"PRAGMA journal_size_limit = {_LONGEST_LOG}")
        self._connection = connection
        self.queries = Queries(connection, self._mounts)

    def close(self) -> None:
        """Let go of the index. It stays where it is, for the next start."""
        with suppress(sqlite3.Error):
            self._connection.close()
        if self._lock is not None:
            database.unlock(self._lock)
            self._lock = None

    def reader(self) -> Queries:
        """The read side, for another thread: what was applied last, and never a part of it."""
        connection = database.connect(self._address)
        connection.execute("PRAGMA query_only = 1")
        return Queries(connection, self._mounts)

    def renew(self) -> None:
        """Begin with an empty index, because what is there is damaged. All readers have to be closed before."""
        with suppress(sqlite3.Error):
            self._connection.close()
        if self.place is None:
            connection = database.connect(self._address)
            create(connection)
        else:
            database.remove(self.place)
            connection = database.prepare(self._address, self.place)
        self._begin(connection)

    def tidy(self) -> bool:
        """Do a little of what takes its time when somebody waits for it; whether there is more of it.

        To be called when there is nothing else to do. If nobody ever does, it is done when it can be put off no longer.

        Raises:
            IndexBlocked: It could not be written, and is as it was.
            IndexDamaged: It has to be built anew.
        """
        before = self._connection.total_changes
        with self._transaction():
            self._connection.execute("INSERT INTO fts (fts, rank) VALUES ('merge', ?)", (_MERGED_PAGES,))
        # The statement itself counts as one.
        if self._connection.total_changes - before > 1:
            return True
        with suppress(OSError, sqlite3.Error):
            if self.place is not None and self.place.with_name(f"{self.place.name}-wal").stat().st_size > _LONG_LOG:
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        return False

    def stamps(self, path: str = "") -> dict[str, Stamp]:
        """What the file system said of each file when it was read: of all, or of a path and what is below it.

        Raises:
            IndexBlocked: It could not be read.
            IndexDamaged: It has to be built anew.
        """
        below = "WHERE path = :path OR (path >= :path || '/' AND path < :path || '0')" if path else "WHERE :path = ''"
        rows = self._ask(f"SELECT path, size, mtime, ctime, inode FROM files {below}", {"path": path})  # noqa: S608
        return {path: Stamp(*stamp) for path, *stamp in rows}

    def hashes(self, paths: Iterable[str]) -> dict[str, str | None]:
        """The hash of what each of these files held when it was read.

        Raises:
            IndexBlocked: It could not be read.
            IndexDamaged: It has to be built anew.
        """
        some = "SELECT path, hash FROM files WHERE path IN (SELECT value FROM json_each(?))"
        return dict(self._ask(some, (json.dumps([*paths]),)))

    def sharing(self, inodes: Iterable[int]) -> list[str]:
        """The paths of the files that have one of these inodes, by any name.

        Raises:
            IndexBlocked: It could not be read.
            IndexDamaged: It has to be built anew.
        """
        shared = "SELECT path FROM files WHERE inode IN (SELECT value FROM json_each(?))"
        return [path for (path,) in self._ask(shared, (json.dumps([*inodes]),))]

    def roots(self) -> dict[str, tuple[int, int]]:
        """The device and inode of each vault's folder, as they were when it was last read.

        Raises:
            IndexBlocked: It could not be read.
            IndexDamaged: It has to be built anew.
        """
        rows = self._ask("SELECT value FROM meta WHERE key = ?", ("roots",))
        try:
            return {name: (device, inode) for (value,) in rows for name, (device, inode) in json.loads(value).items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise explain(sqlite3.DatabaseError(error), self.place) from error

    def keep_roots(self, roots: Mapping[str, tuple[int, int]]) -> None:
        """Note which folders were read.

        Raises:
            IndexBlocked: It could not be written.
            IndexDamaged: It has to be built anew.
        """
        if roots != self.roots():
            with self._transaction():
                self._connection.execute("INSERT OR REPLACE INTO meta VALUES ('roots', ?)", (json.dumps(roots),))

    def apply(self, entries: Sequence[IndexEntry], gone: Sequence[str] = (), same: Sequence[Same] = ()) -> None:
        """Replace all that is known of some files, and forget others. Files that were already so cost nothing.

        Args:
            entries: Files that were read.
            gone: Files that are not there any more.
            same: Files that hold what they did. One of which something else is known by now is left as it is.

        Raises:
            IndexBlocked: It could not be written, and is as it was.
            IndexDamaged: It has to be built anew.
        """
        try:
            self._apply(entries, gone, same, collect)
        except UnicodeEncodeError:
            self._apply(entries, gone, same, lambda files: cleaned(collect(files)))

    def _apply(
        self,
        entries: Sequence[IndexEntry],
        gone: Sequence[str],
        same: Sequence[Same],
        rows_of: Callable[[_Files], Rows],
    ) -> None:
        new = {entry.path: entry for entry in entries}
        with self._transaction():
            self._connection.executemany(
                "UPDATE files SET size = ?, mtime = ?, ctime = ?, inode = ? WHERE path = ? AND hash = ?",
                [(*each.stamp, each.path, each.hash) for each in same],
            )
            known = self._known([*new, *gone])
            touched = {path for path, entry in new.items() if path in known and _is_same(entry, known[path])}
            self._stamp((known[path].id, new[path].stamp) for path in touched)
            replaced = {known.id: path for path, known in known.items() if path not in touched}
            tags = TagChanges(self._connection, replaced)
            self._forget(replaced, keep={known[path].id for path in new if path in known})
            ids = self._ids(known, [path for path in new if path not in touched])
            rows = dict(rows_of([(id_, new[path]) for path, id_ in ids.items()]))
            # They are stored, and counted.
            rows["tags"] = list(rows["tags"])
            for table, some in rows.items():
                self._connection.executemany(INSERTS[table], some)
            tags.add(rows["tags"], {id_: path for path, id_ in ids.items()})
            tags.store()

    def _known(self, paths: Sequence[str]) -> dict[str, _KnownFile]:
        rows = self._connection.execute(
            "SELECT path, id, kind, hash, problem FROM files WHERE path IN (SELECT value FROM json_each(?))",
            (json.dumps(paths),),
        )
        return {path: _KnownFile(*known) for path, *known in rows}

    def _ids(self, known: Mapping[str, _KnownFile], paths: Iterable[str]) -> dict[str, int]:
        """The id of each file, by their ids: what is known keeps its own."""
        last: int = self._connection.execute("SELECT ifnull(max(id), 0) FROM files").fetchone()[0]
        ids: dict[str, int] = {}
        for path in paths:
            if path not in known:
                last += 1
            ids[path] = known[path].id if path in known else last
        return dict(sorted(ids.items(), key=_by_id))

    def _stamp(self, stamps: Iterable[tuple[int, Stamp]]) -> None:
        self._connection.executemany(
            "UPDATE files SET size = ?, mtime = ?, ctime = ?, inode = ? WHERE id = ?",
            [(*stamp, id_) for id_, stamp in stamps],
        )

    def _forget(self, ids: Iterable[int], *, keep: set[int]) -> None:
        """Delete what was found in files; and what is known of them at all, except for those to `keep`."""
        # In their order: at each step back, the full text is written as one more piece.
        every = [(id_,) for id_ in sorted(ids)]
        for table in ROWS:
            self._connection.executemany(f"DELETE FROM {table} WHERE file = ?", every)  # noqa: S608
        self._connection.executemany("DELETE FROM fts WHERE rowid = ?", every)
        self._connection.executemany("DELETE FROM files WHERE id = ?", [row for row in every if row[0] not in keep])

    def _ask(self, question: str, about: tuple[str] | dict[str, str]) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(question, about).fetchall()
        except sqlite3.Error as error:
            raise explain(error, self.place) from error

    @contextmanager
    def _transaction(self) -> Generator[None]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise explain(error, self.place) from error


def _by_id(known: tuple[str, int]) -> int:
    return known[1]


def _is_same(entry: IndexEntry, known: _KnownFile) -> bool:
    """Whether a file that was read again is what it was, so far as the index is concerned."""
    if entry.kind != known.kind:
        return False
    if entry.kind == "attachment":
        # Many are not hashed. What is known of them besides is their stamp, which is stored in any case.
        return (entry.hash, entry.problem) == (known.hash, known.problem)
    return entry.hash is not None and entry.hash == known.hash
