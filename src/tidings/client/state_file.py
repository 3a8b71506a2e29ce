"""`StateFile`: content, subscriptions and cursor of a client in SQLite, so that the next process starts warm.

Changes are noted in memory, the newest for each key, and written soon after in one transaction by a thread of its own.
If one fails, the next includes it: so the cursor in the file is never ahead of the removals that belong to it. Content
counts as covered only under the cursor of the process that kept it current. If several processes write about one
identity, the last one's cursor and subscriptions count, and what others covered counts as merely cached.
"""

import asyncio
import logging
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from tidings._kit.sqlite import Database, Schema, statements_in
from tidings._kit.sqlite_errors import Wording
from tidings.client import cache
from tidings.errors import StateUnusable

logger = logging.getLogger(__name__)

T = TypeVar("T")
Place = tuple[str, str]

# Not in the schema of the first release. Files of both can be used by both.
_SERVERS: Final = "CREATE TABLE IF NOT EXISTS servers (identity TEXT PRIMARY KEY, server TEXT) WITHOUT ROWID"
_KEPT: Final = (
    "CREATE TABLE IF NOT EXISTS kept "
    "(identity TEXT, kind TEXT, key TEXT, content TEXT NOT NULL, PRIMARY KEY (identity, kind, key))"
)
_SCHEMA: Final = Schema(
    application_id=0x54494453,  # "TIDS"
    version=1,
    tables=statements_in(Path(__file__).with_name("state_file.sql")),
)
_WORDING: Final = Wording(
    "state file",
    start_over="It only saves time: delete it with its -wal and -shm files while nothing uses it, or choose another "
    "path.",
)
_ADAPTERS: Final[dict[str, TypeAdapter[Any]]] = {
    cache.ContentKind.RESOURCE: TypeAdapter(cache.ResourceRead),
    cache.ContentKind.TEMPLATE: TypeAdapter(cache.TemplateRead),
    cache.ContentKind.PROMPT: TypeAdapter(cache.PromptGet),
    cache.ContentKind.TOOL: TypeAdapter(cache.ToolCall),
}


def encode(invocation: cache.Invocation) -> str | None:
    """Returns an invocation as JSON, as on the wire; None if it holds something else, such as an argument's object."""
    adapter = _ADAPTERS[cache.place_of(invocation)[0]]
    try:
        return adapter.dump_json(invocation, by_alias=True, warnings=False, fallback=dict).decode()
    except PydanticSerializationError:
        return None


def decode(kind: str, key: str, content: str) -> cache.Invocation | None:
    """Returns the invocation that was encoded; None if this version does not know its shape."""
    try:
        invocation: cache.Invocation = _ADAPTERS[kind].validate_json(content)
    except (KeyError, ValidationError):
        return None
    return invocation if cache.place_of(invocation) == (kind, key) else None


@dataclass(slots=True)
class WriteBatch:
    """The content of one transaction: the newest for each entry, and the state that belongs to it."""

    subscriptions: frozenset[str] = frozenset()
    cursor: str | None = None
    server: str | None = None
    # The invocation, and whether a subscription keeps it current. None removes an entry.
    entries: dict[Place, tuple[cache.Invocation, bool] | None] = field(default_factory=dict[Place, Any])
    cleared: bool = False  # True if everything from before is removed first, except what is kept.
    kept: dict[Place, str | None] = field(default_factory=dict[Place, Any])  # None removes a row.


@dataclass(frozen=True, slots=True)
class Saved:
    """The knowledge of a client when its state was last written."""

    invocations: tuple[cache.Invocation, ...] = ()  # In the order in which they were put.
    # The URIs whose content, read directly or by a template, was all kept current up to `cursor`.
    covered: frozenset[str] = frozenset()
    subscriptions: frozenset[str] = frozenset()
    cursor: str | None = None
    server: str | None = None  # The identity of the server that it comes from; None if that is not known.
    kept: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Any])  # By kind and key.


