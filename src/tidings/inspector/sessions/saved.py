"""The file of a journal: where it is, how it is opened, and what is done with one that cannot be used.

One SQLite file holds many sessions; several inspectors write to it at once, each its own session. It is for its owner's
eyes only: the folder has mode 0700, the file 0600.

What a journal keeps: the sessions in it, listed, loaded and deleted.

Each of these opens the file for itself, so that it works beside inspectors that write to it.
"""

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidings._kit.bounded_json import as_dict_or_none
from tidings.inspector.records import Record

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


_THINNED: Final = ("message", "exchange", "log", "notification", "stderr", "garbage", "answer-time", "progress")


@dataclass(frozen=True, slots=True)
class SavedSession:
    """A session in a journal."""

    id: int
    title: str | None
    began: float
    last: float
    """When its last record was made."""
    ended: float | None
    """None: it still runs, or its inspector was killed; see `running`."""
    running: bool
    records: int
    bytes: int
    servers: tuple[str, ...]


def list_sessions(path: Path) -> list[SavedSession]:
    """The sessions in this file, the newest first. None if there is no file.

    Raises:
        Unusable: It is no journal, or damaged.
    """
    if not path.is_file():
        return []
    with contextlib.closing(open_for_reading(path)) as connection:
        servers: dict[int, dict[str, None]] = {}
        for session, server in connection.execute("SELECT session, server FROM records WHERE kind = 'server'"):
            servers.setdefault(session, {})[server] = None
        rows = connection.execute(
            "SELECT id, title, began, last, ended, pid, records, bytes FROM sessions ORDER BY began DESC, id DESC"
        )
        return [
            SavedSession(
                known,
                title,
                began,
                last,
                ended,
                ended is None and _is_alive(pid),
                records,
                size,
                tuple(servers.get(known, ())),
            )
            for known, title, began, last, ended, pid, records, size in rows
        ]


def load_session(path: Path, session: int) -> list[Record]:
    """The records of a session, in order. One that cannot be read is a `missed` one.

    Raises:
        LookupError: There is no such session.
        Unusable: It is no journal, or damaged.
    """
    return list(read_session(path, session))


def read_session(path: Path, session: int) -> Iterator[Record]:
    """Like `load_session`, one record at a time."""
    with contextlib.closing(open_for_reading(path)) as connection:
        if connection.execute("SELECT 1 FROM sessions WHERE id = ?", (session,)).fetchone() is None:
            raise LookupError(f"There is no session {session} in {path}.")
        rows = connection.execute(
            "SELECT seq, at, server, kind, data FROM records WHERE session = ? ORDER BY seq", (session,)
        )
        for seq, at, server, kind, text in rows:
            data = _read(text)
            yield (
                Record(seq, at, server, "missed", {"count": 1}) if data is None else Record(seq, at, server, kind, data)
            )


def _read(text: Any) -> dict[str, Any] | None:
    try:
        return as_dict_or_none(json.loads(text))
    except (TypeError, ValueError, RecursionError):
        return None


def delete_session(path: Path, session: int) -> None:
    """Delete a session.

    Raises:
        LookupError: There is none, or it still runs.
        Unusable: It is no journal, or damaged.
    """
    with contextlib.closing(open_for_reading(path)) as connection, connection:
        row = connection.execute("SELECT ended, pid FROM sessions WHERE id = ?", (session,)).fetchone()
        if row is None:
            raise LookupError(f"There is no session {session} in {path}.")
        if row[0] is None and _is_alive(row[1]):
            raise LookupError(f"Session {session} still runs (process {row[1]}). End it first.")
        _delete(connection, [session])
    with contextlib.closing(open_for_reading(path)) as connection:
        connection.execute("PRAGMA incremental_vacuum")


def rename_session(path: Path, session: int, title: str) -> None:
    """Give a session a name, for people.

    Raises:
        LookupError: There is no such session.
        Unusable: It is no journal, or damaged.
    """
    with contextlib.closing(open_for_reading(path)) as connection, connection:
        if not connection.execute("UPDATE sessions SET title = ? WHERE id = ?", (title, session)).rowcount:
            raise LookupError(f"There is no session {session} in {path}.")


def prune(connection: sqlite3.Connection, *, now: float, days: float, most: int, most_bytes: int) -> None:
    """Delete what is too old, and the oldest of what is too much. What still runs stays."""
    rows = connection.execute(
        "SELECT id, last, ended, pid, bytes FROM sessions ORDER BY began DESC, id DESC"
    ).fetchall()
    gone: list[int] = []
    number = size = 0
    for known, last, ended, pid, weight in rows:
        number, size = number + 1, size + weight
        # One that was imported is as old as its import, not as what happened in it.
        too_much = number >= most or size > most_bytes or max(last, ended or 0.0) < now - days * 86400
        if too_much and not (ended is None and _is_alive(pid)):
            gone.append(known)
    if gone:
        _delete(connection, gone)
        connection.commit()
        connection.execute("PRAGMA incremental_vacuum")


def thin(connection: sqlite3.Connection, session: int, most_bytes: int) -> int:
    """Delete the oldest of what a session has much of, until the rest takes no more than this. What is left."""
    kinds = ",".join("?" * len(_THINNED))
    total: int = connection.execute("SELECT sum(length(data)) FROM records WHERE session = ?", (session,)).fetchone()[0]
    over, last = total - most_bytes, None
    rows = connection.execute(
        f"SELECT seq, length(data) FROM records WHERE session = ? AND kind IN ({kinds}) ORDER BY seq",  # noqa: S608
        (session, *_THINNED),
    )
    for seq, weight in rows:
        if over <= 0:
            break
        over, total, last = over - weight, total - weight, seq
    rows.close()
    if last is not None:
        connection.execute(
            f"DELETE FROM records WHERE session = ? AND seq <= ? AND kind IN ({kinds})",  # noqa: S608
            (session, last, *_THINNED),
        )
        connection.execute("UPDATE sessions SET bytes = ? WHERE id = ?", (total, session))
    return total


def _delete(connection: sqlite3.Connection, sessions: list[int]) -> None:
    for known in sessions:
        connection.execute("DELETE FROM records WHERE session = ?", (known,))
        connection.execute("DELETE FROM sessions WHERE id = ?", (known,))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
