"""The records of a `SqliteBus`: a table in the file of its log, which versions without records ignore.

The revision is the row id, which SQLite never gives twice (AUTOINCREMENT). It is at least the time in microseconds, so
that it does not repeat in another file that takes the place of this one either.
"""

import sqlite3
from collections.abc import Callable
from typing import Final

from tidings.bus import StoredRecord

TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS records (
        revision INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, value BLOB NOT NULL, expires REAL NOT NULL
    )""",
    "CREATE INDEX IF NOT EXISTS records_by_expiry ON records (expires)",
)

RecordWork = Callable[[sqlite3.Connection, float], StoredRecord | None]
"""Reads or writes a record, with the present time."""

_REMOVED: Final = 20  # Expired records that one write removes: more than it adds, so that they come to an end.


def read_record(connection: sqlite3.Connection, now: float, key: str) -> StoredRecord | None:
    """Returns the record, if there is one that has not expired."""
    row = connection.execute("SELECT value, revision FROM records WHERE key = ? AND expires > ?", (key, now)).fetchone()
    return StoredRecord(*row) if row else None


def write_record(
    connection: sqlite3.Connection, now: float, key: str, value: bytes, *, seconds: float, expected: int | None
) -> StoredRecord | None:
    """Writes a record, and removes some that have expired. Returns None if it does not have the expected revision."""
    row = connection.execute("SELECT revision FROM records WHERE key = ? AND expires > ?", (key, now)).fetchone()
    if expected is not None and expected != (row[0] if row else 0):
        return None
    old = "SELECT revision FROM records WHERE expires <= ? ORDER BY expires LIMIT ?"
    connection.execute(f"DELETE FROM records WHERE revision IN ({old})", (now, _REMOVED))  # noqa: S608 - no values
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'records'").fetchone()
    revision = max(row[0] + 1 if row else 1, int(now * 1_000_000))
    connection.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", (revision, key, value, now + seconds))
    return StoredRecord(value, revision)


def delete_record(connection: sqlite3.Connection, _: float, key: str) -> None:
    """Deletes the record, if there is one."""
    connection.execute("DELETE FROM records WHERE key = ?", (key,))
