"""The parts that endpoints share: the request that they answer, the inspector's state, routes, errors and saved calls.

An endpoint gets an `Asked`. It returns a JSON value, None for 204, or a response, and may raise `ApiProblem` or a
`TidingsError`. An error is `{"error": {code, category, who, message, cure, help_page, payload?}}`: `who` is at fault,
and `cure` says what to do.
"""

import asyncio
import json
import logging
import secrets
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol, TypeVar, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from tidings._kit import files
from tidings._kit.bounded_json import as_dict, as_list, as_texts, dumps, is_number, type_of, weigh
from tidings._kit.suggest import closest, question
from tidings.errors import TidingsError
from tidings.inspector.catalog.entry import CatalogError
from tidings.inspector.http.feed import PageFeed
from tidings.inspector.http.gate import Key
from tidings.inspector.http.rows import error_facts, error_of, is_index
from tidings.inspector.server import ConnectionSpec, InspectedServer
from tidings.inspector.session import NoSuchServer, Session, SessionServers
from tidings.inspector.view.items import ErrorView
from tidings.inspector.view.view import SessionView

logger = logging.getLogger(__name__)
T = TypeVar("T")

LARGEST_BODY: Final = 32 * 2**20  # Bytes: it may contain a file for a tool.
# Stands for a slash within a part of a path until the path is routed. No decoded text contains it.
SLASH: Final = "\udcff"
KINDS: Final = ("call", "read", "prompt", "request")
_MOST_SAVED: Final = 500
_LARGEST_CALL: Final = 2**20
_LARGEST_FILE: Final = 2**30
_LOCK_SECONDS: Final = 5.0  # For which another inspector may be writing.
_STATUS: Final = {
    "not-connected": 409,
    "bad-target": 400,
    "invalid-uri": 400,
    "resource-not-found": 404,
    "not-supported": 409,
    "request-timed-out": 504,
    "connect-timed-out": 504,
}


class ApiProblem(Exception):
    """An error of the API: the request cannot be fulfilled."""

    def __init__(self, status: int, code: str, message: str, cure: str = "", *, who: str = "you", payload: Any = None):
        super().__init__(message)
        self.status = status
        category = "input" if who == "you" else "program"
        self.facts = error_of(ErrorView(message, code, category, who, cure, payload=payload))

    def response(self) -> Response:
        return answered({"error": self.facts}, self.status)


def unknown(what: str, name: str, there: Iterable[str]) -> ApiProblem:
    """Returns the error that there is no such thing, with close names."""
    names = list(there)
    close = closest(name, names, most=3, cutoff=0.5)
    cure = question(close, str).strip() or ("" if names else f"There is no {what} yet.")
    code = f"no-such-{what.replace(' ', '-')}"
    return ApiProblem(404, code, f"There is no {what} {name!r}.", cure, payload={"close": close})


def one_of(what: str, name: str, there: Collection[str]) -> str:
    """Returns the name of something that there is. Raises `unknown` if there is none."""
    if name not in there:
        raise unknown(what, name, there)
    return name


def answered(value: Any, status: int = 200) -> Response:
    """Returns a response with a JSON value; 204 for None."""
    headers = {"cache-control": "no-store"}
    if value is None:
        return Response(status_code=204, headers=headers)
    return Response(dumps(value), status, headers=headers, media_type="application/json")


