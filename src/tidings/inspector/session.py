"""`Session`: several servers that are inspected together. Commands, the terminal app and the page are built on it.

Everything runs on one event loop, and goes through `record`, which numbers the record, folds it into the view, gives it
to the journal, and calls the listeners. A listener must be fast: to draw, it schedules a redraw.

`SessionServers` combines the servers of a session with the catalog that stores them. Failures are `CatalogError`s or
`BadTarget`s with messages for people. Files are read and written in a thread.
"""

import asyncio
import logging
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

from tidings._kit.bounded_json import as_size
from tidings._kit.process import signal_group
from tidings._kit.suggest import did_you_mean
from tidings.inspector.catalog.catalog import Catalog, FoundClient, ImportedServers, find_clients, free_name, resolve
from tidings.inspector.catalog.entry import CatalogError, ServerEntry, keep_secrets
from tidings.inspector.records import NOT_STORED, Record, SessionLimits
from tidings.inspector.server import ConnectionSpec, InspectedServer
from tidings.inspector.sessions.journal import Journal
from tidings.inspector.view.fold import fold_session
from tidings.inspector.view.rings import Ring
from tidings.inspector.view.view import Clock, SessionView

logger = logging.getLogger(__name__)

Listener = Callable[[Record], object]
_GRACE: Final = 0.5  # Seconds for a command to end after its input was closed.


def stop_commands(pids: list[int], number: int) -> None:
    """Sends a signal to the process groups of commands. Commands that have ended are skipped."""
    for pid in pids:
        signal_group(pid, number)


