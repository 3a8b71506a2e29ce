"""The journal: a session's records, kept in SQLite as they come, so that a crash or a restart loses nothing.

A thread writes them, in batches: whoever makes a record never waits for a disk. What was recorded is in the file a
tenth of a second later, and survives a `kill -9`. If the disk cannot be written to, records wait, and beyond a bound
they are missed, which is counted and told. A file that cannot be used is set aside, or left alone if a later version
made it; `notice` says so in words. A session goes on in any case.

`journal_sessions` reads what is kept.
"""

import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidings._kit.bounded_json import as_size, dumps
from tidings.inspector.records import Record
from tidings.inspector.sessions.saved import Newer, NotNow, Unusable, beside, open_for_writing, prune, set_aside, thin
from tidings.inspector.view.view import Clock

logger = logging.getLogger(__name__)

_GATHER: Final = 0.05
"""Seconds for which records are gathered, to be written together."""
_RETRY: Final = 0.5
_MOST_WAITING: Final = 200_000
_MOST_WAITING_BYTES: Final = 256 * 2**20
_BATCH: Final = 5_000
_UNWRITABLE: Final = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, OverflowError, ValueError)
"""What a record that no database takes is answered with. The file is none the worse for it."""


@dataclass(frozen=True, slots=True)
class JournalLimits:
    """How much is kept. Sessions that still run are never deleted."""

    days: float = 30.0
    """Sessions that ended longer ago are deleted."""
    sessions: int = 200
    bytes: int = 2**30
    """Of all sessions together: beyond that the oldest go."""
    session_bytes: int = 512 * 2**20
    """Of one: beyond that its oldest messages, exchanges, log messages and lines go; what the rest rests on stays."""


