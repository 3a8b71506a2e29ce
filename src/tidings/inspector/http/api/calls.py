"""Forms from JSON Schemas and checks of values; saved calls; requests as text to paste."""

import asyncio
from typing import Any, Final

from tidings.inspector import snippets
from tidings.inspector.forms import build, values
from tidings.inspector.forms.check import check as problems_of
from tidings.inspector.forms.model import FieldProblem
from tidings.inspector.http.context import KINDS, ApiProblem, Asked, Routes, one_of

ROUTES: Final = Routes("/api")


@ROUTES.add("POST", "/form")
async def form(asked: Asked) -> dict[str, Any]:
    """Returns the form of a schema."""
    return await asyncio.to_thread(_form, asked.given.any("schema"))


@ROUTES.add("GET", "/servers/{server}/tools/{tool:path}/form")
async def tool_form(asked: Asked) -> dict[str, Any]:
    """Returns the form of a tool's arguments."""
    tools = asked.server.view.tools
    tool = tools[one_of("tool", asked.path["tool"], tools)]
    return await asyncio.to_thread(_form, tool.get("inputSchema"))


def _form(schema: object) -> dict[str, Any]:
    field = build.form(schema)
    return {"field": field.to_json(), "initial": values.initial(field)}


@ROUTES.add("POST", "/check")
async def check(asked: Asked) -> dict[str, Any]:
    """Returns the problems of a value."""
    problems = await asyncio.to_thread(problems_of, asked.given.any("schema"), asked.given.any("value"))
    return {"problems": [problem_of(each) for each in problems]}


def problem_of(problem: FieldProblem) -> dict[str, Any]:
    """Returns a problem with its place for programs (`path`) and for people (`place`)."""
    return {"path": list(problem.keys), "place": problem.path, "message": problem.message, "fault": problem.fault}


@ROUTES.add("GET", "/saved")
async def listed(asked: Asked) -> dict[str, Any]:
    """Returns all saved calls."""
    return {"saved": await asyncio.to_thread(asked.running.saved.all)}


@ROUTES.add("POST", "/saved")
async def add(asked: Asked) -> dict[str, Any]:
    """Saves a call."""
    running, given = asked.running, asked.given
    kind = one_of("kind", given.text("kind"), KINDS)
    call = given.text("name"), given.text("server"), kind, given.mapping("data")
    saved = await asyncio.to_thread(running.saved.add, *call)
    running.feed.mark_stale("saved")
    return saved


@ROUTES.add("DELETE", "/saved/{id}")
async def remove(asked: Asked) -> None:
    """Deletes a saved call."""
    if not await asyncio.to_thread(asked.running.saved.remove, asked.path["id"]):
        raise ApiProblem(404, "no-such-call", "This call is not saved any more.")
    asked.running.feed.mark_stale("saved")


@ROUTES.add("POST", "/snippet")
async def snippet(asked: Asked) -> dict[str, str]:
    """Returns a request as text to paste."""
    given = asked.given
    view = asked.server_named(given.text("server")).view
    kind = one_of("kind", given.text("kind"), KINDS)
    method = snippets.METHODS.get(kind) or given.text("method")
    match kind:
        case "call":
            tool = given.text("tool" if "tool" in given.values else "name")
            params: dict[str, Any] = {"name": tool, "arguments": given.mapping("arguments", {})}
        case "read":
            params = {"uri": given.text("uri")}
        case "prompt":
            params = {"name": given.text("name"), "arguments": given.texts("arguments", {})}
        case _:
            params = given.mapping("params", {})
    match one_of("shape", given.text("as"), ("json", "python", "curl")):
        case "json":
            return {"text": snippets.as_json(method, params)}
        case "python":
            return {"text": snippets.as_python(view, kind, method, params)}
        case _:
            return {"text": snippets.as_shell(view, method, params)}
