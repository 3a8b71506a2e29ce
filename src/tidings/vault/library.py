"""A vault and its index, kept equal: what the server's resources, tools and prompts ask.

The index belongs to one thread, the keeper, which reads files, compares and stores, one batch after the other, so that
a long build never keeps a single note waiting for more than a batch. Questions are answered by a few threads with
connections of their own; they see what is stored, and wait for nobody. The event loop only waits.
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from datetime import date
from functools import partial
from typing import Any, Protocol, TypeVar

import anyio

from tidings.vault.files.paths import Vault
from tidings.vault.files.writing import Writer
from tidings.vault.index.index import Index
from tidings.vault.index.index_errors import IndexBlocked, IndexDamaged, explain
from tidings.vault.index.queries import Queries
from tidings.vault.index.scan import Batch, Plan, VaultAway, look, plan, read_all
from tidings.vault.news import Interest, News, Touched, all_of, touched
from tidings.vault.readers import Readers
from tidings.vault.resources.resources import fingerprint
from tidings.vault.searches import PREFIX as SEARCH
from tidings.vault.searches import Searches
from tidings.vault.text.model import Entry
from tidings.vault.view import Progress, Status, View
from tidings.vault.watch import Changed, Happening, LookAround, WentAway, is_settings, watch

logger = logging.getLogger(__name__)

T = TypeVar("T")

_RETRY_SECONDS = 1.0
_QUIET_SECONDS = 1.0
_DAY_LOOK_SECONDS = 30.0
_UNSETTLED_TRIES = 20
_UNSETTLED_SECONDS = 0.1
_WORTH_A_WORD = 500
"""From so many files on, reading them is said."""
_DAILY = "vault://daily/"
_TODAY = _DAILY + "today"


class HasTouched(Protocol):
    """What an operation on files returns: what it did, and to which of them."""

    @property
    def touched(self) -> Sequence[str]: ...


HasTouchedT = TypeVar("HasTouchedT", bound=HasTouched)

Publish = Callable[[Sequence[str], bool], Awaitable[None]]
"""Told of the URIs of resources that are different now, and whether files came or went."""


class Library:
    """A vault and its index.

    Args:
        vault: The folders.
        writer: What writes to them.
        open_index: Makes the index; called in the thread that keeps it.
        publish: Told what is different.
        interest: What somebody listens to.
        watcher: What says when the disk may be different.
    """

    def __init__(
        self,
        vault: Vault,
        writer: Writer,
        *,
        open_index: Callable[[], Index],
        publish: Publish,
        interest: Interest,
        watcher: Callable[[Vault], AsyncGenerator[Happening]] = watch,
    ) -> None:
        self.vault = vault
        self.interest = interest
        self.status = Status("indexing", Progress(0, 0))
        self._writer = writer
        self._open_index = open_index
        self._publish = publish
        self._watcher = watcher
        self._news = News(lambda queries, uri: fingerprint(self._view(queries), uri))
        self._searches = self._make_searches()
        self._index: Index
        self._readers: Readers
        self._searchers: Readers
        self._readable = asyncio.Event()
        self._following: anyio.CancelScope | None = None
        self._stopping = False
        self._damaged = False
        self._complete = asyncio.Event()
        self._stored = asyncio.Event()
        self._refreshed: set[str] | None = None
        """What was stored by others since the disk was last looked over, while that is being stored."""

    # For those who ask

    async def ask(self, question: Callable[[View], T], *, search: bool = False) -> T:
        """What `question` finds. It is called in another thread, and sees one state of the index throughout.

        Args:
            question: Called with what it may look at.
            search: Whether it may take long. Such questions wait for each other, and no others for them.

        Raises:
            IndexDamaged: It has to be built anew, which has begun.
            IndexBlocked: It cannot be read at present.
        """
        await self._readable.wait()
        try:
            readers = self._searchers if search else self._readers
            return await readers.ask(lambda queries: question(self._view(queries)))
        except sqlite3.Error as error:
            problem = explain(error, self._index.place)
            if isinstance(problem, IndexDamaged):
                self._begin_anew()
            raise problem from error

    async def write(self, operation: Callable[[Writer], HasTouchedT]) -> HasTouchedT:
        """Do something to the files. When this returns, the index knows, and subscribers have been told.

        If the index cannot be written at present, it will know later: what was done was done.
        """
        result = await anyio.to_thread.run_sync(operation, self._writer)
        try:
            await self.refresh(result.touched)
        except IndexDamaged:
            self._begin_anew()
        except IndexBlocked as error:
            logger.warning("The index does not know yet what was written: %s", error)
        return result

    async def begin_interest(self, uri: str) -> bool:
        """Somebody listens to this from now on. Says whether it may have changed while nobody compared it."""
        unknown = self.interest.begin(uri)
        if uri.startswith(SEARCH):
            await self._searches.begin(uri)
        return unknown and not uri.endswith("*")

    async def refresh(self, paths: Iterable[str]) -> None:
        """Look at these files and folders, and store what is different."""
        await self._look(frozenset(paths))

    async def settled(self) -> None:
        """Return when the index has been equal to the disk once."""
        await self._complete.wait()

    # Its life

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keep the index equal to the disk while this is entered."""
        # Anew, for it may run in another event loop than the last time.
        self._complete, self._stored, self._readable = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._searches = self._make_searches()
        self._keeper = ThreadPoolExecutor(1, "tidings-vault-keep")
        self._index = await self._in_keeper(self._open_index)
        self._stopping = False
        self._open_readers()
        self.status = Status("indexing", Progress(0, 0), self._notes())
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._sweep)
                tasks.start_soon(self._keep)
                tasks.start_soon(self._tidy)
                tasks.start_soon(self._searches.follow)
                tasks.start_soon(self._watch_days)
                try:
                    yield
                finally:
                    tasks.cancel_scope.cancel()
        finally:
            self._stopping = True
            with anyio.CancelScope(shield=True):
                await self._close_readers()
                await self._in_keeper(self._index.close)
                self._keeper.shutdown(wait=False)

    async def _sweep(self) -> None:
        try:
            await anyio.to_thread.run_sync(self._writer.sweep, abandon_on_cancel=True)
        except OSError as error:
            logger.info("What killed writes may have left in the vault stays there: %s", error)

    def _open_readers(self) -> None:
        self._readers = Readers(self._index.reader)
        self._searchers = Readers(self._index.reader)
        self._readable.set()

    async def _close_readers(self) -> None:
        self._readable.clear()
        await self._readers.aclose()
        await self._searchers.aclose()

    def _make_searches(self) -> Searches:
        return Searches(self._search_fingerprint, self.interest.remembered, lambda uris: self._publish(uris, False))

    async def _search_fingerprint(self, uri: str) -> str:
        return await self.ask(lambda view: fingerprint(view, uri), search=True)

    async def _in_keeper(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._keeper, call, *arguments)

    def _notes(self, *further: str | None) -> tuple[str, ...]:
        return tuple(note for note in (*self._index.notes, *further) if note)

    def _view(self, queries: Queries) -> View:
        return View(queries, self.vault, self.status)

    # Following the disk

    async def _keep(self) -> None:
        while True:
            with anyio.CancelScope() as self._following:
                try:
                    if self._damaged:
                        await self._renew()
                    async with aclosing(self._watcher(self.vault)) as happenings:
                        async for happening in happenings:
                            await self._follow(happening)
                except IndexDamaged:
                    self._damaged = True
                except Exception as error:
                    # The disk is full, a folder cannot be read, …: the server lives on, and says so.
                    logger.exception("The vault cannot be followed at present; trying again")
                    note = f"The vault cannot be followed at present, so this may be out of date: {error}"
                    await self._become(Status("away", notes=self._notes(note)))
            await anyio.sleep(_RETRY_SECONDS)

    def _begin_anew(self) -> None:
        """The index turned out to be damaged."""
        self._damaged = True
        if self._following is not None:
            self._following.cancel()

    async def _renew(self) -> None:
        logger.warning("The index is damaged, and is built anew")
        self.status = Status("indexing", Progress(0, 0), self._notes())
        self._complete.clear()
        await self._close_readers()
        await self._in_keeper(self._index.renew)
        self._open_readers()
        self._damaged = False

    async def _follow(self, happening: Happening) -> None:
        match happening:
            case Changed(paths):
                await self._look(frozenset(filter(None, map(self.vault.relative, paths))))
                if any(map(is_settings, paths)):
                    self._searches.changed()
                    await self._publish([uri for uri in self.interest.remembered() if uri.startswith(_DAILY)], False)
            case LookAround(by, note):
                if self.status.phase == "away":
                    logger.info("The vault is back")
                await self._look_around()
                await self._become(Status("watching" if by == "events" else "polling", notes=self._notes(note)))
                self._complete.set()
            case WentAway(note):
                logger.warning("%s", note)
                await self._become(Status("away", notes=self._notes(note)))

    async def _look_around(self) -> None:
        """Bring the index to where the disk is. Waits for a vault that is not there."""
        while True:
            self._refreshed = set()
            try:
                todo = await self._in_keeper(plan, self.vault, self._index)
                if len(todo.changed) > _WORTH_A_WORD:
                    logger.info("Indexing %s files", f"{len(todo.changed):,}")
                unsettled = await self._read_and_store(todo)
                break
            except VaultAway as away:
                await self._become(Status("away", notes=self._notes(str(away))))
                await anyio.sleep(_RETRY_SECONDS)
            finally:
                self._refreshed = None
        await self._look(frozenset(unsettled))

    async def _look(self, paths: frozenset[str]) -> None:
        """Store what is different of these files, and of what lies in these folders."""
        for _ in range(_UNSETTLED_TRIES):
            if not paths:
                return
            try:
                todo = await self._in_keeper(look, self.vault, self._index, paths)
                if self._refreshed is not None:
                    self._refreshed.update(todo.gone, (seen.path for seen in todo.changed))
                paths = frozenset(await self._read_and_store(todo, fresh=True))
            except VaultAway:
                return  # The watcher sees that too, and everything is looked at when it is back.
            if paths:
                await anyio.sleep(_UNSETTLED_SECONDS)
        logger.warning("Files that change whenever they are read are left for later: %s", ", ".join(sorted(paths)[:5]))

    async def _read_and_store(self, todo: Plan, *, fresh: bool = False) -> list[str]:
        """Do what is planned, batch by batch; the files that could not be read for now.

        Args:
            todo: What is different.
            fresh: Whether this was found just now: an older plan gives way to it.
        """
        gone, unsettled, done = todo.gone, list[str](), 0
        batches = read_all(self.vault, todo.changed, stopped=lambda: self._stopping)
        try:
            while batch := await self._in_keeper(_next, batches):
                await self._store(batch.entries, [*gone, *batch.gone], fresh=fresh)
                gone = []
                unsettled += batch.unsettled
                done += sum(map(len, batch))
                self._say_progress(done, len(todo.changed))
        finally:
            with anyio.CancelScope(shield=True):
                await self._in_keeper(batches.close)
        if gone:
            await self._store([], gone, fresh=fresh)
        return unsettled

    async def _store(self, entries: Sequence[Entry], gone: Sequence[str], *, fresh: bool) -> None:
        if self._refreshed and not fresh:
            # Others have stored something newer meanwhile.
            entries = [entry for entry in entries if entry.path not in self._refreshed]
            gone = [path for path in gone if path not in self._refreshed]
        uris, listed = await self._in_keeper(self._compare_and_store, entries, gone, self.interest.remembered())
        self._stored.set()
        self._searches.changed()
        if uris or listed:
            await self._publish(uris, listed)

    def _compare_and_store(
        self, entries: Sequence[Entry], gone: Sequence[str], subscriptions: Sequence[str]
    ) -> tuple[list[str], bool]:
        what = touched(self._index.queries, entries, gone)
        store = partial(self._index.apply, entries, gone)
        return self._news.around(self._index.queries, what, subscriptions, store), what.moved

    def _say_progress(self, done: int, total: int) -> None:
        if not self._complete.is_set():
            self.status = Status("indexing", Progress(done, total), self._notes())
        if total > _WORTH_A_WORD and done < total:
            logger.info("Indexed %s of %s files", f"{done:,}", f"{total:,}")

    async def _become(self, status: Status) -> None:
        """Say how the index stands to the disk; to those, too, whose resources say it."""
        if status == self.status:
            return

        def become() -> None:
            self.status = status

        def compare() -> list[str]:
            queries = self._index.queries
            what = all_of(queries) if any(text.endswith("*") for text in subscriptions) else Touched(everything=True)
            return self._news.around(queries, what, subscriptions, become)

        subscriptions = self.interest.remembered()
        await self._publish(await self._in_keeper(compare), False)
        self._searches.changed()

    async def _tidy(self) -> None:
        """Do while it is quiet what would take its time when somebody waits."""
        while True:
            await self._stored.wait()
            self._stored.clear()
            await anyio.sleep(_QUIET_SECONDS)
            try:
                while not self._stored.is_set() and await self._in_keeper(self._index.tidy):
                    pass
            except (IndexBlocked, IndexDamaged) as error:
                logger.info("The index is not tidied up at present: %s", error)

    async def _watch_days(self) -> None:
        """A new day has another daily note; and what was new is old after a while."""
        today = date.today()  # noqa: DTZ011 - the day that it is for the user
        while True:
            await anyio.sleep(_DAY_LOOK_SECONDS)
            remembered = self.interest.remembered()
            if any(uri.startswith(SEARCH) and "modified" in uri for uri in remembered):
                self._searches.changed()
            yesterday, today = today, date.today()  # noqa: DTZ011 - see above
            if today != yesterday:
                uris = [uri for uri in remembered if uri.startswith(_TODAY)]
                await self._publish(await self._in_keeper(self._other_tomorrow, uris, yesterday, today), False)

    def _other_tomorrow(self, uris: Sequence[str], yesterday: date, today: date) -> list[str]:
        view = self._view(self._index.queries)
        self._news.forget(uris)
        return [uri for uri in uris if fingerprint(view, uri, today=yesterday) != fingerprint(view, uri, today=today)]


def _next(batches: Generator[Batch]) -> Batch | None:
    return next(batches, None)
