"""The catalog: the servers that the page knows, shown and changed.

Secrets in an entry never reach the page: they are shown as `***`, and a value that comes back as `***` is unchanged.
"""

import asyncio
from typing import Any, Final

from tidings._kit.bounded_json import NotJson, as_dict, as_dict_or_none, parse_with_comments
from tidings.inspector.catalog.catalog import Catalog, exported
from tidings.inspector.catalog.entry import ServerEntry
from tidings.inspector.http.context import ApiProblem, Asked, Routes
from tidings.inspector.session import SessionServers
from tidings.inspector.view.view import target_of

ROUTES: Final = Routes("/api")


def catalog_facts(catalog: Catalog | None) -> dict[str, Any]:
    """Returns the path of the catalog, and whether it is read-only."""
    if catalog is None:
        return {"path": None, "read_only": True}
    return {"path": str(catalog.path), "read_only": catalog.read_only}


def _shown(entry: ServerEntry) -> dict[str, Any]:
    facts = entry.shown()
    return facts | {"name": entry.name, "target": target_of(facts)}


def _changed(asked: Asked, entry: ServerEntry) -> dict[str, Any]:
    asked.running.feed.mark_stale("catalog")
    return _shown(entry)


@ROUTES.add("GET", "/catalog")
async def listed(asked: Asked) -> dict[str, Any]:
    """Returns all entries, and the problems of others."""
    servers = asked.running.servers
    known, problems = await servers.listing()
    return {**catalog_facts(servers.catalog), "entries": [_shown(each) for each in known], "problems": problems}


@ROUTES.add("POST", "/catalog")
async def add(asked: Asked) -> dict[str, Any]:
    """Adds a server, given as an entry or as a user would type it (`target`), and connects to it."""
    servers = asked.running.servers
    return _changed(asked, await servers.add(await asyncio.to_thread(_entry, servers, asked.given.values)))


def _entry(servers: SessionServers, given: dict[str, Any]) -> ServerEntry:
    name = given.get("name")
    named = isinstance(name, str) and bool(name.strip())
    if isinstance(target := given.get("target"), str) and "command" not in given and "url" not in given:
        return servers.resolve(target, name if named else None)
    if not isinstance(name, str) or not named:
        raise ApiProblem(400, "bad-body", "`name` is missing.", "Give the server a name.", payload={"path": ["name"]})
    return _from_facts(name.strip(), given)


def _from_facts(name: str, facts: dict[str, Any]) -> ServerEntry:
    return ServerEntry.from_raw(name, {key: value for key, value in facts.items() if key not in ("name", "target")})


@ROUTES.add("PUT", "/catalog/{name}")
async def change(asked: Asked) -> dict[str, Any]:
    """Replaces an entry. The session connects to the new one."""
    servers, name, given = asked.running.servers, asked.path["name"], asked.given.values
    await servers.find(name)
    edited = _from_facts(str(given.get("name", name)).strip(), given)
    return _changed(asked, await servers.change(name, edited))


@ROUTES.add("DELETE", "/catalog/{name}")
async def remove(asked: Asked) -> None:
    """Removes a server from the session and the catalog."""
    await asked.running.servers.remove(asked.path["name"])
    asked.running.feed.mark_stale("catalog")


@ROUTES.add("POST", "/catalog/{name}/clone")
async def clone(asked: Asked) -> dict[str, Any]:
    """Adds a copy of a server."""
    called = asked.given.text("as", "", empty=True)
    return _changed(asked, await asked.running.servers.clone(asked.path["name"], called))


@ROUTES.add("GET", "/clients")
async def clients(asked: Asked) -> dict[str, Any]:
    """Returns the servers that other programs on this machine know."""
    found: list[dict[str, Any]] = []
    for each in await asked.running.servers.clients():
        project = None if each.project is None else str(each.project)
        facts = {"client": each.client, "path": str(each.path), "project": project, "problem": each.problem}
        found.append({**facts, "servers": [entry.name for entry in each.servers]})
    return {"clients": found}


@ROUTES.add("POST", "/catalog/import")
async def take(asked: Asked) -> dict[str, Any]:
    """Adds servers of another program's file, or of the text of one. They are not connected to."""
    servers, given = asked.running.servers, asked.given
    names = given.names("names")
    if "path" in given.values:
        found = await _in_file(servers, given.text("path"))
    elif "text" in given.values:
        found = _in_text(given.text("text"))
    else:
        raise ApiProblem(400, "bad-body", "`path` or `text` is missing.", "Give one of them.")
    if servers.writable is None:
        raise ApiProblem(409, "catalog-read-only", "The catalog is read-only.", "Start with --catalog FILE.")
    imported = await servers.take([each for each in found if names is None or each.name in names])
    asked.running.feed.mark_stale("catalog")
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
async def export(asked: Asked) -> dict[str, Any]:
    """Returns the catalog as an `mcpServers` file, with secrets masked."""
    servers = asked.running.servers
    if servers.catalog is not None:
        # A catalog that cannot be read is not exported as an empty one.
        await asyncio.to_thread(servers.catalog.entries)
    return {"document": exported((await servers.listing())[0])}
