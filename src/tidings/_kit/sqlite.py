"""A SQLite database: opened, owned, shared between processes, recovered when damaged, and its errors in words.

- `read` sees one moment, and `write` is one transaction: all or nothing. One thread uses it at a time.
- A file of another application, or of a newer version, is never touched. `OnDamage` says what happens to a damaged one.
- A file that another program deleted or replaced is noticed, and the work done again on the one that has the name now.
- Each failure of SQLite or of the disk becomes the error of the owner, with its cause and its cure.

No descriptor of the file is closed beside SQLite while it is in use: that would drop SQLite's POSIX locks.
"""

import itertools
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Final, TypeVar

from tidings._kit.files import locked
from tidings._kit.sqlite_errors import SQLITE_ERRORS, DatabaseUnfit, Trouble, Wording, explain, trouble_of

logger = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

_ATTEMPTS: Final = 5  # Times that work is done on a file that is replaced meanwhile
_CHECKPOINT_BYTES: Final = 4 * 2**20
_PAGE: Final = 4096
_FREED_PAGES: Final = 2000
_HEADER: Final = 72  # Bytes at the beginning of a database; the last four of them are its application id
_COMPANIONS: Final = ("-wal", "-shm", "-journal")
_HERE: Final = (0, 0)  # Stands for a file that nobody replaces, or for memory

_SET_ASIDE: Final = {Trouble.DAMAGED, Trouble.NOT_A_DATABASE, Trouble.OLDER}
_PASSING: Final = {Trouble.LOCKED, Trouble.FULL, Trouble.TOO_BIG, Trouble.INTERRUPTED}
"""A connection is none the worse for these."""

_opening = threading.Lock()
"""Held while a file is created: closing its descriptor must not drop the locks of another thread."""
_numbers = itertools.count()


class OnDamage(Enum):
    """Says what happens to a file that is damaged or of an older version."""

    REFUSE = auto()  # It is left as it is, and every use fails
    SET_ASIDE = auto()
    """It gets another name, if it says that it is ours, and work goes on with an empty one, at opening and later."""
    REBUILD = auto()
    """At opening it is deleted and made anew, whatever it was. Later a use fails, and the owner calls `renew`."""


@dataclass(frozen=True)
class Schema:
    """The shape of a database, with a version that is raised with every change of the tables.

    `tables` are the statements that create everything, and `fill` inserts the first rows, in one transaction. Those in
    `checked` are looked at when a file is opened, so that damage shows early. `pragmas` are for each new connection.
    """

    application_id: int | None  # Marks a file as ours. None: a file is ours if its version (`user_version`) is not 0.
    version: int
    tables: Sequence[str]
    fill: Callable[[sqlite3.Connection], object] | None = None
    checked: Sequence[str] = ()
    pragmas: Sequence[str] = ()
    upgrades: Mapping[int, Sequence[str | Work[object]]] = field(
        default_factory=dict[int, Sequence[str | Work[object]]]
    )  # The statements and functions that make this version of an older one, by its number. Other versions are unfit.


def statements_in(script: Path) -> list[str]:
    """Returns the statements of a file of SQL. Each ends with a semicolon at the end of a line."""
    return script.read_text("utf-8").removesuffix(";\n").split(";\n")


def delete_database(path: Path) -> None:
    """Deletes a database, with what SQLite keeps beside it."""
    for suffix in ("", *_COMPANIONS):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


