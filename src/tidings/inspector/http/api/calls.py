"""Forms from JSON Schemas and checks of values; saved calls; requests as text to paste."""

import asyncio
import json
import secrets
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request

from tidings._kit import files
from tidings._kit.bounded_json import as_dict, as_list, dumps, weigh
from tidings.inspector import forms, snippets
from tidings.inspector.http.context import running_of, server_of
from tidings.inspector.http.exchange import ApiProblem, Fields, Routes, body, unknown

KINDS: Final = ("call", "read", "prompt", "request")
_MOST_SAVED: Final = 500
_LARGEST_CALL: Final = 2**20
_LARGEST_FILE: Final = 2**30

ROUTES: Final = Routes("/api")


@ROUTES.add("POST", "/form")
async def form(request: Request) -> dict[str, Any]:
    """Returns the form of a schema."""
    return await asyncio.to_thread(_form, (await body(request)).any("schema"))


@ROUTES.add("GET", "/servers/{server}/tools/{tool:path}/form")
async def tool_form(request: Request) -> dict[str, Any]:
    """Returns the form of a tool's arguments."""
    tools, name = server_of(request).view.tools, request.path_params["tool"]
    if name not in tools:
        raise unknown("tool", name, tools)
    return await asyncio.to_thread(_form, tools[name].get("inputSchema"))


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
    return {**problem.to_json(), "path": list(problem.keys), "place": problem.path}


@ROUTES.add("GET", "/saved")
async def listed(request: Request) -> dict[str, Any]:
    """Returns all saved calls."""
    return {"saved": running_of(request).saved.all()}


@ROUTES.add("POST", "/saved")
async def add(request: Request) -> dict[str, Any]:
    """Saves a call."""
    running, given = running_of(request), await body(request)
    call = running.saved.add(given.text("name"), given.text("server"), _kind(given), given.mapping("data"))
    running.feed.mark_stale("saved")
    return call


def _kind(given: Fields) -> str:
    kind = given.text("kind")
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    return kind


@ROUTES.add("DELETE", "/saved/{id}")
async def remove(request: Request) -> None:
    """Deletes a saved call."""
    running = running_of(request)
    if not running.saved.remove(request.path_params["id"]):
        raise ApiProblem(404, "no-such-call", "This call is not saved any more.")
    running.feed.mark_stale("saved")


@ROUTES.add("POST", "/snippet")
async def snippet(request: Request) -> dict[str, str]:
    """Returns a request as text to paste."""
    given = await body(request)
    view = server_of(request, given.text("server")).view
    kind, shape = _kind(given), given.text("as")
    method, params = _request(kind, given)
    match shape:
        case "json":
            return {"text": snippets.as_json(method, params)}
        case "python":
            return {"text": snippets.as_python(view, kind, method, params)}
        case "curl":
            return {"text": snippets.as_shell(view, method, params)}
        case _:
            raise unknown("shape", shape, ("json", "python", "curl"))


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


class SavedCalls:
    """The saved calls of a user, in a file that only the user can read; without a path, those of this run."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._calls: dict[str, dict[str, Any]] = {}
        self._unwritten = False
        """Some calls could not be written to the file."""
        self._read()

    def all(self) -> list[dict[str, Any]]:
        """Returns the calls in the order in which they were saved."""
        return list(self._calls.values())

    def add(self, name: str, server: str, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        """Saves a call. Raises `ApiProblem` if it is too large, there are too many, or it cannot be written."""
        self._read()
        if len(self._calls) >= _MOST_SAVED:
            raise ApiProblem(409, "too-many-saved", f"There are {_MOST_SAVED} saved calls already.", "Delete some.")
        if weigh(data, _LARGEST_CALL) > _LARGEST_CALL:
            raise ApiProblem(413, "body-too-large", "It is too large to be saved.", "Save it without its large values.")
        call = {"id": secrets.token_hex(8), "name": name[:200], "server": server, "kind": kind, "data": data}
        self._calls[str(call["id"])] = call
        self._write()
        return call

    def remove(self, known: str) -> bool:
        """Deletes a call, and returns whether there was one."""
        self._read()
        found = self._calls.pop(known, None) is not None
        if found:
            self._write()
        return found

    def _read(self) -> None:
        """Reads the file again: another inspector may have changed it. What is not a call in it is ignored."""
        if self._path is None:
            return
        try:
            data = files.read_file(self._path, _LARGEST_FILE)[0]
            calls = as_list(as_dict(json.loads(data.decode())).get("saved"))
        except (OSError, ValueError, OverflowError, RecursionError):
            calls = []
        found = {each["id"]: each for each in calls if _is_call(each)}
        self._calls = {**found, **self._calls} if self._unwritten else found

    def _write(self) -> None:
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            files.write_file(self._path, dumps({"saved": self.all()}).encode())
            self._unwritten = False
        except OSError as error:
            self._unwritten = True
            message = f"It is saved until the inspector ends: {self._path} cannot be written ({error.strerror})."
            raise ApiProblem(500, "not-saved", message, "Check its permissions.", who="this program") from None


def _is_call(value: Any) -> bool:
    call = as_dict(value)
    texts = all(isinstance(call.get(key), str) for key in ("id", "name", "server", "kind"))
    return texts and call["kind"] in KINDS and isinstance(call.get("data"), dict)