class _File:
    """The state of `identity` in the file at `path`. Used by one thread."""

    def __init__(self, path: Path, identity: str, *, timeout: float) -> None:
        self._path = path
        self._identity = identity
        self.database = Database(
            path,
            _SCHEMA,
            wording=_WORDING,
            error=lambda _, text: StateUnusable(text),
            timeout=timeout,
            opened=self._opened,
        )
        self._writer = ""
        self._subscriptions: frozenset[str] | None = None  # As last written or read by this process.
        self._unwritten: WriteBatch | None = None
        self._in_trouble = False

    def _opened(self, connection: sqlite3.Connection) -> None:
        connection.execute(_SERVERS)
        connection.execute(_KEPT)
        # It may be another file. What was covered there may be out of date, and a new writer covers nothing.
        self._writer, self._subscriptions = secrets.token_hex(8), None

    def load(self) -> tuple[Saved, list[Place]]:
        """Returns what is saved, for this process to keep current, and the entries that this version cannot read."""
        # A write even if nothing changes: a file that this process may only read fails now, not later.
        rows, saved = self.database.write(self._load)
        self._subscriptions = saved.subscriptions
        invocations: list[cache.Invocation] = []
        unreadable: list[Place] = []
        uncovered: set[str | None] = set()
        for kind, key, content, is_covered in rows:
            if (invocation := decode(kind, key, content)) is None:
                unreadable.append((kind, key))
                continue
            invocations.append(invocation)
            if not is_covered:
                uncovered.add(cache.read_uri(invocation))
        if unreadable:
            count = f"{len(unreadable)} of {len(rows)}"
            text = "%s entries in the state file %s cannot be read by this version, and are left out"
            logger.warning(text, count, self._path)
        covered = frozenset(uri for uri in map(cache.read_uri, invocations) if uri is not None and uri not in uncovered)
        return replace(saved, invocations=tuple(invocations), covered=covered), unreadable

    def write(self, batch: WriteBatch) -> bool:
        """Writes `batch`, after what could not be written before. Returns whether that succeeded; logs trouble once."""
        if (before := self._unwritten) is not None and not batch.cleared:
            batch = replace(batch, entries=before.entries | batch.entries, cleared=before.cleared)
        if before is not None:
            batch = replace(batch, kept=before.kept | batch.kept)
        self._unwritten = batch
        try:
            # Encoded before the transaction, which keeps other processes waiting.
            contents = {place: encode(put[0]) for place, put in batch.entries.items() if put}
            size = sum(4096 + len(content or "") for content in contents.values())  # Each begins a page.
            self.database.write(lambda connection: self._write(connection, batch, contents), size)
        except Exception as error:  # noqa: BLE001 - it is tried again, and the client works without
            if not self._in_trouble:
                logger.warning("the client's state is not saved for now: %s", error)
            self._in_trouble = True
            return False
        if self._in_trouble:
            logger.warning("the client's state is saved again, in %s", self._path)
        self._subscriptions = batch.subscriptions
        self._unwritten, self._in_trouble = None, False
        return True

    def _load(self, connection: sqlite3.Connection) -> tuple[list[tuple[str, str, str, int]], Saved]:
        mine = self._identity
        found = connection.execute("SELECT writer, cursor FROM states WHERE identity = ?", (mine,)).fetchone()
        writer, cursor = found or ("", None)
        server = connection.execute("SELECT server FROM servers WHERE identity = ?", (mine,)).fetchone()
        subscriptions = connection.execute("SELECT uri FROM subscriptions WHERE identity = ?", (mine,)).fetchall()
        rows = connection.execute(
            "SELECT kind, key, content, ifnull(writer = ?, 0) FROM entries LEFT JOIN covered "
            "USING (identity, kind, key) WHERE identity = ? ORDER BY id",
            (writer, mine),
        ).fetchall()
        connection.execute("DELETE FROM covered WHERE identity = ? AND writer <> ?", (mine, writer))
        connection.execute("UPDATE covered SET writer = ? WHERE identity = ?", (self._writer, mine))
        connection.execute("UPDATE states SET writer = ? WHERE identity = ?", (self._writer, mine))
        kept: dict[str, dict[str, str]] = {}
        for kind, key, content in connection.execute(
            "SELECT kind, key, content FROM kept WHERE identity = ? ORDER BY rowid", (mine,)
        ):
            kept.setdefault(kind, {})[key] = content
        uris = frozenset(uri for (uri,) in subscriptions)
        return rows, Saved(subscriptions=uris, cursor=cursor, server=server and server[0], kept=kept)

    def _write(self, connection: sqlite3.Connection, batch: WriteBatch, contents: dict[Place, str | None]) -> None:
        mine = self._identity
        if batch.cleared:
            for table in ("states", "subscriptions", "entries", "covered", "servers"):
                connection.execute(f"DELETE FROM {table} WHERE identity = ?", (mine,))  # noqa: S608
        if not batch.cleared or batch.subscriptions or batch.cursor is not None or batch.entries:
            row = connection.execute("SELECT writer FROM states WHERE identity = ?", (mine,)).fetchone()
            if row != (self._writer,) or self._subscriptions is not batch.subscriptions:
                connection.execute("DELETE FROM subscriptions WHERE identity = ?", (mine,))
                rows = [(mine, uri) for uri in batch.subscriptions]
                connection.executemany("INSERT INTO subscriptions VALUES (?, ?)", rows)
            connection.execute("INSERT OR REPLACE INTO states VALUES (?, ?, ?)", (mine, self._writer, batch.cursor))
            connection.execute("INSERT OR REPLACE INTO servers VALUES (?, ?)", (mine, batch.server))
        for place, put in batch.entries.items():
            row = mine, str(place[0]), place[1]
            with suppress(UnicodeEncodeError):  # A key that cannot be encoded was never saved.
                connection.execute("DELETE FROM entries WHERE identity = ? AND kind = ? AND key = ?", row)
                connection.execute("DELETE FROM covered WHERE identity = ? AND kind = ? AND key = ?", row)
                if put is None or (content := contents.get(place)) is None:
                    continue
                statement = "INSERT INTO entries (identity, kind, key, content) VALUES (?, ?, ?, ?)"
                connection.execute(statement, (*row, content))
                if put[1]:
                    connection.execute("INSERT INTO covered VALUES (?, ?, ?, ?)", (*row, self._writer))
        for (kind, key), content in batch.kept.items():
            row = mine, kind, key
            with suppress(UnicodeEncodeError):
                if content is None:
                    connection.execute("DELETE FROM kept WHERE identity = ? AND kind = ? AND key = ?", row)
                else:
                    kept = "INSERT INTO kept VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET content = excluded.content"
                    connection.execute(kept, (*row, content))


