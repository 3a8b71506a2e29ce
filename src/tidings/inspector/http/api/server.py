"""One server: connecting, requests, subscriptions, and answers to its questions."""

import asyncio
from collections import Counter
from collections.abc import Collection
from dataclasses import asdict
from json import dumps
from typing import Any, Final, Literal, cast

from starlette.requests import Request

from tidings._kit.bounded_json import as_text
from tidings.inspector.catalog import LOG_LEVELS
from tidings.inspector.forms import check_result
from tidings.inspector.http.api.calls import problem_of
from tidings.inspector.http.context import running_of, server_of
from tidings.inspector.http.exchange import ApiProblem, Fields, Routes, body, error_of, one_of, text_of
from tidings.inspector.http.rows import fields_of
from tidings.inspector.records import LIST_KEYS
from tidings.inspector.server import InspectedServer
from tidings.inspector.view.items import RequestView

# Requests of one server that wait or run at the same time. A page that sends more has a fault.
_MOST_WAITING: Final = 1_000
ROUTES: Final = Routes("/api/servers/{server}")


@ROUTES.add("GET", "/list/{list}")
async def listed(request: Request) -> dict[str, Any]:
    """Returns all items of a list, and its faults."""
    view, name = server_of(request).view, one_of("list", request.path_params["list"], LIST_KEYS)
    return {
        "items": list(getattr(view, name).values()),
        "malformed": view.malformed.get(name, []),
        "duplicates": [str(each.get(LIST_KEYS[name])) for each in view.duplicates.get(name, ())],
    }


@ROUTES.add("POST", "/connect")
async def connect(request: Request) -> None:
    """Connects in the background. The stream reports the progress."""
    server_of(request).start()


@ROUTES.add("POST", "/disconnect")
async def disconnect(request: Request) -> None:
    """Disconnects."""
    await server_of(request).disconnect()


@ROUTES.add("POST", "/reconnect")
async def reconnect(request: Request) -> None:
    """Connects again."""
    await server_of(request).reconnect()


@ROUTES.add("GET", "/requests/{id}")
async def asked(request: Request) -> dict[str, Any]:
    """Returns a request with its result."""
    server, known = server_of(request), request.path_params["id"]
    found = server.view.requests.get(known)
    if found is None:
        message = f"Request {known!r} is not kept any more."
        raise ApiProblem(404, "no-such-request", message, "The oldest are deleted first.")
    progress = {"progress": found.progress, "total": found.total, "message": found.message}
    names = "id", "seq", "method", "params", "aside", "status", "attempts", "result", "result_size"
    return {
        **fields_of(found, *names),
        "title": found.title,
        "created": found.created_at,
        "started": found.started_at,
        "ended": found.completed_at,
        "ms": None if found.took is None else found.took * 1000,
        "error": error_of(found.error),
        "progress": None if found.progress is None else progress,
        "state": found.state,
        "task": None if found.task is None else {**asdict(found.task), "ends": found.task.ends},
        "problems": await _output_problems(server, found),
    }


async def _output_problems(server: InspectedServer, found: RequestView) -> list[dict[str, Any]]:
    if found.method != "tools/call":
        return []
    tool = server.view.tools.get(as_text(found.params.get("name")) or "", {})
    # In a thread, because a hostile schema may take up to a second.
    problems = await asyncio.to_thread(check_result, tool, found.result)
    return [problem_of(each) for each in problems or ()]


@ROUTES.add("GET", "/search")
async def search(request: Request) -> dict[str, Any]:
    """Returns how often a text occurs in the bodies of each row of messages, whatever its case."""
    view, wanted = server_of(request).view, text_of(request, "text").lower()
    messages = [*view.messages, *view.pings]

    def found() -> Counter[int]:
        hits: Counter[int] = Counter()
        for each in messages:
            row = each.seq if each.partner is None or each.kind == "request" else each.partner
            for part in (each.body, each.answer):
                hits[row] += 0 if part is None else dumps(part, ensure_ascii=False).lower().count(wanted)
        return +hits

    return {"hits": await asyncio.to_thread(found), "searched": len(messages)}


