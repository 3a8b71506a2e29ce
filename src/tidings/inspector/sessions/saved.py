"""The journal's file, and the sessions in it: listed, loaded, renamed, deleted, exported and imported.

One SQLite file holds many sessions; several inspectors write to it at once, each its own session. Only its owner can
read it: the folder has mode 0700, the file 0600. Each function opens the file for itself.

A row of `records` is one record as JSON, or a batch of one server's records, compressed. Successive batches are one
stream of zlib: a row of kind `batch` begins a stream, one of kind `more` continues it.

An exported session is JSON Lines: a header, `{"tidings": "session", "version": 1, "servers": […], "exported_at": …}`,
and a record in each other line (`Record.to_line`). A line that is not a record is skipped and reported.
"""

import json
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from tidings._kit.bounded_json import as_dict, as_int, dumps
from tidings._kit.sqlite import Database, OnDamage, Schema, statements_in
from tidings._kit.sqlite_errors import Trouble, Wording
from tidings.inspector.records import Record
from tidings.inspector.view.view import Clock

VERSION: Final = 2  # Version 1 knows rows of one record only.
_SCHEMA: Final = Schema(
    application_id=None,
    version=VERSION,
    tables=statements_in(Path(__file__).with_name("schema.sql")),
    checked=("sessions",),
    pragmas=("PRAGMA auto_vacuum = INCREMENTAL",),
    upgrades={1: ()},
)
_WORDING: Final = Wording(
    "journal",
    start_over="Move it away.",
    texts={
        Trouble.NOT_A_DATABASE: "is not a database ({error}).",
        Trouble.DAMAGED: "is damaged ({error}).",
        Trouble.MISFIT: "is damaged ({error}).",
        Trouble.OTHER_APPLICATION: "is the database of another application.",
        Trouble.NEWER: "was written by a later version of Tidings (format {found}; this one knows {known}).",
    },
)
_TIMEOUT: Final = 10.0  # Seconds that another process may keep the file locked.
_STREAM_BYTES: Final = 2**20  # A stream is read from its beginning, and lost from where it is damaged.
_LEVEL: Final = 4  # Of compression: higher ones take longer than the rest of the writing.
_COUNT: Final = 4  # Bytes before a batch: the number of its records.
# The kinds of records that a session has many of, and that can be missing.
_FLOODS: Final = frozenset({"message", "exchange", "log", "notification", "stderr", "garbage", "answer-time"})
_THINNED: Final = _FLOODS | {"progress", "task", "change", "request"}


@dataclass(frozen=True, slots=True)
class JournalLimits:
    """Limits of a journal. Running sessions are never deleted."""

    days: float = 30.0  #: Sessions that ended longer ago are deleted.
    sessions: int = 200
    bytes: int = 2**28  #: The maximum for all sessions together, as stored. The oldest are deleted.
    session_bytes: int = 2**26
    """The maximum for one session, as stored (compressed). Beyond it, the oldest messages, exchanges, requests,
    changes, log messages, lines and replaced contents are deleted."""


class JournalUnusable(Exception):
    """The file cannot be used as a journal. The message says why."""

    def __init__(self, trouble: Trouble, text: str) -> None:
        super().__init__(text)
        self.trouble = trouble


def default_path() -> Path:
    """Returns the path of the journal in the user's folder for state."""
    try:
        import platformdirs  # noqa: PLC0415 - comes with the inspector; other commands work without it
    except ImportError:
        folder = Path.home() / ".local" / "state" / "tidings"
    else:
        folder = platformdirs.user_state_path("tidings", appauthor=False)
    return folder / "inspector" / "sessions.db"


def open_journal(path: Path, on_set_aside: Callable[[Path, Path, Exception], object]) -> Database:
    """Opens a journal to write to it, and creates it if there is none. Raises `JournalUnusable`.

    A file that is damaged, or none, is set aside, now or later: `on_set_aside` gets its path, the new one, and why.
    """
    database = _database(path, on_damage=OnDamage.SET_ASIDE, aside=_aside, on_set_aside=on_set_aside)
    foreign = Trouble.NOT_A_DATABASE, Trouble.DAMAGED, Trouble.MISFIT, Trouble.OTHER_APPLICATION
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            database.open()
        except JournalUnusable as reason:
            if reason.trouble not in foreign:
                raise
            # The path is for journals: even a file that does not say that it is one is moved away.
            database.set_aside(reason)
            database.open()
    except OSError as error:
        raise database.explained(error) from None
    return database


def _aside(path: Path) -> Path:
    name = f"{path.name}.broken-{time.strftime('%Y%m%d-%H%M%S')}"
    names = (path.with_name(name if number == 1 else f"{name}-{number}") for number in count(1))
    return next(each for each in names if not each.exists())


def existing_journal(path: Path) -> Database:
    """Returns a journal that exists, to read it or to delete from it. Its use raises `JournalUnusable`."""
    if not path.is_file():
        raise JournalUnusable(Trouble.NO_ACCESS, f"The journal {path} cannot be used: there is no such file.")
    return _database(path, create=False)


