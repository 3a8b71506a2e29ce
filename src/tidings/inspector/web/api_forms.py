"""Forms from JSON Schemas, and whether what was filled in is right."""

import asyncio
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.routing import Route

from tidings.inspector.reading import as_text
from tidings.inspector.web.answers import Fields, Problem, body, endpoint, text_of, unknown
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


async def prompt_form(request: Request) -> dict[str, Any]:
    """The form of a prompt's arguments."""
    prompts, name = server_of(request).view.prompts, request.path_params["prompt"]
    if name not in prompts:
        raise unknown("prompt", name, prompts)
    from tidings.inspector import schemas  # noqa: PLC0415 - likewise

    field = schemas.prompt_form(prompts[name].get("arguments"))
    return {"field": field.to_json(), "initial": schemas.initial(field)}


async def template_form(request: Request) -> dict[str, Any]:
    """The form of a resource template's variables."""
    from tidings.inspector import schemas  # noqa: PLC0415 - likewise

    field = schemas.template_form(text_of(request, "uri"))
    return {"field": field.to_json(), "initial": schemas.initial(field)}


async def check(request: Request) -> dict[str, Any]:
    """What is wrong with a value."""
    from tidings.inspector import schemas  # noqa: PLC0415 - likewise

    given = await body(request)
    problems = await asyncio.to_thread(schemas.check, given.any("schema"), given.any("value"))
    return {"problems": [problem_of(each) for each in problems]}


async def fill(request: Request) -> dict[str, Any]:
    """The value of what was typed into a form, and what is wrong with it."""
    given = await body(request)
    return await asyncio.to_thread(_fill, _schema(request, given), given.any("texts"))


def _schema(request: Request, given: Fields) -> Any:
    if "schema" in given.values:
        return given.values["schema"]
    from tidings.inspector.web.inspector import named_server, session_of  # noqa: PLC0415 - likewise

    tools = named_server(session_of(request), given.text("server")).view.tools
    name = as_text(given.values.get("tool"))
    if name is None:
        raise Problem(400, "bad-body", "`schema`, or `server` and `tool`, is missing.", "Give one of them.")
    if name not in tools:
        raise unknown("tool", name, tools)
    return tools[name].get("inputSchema")


def _fill(schema: object, texts: Any) -> dict[str, Any]:
    from tidings.inspector import schemas  # noqa: PLC0415 - likewise

    filled = schemas.from_texts(schemas.form(schema), texts)
    problems = filled.problems or schemas.check(schema, filled.value)
    return {"value": filled.value, "problems": [problem_of(each) for each in problems]}


def problem_of(problem: "Wrong") -> dict[str, Any]:
    """What is wrong, with its place for programs (`path`) and for people (`place`)."""
    return {**problem.to_json(), "path": list(problem.keys), "place": problem.path}


ROUTES: Final = [
    Route("/api/form", endpoint(form), methods=["POST"]),
    Route("/api/check", endpoint(check), methods=["POST"]),
    Route("/api/fill", endpoint(fill), methods=["POST"]),
    Route("/api/servers/{server}/tools/{tool:path}/form", endpoint(tool_form)),
    Route("/api/servers/{server}/prompts/{prompt:path}/form", endpoint(prompt_form)),
    Route("/api/servers/{server}/template-form", endpoint(template_form)),
]
