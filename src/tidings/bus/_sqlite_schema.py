"""The shape of the file behind a `SqliteBus`, and how one is opened, created and recognised.

`log` has one row: the state. `changes` has a row for each distinct change, the newest; its version is the row's own
number, so that "all after this version" is one walk along the table.

The epoch is made with the file. It is made anew when commits may have been lost unnoticed: without `durable`, the
last ones are not yet on the disk when the machine loses power, so a file that was written to under another boot of
the machine starts a new epoch.

May import: `changes`, `errors`.
"""

import secrets
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from tidings.bus import _sqlite_errors as errors
from tidings.changes import Cursor

APPLICATION_ID: Final = 0x54494447
"""Marks a database as a bus of Tidings ("TIDG")."""

SCHEMA_VERSION: Final = 1

_TABLES: Final = (
    """CREATE TABLE log (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        epoch TEXT NOT NULL,
        version INTEGER NOT NULL,  -- of the newest change ever stored
        floor INTEGER NOT NULL,    -- the highest version that was trimmed
        entries INTEGER NOT NULL,  -- rows in changes
        boot TEXT NOT NULL         -- the boot during which it was last used without syncing each commit, or ''
    )""",
    "CREATE TABLE changes (version INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, at REAL NOT NULL)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)


class State(NamedTuple):
    """The row of `log`."""

    epoch: str
    version: int
    floor: int
    entries: int

    @property
    def head(self) -> Cursor:
        return Cursor(self.epoch, self.version)

    def is_behind(self, cursor: Cursor) -> bool:
        """Whether `cursor` was given by this log, but by a later state of it."""
        return cursor.epoch == self.epoch and cursor.version > self.version


def read_state(connection: sqlite3.Connection) -> State:
    row = connection.execute("SELECT epoch, version, floor, entries FROM log").fetchone()
    if row is None:
        raise sqlite3.DatabaseError("the row of its state is gone")
    return State(*row)


def begin_epoch(connection: sqlite3.Connection) -> State:
    """Forget everything, under a new name. Within a transaction."""
    connection.execute("DELETE FROM changes")
    connection.execute("UPDATE log SET epoch = ?, floor = version, entries = 0", (_new_epoch(),))
    return read_state(connection)


def prepare(path: Path, *, durable: bool, timeout: float) -> sqlite3.Connection:
    """A connection to the log at `path`, which is created if there is none; `timeout` is how long a lock may last."""
    deadline = time.monotonic() + timeout
    while True:
        connection = sqlite3.connect(path, timeout=timeout, isolation_level=None)
        try:
            _prepare(connection, path, durable=durable)
        except BaseException as error:
            connection.close()
            # SQLite waits for most locks by itself, but not for the one it needs to switch to WAL.
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
        else:
            return connection


def _prepare(connection: sqlite3.Connection, path: Path, *, durable: bool) -> None:
    boot = boot_id()
    # Where nothing tells one boot from the next, only syncing each commit is safe.
    synced = durable or not boot
    connection.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
    connection.execute(f"PRAGMA fullfsync = {int(synced)}")
    # Whoever appends does it: see there.
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    # In one transaction: another process may be creating it between one look and the next.
    connection.execute("BEGIN")
    ours = _is_ours(connection, path)
    connection.execute("COMMIT")
    if not ours:
        _create(connection, path)
    if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
        raise errors.no_wal(path)
    _claim(connection, boot, synced=synced)


def _is_ours(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is a log; False if it is empty. Anything else is refused."""
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
            Path(f"{path.resolve()}-shm").unlink(missing_ok=True)
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute("INSERT INTO log VALUES (1, ?, 0, 0, 0, '')", (_new_epoch(),))
    connection.execute("COMMIT")


def _claim(connection: sqlite3.Connection, boot: str, *, synced: bool) -> None:
    """Begin a new epoch if commits may have been lost, and note under which boot they may be lost from now on."""
    # A write lock even where nothing is written: a file that this process may only read fails here, and not later.
    connection.execute("BEGIN IMMEDIATE")
    row = connection.execute("SELECT boot FROM log").fetchone()
    noted = row[0] if row else ""
    if noted and noted != boot:
        begin_epoch(connection)
        noted = ""
    connection.execute("UPDATE log SET boot = ? WHERE boot <> ?", (noted if synced else boot,) * 2)
    connection.execute("COMMIT")


def boot_id() -> str:
    """A text that differs from one start of this machine to the next, or '' where the system has none."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _new_epoch() -> str:
    return secrets.token_hex(6)


def _is_busy(error: BaseException) -> bool:
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
