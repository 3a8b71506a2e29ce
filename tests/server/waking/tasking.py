"""A client of the tasks extension, by hand."""

from typing import Any

import anyio

from tests.server import wire
from tests.server.serving import notes
from tests.server.wire import Json
from tidings import LiveServer
from tidings.server import Waking

EXTENSION = "io.modelcontextprotocol/tasks"
DECLARED = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {EXTENSION: {}}, "elicitation": {"form": {}}}}
QUICK = Waking(quiet=0.02, longest_quiet=0.1, poll=0.05)
TODAY = "note://today"


def quick_notes(**options: Any) -> LiveServer[Any]:
    """A server with resources at `note://…`, whose waits report a change soon."""
    return notes(**{"waking": QUICK, **options})


async def ask(
    port: int,
    method: str,
    *,
    name: str | None = None,
    declares: bool = True,
    headers: Json | None = None,
    **params: Any,
) -> wire.Response:
    """One request of the modern era, with the tasks extension unless told otherwise."""
    meta = wire.modern_meta(**(DECLARED if declares else {}))
    body = wire.message(method, {**params, "_meta": meta}, 1)
    return await wire.once(port, wire.http("POST", {**wire.modern_headers(method, name), **(headers or {})}, body))


async def call(port: int, tool: str, *, declares: bool = True, headers: Json | None = None, **arguments: Any) -> Json:
    params = {"name": tool, "arguments": arguments, "_meta": wire.modern_meta(**(DECLARED if declares else {}))}
    named = {**wire.modern_headers("tools/call", tool), **(headers or {})}
    answer = await wire.once(port, wire.http("POST", named, wire.message("tools/call", params, 1)))
    return answer.json["result"]


async def about(port: int, method: str, task: str, *, headers: Json | None = None, **params: Any) -> wire.Response:
    """One of the three requests about a task."""
    return await ask(port, method, name=task, headers=headers, taskId=task, **params)


async def get(port: int, task: str, *, headers: Json | None = None) -> Json:
    return (await about(port, "tasks/get", task, headers=headers)).json["result"]


async def reaches(port: int, task: str, *statuses: str) -> Json:
    """Polls a task until it has one of these statuses, as clients do."""
    with anyio.fail_after(20):
        while (found := await get(port, task))["status"] not in statuses:  # noqa: ASYNC110
            await anyio.sleep(found["pollIntervalMs"] / 1000)
    return found


async def wait(port: int, *uris: str, **arguments: Any) -> str:
    """Starts to wait for changes; returns the id of the task."""
    created = await call(port, "wait_for_change", uris=list(uris), **arguments)
    assert created["resultType"] == "task", created
    return created["taskId"]


def text(result: Json) -> str:
    """The text of a result, which stands before its links."""
    return result["content"][0]["text"]


def cursor(result: Json) -> str:
    """The cursor that a result names."""
    return text(result).rpartition('since="')[2].partition('"')[0]


async def call_with(port: int, tool: str, meta: Json | None = None, **params: Any) -> wire.Response:
    """A call with further parameters, for example the answers of an earlier round."""
    params = {"name": tool, "arguments": {}, **params, "_meta": wire.modern_meta(**(meta or DECLARED))}
    return await wire.once(
        port, wire.http("POST", wire.modern_headers("tools/call", tool), wire.message("tools/call", params, 1))
    )


async def start(port: int, tool: str, **arguments: Any) -> str:
    """Calls a tool that runs as a task; returns the id of the task."""
    created = await call(port, tool, **arguments)
    assert created["resultType"] == "task", created
    return created["taskId"]


async def answer(port: int, task: str, **answers: Any) -> wire.Response:
    return await about(port, "tasks/update", task, inputResponses=answers)


def accepted(**content: Any) -> Json:
    return {"action": "accept", "content": content}


async def follow(port: int, *tasks: Any, number: Any = "mine", **options: Any) -> wire.Connection:
    """A stream that follows tasks; no frame has been looked at yet."""
    return await wire.listen(port, {"taskIds": list(tasks)}, number, **{**DECLARED, **options})