class Journal:
    """Writes the records of one session. `open` and `close` wait for the disk; `put` never does."""

    def __init__(
        self,
        path: str | Path,
        *,
        title: str | None = None,
        limits: JournalLimits | None = None,
        clock: Clock = time.time,
    ) -> None:
        self.path = Path(path)
        """The file; after `open`, the one that is really written to."""
        self.session: int | None = None
        """The number of this session in the file. None if nothing is kept."""
        self.notice: str | None = None
        """What a user should know: that a file was set aside, or that nothing is kept, and why."""
        self.trouble: str | None = None
        """Why nothing can be written at present; None as a rule."""
        self.written = 0
        """How many records are in the file by now."""
        self.limits = limits or JournalLimits()
        self._title = title
        self._clock = clock
        self._waiting: deque[Record] = deque()
        self._put_bytes = self._taken_bytes = 0  # Two, so that each thread has its own to change.
        self._missed = 0
        self._written_bytes = 0
        self._wake = threading.Event()
        self._ready = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._line: Callable[[dict[str, Any]], str] = dumps

    def open(self) -> None:
        """Begin the session in the file. Never fails: if it cannot be used, `notice` says so."""
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._run, name="tidings journal", daemon=True)
        self._thread.start()
        self._ready.wait()

    def put(self, record: Record) -> int:
        """Keep this record. How many could not be kept since this was last asked: 0, as a rule."""
        if self._thread is None or (self._ready.is_set() and self.session is None):
            return 0
        if len(self._waiting) >= _MOST_WAITING or self._put_bytes - self._taken_bytes > _MOST_WAITING_BYTES:
            self._missed += 1
            return 0
        self._waiting.append(record)
        self._put_bytes += _weight(record)
        if not self._wake.is_set():
            self._wake.set()
        missed, self._missed = self._missed, 0
        return missed

    def flush(self, seconds: float = 10.0) -> bool:
        """Wait until everything is written. Whether it is."""
        until = time.monotonic() + seconds
        while self.session is not None and self._waiting and time.monotonic() < until:
            self._wake.set()
            time.sleep(0.005)
        return not self._waiting

    def close(self, seconds: float = 10.0) -> None:
        """Write what is left, and end the session."""
        if self._thread is None:
            return
        self._closing = True
        self._wake.set()
        self._thread.join(seconds)

    def keep(self, records: Sequence[Record], seconds: float = 30.0) -> int:
        """Write a whole session and end it, instead of `open`, `put` and `close`: in the caller's thread, however many
        records there are. How many are kept.
        """
        self._begin()
        until = time.monotonic() + seconds
        for start in range(0, len(records), _BATCH):
            self._waiting.extend(records[start : start + _BATCH])
            while not self._write_all() and self._connection is not None and time.monotonic() < until:
                time.sleep(_RETRY)
            if self._waiting or self._connection is None:
                break
        self._waiting.clear()
        self._end()
        return self.written

    # In the thread.

    def _run(self) -> None:
        try:
            self._begin()
        except Exception as error:
            logger.exception("the journal could not be opened")
            self.notice = f"This session is not kept: {error}."
        finally:
            self._ready.set()
        while self._connection is not None:
            self._wake.wait(None if not self._waiting else _RETRY)
            if not self._closing:
                time.sleep(_GATHER)
            self._wake.clear()
            closing = self._closing
            done = self._write_all()
            if closing:
                self._end()
                return
            if not done:
                time.sleep(_RETRY)

    def _begin(self) -> None:
        self._line = _quick_dumps()
        try:
            self._connection = open_for_writing(self.path)
        except Newer as reason:
            old, self.path = self.path, beside(self.path)
            self.notice = f"The journal {old} is left alone: {reason}. Sessions are kept in {self.path} instead."
            self._connection = self._open_again()
        except Unusable as reason:
            if isinstance(reason, NotNow) or not self.path.is_file():
                self.notice = f"This session is not kept: {self.path} cannot be written ({reason})."
                return
            self._connection = self._anew(str(reason))
        if self._connection is not None:
            self._register(self._connection)

    def _open_again(self) -> sqlite3.Connection | None:
        try:
            return open_for_writing(self.path)
        except Unusable as reason:
            if not isinstance(reason, NotNow) and self.path.is_file():
                return self._anew(str(reason))
            self.notice = f"This session is not kept: {self.path} cannot be written ({reason})."
            return None

    def _anew(self, reason: str) -> sqlite3.Connection | None:
        """Set a broken file aside, and begin a new one."""
        try:
            old = set_aside(self.path)
            connection = open_for_writing(self.path)
        except (OSError, Unusable) as error:
            self.notice = f"This session is not kept: {self.path} cannot be used ({reason}; {error})."
            return None
        self.notice = f"The journal {self.path} could not be used ({reason}). It was set aside as {old.name}."
        return connection

    def _register(self, connection: sqlite3.Connection) -> None:
        now = self._clock()
        limits = self.limits
        try:
            prune(connection, now=now, days=limits.days, most=limits.sessions, most_bytes=limits.bytes)
            row = connection.execute(
                "INSERT INTO sessions (title, began, last, pid) VALUES (?, ?, ?, ?)",
                (self._title, now, now, os.getpid()),
            )
            connection.commit()
        except sqlite3.Error as error:
            connection.close()
            self._connection = None
            self.notice = f"This session is not kept: {self.path} cannot be written ({error})."
            return
        self._connection, self.session = connection, row.lastrowid

    def _write_all(self) -> bool:
        most = _BATCH
        while self._waiting and self._connection is not None:
            batch = [self._waiting[at] for at in range(min(len(self._waiting), most))]
            try:
                self._write(self._connection, batch)
            except sqlite3.OperationalError as error:  # The disk is full, or another process is busy: it may pass.
                if self.trouble is None:
                    logger.warning("the journal %s: %s; until that is over, nothing is written", self.path, error)
                self.trouble = f"What happens is not written at present: {self.path}: {error}."
                self._connection.rollback()
                return False
            except _UNWRITABLE as error:
                most = 1  # One after the other, until it is found.
                if len(batch) == 1:
                    logger.warning("the journal %s cannot keep record %d: %s", self.path, batch[0].seq, error)
                    self._taken_bytes += _weight(self._waiting.popleft())
                    self._missed += 1
                continue
            except sqlite3.DatabaseError as error:
                self._connection.close()
                self._connection = self._anew(str(error))
                if self._connection is None:
                    self.session = None
                    self._waiting.clear()
                    return False
                self._register(self._connection)
                continue
            for each in batch:
                self._waiting.popleft()
                self._taken_bytes += _weight(each)
            self.written += len(batch)
            self.trouble = None
            most = min(2 * most, _BATCH)
        return True

    def _write(self, connection: sqlite3.Connection, batch: list[Record]) -> None:
        rows = [(self.session, each.seq, each.at, each.server, each.kind, self._line(each.data)) for each in batch]
        size = sum(len(row[-1]) for row in rows)
        with connection:
            connection.executemany("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?)", rows)
            connection.execute(
                "UPDATE sessions SET last = ?, records = records + ?, bytes = bytes + ? WHERE id = ?",
                (batch[-1].at, len(rows), size, self.session),
            )
        self._written_bytes += size
        if self._written_bytes > self.limits.session_bytes and self.session is not None:
            with connection:
                self._written_bytes = thin(connection, self.session, self.limits.session_bytes // 2)

    def _end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            with connection:
                connection.execute("UPDATE sessions SET ended = ? WHERE id = ?", (self._clock(), self.session))
        except sqlite3.Error as error:
            logger.warning("the journal %s: %s", self.path, error)
        connection.close()


def _weight(record: Record) -> int:
    """About how many bytes a record takes while it waits."""
    data = record.data
    return 300 + as_size(data.get("size" if "size" in data else "result_size"))


def _quick_dumps() -> Callable[[dict[str, Any]], str]:
    """Writes JSON several times as fast as Python's own, where it can."""
    from pydantic_core import to_json  # noqa: PLC0415 - a journal that is not written to does without

    def line(data: dict[str, Any]) -> str:
        try:
            return to_json(data, inf_nan_mode="strings").decode()
        except ValueError:  # Half a character, or what is no JSON.
            return dumps(data)

    return line
