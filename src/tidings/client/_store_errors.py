"""What is wrong with the file of a `StateFile`, in words that name the cause and the cure.

May import: `access`, `errors`.
"""

import sqlite3
from pathlib import Path
from typing import Final

from tidings.access import no_access
from tidings.errors import StateUnusable

_START_AFRESH: Final = (
    "It only saves time: delete it with its -wal and -shm files while nothing uses it, or choose another path."
)
_LOCKED: Final = (
    "stayed locked by another process ({error}). "
    "End what keeps it locked: a database browser, a backup, a process that hangs."
)
_DAMAGED: Final = "is damaged ({error}). " + _START_AFRESH
_NO_ACCESS: Final = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_CAUSES: Final[dict[int | None, str]] = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_PROTOCOL: _LOCKED,
    sqlite3.SQLITE_FULL: "has no room on its disk ({error}). Free some space.",
    sqlite3.SQLITE_IOERR: (
        "could not be read or written ({error}). Look at its disk: space, quota, file size limit, health."
    ),
    sqlite3.SQLITE_NOTADB: "is not a database ({error}), so it was left as it is. Choose another path.",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_ERROR: _DAMAGED,
    sqlite3.SQLITE_SCHEMA: _DAMAGED,
    None: _DAMAGED,
}


def explain(error: sqlite3.Error | OSError, path: Path) -> StateUnusable:
    """The error to raise in place of `error`, which came of using the file at `path`."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    # The lower byte is the cause; what is above it are finer kinds of the same.
    primary = None if code is None else code & 0xFF
    if isinstance(error, OSError) or primary in _NO_ACCESS:
        return StateUnusable(f"The state file {path} cannot be used: {no_access(error, path)}")
    return StateUnusable(
        f"The state file {path} {_CAUSES.get(primary, 'cannot be used ({error}).').format(error=error)}"
    )


def other_application(path: Path) -> StateUnusable:
    return StateUnusable(f"{path} is the database of something else, so it was left as it is. Choose another path.")


def other_schema(path: Path, found: int, ours: int) -> StateUnusable:
    return StateUnusable(
        f"The state file {path} was written by another version of Tidings (schema {found}, this one has {ours}). "
        + _START_AFRESH
    )


def no_wal(path: Path) -> StateUnusable:
    return StateUnusable(
        f"The file system of {path} has no shared memory, which SQLite needs for a state file. Put it on a local disk."
    )
