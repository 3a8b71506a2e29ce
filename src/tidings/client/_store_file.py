"""The file behind a `StateFile`, used by one thread of each process.

What it promises:
- A batch is one transaction, and is written after all that came before it: where one fails, the next takes it along.
  So the cursor in the file is never ahead of the removals that belong to it.
- Content counts as covered only under the cursor of the process that kept it current. Several processes may write
  about one identity: the last one's cursor and subscriptions are those that are found, and what others covered counts
  as merely cached.

May import: `cache`, `invocations`, `errors`.
"""

import logging
import os
import secrets
import sqlite3
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from tidings.client import _store_errors as errors
from tidings.client._store_batch import Batch, Place, Put
from tidings.client._store_rows import decode, encode
from tidings.client._store_schema import prepare

logger = logging.getLogger(__name__)

T = TypeVar("T")

_CHECKPOINT_BYTES: Final = 4 * 2**20
_PAGE: Final = 4096


@dataclass(frozen=True, slots=True)
class Found:
    """What was in the file."""

    puts: list[Put]
    unreadable: list[Place]
    subscriptions: frozenset[str]
    cursor: str | None


class File:
    """What is saved of `identity` in the file at `path`."""

    def __init__(self, path: Path, identity: str, *, timeout: float) -> None:
        self._path = path
        self._identity = identity
        self._timeout = timeout
        self._connection: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None
        self._writer = ""
        self._subscriptions: frozenset[str] | None = None
        self._unwritten: Batch | None = None
        self._unmoved = 0
        self._in_trouble = False

    def load(self) -> Found:
        """What is saved. From now on its content is this process's to keep current.

        Raises:
            StateUnusable: The file cannot be opened, created, read or written.
        """
        try:
            rows, found = self._do(self._load)
        except (sqlite3.Error, OSError) as error:
            raise errors.explain(error, self._path) from error
        for kind, key, content, covered in rows:
            invocation = decode(kind, key, content)
            if invocation is None:
                found.unreadable.append((kind, key))
            else:
                found.puts.append(Put(invocation, bool(covered)))
        if found.unreadable:
            logger.warning(
                "%d of %d entries in the state file %s cannot be read by this version, and are left out",
                len(found.unreadable),
                len(rows),
                self._path,
            )
        return found

    def write(self, batch: Batch) -> bool:
        """Write `batch`, after what could not be written before; whether that was possible. Trouble is logged once."""
        self._unwritten = batch = self._unwritten.then(batch) if self._unwritten is not None else batch
        try:
            self._do(lambda connection: self._write(connection, batch))
        except Exception as error:  # noqa: BLE001 - it is tried again, and a client goes on without
            if isinstance(error, sqlite3.Error | OSError):
                error = errors.explain(error, self._path)
            if not self._in_trouble:
                logger.warning("the client's state is not saved for now: %s", error)
            self._in_trouble = True
            return False
        if self._in_trouble:
            logger.warning("the client's state is saved again, in %s", self._path)
        self._unwritten, self._in_trouble = None, False
        return True

    def close(self) -> None:
        """Let go of the file. If nobody else uses it, SQLite moves what was written into the main file first."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _load(self, connection: sqlite3.Connection) -> tuple[list[tuple[str, str, str, int]], Found]:
        mine = self._identity
        # A write lock even where nothing is written: a file that this process may only read fails here, and not later.
        with _transaction(connection):
            writer, cursor = connection.execute(
                "SELECT writer, cursor FROM states WHERE identity = ?", (mine,)
            ).fetchone() or ("", None)
            subscriptions = connection.execute("SELECT uri FROM subscriptions WHERE identity = ?", (mine,)).fetchall()
            rows = connection.execute(
                "SELECT kind, key, content, ifnull(writer = ?, 0) FROM entries LEFT JOIN covered "
                "USING (identity, kind, key) WHERE identity = ? ORDER BY id",
                (writer, mine),
            ).fetchall()
            connection.execute("DELETE FROM covered WHERE identity = ? AND writer <> ?", (mine, writer))
            connection.execute("UPDATE covered SET writer = ? WHERE identity = ?", (self._writer, mine))
            connection.execute("UPDATE states SET writer = ? WHERE identity = ?", (self._writer, mine))
        self._subscriptions = frozenset(uri for (uri,) in subscriptions)
        return rows, Found([], [], self._subscriptions, cursor)

    def _write(self, connection: sqlite3.Connection, batch: Batch) -> None:
        # Before the transaction, which keeps others waiting.
        contents = {place: encode(put.invocation) for place, put in batch.entries.items() if put}
        with _transaction(connection):
            if batch.cleared:
                for table in ("states", "subscriptions", "entries", "covered"):
                    connection.execute(f"DELETE FROM {table} WHERE identity = ?", (self._identity,))  # noqa: S608
            if not batch.leaves_nothing:
                self._write_state(connection, batch)
            for place, put in batch.entries.items():
                self._write_entry(connection, place, contents.get(place), covered=put is not None and put.covered)
        self._subscriptions = batch.subscriptions
        self._checkpoint(connection, sum(_PAGE + len(content or "") for content in contents.values()))

    def _write_state(self, connection: sqlite3.Connection, batch: Batch) -> None:
        mine = self._identity
        row = connection.execute("SELECT writer FROM states WHERE identity = ?", (mine,)).fetchone()
        before = self._subscriptions if row == (self._writer,) else None
        if before is None:
            connection.execute("DELETE FROM subscriptions WHERE identity = ?", (mine,))
            before = frozenset[str]()
        if before is not batch.subscriptions:
            gone, new = before - batch.subscriptions, batch.subscriptions - before
            connection.executemany("DELETE FROM subscriptions WHERE identity = ? AND uri = ?", _with(mine, gone))
            connection.executemany("INSERT INTO subscriptions VALUES (?, ?)", _with(mine, new))
        connection.execute("INSERT OR REPLACE INTO states VALUES (?, ?, ?)", (mine, self._writer, batch.cursor))

    def _write_entry(self, connection: sqlite3.Connection, place: Place, content: str | None, *, covered: bool) -> None:
        kind, key = str(place[0]), place[1]
        row = self._identity, kind, key
        # What has a key that no text can hold was never saved.
        with suppress(UnicodeEncodeError):
            connection.execute("DELETE FROM entries WHERE identity = ? AND kind = ? AND key = ?", row)
            connection.execute("DELETE FROM covered WHERE identity = ? AND kind = ? AND key = ?", row)
            if content is None:
                return
            connection.execute(
                "INSERT INTO entries (identity, kind, key, content) VALUES (?, ?, ?, ?)", (*row, content)
            )
            if covered:
                connection.execute("INSERT INTO covered VALUES (?, ?, ?, ?)", (*row, self._writer))

    def _checkpoint(self, connection: sqlite3.Connection, size: int) -> None:
        """From time to time, move what was committed from the -wal file into the main file.

        SQLite would do this by itself, but alongside writers, which up to 3.51.2 could damage the file (the "WAL-reset
        bug"). FULL keeps writers out meanwhile. It has to wait for readers too, so it gets little time: next time will
        do.
        """
        self._unmoved += 4 * _PAGE + size
        if self._unmoved < _CHECKPOINT_BYTES:
            return
        self._unmoved = 0
        # It is committed already, whatever becomes of this.
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA busy_timeout = 100")
            connection.execute("PRAGMA wal_checkpoint(FULL)").fetchall()
        connection.execute(f"PRAGMA busy_timeout = {round(self._timeout * 1000)}")

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._connected()
        try:
            return work(connection)
        except BaseException:
            try:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            except sqlite3.Error:
                self.close()
            raise

    def _connected(self) -> sqlite3.Connection:
        """A connection to the file that has the name now: somebody may have deleted or replaced the one of before."""
        if self._connection is not None and self._find() == self._inode:
            return self._connection
        self.close()
        # In another file, what was covered there may be out of date: it is covered by nobody under a new name.
        self._writer, self._subscriptions = secrets.token_hex(8), None
        path = Path(os.path.realpath(self._path))
        self._connection = prepare(path, timeout=self._timeout)
        self._inode = self._find()
        return self._connection

    def _find(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None]:
    """A transaction that is committed at the end. On failure somebody else rolls it back."""
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.execute("COMMIT")


def _with(identity: str, texts: Iterable[str]) -> list[tuple[str, str]]:
    return [(identity, text) for text in texts]
