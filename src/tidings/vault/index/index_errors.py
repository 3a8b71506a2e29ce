"""What went wrong with the index, in words that name the cause and the cure.

May import: nothing of Tidings.
"""

import sqlite3
from pathlib import Path
from typing import Final


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