@ROUTES.add("POST", "/call")
async def call(request: Request) -> dict[str, str]:
    """Starts a call of a tool, and returns its id."""
    server, given = await _server_with_room(request)
    tool = _offered("tool", given.text("tool"), server.view.tools)
    arguments, meta = given.mapping("arguments", {}), given.mapping("meta", {})
    return {"id": server.call(tool, arguments, meta=meta, timeout=given.number("timeout"))}


@ROUTES.add("POST", "/read")
async def read(request: Request) -> dict[str, str]:
    """Starts reading a resource, and returns the id of the request."""
    server, given = await _server_with_room(request)
    return {"id": server.read(given.text("uri"), timeout=given.number("timeout"))}


@ROUTES.add("POST", "/prompt")
async def prompt(request: Request) -> dict[str, str]:
    """Starts getting a prompt, and returns the id of the request."""
    server, given = await _server_with_room(request)
    name = _offered("prompt", given.text("name"), server.view.prompts)
    return {"id": server.get_prompt(name, given.texts("arguments", {}))}


@ROUTES.add("POST", "/request")
async def raw(request: Request) -> dict[str, str]:
    """Starts any request, and returns its id."""
    server, given = await _server_with_room(request)
    return {"id": server.request(given.text("method"), given.mapping("params", {}), timeout=given.number("timeout"))}


def _offered(what: str, name: str, there: Collection[str]) -> str:
    """Returns the name of something in the server's list, unless that is empty. Raises `ApiProblem`."""
    return one_of(what, name, there) if there else name


async def _server_with_room(request: Request) -> tuple[InspectedServer, Fields]:
    server, given = server_of(request), await body(request)
    waiting = sum(not each.over for each in server.view.requests.values())
    if waiting >= _MOST_WAITING:
        message = f"{waiting:,} requests are waiting or running already."
        raise ApiProblem(429, "too-many-requests", message, "Cancel some, or wait.")
    return server, given


@ROUTES.add("POST", "/task")
async def task(request: Request) -> dict[str, str]:
    """Follows a task at the server to its end, and returns the id of the request."""
    server, given = await _server_with_room(request)
    return {"id": server.follow_task(given.text("id"))}


@ROUTES.add("POST", "/cancel")
async def cancel(request: Request) -> dict[str, bool]:
    """Cancels a request."""
    return {"cancelled": server_of(request).cancel((await body(request)).text("id"))}


@ROUTES.add("POST", "/subscribe")
async def subscribe(request: Request) -> None:
    """Subscribes to a resource."""
    await server_of(request).subscribe((await body(request)).text("uri"))


@ROUTES.add("POST", "/unsubscribe")
async def unsubscribe(request: Request) -> None:
    """Unsubscribes from a resource."""
    await server_of(request).unsubscribe((await body(request)).text("uri"))


@ROUTES.add("POST", "/complete")
async def complete(request: Request) -> dict[str, list[str]]:
    """Returns the server's suggestions for an argument."""
    server, given = server_of(request), await body(request)
    ref, argument = Fields(given.mapping("ref")), Fields(given.mapping("argument"))
    kind: Literal["prompt", "template"] = "prompt" if ref.text("type") == "ref/prompt" else "template"
    name = ref.text("name" if kind == "prompt" else "uri")
    context = given.texts("context", {})
    value = argument.text("value", empty=True)
    return {"values": await server.complete(kind, name, argument.text("name"), value, context or None)}


@ROUTES.add("POST", "/log-level")
async def log_level(request: Request) -> None:
    """Sets the level of the log messages that the server sends."""
    level, server = one_of("level", (await body(request)).text("level"), LOG_LEVELS), server_of(request)
    await server.set_log_level(cast("Any", level))
    running_of(request).feed.mark_level(server.name, level)
