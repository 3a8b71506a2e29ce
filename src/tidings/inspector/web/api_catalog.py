"""The catalog of servers."""

from typing import Any, Final

from starlette.requests import Request
from starlette.routing import Route

from tidings.inspector.web.answers import Problem, body, endpoint
from tidings.inspector.web.inspector import feed_of, servers_of


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
        raise Problem(400, "bad-body", "`path` or `text` is missing.", "Give one of them.")
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
