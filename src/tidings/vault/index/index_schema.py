"""The shape of the index, and how a database of it is opened, created and recognised.

A file of the vault is a row of `files`; what was found in it are rows that name it by its `id` in the column `file`,
numbered by `n` in the order in which they stand in the file. `fts` holds what can be searched, under the same id: the
`title` and, as `body`, the whole text. Where a link leads is not stored: that depends on which other files there are,
and is found when it is asked for, over `files.name` and `links.name`.

`tag_counts` is what the other tables say of tags, kept so that nobody has to count: one row for each tag and for each
tag that others are nested in.

The names in `name`, `key` columns are made by `paths.key`. The index holds nothing that is not in the vault too, so
one of another version is not converted but built anew.

May import: nothing of Tidings.
"""

import sqlite3
from typing import Final

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
