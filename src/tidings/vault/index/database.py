"""Where the index is kept: in the user's cache folder, never in the vault, and one for each server.

Each set of vaults has a folder there, and in it numbered files. A server takes the first that no other server has: who
has one holds a lock on a file beside it, for as long as it lives. So two servers on one vault do not disturb each
other, and both find an index at their next start.

What cannot be used is made anew. Where nothing can be written, the index is in memory.

May import: `index_errors`, `index_schema`, `paths`.

The shape of the index, and how a database of it is opened, created and recognised.

A file of the vault is a row of `files`; what was found in it are rows that name it by its `id` in the column `file`,
numbered by `n` in the order in which they stand in the file. `fts` holds what can be searched, under the same id: the
`title` and, as `body`, the whole text. Where a link leads is not stored: that depends on which other files there are,
and is found when it is asked for, over `files.name` and `links.name`.

`tag_counts` is what the other tables say of tags, kept so that nobody has to count: one row for each tag and for each
tag that others are nested in.

The names in `name`, `key` columns are made by `paths.key`. The index holds nothing that is not in the vault too, so
one of another version is not converted but built anew.

May import: nothing of Tidings.

What went wrong with the index, in words that name the cause and the cure.

May import: nothing of Tidings.
"""

import hashlib
import itertools
import logging
import os
import sqlite3
import sys
from pathlib import Path
from typing import Final, NamedTuple

import platformdirs

from tidings.vault.files.paths import Vault, VaultUnusable

APPLICATION_ID: Final = 0x54494456
"""Marks a database as an index of Tidings ("TIDV")."""

SCHEMA_VERSION: Final = 1
"""To be raised with every change of the tables, and of what is found in a file."""

ROWS: Final = {
    "tags": ("key TEXT", "shown TEXT", "line INTEGER"),  # without '#'
    "links": (
        "name TEXT",  # of the last segment of the target, without '.md'; '' for a link within the same note
        "target TEXT",
        "subpath TEXT",
        "shown TEXT",
        "kind TEXT",
        "embed INTEGER",
        "line INTEGER",
        '"start" INTEGER',
        '"end" INTEGER',
    ),
    "headings": ("level INTEGER", "text TEXT", "line INTEGER"),
    "blocks": ("id TEXT", "line INTEGER"),
    "tasks": ("line INTEGER", "status TEXT", "text TEXT"),
    # A row for a value, or for each item of a list; both NULL where there is none.
    "properties": ("key TEXT", "text TEXT", "number REAL"),
    "aliases": ("key TEXT", "shown TEXT"),
}
"""The tables of what was found in files, and their columns after `file` and `n`."""

_FILES: Final = """CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    folder TEXT NOT NULL,    -- '' for the vault's own
    name TEXT NOT NULL,      -- the key of the file's name; notes without '.md'
    kind TEXT NOT NULL,      -- note, canvas, base or attachment
    size INTEGER NOT NULL,
    mtime INTEGER NOT NULL,  -- in nanoseconds, as all that follows of the stamp
    ctime INTEGER NOT NULL,  -- -1: to be read again, because it may have changed just after it was read
    inode INTEGER NOT NULL,
    hash TEXT,               -- NULL if it was not read, as many attachments are not
    title TEXT NOT NULL,
    words INTEGER NOT NULL,
    properties TEXT NOT NULL,  -- a JSON object
    problem TEXT
)"""

_FTS: Final = """CREATE VIRTUAL TABLE fts USING fts5(title, body, tokenize = "unicode61 remove_diacritics 2")"""

_FTS_SETTINGS: Final = (
    # A batch is written as one piece. Pieces are merged when nobody waits (see `Index.tidy`), or when there are many.
    "INSERT INTO fts (fts, rank) VALUES ('hashsize', 8000000)",
    "INSERT INTO fts (fts, rank) VALUES ('automerge', 0)",
    "INSERT INTO fts (fts, rank) VALUES ('crisismerge', 64)",
)

