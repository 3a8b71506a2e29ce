"""The state of a running inspector, which all endpoints share; and the saved calls of its user."""

import asyncio
import secrets
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from starlette.requests import Request

from tidings._kit import files
from tidings._kit.bounded_json import as_dict, as_list, weigh
from tidings.inspector.http.exchange import ApiProblem, one_of
from tidings.inspector.http.feed import PageFeed
from tidings.inspector.http.gate import Key
from tidings.inspector.server import ConnectionSpec, InspectedServer
from tidings.inspector.session import Session, SessionServers
from tidings.inspector.view.view import SessionView

T = TypeVar("T")

KINDS: Final = ("call", "read", "prompt", "request")
_MOST_SAVED: Final = 500
_LARGEST_CALL: Final = 2**20
_LARGEST_FILE: Final = 2**30
_LOCK_SECONDS: Final = 5.0  # For which another inspector may be writing.


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
    """Returns the calls in the file by id. What is not a call is ignored."""
    return {each["id"]: each for each in as_list(document.get("saved")) if _is_call(each)}


def _is_call(value: Any) -> bool:
    call = as_dict(value)
    texts = all(isinstance(call.get(key), str) for key in ("id", "name", "server", "kind"))
    return texts and call["kind"] in KINDS and isinstance(call.get("data"), dict)


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


def inspector_of(request: Request) -> Inspector:
    """Returns the inspector that a request is sent to."""
    return request.app.state.inspector


def running_of(request: Request) -> Running:
    """Returns the session and what belongs to it. Raises `ApiProblem` if it has not started yet."""
    inspector = inspector_of(request)
    if inspector.running is not None:
        return inspector.running
    if inspector.failure is not None:
        raise ApiProblem(503, "not-started", str(inspector.failure.get("message")), who="this program")
    raise ApiProblem(503, "starting", "The inspector is starting.", "Try again in a moment.", who="this program")


def kept_of(request: Request) -> KeptSession | None:
    """Returns the kept session that a page shows; None if it shows the running one. Raises `ApiProblem`."""
    known = request.headers.get("x-tidings-session") or request.query_params.get("session")
    if not known:
        return None
    if request.method != "GET":
        message = "This is a kept session: it can be looked at, and nothing can be sent."
        raise ApiProblem(409, "session-kept", message, "Close it to use the servers.")
    if (kept := inspector_of(request).kept.get(known)) is None:
        raise ApiProblem(410, "session-closed", "Another kept session was opened since.", "Open this one again.")
    return kept


def server_of(request: Request, name: str | None = None) -> InspectedServer:
    """Returns the server of this name, or the one in the path. Raises `ApiProblem` if there is none."""
    servers: Mapping[str, InspectedServer] = running_of(request).session.servers
    if (kept := kept_of(request)) is not None:
        views = kept.view.servers.items()
        servers = {each: InspectedServer(ConnectionSpec(each, None), view, _ignore) for each, view in views}
    return servers[one_of("server", str(request.path_params["server"]) if name is None else name, servers)]


def _ignore(_kind: str, _data: dict[str, Any]) -> None:
    """Records nothing: a kept session does not change."""