def _database(path: Path, **options: Any) -> Database:
    return Database(path, _SCHEMA, wording=_WORDING, error=JournalUnusable, timeout=_TIMEOUT, **options)


@dataclass(frozen=True, slots=True)
class SavedSession:
    """A session in a journal."""

    id: int
    title: str | None
    began: float
    last: float  # The time of its last record.
    ended: float | None  # None while it runs, or if its inspector was killed: see `running`.
    running: bool
    records: int
    bytes: int
    servers: tuple[str, ...]


def list_sessions(path: Path) -> list[SavedSession]:
    """Returns the sessions in a file, the newest first; none if there is no file. Raises `JournalUnusable`."""
    if not path.is_file():
        return []

    def found(connection: sqlite3.Connection) -> list[SavedSession]:
        servers: dict[int, dict[str, None]] = {}
        for session, server in connection.execute("SELECT DISTINCT session, server FROM records"):
            servers.setdefault(session, {})[server] = None
        columns = "id, title, began, last, ended, pid, records, bytes"
        rows = connection.execute(f"SELECT {columns} FROM sessions ORDER BY began DESC, id DESC")  # noqa: S608
        made: list[SavedSession] = []
        for known, title, began, last, ended, pid, records, size in rows:
            running, names = _is_running(ended, pid), tuple(servers.get(known, ()))
            made.append(SavedSession(known, title, began, last, ended, running, records, size, names))
        return made

    with closing(existing_journal(path)) as database:
        return database.read(found)


def load_session(path: Path, session: int) -> list[Record]:
    """Returns a session's records; unreadable ones as `missed`. Raises `LookupError` or `JournalUnusable`."""
    return list(read_session(path, session))


def read_session(path: Path, session: int) -> Iterator[Record]:
    """Like `load_session`, one record at a time."""
    database = existing_journal(path)
    database.open()
    with closing(database), closing(database.reader()) as connection:
        try:
            if connection.execute("SELECT 1 FROM sessions WHERE id = ?", (session,)).fetchone() is None:
                raise LookupError(f"There is no session {session} in {path}.")
            select = "SELECT seq, at, server, kind, data FROM records WHERE session = ? ORDER BY seq"
            yield from _unpacked(connection.execute(select, (session,)))
        except sqlite3.Error as error:
            raise database.explained(error) from error


def delete_session(path: Path, session: int) -> None:
    """Deletes a session. Raises `LookupError` if there is none or it is still running, or `JournalUnusable`."""

    def delete(connection: sqlite3.Connection) -> None:
        row = connection.execute("SELECT ended, pid FROM sessions WHERE id = ?", (session,)).fetchone()
        if row is None:
            raise LookupError(f"There is no session {session} in {path}.")
        if _is_running(*row):
            raise LookupError(f"Session {session} is still running (process {row[1]}). End it first.")
        _delete(connection, session)

    with closing(existing_journal(path)) as database:
        database.write(delete)
        database.free()


def rename_session(path: Path, session: int, title: str) -> None:
    """Gives a session a title. Raises `LookupError` if there is none, or `JournalUnusable`."""

    def rename(connection: sqlite3.Connection) -> None:
        if not connection.execute("UPDATE sessions SET title = ? WHERE id = ?", (title, session)).rowcount:
            raise LookupError(f"There is no session {session} in {path}.")

    with closing(existing_journal(path)) as database:
        database.write(rename)


def prune(connection: sqlite3.Connection, now: float, limits: JournalLimits) -> None:
    """Deletes sessions that are too old, and the oldest of those that are too many or too large. Not running ones."""
    select = "SELECT id, last, ended, pid, bytes FROM sessions ORDER BY began DESC, id DESC"
    size = 0
    for number, (known, last, ended, pid, weight) in enumerate(connection.execute(select).fetchall(), 1):
        size += weight
        # An imported session is as old as its import.
        too_old = max(last, ended or 0.0) < now - limits.days * 86400
        if (too_old or number >= limits.sessions or size > limits.bytes) and not _is_running(ended, pid):
            _delete(connection, known)


def thin(connection: sqlite3.Connection, session: int, most_bytes: int) -> int:
    """Deletes the oldest records of the kinds that a session has many of, until it fits. Returns its size."""
    total: int = connection.execute("SELECT sum(length(data)) FROM records WHERE session = ?", (session,)).fetchone()[0]
    sizes = "SELECT seq, kind, length(data) FROM records WHERE session = ? AND typeof(data) = 'blob' ORDER BY seq"
    last = 0
    for seq, kind, size in connection.execute(sizes, (session,)).fetchall():
        if kind == "batch" and total <= most_bytes:
            break
        total, last = total - size, seq
    old = "FROM records WHERE session = ? AND seq <= ? AND typeof(data) = 'blob'"
    kept: dict[object, Record] = {}
    select = f"SELECT seq, at, server, kind, data {old} ORDER BY seq"
    for each in _unpacked(connection.execute(select, (session, last))):
        if each.kind not in _THINNED:
            key = (each.server, each.data.get("uri")) if each.kind == "content" else each.seq
            kept.pop(key, None)
            kept[key] = each
    connection.execute(f"DELETE {old}", (session, last))
    total += Packer().store(connection, session, list(kept.values()))
    connection.execute("UPDATE sessions SET bytes = ? WHERE id = ?", (total, session))
    return total


