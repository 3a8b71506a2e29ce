"""Forms from JSON Schemas and checks of values; saved calls; requests as text to paste."""

import asyncio
from typing import Any, Final

from starlette.requests import Request

from tidings.inspector import forms, snippets
from tidings.inspector.http.context import KINDS, running_of, server_of
from tidings.inspector.http.exchange import ApiProblem, Fields, Routes, body, one_of

ROUTES: Final = Routes("/api")


@ROUTES.add("POST", "/form")
async def form(request: Request) -> dict[str, Any]:
    """Returns the form of a schema."""
    return await asyncio.to_thread(_form, (await body(request)).any("schema"))


@ROUTES.add("GET", "/servers/{server}/tools/{tool:path}/form")
async def tool_form(request: Request) -> dict[str, Any]:
    """Returns the form of a tool's arguments."""
    tools = server_of(request).view.tools
    tool = tools[one_of("tool", request.path_params["tool"], tools)]
    return await asyncio.to_thread(_form, tool.get("inputSchema"))


def _form(schema: object) -> dict[str, Any]:
    field = forms.form(schema)
    return {"field": field.to_json(), "initial": forms.initial(field)}


@ROUTES.add("POST", "/check")
async def check(request: Request) -> dict[str, Any]:
    """Returns the problems of a value."""
    given = await body(request)
    problems = await asyncio.to_thread(forms.check, given.any("schema"), given.any("value"))
    return {"problems": [problem_of(each) for each in problems]}


def problem_of(problem: forms.FieldProblem) -> dict[str, Any]:
    """Returns a problem with its place for programs (`path`) and for people (`place`)."""
    return {"path": list(problem.keys), "place": problem.path, "message": problem.message, "fault": problem.fault}


@ROUTES.add("GET", "/saved")
async def listed(request: Request) -> dict[str, Any]:
    """Returns all saved calls."""
    return {"saved": await asyncio.to_thread(running_of(request).saved.all)}


@ROUTES.add("POST", "/saved")
async def add(request: Request) -> dict[str, Any]:
    """Saves a call."""
    running, given = running_of(request), await body(request)
    kind = one_of("kind", given.text("kind"), KINDS)
    call = given.text("name"), given.text("server"), kind, given.mapping("data")
    saved = await asyncio.to_thread(running.saved.add, *call)
    running.feed.mark_stale("saved")
    return saved


@ROUTES.add("DELETE", "/saved/{id}")
async def remove(request: Request) -> None:
    """Deletes a saved call."""
    running = running_of(request)
    if not await asyncio.to_thread(running.saved.remove, request.path_params["id"]):
        raise ApiProblem(404, "no-such-call", "This call is not saved any more.")
    running.feed.mark_stale("saved")


@ROUTES.add("POST", "/snippet")
async def snippet(request: Request) -> dict[str, str]:
    """Returns a request as text to paste."""
    given = await body(request)
    view = server_of(request, given.text("server")).view
    kind, shape = one_of("kind", given.text("kind"), KINDS), given.text("as")
    method, params = _request(kind, given)
    match one_of("shape", shape, ("json", "python", "curl")):
        case "json":
            return {"text": snippets.as_json(method, params)}
        case "python":
            return {"text": snippets.as_python(view, kind, method, params)}
        case _:
            return {"text": snippets.as_shell(view, method, params)}


def _request(kind: str, given: Fields) -> tuple[str, dict[str, Any]]:
    match kind:
        case "call":
            tool = given.text("tool") if "tool" in given.values else given.text("name")
            return snippets.METHODS[kind], {"name": tool, "arguments": given.mapping("arguments", {})}
        case "read":
            return snippets.METHODS[kind], {"uri": given.text("uri")}
        case "prompt":
            return snippets.METHODS[kind], {"name": given.text("name"), "arguments": given.texts("arguments", {})}
        case _:
            return given.text("method"), given.mapping("params", {})