_TAG_COUNTS: Final = """CREATE TABLE tag_counts (
    key TEXT PRIMARY KEY,
    shown TEXT NOT NULL,    -- as written first: by path, then line
    notes INTEGER NOT NULL, -- with the tag itself
    total INTEGER NOT NULL, -- with it or one nested in it
    path TEXT NOT NULL,     -- where it was written first
    line INTEGER NOT NULL
) WITHOUT ROWID"""

_META: Final = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"

_INDICES: Final = (
    "CREATE INDEX files_by_folder ON files (folder, kind)",
    "CREATE INDEX files_by_name ON files (name)",
    "CREATE INDEX files_by_inode ON files (inode)",
    "CREATE INDEX files_by_age ON files (mtime DESC, path) WHERE kind <> 'attachment'",
    "CREATE INDEX tags_by_key ON tags (key)",
    "CREATE INDEX links_by_name ON links (name)",
    "CREATE INDEX properties_by_key ON properties (key)",
    "CREATE INDEX aliases_by_key ON aliases (key)",
)


def create(connection: sqlite3.Connection) -> None:
    """Make the tables, in an empty database."""
    connection.execute("BEGIN EXCLUSIVE")
    for statement in (_FILES, _FTS, *_FTS_SETTINGS, *map(_found, ROWS), _TAG_COUNTS, _META, *_INDICES):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def prepare_tables(connection: sqlite3.Connection) -> None:
    """Make the tables if the database is empty. Reads a little of all of them, so that a damaged one is noticed.

    Raises:
        sqlite3.DatabaseError: It is something else than an index of this version.
    """
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
        create(connection)
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if (application, version) != (APPLICATION_ID, SCHEMA_VERSION):
        raise sqlite3.DatabaseError(f"it is of another version ({version}, this is {SCHEMA_VERSION})")
    for table in ("files", "fts", "tag_counts", "meta", *ROWS):
        connection.execute(f"SELECT * FROM {table} LIMIT 1").fetchall()  # noqa: S608 - names of our own


def _found(table: str) -> str:
    """A table of what was found in files. By its key, the rows of a file lie together and in order."""
    columns = ", ".join(ROWS[table])
    return f"CREATE TABLE {table} (file INTEGER, n INTEGER, {columns}, PRIMARY KEY (file, n)) WITHOUT ROWID"


class IndexBlocked(Exception):
    """The index cannot be used at the moment. It is as it was before; the same may succeed later."""


class IndexDamaged(Exception):
    """The index holds nonsense. It has to be built anew."""


_BLOCKED: Final = {
    sqlite3.SQLITE_BUSY: "stayed locked by another process. End what keeps it locked: a database browser, a backup.",
    sqlite3.SQLITE_LOCKED: "stayed locked by this process. Try again.",
    sqlite3.SQLITE_FULL: "has no room on its disk. Free some space.",
    sqlite3.SQLITE_IOERR: "could not be read or written. Look at its disk: space, quota, file size limit, health.",
    sqlite3.SQLITE_NOMEM: "needs more memory than there is.",
    sqlite3.SQLITE_INTERRUPT: "was interrupted.",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened. Look at its permissions, and at those of the folders above it.",
    sqlite3.SQLITE_READONLY: "may not be written. Look at its permissions, and at those of the folders above it.",
    sqlite3.SQLITE_PERM: "may not be used. Look at its permissions, and at those of the folders above it.",
}


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process keeps the index locked."""
    return _cause(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def explain(error: sqlite3.Error, place: Path | None) -> IndexBlocked | IndexDamaged:
    """The error to raise in place of `error`, which came of using the index at `place`; None: it is in memory."""
    where = f"The index {place}" if place else "The index in memory"
    if cure := _BLOCKED.get(_cause(error)):
        return IndexBlocked(f"{where} {cure} ({error})")
    return IndexDamaged(f"{where} is damaged, and is built anew. ({error})")


def _cause(error: sqlite3.Error) -> int:
    # The lower byte is the cause; what is above it are finer kinds of the same.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


if sys.platform != "win32":
    import fcntl
else:  # pragma: no cover - of Windows
    import msvcrt

logger = logging.getLogger(__name__)

PAGE: Final = 8192
"""The size of a page in the file, in bytes."""

_SLOTS: Final = 16
_TIMEOUT: Final = 5.0
"""How long another process may keep the file locked, in seconds."""

_numbers = itertools.count()


class Opened(NamedTuple):
    """An index that is this process's own until it is closed."""

    connection: sqlite3.Connection
    address: str
    """What to give to `connect` for another connection."""
    place: Path | None
    """None: in memory."""
    lock: int | None
    """The file that is locked."""
    notes: tuple[str, ...]
    """What the user should know: why it is in memory."""