@dataclass(frozen=True)
class Fields:
    """The fields of a body or a query, each read with its type. Methods raise `ApiProblem` with a mistake's path."""

    values: dict[str, Any]
    of: str = "body"

    def text(self, name: str, default: str | None = None, *, empty: bool = False) -> str:
        """Returns a string. It must not be empty unless `empty` or `default` is given."""
        value: str = self._typed(name, str, "a string", default)
        if not value and not empty and default is None:
            raise self._bad(name, "is empty")
        return value

    def mapping(self, name: str, default: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._typed(name, dict, "an object", default)

    def texts(self, name: str, default: dict[str, str] | None = None) -> dict[str, str]:
        for key, value in (found := self.mapping(name, default)).items():
            if not isinstance(value, str):
                self._wrong(f"{name}.{key}", "a string", value)
        return found

    def number(self, name: str) -> float | None:
        """Returns a number above zero, or None if it is missing."""
        value = self.values.get(name)
        if value is not None and (not is_number(value) or not 0 < value < 1e9):
            self._wrong(name, "a number above 0", value)
        return None if value is None else float(value)

    def index(self, name: str, default: int | None = None) -> int:
        """Returns a whole number of a query."""
        text = self.values.get(name, "" if default is None else str(default))
        if not is_index(text):
            raise self._bad(name, "is not a whole number", f"Give `{name}` as a number.")
        return int(text)

    def names(self, name: str) -> list[str] | None:
        value = self.values.get(name)
        if value is not None and as_texts(value) != value:
            self._wrong(name, "a list of strings", value)
        return value

    def any(self, name: str) -> Any:
        if name not in self.values:
            raise self._bad(name, "is missing")
        return self.values[name]

    def _typed(self, name: str, kind: type, wanted: str, default: Any) -> Any:
        value = self.any(name) if default is None else self.values.get(name, default)
        return value if isinstance(value, kind) else self._wrong(name, wanted, value)

    def _wrong(self, name: str, wanted: str, value: object) -> NoReturn:
        raise self._bad(name, f"is {type_of(value)}, but must be {wanted}", f"Give {wanted}.")

    def _bad(self, name: str, what: str, cure: str = "") -> ApiProblem:
        payload = {"path": name.split(".")}
        return ApiProblem(400, f"bad-{self.of}", f"`{name}` {what}.", cure or f"Give `{name}`.", payload=payload)


class SavedCalls:
    """The saved calls of a user, in a file that only the user can read; without a path, those of this run."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._unwritten: dict[str, dict[str, Any]] = {}  # Calls that are not in the file.
        self._changing = threading.Lock()  # Among the threads of this inspector.

    def all(self) -> list[dict[str, Any]]:
        """Returns the calls in the order in which they were saved."""
        stored = {} if self._path is None else _calls(files.read_json(self._path, _LARGEST_FILE))
        return list({**stored, **self._unwritten}.values())

    def add(self, name: str, server: str, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        """Saves a call. Raises `ApiProblem` if it is too large, there are too many, or it cannot be written."""
        if weigh(data, _LARGEST_CALL) > _LARGEST_CALL:
            raise ApiProblem(413, "body-too-large", "It is too large to be saved.", "Save it without its large values.")
        call = {"id": secrets.token_hex(8), "name": name[:200], "server": server, "kind": kind, "data": data}

        def put(calls: dict[str, dict[str, Any]]) -> None:
            if len(calls) >= _MOST_SAVED:
                raise ApiProblem(409, "too-many-saved", f"There are {_MOST_SAVED} saved calls already.", "Delete some.")
            calls[str(call["id"])] = call

        self._change(put, "saved until the inspector ends")
        return call

    def remove(self, known: str) -> bool:
        return self._change(lambda calls: calls.pop(known, None), "not deleted") is not None

    def _change(self, edit: Callable[[dict[str, dict[str, Any]]], T], outcome: str) -> T:
        """Lets `edit` change the calls. `outcome` is for the error if the file cannot be written."""
        with self._changing:
            if self._path is None:
                return edit(self._unwritten)
            try:
                with files.editing_json(self._path, _LARGEST_FILE, _LOCK_SECONDS) as document:
                    calls = {**_calls(document), **self._unwritten}
                    result = edit(calls)
                    document["saved"] = list(calls.values())
                self._unwritten = {}
            except OSError as error:
                edit(self._unwritten)
                message = f"It is {outcome}: {self._path} cannot be written ({error.strerror})."
                raise ApiProblem(500, "not-saved", message, "Check its permissions.", who="this program") from None
            return result


def _calls(document: dict[str, Any]) -> dict[str, dict[str, Any]]:

    def is_call(call: dict[str, Any]) -> bool:
        texts = all(isinstance(call.get(key), str) for key in ("id", "name", "server", "kind"))
        return texts and call["kind"] in KINDS and isinstance(call.get("data"), dict)

    return {call["id"]: call for call in map(as_dict, as_list(document.get("saved"))) if is_call(call)}


class Guide(Protocol):
    """A guided tour, as the demo has one. The page shows its steps."""

    def begin(self, session: Session, changed: Callable[[], object]) -> None:
        """Starts with a new session. Call `changed` when `facts` have changed."""

    def facts(self) -> dict[str, Any]: ...

    def do(self, step: str) -> bool:
        """Does a step for the user. Returns False if it is too early; raises `KeyError` for an unknown step."""
        ...


@dataclass(frozen=True)
class Running:
    """The session, and what belongs to it."""

    session: Session
    servers: SessionServers
    feed: PageFeed
    saved: SavedCalls


@dataclass(frozen=True)
class KeptSession:
    """A kept session as it was at some moment, for the same screens as the running one."""

    view: SessionView
    changes: dict[str, list[dict[str, Any]]]  # For each server: the rows of its connection.

    def states(self, server: str) -> list[dict[str, Any]]:
        return self.changes.get(server, [])


@dataclass
class Inspector:
    """The state of an inspector. The page is served a moment before its session is `running`."""

    key: Key
    guide: Guide | None = None
    running: Running | None = None
    failure: dict[str, Any] | None = None  # The error because of which there will be no session.
    kept: dict[str, KeptSession] = field(default_factory=dict[str, KeptSession])  # By id: the last one.
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    # One for each open stream, the oldest first; set to end it (see `feed.FeedResponse`).
    streams: deque[asyncio.Event] = field(default_factory=deque[asyncio.Event])


@dataclass(frozen=True)
class Asked:
    """A request to an endpoint, and what it is about. Properties raise `ApiProblem`."""

    request: Request
    given: Fields  # Of the query of a GET, or of the body.

    @property
    def path(self) -> dict[str, Any]:
        return self.request.path_params

    @property
    def inspector(self) -> Inspector:
        return self.request.app.state.inspector

    @property
    def running(self) -> Running:
        """The session and what belongs to it. It may not have started yet."""
        if self.inspector.running is not None:
            return self.inspector.running
        if (failure := self.inspector.failure) is not None:
            raise ApiProblem(503, "not-started", str(failure.get("message")), who="this program")
        raise ApiProblem(503, "starting", "The inspector is starting.", "Try again in a moment.", who="this program")

    @property
    def kept(self) -> KeptSession | None:
        """The kept session that the page shows; None if it shows the running one."""
        known = self.request.headers.get("x-tidings-session") or self.request.query_params.get("session")
        if not known:
            return None
        if self.request.method != "GET":
            message = "This is a kept session: it can be looked at, and nothing can be sent."
            raise ApiProblem(409, "session-kept", message, "Close it to use the servers.")
        if (kept := self.inspector.kept.get(known)) is None:
            raise ApiProblem(410, "session-closed", "Another kept session was opened since.", "Open this one again.")
        return kept

    @property
    def view(self) -> SessionView:
        running, kept = self.running, self.kept
        return running.session.view if kept is None else kept.view

    @property
    def server(self) -> InspectedServer:
        return self.server_named(str(self.path["server"]))

    def server_named(self, name: str) -> InspectedServer:
        servers, kept = self.running.session.servers, self.kept
        if kept is None:
            return servers[one_of("server", name, servers)]
        views = kept.view.servers
        spec = ConnectionSpec(one_of("server", name, views), None)
        return InspectedServer(spec, views[name], lambda _kind, _data: None)  # A kept session does not change.


Endpoint = Callable[[Asked], Awaitable[Any]]


class Routes(list[Route]):
    """The routes of some endpoints, which are added by a decorator: `@ROUTES.add("GET", "/hello")`."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def add(self, method: str, path: str = "", largest: int = LARGEST_BODY) -> Callable[[Endpoint], Endpoint]:
        def decorate(run: Endpoint) -> Endpoint:
            self.append(Route(self._prefix + path, partial(_answer, run, largest), methods=[method]))
            return run

        return decorate


async def _answer(run: Endpoint, largest: int, request: Request) -> Response:
    parts = request.path_params
    parts.update({name: part.replace(SLASH, "/") for name, part in parts.items() if isinstance(part, str)})
    try:
        asks = request.method in ("GET", "HEAD")
        given = Fields(dict(request.query_params), "query") if asks else Fields(await _body(request, largest))
        value = await run(Asked(request, given))
    except ApiProblem as problem:
        value = problem.response()
    except TidingsError as error:
        value = answered({"error": error_facts(error)}, _STATUS.get(error.code, 502))
    except NoSuchServer as error:
        value = unknown("server", error.name, error.names).response()
    except CatalogError as error:
        cure = "Check the catalog's file, or choose another name."
        value = ApiProblem(409, "catalog", str(error), cure).response()
    except ClientDisconnect:
        value = Response(status_code=400)
    except Exception:
        logger.exception("The inspector could not answer %s %r", request.method, request.scope["path"])
        message = "The inspector failed to do this."
        value = ApiProblem(500, "unforeseen", message, "See its log.", who="this program").response()
    return value if isinstance(value, Response) else answered(value)


async def _body(request: Request, largest: int) -> dict[str, Any]:
    """Returns the object that was sent; an empty one for nothing. Raises `ApiProblem` if it is none, or too large."""
    message = f"The body is larger than {largest // 2**20} MB."
    too_large = ApiProblem(413, "body-too-large", message, "Send less at once.")
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > largest:
        raise too_large
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > largest:
            raise too_large
        pieces.append(piece)

    def refuse(name: str) -> NoReturn:
        raise ValueError(f"{name} is not JSON")

    try:
        value = json.loads(b"".join(pieces) or b"{}", parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ApiProblem(400, "bad-json", f"The body is not JSON: {reason}.", "Send a JSON object.") from None
    if not isinstance(value, dict):
        raise ApiProblem(400, "bad-body", "The body is not a JSON object.", "Send a JSON object.")
    return cast("dict[str, Any]", value)
