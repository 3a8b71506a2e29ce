"""What a journal keeps: the sessions in it, listed, loaded and deleted.

Each of these opens the file for itself, so that it works beside inspectors that write to it.
"""

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidings.inspector.journal_file import open_for_reading
from tidings.inspector.reading import as_dict_or_none
from tidings.inspector.records import Record

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