class Packer:
    """Stores records in batches. A packer whose batch was rolled back is useless."""

    def __init__(self) -> None:
        from pydantic_core import to_json  # noqa: PLC0415 - a journal that is not written to does without

        self._to_json = to_json  # Several times as fast as Python's own.
        self._stream = zlib.compressobj(_LEVEL)
        self._left = 0  # Bytes until the next stream.

    def store(self, connection: sqlite3.Connection, session: int | None, records: Sequence[Record]) -> int:
        """Stores the next records of a session. Returns their size in the file."""
        size = 0
        for server, group in groupby(records, key=attrgetter("server")):
            batch = list(group)
            text = b"\n".join(self._line([each.seq, each.at, each.kind, each.data]) for each in batch)
            kind = "more" if self._left > 0 else "batch"
            if kind == "batch":
                self._stream, self._left = zlib.compressobj(_LEVEL), _STREAM_BYTES
            self._left -= len(text)
            packed = self._stream.compress(text) + self._stream.flush(zlib.Z_SYNC_FLUSH)
            row = session, batch[0].seq, batch[0].at, server, kind, len(batch).to_bytes(_COUNT) + packed
            connection.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?)", row)
            size += len(packed)
        return size

    def _line(self, value: Any) -> bytes:
        try:
            return self._to_json(value, inf_nan_mode="strings")
        except ValueError:  # A lone surrogate, or something that is not JSON.
            return dumps(value).encode()


def _unpacked(rows: Iterable[tuple[int, float, str, str, str | bytes]]) -> Iterator[Record]:
    """Yields the records in rows; unreadable ones as `missed`."""
    stream = zlib.decompressobj()
    for seq, at, server, kind, data in rows:
        try:
            if isinstance(data, str):
                found = [(seq, at, kind, json.loads(data))]
            else:
                stream = zlib.decompressobj() if kind == "batch" else stream
                found = [json.loads(line) for line in stream.decompress(data[_COUNT:]).splitlines()]
            yield from [Record(number, float(when), server, what, dict(value)) for number, when, what, value in found]
        except (TypeError, ValueError, RecursionError, zlib.error):
            lost = int.from_bytes(data[:_COUNT]) if isinstance(data, bytes) else 1
            yield Record(seq, at, server, "missed", {"count": lost})
            stream = zlib.decompressobj()  # The rest of the stream cannot be read, either.


def _delete(connection: sqlite3.Connection, session: int) -> None:
    connection.execute("DELETE FROM records WHERE session = ?", (session,))
    connection.execute("DELETE FROM sessions WHERE id = ?", (session,))


def _is_running(ended: float | None, pid: int) -> bool:
    if ended is not None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


EXPORT_VERSION: Final = 1
_MOST_PROBLEMS: Final = 100


class NotASession(ValueError):
    """The text is not an exported session, or one of a later version."""


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """An imported session."""

    records: list[Record]
    problems: list[str]  # The first hundred lines that were skipped: "line 12: not JSON: …".
    passed_over: int


def export_lines(records: Iterable[Record], *, clock: Clock = time.time) -> Iterator[str]:
    """Yields the lines of a file, without newlines."""
    kept = list(records)
    servers = list(dict.fromkeys(record.server for record in kept))
    yield dumps({"tidings": "session", "version": EXPORT_VERSION, "servers": servers, "exported_at": clock()})
    for record in kept:
        yield record.to_line()


def import_lines(lines: Iterable[str]) -> ImportedSession:
    """Reads the lines of an exported session. Raises `NotASession` with the reason if they are not."""
    numbered = enumerate(lines, 1)
    try:
        header = as_dict(json.loads(next(numbered, (1, ""))[1]))
    except (ValueError, RecursionError):
        header = {}
    if header.get("tidings") != "session":
        raise NotASession('is not an exported session: its first line should begin {"tidings": "session", …')
    if (version := as_int(header.get("version")) or 0) > EXPORT_VERSION:
        raise NotASession(
            f"was exported by a later version of Tidings (format {version}; this one knows {EXPORT_VERSION})"
        )
    records: list[Record] = []
    problems: list[str] = []
    passed_over = last = 0
    for number, line in numbered:
        if not line.strip():
            continue
        try:
            record = Record.from_line(line)
            if record.seq <= last:
                raise ValueError(f"its number, {record.seq}, is not above the previous one, {last}")  # noqa: TRY301
        except ValueError as error:
            passed_over += 1
            if len(problems) < _MOST_PROBLEMS:
                problems.append(f"line {number}: {error}")
            continue
        last = record.seq
        records.append(record)
    return ImportedSession(records, problems, passed_over)


def import_session(path: Path) -> ImportedSession:
    """Reads an exported session from a file. Raises `NotASession` or `OSError`."""
    try:
        with path.open(encoding="utf-8", errors="surrogateescape") as file:
            return import_lines(file)
    except NotASession as error:
        raise NotASession(f"{path} {error}") from None
