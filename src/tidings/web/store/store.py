"""`Store`: versions of pages, and who watches them, kept for a while in memory or in a file that processes share.

One thread does all work on the database, in the order of asking. A write that has begun is waited for, even by a caller
that is cancelled. Times are seconds since 1970. Any method may raise `StoreError`; the store is then as it was before.

The tables are in `schema.sql`. `no` numbers all events in their order, whatever the clock says. A page is watched as
long as it has a row in `watchers`: one with the owner '' for the explicit watch, and one for each process that has
subscribers; `owners` says until when such a process counts as alive. Whatever lasts for a time has that time beside its
end (`ttl`, `wait`, `lease`, `alive`): an end further ahead was computed before the clock stepped back.
"""

import asyncio
import re
import secrets
import sqlite3
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, Self, TypeVar

import anyio.lowlevel

from tidings._kit.sqlite import Database, OnDamage, Schema, statements_in
from tidings._kit.sqlite_errors import Trouble, Wording
from tidings._kit.tasks import run_to_end
from tidings.web.documents.model import page_id as page_id_of
from tidings.web.store import pages
from tidings.web.store import watches as watching
from tidings.web.store.model import PageFacts, PutOutcome, StoredVersion, StoreError
from tidings.web.store.transaction import Owner, Transaction, options_text

P = ParamSpec("P")
T = TypeVar("T")

APPLICATION_ID: Final = 0x54494457  # marks a database as a store of web pages of Tidings ("TIDW")

_STATEMENTS: Final = statements_in(Path(__file__).with_name("schema.sql"))
_TABLES: Final = tuple(found[1] for each in _STATEMENTS if (found := re.match(r"\s*CREATE TABLE (\w+)", each)))
_FIRST_COUNT: Final = "INSERT INTO counters VALUES (1, 0, 0, '')"
_PIN: Final = """UPDATE entries SET pinned = page_id IN (SELECT page_id FROM watchers) AND variant IN (
        SELECT variant FROM watchers w WHERE w.page_id = entries.page_id
        UNION ALL
        SELECT variant FROM entries n WHERE n.no = (SELECT max(no) FROM entries v WHERE v.page_id = entries.page_id)
    ) AND no IN (
        SELECT max(no) FROM entries v WHERE v.page_id = entries.page_id AND v.variant = entries.variant
        UNION ALL
        SELECT max(no) FROM entries v WHERE v.page_id = entries.page_id AND v.variant = entries.variant
        AND v.content_hash <> (
            SELECT content_hash FROM entries n WHERE n.page_id = entries.page_id AND n.variant = entries.variant
            ORDER BY n.no DESC LIMIT 1)
    ) WHERE page_id = {page_id}"""
"""Pins two versions of a watched page: the newest, and the newest with another content, which is the other side of its
diff. Both are of one variant: the one that was fetched last, and each that is watched."""

_TRIGGERS: Final = tuple(
    f"CREATE TRIGGER {table}_{event} AFTER {event} ON {table} BEGIN {_PIN.format(page_id=page_id)}; END"
    for table in ("entries", "watchers")
    for event, page_id in (("insert", "new.page_id"), ("delete", "old.page_id"))
)

_WATCHES_OF_2: Final = """CREATE TEMP TABLE kept AS
    SELECT coalesce(json_extract(w.options, '$.fetch.url'), p.url) AS url, json_remove(w.options, '$.since') AS options,
    w.variant FROM watchers w JOIN pages p USING (page_id) WHERE owner = '' AND p.url IS NOT NULL"""


def _begin_watches_again(connection: sqlite3.Connection) -> None:
    """Puts what `_WATCHES_OF_2` took out of a store of version 2 into the new tables.

    Up to that version a page was identified by the URL that it claimed for itself. All else there can be fetched again.
    """
    do = connection.execute
    for number, (url, options, variant) in enumerate(do("SELECT url, options, variant FROM kept").fetchall()):
        page, asked = page_id_of(url), options_text({"url": url})
        do(
            "INSERT OR IGNORE INTO pages VALUES (?, ?, ?, '', 0, NULL, NULL, ?, '', ?, 0, '', 0)",
            (page, url, url, asked, number),
        )
        do("INSERT OR IGNORE INTO watchers VALUES (?, '', ?, ?, 0)", (page, options, variant))
        do("INSERT OR IGNORE INTO watches VALUES (?, 0, 0, 0, '{}', NULL, 0, 0)", (page,))
    do("DROP TABLE kept")


SCHEMA: Final = Schema(
    APPLICATION_ID,
    # Raised with every change of the tables. A store of a version without an upgrade is set aside: all of it can be
    # fetched again.
    version=3,
    tables=(*_STATEMENTS, *_TRIGGERS),
    fill=lambda connection: connection.execute(_FIRST_COUNT),
    # Damage is noticed now rather than later.
    checked=[*_TABLES, "watched"],
    upgrades={
        2: (
            _WATCHES_OF_2,
            "DROP VIEW watched",
            *(f"DROP TABLE {table}" for table in (*_TABLES, "aliases")),
            *_STATEMENTS,
            *_TRIGGERS,
            _FIRST_COUNT,
            _begin_watches_again,
        )
    },
    # Unused pages are given back to the disk, a few at a time (`Database.free`).
    pragmas=("PRAGMA auto_vacuum = INCREMENTAL", f"PRAGMA journal_size_limit = {16 * 2**20}"),
)
_WORDING: Final = Wording(
    "store",
    start_over="Update Tidings, or choose another path.",
    texts={
        Trouble.TOO_BIG: "cannot hold a text or picture of that size ({error}). Fetch less of the page.",
        Trouble.NEWER: "was written by a newer version of Tidings (schema {found}, this one has {known}). {start_over}",
    },
)


