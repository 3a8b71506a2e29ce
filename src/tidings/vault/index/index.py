"""`Index`: the side that writes, in SQLite: its tables (`schema.sql`), its place, its lock, its entries.

`apply` is one transaction that replaces everything known of a file by its new entry. A tag counts for those that it is
nested in, too, and is shown as in its first occurrence, by path, then line. Each set of vaults has a folder in the
user's cache with numbered files. A server takes the first one that no other server uses, and locks a file beside it for
as long as it runs. A file that is damaged, or of another version, is rebuilt.
"""

import hashlib
import json
import logging
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import platformdirs

from tidings._kit.files import open_lock, try_lock
from tidings._kit.sqlite import Database, OnDamage, Schema, statements_in
from tidings._kit.sqlite_errors import DatabaseUnreadable, Trouble, Wording, trouble_of
from tidings.vault.files.paths import Vault, VaultUnusable
from tidings.vault.index.queries import Queries, upward
from tidings.vault.index.read_file import Row, folded, name_key
from tidings.vault.notes.model import SEARCHED, IndexEntry, Stamp

logger = logging.getLogger(__name__)

PAGE: Final = 8192  # Most notes fit twice or more into a page: the file is a fifth smaller than with the usual size.
_SLOTS, _NAME = 16, "index-{}.db"
_TIMEOUT: Final = 5.0  # Seconds that another process may keep the file locked.

# The tables of the contents of files, with the number of their columns after `file` and `n`.
ROWS: Final = {"tags": 3, "links": 9, "headings": 3, "blocks": 2, "tasks": 3, "properties": 3, "aliases": 2}

SCHEMA: Final = Schema(
    application_id=0x54494456,  # "TIDV"
    version=3,  # Raised with every change of the tables, or of how a file is read.
    tables=statements_in(Path(__file__).with_name("schema.sql")),
    checked=("files", "texts", "fts", "words", "tag_counts", "meta", *ROWS),
    pragmas=(f"PRAGMA page_size = {PAGE}", "PRAGMA temp_store = MEMORY", "PRAGMA secure_delete = OFF"),
)
_WORDING: Final = Wording(
    "index",
    start_over="It is rebuilt.",
    texts=dict.fromkeys(
        (Trouble.DAMAGED, Trouble.MISFIT, Trouble.NOT_A_DATABASE, Trouble.UNKNOWN),
        "is damaged, and is rebuilt ({error}).",
    ),
)
_BLOCKING: Final = {Trouble.LOCKED, Trouble.FULL, Trouble.DISK, Trouble.MEMORY, Trouble.INTERRUPTED, Trouble.NO_ACCESS}
Rows = Mapping[str, Iterable[Row]]  # By table, made while they are stored, so that not all of them exist at once.

INSERTS: Final = {
    "files": "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "texts": "INSERT INTO texts VALUES (?, ?, ?, ?)",
    "fts": "INSERT INTO fts (rowid, title, headings, body) VALUES (?, ?, ?, ?)",
    "words": "INSERT OR IGNORE INTO words (word) VALUES (?)",
    **{table: f"INSERT INTO {table} VALUES (?, ?{', ?' * columns})" for table, columns in ROWS.items()},  # noqa: S608
}
_MERGED_PAGES: Final = 200  # Pages of the full text that are merged at once.


class IndexBlocked(Exception):
    """The index cannot be used at the moment. It is as it was before; the same may succeed later."""


class IndexDamaged(Exception):
    """The index is damaged, and has to be rebuilt."""


def cache_folder(vault: Vault) -> Path:
    """Returns the folder for the indices of these vaults in the user's cache."""
    roots = "\0".join(f"{mount.name}\0{mount.root}" for mount in vault.mounts) + vault.excluded
    digest = hashlib.blake2b(os.fsencode(roots), digest_size=8).hexdigest()
    return Path(platformdirs.user_cache_dir("tidings")) / "vault" / digest


def folder_for(vault: Vault, chosen: Path | None = None) -> Path:
    """Returns the chosen folder for the indices, or else `cache_folder`. Raises `VaultUnusable` if a vault holds it."""
    folder = chosen or cache_folder(vault)
    if vault.holds(folder):
        why = "lies in the vault and would be indexed itself. Choose another folder."
        raise VaultUnusable(f"The folder for the index, {str(folder)!r}, {why}")
    return folder


def log_in(folder: Path, vault: Vault) -> Path:
    """Returns the place of the log of changes of these vaults in the folder of their indices."""
    return folder / f"changes-{cache_folder(vault).name}.db"


def journal_in(folder: Path, vault: Vault) -> Path:
    """Returns the folder of the journal of writes to these vaults in the folder of their indices."""
    return folder / f"journal-{cache_folder(vault).name}"


