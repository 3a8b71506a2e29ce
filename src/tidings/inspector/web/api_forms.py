"""Forms from JSON Schemas, and whether what was filled in is right."""

import asyncio
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.routing import Route

from tidings.inspector.web.answers import body, endpoint, unknown
from tidings.inspector.web.inspector import server_of

if TYPE_CHECKING:
    from tidings.inspector.schemas import Problem as Wrong


async def form(request: Request) -> dict[str, Any]:
    """The form of a schema."""
    return await asyncio.to_thread(_form, (await body(request)).any("schema"))


def _form(schema: object) -> dict[str, Any]:
    from tidings.inspector import schemas  # noqa: PLC0415 - the page is served before this is needed

    field = schemas.form(schema)
    return {"field": field.to_json(), "initial": schemas.initial(field)}


async def tool_form(request: Request) -> dict[str, Any]:
    """The form of a tool's arguments."""
    tools, name = server_of(request).view.tools, request.path_params["tool"]
    if name not in tools:
        raise unknown("tool", name, tools)
    return await asyncio.to_thread(_form, tools[name].get("inputSchema"))


async def check(request: Request) -> dict[str, Any]:
    """What is wrong with a value."""
    from tidings.inspector import schemas  # noqa: PLC0415 - likewise

    given = await body(request)
    problems = await asyncio.to_thread(schemas.check, given.any("schema"), given.any("value"))
    return {"problems": [problem_of(each) for each in problems]}


def problem_of(problem: "Wrong") -> dict[str, Any]:
    """What is wrong, with its place for programs (`path`) and for people (`place`)."""
    return {**problem.to_json(), "path": list(problem.keys), "place": problem.path}


ROUTES: Final = [
    Route("/api/form", endpoint(form), methods=["POST"]),
    Route("/api/check", endpoint(check), methods=["POST"]),
    Route("/api/servers/{server}/tools/{tool:path}/form", endpoint(tool_form)),
]