class StateFile:
    """The state of a client, for one server and one principal, in the SQLite file at `path`.

    `identity` stands for both: several may share a file, and none is shown what belongs to another. A change is written
    after `delay` seconds; a write that failed is repeated after `retry` seconds, then ever later. Another process may
    keep the file locked for `timeout` seconds.
    """

    def __init__(
        self, path: Path, identity: str, *, delay: float = 0.05, retry: float = 1.0, timeout: float = 5.0
    ) -> None:
        self._file = _File(Path(path), identity, timeout=timeout)
        self._delay = delay
        self._retry = self._pause = retry
        # One thread, so that everything is done in the order of asking.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tidings-state")
        self._noted = WriteBatch()  # What is written next.
        self._unsaved = False
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[bool] | None = None
        self._closed = False

    async def load(self) -> Saved:
        """Returns what is saved. A file that does not exist is created, for this user alone. Raises `StateUnusable`."""
        saved, unreadable = await asyncio.shield(self._in_thread(self._file.load))
        noted = self._noted
        noted.subscriptions, noted.cursor, noted.server = saved.subscriptions, saved.cursor, saved.server
        for place in unreadable:
            self._note(place, None)
        return saved

    def note_put(self, invocation: cache.Invocation, covered: bool) -> None:
        """Saves `invocation`. `covered`: a subscription to its URI was established before it was read, and still is."""
        self._note(cache.place_of(invocation), (invocation, covered))

    def note_removed(self, kind: cache.ContentKind, key: str) -> None:
        self._note((kind, key), None)

    def note_subscriptions(self, subscriptions: Iterable[str]) -> None:
        self._noted.subscriptions = frozenset(subscriptions)
        self._changed()

    def note_cursor(self, cursor: str | None) -> None:
        """Saves the cursor. Note what follows from it first, removals above all."""
        self._noted.cursor = cursor
        self._changed()

    def note_server(self, identity: str) -> None:
        """Saves the identity of the server. Note first that everything of another one is removed."""
        self._noted.server = identity
        self._changed()

    def note_kept(self, kind: str, key: str, content: str | None) -> None:
        """Saves a row that stays until it is removed with None, whatever else is forgotten."""
        self._noted.kept[kind, key] = content
        self._changed()

    async def flush(self) -> None:
        """Writes what was noted. A failure is logged, and tried again later."""
        while self._writing or (self._unsaved and not self._closed):
            if not await asyncio.shield(self._writing or self._write()):
                return
            await asyncio.sleep(0)  # `_written` takes note in this turn. A write that is done is not waited for.

    async def clear(self) -> None:
        """Removes everything that was saved or noted, except what is kept. A failure is logged, and tried again."""
        self._noted = WriteBatch(server=self._noted.server, cleared=True, kept=self._noted.kept)
        self._changed()
        await self.flush()

    async def aclose(self) -> None:
        """Writes what was noted, and closes the file. What is noted afterwards is lost."""
        if self._closed:
            return
        if self._unsaved or self._writing:
            self._write()
        self._closed = True
        closing = self._in_thread(self._file.database.close)
        self._thread.shutdown(wait=False)
        # Even when cancelled: the caller may delete the file next.
        with anyio.CancelScope(shield=True):
            await asyncio.shield(closing)

    def _note(self, place: Place, put: tuple[cache.Invocation, bool] | None) -> None:
        # The newest last: the order in which they are loaded.
        self._noted.entries.pop(place, None)
        self._noted.entries[place] = put
        self._changed()

    def _changed(self) -> None:
        self._unsaved = True
        self._write_after(self._delay)

    def _write_after(self, seconds: float) -> None:
        if self._timer is None and self._writing is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._write)

    def _write(self) -> asyncio.Future[bool]:
        if self._timer is not None:
            self._timer.cancel()
        batch, self._unsaved, self._timer = self._noted, False, None
        self._noted = WriteBatch(batch.subscriptions, batch.cursor, batch.server)
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
            # Each attempt encodes everything that waits, which is too much to do every second for hours.
            self._pause = min(self._pause * 2, 60.0)

    def _in_thread(self, work: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
