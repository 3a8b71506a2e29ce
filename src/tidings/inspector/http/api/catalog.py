"""The catalog: the servers that the page knows, shown and changed.

Secrets in an entry never reach the page: they are shown as `***`, and a value that comes back as `***` is unchanged.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from starlette.requests import Request

from tidings._kit.bounded_json import NotJson, as_dict, as_dict_or_none, parse_with_comments
from tidings.errors import BadTarget
from tidings.inspector.catalog import Catalog, CatalogError, ServerEntry, exported
from tidings.inspector.http.context import running_of
from tidings.inspector.http.exchange import ApiProblem, Routes, body, unknown
from tidings.inspector.session import NameTaken, NoSuchServer, SessionServers
from tidings.inspector.view.view import target_of

# Keys of an entry that its file does not have.
_NOT_IN_FILE: Final = frozenset({"name", "target"})
ROUTES: Final = Routes("/api")


@contextmanager
def _as_problems() -> Generator[None]:
    try:
        yield
    except NameTaken as error:
        raise ApiProblem(409, "name-taken", str(error), "Choose another name.") from None
    except NoSuchServer as error:
        raise unknown("server", error.name, error.names) from None
    except CatalogError as error:
        raise ApiProblem(409, "catalog", str(error), "Check the catalog's file, or choose another name.") from None
    except BadTarget as error:
        raise ApiProblem(400, "bad-target", error.message, "Correct the address or the command.") from None


def catalog_facts(catalog: Catalog | None) -> dict[str, Any]:
    """Returns the path of the catalog, and whether it is read-only."""
    if catalog is None:
        return {"path": None, "read_only": True}
    return {"path": str(catalog.path), "read_only": catalog.read_only}


def _shown(entry: ServerEntry) -> dict[str, Any]:
    facts = entry.shown()
    return facts | {"name": entry.name, "target": target_of(facts)}


def _changed(request: Request, entry: ServerEntry) -> dict[str, Any]:
    running_of(request).feed.mark_stale("catalog")
    return _shown(entry)


@ROUTES.add("GET", "/catalog")
async def listed(request: Request) -> dict[str, Any]:
    """Returns all entries, and the problems of others."""
    servers = running_of(request).servers
    known, problems = await servers.listing()
    return {**catalog_facts(servers.catalog), "entries": [_shown(each) for each in known], "problems": problems}


@ROUTES.add("POST", "/catalog")
async def add(request: Request) -> dict[str, Any]:
    """Adds a server, given as an entry or as a user would type it (`target`), and connects to it."""
    servers, given = running_of(request).servers, (await body(request)).values
    with _as_problems():
        return _changed(request, await servers.add(await asyncio.to_thread(_entry, servers, given)))


def _entry(servers: SessionServers, given: dict[str, Any]) -> ServerEntry:
    name = given.get("name")
    named = isinstance(name, str) and bool(name.strip())
    if isinstance(target := given.get("target"), str) and "command" not in given and "url" not in given:
        return servers.resolve(target, name if named else None)
    if not isinstance(name, str) or not named:
        raise ApiProblem(400, "bad-body", "`name` is missing.", "Give the server a name.", payload={"path": ["name"]})
    return ServerEntry.from_raw(name.strip(), _raw(given))


def _raw(given: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key not in _NOT_IN_FILE}


@ROUTES.add("PUT", "/catalog/{name}")
async def change(request: Request) -> dict[str, Any]:
    """Replaces an entry. The session connects to the new one."""
    servers, name, given = running_of(request).servers, request.path_params["name"], (await body(request)).values
    with _as_problems():
        await servers.find(name)
        edited = ServerEntry.from_raw(str(given.get("name", name)).strip(), _raw(given))
        return _changed(request, await servers.change(name, edited))


@ROUTES.add("DELETE", "/catalog/{name}")
async def remove(request: Request) -> None:
    """Removes a server from the session and the catalog."""
    running = running_of(request)
    with _as_problems():
        await running.servers.remove(request.path_params["name"])
    running.feed.mark_stale("catalog")


@ROUTES.add("POST", "/catalog/{name}/clone")
async def clone(request: Request) -> dict[str, Any]:
    """Adds a copy of a server."""
    called = (await body(request)).text("as", "", empty=True)
    with _as_problems():
        return _changed(request, await running_of(request).servers.clone(request.path_params["name"], called))


@ROUTES.add("GET", "/clients")
async def clients(request: Request) -> dict[str, Any]:
    """Returns the servers that other programs on this machine know."""
    found = [
        {
            "client": each.client,
            "path": str(each.path),
            "project": None if each.project is None else str(each.project),
            "servers": [entry.name for entry in each.servers],
            "problem": each.problem,
        }
        for each in await running_of(request).servers.clients()
    ]
    return {"clients": found}


@ROUTES.add("POST", "/catalog/import")
async def take(request: Request) -> dict[str, Any]:
    """Adds servers of another program's file, or of the text of one. They are not connected to."""
    servers, given = running_of(request).servers, await body(request)
    names = given.names("names")
    with _as_problems():
        if "path" in given.values:
            found = await _in_file(servers, given.text("path"))
        elif "text" in given.values:
            found = _in_text(given.text("text"))
        else:
            raise ApiProblem(400, "bad-body", "`path` or `text` is missing.", "Give one of them.")
        if servers.writable is None:
            raise ApiProblem(409, "catalog-read-only", "The catalog is read-only.", "Start with --catalog FILE.")
        imported = await servers.take([each for each in found if names is None or each.name in names])
    running_of(request).feed.mark_stale("catalog")
    missing = set(names or ()) - {each.name for each in found}
    skipped = [{"name": name, "reason": "it is in the catalog already"} for name in imported.known]
    skipped += [{"name": name, "reason": "it is not in the file"} for name in names or () if name in missing]
    return {"added": [each.name for each in imported.added], "skipped": skipped}


async def _in_file(servers: SessionServers, path: str) -> list[ServerEntry]:
    # Only files that `clients` lists: the page must not choose which files are read.
    files = [each for each in await servers.clients() if str(each.path) == path]
    if not files:
        raise ApiProblem(404, "no-such-file", f"No program keeps its servers in {path}.", "Choose one of the list.")
    return [entry for each in files for entry in each.servers]


def _in_text(text: str) -> list[ServerEntry]:
    try:
        document = as_dict(parse_with_comments(text)[0])
    except NotJson as error:
        raise ApiProblem(400, "bad-json", f"The text is not JSON: {error}", "Paste an mcpServers file.") from None
    section = as_dict_or_none(next((document[key] for key in ("mcpServers", "servers") if key in document), None))
    if section is None:
        message = "There is no `mcpServers` in it."
        raise ApiProblem(400, "bad-body", message, "Paste an mcpServers file.", payload={"path": ["mcpServers"]})
    return [ServerEntry.from_raw(name, raw) for name, raw in section.items()]


@ROUTES.add("GET", "/catalog/export")
async def export(request: Request) -> dict[str, Any]:
    """Returns the catalog as an `mcpServers` file, with secrets masked."""
    servers = running_of(request).servers
    if servers.catalog is not None:
        with _as_problems():  # A catalog that cannot be read is not exported as an empty one.
            await asyncio.to_thread(servers.catalog.entries)
    return {"document": exported((await servers.listing())[0])}
