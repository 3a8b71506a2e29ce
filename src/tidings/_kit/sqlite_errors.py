"""The errors of a SQLite database in words: the cause of a failure, and a sentence that names the cure."""

import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Final

from tidings._kit.files import Locked


class Trouble(Enum):
    """The causes of a failure."""

    LOCKED = auto()  # Another process uses it, and may be done in a moment
    FULL = auto()
    DISK = auto()
    MEMORY = auto()
    TOO_BIG = auto()
    INTERRUPTED = auto()
    NO_ACCESS = auto()  # The file, or a folder on the way to it, cannot be used by this user
    NOT_A_DATABASE = auto()
    DAMAGED = auto()  # It holds nonsense, or lacks tables or columns
    MISFIT = auto()  # A statement does not fit it for another reason
    OTHER_APPLICATION = auto()
    OLDER = auto()  # It was written by an older version, or by a newer one
    NEWER = auto()
    NO_SHARED_MEMORY = auto()  # Its file system cannot be shared between processes
    REPLACED = auto()  # The file is replaced again and again
    UNKNOWN = auto()


class DatabaseUnreadable(sqlite3.DatabaseError):
    """Raised by work: a row is not what this version writes. Counts as `Trouble.DAMAGED`."""


class DatabaseUnfit(sqlite3.DatabaseError):
    """The file is whole, but cannot be used as it is: for example, it belongs to another application."""

    def __init__(self, trouble: Trouble, words: str, found: int = 0) -> None:
        super().__init__(words)
        self.trouble = trouble
        self.found = found


@dataclass(frozen=True)
class Wording:
    """The words of a database's errors: "The {name} {path} {text}". `start_over` is the cure of a damaged file.

    `texts`, and those here, may hold `{error}`, `{found}` and `{known}` (versions), `{access}`, `{start_over}` and
    `{other_path}`.
    """

    name: str
    start_over: str
    other_path: str = "Choose another path."
    texts: Mapping[Trouble, str] = field(default_factory=dict[Trouble, str])


_OTHER_VERSION: Final = "was written by another version of Tidings (schema {found}, this one has {known}). {start_over}"
_TEXTS: Final[Mapping[Trouble, str]] = {
    Trouble.LOCKED: (
        "stayed locked by another process ({error}). "
        "End what keeps it locked: a database browser, a backup, a process that hangs."
    ),
    Trouble.FULL: "has no room on its disk ({error}). Free some space.",
    Trouble.DISK: "could not be read or written ({error}). Look at its disk: space, quota, file size limit, health.",
    Trouble.MEMORY: "needs more memory than there is ({error}). Keep less in it, or free some memory.",
    Trouble.TOO_BIG: "cannot hold a value of that size ({error}). Store less at once.",
    Trouble.INTERRUPTED: "was interrupted ({error}). Try again.",
    Trouble.NO_ACCESS: "cannot be used: {access}",
    Trouble.NOT_A_DATABASE: "is not a database ({error}), so it was left as it is. {other_path}",
    Trouble.DAMAGED: "is damaged ({error}). {start_over}",
    Trouble.MISFIT: "is damaged ({error}). {start_over}",
    Trouble.OTHER_APPLICATION: "is the database of another application, so it was left as it is. {other_path}",
    Trouble.OLDER: _OTHER_VERSION,
    Trouble.NEWER: _OTHER_VERSION,
    Trouble.NO_SHARED_MEMORY: (
        "is on a file system that has no shared memory, which SQLite needs to share it between processes. "
        "Put it on a local disk."
    ),
    Trouble.REPLACED: "is replaced again and again. End what deletes or overwrites it.",
    Trouble.UNKNOWN: "cannot be used ({error}). Try again, or choose another path.",
}
_CODES: Final[Mapping[Trouble, Sequence[int]]] = {
    Trouble.LOCKED: (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL),
    Trouble.FULL: (sqlite3.SQLITE_FULL,),
    Trouble.DISK: (sqlite3.SQLITE_IOERR,),
    Trouble.MEMORY: (sqlite3.SQLITE_NOMEM,),
    Trouble.TOO_BIG: (sqlite3.SQLITE_TOOBIG,),
    Trouble.INTERRUPTED: (sqlite3.SQLITE_INTERRUPT,),
    Trouble.NO_ACCESS: (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH),
    Trouble.NOT_A_DATABASE: (sqlite3.SQLITE_NOTADB,),
    Trouble.DAMAGED: (sqlite3.SQLITE_CORRUPT,),
    Trouble.MISFIT: (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA),
}
_CAUSES: Final = {code: trouble for trouble, codes in _CODES.items() for code in codes}
_DAMAGES: Final = ("no such table", "no such column", "has no column named", "Could not decode")
SQLITE_ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)
"""The second is Python's, for SQLite's words about a damaged file: they quote it, and may not be UTF-8."""


def trouble_of(error: Exception) -> Trouble:
    """Returns the cause of an error of SQLite, or of the system while a database was used."""
    if isinstance(error, Locked):
        return Trouble.LOCKED
    if isinstance(error, OSError):
        return Trouble.NO_ACCESS
    if isinstance(error, DatabaseUnfit):
        return error.trouble
    is_unreadable = isinstance(error, DatabaseUnreadable | UnicodeDecodeError)
    if is_unreadable or any(words in str(error) for words in _DAMAGES):
        return Trouble.DAMAGED
    # The lower byte is the cause; what is above it are finer kinds of the same.
    return _CAUSES.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, Trouble.UNKNOWN)


def explain(error: Exception, path: Path | None, version: int, wording: Wording) -> tuple[Trouble, str]:
    """Returns the cause of an error, and the sentence about it. `version` is that of the schema that is known here."""
    trouble = trouble_of(error)
    text = {**_TEXTS, **wording.texts}[trouble].format(
        error=error,
        found=getattr(error, "found", 0),
        known=version,
        access="" if path is None else no_access(error, path),
        start_over=wording.start_over,
        other_path=wording.other_path,
    )
    return trouble, f"The {wording.name} {'in memory' if path is None else path} {text}".rstrip()


def no_access(error: Exception, path: Path) -> str:
    """Returns what stands in the way of a file, as far as the file system tells, and what to do about it."""
    with suppress(OSError):
        folder = path.parent
        if not folder.exists():
            return f"there is no folder {folder}. Create it."
        if not folder.is_dir():
            return f"{folder} is not a folder. Choose another path."
        if path.is_dir():
            return "it is a folder. Name a file in it."
        if path.exists() and not os.access(path, os.R_OK | os.W_OK):
            return "this user may not read and write it. Change its permissions, or choose another path."
        if not os.access(folder, os.W_OK | os.X_OK):
            return f"this user may not write in {folder}, where SQLite keeps two more files. Change its permissions."
    return f"{error}. Look at its permissions, and at those of the folders above it."