def _operation(
    work: Callable[Concatenate[Transaction, P], T], *, writes: bool = False
) -> "Callable[Concatenate[Store, P], Awaitable[T]]":
    """Returns the method of `Store` that does `work` in a transaction."""

    @wraps(work)
    async def method(store: "Store", *args: P.args, **options: P.kwargs) -> T:
        return await (store.write if writes else store.read)(lambda at: work(at, *args, **options))

    return method


class Store:
    """The store of one process. Its operations are described in `pages` and `watches`.

    A file at `path` that is damaged, or of an older version, is set aside; without a path the store is in memory. A
    version is kept for `ttl` seconds, two of each watched page besides. What this process watches ends `alive` seconds
    after its last heartbeat, unless it is explicit. Entering raises `StoreError` if the file cannot be used.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        ttl: float,
        max_entries: int,
        max_bytes: int,
        max_pages: int = 10_000,
        alive: float = 90.0,
        clock: Callable[[], float] = time.time,
        timeout: float = 5.0,
    ) -> None:
        self._owner = Owner(secrets.token_hex(8), alive, ttl, max_entries, max_bytes, max_pages)
        self.clock = clock
        self._database = Database(
            # Absolute, so that a change of the working directory does not lead to another file.
            None if path is None else path.absolute(),
            SCHEMA,
            wording=_WORDING,
            error=lambda _, text: StoreError(text),
            timeout=timeout,
            on_damage=OnDamage.SET_ASIDE,
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tidings-web-store")

    async def __aenter__(self) -> Self:
        try:
            await self._in_thread(self._database.open)
        except BaseException:
            self._thread.shutdown(wait=False)
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        closing = self._in_thread(self._close)
        self._thread.shutdown(wait=False)
        await run_to_end(closing)  # Even when cancelled: the caller may delete the file next.

    get = _operation(pages.get)
    part = _operation(pages.part)
    page_of = _operation(pages.page_of)
    listing = _operation(pages.listing)
    source_ids = _operation(pages.source_ids)
    page_ids = _operation(pages.page_ids)
    next_expiry = _operation(pages.next_expiry)
    checked = _operation(pages.checked, writes=True)
    announced = _operation(pages.announced, writes=True)

    watch_of = _operation(watching.find)
    watches = _operation(watching.every)
    next_due = _operation(watching.next_due)
    begin_watch = _operation(watching.begin, writes=True)
    end_watch = _operation(watching.end, writes=True)
    hasten = _operation(watching.hasten, writes=True)
    due = _operation(watching.due, writes=True)
    reschedule = _operation(watching.reschedule, writes=True)
    release = _operation(watching.release, writes=True)
    heartbeat = _operation(watching.beat, writes=True)

    async def put(self, entry: StoredVersion, page: PageFacts) -> PutOutcome:
        """Makes `entry` the newest version of its page, even again. Raises `StoreError` if its text does not fit."""

        def work() -> PutOutcome:
            parts = pages.prepare(entry, self._owner)
            return self._change(lambda at: pages.put(at, entry, page, parts), sum(map(len, parts.values())))

        return await self._finished(work)

    async def prune(self) -> tuple[str, ...]:
        """Removes what has expired, and returns the source_ids."""

        def work(at: Transaction) -> tuple[str, ...]:
            at.settle()
            watching.forget(at)
            at.remove(expired := at.expired())
            return tuple(expired)

        gone = await self.write(work)
        if gone:
            await self._in_thread(self._database.free)
        return gone

    async def read(self, work: Callable[[Transaction], T]) -> T:
        return await self._in_thread(lambda: self._database.read(lambda connection: work(self._begun(connection))))

    async def write(self, work: Callable[[Transaction], T]) -> T:
        return await self._finished(lambda: self._change(work))

    async def _finished(self, work: Callable[[], T]) -> T:
        await anyio.lowlevel.checkpoint_if_cancelled()
        return await run_to_end(self._in_thread(work))

    def _in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        try:
            return asyncio.get_running_loop().run_in_executor(self._thread, work)
        except RuntimeError as error:
            raise StoreError("The store is closed. Open it again.") from error

    def _change(self, work: Callable[[Transaction], T], size: int = 0) -> T:
        return self._database.write(lambda connection: work(self._begun(connection)), size)

    def _begun(self, connection: sqlite3.Connection) -> Transaction:
        # The clock is read when the transaction has begun, however long another process kept it waiting.
        return Transaction(connection, self.clock(), self._owner)

    def _close(self) -> None:
        with suppress(StoreError):
            self._change(watching.leave)
        self._database.close()