def collect(files: Sequence[tuple[int, IndexEntry]]) -> Rows:
    """Returns the rows of files with their ids, by table."""

    def contents(table: str) -> Iterator[Row]:
        return ((id_, n, *row) for id_, entry in files for n, row in enumerate(entry.rows.get(table, ())))

    return {
        "files": (
            (
                *(id_, entry.path, entry.path.rpartition("/")[0], name_key(entry.path, entry.kind), entry.kind),
                *(*entry.stamp, entry.hash, entry.title, entry.words, entry.properties, entry.problem),
            )
            for id_, entry in files
        ),
        "texts": ((id_, *_texts(entry)) for id_, entry in files),
        "fts": ((id_, *map(folded, _texts(entry))) for id_, entry in files if entry.kind in SEARCHED),
        **{table: contents(table) for table in ROWS},
    }


def cleaned(rows: Rows) -> Rows:
    """Replaces lone surrogates, which no database can store. Only escapes in a text can produce them."""

    def clean(value: object) -> object:
        return value.encode(errors="replace").decode() if isinstance(value, str) else value

    return {table: (tuple(map(clean, row)) for row in some) for table, some in rows.items()}


def _texts(entry: IndexEntry) -> tuple[str, str, str]:
    """Returns the title of a file, its headings and its text."""
    return entry.title, "\n".join(text for _, text, _ in entry.rows.get("headings", ())), entry.text


class _First(NamedTuple):
    path: str
    line: int
    shown: str


class TagChanges:
    """The changes of the tag counts while the rows of some files are replaced. Make it before, store it after."""

    def __init__(self, connection: sqlite3.Connection, replaced: Mapping[int, str]) -> None:
        self._connection = connection
        self._notes: Counter[str] = Counter()
        self._total: Counter[str] = Counter()
        self._firsts: dict[str, _First] = {}
        self._replaced = set(replaced.values())
        rows = connection.execute(
            "SELECT file, key FROM tags WHERE file IN (SELECT value FROM json_each(?))", (json.dumps([*replaced]),)
        )
        self._count(rows, -1)

    def add(self, rows: Sequence[Row], paths: Mapping[int, str]) -> None:
        self._count(((file, tag) for file, _, tag, *_ in rows), +1)
        for file, _, tag, shown, line in rows:
            for outer, outer_shown in zip(upward(tag), upward(shown), strict=True):
                first = _First(paths[file], line, outer_shown)
                # Of two in one line, the first.
                if first[:2] < self._firsts.setdefault(outer, first)[:2]:
                    self._firsts[outer] = first

    def store(self) -> None:
        """Writes the changed counts, after the rows of the tags themselves."""
        some = "SELECT key, path, line, shown FROM tag_counts WHERE key IN (SELECT value FROM json_each(?))"
        rows = self._connection.execute(some, (json.dumps([*self._total]),))
        known = {tag: _First(*first) for tag, *first in rows}
        # Tags without notes go first: they have no first occurrence.
        self._connection.executemany(
            "UPDATE tag_counts SET notes = notes + ?, total = total + ? WHERE key = ?",
            [(self._notes[tag], self._total[tag], tag) for tag in known],
        )
        self._connection.execute("DELETE FROM tag_counts WHERE total = 0")
        left = [tag for (tag, *_) in self._connection.execute(some, (json.dumps([*known]),))]
        self._connection.executemany(
            "UPDATE tag_counts SET path = ?, line = ?, shown = ? WHERE key = ?",
            [(*first, tag) for tag in left if (first := self._first(tag, known[tag])) != known[tag]],
        )
        added = ((tag, first) for tag, first in self._firsts.items() if tag not in known)
        self._connection.executemany(
            "INSERT INTO tag_counts (key, notes, total, path, line, shown) VALUES (?, ?, ?, ?, ?, ?)",
            [(tag, self._notes[tag], self._total[tag], *first) for tag, first in added],
        )

    def _count(self, rows: Iterable[tuple[int, str]], by: int) -> None:
        """Counts the tags of files, given with the file's id: each once for a file."""
        found = set(rows)
        for _, tag in found:
            self._notes[tag] += by
        for _, outer in {(file, outer) for file, tag in found for outer in upward(tag)}:
            self._total[outer] += by

    def _first(self, tag: str, known: _First) -> _First:
        """Returns the first occurrence now. The known one is gone if its file was replaced."""
        new = self._firsts.get(tag)
        if known.path not in self._replaced:
            return min(new, known, key=lambda first: first[:2]) if new else known
        # All files that were not replaced come after the known one.
        if new and new.path <= known.path:
            return new
        path, line, shown = self._connection.execute(
            "SELECT files.path, line, shown FROM tags CROSS JOIN files ON files.id = tags.file "
            "WHERE key = :tag OR (key >= :tag || '/' AND key < :tag || '0') ORDER BY path, line, n LIMIT 1",
            {"tag": tag},
        ).fetchone()
        return _First(path, line, "/".join(shown.split("/")[: tag.count("/") + 1]))


