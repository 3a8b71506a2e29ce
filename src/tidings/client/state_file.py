"""The file that keeps what a client knows, so that it starts warm: cached content, subscriptions, and how far it heard.

What the client tells is noted in memory, the newest for each key, and written soon after in one transaction, by a
thread of its own: the event loop never waits for a disk. A process that is killed leaves an older state, and a whole
one. Trouble with the file is an error when the client starts, and a line in the log afterwards.

May import: `cache`, `invocations`, `errors`.

What a `StateFile` writes at once.

May import: `invocations`.

Invocations as texts, and back.

What the server sent is written as on the wire, so that it can be read back whatever the SDK calls its fields.

May import: `cache`, `invocations`.

The shape of the file behind a `StateFile`, and how one is opened, created and recognised.

Each identity has a row in `states`, its `subscriptions`, and its `entries`: one for each kind and key, in the order in
which they were put. `covered` marks the entries that some process keeps current by a subscription, and names that
process; it stands apart, so that a mark can change without its content being written again.

May import: `errors`.

The file behind a `StateFile`, used by one thread of each process.

What it promises:
- A batch is one transaction, and is written after all that came before it: where one fails, the next takes it along.
  So the cursor in the file is never ahead of the removals that belong to it.
- Content counts as covered only under the cursor of the process that kept it current. Several processes may write
  about one identity: the last one's cursor and subscriptions are those that are found, and what others covered counts
  as merely cached.

May import: `cache`, `invocations`, `errors`.
"""

import asyncio
import logging
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

import anyio
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from tidings.client import _store_errors as errors
from tidings.client.cache import (
    ContentKind,
    Invocation,
    PromptGet,
    ResourceRead,
    TemplateRead,
    ToolCall,
    place_of,
    read_uri,
)

Place = tuple[str, str]
"""A kind and a key."""


class StatePut(NamedTuple):
    """An invocation to be saved, and whether a subscription keeps it current."""

    invocation: Invocation
    covered: bool


@dataclass(frozen=True, slots=True)
class WriteBatch:
    """What is to be written, all or nothing: the newest for each entry, and the state that belongs to it."""

    subscriptions: frozenset[str] = frozenset()
    cursor: str | None = None
    entries: dict[Place, StatePut | None] = field(default_factory=dict[Place, StatePut | None])
    """None removes an entry."""
    cleared: bool = False
    """Everything of before goes first."""

    def then(self, later: "WriteBatch") -> "WriteBatch":
        """Both, as one."""
        if later.cleared:
            return later
        return replace(later, entries=self.entries | later.entries, cleared=self.cleared)

    @property
    def leaves_nothing(self) -> bool:
        """Whether nothing is left to be found once it is written."""
        return self.cleared and not (self.subscriptions or self.cursor is not None or self.entries)


_ADAPTERS: Final[dict[str, TypeAdapter[Any]]] = {
    ContentKind.RESOURCE: TypeAdapter(ResourceRead),
    ContentKind.TEMPLATE: TypeAdapter(TemplateRead),
    ContentKind.PROMPT: TypeAdapter(PromptGet),
    ContentKind.TOOL: TypeAdapter(ToolCall),
}


def encode(invocation: Invocation) -> str | None:
    """The text that stands for `invocation`; None if it holds what no text can, as a program's own argument may."""
    adapter = _ADAPTERS[place_of(invocation)[0]]
    try:
        return adapter.dump_json(invocation, by_alias=True, warnings=False, fallback=_as_dict).decode()
    except PydanticSerializationError:
        return None


def decode(kind: str, key: str, content: str) -> Invocation | None:
    """The invocation that `content` stands for; None if it is of a shape that this version does not know."""
    try:
        invocation: Invocation = _ADAPTERS[kind].validate_json(content)
    except (KeyError, ValidationError):
        return None
    return invocation if place_of(invocation) == (kind, key) else None


