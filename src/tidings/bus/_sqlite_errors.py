"""What went wrong with the file of a `SqliteBus`, in words that name the cause and the cure.

May import: `access`, `errors`.
"""

import sqlite3
from pathlib import Path

from tidings.access import no_access
from tidings.errors import BusMismatch, BusUnavailable

_START_AFRESH = (
    "It only holds recent changes: stop what uses it and delete it with its -wal and -shm files, "
    "or give this bus another path."
)
_LOCKED = (
    "stayed locked by another process ({error}). "
    "End what keeps it locked: a database browser, a backup, a process that hangs."
)
_DAMAGED = "is damaged ({error}). " + _START_AFRESH
_NO_ACCESS = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_CAUSES: dict[int | None, tuple[type[BusUnavailable | BusMismatch], str]] = {
    sqlite3.SQLITE_BUSY: (BusUnavailable, _LOCKED),
    sqlite3.SQLITE_LOCKED: (BusUnavailable, _LOCKED),
    sqlite3.SQLITE_PROTOCOL: (BusUnavailable, _LOCKED),
    sqlite3.SQLITE_FULL: (BusUnavailable, "has no room on its disk ({error}). Free some space."),
    sqlite3.SQLITE_IOERR: (
        BusUnavailable,
        "could not be read or written ({error}). Look at its disk: space, quota, file size limit, health.",
    ),
    sqlite3.SQLITE_NOTADB: (
        BusMismatch,
        "is not a database ({error}), so it was left as it is. Give this bus another path.",
    ),
    sqlite3.SQLITE_CORRUPT: (BusMismatch, _DAMAGED),
    sqlite3.SQLITE_ERROR: (BusMismatch, _DAMAGED),
    sqlite3.SQLITE_SCHEMA: (BusMismatch, _DAMAGED),
    None: (BusMismatch, _DAMAGED),
}


def explain(error: sqlite3.Error | OSError, path: Path) -> BusUnavailable | BusMismatch:
    """The error to raise in place of `error`, which came of using the file at `path`."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    # The lower byte is the cause; what is above it are finer kinds of the same.
    primary = None if code is None else code & 0xFF
    if isinstance(error, OSError) or primary in _NO_ACCESS:
        return BusUnavailable(f"The bus file {path} cannot be used: {no_access(error, path)}")
    kind, cause = _CAUSES.get(primary, (BusUnavailable, "cannot be used ({error})."))
    return kind(f"The bus file {path} {cause.format(error=error)}")


def other_application(path: Path) -> BusMismatch:
    return BusMismatch(f"{path} is the database of another application, so it was left as it is. Use another path.")


def other_schema(path: Path, found: int, ours: int) -> BusMismatch:
    return BusMismatch(
        f"The bus file {path} was written by another version of Tidings (schema {found}, this one has {ours}). "
        f"Let all processes use the same version. {_START_AFRESH}"
    )


def unknown_change(path: Path, error: ValueError) -> BusMismatch:
    return BusMismatch(
        f"The bus file {path} holds what this version of Tidings does not know: {error}. {_START_AFRESH}"
    )


def no_wal(path: Path) -> BusMismatch:
    return BusMismatch(
        f"The file system of {path} has no shared memory, which several processes need to share the bus. "
        "Put the file on a local disk, or use a bus with a broker."
    )


def always_replaced(path: Path) -> BusUnavailable:
    return BusUnavailable(f"The bus file {path} is replaced again and again. End what deletes or overwrites it.")
