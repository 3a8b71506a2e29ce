"""`Indexer`: keeps the index equal to the disk.

The index belongs to one thread, which reads, compares and stores one batch after the other, so that a single note never
waits for more than a batch of a long build.
"""

import asyncio
import ctypes
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from typing import Any, Protocol, TypeVar

import anyio

from tidings._kit.backoff import Pauses, doubling
from tidings._kit.tasks import Wakeup
from tidings.vault.bases.rows import BaseRows
from tidings.vault.change_detection import ChangeDetector, FoundChanges, SubscribedResources, Touched, all_of, touched
from tidings.vault.files.paths import Vault, uri
from tidings.vault.files.writer import VaultWriter
from tidings.vault.index.index import Index, IndexBlocked, IndexDamaged
from tidings.vault.index.queries import Queries
from tidings.vault.index.scan import ScanBatch, ScanPlan, VaultAway, look, plan, read_all
from tidings.vault.notes.model import IndexEntry
from tidings.vault.resources.render import fingerprint
from tidings.vault.view import IndexStatus, VaultView
from tidings.vault.watch import Changed, Happening, LookAround, WentAway, is_settings

logger = logging.getLogger(__name__)

T = TypeVar("T")

_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 1.0, 15.0
_QUIET_SECONDS = 1.0
_UNSETTLED_TRIES = 2
_UNSETTLED_SECONDS = 0.1  # Also the shortest pause between two looks at a file that is being written.
_LONGEST_UNSETTLED_SECONDS = 2.0
_LONGEST_WRITE_SECONDS = 2.0  # The wait of the watcher for a tool that writes.
_YIELDED_SECONDS = 15.0
_RECENT_SECONDS = 60.0
_MOST_BEFORE = 20  # Notes that change at once, of which the texts before are published.
_LOGGED_FILES = 500  # From this many files on, reading them is logged.


class IndexOwner(Protocol):
    """Has what the indexer needs, and gets to know what it does."""

    vault: Vault
    writer: VaultWriter
    interest: SubscribedResources
    open_index: Callable[[], Index]  # Called in the thread of the index.
    watcher: Callable[[Vault], AsyncGenerator[Happening]]

    async def publish_found(self, found: FoundChanges) -> None: ...
    def index_changed(self) -> None: ...  # The index, its state, or the app's settings changed.
    async def settings_changed(self) -> None: ...  # The app's settings changed.
    async def index_closes(self) -> None: ...  # The index is about to be closed or replaced: close all readers.
    def index_opened(self, index: Index) -> None: ...
    async def index_built(self, index: Index) -> None: ...  # It was equal to the disk for the first time.
    async def index_complete(self) -> None: ...  # It is equal to the disk, for the first time since it was opened.


