"""The file behind a `SqliteBus`: a compacted log in SQLite, used by one thread of each process.

What it relies on and what it promises:
- Everything about a change (its row, the version, what was trimmed) is one `BEGIN IMMEDIATE` transaction.
- The version only rises and is never given twice in an epoch, whatever is trimmed.
- The file is shared with other processes, which may delete or replace it. It is recognised by its inode before each
  use and after each commit, so that nothing is written unnoticed to a file that nobody else can see.
- After any failure the connection is dropped, which rolls back, and the next use opens it again.
- It never opens the file but through SQLite: closing a descriptor of one's own would drop the POSIX locks that SQLite
  holds on it for the whole process.

May import: `changes`, `errors`.

The shape of the file behind a `SqliteBus`, and how one is opened, created and recognised.

`log` has one row: the state. `changes` has a row for each distinct change, the newest; its version is the row's own
number, so that "all after this version" is one walk along the table.

The epoch is made with the file. It is made anew when commits may have been lost unnoticed: without `durable`, the
last ones are not yet on the disk when the machine loses power, so a file that was written to under another boot of
the machine starts a new epoch.

May import: `changes`, `errors`.
"""

import secrets
import sqlite3
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from tidings.bus import Entry, History
from tidings.bus import _sqlite_errors as errors
from tidings.changes import Cursor, change_from_key
from tidings.errors import BusMismatch, BusUnavailable

APPLICATION_ID: Final = 0x54494447
"""Marks a database as a bus of Tidings ("TIDG")."""

SCHEMA_VERSION: Final = 1

