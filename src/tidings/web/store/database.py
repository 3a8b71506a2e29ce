"""The database behind a store, used by one thread: in memory, or in a file that several processes share.

What it promises:
- What is done by `write` is one transaction, and so is what is seen by `read`.
- A file that turns out to be damaged, or of an older version, is set aside (`….damaged`), and one line of the log says
  so: all that it held can be fetched again. Work goes on with an empty one. A file that is not ours is never touched.
- A file that somebody deleted or replaced is noticed: the one that has the name now is used.
- Everything else that goes wrong (a lock, a full disk) is a `StoreError`, and nothing has changed.

May import: `errors`, `schema`, `locks`.
"""

import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from tidings.web.store import errors
from tidings.web.store.locks import locked
from tidings.web.store.schema import APPLICATION_ID, create, is_ours

logger = logging.getLogger(__name__)

T = TypeVar("T")

_CHECKPOINT_BYTES: Final = 4 * 2**20
_PAGE: Final = 4096
_FREED_PAGES: Final = 2000
"""How many unused pages are left as they are; ten times as many are given back to the disk at once."""
_HEADER: Final = 72
"""Of a database's file; the last four bytes of these say whose it is."""

Inode = tuple[int, int]
Work = Callable[[sqlite3.Connection], T]


class Database:
    """The store's database: in the file at `path`, in memory without one; `timeout` is how long a lock may last."""

    def __init__(self, path: Path | None, *, timeout: float) -> None:
        self.path = path
        self._timeout = timeout
        self._connection: sqlite3.Connection | None = None
        self._inode: Inode | None = None
        self._unmoved = 0

    def open(self) -> None:
        """Connect, and create what is not there.

        Raises:
            StoreError: It cannot be used.
        """
        self.read(lambda _: None)

    def read(self, work: Work[T]) -> T:
        """What `work` finds, all of it at one moment.

        Raises:
            StoreError: It could not be read.
        """
        return self._do("BEGIN", work)

    def write(self, work: Work[T], size: int = 0) -> T:
        """Do `work`, all or nothing; it writes about `size` bytes.

        Raises:
            StoreError: It could not be written, and is as it was.
        """
        result = self._do("BEGIN IMMEDIATE", work)
        self._move(size)
        return result

    def free(self) -> None:
        """Give what is not used any more back to the disk, if there is much of it."""
        if self.path is not None and self._connection is not None:
            with suppress(sqlite3.Error):
                if self._connection.execute("PRAGMA freelist_count").fetchone()[0] > _FREED_PAGES:
                    # Each step frees a page, and `execute` does one step of what gives no rows.
                    self._connection.executescript(f"PRAGMA incremental_vacuum({10 * _FREED_PAGES})")

    def close(self) -> None:
        """Let go of it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _do(self, begin: str, work: Work[T]) -> T:
        try:
            connection = self._connected()
            try:
                return self._transact(connection, begin, work)
            except sqlite3.Error as error:
                if self.path is None or not errors.is_damage(error):
                    raise
                # It was opened as a store, so it is one, whatever it looks like now.
                self._set_aside(self.path, self._inode, error)
            return self._transact(self._connected(), begin, work)
        except (sqlite3.Error, OSError) as error:
            raise errors.explain(error, self.path) from error

    def _transact(self, connection: sqlite3.Connection, begin: str, work: Work[T]) -> T:
        try:
            connection.execute(begin)
            result = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            try:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            except sqlite3.Error:
                self.close()
            raise
        return result

    def _connected(self) -> sqlite3.Connection:
        """A connection to the file that has the name now."""
        if self._connection is not None and (self.path is None or _find(self.path) == self._inode):
            return self._connection
        self.close()
        if self.path is None:
            self._connection = _connect(":memory:", self._timeout)
            create(self._connection)
            return self._connection
        self._connection = self._open(self.path)
        self._inode = _find(self.path)
        return self._connection

    def _open(self, path: Path) -> sqlite3.Connection:
        try:
            with locked(path, self._timeout):
                return _prepare(path, self._timeout)
        except sqlite3.Error as error:
            # The name may be of somebody's letters: only what says that it is a store is moved away.
            if not errors.is_damage(error) or not _says_it_is_ours(path):
                raise
            self._set_aside(path, _find(path), error)
        with locked(path, self._timeout):
            return _prepare(path, self._timeout)

    def _set_aside(self, path: Path, inode: Inode | None, error: sqlite3.Error) -> None:
        self.close()
        with locked(path, self._timeout):
            # Another process may have done it.
            if _find(path) != inode:
                return
            aside = path.with_name(f"{path.name}.damaged")
            logger.warning("the store %s is begun anew, and the old one kept as %s: %s", path, aside.name, error)
            for suffix in ("-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            path.replace(aside)

    def _move(self, size: int) -> None:
        """From time to time, move what was committed from the -wal file into the main file.

        SQLite would do this by itself, but alongside writers, which up to 3.51.2 could damage the file (the "WAL-reset
        bug"). FULL keeps writers out meanwhile. It has to wait for readers too, so it gets little time: next time will
        do.
        """
        self._unmoved += 4 * _PAGE + size
        if self._connection is None or self.path is None or self._unmoved < _CHECKPOINT_BYTES:
            return
        self._unmoved = 0
        # It is committed already, whatever becomes of this.
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA busy_timeout = 100")
            self._connection.execute("PRAGMA wal_checkpoint(FULL)").fetchall()
        self._connection.execute(f"PRAGMA busy_timeout = {round(self._timeout * 1000)}")


def _connect(path: str | Path, timeout: float) -> sqlite3.Connection:
    # Used by one thread at a time, but closed by whichever.
    return sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)


def _prepare(path: Path, timeout: float) -> sqlite3.Connection:
    # SQLite would let others read what it creates. Its two other files take over the mode of this one.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    connection = _connect(path, timeout)
    try:
        _set_up(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _set_up(connection: sqlite3.Connection, path: Path) -> None:
    # A loss of power may take the last commits: what is left is an older state, and whole.
    connection.execute("PRAGMA synchronous = NORMAL")
    # Whoever writes does it: see there.
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute(f"PRAGMA journal_size_limit = {4 * _CHECKPOINT_BYTES}")
    if not is_ours(connection, path):
        create(connection)
    if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
        raise errors.no_wal(path)


def _says_it_is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        header = file.read(_HEADER)
    return header.startswith(b"SQLite format 3\0") and header.endswith(APPLICATION_ID.to_bytes(4, "big"))


def _find(path: Path) -> Inode | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