def cache_folder(vault: Vault) -> Path:
    """The folder for the indices of these vaults, in the user's cache."""
    roots = "\0".join(f"{mount.name}\0{mount.root}" for mount in vault.mounts)
    digest = hashlib.blake2b(os.fsencode(roots), digest_size=8).hexdigest()
    return Path(platformdirs.user_cache_dir("tidings")) / "vault" / digest


def folder_for(vault: Vault, chosen: Path | None = None) -> Path:
    """The folder for the indices of these vaults: the one that was chosen, or else the one in the user's cache.

    Raises:
        VaultUnusable: It lies in one of the vaults.
    """
    folder = chosen or cache_folder(vault)
    if vault.holds(folder):
        raise VaultUnusable(
            f"The folder for the index, {str(folder)!r}, lies in the vault, and would be watched and indexed itself. "
            "Choose another folder."
        )
    return folder


def has_index(vault: Vault, chosen: Path | None = None) -> bool:
    """Whether there is an index of these vaults already, be it an old one."""
    return any(folder_for(vault, chosen).glob("index-*.db"))


def open_in(folder: Path) -> Opened:
    """The first index in `folder` that no other server uses, made if need be; one in memory if none can be had."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for number in range(_SLOTS):
            opened = _open_slot(folder / f"index-{number}.db")
            if opened:
                return opened
        problem = f"{_SLOTS} servers use this vault already"
    except (OSError, sqlite3.Error) as error:
        problem = str(error)
    note = f"The index is in memory and is built anew at each start: {folder} cannot be used ({problem})."
    logger.warning("%s", note)
    return open_in_memory((note,))


def open_in_memory(notes: tuple[str, ...] = ()) -> Opened:
    """An index that is gone when it is closed."""
    # Several connections share it, each with its own view, as with a file.
    address = f"file:/tidings-index-{next(_numbers)}?vfs=memdb"
    connection = connect(address)
    create(connection)
    return Opened(connection, address, None, None, notes)


def connect(address: str) -> sqlite3.Connection:
    """A connection to an index, for one thread at a time."""
    connection = sqlite3.connect(address, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False, uri=True)
    # Most notes fit twice or more into a page of this size: the file is smaller by a fifth than with the usual one.
    connection.execute(f"PRAGMA page_size = {PAGE}")
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def remove(place: Path) -> None:
    """Delete an index."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        place.with_name(place.name + suffix).unlink(missing_ok=True)


def prepare(address: str, place: Path) -> sqlite3.Connection:
    """The index in a file that this process holds the lock for; what is there but cannot be used is removed."""
    for last in (False, True):
        connection = connect(address)
        try:
            # A loss of power may take the last commits: what is left is an older state, and whole.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA secure_delete = OFF")
            connection.execute("PRAGMA journal_mode = WAL")
            prepare_tables(connection)
        except BaseException as error:
            connection.close()
            if last or not isinstance(error, sqlite3.Error) or is_busy(error):
                raise
            logger.info("the index %s is built anew: %s", place, error)
            remove(place)
        else:
            return connection
    raise AssertionError  # pragma: no cover - the second round returns or raises


def unlock(lock: int) -> None:
    """Let another server have the index."""
    os.close(lock)


def _open_slot(place: Path) -> Opened | None:
    """The index at `place`, or None if another server uses it, or another program has locked it."""
    lock = os.open(place.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    opened = None
    try:
        if _try_lock(lock):
            address = place.absolute().as_uri()
            opened = Opened(prepare(address, place), address, place, lock, ())
    except sqlite3.Error as error:
        if not is_busy(error):
            raise
    finally:
        if opened is None:
            os.close(lock)
    return opened


def _try_lock(file: int) -> bool:
    try:
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:  # pragma: no cover - of Windows
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):
        return False
    return True
