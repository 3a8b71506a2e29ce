"""The file behind a `SqliteBus`: a compacted log in SQLite, used by one thread of each process; and its records.

The version of a change is its row id in `changes`, so that "all after this version" is one walk along the table.
Everything about a change is one write transaction. A version only rises, and is never given twice in an epoch. The
epoch is made with the file, and again when commits may have been lost unnoticed: without `durable`, a loss of power
takes the last ones, so a file that was written to under another boot starts a new epoch. Each connection begins a term
with its first change, so that an older copy of the file is noticed: `Terms`.

The revision of a record is its row id, which SQLite never gives twice (AUTOINCREMENT). It is at least the time in
microseconds, so that it does not repeat in another file that takes the place of this one either.
"""

import secrets
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from tidings._kit.sqlite import Database, OnDamage, Schema
from tidings._kit.sqlite_errors import DatabaseUnreadable, Trouble, Wording
from tidings.bus import Entry, History, StoredRecord
from tidings.bus.shared import NewEntries, Terms, new_term
from tidings.changes import Cursor, change_from_key
from tidings.errors import BusMismatch, BusUnavailable

RECORD_TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS records (
        revision INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, value BLOB NOT NULL, expires REAL NOT NULL
    )""",
    "CREATE INDEX IF NOT EXISTS records_by_expiry ON records (expires)",
)

RecordWork = Callable[[sqlite3.Connection, float], StoredRecord | None]  # With the present time

_REMOVED: Final = 20  # Expired records that one write removes: more than it adds, so that they come to an end.


def read_record(connection: sqlite3.Connection, now: float, key: str) -> StoredRecord | None:
    """Returns the record, if there is one that has not expired."""
    row = connection.execute("SELECT value, revision FROM records WHERE key = ? AND expires > ?", (key, now)).fetchone()
    return StoredRecord(*row) if row else None


def write_record(
    connection: sqlite3.Connection, now: float, key: str, value: bytes, *, seconds: float, expected: int | None
) -> StoredRecord | None:
    """Writes a record, and removes some that have expired. Returns None if it does not have the expected revision."""
    row = connection.execute("SELECT revision FROM records WHERE key = ? AND expires > ?", (key, now)).fetchone()
    if expected is not None and expected != (row[0] if row else 0):
        return None
    old = "SELECT revision FROM records WHERE expires <= ? ORDER BY expires LIMIT ?"
    connection.execute(f"DELETE FROM records WHERE revision IN ({old})", (now, _REMOVED))  # noqa: S608 - no values
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'records'").fetchone()
    revision = max(row[0] + 1 if row else 1, int(now * 1_000_000))
    connection.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", (revision, key, value, now + seconds))
    return StoredRecord(value, revision)


def delete_record(connection: sqlite3.Connection, _: float, key: str) -> None:
    """Deletes the record, if there is one."""
    connection.execute("DELETE FROM records WHERE key = ?", (key,))


APPLICATION_ID: Final = 0x54494447  # Marks a database as a bus of Tidings ("TIDG").
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
)
# Files of version 0.1 lack these, and processes of that version ignore them.
_ADDED: Final = (
    "CREATE TABLE IF NOT EXISTS terms (id INTEGER PRIMARY KEY CHECK (id = 1), terms TEXT NOT NULL)",
    *RECORD_TABLES,
)
_PAGE: Final = 4096
_START_AFRESH: Final = (
    "It only holds recent changes: stop the programs that use it and delete it with its -wal and -shm files, "
    "or use another path."
)
_WORDING: Final = Wording(
    "bus file",
    start_over=_START_AFRESH,
    other_path="Use another path for this bus.",
    texts={
        Trouble.OLDER: (
            other := "was written by another version of Tidings (schema {found}, this one has {known}). "
            "Use the same version in all processes. {start_over}"
        ),
        Trouble.NEWER: other,
        Trouble.NO_SHARED_MEMORY: "is on a file system without shared memory, which SQLite needs to share it between "
        "processes. Put it on a local disk, or use a bus with a broker.",
    },
)
_MISMATCHES: Final = {
    Trouble.NOT_A_DATABASE,
    Trouble.DAMAGED,
    Trouble.MISFIT,
    Trouble.OTHER_APPLICATION,
    Trouble.OLDER,
    Trouble.NEWER,
    Trouble.NO_SHARED_MEMORY,
}


class LogState(NamedTuple):
    """The row of `log`, and the terms."""

    epoch: str
    version: int
    floor: int
    entries: int
    terms: Terms

    @property
    def head(self) -> Cursor:
        return self.cursor(self.version)

    def cursor(self, version: int) -> Cursor:
        return Cursor(self.epoch, version, self.terms.at(version))

    def is_behind(self, cursor: Cursor) -> bool:
        """Returns whether `cursor` was given by a later state of this log."""
        return cursor.epoch == self.epoch and cursor.version > self.version


class SqliteLog:
    """A compacted log in the file at `path`. Each method raises `BusUnavailable` or `BusMismatch` if it fails."""

    def __init__(
        self, path: Path, *, history: History, clock: Callable[[], float], durable: bool, timeout: float, private: bool
    ) -> None:
        self._path = path
        self._history = history
        self._clock = clock
        self._boot = boot_id()
        # Without a way to tell one boot from the next, only syncing each commit is safe.
        self._synced = durable or not self._boot
        self._seen: int | None = None
        self._has_term = False  # This connection has begun a term.
        self._database = Database(
            path,
            Schema(
                APPLICATION_ID,
                SCHEMA_VERSION,
                _TABLES,
                fill=lambda connection: connection.execute(
                    "INSERT INTO log VALUES (1, ?, 0, 0, 0, '')", (secrets.token_hex(6),)
                ),
                pragmas=(
                    f"PRAGMA synchronous = {'FULL' if self._synced else 'NORMAL'}",
                    f"PRAGMA fullfsync = {int(self._synced)}",
                ),
            ),
            wording=_WORDING,
            error=lambda trouble, text: (BusMismatch if trouble in _MISMATCHES else BusUnavailable)(text),
            timeout=timeout,
            private=private,
            on_damage=OnDamage.SET_ASIDE if private else OnDamage.REFUSE,
            opened=self._opened,
        )

    def head(self) -> Cursor:
        return self._database.read(lambda connection: _read_state(connection).head)

    def append(self, keys: Sequence[str], told: Cursor) -> tuple[list[Cursor], NewEntries]:
        """Stores changes by their keys, all or none. Returns their cursors, and everything new after `told`."""
        stored = self._database.write(lambda connection: self._append(connection, keys, told), size=len(keys) * _PAGE)
        self._has_term = True
        return stored

    def news(self, told: Cursor) -> NewEntries | None:
        """Returns what other connections committed since the last call and is new after `told`; None: nothing."""
        return self._database.use(lambda connection: self._news(connection, told))

    def since(self, cursor: Cursor) -> Sequence[Entry] | None:
        """Returns the newest entry for each distinct change after `cursor`, or None if the log cannot know."""
        return self._database.read(lambda connection: self._after(connection, _read_state(connection), cursor).entries)

    def oldest(self) -> tuple[Cursor, float | None]:
        """Returns the cursor after which all changes are known, and the time of the first of them, if there is one."""

        def work(connection: sqlite3.Connection) -> tuple[Cursor, float | None]:
            state = _read_state(connection)
            return state.cursor(state.floor), _number(connection, "SELECT at FROM changes ORDER BY version LIMIT 1")

        return self._database.read(work)

    def records(self, works: Sequence[RecordWork], size: int | None) -> list[StoredRecord | None]:
        """Does everything in `works` at one moment, all or nothing. It writes `size` bytes; None: it only reads."""

        def work(connection: sqlite3.Connection) -> list[StoredRecord | None]:
            now = self._clock()
            return [each(connection, now) for each in works]

        return self._database.read(work) if size is None else self._database.write(work, size)

    def close(self) -> None:
        self._database.close()

    def _opened(self, connection: sqlite3.Connection) -> None:
        """Begins a new epoch if commits may have been lost, and records the boot under which they may be lost now."""
        self._seen = None
        self._has_term = False
        # A write lock even if nothing is written: a read-only file fails here, and not later.
        connection.execute("BEGIN IMMEDIATE")
        for statement in _ADDED:
            connection.execute(statement)
        row = connection.execute("SELECT boot FROM log").fetchone()
        noted = row[0] if row else ""
        if noted and noted != self._boot:
            _begin_epoch(connection)
            noted = ""
        connection.execute("UPDATE log SET boot = ? WHERE boot <> ?", (noted if self._synced else self._boot,) * 2)
        connection.execute("COMMIT")

    def _news(self, connection: sqlite3.Connection, told: Cursor) -> NewEntries | None:
        # Cheap enough to ask all day: it compares one number in memory shared with the other processes.
        seen = _number(connection, "PRAGMA data_version")
        if seen == self._seen:
            return None
        connection.execute("BEGIN")
        state = _read_state(connection)
        news = self._after(connection, state, told)
        connection.execute("COMMIT")
        if state.is_behind(told):
            connection.execute("BEGIN IMMEDIATE")
            news = NewEntries(self._current_state(connection, told).head, None)
            connection.execute("COMMIT")
        self._seen = seen
        return news if news.head != told else None

    def _append(
        self, connection: sqlite3.Connection, keys: Sequence[str], told: Cursor
    ) -> tuple[list[Cursor], NewEntries]:
        state = self._current_state(connection, told)
        if not self._has_term:
            state = state._replace(terms=state.terms.begin(state.version, new_term()))
            connection.execute("INSERT OR REPLACE INTO terms VALUES (1, ?)", (str(state.terms),))
        now = self._clock()
        places = {key: version for version, key in enumerate(keys, state.version + 1)}
        replaced = connection.executemany("DELETE FROM changes WHERE key = ?", [(key,) for key in places]).rowcount
        rows = [(version, key, now) for key, version in places.items()]
        connection.executemany("INSERT INTO changes (version, key, at) VALUES (?, ?, ?)", rows)
        cursors = [state.cursor(state.version + n) for n in range(1, len(keys) + 1)]
        entries = state.entries + len(places) - replaced
        state = state._replace(version=state.version + len(keys), entries=entries)
        # Before trimming: listeners hear of a change even if the history has no room for it.
        news = self._after(connection, state, told)
        self._trim(connection, state, now)
        return cursors, news

    def _current_state(self, connection: sqlite3.Connection, told: Cursor) -> LogState:
        """Reads the state. Begins a new epoch if the file is an older copy, which would give versions a second time."""
        state = _read_state(connection)
        return _begin_epoch(connection) if state.is_behind(told) else state

    def _after(self, connection: sqlite3.Connection, state: LogState, cursor: Cursor) -> NewEntries:
        # Compared here and not by SQLite, whose integers end before a cursor's do.
        covered = cursor.epoch == state.epoch and state.floor <= cursor.version <= state.version
        if not (covered and state.terms.know(cursor)):
            return NewEntries(state.head, None)
        if cursor.version == state.version:
            return NewEntries(state.head, [])
        rows = connection.execute(
            "SELECT version, key FROM changes WHERE version > ? ORDER BY version", (cursor.version,)
        )
        try:
            entries = [(state.cursor(version), change_from_key(key)) for version, key in rows]
        except ValueError as error:
            raise BusMismatch(
                f"The bus file {self._path} holds a change that this version of Tidings cannot read: {error}. "
                f"{_START_AFRESH}"
            ) from error
        return NewEntries(state.head, entries)

    def _trim(self, connection: sqlite3.Connection, state: LogState, now: float) -> None:
        """Drops the oldest entries that exceed the history, and stores the new state.

        Age is taken from the oldest on: one with a wrong time can keep others longer, but never beyond the number.
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
            # At least the newest change stays. So rows are missing: somebody deleted some.
            floor, entries = state.floor, _number(connection, "SELECT count(*) FROM changes")
        elif floor := _number(connection, "SELECT max(version) FROM changes WHERE version < ?", stays):
            entries = state.entries - connection.execute("DELETE FROM changes WHERE version <= ?", (floor,)).rowcount
        else:
            floor, entries = state.floor, state.entries
        connection.execute("UPDATE log SET version = ?, floor = ?, entries = ?", (state.version, floor, entries))


def boot_id() -> str:
    """Returns a text that differs from one boot of this machine to the next, or '' if the system has none."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _read_state(connection: sqlite3.Connection) -> LogState:
    row = connection.execute(
        "SELECT epoch, version, floor, entries, terms FROM log LEFT JOIN terms USING (id)"
    ).fetchone()
    if row is None:
        raise DatabaseUnreadable("the row of its state is gone")
    epoch, version, floor, entries, terms = row
    return LogState(epoch, version, floor, entries, Terms.parse(terms or ""))


def _begin_epoch(connection: sqlite3.Connection) -> LogState:
    """Forgets everything, under a new epoch. Needs a write transaction."""
    connection.execute("DELETE FROM changes")
    connection.execute("DELETE FROM terms")
    connection.execute("UPDATE log SET epoch = ?, floor = version, entries = 0", (secrets.token_hex(6),))
    return _read_state(connection)


def _number(connection: sqlite3.Connection, query: str, *values: float | None) -> int | None:
    """Returns the first value of the first row, if there is one."""
    row = connection.execute(query, values).fetchone()
    return row[0] if row else None
