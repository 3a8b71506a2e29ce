"""`VaultLibrary`: a vault and its index, for resources, tools and prompts.

An `Indexer` keeps the index equal to the disk. Questions are answered by a few threads with their own connections: each
question sees one state of the index, and never waits for the indexer.
"""

import asyncio
import hashlib
import json
import logging
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import KW_ONLY, dataclass, replace
from datetime import date
from functools import partial
from typing import Final, TypeVar

import anyio

from tidings._kit.tasks import Wakeup
from tidings.bus import Records, StoredRecord
from tidings.bus.local import HISTORY, LocalBus
from tidings.bus.shared import LONGEST_STAY
from tidings.changes import Change, Cursor, ResourceUpdated
from tidings.errors import TransportError
from tidings.server.notify import note_own
from tidings.vault.change_detection import COMPUTED, FoundChanges, Searches, SubscribedResources, is_file_uri, per_file
from tidings.vault.files.obsidian import PERIODS
from tidings.vault.files.outcomes import FileDeleted, FileMoved, FileWritten, Retagged, Undone, WriteFailed
from tidings.vault.files.paths import Vault
from tidings.vault.files.writer import VaultWriter
from tidings.vault.index.index import Index, IndexBlocked, IndexDamaged
from tidings.vault.index.queries import Queries
from tidings.vault.indexer import Indexer
from tidings.vault.resources.addresses import parse_address
from tidings.vault.resources.render import fingerprint
from tidings.vault.view import IndexStatus, VaultView
from tidings.vault.watch import Happening, watch

logger = logging.getLogger(__name__)

T = TypeVar("T")
OutcomeT = TypeVar("OutcomeT", FileWritten, FileMoved, FileDeleted, Retagged, Undone)

_THREADS = 3
_DAY_LOOK_SECONDS = 30.0
_CATCH_UP_SECONDS = 1.0  # The pause while the index cannot be written; and the longest wait of a question for it.
_FIRST_SECONDS = 0.5  # A question right after the start waits this long for a complete index: most vaults are small.
_PERIODIC = tuple(f"vault://{period}/" for period in PERIODS)
_KEEP: Final = HISTORY.age + 86_400.0  # Longer than any cursor is good for.
_PREFIXES: Final = "vault/prefixes"
_BUILT: Final = "vault/built"
_MOST_PREFIXES: Final = 200
_PREFIX_TRIES: Final = 5


class PublishedStates:
    """The state in which each resource was last published, for all processes that share the log of `bus`.

    Every process on a vault sees the same changes on the disk. A change is published by the first that sees it; the
    others find its state here. And a resource in another state than the published one has changed while no process
    looked: the next process that somebody subscribes at publishes it. So a subscriber is told of each change once,
    whatever process it talks to, and across restarts. While the log is of this process alone, nothing is known.

    A prefix has no state. It is remembered, so that the next process compares for it from its start on.
    """

    def __init__(self, bus: LocalBus | None = None) -> None:
        self.bus = bus

    def _records(self) -> Records | None:
        return self.bus.records if self.bus is not None and self.bus.is_shared else None

    def subscribe(self, listener: Callable[[str, bool], None]) -> Callable[[], None]:
        """Calls `listener` with each resource that was published, and whether this process has done so."""
        if (bus := self.bus) is None:
            return lambda: None

        def heard(cursor: Cursor, change: Change | None) -> None:
            if isinstance(change, ResourceUpdated) and self._records() is not None:
                listener(change.uri, bus.is_own(cursor))

        return bus.subscribe(heard)

    async def _get(self, place: str) -> StoredRecord | None:
        records = self._records()
        return None if records is None else await records.get(place)

    async def _put(self, place: str, value: bytes, seconds: float = _KEEP, revision: int | None = None) -> bool:
        records = self._records()
        return records is None or await records.put(place, value, seconds=seconds, revision=revision) is not None

    async def known(self, states: Mapping[str, str]) -> set[str]:
        """Returns the URIs of the resources that were published in these states."""
        found = await asyncio.gather(*(self._get(_place(uri)) for uri in states))
        same = zip(states.items(), found, strict=True)
        known = {uri for (uri, state), record in same if record is not None and record.value == _digest(state)}
        return set() if self._records() is None else known

    async def keep(self, states: Mapping[str, str]) -> None:
        await asyncio.gather(*(self._put(_place(uri), _digest(state)) for uri, state in states.items()))

    async def begin(self, uri: str, state: str) -> bool:
        """Begins to keep the state of a resource. Returns whether it has changed since it was published last."""
        record = await self._get(_place(uri))
        changed = record is not None and record.value != _digest(state)
        if not changed:  # Otherwise it is kept once it is published.
            await self.keep({uri: state})
        return changed

    async def renew(self, uris: Iterable[str]) -> None:
        """Keeps for longer what is known of these resources."""
        for uri in uris:
            if (record := await self._get(_place(uri))) is not None:
                await self._put(_place(uri), record.value, revision=record.revision)

    async def was_built(self) -> bool:
        """Returns whether `built` was called, by whatever process."""
        return await self._get(_BUILT) is not None

    async def built(self) -> None:
        """Notes that there is an index: it finds what changes while no process runs."""
        await self._put(_BUILT, b"", LONGEST_STAY)

    async def prefixes(self) -> list[str]:
        with suppress(TransportError, ValueError):
            if (record := await self._get(_PREFIXES)) is not None:
                return list(map(str, json.loads(record.value)))
        return []

    async def add_prefix(self, prefix: str) -> None:
        for _ in range(_PREFIX_TRIES):
            record, others = await self._get(_PREFIXES), list[str]()
            with suppress(ValueError):
                others = [each for each in json.loads(record.value if record else b"[]") if each != prefix]
            value = json.dumps([*others, prefix][-_MOST_PREFIXES:]).encode()
            if await self._put(_PREFIXES, value, revision=record.revision if record else 0):
                return


