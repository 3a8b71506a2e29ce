"""The state of a running inspector, which all endpoints share."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.requests import Request

from tidings.inspector.http.exchange import ApiProblem, one_of
from tidings.inspector.http.feed import PageFeed
from tidings.inspector.http.gate import Key
from tidings.inspector.http.saved_calls import SavedCalls
from tidings.inspector.server import InspectedServer
from tidings.inspector.servers import SessionServers
from tidings.inspector.session import Session


class Guide(Protocol):
    """A guided tour, as the demo has one. The page shows its steps."""

    def begin(self, session: Session, changed: Callable[[], object]) -> None:
        """Starts with a new session. Call `changed` when `facts` have changed."""

    def facts(self) -> dict[str, Any]:
        """Returns the steps as the page shows them."""
        ...

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


@dataclass
class Inspector:
    """The state of an inspector. The page is served a moment before its session is `running`."""

    key: Key
    guide: Guide | None = None
    running: Running | None = None
    failure: dict[str, Any] | None = None  # The error because of which there will be no session.
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    # One for each open stream, the oldest first; set to end it (see `feed.EventStream`).
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


def server_of(request: Request, name: str | None = None) -> InspectedServer:
    """Returns the server of this name, or the one in the path. Raises `ApiProblem` if there is none."""
    servers = running_of(request).session.servers
    return servers[one_of("server", str(request.path_params["server"]) if name is None else name, servers)]
