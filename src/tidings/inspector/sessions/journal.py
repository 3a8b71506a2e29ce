"""`Journal`: the records of a session, stored in SQLite as they come, so that a crash loses nothing.

A thread writes them in batches: making a record never waits for the disk. A record is in the file a tenth of a second
later, and survives `kill -9`. While the disk cannot be written to, records wait; beyond a limit they are missed and
counted. A file that cannot be used is set aside, or left alone if a later version wrote it; `notice` says so. The
session goes on in any case. `sessions.saved` reads what is stored.
"""

import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tidings._kit.bounded_json import as_size
from tidings._kit.sqlite import Database
from tidings._kit.sqlite_errors import Trouble
from tidings.inspector.records import Record
from tidings.inspector.sessions import saved
from tidings.inspector.sessions.saved import JournalLimits, JournalUnusable, Packer
from tidings.inspector.view.view import Clock

logger = logging.getLogger(__name__)

_GATHER: Final = 0.05  # Seconds for which records are gathered, to be written together.
_RETRY: Final = 0.5
_MOST_WAITING: Final = 200_000
_MOST_WAITING_BYTES: Final = 256 * 2**20
_BATCH: Final = 5_000
# The errors for a record that SQLite cannot store. The file is not at fault.
_UNWRITABLE: Final = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError)


