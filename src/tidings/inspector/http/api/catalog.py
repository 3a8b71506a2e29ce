"""The catalog of servers.

The servers that the page knows, as it shows and changes them.

What is secret in an entry never reaches the page: it is shown as `***`, and what comes back as `***` stays as it was.
"""

import asyncio
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from starlette.requests import Request
from starlette.routing import Route

from tidings._kit.bounded_json import NotJson, parse_with_comments
from tidings.errors import BadTarget
from tidings.inspector import servers
from tidings.inspector.catalog import Catalog, CatalogError, ServerEntry
from tidings.inspector.http.context import feed_of, servers_of
from tidings.inspector.http.exchange import ApiProblem, body, endpoint, unknown
from tidings.inspector.servers import KnownServer, NameTaken, NoSuchServer
from tidings.inspector.session import Session
from tidings.inspector.view.view import target_of


async def listed(request: Request) -> dict[str, Any]:
    """All entries."""
    return await servers_of(request).listing()


async def add(request: Request) -> dict[str, Any]:
    """Add a server, and connect to it."""
    added = await servers_of(request).add((await body(request)).values)
    return _changed(request, added)


async def change(request: Request) -> dict[str, Any]:
    """Change an entry."""
    given = (await body(request)).values
    return _changed(request, await servers_of(request).change(request.path_params["name"], given))


async def remove(request: Request) -> None:
    """Forget a server."""
    await servers_of(request).remove(request.path_params["name"])
    feed_of(request).mark_stale("catalog")


async def clone(request: Request) -> dict[str, Any]:
    """Add the same once more."""
    called = (await body(request)).text("as", "", empty=True)
    return _changed(request, await servers_of(request).clone(request.path_params["name"], called))


async def clients(request: Request) -> dict[str, Any]:
    """What other programs know."""
    return {"clients": await servers_of(request).clients()}


async def take(request: Request) -> dict[str, Any]:
    """Take servers over."""
    given = await body(request)
    path = given.text("path") if "path" in given.values else None
    text = given.text("text") if "text" in given.values else None
    if path is None and text is None:
        raise ApiProblem(400, "bad-body", "`path` or `text` is missing.", "Give one of them.")
    return _changed(request, await servers_of(request).take(path, text, given.names("names")))


async def export(request: Request) -> dict[str, Any]:
    """The catalog for other programs, without its secrets."""
    return await servers_of(request).export()


def _changed(request: Request, value: dict[str, Any]) -> dict[str, Any]:
    feed_of(request).mark_stale("catalog")
    return value


ROUTES: Final = [
    Route("/api/catalog", endpoint(listed)),
    Route("/api/catalog", endpoint(add), methods=["POST"]),
    Route("/api/catalog/import", endpoint(take), methods=["POST"]),
    Route("/api/catalog/export", endpoint(export)),
    Route("/api/catalog/{name}/clone", endpoint(clone), methods=["POST"]),
    Route("/api/catalog/{name}", endpoint(change), methods=["PUT"]),
    Route("/api/catalog/{name}", endpoint(remove), methods=["DELETE"]),
    Route("/api/clients", endpoint(clients)),
]


_OURS: Final = frozenset({"name", "target", "in_session", "in_catalog"})
"""What an entry has besides what its file has."""


