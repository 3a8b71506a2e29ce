"""`SessionServers`: the servers of a session together with the catalog that stores them.

The page and the terminal app use it to add, change, clone, remove and import servers. Failures are `CatalogError`s or
`BadTarget`s with messages for people. Files are read and written in a thread.
"""

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tidings._kit.suggest import did_you_mean
from tidings.inspector.catalog import Catalog, CatalogError, ServerEntry
from tidings.inspector.catalog.catalog import ImportedServers, free_name, resolve
from tidings.inspector.catalog.clients import FoundClient, find_clients
from tidings.inspector.catalog.entry import keep_secrets
from tidings.inspector.server import ConnectionSpec
from tidings.inspector.session import Session


class NameTaken(CatalogError):
    """The name of a server is taken."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is already a server called {name!r}. Choose another name.")


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
        """The catalog, if it can be changed."""
        return None if self.catalog is None or self.catalog.read_only else self.catalog

    def in_catalog(self, entry: ServerEntry) -> bool:
        """Returns whether the catalog stores this entry, which was returned by a method of this class."""
        return self._given.get(entry.name) is not entry

    async def begin(self, given: Sequence[ServerEntry], *, connect: bool = True) -> None:
        """Adds the servers of the command line and of the catalog. The latter connect if their entry says so."""
        known, _ = await self.listing()
        names = {each.name for each in known}
        for entry in given:
            named = entry if entry in known else replace(entry, name=free_name(entry.name, names))
            await self._open(named, connect=connect, given=entry not in known)
        for entry in known:
            if entry.name not in self.session.servers:
                await self._open(entry, connect=entry.auto_connect)

    async def _open(self, entry: ServerEntry, *, connect: bool, given: bool = False) -> ServerEntry:
        if entry.name in self.session.servers:
            entry = replace(entry, name=free_name(entry.name, self.session.servers))
        if given:
            self._given[entry.name] = entry
        await self.session.add(entry, connect=connect)
        return entry

    async def listing(self) -> tuple[list[ServerEntry], list[str]]:
        """Returns all servers, those of the catalog first, and the problems of invalid entries."""
        entries, problems = list[ServerEntry](), list[str]()
        if self.catalog is not None:
            try:
                entries, problems = await asyncio.to_thread(self.catalog.listing)
            except CatalogError as error:
                problems = [str(error)]
        names = {each.name for each in entries}
        return [*entries, *(each for name, each in self._given.items() if name not in names)], problems

    async def find(self, name: str) -> ServerEntry:
        """Returns the server of this name. Raises `NoSuchServer` if there is none."""
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
        if entry.name in self.session.servers:
            if not rename:
                raise NameTaken(entry.name)
            entry = replace(entry, name=free_name(entry.name, self.session.servers))
        if (catalog := self.writable) is None:
            return await self._open(entry, connect=True, given=True)
        return await self._open(await asyncio.to_thread(lambda: catalog.add(entry, rename=rename)), connect=True)

    async def change(self, name: str, edited: ServerEntry) -> ServerEntry:
        """Replaces a server's entry, in the session too. Masked secrets stay. Raises `CatalogError` if it cannot."""
        known, catalog = await self.find(name), self.catalog
        after = keep_secrets(edited, known)
        if catalog is not None and self.in_catalog(known):
            after = await asyncio.to_thread(catalog.edit, known, after)
        else:
            if after.name != name and after.name in self.session.servers:
                raise NameTaken(after.name)
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
        if self.catalog is not None and self.in_catalog(await self.find(name)):
            await asyncio.to_thread(self.catalog.remove, name)
        self._given.pop(name, None)
        if name in self.session.servers:
            await self.session.remove(name)

    async def clone(self, name: str, called: str = "") -> ServerEntry:
        """Adds a copy of a server. Raises `CatalogError` if that is not possible."""
        known, catalog = await self.find(name), self.catalog
        copy = replace(known, name=called or f"{name} copy")
        if catalog is None or not self.in_catalog(known):
            return await self._open(copy, connect=False, given=True)
        copy = await asyncio.to_thread(lambda: catalog.add(copy) if called else catalog.clone(name))
        return await self._open(copy, connect=False)

    async def clients(self) -> list[FoundClient]:
        """Returns the servers that other programs on this machine know."""
        return await asyncio.to_thread(find_clients, Path.home(), Path.cwd(), sys.platform, self._environ)

    async def take(self, entries: Sequence[ServerEntry]) -> ImportedServers:
        """Adds servers of another program without connecting to them. Raises `CatalogError` if they cannot be kept."""
        if (catalog := self.writable) is None:
            return ImportedServers(tuple([await self._open(each, connect=False, given=True) for each in entries]))
        imported = await asyncio.to_thread(catalog.import_entries, entries)
        added = [await self._open(each, connect=False) for each in imported.added]
        return replace(imported, added=tuple(added))