class Journal:
    """Stores the records of one session. `open` and `close` wait for the disk; `put` never does."""

    def __init__(
        self,
        path: str | Path,
        *,
        title: str | None = None,
        limits: JournalLimits | None = None,
        clock: Clock = time.time,
    ) -> None:
        self.path = Path(path)  #: The file; after `open`, the one that is really written to.
        self.session: int | None = None  #: The number of this session in the file. None if nothing is stored.
        self.notice: str | None = None  #: A message for the user: a file was set aside, or nothing is stored, and why.
        self.trouble: str | None = None  #: The reason why nothing can be written at present; None as a rule.
        self.written = 0  #: The number of records in the file.
        self.limits = limits or JournalLimits()
        self._title, self._clock, self._began = title, clock, 0.0
        self._waiting: deque[Record] = deque()
        self._put_bytes = self._taken_bytes = 0  # Two numbers: each thread changes its own.
        self._missed = 0
        self._written_bytes = 0
        self._wake, self._ready = threading.Event(), threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._database: Database | None = None
        self._packer: Packer | None = None

    def open(self) -> None:
        """Begins the session in the file. This never fails: if the file cannot be used, `notice` says so."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tidings journal", daemon=True)
            self._thread.start()
            self._ready.wait()

    def put(self, record: Record) -> int:
        """Stores a record soon. Returns the number that could not be stored since the last call, usually 0."""
        if self._thread is None or (self._ready.is_set() and self._database is None):
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
        """Waits until everything is written. Returns whether it is."""
        until = time.monotonic() + seconds
        while self._database is not None and self._waiting and time.monotonic() < until:
            self._wake.set()
            time.sleep(0.005)
        return not self._waiting

    def close(self, seconds: float = 10.0) -> None:
        """Writes the rest, and ends the session."""
        if self._thread is not None:
            self._closing = True
            self._wake.set()
            self._thread.join(seconds)

    def keep(self, records: Sequence[Record], seconds: float = 30.0) -> int:
        """Stores a whole session in the calling thread, and ends it. Returns the number of stored records."""
        self._begin()
        until = time.monotonic() + seconds
        for start in range(0, len(records), _BATCH):
            self._waiting.extend(records[start : start + _BATCH])
            while not self._write_all() and self._database is not None and time.monotonic() < until:
                time.sleep(_RETRY)
            if self._waiting or self._database is None:
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
            self.notice = f"This session is not saved: {error}."
        finally:
            self._ready.set()
        while self._database is not None:
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
        self._began = self._clock()
        try:
            try:
                database = saved.open_journal(self.path, self._was_set_aside)
            except JournalUnusable as reason:
                if reason.trouble is not Trouble.NEWER:
                    raise
                self.path = self.path.with_name(f"{self.path.stem}.v{saved.VERSION}{self.path.suffix}")
                self.notice = f"{reason} It is left alone, and sessions are saved in {self.path} instead."
                database = saved.open_journal(self.path, self._was_set_aside)
            database.write(lambda connection: saved.prune(connection, self._began, self.limits))
            database.free()
            database.write(self._register)
        except JournalUnusable as reason:
            self.notice = f"This session is not saved: {reason}"
        else:
            self._database = database

    def _was_set_aside(self, path: Path, to: Path, reason: Exception) -> None:
        text = str(reason) if isinstance(reason, JournalUnusable) else f"The journal {path} is damaged ({reason})."
        self.notice = f"{text} It was set aside as {to.name}."

    def _register(self, connection: sqlite3.Connection) -> None:
        insert = "INSERT INTO sessions (title, began, last, pid) VALUES (?, ?, ?, ?)"
        self.session = connection.execute(insert, (self._title, self._began, self._began, os.getpid())).lastrowid

    def _write_all(self) -> bool:
        """Writes the waiting records. Returns False if they have to wait on."""
        most = _BATCH
        while self._waiting and self._database is not None:
            batch = [self._waiting[at] for at in range(min(len(self._waiting), most))]
            try:
                weight = sum(map(_weight, batch))
                size = self._database.write(lambda connection, batch=batch: self._write(connection, batch), weight)
            except (JournalUnusable, ValueError, OverflowError) as error:
                self._packer = None
                if not isinstance(error, JournalUnusable) or isinstance(error.__cause__, _UNWRITABLE):
                    most = 1  # One at a time, until the one at fault is found.
                    if len(batch) == 1:
                        logger.warning("the journal %s cannot store record %d: %s", self.path, batch[0].seq, error)
                        self._taken_bytes += _weight(self._waiting.popleft())
                        self._missed += 1
                    continue
                if self.trouble is None:
                    logger.warning("nothing is written to the journal for the moment: %s", error)
                self.trouble = f"Nothing is saved at present: {error}"
                return False
            except OSError as error:  # A damaged file could not be set aside.
                self.notice = f"This session is not saved: {self.path} cannot be used ({error})."
                self._database.close()
                self._database = self.session = None
                self._waiting.clear()
                return False
            for each in batch:
                self._waiting.popleft()
                self._taken_bytes += _weight(each)
            self.written += len(batch)
            self.trouble = None
            most = min(2 * most, _BATCH)
            self._written_bytes += size
            if self._written_bytes > self.limits.session_bytes:
                self._thin(self._database)
        return True

    def _write(self, connection: sqlite3.Connection, batch: list[Record]) -> int:
        # The file may have been replaced since, and another session may have this number.
        update = "UPDATE sessions SET last = ?, records = records + ? WHERE id = ? AND began = ? AND pid = ?"
        values = batch[-1].at, len(batch)
        if not connection.execute(update, (*values, self.session, self._began, os.getpid())).rowcount:
            self._packer = None
            self._register(connection)
            connection.execute(update, (*values, self.session, self._began, os.getpid()))
        self._packer = self._packer or Packer()
        size = self._packer.store(connection, self.session, batch)
        connection.execute("UPDATE sessions SET bytes = bytes + ? WHERE id = ?", (size, self.session))
        return size

    def _thin(self, database: Database) -> None:
        session, most = self.session or 0, self.limits.session_bytes // 2
        self._packer = None
        with suppress(JournalUnusable):  # The next batch reports it, if it lasts.
            size = database.write(lambda at: saved.thin(at, session, most), most)
            self._written_bytes = min(size, most)  # What cannot be deleted is not looked at again with each batch.

    def _end(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            try:
                ended = "UPDATE sessions SET ended = ? WHERE id = ?"
                database.write(lambda connection: connection.execute(ended, (self._clock(), self.session)))
            except (JournalUnusable, OSError) as error:
                logger.warning("the end of the session is not saved: %s", error)
            database.close()


def _weight(record: Record) -> int:
    data = record.data
    return 300 + as_size(data.get("size" if "size" in data else "result_size"))