class Index:
    """The index of `vault` in the folder `cache` or the user's cache, used by one thread at a time.

    If it can only be in memory, `notes` says why. All methods raise `IndexBlocked` if it cannot be used at the moment,
    and `IndexDamaged` if it has to be rebuilt.
    """

    def __init__(self, vault: Vault, cache: Path | None = None, *, memory: bool = False) -> None:
        self._mounts = [mount.name for mount in vault.mounts]
        self._lock: int | None = None
        self.notes: tuple[str, ...] = ()
        self._database = _database(None) if memory else self._open_in(folder_for(vault, cache))
        if self._lock is None:
            self._database.open()
        self.explained = self._database.explained
        """Returns the `IndexBlocked` or `IndexDamaged` to raise in place of an error."""
        self.place = self._database.path
        self.is_first = self.place is not None and self.place.name == _NAME.format(0)
        """No other server was using the vault when this was opened."""
        self.queries = Queries(self._database.connection, self._mounts)
        self.is_built = bool(self._ask("SELECT 1 FROM meta WHERE key = ?", ("built",)))
        """It was equal to the disk once, now or at an earlier start."""
        self._words: set[str] = set()  # Those that are stored already, while the index is built.

    def _open_in(self, folder: Path) -> Database:
        """Opens the first index in `folder` that no other server uses. Returns one for the memory if there is none."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for number in range(_SLOTS):
                if opened := self._take(folder / _NAME.format(number)):
                    return opened
            problem = f"{_SLOTS} servers use this vault already"
        except (OSError, IndexBlocked, IndexDamaged) as error:
            problem = str(error)
        note = f"The index is in memory and is rebuilt at each start: {folder} cannot be used ({problem})."
        logger.warning("%s", note)
        self.notes = (note,)
        return _database(None)

    def _take(self, place: Path) -> Database | None:
        """Opens the index at `place`; None if another server uses it, or another program has locked it."""
        lock = open_lock(place.with_suffix(".lock"))
        try:
            if try_lock(lock):
                database = _database(place)
                database.open()
                self._lock = lock
                return database
        except (IndexBlocked, IndexDamaged) as error:
            if not isinstance(error.__cause__, Exception) or trouble_of(error.__cause__) is not Trouble.LOCKED:
                raise
        finally:
            if self._lock is None:
                os.close(lock)
        return None

    def close(self) -> None:
        """Closes the index. It stays where it is, for the next start."""
        self._database.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def reader(self) -> Queries:
        """Returns the read side for another thread: it sees whole applied batches."""
        return Queries(self._database.reader(), self._mounts, self.queries.vocabulary)

    def renew(self) -> None:
        """Begins with an empty index, because this one is damaged. All readers have to be closed before."""
        self._database.renew()
        self.is_built = False
        self._words.clear()
        self.queries = Queries(self._database.connection, self._mounts)

    def tidy(self) -> bool:
        """Merges a part of the full text early, which would happen in any case later. Returns whether there is more."""
        with self._database.transaction() as connection:
            before = connection.total_changes
            connection.execute("INSERT INTO fts (fts, rank) VALUES ('merge', ?)", (_MERGED_PAGES,))
            return connection.total_changes - before > 1  # The statement itself counts as one.

    def stamps(self, path: str = "") -> dict[str, Stamp]:
        """Returns the stamps of all files as they were read, or of a path and everything below it."""
        below = "WHERE path = :path OR (path >= :path || '/' AND path < :path || '0')" if path else "WHERE :path = ''"
        rows = self._ask(f"SELECT path, size, mtime, ctime, inode FROM files {below}", {"path": path})  # noqa: S608
        return {path: Stamp(*stamp) for path, *stamp in rows}

    def sharing(self, inodes: Iterable[int]) -> list[str]:
        shared = "SELECT path FROM files WHERE inode IN (SELECT value FROM json_each(?))"
        return [path for (path,) in self._ask(shared, (json.dumps([*inodes]),))]

    def roots(self) -> dict[str, tuple[int, int]]:
        """Returns the device and inode of each vault's folder as they were when it was last read."""
        rows = self._ask("SELECT value FROM meta WHERE key = ?", ("roots",))
        try:
            return {name: (device, inode) for (value,) in rows for name, (device, inode) in json.loads(value).items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise self.explained(DatabaseUnreadable(error)) from error

    def keep_roots(self, roots: Mapping[str, tuple[int, int]]) -> None:
        if roots != self.roots():
            with self._database.transaction() as connection:
                connection.execute("INSERT OR REPLACE INTO meta VALUES ('roots', ?)", (json.dumps(roots),))

    def keep_built(self) -> None:
        with self._database.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('built', '')")
        self.is_built = True
        self._words.clear()

    def apply(self, entries: Sequence[IndexEntry], gone: Sequence[str] = ()) -> None:
        """Stores files that were read, and forgets those that are `gone`."""
        try:
            self._apply(entries, gone)
        except UnicodeEncodeError:
            self._apply(entries, gone, clean=True)

    def _apply(self, entries: Sequence[IndexEntry], gone: Sequence[str], *, clean: bool = False) -> None:
        new = {entry.path: entry for entry in entries}
        with self._database.transaction() as connection:
            found = connection.execute(
                "SELECT path, id, kind, hash, problem FROM files WHERE path IN (SELECT value FROM json_each(?))",
                (json.dumps([*new, *gone]),),
            ).fetchall()
            known: dict[str, int] = {path: id_ for path, id_, *_ in found}
            touched = {path for path, _, *state in found if path in new and _is_same(new[path], *state)}
            connection.executemany(
                "UPDATE files SET size = ?, mtime = ?, ctime = ?, inode = ? WHERE id = ?",
                [(*new[path].stamp, known[path]) for path in touched],
            )
            replaced = {id_: path for path, id_ in known.items() if path not in touched}
            tags = TagChanges(connection, replaced)
            _forget(connection, replaced, keep={id_ for path, id_ in known.items() if path in new})
            # In the order of the ids: known files keep theirs.
            last: int = connection.execute("SELECT ifnull(max(id), 0) FROM files").fetchone()[0]
            fresh = {path: id_ for id_, path in enumerate((path for path in new if path not in known), last + 1)}
            ids = {path: id_ for id_, path in sorted(replaced.items()) if path in new} | fresh
            rows = dict(collect([(id_, new[path]) for path, id_ in ids.items()]))
            rows = dict(cleaned(rows)) if clean else rows
            tag_rows = rows["tags"] = list(rows["tags"])  # Stored, and counted below.
            words = set[str]()
            for path in ids:
                words.update(new[path].vocabulary.split("\n"))
            words -= self._words | {""}
            rows["words"] = ((word,) for word in sorted(words))
            for table, some in rows.items():
                connection.executemany(INSERTS[table], some)
            tags.add(tag_rows, {id_: path for path, id_ in ids.items()})
            tags.store()
        if not self.is_built:
            self._words |= words

    def _ask(self, question: str, about: tuple[str] | dict[str, str]) -> list[tuple[Any, ...]]:
        try:
            return self._database.connection.execute(question, about).fetchall()
        except sqlite3.Error as error:
            raise self.explained(error) from error


def _forget(connection: sqlite3.Connection, ids: Iterable[int], *, keep: set[int]) -> None:
    """Deletes the contents of files; and the files themselves, except for those to `keep`."""
    # In their order: each step back would write one more segment of the full text.
    every = [(id_,) for id_ in sorted(ids)]
    for table in ROWS:
        connection.executemany(f"DELETE FROM {table} WHERE file = ?", every)  # noqa: S608
    old = f"SELECT id, texts.title, headings, body FROM texts JOIN files USING (id) WHERE id = ? AND kind IN {SEARCHED}"  # noqa: S608
    texts = (row for id_ in every for row in connection.execute(old, id_))
    forget = "INSERT INTO fts (fts, rowid, title, headings, body) VALUES ('delete', ?, ?, ?, ?)"
    connection.executemany(forget, ((id_, *map(folded, text)) for id_, *text in texts))
    connection.executemany("DELETE FROM texts WHERE id = ?", every)
    connection.executemany("DELETE FROM files WHERE id = ?", [row for row in every if row[0] not in keep])


def _is_same(entry: IndexEntry, kind: str, version: str | None, problem: str | None) -> bool:
    # Many attachments are not hashed. Their stamp is stored in any case.
    is_sure = entry.problem == problem if entry.kind == "attachment" else entry.hash is not None
    return is_sure and (entry.kind, entry.hash) == (kind, version)


def _set_up_writer(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA cache_size = -8000")


def _database(place: Path | None) -> Database:
    return Database(
        place,
        SCHEMA,
        wording=_WORDING,
        error=lambda trouble, text: (IndexBlocked if trouble in _BLOCKING else IndexDamaged)(text),
        timeout=_TIMEOUT,
        on_damage=OnDamage.REBUILD,
        exclusive=True,
        opened=_set_up_writer,
    )
