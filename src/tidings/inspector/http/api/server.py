"""One server: connecting, requests, subscriptions, questions.

What servers ask of the user: answered, refused, declined, closed.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from starlette.requests import Request
from starlette.routing import Route

from tidings._kit.bounded_json import as_dict, as_text
from tidings.inspector.http.context import feed_of, server_of, session_of
from tidings.inspector.http.exchange import ApiProblem, Fields, body, endpoint, unknown
from tidings.inspector.records import LIST_KEYS

if TYPE_CHECKING:
    from tidings.inspector.server import InspectedServer
    from tidings.inspector.view.items import RequestView


_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_MOST_WAITED: Final = 1_000
"""Requests of one server that wait or run at once; a page that asks for more is out of hand."""


async def listed(request: Request) -> dict[str, Any]:
    """All items of a list, and what is wrong with some."""
    view, name = server_of(request).view, request.path_params["list"]
    if name not in LIST_KEYS:
        raise unknown("list", name, LIST_KEYS)
    from tidings.inspector.http.rows import error_of  # noqa: PLC0415 - the page is served before this is needed

    return {
        "items": list(getattr(view, name).values()),
        "malformed": view.malformed.get(name, []),
        "duplicates": [str(each.get(LIST_KEYS[name])) for each in view.duplicates.get(name, ())],
        "at": view.loaded_at.get(name),
        "error": error_of(view.list_errors.get(name)),
    }


async def reload(request: Request) -> None:
    """Load a list again."""
    server, name = server_of(request), request.path_params["list"]
    if name not in LIST_KEYS:
        raise unknown("list", name, LIST_KEYS)
    await server.reload(name)


async def connect(request: Request) -> None:
    """Connect, in the background: the stream tells what comes of it."""
    server_of(request).start()


async def disconnect(request: Request) -> None:
    """End the connection."""
    await server_of(request).disconnect()


async def reconnect(request: Request) -> None:
    """Connect anew."""
    await server_of(request).reconnect()


async def forget(request: Request) -> None:
    """Take the server out of the session. The catalog keeps it."""
    server = server_of(request)
    await session_of(request).remove(server.name)


async def asked(request: Request) -> dict[str, Any]:
    """A request, with what came of it."""
    server, known = server_of(request), request.path_params["id"]
    found = server.view.requests.get(known)
    if found is None:
        raise ApiProblem(404, "no-such-request", f"Request {known!r} is not kept any more.", "The oldest go first.")
    return await request_facts(server, found)


async def request_facts(server: "InspectedServer", found: "RequestView") -> dict[str, Any]:
    """A request as the page shows it. What a tool returned is checked against what it promised."""
    from tidings.inspector.http.rows import error_of, request_title  # noqa: PLC0415 - the page is served before

    progress = None
    if found.progress is not None:
        progress = {"progress": found.progress, "total": found.total, "message": found.message}
    return {
        "id": found.id,
        "seq": found.seq,
        "method": found.method,
        "title": request_title(found.method, found.params),
        "params": found.params,
        "aside": found.aside,
        "status": found.status,
        "created": found.created_at,
        "started": found.started_at,
        "ended": found.completed_at,
        "ms": None if found.took is None else found.took * 1000,
        "attempts": found.attempts,
        "result": found.result,
        "result_size": found.result_size,
        "error": error_of(found.error),
        "progress": progress,
        "problems": await _output_problems(server, found),
    }


async def _output_problems(server: "InspectedServer", found: "RequestView") -> list[dict[str, Any]]:
    result = as_dict(found.result)
    if found.method != "tools/call" or not result:
        return []
    schema = server.view.tools.get(as_text(found.params.get("name")) or "", {}).get("outputSchema")
    if schema is None or result.get("isError") is True or result.get("cut") is True:
        return []
    from tidings.inspector.forms import check_output  # noqa: PLC0415 - likewise
    from tidings.inspector.http.api.calls import problem_of  # noqa: PLC0415 - likewise

    # A thread, because a hostile schema may take its second.
    problems = await asyncio.to_thread(check_output, schema, result.get("structuredContent"))
    return [problem_of(each) for each in problems]


async def call(request: Request) -> dict[str, str]:
    """Call a tool. Its id, at once."""
    server, given = await _room(request)
    tool = given.text("tool")
    if server.view.tools and tool not in server.view.tools and given.values.get("unlisted") is not True:
        raise unknown("tool", tool, server.view.tools)
    return {"id": server.call(tool, given.mapping("arguments", {}), timeout=given.number("timeout"))}


async def read(request: Request) -> dict[str, str]:
    """Read a resource. Its id, at once."""
    server, given = await _room(request)
    return {"id": server.read(given.text("uri"), timeout=given.number("timeout"))}


async def prompt(request: Request) -> dict[str, str]:
    """Get a prompt. Its id, at once."""
    server, given = await _room(request)
    name = given.text("name")
    if server.view.prompts and name not in server.view.prompts and given.values.get("unlisted") is not True:
        raise unknown("prompt", name, server.view.prompts)
    return {"id": server.get_prompt(name, given.texts("arguments", {}))}


async def raw(request: Request) -> dict[str, str]:
    """Any request, as it is. Its id, at once."""
    server, given = await _room(request)
    return {"id": server.request(given.text("method"), given.mapping("params", {}), timeout=given.number("timeout"))}


async def _room(request: Request) -> "tuple[InspectedServer, Fields]":
    server, given = server_of(request), await body(request)
    waiting = sum(not each.over for each in server.view.requests.values())
    if waiting >= _MOST_WAITED:
        raise ApiProblem(
            429, "too-many-requests", f"{waiting:,} requests wait or run already.", "Cancel some, or wait."
        )
    return server, given


async def cancel(request: Request) -> dict[str, bool]:
    """Cancel a request."""
    return {"cancelled": server_of(request).cancel((await body(request)).text("id"))}


async def subscribe(request: Request) -> None:
    """Subscribe to a resource."""
    await server_of(request).subscribe((await body(request)).text("uri"))


async def unsubscribe(request: Request) -> None:
    """Undo that."""
    await server_of(request).unsubscribe((await body(request)).text("uri"))


async def complete(request: Request) -> dict[str, list[str]]:
    """What the server suggests for an argument."""
    server, given = server_of(request), await body(request)
    ref, argument = Fields(given.mapping("ref")), Fields(given.mapping("argument"))
    kind: Literal["prompt", "template"] = "prompt" if ref.text("type") == "ref/prompt" else "template"
    name = ref.text("name" if kind == "prompt" else "uri")
    context = given.texts("context", {})
    value = argument.text("value", empty=True)
    return {"values": await server.complete(kind, name, argument.text("name"), value, context or None)}


async def log_level(request: Request) -> None:
    """Which log messages the server is to send."""
    level = (await body(request)).text("level")
    if level not in _LEVELS:
        raise unknown("level", level, _LEVELS)
    server = server_of(request)
    await server.set_log_level(cast("Any", level))
    feed_of(request).mark_level(server.name, level)


async def ping(request: Request) -> dict[str, float]:
    """How long the server takes to answer."""
    return {"ms": await server_of(request).ping() * 1000}


_HERE: Final = "/api/servers/{server}"
ROUTES: Final = [
    Route(f"{_HERE}/list/{{list}}", endpoint(listed)),
    Route(f"{_HERE}/requests/{{id}}", endpoint(asked)),
    *(
        Route(f"{_HERE}/{path}", endpoint(run), methods=["POST"])
        for path, run in {
            "list/{list}/reload": reload,
            "connect": connect,
            "disconnect": disconnect,
            "reconnect": reconnect,
            "forget": forget,
            "call": call,
            "read": read,
            "prompt": prompt,
            "request": raw,
            "cancel": cancel,
            "subscribe": subscribe,
            "unsubscribe": unsubscribe,
            "complete": complete,
            "log-level": log_level,
            "ping": ping,
        }.items()
    ),
]


async def answer(request: Request) -> None:
    """Answer a question of the server's."""
    server, given = server_of(request), await body(request)
    known = _question(server, given)
    try:
        server.answer(known, _protocol_answer(server.view.questions[known].kind, given.any("result")))
    except ValueError as error:
        raise ApiProblem(
            400, "bad-answer", f"This is no answer to it: {_brief(error)}", "It goes on waiting."
        ) from None


