"""The servers that the page knows: those of the catalog, those of the command line, and the session they are in.

What is secret in an entry never reaches the page: it is shown as `***`, and what comes back as `***` stays as it was.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from tidings.errors import BadTarget
from tidings.inspector.catalog import Catalog, CatalogError, ServerEntry
from tidings.inspector.catalog_clients import FoundClient, find_clients
from tidings.inspector.catalog_masks import keep_secrets
from tidings.inspector.catalog_store import free_name
from tidings.inspector.catalog_targets import resolve
from tidings.inspector.catalog_text import NotJson, parse
from tidings.inspector.opening import Opening
from tidings.inspector.session import Session
from tidings.inspector.web.answers import Problem, unknown
from tidings.inspector.web.facts import target_of

_OURS: Final = frozenset({"name", "target", "in_session", "in_catalog"})
"""What an entry has besides what its file has."""
T = TypeVar("T")


class Servers:
    """The catalog of a page. Files are read and written in a thread."""

    def __init__(self, session: Session, catalog: Catalog | None, environ: Mapping[str, str]) -> None:
        self._session = session
        self._catalog = catalog
        self._environ = environ
        self._given: dict[str, ServerEntry] = {}
        """Those that are in the session and not in the catalog."""

    @property
    def where(self) -> dict[str, Any]:
        """Where the catalog is, and whether it may be changed."""
        if self._catalog is None:
            return {"path": None, "read_only": True}
        return {"path": str(self._catalog.path), "read_only": self._catalog.read_only}

    async def begin(self, given: Sequence[ServerEntry], *, connect: bool = True) -> None:
        """Add the servers of the command line, and those of the catalog: they are connected to if they say so."""
        known: tuple[ServerEntry, ...] = ()
        if self._catalog is not None:
            try:
                known = (await asyncio.to_thread(self._catalog.listing)).entries
            except CatalogError:
                known = ()  # The page tells what is wrong with it, when it asks.
        for entry in given:
            same = next((each for each in known if each.name == entry.name and each == entry), None)
            named = entry if same else replace(entry, name=free_name(entry.name, {each.name for each in known}))
            await self._open(named, connect=connect, given=same is None)
        for entry in known:
            if entry.name not in self._session.servers:
                await self._open(entry, connect=entry.auto_connect)

    async def _open(self, entry: ServerEntry, *, connect: bool, given: bool = False) -> None:
        if entry.name in self._session.servers:
            entry = replace(entry, name=free_name(entry.name, self._session.servers))
        if given:
            self._given[entry.name] = entry
        await self._session.add(entry, connect=connect)

    async def listing(self) -> dict[str, Any]:
        """All entries, without their secrets, and what is wrong with others."""
        entries: list[ServerEntry] = []
        problems: list[str] = []
        if self._catalog is not None:
            try:
                listing = await asyncio.to_thread(self._catalog.listing)
                entries, problems = list(listing.entries), list(listing.problems)
            except CatalogError as error:
                problems = [str(error)]
        names = {each.name for each in entries}
        shown = [self._shown(each, in_catalog=True) for each in entries]
        shown += [self._shown(each, in_catalog=False) for each in self._given.values() if each.name not in names]
        return {**self.where, "entries": shown, "problems": problems}

    def _shown(self, entry: ServerEntry, *, in_catalog: bool) -> dict[str, Any]:
        facts = entry.shown()
        in_session = entry.name in self._session.servers
        ours = {"target": target_of(facts), "in_session": in_session, "in_catalog": in_catalog}
        return {**facts, "name": entry.name, **ours}

    async def add(self, given: dict[str, Any]) -> dict[str, Any]:
        """Add a server: an entry, or what one would type to mean it (`target`). It is connected to.

        Raises:
            Problem: It is none, or its name is taken.
        """
        entry = await self._doing(lambda: self._entry(given))
        catalog = self._catalog
        if catalog is not None and not catalog.read_only:
            entry = await self._doing(lambda: catalog.add(entry))
            await self._open(entry, connect=True)
            return self._shown(entry, in_catalog=True)
        if entry.name in self._session.servers:
            raise Problem(
                409, "name-taken", f"There is a server called {entry.name!r} already.", "Choose another name."
            )
        await self._open(entry, connect=True, given=True)
        return self._shown(entry, in_catalog=False)

    def _entry(self, given: dict[str, Any]) -> ServerEntry:
        name = given.get("name")
        if isinstance(target := given.get("target"), str) and "command" not in given and "url" not in given:
            entry = resolve(target, self._catalog)
            return replace(entry, name=name) if isinstance(name, str) and name.strip() else entry
        if not isinstance(name, str) or not name.strip():
            raise Problem(400, "bad-body", "`name` is missing.", "Give the server a name.", payload={"path": ["name"]})
        return ServerEntry.from_raw(name.strip(), _raw(given))

    async def change(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """Put another entry in the place of one; the session goes over to it.

        Raises:
            Problem: There is no such server, or the entry is none.
        """
        before, in_catalog = await self._find(name)
        called = str(given.get("name", name)).strip()
        after = await self._doing(lambda: keep_secrets(ServerEntry.from_raw(called, _raw(given)), before))
        if in_catalog and self._catalog is not None:
            catalog = self._catalog
            after = await self._doing(lambda: catalog.edit(before, after))
        else:
            if after.name != name and after.name in self._session.servers:
                raise Problem(409, "name-taken", f"There is a server called {after.name!r} already.", "Choose another.")
            self._given.pop(name, None)
            self._given[after.name] = after
        server = self._session.servers.get(name)
        if server is not None and after.name == name:
            await server.change(Opening.of(after, self._environ))
        else:
            was = server is not None and server.view.state != "disconnected"
            if server is not None:
                await self._session.remove(name)
            await self._open(after, connect=was)
        return self._shown(after, in_catalog=in_catalog)

    async def _find(self, name: str) -> tuple[ServerEntry, bool]:
        names = list(self._given)
        if self._catalog is not None:
            entries = await self._doing(self._catalog.entries)
            for entry in entries:
                if entry.name == name:
                    return entry, True
            names += [each.name for each in entries]
        if name in self._given:
            return self._given[name], False
        raise unknown("server", name, names)

    async def remove(self, name: str) -> None:
        """Forget a server, here and in the catalog.

        Raises:
            Problem: There is no such server, or the catalog may not be changed.
        """
        _, in_catalog = await self._find(name)
        if in_catalog and self._catalog is not None:
            catalog = self._catalog
            await self._doing(lambda: catalog.remove(name))
        self._given.pop(name, None)
        if name in self._session.servers:
            await self._session.remove(name)

    async def clone(self, name: str, called: str) -> dict[str, Any]:
        """Add the same server once more.

        Raises:
            Problem: There is no such server, or the catalog may not be changed.
        """
        entry, in_catalog = await self._find(name)
        if in_catalog and self._catalog is not None:
            catalog = self._catalog
            copy = await self._doing(lambda: catalog.clone(name) if not called else _add(catalog, entry, called))
            await self._open(copy, connect=False)
        else:
            free = free_name(called or f"{name} copy", self._session.servers)
            copy = replace(entry, name=free)
            await self._open(copy, connect=False, given=True)
        return self._shown(copy, in_catalog=in_catalog)

    async def clients(self) -> list[dict[str, Any]]:
        """What other programs on this machine know."""
        return [
            {
                "client": each.client,
                "path": str(each.path),
                "project": None if each.project is None else str(each.project),
                "servers": [entry.name for entry in each.servers],
                "problem": each.problem,
            }
            for each in await asyncio.to_thread(self._clients)
        ]

    def _clients(self) -> list[FoundClient]:
        return find_clients(Path.home(), Path.cwd(), sys.platform, self._environ)

    async def take(self, path: str | None, text: str | None, names: list[str] | None) -> dict[str, Any]:
        """Take servers over from another program's file, or from the text of one. They are not connected to.

        Raises:
            Problem: There is nothing to take them from, or the catalog may not be changed.
        """
        found = await self._doing(lambda: self._found(path, text))
        wanted = [each for each in found if names is None or each.name in names]
        missing = [name for name in names or () if name not in {each.name for each in found}]
        catalog = self._catalog
        if catalog is None or catalog.read_only:
            raise Problem(409, "catalog-read-only", "The catalog may not be changed.", "Start with --catalog FILE.")
        imported = await self._doing(lambda: catalog.import_entries(wanted))
        for entry in imported.added:
            await self._open(entry, connect=False)
        skipped = [{"name": name, "reason": "it is in the catalog already"} for name in imported.known]
        skipped += [{"name": name, "reason": "it is not in the file"} for name in missing]
        return {"added": [each.name for each in imported.added], "renamed": imported.renamed, "skipped": skipped}

    def _found(self, path: str | None, text: str | None) -> list[ServerEntry]:
        if path is not None:
            # Only what `clients` told of: the page does not choose which files are read.
            files = [each for each in self._clients() if str(each.path) == path]
            if not files:
                raise Problem(
                    404, "no-such-file", f"No program keeps its servers in {path}.", "Choose one of the list."
                )
            return [entry for each in files for entry in each.servers]
        try:
            document, _ = parse(text or "")
        except NotJson as error:
            raise Problem(400, "bad-json", f"The text is not JSON: {error}", "Paste an mcpServers file.") from None
        facts = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
        section: Any = next((facts[key] for key in ("mcpServers", "servers") if key in facts), None)
        if not isinstance(section, dict):
            message = "There is no `mcpServers` in it."
            raise Problem(400, "bad-body", message, "Paste an mcpServers file.", payload={"path": ["mcpServers"]})
        return [ServerEntry.from_raw(name, raw) for name, raw in cast("dict[str, Any]", section).items()]

    async def export(self) -> dict[str, Any]:
        """The catalog as an `mcpServers` file. Its secrets are variables in it: they never reach the page."""
        from tidings.inspector.catalog_export import exported  # noqa: PLC0415 - rarely wanted

        entries = list(await self._doing(self._catalog.entries)) if self._catalog is not None else []
        names = {each.name for each in entries}
        export = exported([*entries, *(each for each in self._given.values() if each.name not in names)])
        return {"document": export.document, "variables": export.variables}

    @staticmethod
    async def _doing(run: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(run)
        except CatalogError as error:
            raise Problem(409, "catalog", str(error), "Look at the catalog's file, or choose another name.") from None
        except BadTarget as error:
            raise Problem(400, "bad-target", error.message, "Correct the address or the command.") from None


def _add(catalog: Catalog, entry: ServerEntry, called: str) -> ServerEntry:
    return catalog.add(replace(entry, name=called))


def _raw(given: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key not in _OURS}
