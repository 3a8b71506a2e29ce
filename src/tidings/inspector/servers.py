"""`SessionServers`: the servers of a session together with the catalog that stores them.

The page and the terminal app use it to add, change, clone, remove and import servers. Failures are `CatalogError`s or
`BadTarget`s with messages for people. Files are read and written in a thread.
"""

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tidings._kit.suggest import did_you_mean
from tidings.inspector.catalog import Catalog, CatalogError, ServerEntry
from tidings.inspector.catalog.catalog import ImportedServers, free_name
from tidings.inspector.catalog.clients import FoundClient, find_clients
from tidings.inspector.catalog.entry import keep_secrets
from tidings.inspector.catalog.targets import resolve
from tidings.inspector.client_link import ConnectionSpec
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


@dataclass(frozen=True, slots=True)
class KnownServer:
    """A server, and whether the catalog stores it. Otherwise it is known until the inspector ends."""

    entry: ServerEntry
    in_catalog: bool


class SessionServers:
    """The servers of the catalog and of the command line."""

    def __init__(self, session: Session, catalog: Catalog | None, environ: Mapping[str, str]) -> None:
        self.session = session
        self.catalog = catalog
        self._environ = environ
        self._given: dict[str, ServerEntry] = {}
        """The servers that are not in the catalog."""

    @property
    def writable(self) -> Catalog | None:
        """The catalog, if it can be changed."""
        return None if self.catalog is None or self.catalog.read_only else self.catalog

    async def begin(self, given: Sequence[ServerEntry], *, connect: bool = True) -> None:
        """Adds the servers of the command line and of the catalog. The latter connect if their entry says so."""
        known: tuple[ServerEntry, ...] = ()
        if self.catalog is not None:
            try:
                known = (await asyncio.to_thread(self.catalog.listing)).entries
            except CatalogError:
                known = ()  # `listing` reports it.
        for entry in given:
            same = next((each for each in known if each.name == entry.name and each == entry), None)
            named = entry if same else replace(entry, name=free_name(entry.name, {each.name for each in known}))
            await self._open(named, connect=connect, given=same is None)
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

    async def listing(self) -> tuple[list[KnownServer], list[str]]:
        """Returns all servers, those of the catalog first, and the problems of invalid entries."""
        entries: list[ServerEntry] = []
        problems: list[str] = []
        if self.catalog is not None:
            try:
                listing = await asyncio.to_thread(self.catalog.listing)
                entries, problems = list(listing.entries), list(listing.problems)
            except CatalogError as error:
                problems = [str(error)]
        names = {each.name for each in entries}
        known = [KnownServer(each, in_catalog=True) for each in entries]
        known += [KnownServer(each, in_catalog=False) for each in self._given.values() if each.name not in names]
        return known, problems

    async def find(self, name: str) -> KnownServer:
        """Returns the server of this name. Raises `NoSuchServer` if there is none."""
        names = list(self._given)
        if self.catalog is not None:
            entries = await asyncio.to_thread(self.catalog.entries)
            for entry in entries:
                if entry.name == name:
                    return KnownServer(entry, in_catalog=True)
            names += [each.name for each in entries]
        if name in self._given:
            return KnownServer(self._given[name], in_catalog=False)
        raise NoSuchServer(name, names)

    def resolve(self, target: str, name: str | None = None) -> ServerEntry:
        """Returns the entry for a target that a user typed. Reads files. Raises `BadTarget` if it is not valid."""
        entry = resolve(target, self.catalog)
        return entry if name is None else replace(entry, name=name)

    async def add(self, entry: ServerEntry, *, rename: bool = False) -> KnownServer:
        """Adds a server, also to a catalog that can be changed, and connects to it.

        With `rename` it is called `name (2)` if its name is taken. Raises `CatalogError` if the name is taken, or the
        catalog cannot be written.
        """
        if entry.name in self.session.servers:
            if not rename:
                raise NameTaken(entry.name)
            entry = replace(entry, name=free_name(entry.name, self.session.servers))
        if (catalog := self.writable) is None:
            return KnownServer(await self._open(entry, connect=True, given=True), in_catalog=False)
        added = await asyncio.to_thread(lambda: catalog.add(entry, rename=rename))
        return KnownServer(await self._open(added, connect=True), in_catalog=True)

    async def change(self, name: str, edited: ServerEntry) -> KnownServer:
        """Replaces the entry of a server, in the session too. Masked secrets in `edited` stay as they were.

        Raises:
            CatalogError: There is no such server, the name is taken, or the catalog cannot be written.
        """
        known = await self.find(name)
        after = keep_secrets(edited, known.entry)
        if known.in_catalog and self.catalog is not None:
            catalog = self.catalog
            after = await asyncio.to_thread(lambda: catalog.edit(known.entry, after))
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
        return KnownServer(after, known.in_catalog)

    async def remove(self, name: str) -> None:
        """Removes a server from the session and the catalog. Raises `CatalogError` if that is not possible."""
        known = await self.find(name)
        if known.in_catalog and self.catalog is not None:
            await asyncio.to_thread(self.catalog.remove, name)
        self._given.pop(name, None)
        if name in self.session.servers:
            await self.session.remove(name)

    async def clone(self, name: str, called: str = "") -> KnownServer:
        """Adds a copy of a server. Raises `CatalogError` if that is not possible."""
        known = await self.find(name)
        if known.in_catalog and self.catalog is not None:
            catalog, named = self.catalog, replace(known.entry, name=called)
            copy = await asyncio.to_thread(lambda: catalog.add(named) if called else catalog.clone(name))
            return KnownServer(await self._open(copy, connect=False), in_catalog=True)
        copy = replace(known.entry, name=called or f"{name} copy")
        return KnownServer(await self._open(copy, connect=False, given=True), in_catalog=False)

    async def clients(self) -> list[FoundClient]:
        """Returns the servers that other programs on this machine know."""
        return await asyncio.to_thread(self.find_clients)

    def find_clients(self) -> list[FoundClient]:
        """Like `clients`, in the calling thread."""
        return find_clients(Path.home(), Path.cwd(), sys.platform, self._environ)

    async def take(self, entries: Sequence[ServerEntry]) -> ImportedServers:
        """Adds servers of another program, also to a catalog that can be changed, without connecting to them.

        Raises:
            CatalogError: The catalog cannot be written.
        """
        if (catalog := self.writable) is None:
            return ImportedServers(tuple([await self._open(each, connect=False, given=True) for each in entries]))
        imported = await asyncio.to_thread(lambda: catalog.import_entries(entries))
        added = [await self._open(each, connect=False) for each in imported.added]
        return replace(imported, added=tuple(added))
