"""What is wrong with the store's file, in words that name the cause and the cure.

May import: `model`.
"""

import sqlite3
from pathlib import Path
from typing import Final

from tidings.access import no_access
from tidings.web.store.model import StoreError

_LOCKED: Final = (
    "stayed locked by another process ({error}). "
    "End what keeps it locked: a database browser, a backup, a process that hangs."
)
_CAUSES: Final[dict[int, str]] = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_PROTOCOL: _LOCKED,
    sqlite3.SQLITE_FULL: "has no room on its disk ({error}). Free some space.",
    sqlite3.SQLITE_IOERR: (
        "could not be read or written ({error}). Look at its disk: space, quota, file size limit, health."
    ),
    sqlite3.SQLITE_NOMEM: "needs more memory than there is ({error}). Keep less in it, or free some.",
    sqlite3.SQLITE_TOOBIG: "cannot hold a text or picture of that size ({error}). Fetch less of the page.",
    sqlite3.SQLITE_NOTADB: "is not a database ({error}), so it was left as it is. Choose another path, or delete it.",
}
_NO_ACCESS: Final = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class Unreadable(sqlite3.DatabaseError):
    """What the file holds is not what a store of this version writes."""


def cause(error: Exception) -> int:
    """SQLite's code for it; 0 where there is none."""
    # The lower byte is the cause; what is above it are finer kinds of the same.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file holds nonsense."""
    missing = "no such table" in str(error) or "no such column" in str(error)
    return cause(error) in _DAMAGED or missing or isinstance(error, Unreadable)


def explain(error: sqlite3.Error | OSError, path: Path | None) -> StoreError:
    """The error to raise in place of `error`, which came of using the file at `path`; None: it is in memory."""
    if path is None:
        return StoreError(f"The store in memory {_what(error)}")
    if isinstance(error, OSError) or cause(error) in _NO_ACCESS:
        return StoreError(f"The store {path} cannot be used: {no_access(error, path)}")
    return StoreError(f"The store {path} {_what(error)}")


def other_application(path: Path) -> StoreError:
    """It is not ours."""
    return StoreError(f"{path} is the database of something else, so it was left as it is. Choose another path.")


def newer_schema(path: Path, found: int, ours: int) -> StoreError:
    """It is of a version that is yet to come."""
    return StoreError(
        f"The store {path} was written by a newer version of Tidings (schema {found}, this one has {ours}). "
        "Update this one, or choose another path."
    )


def no_wal(path: Path) -> StoreError:
    """Processes cannot share it."""
    return StoreError(
        f"The file system of {path} has no shared memory, which SQLite needs for a store. Put it on a local disk."
    )


def _what(error: Exception) -> str:
    return _CAUSES.get(cause(error), "cannot be used ({error}). Try again, or choose another path.").format(error=error)
