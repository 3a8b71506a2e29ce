"""`Queries`: the side of the index that reads.

Every method sees the last applied batch; several questions within `snapshot()` see the same state. Lists are ordered by
path unless stated otherwise. Parts of words are found through the `Vocabulary`: first the words that contain one.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final, Literal, NamedTuple, TypeVar

from tidings._kit.suggest import closest
from tidings.vault.notes.model import Kind, NoteTask, key

_FILE: Final = "id, path, folder, kind, size, mtime, hash, title, words, properties, problem"
_WITHIN: Final = "(folder = :within OR (folder >= :within || '/' AND folder < :within || '0'))"
_IS_TAG: Final = "(key = :tag OR (key >= :tag || '/' AND key < :tag || '0'))"
_HAS_TAG: Final = f"id IN (SELECT file FROM tags WHERE {_IS_TAG})"  # noqa: S608 - our own text, as below
_HAS_COMMON_TAG: Final = f"EXISTS (SELECT 1 FROM tags WHERE file = files.id AND {_IS_TAG})"  # noqa: S608
Side = Literal["contains", "ends"]
T = TypeVar("T")

_OF_FILE: Final = "file = (SELECT id FROM files WHERE path = ?)"
_TAG_COUNTS: Final = "SELECT key, shown, notes, total FROM tag_counts"
_COMPARED: Final = 10_000  # Names that are compared letter by letter with one that there is not.
_COMMON: Final = 1000  # A tag of this many notes is searched note by note: the first ones are found soon.


class FileRow(NamedTuple):
    """A file in the index."""

    id: int
    path: str
    folder: str
    kind: Kind
    size: int
    mtime: int  # The last change of the content, in nanoseconds.
    hash: str | None  # The version; None if it was not read.
    title: str
    words: int
    properties_json: str
    problem: str | None

    @property
    def properties(self) -> dict[str, Any]:
        return json.loads(self.properties_json)


class ListedFiles(NamedTuple):
    """A file in a list, with nothing that an edit of its text changes."""

    path: str
    kind: Kind
    title: str


class FolderRow(NamedTuple):
    """A folder, with the counts of everything below it."""

    path: str
    notes: int
    files: int  # All files, notes included.


class FolderListing(NamedTuple):
    """The content of a folder, by name."""

    path: str  # As it is written on the disk.
    folders: tuple[FolderRow, ...]
    files: tuple[ListedFiles, ...]


class TagCount(NamedTuple):
    """A tag without its `#`, and the number of notes with it."""

    key: str
    shown: str  # Its first occurrence as written.
    notes: int  # 0 if only tags nested in it occur.
    total: int  # Includes the notes with a tag nested in it.


class HeadingRow(NamedTuple):
    """A heading of a note."""

    level: int
    text: str
    line: int


class BlockRow(NamedTuple):
    """A block of a note that links can point at."""

    id: str
    line: int


class Vocabulary:
    """All words of an index, and perhaps some of former texts. It may be used by several threads."""

    def __init__(self) -> None:
        self._words = "\n"  # Between line ends.
        self._last = 0
        self._refreshing = Lock()

    def refresh(self, connection: sqlite3.Connection) -> None:
        """Adds the words that are new in the index behind a connection."""
        with self._refreshing:
            rows = connection.execute("SELECT id, word FROM words WHERE id > ? ORDER BY id", (self._last,)).fetchall()
            if rows:
                self._words += "".join(f"{word}\n" for _, word in rows)
                self._last = rows[-1][0]

    def having(self, part: str, side: Side, most: int) -> list[str] | None:
        """Returns the words that contain `part`, or end with it; None if no word is known, or more than `most`."""
        part = part if side == "contains" else f"{part}\n"
        words = self._words  # Another thread may add some.
        found, at = list[str](), words.find(part)
        while at >= 0 and len(found) <= most:
            start, end = words.rfind("\n", 0, at) + 1, words.find("\n", at)
            found.append(words[start:end])
            at = words.find(part, end)
        return found if self._last and len(found) <= most else None


class Queries:
    """Answers questions of one thread at a time. `mounts` are the vaults' names; an empty one for a single vault."""

    def __init__(
        self, connection: sqlite3.Connection, mounts: Sequence[str] = ("",), vocabulary: Vocabulary | None = None
    ) -> None:
        self.connection = connection
        self.mounts = tuple(mounts)
        self.vocabulary = vocabulary or Vocabulary()

    def close(self) -> None:
        self.connection.close()

    def is_built(self) -> bool:
        """Returns whether the index was equal to the disk once."""
        return bool(self.rows(int, "SELECT 1 FROM meta WHERE key = 'built'"))

    @contextmanager
    def snapshot(self) -> Generator[None]:
        """Lets all questions in a `with` block see the same state."""
        if self.connection.in_transaction:
            yield
            return
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            if self.connection.in_transaction:  # Some errors have ended it already.
                self.connection.execute("ROLLBACK")

    def rows(self, make: Callable[..., T], sql: str, about: Sequence[Any] | dict[str, Any] = ()) -> list[T]:
        """Returns what is made of each row of an answer."""
        return [make(*row) for row in self.connection.execute(sql, about)]

    def file(self, path: str) -> FileRow | None:
        return next(iter(self.rows(FileRow, f"SELECT {_FILE} FROM files WHERE path = ?", (path,))), None)  # noqa: S608

    def text(self, path: str) -> str | None:
        """Returns the text of a file: of a note, all of it; of a canvas, its words."""
        body = "SELECT body FROM texts WHERE id = (SELECT id FROM files WHERE path = ?)"
        return next(iter(self.rows(str, body, (path,))), None)

    def find(self, text: str) -> list[str]:
        """Returns the files that a user may mean, the likeliest first: `.md`, the case or folders may be missing."""
        written = text.strip().strip("/")
        if exact := next((path for path in (text, written) if self.file(path)), None):
            return [exact]
        wanted = key(written)
        name = wanted.rpartition("/")[2]
        paths = {path for each in (name, name.removesuffix(".md")) for path in self.candidates(each)}
        whole = [path for path in paths if key(path) in (wanted, f"{wanted}.md")]
        ends = [path for path in paths if key(path).endswith((f"/{wanted}", f"/{wanted}.md"))]
        best = sorted(whole, key=lambda path: (path != f"{written}.md", _rank(path)))
        if not best or name == wanted:
            # A bare name may mean any file with that name; a whole path means only that file.
            best += sorted(ends, key=_rank)
        return best

    def near(self, text: str) -> list[str]:
        """Returns the five files, or fewer, with the most similar names."""
        wanted = key(text.strip().strip("/")).rpartition("/")[2].removesuffix(".md")
        files = dict(self.connection.execute("SELECT name, path FROM files"))
        within = sorted(
            (path for name, path in files.items() if wanted and wanted in name), key=lambda path: (len(path), path)
        )
        similar = [files[name] for name in closest(wanted, files, most=5, cutoff=0.5, key=str, among=_COMPARED)]
        return list(dict.fromkeys([*within, *similar]))[:5]

    def candidates(self, name: str) -> list[str]:
        """Returns the paths of all files whose name has this key; notes without `.md`."""
        return self.rows(str, "SELECT path FROM files WHERE name = ? ORDER BY path", (name,))

    def recent(self, limit: int = 20, offset: int = 0) -> list[FileRow]:
        """Returns the notes, canvases and bases that were changed last, the newest first."""
        newest = f"SELECT {_FILE} FROM files WHERE kind <> 'attachment' ORDER BY mtime DESC, path LIMIT ? OFFSET ?"  # noqa: S608
        return self.rows(FileRow, newest, (limit, offset))

    def folder(self, path: str) -> FolderListing | None:
        """Returns the content of a folder; '' is the vault itself. Only folders with files somewhere below exist."""
        path = self._spelled(path.strip("/"))
        files = self.rows(ListedFiles, "SELECT path, kind, title FROM files WHERE folder = ?", (path,))
        below = [folder for folder in self._folders(path) if folder.path.rpartition("/")[0] == path]
        if not files and not below and path and path not in self.mounts:
            return None
        return FolderListing(path, tuple(below), tuple(sorted(files, key=lambda file: _order(file.path))))

    def structure(self, depth: int | None = None, within: str = "") -> list[FolderRow]:
        """Returns all folders below one, to some depth, each followed by those in it."""
        within = self._spelled(within.strip("/"))
        most = None if depth is None else depth + (within.count("/") + 1 if within else 0)
        return [folder for folder in self._folders(within) if most is None or folder.path.count("/") < most]

    def _folders(self, within: str) -> list[FolderRow]:
        notes: Counter[str] = Counter()
        files: Counter[str] = Counter({mount: 0 for mount in self.mounts if mount and not within})
        rows = self.connection.execute(
            f"SELECT folder, kind, count(*) FROM files WHERE {_within(within)} GROUP BY folder, kind",  # noqa: S608
            {"within": within},
        )
        for folder, kind, count in rows:
            for above in upward(folder, within):
                files[above] += count
                notes[above] += count if kind == "note" else 0
        return [FolderRow(path, notes[path], files[path]) for path in sorted(files, key=_order)]

    def _spelled(self, folder: str) -> str:
        """Returns a folder as it is on the disk, if its case or normal form differs."""
        ask = self.connection.execute
        if not folder or ask(f"SELECT 1 FROM files WHERE {_within(folder)} LIMIT 1", {"within": folder}).fetchone():  # noqa: S608
            return folder
        wanted = key(folder)
        every = {above for (path,) in ask("SELECT DISTINCT folder FROM files") for above in upward(path)}
        return min((path for path in {*every, *self.mounts} if key(path) == wanted), default=folder)

    def tags(self) -> list[TagCount]:
        return self.rows(TagCount, f"{_TAG_COUNTS} ORDER BY key")

    def tag(self, tag: str) -> TagCount | None:
        """Returns one tag, with or without its `#`, in any case."""
        return next(iter(self.rows(TagCount, f"{_TAG_COUNTS} WHERE key = ?", (_tag_key(tag),))), None)

    def with_tag(self, tag: str, limit: int = -1, offset: int = 0) -> list[ListedFiles]:
        """Returns the notes with a tag, or one nested in it."""
        count = self.tag(tag)
        having = _HAS_COMMON_TAG if count and count.total >= _COMMON else _HAS_TAG
        found = f"SELECT path, kind, title FROM files WHERE {having} ORDER BY path LIMIT :most OFFSET :offset"  # noqa: S608
        return self.rows(ListedFiles, found, {"tag": _tag_key(tag), "most": limit, "offset": offset})

    def count(self, table: Literal["headings", "links", "tasks"], path: str) -> int:
        return sum(n + 1 for n in self._of(path, int, "n", table, "n DESC LIMIT 1"))  # They are numbered.

    def headings(self, path: str, limit: int = -1) -> list[HeadingRow]:
        return self._of(path, HeadingRow, "level, text, line", "headings", f"n LIMIT {limit:d}")

    def blocks(self, path: str) -> list[BlockRow]:
        return self._of(path, BlockRow, "id, line", "blocks")

    def with_alias(self, alias: str) -> list[str]:
        """Returns the notes that have an alias."""
        some = "SELECT DISTINCT path FROM aliases JOIN files ON files.id = aliases.file WHERE key = ? ORDER BY path"
        return self.rows(str, some, (key(alias.strip()),))

    def aliases(self, path: str) -> list[str]:
        return self._of(path, str, "shown", "aliases")

    def tags_of(self, path: str) -> list[str]:
        """Returns the tags of a note, each once, as in its first occurrence."""
        # SQLite takes `shown` from the row with the least `n`.
        some = f"SELECT shown, min(n) AS n FROM tags WHERE {_OF_FILE} GROUP BY key ORDER BY n"  # noqa: S608
        return [shown for shown, _ in self.connection.execute(some, (path,))]

    def tasks(self, path: str, limit: int = -1) -> list[NoteTask]:
        return self._of(path, NoteTask, "line, status, text", "tasks", f"n LIMIT {limit:d}")

    def _of(self, path: str, make: Callable[..., T], columns: str, table: str, order: str = "n") -> list[T]:
        return self.rows(make, f"SELECT {columns} FROM {table} WHERE {_OF_FILE} ORDER BY {order}", (path,))  # noqa: S608

    def properties_in_use(self) -> dict[str, int]:
        """Returns all properties, in lower case, with the number of notes that have them; the most frequent first."""
        distinct = "SELECT DISTINCT key, file FROM properties"
        counted = f"SELECT key, count(*) AS notes FROM ({distinct}) GROUP BY key ORDER BY notes DESC, key"  # noqa: S608
        return dict(self.connection.execute(counted))

    def stats(self, *, sums: bool = True) -> dict[str, int]:
        """Returns counts of everything; with `sums` of words and bytes, too, which takes longer."""
        ask = self.connection.execute
        kinds: Counter[str] = Counter()
        folders = {mount for mount in self.mounts if mount}
        for folder, kind, count in ask("SELECT folder, kind, count(*) FROM files GROUP BY folder, kind"):
            kinds[kind] += count
            folders.update(upward(folder))
        tasks, still_open = ask("SELECT count(*), ifnull(sum(status = ' '), 0) FROM tasks").fetchone()
        counts = {
            "notes": kinds["note"],
            "canvases": kinds["canvas"],
            "bases": kinds["base"],
            "attachments": kinds["attachment"],
            "folders": len(folders),
            "tags": ask("SELECT count(*) FROM tag_counts WHERE notes > 0").fetchone()[0],
            "links": ask("SELECT count(*) FROM links").fetchone()[0],
            "tasks_open": still_open,
            "tasks_done": tasks - still_open,
        }
        if sums:
            words, size = ask("SELECT ifnull(sum(words), 0), ifnull(sum(size), 0) FROM files").fetchone()
            counts |= {"words": words, "size": size}
        return counts


def _within(folder: str) -> str:
    return _WITHIN if folder else ":within = ''"


def _tag_key(tag: str) -> str:
    return key(tag.strip().removeprefix("#").strip("/"))


def upward(path: str, top: str = "") -> Iterator[str]:
    """Yields a folder or tag and those above it, below `top`: `a/b/c`, `a/b` and `a`."""
    while len(path) > len(top):
        yield path
        path = path.rpartition("/")[0]


def _order(path: str) -> tuple[list[str], str]:
    """Sorts names as people do, each folder followed by its content."""
    return key(path).split("/"), path


def _rank(path: str) -> tuple[bool, int, int, str]:
    """Ranks notes before other files; then as Obsidian does: near the root, a short path."""
    return not key(path).endswith(".md"), path.count("/"), len(path), path