class ServersApi:
    """The servers of a page: `inspector.servers`, in JSON."""

    def __init__(self, session: Session, catalog: Catalog | None, environ: Mapping[str, str]) -> None:
        self._all = servers.SessionServers(session, catalog, environ)
        self._session = session
        self._catalog = catalog

    @property
    def where(self) -> dict[str, Any]:
        """Where the catalog is, and whether it may be changed."""
        if self._catalog is None:
            return {"path": None, "read_only": True}
        return {"path": str(self._catalog.path), "read_only": self._catalog.read_only}

    async def begin(self, given: Sequence[ServerEntry], *, connect: bool = True) -> None:
        """Add the servers of the command line, and those of the catalog: they are connected to if they say so."""
        await self._all.begin(given, connect=connect)

    async def listing(self) -> dict[str, Any]:
        """All entries, without their secrets, and what is wrong with others."""
        known, problems = await self._all.listing()
        return {**self.where, "entries": [self._shown(each) for each in known], "problems": problems}

    def _shown(self, known: KnownServer) -> dict[str, Any]:
        entry, facts = known.entry, known.entry.shown()
        in_session = entry.name in self._session.servers
        ours = {"target": target_of(facts), "in_session": in_session, "in_catalog": known.in_catalog}
        return {**facts, "name": entry.name, **ours}

    async def add(self, given: dict[str, Any]) -> dict[str, Any]:
        """Add a server: an entry, or what one would type to mean it (`target`). It is connected to.

        Raises:
            Problem: It is none, or its name is taken.
        """
        with _told():
            return self._shown(await self._all.add(await asyncio.to_thread(self._entry, given)))

    def _entry(self, given: dict[str, Any]) -> ServerEntry:
        name = given.get("name")
        if isinstance(target := given.get("target"), str) and "command" not in given and "url" not in given:
            return self._all.resolve(target, name if isinstance(name, str) and name.strip() else None)
        if not isinstance(name, str) or not name.strip():
            raise ApiProblem(
                400, "bad-body", "`name` is missing.", "Give the server a name.", payload={"path": ["name"]}
            )
        return ServerEntry.from_raw(name.strip(), _raw(given))

    async def change(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """Put another entry in the place of one; the session goes over to it.

        Raises:
            Problem: There is no such server, or the entry is none.
        """
        with _told():
            await self._all.find(name)
            called = str(given.get("name", name)).strip()
            return self._shown(await self._all.change(name, ServerEntry.from_raw(called, _raw(given))))

    async def remove(self, name: str) -> None:
        """Forget a server, here and in the catalog.

        Raises:
            Problem: There is no such server, or the catalog may not be changed.
        """
        with _told():
            await self._all.remove(name)

    async def clone(self, name: str, called: str) -> dict[str, Any]:
        """Add the same server once more.

        Raises:
            Problem: There is no such server, or the catalog may not be changed.
        """
        with _told():
            return self._shown(await self._all.clone(name, called))

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
            for each in await self._all.clients()
        ]

    async def take(self, path: str | None, text: str | None, names: list[str] | None) -> dict[str, Any]:
        """Take servers over from another program's file, or from the text of one. They are not connected to.

        Raises:
            Problem: There is nothing to take them from, or the catalog may not be changed.
        """
        with _told():
            found = await asyncio.to_thread(self._found, path, text)
            wanted = [each for each in found if names is None or each.name in names]
            missing = [name for name in names or () if name not in {each.name for each in found}]
            if self._all.writable is None:
                raise ApiProblem(
                    409, "catalog-read-only", "The catalog may not be changed.", "Start with --catalog FILE."
                )
            imported = await self._all.take(wanted)
        skipped = [{"name": name, "reason": "it is in the catalog already"} for name in imported.known]
        skipped += [{"name": name, "reason": "it is not in the file"} for name in missing]
        return {"added": [each.name for each in imported.added], "renamed": imported.renamed, "skipped": skipped}

    def _found(self, path: str | None, text: str | None) -> list[ServerEntry]:
        if path is not None:
            # Only what `clients` told of: the page does not choose which files are read.
            files = [each for each in self._all.find_clients() if str(each.path) == path]
            if not files:
                raise ApiProblem(
                    404, "no-such-file", f"No program keeps its servers in {path}.", "Choose one of the list."
                )
            return [entry for each in files for entry in each.servers]
        try:
            document, _ = parse_with_comments(text or "")
        except NotJson as error:
            raise ApiProblem(400, "bad-json", f"The text is not JSON: {error}", "Paste an mcpServers file.") from None
        facts = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
        section: Any = next((facts[key] for key in ("mcpServers", "servers") if key in facts), None)
        if not isinstance(section, dict):
            message = "There is no `mcpServers` in it."
            raise ApiProblem(400, "bad-body", message, "Paste an mcpServers file.", payload={"path": ["mcpServers"]})
        return [ServerEntry.from_raw(name, raw) for name, raw in cast("dict[str, Any]", section).items()]

    async def export(self) -> dict[str, Any]:
        """The catalog as an `mcpServers` file. Its secrets are variables in it: they never reach the page."""
        from tidings.inspector.catalog.catalog import exported  # noqa: PLC0415 - rarely wanted

        if self._catalog is not None:
            with _told():  # A catalog that cannot be read is no empty one.
                await asyncio.to_thread(self._catalog.entries)
        known, _ = await self._all.listing()
        export = exported([each.entry for each in known])
        return {"document": export.document, "variables": export.variables}


@contextmanager
def _told() -> Generator[None]:
    """Says what cannot be done as the API does."""
    try:
        yield
    except NameTaken as error:
        raise ApiProblem(409, "name-taken", str(error), "Choose another name.") from None
    except NoSuchServer as error:
        raise unknown("server", error.name, error.names) from None
    except CatalogError as error:
        raise ApiProblem(409, "catalog", str(error), "Look at the catalog's file, or choose another name.") from None
    except BadTarget as error:
        raise ApiProblem(400, "bad-target", error.message, "Correct the address or the command.") from None


def _raw(given: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key not in _OURS}