def _protocol_answer(kind: str, result: Any) -> Any:
    """What the protocol's answer carries, as the SDK has it; a plain text or list is left to the client.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(result, dict):
        return result
    import mcp_types  # noqa: PLC0415 - of the SDK

    types: dict[str, tuple[Any, ...]] = {
        "sampling": (mcp_types.CreateMessageResult, mcp_types.CreateMessageResultWithTools),
        "elicitation": (mcp_types.ElicitResult,),
        "roots": (mcp_types.ListRootsResult,),
    }
    failure = ValueError(f"nobody knows how to answer {kind!r}")
    for each in types.get(kind, ()):
        try:
            return each.model_validate(result)
        except ValueError as error:
            failure = error
    raise failure


def _brief(error: ValueError) -> str:
    """What is wrong, in a sentence: of pydantic's many lines, the places and what is wrong there."""
    found: Any = getattr(error, "errors", None)
    if found is None:
        return str(error).rstrip(".") + "."
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found()[:5]) + "."


async def refuse(request: Request) -> None:
    """Refuse a question, decline it, or close it without a choice."""
    server, given = server_of(request), await body(request)
    known = _question(server, given)
    how = given.text("how", "refuse")
    if how == "decline":
        server.decline(known)
    elif how == "dismiss":
        server.dismiss(known)
    elif how == "refuse":
        reason = given.text("reason", "", empty=True)
        server.refuse(known, reason) if reason else server.refuse(known)
    else:
        raise unknown("way", how, ("refuse", "decline", "dismiss"))


def _question(server: "InspectedServer", given: Fields) -> str:
    known = given.text("id")
    if known not in server.view.questions:
        raise ApiProblem(404, "no-such-question", "This question does not wait any more.", "It was answered, or ended.")
    return known


QUESTION_ROUTES: Final = [
    Route("/api/servers/{server}/answer", endpoint(answer), methods=["POST"]),
    Route("/api/servers/{server}/refuse", endpoint(refuse), methods=["POST"]),
]