class Session:
    """Servers that are inspected together. Use it with `async with`."""

    def __init__(
        self,
        *,
        journal: "Journal | str | Path | None" = None,
        limits: SessionLimits | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Clock = time.time,
    ) -> None:
        """Makes a session without servers. Without a journal, or its path, nothing is stored."""
        self.limits = limits or SessionLimits()
        self.clock = clock
        self.view = SessionView(self.limits, clock)  #: Everything that is known about all servers: read only.
        self.servers: dict[str, InspectedServer] = {}
        self.journal = Journal(journal) if isinstance(journal, str | Path) else journal
        self.environ = environ or {}  #: The variables for `${NAME}` in entries.
        self._open: set[str] = set()
        self.seq = 0
        self._recent: Ring[Record] = Ring(self.limits.records, self.limits.recent_bytes)
        self._listeners: list[Listener] = []

    async def __aenter__(self) -> Self:
        if self.journal is not None:
            await asyncio.to_thread(self.journal.open)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Disconnects from all servers, and stores the last records. The view can still be read."""
        # A command whose input was closed soon gets SIGTERM, so that quitting does not take long.
        asking = asyncio.get_running_loop().call_later(_GRACE, stop_commands, self.pids, signal.SIGTERM)
        try:
            await asyncio.gather(*(server.aclose() for server in self.servers.values()), return_exceptions=True)
        finally:
            asking.cancel()
        if self.journal is not None:
            await asyncio.to_thread(self.journal.close)

    @property
    def pids(self) -> list[int]:
        return [server.view.pid for server in self.servers.values() if server.view.pid is not None]

    # Servers.

    async def add(self, entry: ServerEntry | ConnectionSpec, *, connect: bool = True) -> InspectedServer:
        """Adds a server, and connects to it in the background. Raises `ValueError` if its name is taken."""
        spec = entry if isinstance(entry, ConnectionSpec) else ConnectionSpec.of(entry, self.environ)
        if spec.name in self._open:
            raise ValueError(f"This session already has a server {spec.name!r}. Use another name.")
        self._open.add(spec.name)
        self.record(spec.name, "server", {"what": "added", "entry": spec.shown})
        server = self.servers[spec.name] = InspectedServer(
            spec, self.view.servers[spec.name], lambda kind, data: self.record(spec.name, kind, data)
        )
        if connect:
            server.start()
        return server

    async def remove(self, name: str) -> None:
        """Disconnects from a server and removes it. Its records stay in the journal. Raises `KeyError` if unknown."""
        await self.servers.pop(name).aclose()
        self.record(name, "server", {"what": "removed"})
        self._open.discard(name)

    # Records.

    def record(self, server: str, kind: str, data: dict[str, Any]) -> Record | None:
        """Records something that happened. Returns None if the server was removed from this session."""
        if server not in self._open:
            return None
        self.seq += 1
        record = Record(self.seq, self.clock(), server, kind, data)
        fold_session(self.view, record)
        self._recent.append(record, record.seq, as_size(data.get("size" if "size" in data else "result_size")))
        missed = 0 if self.journal is None or kind == NOT_STORED else self.journal.put(record)
        for listener in tuple(self._listeners):
            try:
                listener(record)
            except Exception:
                logger.exception("a listener failed on a record of kind %s", kind)
        if missed:  # There is room again.
            self.record(server, "missed", {"count": missed})
        return record

    def listen(self, listener: Listener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def since(self, seq: int) -> list[Record] | None:
        """Returns the records after this number, or None if some are gone. Takes time proportional to their number."""
        if seq > self.seq or seq < self.seq - len(self._recent):
            return None
        return self._recent.since(seq)


class NoSuchServer(CatalogError):
    """There is no server of this name."""

    def __init__(self, name: str, names: Iterable[str]) -> None:
        self.name, self.names = name, list(names)
        super().__init__(f"There is no server {name!r}.{did_you_mean(name, self.names)}")


class SessionServers:
    """The servers of the catalog and of the command line."""

    def __init__(self, session: Session, catalog: Catalog | None, environ: Mapping[str, str]) -> None:
        self.session = session
        self.catalog = catalog
        self._environ = environ
        self._given: dict[str, ServerEntry] = {}  # Not in the catalog: known until the inspector ends.

    @property
    def writable(self) -> Catalog | None:
        """The catalog, if it may be changed."""
        return None if self.catalog is None or self.catalog.read_only else self.catalog

    def _storing(self, entry: ServerEntry) -> Catalog | None:
        """Returns the catalog if it stores this entry, which was returned by a method of this class."""
        return None if self._given.get(entry.name) is entry else self.catalog

    async def begin(self, given: Sequence[ServerEntry], *, connect: bool = True) -> None:
        """Adds the servers of the command line and of the catalog. Catalog servers connect if their entry says so."""
        known, _ = await self.listing()
        names = {each.name for each in known}
        for entry in given:
            named = entry if entry in known else replace(entry, name=free_name(entry.name, names))
            await self._open(named, connect=connect, given=entry not in known)
        for entry in known:
            if entry.name not in self.session.servers:
                await self._open(entry, connect=entry.auto_connect)

    async def _open(self, entry: ServerEntry, *, connect: bool, given: bool = False) -> ServerEntry:
        entry = replace(entry, name=free_name(entry.name, self.session.servers))
        if given:
            self._given[entry.name] = entry
        await self.session.add(entry, connect=connect)
        return entry

    async def listing(self) -> tuple[list[ServerEntry], list[str]]:
        entries, problems = list[ServerEntry](), list[str]()
        if self.catalog is not None:
            try:
                entries, problems = await asyncio.to_thread(self.catalog.listing)
            except CatalogError as error:
                problems = [str(error)]
        names = {each.name for each in entries}
        return [*entries, *(each for name, each in self._given.items() if name not in names)], problems

    async def find(self, name: str) -> ServerEntry:
        entries = () if self.catalog is None else await asyncio.to_thread(self.catalog.entries)
        known = self._given | {entry.name: entry for entry in entries}
        if name not in known:
            raise NoSuchServer(name, known)
        return known[name]

    def resolve(self, target: str, name: str | None = None) -> ServerEntry:
        """Returns the entry for a target that a user typed. Reads files. Raises `BadTarget` if it is not valid."""
        entry = resolve(target, self.catalog)
        return entry if name is None else replace(entry, name=name)

    async def add(self, entry: ServerEntry, *, rename: bool = False) -> ServerEntry:
        """Adds and connects a server. `rename`: call it `name (2)` if the name is taken. Raises `CatalogError`."""
        if entry.name in self.session.servers and not rename:
            raise CatalogError(f"There is already a server called {entry.name!r}. Choose another name.")
        entry = replace(entry, name=free_name(entry.name, self.session.servers))
        if (catalog := self.writable) is not None:
            entry = await asyncio.to_thread(catalog.add, entry, rename=rename)
        return await self._open(entry, connect=True, given=catalog is None)

    async def change(self, name: str, edited: ServerEntry) -> ServerEntry:
        known = await self.find(name)
        after = keep_secrets(edited, known)
        if (catalog := self._storing(known)) is not None:
            after = await asyncio.to_thread(catalog.edit, known, after)
        else:
            if after.name != name and after.name in self.session.servers:
                raise CatalogError(f"There is already a server called {after.name!r}. Choose another name.")
            self._given.pop(name, None)
            self._given[after.name] = after
        server = self.session.servers.get(name)
        if server is not None and after.name == name:
            await server.change(ConnectionSpec.of(after, self._environ))
        else:
            was = server is not None and server.view.state != "disconnected"
            if server is not None:
                await self.session.remove(name)
            await self._open(after, connect=was)
        return after

    async def remove(self, name: str) -> None:
        """Removes a server from the session and the catalog. Raises `CatalogError` if that is not possible."""
        if self.catalog is not None and self._storing(await self.find(name)) is not None:
            await asyncio.to_thread(self.catalog.remove, name)
        self._given.pop(name, None)
        if name in self.session.servers:
            await self.session.remove(name)

    async def clone(self, name: str, called: str = "") -> ServerEntry:
        """Adds a copy of a server. Raises `CatalogError` if that is not possible."""
        known = await self.find(name)
        copy = replace(known, name=called or f"{name} copy")
        if (catalog := self._storing(known)) is not None:
            copy = await asyncio.to_thread(catalog.add, copy, rename=not called, after=name)
        return await self._open(copy, connect=False, given=catalog is None)

    async def clients(self) -> list[FoundClient]:
        return await asyncio.to_thread(find_clients, Path.home(), Path.cwd(), sys.platform, self._environ)

    async def take(self, entries: Sequence[ServerEntry]) -> ImportedServers:
        """Adds servers of another program without connecting to them. Raises `CatalogError` if they cannot be kept."""
        if (catalog := self.writable) is None:
            return ImportedServers([await self._open(each, connect=False, given=True) for each in entries], [])
        added, known = await asyncio.to_thread(catalog.import_entries, entries)
        return ImportedServers([await self._open(each, connect=False) for each in added], known)