@dataclass(eq=False)
class Database:
    """A database in a file, or in memory. Nothing is opened before the first use, or `open`."""

    path: Path | None  # The file; None: in memory. Links are followed.
    schema: Schema
    _: KW_ONLY
    wording: Wording
    error: Callable[[Trouble, str], Exception]
    """Makes the error to raise from a trouble and a sentence. SQLite's own error is its `__cause__`."""
    timeout: float = 5.0  # Seconds that a lock of another process may last
    on_damage: OnDamage = OnDamage.REFUSE
    create: bool = True  # Make a database of a file that does not exist, or is empty
    private: bool = True  # Make a new file readable for its owner alone
    exclusive: bool = False
    """The owner holds a lock on a file of its own, so that no other process uses this one. The file is not looked for
    before each use, and SQLite moves the log into the file by itself (`wal_autocheckpoint`). `connection` and
    `transaction` may be used; a database in memory may have readers."""
    opened: Callable[[sqlite3.Connection], object] | None = None
    """Called with each new connection, before its first use. What it raises counts as a failure to open."""
    aside: Callable[[Path], Path] = lambda path: path.with_name(f"{path.name}.damaged")  # Names the file set aside
    on_set_aside: Callable[[Path, Path, Exception], object] | None = None
    """Called with the path, the new path and the reason. Without it, a warning is logged."""

    def __post_init__(self) -> None:
        # Several connections share it, each with its own view, as with a file.
        self._memory = f"file:/tidings-{next(_numbers)}?vfs=memdb" if self.exclusive else ":memory:"
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._unmoved = 0

    def open(self) -> None:
        """Connects, and creates what does not exist. Raises the owner's error if that fails."""
        self.use(lambda _: None)

    def read(self, work: Work[T]) -> T:
        """Returns what `work` finds, all of it at one moment. Raises the owner's error if it cannot be read."""
        return self._do(work, "BEGIN")

    def write(self, work: Work[T], size: int = 0) -> T:
        """Does `work`, which writes about `size` bytes, all or nothing. Raises the owner's error if it failed."""
        result = self._do(work, "BEGIN IMMEDIATE")
        self._checkpoint(size)
        return result

    def use(self, work: Work[T]) -> T:
        """Does `work` without a transaction around it. Raises the owner's error if it failed."""
        return self._do(work, None)

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection, opened if need be. For an `exclusive` database: any other file may be replaced."""
        if not self.exclusive:
            raise RuntimeError("use read(), write() or use(): another process may replace the file")
        if self._connection is None:
            self.open()
            assert self._connection is not None  # noqa: S101 - opened, or an error was raised
        return self._connection

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """Holds a write transaction, as `write` does, around a `with` block. For an `exclusive` database."""
        connection = self.connection
        try:
            with transaction(connection, "BEGIN IMMEDIATE"):
                yield connection
        except SQLITE_ERRORS as error:
            raise self.explained(error) from error

    def reader(self) -> sqlite3.Connection:
        """Returns another connection, for another thread, that only reads. The caller closes it."""
        if self.path is None and not self.exclusive:
            raise RuntimeError("a database in memory has readers only if it is exclusive")
        try:
            connection = self._connect()
            connection.execute("PRAGMA query_only = 1")
        except SQLITE_ERRORS as error:
            raise self.explained(error) from error
        return connection

    def explained(self, error: Exception) -> Exception:
        """Returns the owner's error to raise in place of `error`, which SQLite or the system raised."""
        return self.error(*explain(error, self.path, self.schema.version, self.wording))

    def free(self) -> None:
        """Gives unused pages back to the disk, if there are many. Needs `PRAGMA auto_vacuum = INCREMENTAL`."""
        if self.path is not None and self._connection is not None:
            with suppress(*SQLITE_ERRORS):
                if self._connection.execute("PRAGMA freelist_count").fetchone()[0] > _FREED_PAGES:
                    # Each step frees a page, and `execute` does one step of what gives no rows.
                    self._connection.executescript(f"PRAGMA incremental_vacuum({10 * _FREED_PAGES})")

    def set_aside(self, reason: Exception) -> None:
        """Gives the file another name, because of `reason`. The next use begins an empty one."""
        if self.path is not None:
            self.close()
            self._move_aside(self._find(), reason)

    def renew(self) -> None:
        """Begins with an empty database in place of a damaged one. All readers have to be closed before."""
        self.close()
        try:
            if self.path is not None:
                delete_database(self._real_path())
        except OSError as error:
            raise self.explained(error) from error
        self.open()

    def close(self) -> None:
        """Lets go of it. The next use opens it again; what was in memory is gone then."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*SQLITE_ERRORS):
                connection.close()

    def _do(self, work: Work[T], begin: str | None) -> T:
        """The result of `work`, on the file that had the name before and after; it is done again if that changed."""
        failure: Exception | None = None
        may_set_aside = self.on_damage is OnDamage.SET_ASIDE and self.path is not None
        for _ in range(_ATTEMPTS):
            before = self._find()
            try:
                if before is None:
                    # Which file is then created is known only when it is opened the next time.
                    self._open().close()
                    continue
                connection = self._connected(before)
                if connection is None:
                    continue
                with transaction(connection, begin):
                    result = work(connection)
            except (*SQLITE_ERRORS, OSError) as error:
                failure = self.explained(error)
                in_use = self._connection is not None
                if trouble_of(error) not in _PASSING:
                    self.close()
                if before != self._find():
                    continue
                if not (in_use and may_set_aside and trouble_of(error) in _SET_ASIDE):
                    raise failure from error
                # It was opened as ours, so it is, whatever it looks like now. Once: the new one is not damaged.
                may_set_aside = False
                self._move_aside(before, error)
            else:
                if before == self._find():
                    return result
        raise failure or self.explained(DatabaseUnfit(Trouble.REPLACED, ""))

    def _connected(self, identity: tuple[int, int]) -> sqlite3.Connection | None:
        """The connection to the file of this identity; None if another one took its place while it was opened."""
        if self._connection is None or self._identity != identity:
            self.close()
            connection = self._open()
            if self._find() != identity:
                connection.close()
                return None
            self._connection, self._identity = connection, identity
        return self._connection

    def _open(self) -> sqlite3.Connection:
        if self.path is None or self.on_damage is OnDamage.REFUSE:
            return self._prepared()
        with self._lock():
            try:
                return self._prepared()
            except SQLITE_ERRORS as error:
                if self.on_damage is OnDamage.REBUILD:
                    if trouble_of(error) is Trouble.LOCKED:
                        raise
                    logger.info("rebuilding the %s %s: %s", self.wording.name, self.path, error)
                    delete_database(self._real_path())
                elif trouble_of(error) not in _SET_ASIDE or self.schema.application_id is None:
                    raise
                else:  # The file may be a letter of the user's: only one that says that it is ours is moved away.
                    with self._real_path().open("rb") as file:
                        header = file.read(_HEADER)
                    ours = self.schema.application_id.to_bytes(4, "big")
                    if not (header.startswith(b"SQLite format 3\0") and header.endswith(ours)):
                        raise
                    self._rename(error)
            return self._prepared()

    def _prepared(self) -> sqlite3.Connection:
        """A connection to a database of our schema, after a wait for other processes."""
        deadline = time.monotonic() + self.timeout
        while True:
            try:
                connection = self._connect()
                try:
                    self._prepare(connection)
                except BaseException:
                    connection.close()
                    raise
            except SQLITE_ERRORS as error:
                # SQLite waits for most locks by itself, but not for the one that it needs to switch to WAL.
                if trouble_of(error) is not Trouble.LOCKED or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
            else:
                return connection

    def _connect(self) -> sqlite3.Connection:
        if self.path is None:
            address = self._memory
        elif not self.create:
            address = f"{self._real_path().as_uri()}?mode=rw"
        else:
            address = os.fspath(self._real_path())
        with _opening:
            if self.private and self.create and self.path is not None:
                # SQLite would let others read what it creates. Its other files take over the mode of this one.
                with suppress(FileExistsError):
                    os.close(os.open(address, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            connection = sqlite3.connect(
                address,
                timeout=self.timeout,
                isolation_level=None,
                check_same_thread=False,
                uri=address.startswith("file:"),
            )
        try:
            connection.execute("PRAGMA synchronous = NORMAL")
            # The -wal file grows while a reader needs what is in it. Without a limit it would never shrink again.
            connection.execute(f"PRAGMA journal_size_limit = {_CHECKPOINT_BYTES}")
            if not self.exclusive:
                connection.execute("PRAGMA wal_autocheckpoint = 0")  # See `_checkpoint`.
            for pragma in self.schema.pragmas:
                connection.execute(pragma)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        # In one transaction: another process may be creating it between one look and the next.
        with transaction(connection, "BEGIN"):
            ours = self._is_ours(connection)
        if not ours:
            self._fill(connection)
        for table in self.schema.checked:
            connection.execute(f"SELECT * FROM {table} LIMIT 1").fetchall()  # noqa: S608 - names of the schema
        if self.path is not None and self.create:
            mode: str = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal" and not self.exclusive:
                raise DatabaseUnfit(Trouble.NO_SHARED_MEMORY, "no shared memory")
        if self.opened is not None:
            self.opened(connection)

    def _is_ours(self, connection: sqlite3.Connection) -> bool:
        """Returns whether it has this schema; False if it is empty or to be upgraded. Else raises `DatabaseUnfit`."""
        application: int = connection.execute("PRAGMA application_id").fetchone()[0]
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        known = self.schema.version
        if application != (self.schema.application_id or 0) or (self.schema.application_id is None and not version):
            tables: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if application or version or tables or not self.create:
                raise DatabaseUnfit(Trouble.OTHER_APPLICATION, "it is the database of another application")
            return False
        if version in self.schema.upgrades:
            return False
        if version < known:
            raise DatabaseUnfit(Trouble.OLDER, f"it is of an older version ({version}, this is {known})", version)
        if version > known:
            raise DatabaseUnfit(Trouble.NEWER, f"it is of a newer version ({version}, this is {known})", version)
        return True

    def _fill(self, connection: sqlite3.Connection) -> None:
        with transaction(connection, "BEGIN EXCLUSIVE"):
            if self._is_ours(connection):
                return  # Another process was faster.
            # When only the main file was deleted, its shared memory is still there, and in use by processes that have
            # not noticed yet. This new file never was in WAL mode and is locked, so nobody needs it for this one.
            # (The old -wal file is deleted by SQLite itself.)
            if self.path is not None and connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete":
                Path(f"{self._real_path()}-shm").unlink(missing_ok=True)
            version: int = connection.execute("PRAGMA user_version").fetchone()[0]
            for step in self.schema.upgrades.get(version, self.schema.tables):
                connection.execute(step) if isinstance(step, str) else step(connection)
            if self.schema.fill is not None and not version:
                self.schema.fill(connection)
            connection.execute(f"PRAGMA application_id = {self.schema.application_id or 0}")
            connection.execute(f"PRAGMA user_version = {self.schema.version}")

    def _move_aside(self, identity: tuple[int, int] | None, reason: Exception) -> None:
        with self._lock():
            if identity is not None and self._find() == identity:  # Another process may have done it.
                self._rename(reason)

    def _rename(self, reason: Exception) -> None:
        path = self._real_path()
        to = self.aside(path)
        if self.on_set_aside is None:
            name = self.wording.name
            logger.warning("starting a new %s %s; the old one is kept as %s: %s", name, self.path, to.name, reason)
        for suffix in _COMPANIONS:
            Path(f"{to}{suffix}").unlink(missing_ok=True)
            with suppress(FileNotFoundError):
                Path(f"{path}{suffix}").replace(f"{to}{suffix}")
        path.replace(to)
        if self.on_set_aside is not None:
            self.on_set_aside(path, to, reason)

    def _lock(self) -> AbstractContextManager[None]:
        """Keeps out other processes that create the file or set it aside: SQLite's locks are on what is moved."""
        path = self._real_path()
        needed = self.on_damage is OnDamage.SET_ASIDE
        return locked(path.with_name(f"{path.name}-lock"), self.timeout) if needed else nullcontext()

    def _checkpoint(self, size: int) -> None:
        """Moves what was committed from the -wal file into the main file, from time to time, while no other writes.

        SQLite itself does it beside writers, which up to 3.51.2 could damage the file (the "WAL-reset bug").
        """
        self._unmoved += 4 * _PAGE + size
        if self._connection is None or self.path is None or self.exclusive or self._unmoved < _CHECKPOINT_BYTES:
            return
        self._unmoved = 0
        # It is committed already, whatever becomes of this.
        with suppress(*SQLITE_ERRORS):
            self._connection.execute("PRAGMA busy_timeout = 100")
            self._connection.execute("PRAGMA wal_checkpoint(FULL)").fetchall()
        with suppress(*SQLITE_ERRORS):
            self._connection.execute(f"PRAGMA busy_timeout = {round(self.timeout * 1000)}")

    def _real_path(self) -> Path:
        return Path(os.path.realpath(self.path or ""))

    def _find(self) -> tuple[int, int] | None:
        """Identifies the file that has the name now; None: there is none, or none that can be reached."""
        if self.path is None or self.exclusive:
            return _HERE
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str | None = "BEGIN IMMEDIATE") -> Generator[None]:
    """Holds a transaction: committed at the end, rolled back on failure. None: the block begins one if it needs it."""
    if begin is not None:
        connection.execute(begin)
    try:
        yield
        if begin is not None:
            connection.execute("COMMIT")
    except BaseException:
        with suppress(*SQLITE_ERRORS):  # SQLite has done it already after some errors, or there is none.
            connection.execute("ROLLBACK")
        raise
