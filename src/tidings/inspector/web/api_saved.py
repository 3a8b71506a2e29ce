"""Saved calls, and requests as texts to paste."""

from typing import Any, Final

from starlette.requests import Request
from starlette.routing import Route

from tidings.inspector.web.answers import Fields, Problem, body, endpoint, unknown
from tidings.inspector.web.inspector import feed_of, named_server, saved_of, session_of


async def listed(request: Request) -> dict[str, Any]:
    """All of them."""
    return {"saved": saved_of(request).all()}


async def add(request: Request) -> dict[str, Any]:
    """Save a call."""
    from tidings.inspector.web.saved import KINDS  # noqa: PLC0415 - the page is served before this is needed

    given = await body(request)
    kind = given.text("kind")
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    call = saved_of(request).add(given.text("name"), given.text("server"), kind, given.mapping("data"))
    feed_of(request).mark_stale("saved")
    return call


async def remove(request: Request) -> None:
    """Delete one."""
    if not saved_of(request).remove(request.path_params["id"]):
        raise Problem(404, "no-such-call", "This call is not saved any more.")
    feed_of(request).mark_stale("saved")


async def snippet(request: Request) -> dict[str, str]:
    """A request as a text to paste."""
    from tidings.inspector import snippets  # noqa: PLC0415 - likewise
    from tidings.inspector.web.saved import KINDS  # noqa: PLC0415 - likewise

    given = await body(request)
    view = named_server(session_of(request), given.text("server")).view
    kind, shape = given.text("kind"), given.text("as")
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    method, params = _asked(kind, given)
    if shape == "json":
        return {"text": snippets.as_json(method, params)}
    if shape == "python":
        return {"text": snippets.as_python(view, kind, method, params)}
    if shape == "curl":
        return {"text": snippets.as_shell(view, method, params)}
    raise unknown("shape", shape, ("json", "python", "curl"))


def _asked(kind: str, given: Fields) -> tuple[str, dict[str, Any]]:
    from tidings.inspector.snippets import METHODS  # noqa: PLC0415 - likewise

    match kind:
        case "call":
            tool = given.text("tool") if "tool" in given.values else given.text("name")
            return METHODS[kind], {"name": tool, "arguments": given.mapping("arguments", {})}
        case "read":
            return METHODS[kind], {"uri": given.text("uri")}
        case "prompt":
            return METHODS[kind], {"name": given.text("name"), "arguments": given.texts("arguments", {})}
        case _:
            return given.text("method"), given.mapping("params", {})


ROUTES: Final = [
    Route("/api/saved", endpoint(listed)),
    Route("/api/saved", endpoint(add), methods=["POST"]),
    Route("/api/saved/{id}", endpoint(remove), methods=["DELETE"]),
    Route("/api/snippet", endpoint(snippet), methods=["POST"]),
]
