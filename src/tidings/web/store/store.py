"""`Store`: versions of pages, and who watches them, kept for a while.

It is a SQLite database in memory, or in a file: then what is stored survives a restart, and several processes may share
it. One thread does all work on it, in the order of asking.

A write that has begun is waited for, even by a caller that is cancelled meanwhile: its outcome is always known. All
times are seconds since 1970, by the store's clock. Every method may raise `StoreError`, after which the store is as it
was before.
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
from typing import Any, Final, Self, TypeVar

import anyio
import anyio.lowlevel

from tidings._kit.sqlite import Database, OnDamage
from tidings._kit.sqlite_errors import Trouble, Wording
from tidings.web.store import pages, watches
from tidings.web.store.model import (
    PageFacts,
    PartKind,
    PutOutcome,
    StoredPage,
    StoredVersion,
    StoredWatch,
    StoreError,
    Summary,
    VersionPart,
)
from tidings.web.store.schema import SCHEMA
from tidings.web.store.transaction import Owner, StoreBounds, Transaction, settle

T = TypeVar("T")

_WORDING: Final = Wording(
    "store",
    start_over="Update Tidings, or choose another path.",
    texts={
        Trouble.TOO_BIG: "cannot hold a text or picture of that size ({error}). Fetch less of the page.",
        Trouble.NEWER: "was written by a newer version of Tidings (schema {found}, this one has {known}). {start_over}",
    },
)


class Store:
    """The store of one process: an async context manager.

    Args:
        path: The file; in memory without one. One that is damaged, or of an older version, is set aside.
        ttl: Seconds for which a version is kept.
        max_entries: Versions that are kept; two of each watched page are kept besides.
        max_bytes: Bytes that all of them may take.
        max_pages: Pages of which anything is known.
        alive: Seconds for which a heartbeat counts. Then what this process watches ends, unless it is explicit.
        clock: Seconds since 1970.
        timeout: Seconds to wait for a lock of another process.

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

    @property
    def owner(self) -> str:
        """The name of this store among those that share the file."""
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
        # Even when cancelled: the caller may delete the file next.
        with anyio.CancelScope(shield=True):
            await asyncio.shield(closing)

    async def put(self, entry: StoredVersion, page: PageFacts) -> PutOutcome:
        """Makes `entry` the newest version of its page. The same version may be put again: it is the newest then.

        Raises `EntryTooLarge` if its text alone is more than the store may hold.
        """

        def work() -> PutOutcome:
            new = pages.prepare(entry, page, self._bounds)
            return self._change(lambda at: pages.put(at, new), new.size)

        return await self._finished(work)

    async def get(self, source_id: str) -> StoredVersion | None:
        """Returns a version with all its parts; None if it expired, was evicted, or never existed."""
        return await self._read(lambda at: pages.get(at, source_id))

    async def part(self, source_id: str, kind: PartKind) -> VersionPart | None:
        """Returns one part of a version; None if the version does not exist, or has no such part."""
        return await self._read(lambda at: pages.part(at, source_id, kind))

    async def page_of(self, url_or_page_id: str) -> StoredPage | None:
        """Returns the page with that id, or the one that the URL leads to."""
        return await self._read(lambda at: pages.find(at, url_or_page_id))

    async def listing(self, after: str | None = None, limit: int = 50) -> tuple[list[Summary], str | None]:
        """Returns versions, newest first, and the cursor (`after`) of those that follow.

        Raises `StoreCursorInvalid` if `after` did not come from a listing.
        """
        return await self._read(lambda at: pages.listing(at, after, limit))

    async def source_ids(self, prefix: str = "", limit: int = 100) -> list[str]:
        """Returns the source_ids that begin with `prefix`, newest first."""
        return await self._read(lambda at: pages.source_ids(at, prefix, limit))

    async def page_ids(self, prefix: str = "", limit: int = 100) -> list[str]:
        """Returns the page_ids that begin with `prefix`, last seen first."""
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
        """Notes that a page still has its content. Its newest version lives on; False if that is gone already.

        `of` is the page as it was when the site was asked. If another content was put since, the answer says nothing
        about that, and nothing is written.
        """
        when = self._clock() if at is None else at
        return await self._write(lambda write: pages.checked(write, page_id, etag, last_modified, when, of=of))

    async def announced(self, page_id: str, content_hash: str) -> None:
        """Notes that subscribers were notified of this content, or need not be.

        Until then the page is `unannounced`, so that another process can notify them if this one dies first.
        """
        await self._write(lambda at: pages.announced(at, page_id, content_hash))

    async def prune(self) -> tuple[str, ...]:
        """Removes what has expired, and returns the source_ids."""

        def work(at: Transaction) -> tuple[str, ...]:
            settle(at)
            watches.forget(at)
            return pages.prune(at)

        gone = await self._write(work)
        if gone:
            await self._in_thread(self._database.free)
        return gone

    async def next_expiry(self) -> float | None:
        """Returns when there will be something to prune, as far as is known now."""
        return await self._read(pages.next_expiry)

    async def begin_watch(
        self, page_id: str, *, explicit: bool, options: Mapping[str, Any] | None = None, next_at: float | None = None
    ) -> StoredWatch | None:
        """Watches a page until this process ends or, if `explicit`, until `end_watch`.

        Args:
            page_id: The page. None is returned if it is not known, or cannot be fetched.
            explicit: Whether the watch survives this process.
            options: How to watch it. None: as before, if it was watched already.
            next_at: When to look at it first. None: now, or as scheduled if it is watched already.
        """
        return await self._write(lambda at: watches.begin(at, page_id, options, next_at, explicit=explicit))

    async def hasten(self, page_id: str) -> bool:
        """Makes a page due now for whichever process looks at it; False if it is not watched.

        A look in progress does not count: it may have begun too early.
        """
        return await self._write(lambda at: watches.hasten(at, page_id))

    async def end_watch(self, page_id: str, *, explicit: bool) -> bool:
        """Ends what `begin_watch` began. Returns whether the page is still watched by anyone."""
        return await self._write(lambda at: watches.end(at, page_id, explicit=explicit))

    async def watch_of(self, page_id: str) -> StoredWatch | None:
        """Returns the watch of a page."""
        return await self._read(lambda at: watches.find(at, page_id))

    async def watches(self, explicit: bool = False) -> list[StoredWatch]:
        """Returns all watches, or only the explicit ones."""
        return await self._read(lambda at: watches.every(at, explicit=explicit))

    async def due(self, limit: int, lease: float) -> list[StoredWatch]:
        """Claims pages that are due: no other process gets them for `lease` seconds. Also counts as a heartbeat."""
        return await self._write(lambda at: watches.due(at, limit, lease))

    async def next_due(self) -> float | None:
        """Returns when `due` will have something, as far as is known now."""
        return await self._read(watches.next_due)

    async def reschedule(
        self, page_id: str, next_at: float, *, failures: int = 0, state: Mapping[str, Any] | None = None
    ) -> bool:
        """Gives a claimed page back, due again at `next_at`; without `state`, that stays as it was.

        False: the claim was lost, or the watch has ended, and nothing was changed.
        """
        return await self._write(lambda at: watches.reschedule(at, page_id, next_at, failures, state))

    async def release(self, page_id: str) -> None:
        """Gives a claimed page back, due as before."""
        await self._write(lambda at: watches.release(at, page_id))

    async def heartbeat(self) -> None:
        """Notes that this process lives. To be called a few times in every `alive` seconds."""
        await self._write(watches.beat)

    async def _read(self, work: Callable[[Transaction], T]) -> T:
        return await self._in_thread(lambda: self._database.read(lambda connection: work(self._begun(connection))))

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
            at = self._begun(connection)
            result = work(at)
            then[:] = at.then
            return result

        result = self._database.write(change, size)
        for step in then:
            step()
        return result

    def _begun(self, connection: sqlite3.Connection) -> Transaction:
        # The clock is read when the transaction has begun, however long another process kept it waiting.
        return Transaction(connection, self._clock(), self._owner, self._bounds)

    def _close(self) -> None:
        with suppress(StoreError):
            self._change(watches.leave)
        self._database.close()
