"""A vault and its index: what the server's resources, tools and prompts ask.

A keeper keeps the index equal to the disk. Questions are answered by a few threads with connections of their own; they
see what is stored, and wait for nobody. The event loop only waits.

The threads that answer questions, each with a connection of its own to the index.
"""

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import date
from functools import partial
from typing import Protocol, TypeVar

import anyio

from tidings.vault.change_detection import PREFIX as SEARCH
from tidings.vault.change_detection import Searches, SubscribedResources
from tidings.vault.files.outcomes import WriteFailed
from tidings.vault.files.paths import Vault
from tidings.vault.files.writer import VaultWriter
from tidings.vault.index.database import IndexBlocked, IndexDamaged, explain
from tidings.vault.index.index import Index
from tidings.vault.index.queries import Queries
from tidings.vault.indexer import Indexer, PublishChanges
from tidings.vault.resources.render import fingerprint
from tidings.vault.view import IndexStatus, VaultView
from tidings.vault.watch import Happening, watch

T = TypeVar("T")

_THREADS = 3


class Readers:
    """A few threads. A question sees one state of the index throughout, and waits only while all of them are busy.

    Args:
        connect: Makes the read side of the index, in the thread that is to use it.
    """

    def __init__(self, connect: Callable[[], Queries]) -> None:
        self._connect = connect
        self._pool = ThreadPoolExecutor(_THREADS, "tidings-vault-read")
        self._thread = threading.local()
        self._connected: list[Queries] = []

    async def ask(self, question: Callable[[Queries], T]) -> T:
        """What `question` finds."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._answer, question)

    async def aclose(self) -> None:
        """Break off what is being asked, and let go of the index."""
        for queries in self._connected:
            queries.connection.interrupt()
        await anyio.to_thread.run_sync(partial(self._pool.shutdown, cancel_futures=True))
        for queries in self._connected:
            queries.close()

    def _answer(self, question: Callable[[Queries], T]) -> T:
        queries: Queries | None = getattr(self._thread, "queries", None)
        if queries is None:
            queries = self._thread.queries = self._connect()
            self._connected.append(queries)
        with queries.snapshot():
            return question(queries)


logger = logging.getLogger(__name__)


_DAY_LOOK_SECONDS = 30.0
_FIRST_SECONDS = 0.5
"""Whoever asks right after the start waits so long at most for an answer that is not partial: most vaults are small."""
_DAILY = "vault://daily/"
_TODAY = _DAILY + "today"


class HasTouched(Protocol):
    """What an operation on files returns: what it did, and to which of them."""

    @property
    def touched(self) -> Sequence[str]: ...


HasTouchedT = TypeVar("HasTouchedT", bound=HasTouched)


class VaultLibrary:
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
        writer: VaultWriter,
        *,
        open_index: Callable[[], Index],
        publish: PublishChanges,
        interest: SubscribedResources,
        watcher: Callable[[Vault], AsyncGenerator[Happening]] = watch,
    ) -> None:
        self.vault = vault
        self.interest = interest
        self._writer = writer
        self._publish = publish
        self._keeper = Indexer(
            vault, open_index=open_index, publish=publish, interest=interest, watcher=watcher, listener=self
        )
        self._searches = self._make_searches()
        self._readers: Readers
        self._searchers: Readers
        self._readable = asyncio.Event()
        self._opened_at = 0.0

    @property
    def status(self) -> IndexStatus:
        """How the index stands to the disk."""
        return self._keeper.status

    # For those who ask

    async def ask(self, question: Callable[[VaultView], T], *, search: bool = False) -> T:
        """What `question` finds. It is called in another thread, and sees one state of the index throughout.

        Args:
            question: Called with what it may look at.
            search: Whether it may take long. Such questions wait for each other, and no others for them.

        Raises:
            IndexDamaged: It has to be built anew, which has begun.
            IndexBlocked: It cannot be read at present.
        """
        await self._readable.wait()
        await self._wait_a_moment()
        try:
            readers = self._searchers if search else self._readers
            return await readers.ask(lambda queries: question(self._keeper.view(queries)))
        except sqlite3.Error as error:
            problem = explain(error, self._keeper.index.place)
            if isinstance(problem, IndexDamaged):
                self._keeper.begin_anew()
            raise problem from error

    async def _wait_a_moment(self) -> None:
        left = self._opened_at + _FIRST_SECONDS - time.monotonic()
        if left > 0 and not self._keeper.complete.is_set():
            with anyio.move_on_after(left):
                await self.settled()

    async def write(self, operation: Callable[[VaultWriter], HasTouchedT]) -> HasTouchedT:
        """Do something to the files. When this returns, the index knows, and subscribers have been told.

        If the index cannot be written at present, it will know later: what was done was done.

        Raises:
            WriteFailed: What lies in the vault's place is not the vault.
        """
        if self._keeper.lost is not None:
            raise WriteFailed(f"{self._keeper.lost} Nothing was changed.")
        result = await anyio.to_thread.run_sync(operation, self._writer)
        try:
            await self.refresh(result.touched)
        except IndexDamaged:
            self._keeper.begin_anew()
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
        await self._keeper.refresh(paths)

    async def settled(self) -> None:
        """Return when the index has been equal to the disk once."""
        await self._keeper.complete.wait()

    # Its life

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keep the index equal to the disk while this is entered."""
        # Anew, for it may run in another event loop than the last time.
        self._searches = self._make_searches()
        self._opened_at = time.monotonic()
        await self._keeper.open()
        try:
            async with anyio.create_task_group() as tasks:
                for task in (
                    self._keeper.follow,
                    self._keeper.tidy,
                    self._searches.follow,
                    self._watch_days,
                    self._sweep,
                ):
                    tasks.start_soon(task)
                try:
                    yield
                finally:
                    self._keeper.stop()
                    tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._keeper.aclose()
            self._readable = asyncio.Event()  # In another event loop, perhaps; who waits by then waits for that.

    async def _sweep(self) -> None:
        try:
            await anyio.to_thread.run_sync(self._writer.sweep, abandon_on_cancel=True)
        except OSError as error:
            logger.info("What killed writes may have left in the vault stays there: %s", error)

    def _make_searches(self) -> Searches:
        return Searches(self._search_fingerprint, self.interest.remembered, lambda uris: self._publish(uris, False))

    async def _search_fingerprint(self, uri: str) -> str:
        return await self.ask(lambda view: fingerprint(view, uri), search=True)

    # What the keeper tells: see `Listener`

    def index_changed(self) -> None:
        self._searches.changed()

    async def settings_changed(self) -> None:
        self._searches.changed()
        # Where a daily note was before, nobody can say any more.
        await self._publish([uri for uri in self.interest.remembered() if uri.startswith(_DAILY)], False)

    def index_opened(self, index: Index) -> None:
        self._readers = Readers(index.reader)
        self._searchers = Readers(index.reader)
        self._readable.set()

    async def index_closes(self) -> None:
        self._readable.clear()
        await self._readers.aclose()
        await self._searchers.aclose()

    # Time

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
                await self._publish(await self._keeper.in_thread(self._other_tomorrow, uris, yesterday, today), False)

    def _other_tomorrow(self, uris: Sequence[str], yesterday: date, today: date) -> list[str]:
        view = self._keeper.view(self._keeper.index.queries)
        self._keeper.news.forget(uris)
        return [uri for uri in uris if fingerprint(view, uri, today=yesterday) != fingerprint(view, uri, today=today)]