def _place(uri: str) -> str:
    return f"state/{hashlib.blake2b(uri.encode(errors='replace'), digest_size=16).hexdigest()}"


def _digest(state: str) -> bytes:
    return hashlib.blake2b(state.encode(errors="replace"), digest_size=16).digest()


class Readers:
    """A few threads that answer questions, each with its own connection from `connect`."""

    def __init__(self, connect: Callable[[], Queries]) -> None:
        self._connect = connect
        self._pool = ThreadPoolExecutor(_THREADS, "tidings-vault-read")
        self._thread = threading.local()
        self._connected: list[Queries] = []

    async def ask(self, question: Callable[[Queries], T]) -> T:
        """Returns the answer of `question`, which sees one state of the index."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._answer, question)

    async def aclose(self) -> None:
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


@dataclass(eq=False)
class VaultLibrary:
    """A vault and its index.

    `published` has what the processes on one log have published. `on_lost` is called if it is not known what changed
    before the start. `expect` is called with changes that this process, or another one, is about to publish.
    `deliver_here` notifies the subscribers of this process alone.
    """

    vault: Vault
    writer: VaultWriter
    _: KW_ONLY
    open_index: Callable[[], Index]  # Called in the thread of the index.
    publish: Callable[[FoundChanges], Awaitable[None]]
    interest: SubscribedResources
    published: PublishedStates
    on_lost: Callable[[], Awaitable[None]]
    expect: Callable[[FoundChanges], None]
    deliver_here: Callable[[Sequence[str], bool], None]
    watcher: Callable[[Vault], AsyncGenerator[Happening]] = watch

    def __post_init__(self) -> None:
        self._uncompared: set[str] = set()  # Subscribed resources that are compared when the index is complete.
        self._beginning: set[str] = set()  # Resources whose first subscriber is not acknowledged yet.
        # Resources that were published, with the number of the index's changes then: it may not have this one yet.
        self._heard: dict[str, int] = {}
        self._looked_at: dict[str, int] = {}  # Those whose files are being looked at.
        self._publishing: set[str] = set()  # Resources that the index has, and that are being published.
        self._rounds = 0  # Of looking at them.
        self._hears = Wakeup()
        self._changes = 0  # Of the index.
        self._was_built = False  # There was an index before this process.
        self._indexer = Indexer(self)
        self.refresh = self._indexer.refresh
        self._searches: Searches
        self._readers: Readers
        self._searchers: Readers
        self._readable = asyncio.Event()
        self._opened_at = 0.0

    @property
    def status(self) -> IndexStatus:
        return self._indexer.status

    async def ask(self, question: Callable[[VaultView], T], *, search: bool = False) -> T:
        """Returns the answer of `question`, called in another thread with one state of the index.

        Other questions do not wait for a `search`. Raises `IndexBlocked`, or `IndexDamaged` once rebuilding has begun.
        """
        left = self._opened_at + _FIRST_SECONDS - time.monotonic()
        if left > 0:
            await self._indexer.soon_complete(left)
        await self._caught_up()
        with self._indexer.searching() if search else nullcontext():
            return await self._ask(question, search=search)

    async def _ask(self, question: Callable[[VaultView], T], *, search: bool) -> T:
        await self._readable.wait()
        try:
            readers = self._searchers if search else self._readers
            return await readers.ask(lambda queries: question(self._indexer.view(queries)))
        except sqlite3.Error as error:
            problem = self._indexer.index.explained(error)
            if isinstance(problem, IndexDamaged):
                self._indexer.begin_anew()
            raise problem from error

    async def write(self, operation: Callable[[VaultWriter], OutcomeT]) -> OutcomeT:
        """Changes files. When this returns, the index is up to date, and the changes are published.

        If the index cannot be written now, it follows later. Raises `WriteFailed` if the folder in the vault's
        place is not the vault.
        """
        if self._indexer.lost is not None:
            raise WriteFailed(f"{self._indexer.lost} Nothing was changed.")
        with self._indexer.writing():
            result = await anyio.to_thread.run_sync(operation, self.writer)
            try:
                await self.refresh(result.touched)
            except IndexDamaged:
                self._indexer.begin_anew()
            except IndexBlocked as error:
                logger.warning("The index is not up to date with a write: %s", error)
        return result

    async def begin_interest(self, uri: str) -> None:
        """Registers the first subscriber of a resource. Publishes it if it may have changed unnoticed before."""
        self._beginning.add(uri)
        try:
            unknown = self.interest.begin(uri)
            searched = await self._searches.begin(uri) if uri.startswith(COMPUTED) else None
            if uri.endswith("*"):
                await self.published.add_prefix(uri)
            elif self.published.bus is not None:
                await self._compare(uri, searched)
            elif unknown:
                await self.publish(FoundChanges({uri: ""}))
        finally:
            self._beginning.discard(uri)

    async def _compare(self, uri: str, state: str | None = None) -> None:
        """Publishes a resource that is not in the state in which it was published last."""

        def comparable() -> bool:
            return self._indexer.complete.is_set() or (self._indexer.index.is_built and per_file(uri))

        if not comparable():
            await self._indexer.soon_complete(_FIRST_SECONDS)
        try:
            if state is None:
                state = await self.ask(lambda view: fingerprint(view.whole, uri))
        except (IndexBlocked, IndexDamaged):
            await self.publish(FoundChanges({uri: ""}))
            return
        if not comparable():
            self._uncompared.add(uri)
        elif await self.published.begin(uri, state):
            await self.publish(FoundChanges({uri: state}))
            await self.published.keep({uri: state})

    async def settled(self) -> None:
        """Waits until the index has been equal to the disk once."""
        await self._indexer.complete.wait()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        def search(uri: str) -> Awaitable[str]:
            return self._ask(lambda view: fingerprint(view.whole, uri), search=True)

        self._searches = Searches(search, self.interest.remembered, self.publish_found)
        self._opened_at = time.monotonic()
        self.interest.remember(await self.published.prefixes())
        self._was_built = await self.published.was_built()
        await anyio.to_thread.run_sync(self.writer.recover)
        await self._indexer.open()
        self._heard, self._looked_at = {}, {}
        unsubscribe = self.published.subscribe(self._hear)
        try:
            async with anyio.create_task_group() as tasks:
                indexer = self._indexer
                follow = (indexer.follow, self._searches.follow, self._catch_up)
                for task in (*follow, indexer.settle, indexer.tidy, self._watch_days):
                    tasks.start_soon(task)
                try:
                    yield
                finally:
                    self._indexer.stopping = True
                    tasks.cancel_scope.cancel()
        finally:
            unsubscribe()
            with anyio.CancelScope(shield=True):
                await self._indexer.aclose()
            self._readable = asyncio.Event()  # The next run may be in another event loop.

    async def publish_found(self, found: FoundChanges) -> None:
        """Publishes what no other process has published."""
        if not found:
            return
        if self.published.bus is None:
            await self.publish(found)
            return
        # These differ for readers of this process alone, whose index is not complete. They are compared when it is.
        here = set(found.states) if found.local else set[str]()
        if not (found.local or self._indexer.complete.is_set()):
            here = {uri for uri in self._uncompared.intersection(found.states) if not per_file(uri)}
        # One that is not acknowledged yet has read nothing that may differ now.
        self.deliver_here([uri for uri in here if uri not in self._beginning], found.local and found.listed)
        states = {uri: state for uri, state in found.states.items() if uri not in here}
        if not states:
            return
        early = (self._heard.keys() | self._looked_at.keys()) & states.keys()
        self.expect(found)  # To ask the log may bring what others have published.
        known = await self.published.known(states)
        note_own(known)
        # Another process has published these before this one knew of them. Whoever read them then has the old content.
        self.deliver_here(sorted(known & early), False)
        states = {uri: state for uri, state in states.items() if uri not in known}
        # Files that came or went are among the states.
        self._publishing |= states.keys()
        try:
            await self.publish(replace(found, states=states, listed=found.listed and bool(states)))
        finally:
            self._publishing -= states.keys()
        await self.published.keep(states)

    def _hear(self, uri: str, is_own: bool) -> None:
        if is_own and uri in self._publishing:
            return  # The index had it first.
        if self.interest.has(uri) or (self.interest.is_any and is_file_uri(uri)):
            self._heard.setdefault(uri, self._changes)
            self._hears()

    async def _catch_up(self) -> None:
        """Looks at what others have published: this process may not have seen the change yet."""
        while True:
            await self._hears.until(lambda: bool(self._heard))
            self._looked_at, self._heard = self._heard, {}
            try:
                files = [parse_address(uri).argument for uri in self._looked_at if is_file_uri(uri)]
                await self._indexer.refresh(files)
            except (IndexBlocked, IndexDamaged) as error:
                logger.info("Changes that another process has published cannot be checked now: %s", error)
                self._heard = self._looked_at | self._heard
                await anyio.sleep(_CATCH_UP_SECONDS)
                continue
            # Searches are compared later.
            stale = (uri for uri, changes in self._looked_at.items() if changes != self._changes)
            self.deliver_here([uri for uri in stale if uri.startswith(COMPUTED)], False)
            self._looked_at = {}
            self._rounds += 1
            self._hears()

    async def _caught_up(self) -> None:
        """Waits until the index has what was heard of before: somebody who was told of it reads it now."""
        if pending := bool(self._heard) + bool(self._looked_at):
            needed = self._rounds + pending
            with anyio.move_on_after(_CATCH_UP_SECONDS):
                await self._hears.until(lambda: self._rounds >= needed)

    # The methods of `IndexOwner`

    def index_changed(self) -> None:
        self._changes += 1
        self._searches.changed()

    async def settings_changed(self) -> None:
        self._searches.changed()
        # The former places of periodic notes are not known.
        if uris := [uri for uri in self.interest.remembered() if uri.startswith(_PERIODIC)]:
            states = await self.ask(lambda view: {uri: fingerprint(view.whole, uri) for uri in uris})
            await self.publish(FoundChanges(states))
            await self.published.keep(states)

    def index_opened(self, index: Index) -> None:
        self._readers = Readers(index.reader)
        self._searchers = Readers(index.reader)
        self._readable.set()

    async def index_built(self, index: Index) -> None:
        if self._was_built and index.is_first:
            await self.on_lost()
        await self.published.built()

    async def index_complete(self) -> None:
        uncompared, self._uncompared = self._uncompared, set()
        for uri in uncompared:
            await self._compare(uri)

    async def index_closes(self) -> None:
        self._readable.clear()
        await self._readers.aclose()
        await self._searchers.aclose()

    async def _watch_days(self) -> None:
        """Publishes what changes with time alone: the note of today, and searches for recent notes."""
        today = date.today()  # noqa: DTZ011 - the user's day
        while True:
            await anyio.sleep(_DAY_LOOK_SECONDS)
            remembered = self.interest.remembered()
            yesterday, today = today, date.today()  # noqa: DTZ011 - see above
            if today != yesterday or any(uri.startswith(COMPUTED) and "modified" in uri for uri in remembered):
                self._searches.changed()
            if today != yesterday:
                uris = [uri for uri in remembered if uri.startswith(tuple(f"{start}today" for start in _PERIODIC))]
                different = await self._indexer.in_thread(self._different, uris, yesterday, today)
                await self.publish_found(FoundChanges(different))
                await self.published.renew(remembered)

    def _different(self, uris: Sequence[str], before: date, now: date) -> dict[str, str]:
        view = self._indexer.view(self._indexer.index.queries).whole
        self._indexer.detector.forget(uris)
        states = {uri: (fingerprint(view, uri, today=before), fingerprint(view, uri, today=now)) for uri in uris}
        return {uri: new for uri, (old, new) in states.items() if old != new}