def _as_dict(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    raise TypeError(f"{type(value).__name__} is not JSON")


APPLICATION_ID: Final = 0x54494453
"""Marks a database as a state of Tidings ("TIDS")."""

SCHEMA_VERSION: Final = 1

_TABLES: Final = (
    """CREATE TABLE states (
        identity TEXT PRIMARY KEY,
        writer TEXT NOT NULL,  -- whose cursor and subscriptions these are: the last who wrote
        cursor TEXT
    ) WITHOUT ROWID""",
    "CREATE TABLE subscriptions (identity TEXT, uri TEXT, PRIMARY KEY (identity, uri)) WITHOUT ROWID",
    """CREATE TABLE entries (
        id INTEGER PRIMARY KEY,
        identity TEXT NOT NULL,
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        content TEXT NOT NULL,
        UNIQUE (identity, kind, key)
    )""",
    """CREATE TABLE covered (
        identity TEXT,
        kind TEXT,
        key TEXT,
        writer TEXT NOT NULL,  -- who keeps it current; the mark means nothing under the cursor of another
        PRIMARY KEY (identity, kind, key)
    ) WITHOUT ROWID""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)

_opening = threading.Lock()
"""Closing any descriptor of a file drops all locks of its process on it: nobody opens a file while one creates it."""


def prepare(path: Path, *, timeout: float) -> sqlite3.Connection:
    """A connection to the state at `path`, which is created if there is none; `timeout` is how long a lock may last."""
    deadline = time.monotonic() + timeout
    while True:
        connection = _connect(path, timeout)
        try:
            _prepare(connection, path)
        except BaseException as error:
            connection.close()
            # SQLite waits for most locks by itself, but not for the one it needs to switch to WAL.
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
        else:
            return connection


def _connect(path: Path, timeout: float) -> sqlite3.Connection:
    with _opening:
        # SQLite would let others read what it creates. Its two other files take over the mode of this one.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return sqlite3.connect(path, timeout=timeout, isolation_level=None)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    # A loss of power may take the last commits: what is left is an older state, and whole.
    connection.execute("PRAGMA synchronous = NORMAL")
    # Whoever writes does it: see there.
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    # In one transaction: another process may be creating it between one look and the next.
    connection.execute("BEGIN")
    ours = _is_ours(connection, path)
    connection.execute("COMMIT")
    if not ours:
        _create(connection, path)
    if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
        raise errors.no_wal(path)


def _is_ours(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is a state; False if it is empty. Anything else is refused."""
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
            Path(f"{path}-shm").unlink(missing_ok=True)
        for statement in _TABLES:
            connection.execute(statement)
    connection.execute("COMMIT")


def _is_busy(error: BaseException) -> bool:
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


logger = logging.getLogger(__name__)

T = TypeVar("T")

_CHECKPOINT_BYTES: Final = 4 * 2**20
_PAGE: Final = 4096


@dataclass(frozen=True, slots=True)
class LoadedState:
    """What was in the file."""

    puts: list[StatePut]
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
        self._unwritten: WriteBatch | None = None
        self._unmoved = 0
        self._in_trouble = False

    def load(self) -> LoadedState:
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
                found.puts.append(StatePut(invocation, bool(covered)))
        if found.unreadable:
            logger.warning(
                "%d of %d entries in the state file %s cannot be read by this version, and are left out",
                len(found.unreadable),
                len(rows),
                self._path,
            )
        return found

    def write(self, batch: WriteBatch) -> bool:
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

    def _load(self, connection: sqlite3.Connection) -> tuple[list[tuple[str, str, str, int]], LoadedState]:
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
        return rows, LoadedState([], [], self._subscriptions, cursor)

    def _write(self, connection: sqlite3.Connection, batch: WriteBatch) -> None:
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

    def _write_state(self, connection: sqlite3.Connection, batch: WriteBatch) -> None:
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


_LONGEST_RETRY: Final = 60.0


@dataclass(frozen=True, slots=True)
class Saved:
    """What a client knew when its state was last written."""

    invocations: tuple[Invocation, ...] = ()
    """In the order in which they were put."""
    covered: frozenset[str] = frozenset()
    """The URIs all of whose content, read directly or by a template, was kept current up to `cursor`."""
    subscriptions: frozenset[str] = frozenset()
    cursor: str | None = None


class StateFile:
    """The state of a client, for one server and one principal, in the SQLite file at `path`.

    `identity` stands for both, so that what one principal may read is never shown to another; several may share a
    file, in one process or in many. If two processes have the same identity, the last to write wins, and its content
    counts as covered.

    What is noted is written `delay` seconds later, and at the end. If that fails, it is tried again after `retry`
    seconds, and then ever more rarely. `timeout` is for how many seconds another process may keep the file locked.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        identity: str,
        *,
        delay: float = 0.05,
        retry: float = 1.0,
        timeout: float = 5.0,
    ) -> None:
        # Absolute, so that a change of the working directory does not lead to another file.
        self._file = File(Path(path).absolute(), identity, timeout=timeout)
        self._delay = delay
        self._retry = self._pause = retry
        # One thread: what is asked of the file is done in the order of asking.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tidings-state")
        self._subscriptions: frozenset[str] = frozenset()
        self._cursor: str | None = None
        self._entries: dict[Place, StatePut | None] = {}
        self._cleared = False
        self._unsaved = False
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[bool] | None = None
        self._closed = False

    async def load(self) -> Saved:
        """What is saved; nothing if there is no file yet, which is then created, for this user alone.

        Raises:
            StateUnusable: The file cannot be used. The message says why, and what to do.
        """
        found = await asyncio.shield(self._in_thread(self._file.load))
        self._subscriptions, self._cursor = found.subscriptions, found.cursor
        for place in found.unreadable:
            self._note(place, None)
        of_resources = [(read_uri(put.invocation), put.covered) for put in found.puts]
        uncovered = {uri for uri, covered in of_resources if not covered}
        return Saved(
            invocations=tuple(put.invocation for put in found.puts),
            covered=frozenset(uri for uri, _ in of_resources if uri is not None and uri not in uncovered),
            subscriptions=found.subscriptions,
            cursor=found.cursor,
        )

    def note_put(self, invocation: Invocation, covered: bool) -> None:
        """Save `invocation` in place of what its key had.

        `covered` says that a subscription to its URI was established before it was read, and still is.
        """
        self._note(place_of(invocation), StatePut(invocation, covered))

    def note_uncovered(self, read: ResourceRead) -> None:
        """Save that a subscription no longer keeps this copy current."""
        self.note_put(read, covered=False)

    def note_removed(self, kind: ContentKind, key: str) -> None:
        """Forget what was saved under `kind` and `key`."""
        self._note((kind, key), None)

    def note_subscriptions(self, subscriptions: Iterable[str]) -> None:
        """These are the subscriptions from now on."""
        self._subscriptions = frozenset(subscriptions)
        self._changed()

    def note_cursor(self, cursor: str | None) -> None:
        """So far the client has heard. What follows from it, removals above all, is to be noted first."""
        self._cursor = cursor
        self._changed()

    async def flush(self) -> None:
        """Write what was noted. If that fails it is logged, and tried again later."""
        while self._writing or (self._unsaved and not self._closed):
            if not await asyncio.shield(self._writing or self._write()):
                return

    async def clear(self) -> None:
        """Forget everything that was saved or noted. If that fails it is logged, and tried again later."""
        self._subscriptions, self._cursor = frozenset(), None
        self._entries, self._cleared = {}, True
        self._changed()
        await self.flush()

    async def aclose(self) -> None:
        """Write what was noted, and let go of the file. What is noted afterwards is lost."""
        if self._closed:
            return
        if self._unsaved or self._writing:
            self._write()
        self._closed = True
        closing = self._in_thread(self._file.close)
        self._thread.shutdown(wait=False)
        # Even when cancelled: whoever closes it may delete the file next.
        with anyio.CancelScope(shield=True):
            await asyncio.shield(closing)

    def _note(self, place: Place, put: StatePut | None) -> None:
        # The newest last: that is the order in which they are found again.
        self._entries.pop(place, None)
        self._entries[place] = put
        self._changed()

    def _changed(self) -> None:
        self._unsaved = True
        self._write_after(self._delay)

    def _write_after(self, seconds: float) -> None:
        if self._timer is None and self._writing is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._write)

    def _write(self) -> asyncio.Future[bool]:
        """Have everything that was noted written, as one."""
        if self._timer is not None:
            self._timer.cancel()
        batch = WriteBatch(self._subscriptions, self._cursor, self._entries, self._cleared)
        self._entries, self._cleared, self._unsaved, self._timer = {}, False, False, None
        self._writing = writing = self._in_thread(self._file.write, batch)
        writing.add_done_callback(self._written)
        return writing

    def _written(self, writing: asyncio.Future[bool]) -> None:
        self._writing = None
        if writing.result():
            self._pause = self._retry
            if self._unsaved:
                self._write_after(self._delay)
        else:
            self._unsaved = True
            self._write_after(self._pause)
            # Each try makes texts of all that waits: no use in doing that every second for hours.
            self._pause = min(self._pause * 2, _LONGEST_RETRY)

    def _in_thread(self, work: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
