"""Forms from JSON Schemas, and whether what was filled in is right.

Saved calls, and requests as texts to paste.

Saved calls: what one wants to ask again, under a name, in a small file that only its user can read.
"""

import asyncio
import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from starlette.requests import Request
from starlette.routing import Route

from tidings._kit.bounded_json import as_dict, dumps, weigh
from tidings.inspector.http.context import feed_of, named_server, saved_of, server_of, session_of
from tidings.inspector.http.exchange import ApiProblem, Fields, body, endpoint, unknown

if TYPE_CHECKING:
    from tidings.inspector.forms import FieldProblem as Wrong


async def form(request: Request) -> dict[str, Any]:
    """The form of a schema."""
    return await asyncio.to_thread(_form, (await body(request)).any("schema"))


def _form(schema: object) -> dict[str, Any]:
    from tidings.inspector import forms  # noqa: PLC0415 - the page is served before this is needed

    field = forms.form(schema)
    return {"field": field.to_json(), "initial": forms.initial(field)}


async def tool_form(request: Request) -> dict[str, Any]:
    """The form of a tool's arguments."""
    tools, name = server_of(request).view.tools, request.path_params["tool"]
    if name not in tools:
        raise unknown("tool", name, tools)
    return await asyncio.to_thread(_form, tools[name].get("inputSchema"))


async def check(request: Request) -> dict[str, Any]:
    """What is wrong with a value."""
    from tidings.inspector import forms  # noqa: PLC0415 - likewise

    given = await body(request)
    problems = await asyncio.to_thread(forms.check, given.any("schema"), given.any("value"))
    return {"problems": [problem_of(each) for each in problems]}


def problem_of(problem: "Wrong") -> dict[str, Any]:
    """What is wrong, with its place for programs (`path`) and for people (`place`)."""
    return {**problem.to_json(), "path": list(problem.keys), "place": problem.path}


ROUTES: Final = [
    Route("/api/form", endpoint(form), methods=["POST"]),
    Route("/api/check", endpoint(check), methods=["POST"]),
    Route("/api/servers/{server}/tools/{tool:path}/form", endpoint(tool_form)),
]


async def listed(request: Request) -> dict[str, Any]:
    """All of them."""
    return {"saved": saved_of(request).all()}


async def add(request: Request) -> dict[str, Any]:
    """Save a call."""
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
        raise ApiProblem(404, "no-such-call", "This call is not saved any more.")
    feed_of(request).mark_stale("saved")


async def snippet(request: Request) -> dict[str, str]:
    """A request as a text to paste."""
    from tidings.inspector import snippets  # noqa: PLC0415 - likewise

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


SAVED_ROUTES: Final = [
    Route("/api/saved", endpoint(listed)),
    Route("/api/saved", endpoint(add), methods=["POST"]),
    Route("/api/saved/{id}", endpoint(remove), methods=["DELETE"]),
    Route("/api/snippet", endpoint(snippet), methods=["POST"]),
]


KINDS: Final = ("call", "read", "prompt", "request")
_MOST: Final = 500
_MOST_BYTES: Final = 2**20


class SavedCalls:
    """The saved calls of a user; without a file, those of this session."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._calls: dict[str, dict[str, Any]] = {}
        self._unwritten = False
        """Whether some of them are here alone, because they could not be written."""
        self._look()

    def _look(self) -> None:
        """Another inspector may have saved some, or deleted some."""
        if self._path is not None:
            found = {each["id"]: each for each in _read(self._path)}
            self._calls = {**found, **self._calls} if self._unwritten else found

    def all(self) -> list[dict[str, Any]]:
        """All of them, in the order in which they were saved."""
        return list(self._calls.values())

    def add(self, name: str, server: str, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        """Save one more.

        Raises:
            Problem: It is too large, or there are too many.
        """
        self._look()
        if len(self._calls) >= _MOST:
            raise ApiProblem(409, "too-many-saved", f"There are {_MOST} saved calls already.", "Delete some.")
        if weigh(data, _MOST_BYTES) > _MOST_BYTES:
            raise ApiProblem(413, "body-too-large", "It is too large to be saved.", "Save it without its large values.")
        call: dict[str, Any] = {
            "id": secrets.token_hex(8),
            "name": name[:200],
            "server": server,
            "kind": kind,
            "data": data,
        }
        self._calls[call["id"]] = call
        self._write()
        return call

    def remove(self, known: str) -> bool:
        """Delete one; returns whether it was there."""
        self._look()
        found = self._calls.pop(known, None) is not None
        if found:
            self._write()
        return found

    def _write(self) -> None:
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            beside = self._path.with_name(f"{self._path.name}.{os.getpid()}.new")
            handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(dumps({"saved": self.all()}))
            beside.replace(self._path)
            self._unwritten = False
        except OSError as error:
            self._unwritten = True
            message = f"It is saved until the inspector ends: {self._path} cannot be written ({error.strerror})."
            raise ApiProblem(500, "not-saved", message, "Look at its permissions.", who="this program") from None


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
        calls = cast("list[dict[str, Any]]", found["saved"])
        return [each for each in calls if _is_call(each)]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return []  # None yet, or not ours: what is saved next begins anew.


def _is_call(value: Any) -> bool:
    call = as_dict(value)
    texts = all(isinstance(call.get(key), str) for key in ("id", "name", "server", "kind"))
    return texts and call["kind"] in KINDS and isinstance(call.get("data"), dict)
