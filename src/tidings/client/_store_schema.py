"""The shape of the file behind a `StateFile`, and how one is opened, created and recognised.

Each identity has a row in `states`, its `subscriptions`, and its `entries`: one for each kind and key, in the order in
which they were put. `covered` marks the entries that some process keeps current by a subscription, and names that
process; it stands apart, so that a mark can change without its content being written again.

May import: `errors`.
"""

import os
import sqlite3
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from tidings.client import _store_errors as errors

APPLICATION_ID: Final = 0x54494453
"""Marks a database as a state of Tidings ("TIDS")."""

SCHEMA_VERSION: Final = 1

_TABLES: Final = (
    """CREATE TABLE states (
        identity TEXT PRIMARY KEY,
        writer TEXT NOT NULL,  -- whose cursor and subscriptions these are: the last who wrote
        cursor TEXT
    ) WITHOUT ROWID""",
    "CREATE TABLE subscriptions (identity TEXT, uri TEXT, PRIMARY KEY (identity, uri)) WITHOUT ROWID",
    """CREATE TABLE entries (
        id INTEGER PRIMARY KEY,
        identity TEXT NOT NULL,
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        content TEXT NOT NULL,
        UNIQUE (identity, kind, key)
    )""",
    """CREATE TABLE covered (
        identity TEXT,
        kind TEXT,
        key TEXT,
        writer TEXT NOT NULL,  -- who keeps it current; the mark means nothing under the cursor of another
        PRIMARY KEY (identity, kind, key)
    ) WITHOUT ROWID""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)

_opening = threading.Lock()
"""Closing any descriptor of a file drops all locks of its process on it: nobody opens a file while one creates it."""


def prepare(path: Path, *, timeout: float) -> sqlite3.Connection:
    """A connection to the state at `path`, which is created if there is none; `timeout` is how long a lock may last."""
    deadline = time.monotonic() + timeout
    while True:
        connection = _connect(path, timeout)
        try:
            _prepare(connection, path)
        except BaseException as error:
            connection.close()
            # SQLite waits for most locks by itself, but not for the one it needs to switch to WAL.
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
        else:
            return connection


def _connect(path: Path, timeout: float) -> sqlite3.Connection:
    with _opening:
        # SQLite would let others read what it creates. Its two other files take over the mode of this one.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return sqlite3.connect(path, timeout=timeout, isolation_level=None)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    # A loss of power may take the last commits: what is left is an older state, and whole.
    connection.execute("PRAGMA synchronous = NORMAL")
    # Whoever writes does it: see there.
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    # In one transaction: another process may be creating it between one look and the next.
    connection.execute("BEGIN")
    ours = _is_ours(connection, path)
    connection.execute("COMMIT")
    if not ours:
        _create(connection, path)
    if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
        raise errors.no_wal(path)


def _is_ours(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is a state; False if it is empty. Anything else is refused."""
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    schema: int = connection.execute("PRAGMA user_version").fetchone()[0]
    tables: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application == APPLICATION_ID:
        if schema != SCHEMA_VERSION:
            raise errors.other_schema(path, schema, SCHEMA_VERSION)
        return True
    if application or schema or tables:
        raise errors.other_application(path)
    return False


def _create(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN EXCLUSIVE")
    # Another process may have been faster.
    if not _is_ours(connection, path):
        # When only the main file was deleted, its shared memory is still there, and in use by processes that have
        # not noticed yet. This new file never was in WAL mode and is locked, so nobody needs it for this one.
        # (The old -wal file is deleted by SQLite itself.)
        if connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete":
            Path(f"{path}-shm").unlink(missing_ok=True)
        for statement in _TABLES:
            connection.execute(statement)
    connection.execute("COMMIT")


def _is_busy(error: BaseException) -> bool:
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
