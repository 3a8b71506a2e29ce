"""The store: versions of pages, and who watches them, kept for a while.

One mechanism: SQLite, in memory without a path. With one, what is stored survives a restart, and several processes may
share it. All work on it is done by one thread, in the order of asking.

A write that has begun is waited for, even by whoever is cancelled meanwhile: what became of it is never unknown.
`model` lists the methods and what they give.

May import: `clock`, `database`, `entries`, `model`, `moment`, `pages`, `watches`.
"""

import asyncio
import secrets
import sqlite3
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import anyio.lowlevel

from tidings.web.store import pages, watches
from tidings.web.store import pages as pages_module
from tidings.web.store.database import Database
from tidings.web.store.model import (
    PageFacts,
    PartKind,
    PutOutcome,
    StoreChanges,
    StoredPage,
    StoredVersion,
    StoredWatch,
    StoreError,
    Summary,
    VersionPart,
)
from tidings.web.store.transaction import Owner, StoreBounds, Transaction, settle

T = TypeVar("T")


class Store:
    """An async context manager.

    Args:
        path: The file to keep it in; in memory without one.
        ttl: For how many seconds an entry is kept.
        max_entries: How many are kept; two versions of each watched page are kept besides.
        max_bytes: How many bytes all of them may take.
        max_pages: Of how many pages something is known at all.
        alive: For how many seconds a heartbeat counts. Then what this process watches ends, unless it is explicit.
        clock: Seconds since 1970.
        timeout: How long to wait for a lock of another process, in seconds.

    Raises:
        ValueError: There would be no room for anything.
        StoreError: On entering: the file cannot be used.
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
        self._bounds = StoreBounds(ttl, max_entries, max_bytes, max_pages)
        self._owner = Owner(secrets.token_hex(8), alive)
        self._clock = clock
        # Absolute, so that a change of the working directory does not lead to another file.
        self._database = Database(None if path is None else path.absolute(), timeout=timeout)
        # One thread: what is asked of the database is done in the order of asking.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tidings-web-store")

    @property
    def owner(self) -> str:
        """What this store is called among those that share the file."""
        return self._owner.name

    async def __aenter__(self) -> Self:
        try:
            await self._in_thread(self._database.open)
        except BaseException:
            self._thread.shutdown(wait=False)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        closing = self._in_thread(self._close)
        self._thread.shutdown(wait=False)
        # Even when cancelled: whoever closes it may delete the file next.
        with anyio.CancelScope(shield=True):
            await asyncio.shield(closing)

    async def put(self, entry: StoredVersion, page: PageFacts) -> PutOutcome:
        """Make `entry` the newest version of its page. The same version may be put again: it is the newest then.

        Raises:
            EntryTooLarge: Its text alone is more than the store may hold.
        """

        def work() -> PutOutcome:
            new = pages_module.prepare(entry, page, self._bounds)
            return self._change(lambda at: pages_module.put(at, new), new.size)

        return await self._finished(work)

    async def get(self, source_id: str) -> StoredVersion | None:
        """An entry, with all its parts."""
        return await self._read(lambda at: pages_module.get(at, source_id))

    async def part(self, source_id: str, kind: PartKind) -> VersionPart | None:
        """One part of an entry. None as well if the entry has no such part."""
        return await self._read(lambda at: pages_module.part(at, source_id, kind))

    async def page_of(self, url_or_page_id: str) -> StoredPage | None:
        """The page with that id, or the one that the URL leads to."""
        return await self._read(lambda at: pages.find(at, url_or_page_id))

    async def listing(self, after: str | None = None, limit: int = 50) -> tuple[list[Summary], str | None]:
        """Entries, newest first, and the cursor (`after`) of those that follow.

        Raises:
            BadCursor: No listing gave `after`.
        """
        return await self._read(lambda at: pages_module.listing(at, after, limit))

    async def source_ids(self, prefix: str = "", limit: int = 100) -> list[str]:
        """The source_ids that begin so, newest first."""
        return await self._read(lambda at: pages_module.source_ids(at, prefix, limit))

    async def page_ids(self, prefix: str = "", limit: int = 100) -> list[str]:
        """The page_ids that begin so, last seen first."""
        return await self._read(lambda at: pages.page_ids(at, prefix, limit))

    async def checked(
        self,
        page_id: str,
        *,
        etag: str | None,
        last_modified: str | None,
        at: float | None = None,
        of: StoredPage | None = None,
    ) -> bool:
        """The page has the content that it had. Its newest version lives on; False if that is gone already.

        `of`: as the page was when the site was asked. If somebody put another content since, the answer says nothing of
        that, and nothing is written.
        """
        when = self._clock() if at is None else at
        return await self._write(lambda moment: pages.checked(moment, page_id, etag, last_modified, when, of=of))

    async def told(self, page_id: str, content_hash: str) -> None:
        """Everybody who wants to know was told that the page has become this, or need not be.

        Until then it is `untold`, so that what a process did not come to tell before it died can be told by another.
        """
        await self._write(lambda at: pages.told(at, page_id, content_hash))

    async def prune(self) -> tuple[str, ...]:
        """Remove what has expired. Gives the source_ids."""

        def work(at: Transaction) -> tuple[str, ...]:
            settle(at)
            watches.forget(at)
            return pages_module.prune(at)

        gone = await self._write(work)
        if gone:
            await self._in_thread(self._database.free)
        return gone

    async def next_expiry(self) -> float | None:
        """When there will be something to prune, as it looks now."""
        return await self._read(pages_module.next_expiry)

    async def news(self, since: int | None = None) -> StoreChanges:
        """What other processes did since the mark of an earlier answer; without one, only a mark."""
        return await self._read(lambda at: pages.news(at, since))

    async def begin_watch(
        self,
        page_id: str,
        *,
        explicit: bool,
        options: Mapping[str, Any] | None = None,
        next_at: float | None = None,
    ) -> StoredWatch | None:
        """Watch a page: until this process ends, or, `explicit`, until somebody says otherwise.

        Args:
            page_id: The page; None is the answer if it is not known, or cannot be fetched.
            explicit: Whether it is to survive this process.
            options: How to watch it. None: as before, if it was watched like that, else none.
            next_at: When to look at it first; None: now, or as it was if somebody watches it already.
        """
        return await self._write(lambda at: watches.begin(at, page_id, options, next_at, explicit=explicit))

    async def hasten(self, page_id: str) -> bool:
        """Have a page looked at as soon as may be, whoever watches it; False: nobody does.

        A look that is on its way does not count: it may have begun too early.
        """
        return await self._write(lambda at: watches.hasten(at, page_id))

    async def end_watch(self, page_id: str, *, explicit: bool) -> bool:
        """End what `begin_watch` began; whether the page is still watched, by whomever."""
        return await self._write(lambda at: watches.end(at, page_id, explicit=explicit))

    async def watch_of(self, page_id: str) -> StoredWatch | None:
        """The watch of a page."""
        return await self._read(lambda at: watches.find(at, page_id))

    async def watches(self, explicit: bool = False) -> list[StoredWatch]:
        """All watches; or those alone that are explicit."""
        return await self._read(lambda at: watches.every(at, explicit=explicit))

    async def due(self, limit: int, lease: float) -> list[StoredWatch]:
        """Claim pages that are to be looked at: nobody else gets them for `lease` seconds. A heartbeat, too."""
        return await self._write(lambda at: watches.due(at, limit, lease))

    async def next_due(self) -> float | None:
        """When `due` will have something, as it looks now."""
        return await self._read(watches.next_due)

    async def reschedule(
        self, page_id: str, next_at: float, *, failures: int = 0, state: Mapping[str, Any] | None = None
    ) -> bool:
        """Give a claimed page back, to be looked at again at `next_at`; `state` None: as it was.

        False: the claim had been lost, or the watch has ended, and nothing was changed.
        """
        return await self._write(lambda at: watches.reschedule(at, page_id, next_at, failures, state))

    async def release(self, page_id: str) -> None:
        """Give a claimed page back, as it was."""
        await self._write(lambda at: watches.release(at, page_id))

    async def heartbeat(self) -> None:
        """Say that this process lives."""
        await self._write(watches.beat)

    async def _read(self, work: Callable[[Transaction], T]) -> T:
        return await self._in_thread(lambda: self._database.read(lambda connection: work(self._moment(connection))))

    async def _write(self, work: Callable[[Transaction], T]) -> T:
        return await self._finished(lambda: self._change(work))

    async def _finished(self, work: Callable[[], T]) -> T:
        await anyio.lowlevel.checkpoint_if_cancelled()
        doing = self._in_thread(work)
        with anyio.CancelScope(shield=True):
            await asyncio.wait([doing])
        return doing.result()

    def _in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        try:
            return asyncio.get_running_loop().run_in_executor(self._thread, work)
        except RuntimeError as error:
            raise StoreError("The store is closed. Open it again.") from error

    def _change(self, work: Callable[[Transaction], T], size: int = 0) -> T:
        then: list[Callable[[], object]] = []

        def change(connection: sqlite3.Connection) -> T:
            at = self._moment(connection)
            result = work(at)
            then[:] = at.then
            return result

        result = self._database.write(change, size)
        for step in then:
            step()
        return result

    def _moment(self, connection: sqlite3.Connection) -> Transaction:
        # Looked at when the transaction has begun, however long another process kept it waiting.
        return Transaction(connection, self._clock(), self._owner, self._bounds)

    def _close(self) -> None:
        with suppress(StoreError):
            self._change(watches.leave)
        self._database.close()
