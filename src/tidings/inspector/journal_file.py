"""The file of a journal: where it is, how it is opened, and what is done with one that cannot be used.

One SQLite file holds many sessions; several inspectors write to it at once, each its own session. It is for its owner's
eyes only: the folder has mode 0700, the file 0600.
"""

import contextlib
import os
import sqlite3
import time
from pathlib import Path
from typing import Final

VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    title TEXT,
    began REAL NOT NULL,
    last REAL NOT NULL,
    ended REAL,
    pid INTEGER NOT NULL,
    records INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS records (
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at REAL NOT NULL,
    server TEXT NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;
"""


_PASSING: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_NOMEM,
    }
)
"""What says nothing about the file itself."""


class Unusable(Exception):
    """This file cannot be used as a journal, and why."""


class NotNow(Unusable):
    """It may well be a journal, but cannot be written: the disk is full, or somebody else is busy with it."""


class Newer(Unusable):
    """It was written by a later version."""


def default_path() -> Path:
    """Where sessions are kept, if nobody says otherwise: in the user's folder for state."""
    try:
        import platformdirs  # noqa: PLC0415 - comes with the inspector; other commands do without
    except ImportError:
        folder = Path.home() / ".local" / "state" / "tidings"
    else:
        folder = platformdirs.user_state_path("tidings", appauthor=False)
    return folder / "inspector" / "sessions.db"


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open the file, and make it first if there is none.

    Raises:
        Newer: It was written by a later version.
        NotNow: It cannot be written.
        Unusable: It is no journal, or is damaged.
    """
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Made here, so that it is never readable to others, not even for a moment. SQLite's files beside it follow it.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise NotNow(f"{error.strerror or error}") from None
    connection = _connect(path)
    try:
        _check(connection)  # First: a file of somebody else's is left as it is.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        # With WAL, a process that is killed loses nothing that was committed; only a machine's power cut may.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript(_SCHEMA)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.commit()
    except sqlite3.Error as error:
        connection.close()
        raise _reason(error) from None
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open a file that is there, to read it or to delete from it.

    Raises:
        Newer: It was written by a later version.
        Unusable: There is none, it is no journal, or it is damaged.
    """
    if not path.is_file():
        raise Unusable("there is no such file")
    connection = _connect(path)
    try:
        _check(connection)
        connection.execute("SELECT id FROM sessions LIMIT 1")
    except sqlite3.Error as error:
        connection.close()
        raise Unusable(str(error)) from None
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(path: Path) -> sqlite3.Connection:
    try:
        return sqlite3.connect(path, timeout=10, check_same_thread=False)
    except sqlite3.Error as error:
        raise _reason(error) from None


def _reason(error: sqlite3.Error) -> Unusable:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return NotNow(str(error)) if code in _PASSING else Unusable(str(error))


def _check(connection: sqlite3.Connection) -> None:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise Newer(f"it was written by a later version of Tidings (format {version}; this one knows {VERSION})")
    if version == 0 and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise Unusable("it is a database of something else")


def beside(path: Path) -> Path:
    """Where to write instead, if a later version has its own file here."""
    return path.with_name(f"{path.stem}.v{VERSION}{path.suffix}")


def set_aside(path: Path) -> Path:
    """Give a file that cannot be used another name, with what SQLite keeps beside it. The new name."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    new = path.with_name(f"{path.name}.broken-{stamp}")
    number = 1
    while new.exists():
        number += 1
        new = path.with_name(f"{path.name}.broken-{stamp}-{number}")
    path.rename(new)
    for end in ("-wal", "-shm"):
        with contextlib.suppress(OSError):
            path.with_name(path.name + end).rename(new.with_name(new.name + end))
    return new