_TABLES: Final = (
    """CREATE TABLE log (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        epoch TEXT NOT NULL,
        version INTEGER NOT NULL,  -- of the newest change ever stored
        floor INTEGER NOT NULL,    -- the highest version that was trimmed
        entries INTEGER NOT NULL,  -- rows in changes
        boot TEXT NOT NULL         -- the boot during which it was last used without syncing each commit, or ''
    )""",
    "CREATE TABLE changes (version INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, at REAL NOT NULL)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)


class LogState(NamedTuple):
    """The row of `log`."""

    epoch: str
    version: int
    floor: int
    entries: int

    @property
    def head(self) -> Cursor:
        return Cursor(self.epoch, self.version)

    def is_behind(self, cursor: Cursor) -> bool:
        """Whether `cursor` was given by this log, but by a later state of it."""
        return cursor.epoch == self.epoch and cursor.version > self.version


def read_state(connection: sqlite3.Connection) -> LogState:
    """Reads the state of the log from its only row."""
    row = connection.execute("SELECT epoch, version, floor, entries FROM log").fetchone()
    if row is None:
        raise sqlite3.DatabaseError("the row of its state is gone")
    return LogState(*row)


def begin_epoch(connection: sqlite3.Connection) -> LogState:
    """Forget everything, under a new name. Within a transaction."""
    connection.execute("DELETE FROM changes")
    connection.execute("UPDATE log SET epoch = ?, floor = version, entries = 0", (_new_epoch(),))
    return read_state(connection)


def prepare(path: Path, *, durable: bool, timeout: float) -> sqlite3.Connection:
    """A connection to the log at `path`, which is created if there is none; `timeout` is how long a lock may last."""
    deadline = time.monotonic() + timeout
    while True:
        connection = sqlite3.connect(path, timeout=timeout, isolation_level=None)
        try:
            _prepare(connection, path, durable=durable)
        except BaseException as error:
            connection.close()
            # SQLite waits for most locks by itself, but not for the one it needs to switch to WAL.
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
        else:
            return connection


def _prepare(connection: sqlite3.Connection, path: Path, *, durable: bool) -> None:
    boot = boot_id()
    # Where nothing tells one boot from the next, only syncing each commit is safe.
    synced = durable or not boot
    connection.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
    connection.execute(f"PRAGMA fullfsync = {int(synced)}")
    # Whoever appends does it: see there.
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    # In one transaction: another process may be creating it between one look and the next.
    connection.execute("BEGIN")
    ours = _is_ours(connection, path)
    connection.execute("COMMIT")
    if not ours:
        _create(connection, path)
    if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
        raise errors.no_wal(path)
    _claim(connection, boot, synced=synced)


def _is_ours(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is a log; False if it is empty. Anything else is refused."""
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    schema: int = connection.execute("PRAGMA user_version").fetchone()[0]
    tables: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application == APPLICATION_ID:
        if schema != SCHEMA_VERSION:
            raise errors.other_schema(path, schema, SCHEMA_VERSION)
        return True
    if application or schema or tables:
        raise errors.other_application(path)
    return False


def _create(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN EXCLUSIVE")
    # Another process may have been faster.
    if not _is_ours(connection, path):
        # When only the main file was deleted, its shared memory is still there, and in use by processes that have
        # not noticed yet. This new file never was in WAL mode and is locked, so nobody needs it for this one.
        # (The old -wal file is deleted by SQLite itself.)
        if connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete":
            Path(f"{path.resolve()}-shm").unlink(missing_ok=True)
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute("INSERT INTO log VALUES (1, ?, 0, 0, 0, '')", (_new_epoch(),))
    connection.execute("COMMIT")


def _claim(connection: sqlite3.Connection, boot: str, *, synced: bool) -> None:
    """Begin a new epoch if commits may have been lost, and note under which boot they may be lost from now on."""
    # A write lock even where nothing is written: a file that this process may only read fails here, and not later.
    connection.execute("BEGIN IMMEDIATE")
    row = connection.execute("SELECT boot FROM log").fetchone()
    noted = row[0] if row else ""
    if noted and noted != boot:
        begin_epoch(connection)
        noted = ""
    connection.execute("UPDATE log SET boot = ? WHERE boot <> ?", (noted if synced else boot,) * 2)
    connection.execute("COMMIT")


def boot_id() -> str:
    """A text that differs from one start of this machine to the next, or '' where the system has none."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _new_epoch() -> str:
    return secrets.token_hex(6)


def _is_busy(error: BaseException) -> bool:
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


T = TypeVar("T")

_ATTEMPTS: Final = 5
"""How often something is tried on a file that is replaced meanwhile."""

_CHECKPOINT_PAGES: Final = 1000


@dataclass(frozen=True, slots=True)
class News:
    """What happened after a cursor, up to `head`; `entries` is None if that cannot be said."""

    head: Cursor
    entries: Sequence[Entry] | None


class _Identity(NamedTuple):
    """Tells a file from another that has taken its name."""

    device: int
    inode: int


class SqliteLog:
    """A compacted log in the file at `path`. Each method raises `BusUnavailable` or `BusMismatch` if it cannot."""

    def __init__(
        self, path: Path, *, history: History, clock: Callable[[], float], durable: bool, timeout: float
    ) -> None:
        self._path = path
        self._history = history
        self._clock = clock
        self._durable = durable
        self._timeout = timeout
        self._connection: sqlite3.Connection | None = None
        self._identity: _Identity | None = None
        self._seen: int | None = None
        self._unmoved = 0

    def head(self) -> Cursor:
        """The newest place in the log."""
        return self._do(lambda connection: read_state(connection).head)

    def append(self, keys: Sequence[str], told: Cursor) -> tuple[list[Cursor], News]:
        """Store changes by their keys, all or none; where each stands, and what is new after `told`."""

        def work(connection: sqlite3.Connection) -> tuple[list[Cursor], News]:
            with _transaction(connection, "IMMEDIATE"):
                result = self._append(connection, keys, told)
            self._checkpoint(connection, len(keys))
            return result

        return self._do(work)

    def news(self, told: Cursor) -> News | None:
        """What other connections have committed since this was asked last, and is new after `told`; None: nothing."""
        return self._do(lambda connection: self._news(connection, told))

    def since(self, cursor: Cursor) -> Sequence[Entry] | None:
        """The newest entry for each distinct change after `cursor`, or None if the log cannot know."""

        def work(connection: sqlite3.Connection) -> Sequence[Entry] | None:
            with _transaction(connection, "DEFERRED"):
                return self._after(connection, read_state(connection), cursor).entries

        return self._do(work)

    def close(self) -> None:
        """Let go of the file. If nobody else uses it, SQLite moves what was written into the main file first."""
        self._drop()

    def _news(self, connection: sqlite3.Connection, told: Cursor) -> News | None:
        # Cheap enough to ask all day: it compares one number in memory shared with the other processes.
        seen = _number(connection, "PRAGMA data_version")
        if seen == self._seen:
            return None
        with _transaction(connection, "DEFERRED"):
            state = read_state(connection)
            news = self._after(connection, state, told)
        if state.is_behind(told):
            with _transaction(connection, "IMMEDIATE"):
                news = News(self._current_state(connection, told).head, None)
        self._seen = seen
        return news if news.head != told else None

    def _append(self, connection: sqlite3.Connection, keys: Sequence[str], told: Cursor) -> tuple[list[Cursor], News]:
        state = self._current_state(connection, told)
        now = self._clock()
        places = {key: version for version, key in enumerate(keys, state.version + 1)}
        replaced = connection.executemany("DELETE FROM changes WHERE key = ?", [(key,) for key in places]).rowcount
        rows = [(version, key, now) for key, version in places.items()]
        connection.executemany("INSERT INTO changes (version, key, at) VALUES (?, ?, ?)", rows)
        cursors = [Cursor(state.epoch, state.version + n) for n in range(1, len(keys) + 1)]
        entries = state.entries + len(places) - replaced
        state = state._replace(version=state.version + len(keys), entries=entries)
        # Before trimming: what does not stay is still told.
        news = self._after(connection, state, told)
        self._trim(connection, state, now)
        return cursors, news

    def _current_state(self, connection: sqlite3.Connection, told: Cursor) -> LogState:
        """The state, in a new epoch if the file was put back to an older one: it would give versions twice."""
        state = read_state(connection)
        return begin_epoch(connection) if state.is_behind(told) else state

    def _after(self, connection: sqlite3.Connection, state: LogState, cursor: Cursor) -> News:
        # Compared here and not by SQLite, whose integers end before a cursor's do.
        if cursor.epoch != state.epoch or not state.floor <= cursor.version <= state.version:
            return News(state.head, None)
        if cursor.version == state.version:
            return News(state.head, [])
        rows = connection.execute(
            "SELECT version, key FROM changes WHERE version > ? ORDER BY version", (cursor.version,)
        )
        try:
            return News(state.head, [(Cursor(state.epoch, version), change_from_key(key)) for version, key in rows])
        except ValueError as error:
            raise errors.unknown_change(self._path, error) from error

    def _trim(self, connection: sqlite3.Connection, state: LogState, now: float) -> None:
        """Drop the oldest entries that the history has no room for, and store the state that is then.

        Only rows that go are looked at, and one that stays. Age is taken from the oldest on: entries whose time is
        wrong, because the clock was, can keep others for longer, but never beyond the number.
        """
        cut = state.floor
        if (excess := state.entries - self._history.entries) > 0:
            cut = _number(connection, "SELECT version FROM changes ORDER BY version LIMIT 1 OFFSET ?", excess - 1)
        stays = _number(
            connection,
            "SELECT version FROM changes WHERE version > ? AND at >= ? ORDER BY version LIMIT 1",
            cut,
            now - self._history.age,
        )
        if stays is None:
            # The change of just now stays at least. So there are fewer than was counted: somebody has deleted some.
            floor, entries = state.floor, _number(connection, "SELECT count(*) FROM changes")
        elif floor := _number(connection, "SELECT max(version) FROM changes WHERE version < ?", stays):
            entries = state.entries - connection.execute("DELETE FROM changes WHERE version <= ?", (floor,)).rowcount
        else:
            floor, entries = state.floor, state.entries
        connection.execute("UPDATE log SET version = ?, floor = ?, entries = ?", (state.version, floor, entries))

    def _checkpoint(self, connection: sqlite3.Connection, changes: int) -> None:
        """From time to time, move what was committed from the -wal file into the main file.

        SQLite would do this by itself, but alongside writers, which up to 3.51.2 could damage the file (the "WAL-reset
        bug"). FULL keeps writers out meanwhile. It has to wait for readers too, so it gets little time: next time will
        do, and the publishers need not wait for it.
        """
        # About what a transaction writes, in pages.
        self._unmoved += 4 + changes
        if self._unmoved < _CHECKPOINT_PAGES:
            return
        self._unmoved = 0
        # It is committed already, whatever becomes of this.
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA busy_timeout = 100")
            connection.execute("PRAGMA wal_checkpoint(FULL)").fetchall()
        connection.execute(f"PRAGMA busy_timeout = {round(self._timeout * 1000)}")

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The result of `work`, on the file that had the name before and after; it is done again if that changed."""
        trouble: BusUnavailable | BusMismatch | None = None
        for _ in range(_ATTEMPTS):
            before = self._find()
            try:
                if before is None:
                    # Which file is then created is known only when it is opened the next time.
                    self._prepare().close()
                    continue
                result = work(self._connected(before))
            except (sqlite3.Error, OSError) as error:
                self._drop()
                trouble = errors.explain(error, self._path)
                if before == self._find():
                    raise trouble from error
            except BaseException:
                self._drop()
                raise
            else:
                if before == self._find():
                    return result
        raise trouble or errors.always_replaced(self._path)

    def _connected(self, identity: _Identity) -> sqlite3.Connection:
        if self._connection is None or self._identity != identity:
            self._drop()
            self._connection, self._identity = self._prepare(), identity
        return self._connection

    def _prepare(self) -> sqlite3.Connection:
        return prepare(self._path, durable=self._durable, timeout=self._timeout)

    def _drop(self) -> None:
        connection, self._connection, self._seen = self._connection, None, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _find(self) -> _Identity | None:
        """Which file has the name now; None: none, or none that can be reached, as opening it will tell."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return _Identity(found.st_dev, found.st_ino)


@contextmanager
def _transaction(connection: sqlite3.Connection, kind: str) -> Generator[None]:
    """A transaction that is committed at the end; on failure the connection is dropped, which rolls it back."""
    connection.execute("BEGIN " + kind)
    yield
    connection.execute("COMMIT")


def _number(connection: sqlite3.Connection, query: str, *values: float | None) -> int | None:
    """The first value of the first row, if there is one."""
    row = connection.execute(query, values).fetchone()
    return row[0] if row else None