class Indexer:
    """Follows the changes on the disk that the watcher of its owner sees."""

    def __init__(self, owner: IndexOwner) -> None:
        self._owner = owner
        self._writes = 0  # Tools that write at present.
        self._written = Wakeup()
        self._searches = 0  # Searches that read the disk, because the first index is not complete.
        self._unhindered = threading.Event()  # Set while there is none.
        self._unhindered.set()
        self._yields = 0.0  # Seconds that the first index may still wait for them.
        self._progressed = Wakeup()
        self._is_long = False  # The first index takes a while.
        self.status = IndexStatus("indexing")
        self.detector = ChangeDetector(lambda queries, uri: fingerprint(self.view(queries).whole, uri))
        self.complete = asyncio.Event()  # Set once the index has been equal to the disk.
        self.lost: str | None = None  # Why the folder in the vault's place is not the vault, in words for the user.
        self.index: Index
        self._thread: ThreadPoolExecutor
        self._loop: asyncio.AbstractEventLoop
        self._stored = asyncio.Event()
        self._unsettled: set[str] = set()  # Files that were being written when they were to be read.
        self._is_unsettled = asyncio.Event()
        self._following: anyio.CancelScope | None = None
        self._bases = BaseRows()
        self.stopping = False  # Set when the index will be closed soon.
        self._damaged = False
        # Files that `refresh` stored while a full scan is being stored: the scan must not overwrite them.
        self._refreshed: set[str] | None = None

    def view(self, queries: Queries) -> VaultView:
        return VaultView(queries, self._owner.vault, self.status, self._bases, self._owner.writer.journal)

    async def open(self) -> None:
        # New ones, since this may be another event loop. A task that waits already waits for this run.
        if self.complete.is_set():
            self.complete = asyncio.Event()
        self._stored = asyncio.Event()
        self._unsettled, self._is_unsettled = set(), asyncio.Event()
        self.stopping = self._damaged = self._is_long = False
        self._yields = _YIELDED_SECONDS
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "tidings-vault-index")
        self.index = await self.in_thread(self._owner.open_index)
        self.status = IndexStatus("indexing", notes=self._notes())
        self._owner.index_opened(self.index)

    async def aclose(self) -> None:
        """Closes the index, after `follow` has ended."""
        await self._owner.index_closes()
        await self.in_thread(self.index.close)
        self._thread.shutdown(wait=False)
        if not self.complete.is_set():
            self.complete = asyncio.Event()

    async def in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)

    def begin_anew(self) -> None:
        self._damaged = True
        if self._following is not None:
            self._following.cancel()

    def _notes(self, *further: str | None) -> tuple[str, ...]:
        return tuple(note for note in (*self.index.notes, *further) if note)

    async def follow(self) -> None:
        pauses = Pauses(doubling(_RETRY_SECONDS, _LONGEST_RETRY_SECONDS))
        while True:
            with anyio.CancelScope() as self._following:
                try:
                    if self._damaged:
                        logger.warning("The index is damaged and is rebuilt")
                        self.status = IndexStatus("indexing", notes=self._notes())
                        self.complete.clear()
                        await self._owner.index_closes()
                        await self.in_thread(self.index.renew)
                        self._owner.index_opened(self.index)
                        self._damaged = False
                    async with aclosing(self._owner.watcher(self._owner.vault)) as happenings:
                        async for happening in happenings:
                            await self._follow(happening)
                            pauses.reset()
                except IndexDamaged:
                    self._damaged = True
                except Exception as error:
                    # The disk is full, a folder cannot be read, …: the server goes on, and reports it.
                    known = isinstance(error, IndexBlocked)
                    logger.warning("The vault cannot be followed now; trying again: %s", error, exc_info=not known)
                    note = f"The vault cannot be followed now, so this may be out of date: {error}"
                    self.status = IndexStatus("blocked", notes=self._notes(note))
            await anyio.sleep(pauses.next())

    async def _follow(self, happening: Happening) -> None:
        match happening:
            case Changed(paths):
                with anyio.move_on_after(_LONGEST_WRITE_SECONDS):
                    await self._written.until(lambda: not self._writes)
                await self.refresh(filter(None, map(self._owner.vault.relative, paths)))
                if any(map(is_settings, paths)):
                    await self._owner.settings_changed()
            case LookAround(by, note):
                if (before := self.status.phase) == "away":
                    logger.info("The vault is back")
                await self._look_around()
                if before == "blocked":
                    logger.info("The vault is followed again")
                if not self.index.is_built:
                    await self.in_thread(self.index.keep_built)
                    await self._owner.index_built(self.index)
                if self._is_long and not self.complete.is_set():
                    # A long build has freed much memory. Not every C library gives it back to the system by itself.
                    with suppress(AttributeError, OSError, TypeError):
                        await self.in_thread(ctypes.CDLL(None).malloc_trim, 0)
                await self._become(IndexStatus("watching" if by == "events" else "polling", notes=self._notes(note)))
                if not self.complete.is_set():
                    self.complete.set()
                    self._progressed()
                    await self._owner.index_complete()
            case WentAway(note):
                logger.warning("%s", note)
                await self._become(IndexStatus("away", notes=self._notes(note)))

    async def _look_around(self) -> None:
        """Makes the index equal to the disk. Waits for a vault whose folder is missing."""
        while True:
            self._refreshed = set()
            try:
                todo = await self.in_thread(plan, self._owner.vault, self.index, self._give_way)
                if len(todo.changed) > _LOGGED_FILES:
                    logger.info("Indexing %s files", f"{len(todo.changed):,}")
                self.lost = None
                unsettled = await self._read_and_store(todo)
                break
            except VaultAway as away:
                self.lost = str(away)
                await self._become(IndexStatus("away", notes=self._notes(str(away))))
                await anyio.sleep(_RETRY_SECONDS)
            finally:
                self._refreshed = None
        await self.refresh(unsettled)

    @contextmanager
    def writing(self) -> Generator[None]:
        """Lets the watcher wait: what a tool writes is published as its caller's doing, not as somebody else's."""
        self._writes += 1
        try:
            yield
        finally:
            self._writes -= 1
            self._written()

    async def soon_complete(self, seconds: float) -> None:
        """Waits until the index is complete; not if it takes longer than this, or is known to take long."""
        with anyio.move_on_after(seconds):
            await self._progressed.until(lambda: self._is_long or self.complete.is_set())

    @contextmanager
    def searching(self) -> Generator[None]:
        """Lets the first index wait for a search that has to read the disk: both need the same core."""
        self._searches += 1
        self._unhindered.clear()
        try:
            yield
        finally:
            self._searches -= 1
            if not self._searches:
                self._unhindered.set()

    def _give_way(self, changed: int = 0) -> None:
        if changed > _LOGGED_FILES and not self._is_long:
            self._is_long = True  # A search need not wait until all folders are walked through.
            self._loop.call_soon_threadsafe(self._progressed)
        if self._yields > 0 and not (self._unhindered.is_set() or self.index.is_built):
            began = time.monotonic()
            self._unhindered.wait(self._yields)
            self._yields -= time.monotonic() - began

    async def refresh(self, paths: Iterable[str]) -> None:
        """Stores the differences of these files, and of everything in these folders.

        Files that another program is writing are left to `settle`.
        """
        paths = frozenset(paths)
        for attempt in range(_UNSETTLED_TRIES):
            if attempt:
                await anyio.sleep(_UNSETTLED_SECONDS)
            try:
                todo = await self.in_thread(look, self._owner.vault, self.index, paths)
                if self._refreshed is not None:
                    self._refreshed.update(todo.gone, (seen.path for seen in todo.changed))
                paths = frozenset(await self._read_and_store(todo, fresh=True))
            except VaultAway:
                return  # The watcher sees that too, and everything is scanned when it is back.
            if not paths:
                return
        self._unsettled |= paths
        self._is_unsettled.set()

    async def settle(self) -> None:
        """Reads files that another program was writing, until it has finished."""
        pause = _UNSETTLED_SECONDS
        while True:
            await self._is_unsettled.wait()
            self._is_unsettled.clear()
            await anyio.sleep(pause)
            paths, self._unsettled = self._unsettled, set()
            try:
                await self.refresh(paths)
            except (IndexBlocked, IndexDamaged) as error:
                logger.info("Files that were being written cannot be indexed now: %s", error)
            pause = min(2 * pause, _LONGEST_UNSETTLED_SECONDS) if self._unsettled else _UNSETTLED_SECONDS

    async def _read_and_store(self, todo: ScanPlan, *, fresh: bool = False) -> list[str]:
        """Reads and stores differences, batch by batch. Returns the files that could not be read for now."""
        gone, unsettled, done, total = todo.gone, list[str](), 0, len(todo.changed)
        batches = read_all(self._owner.vault, todo.changed, stopped=lambda: self.stopping)

        def following() -> ScanBatch | None:
            batch = next(batches, None)
            if not fresh:
                self._give_way()
            return batch

        try:
            while batch := await self.in_thread(following):
                await self._store(batch.entries, [*gone, *batch.gone], fresh=fresh)
                gone = []
                unsettled += batch.unsettled
                done += sum(map(len, batch))
                if not self.complete.is_set():
                    self.status = IndexStatus("indexing", (done, total), self._notes())
                if _LOGGED_FILES < total > done:
                    # A terminal may show it as a progress bar.
                    logger.info("Indexed %s of %s files", f"{done:,}", f"{total:,}", extra={"progress": (done, total)})
        finally:
            with anyio.CancelScope(shield=True):
                await self.in_thread(batches.close)
        if gone:
            await self._store([], gone, fresh=fresh)
        return unsettled

    async def _store(self, entries: Sequence[IndexEntry], gone: Sequence[str], *, fresh: bool) -> None:
        if self._refreshed and not fresh:
            # Something newer was stored in the meantime.
            entries = [entry for entry in entries if entry.path not in self._refreshed]
            gone = [path for path in gone if path not in self._refreshed]
        subscriptions = self._owner.interest.remembered()

        # In the first build everything is new, and nothing has changed, but for what was seen to change meanwhile.
        is_building = not self.index.is_built and not fresh

        def compare_and_store() -> tuple[dict[str, str], bool, dict[str, str]]:
            queries, before = self.index.queries, dict[str, str]()
            what = touched(queries, entries, gone, deep=bool(subscriptions))
            # For those who wait for a prefix, and have no text of their own.
            if len(what.paths) <= _MOST_BEFORE and any(text.endswith("*") for text in subscriptions):
                notes = [path for path in what.paths if path.lower().endswith(".md")]
                before = {uri("note", path): queries.text(path) or "" for path in notes}
            found = self.detector.around(queries, what, subscriptions, partial(self.index.apply, entries, gone))
            # The files come first: a process that hears of them looks at them, and then has the rest as well.
            return {**({} if is_building else what.files), **found}, what.moved, before

        states, listed, before = await self.in_thread(compare_and_store)
        self._stored.set()
        self._owner.index_changed()
        if states or listed:
            newest = max((max(entry.stamp.mtime, entry.stamp.ctime) for entry in entries), default=0) / 1e9
            # A file that was moved keeps its time, which may be long ago.
            recent = abs(time.time() - newest) < _RECENT_SECONDS
            changed_at = newest if recent else None
            await self._owner.publish_found(FoundChanges(states, listed, changed_at, before, local=is_building))

    async def _become(self, status: IndexStatus) -> None:
        """Changes the status, and publishes the resources that contain it."""
        if status == self.status:
            return

        def compare() -> dict[str, str]:
            queries = self.index.queries
            what = all_of(queries) if any(text.endswith("*") for text in subscriptions) else Touched(everything=True)
            detector = ChangeDetector(lambda queries, uri: fingerprint(self.view(queries), uri))
            return detector.around(queries, what, subscriptions, partial(setattr, self, "status", status))

        subscriptions = self._owner.interest.remembered()
        await self._owner.publish_found(FoundChanges(await self.in_thread(compare), local=True))
        self._owner.index_changed()

    async def tidy(self) -> None:
        while True:
            await self._stored.wait()
            self._stored.clear()
            await anyio.sleep(_QUIET_SECONDS)
            try:
                # At least one step: under constant edits, the full text would grow without it.
                while await self.in_thread(self.index.tidy) and not self._stored.is_set():
                    pass
            except (IndexBlocked, IndexDamaged) as error:
                logger.info("The index cannot be maintained now: %s", error)
