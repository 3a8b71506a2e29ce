"""What the endpoints share: the session once it is there, its feed, the catalog, and the word that it is to end."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from starlette.requests import Request

from tidings.inspector.http.exchange import ApiProblem, unknown
from tidings.inspector.http.gate import Key

if TYPE_CHECKING:
    from tidings.inspector.http.api.calls import SavedCalls
    from tidings.inspector.http.api.catalog import ServersApi
    from tidings.inspector.http.feed import PageFeed
    from tidings.inspector.server import InspectedServer
    from tidings.inspector.session import Session


class Guide(Protocol):
    """Somebody who shows people round, as the demo does. The page shows its steps beside everything else."""

    def begin(self, session: "Session", changed: Callable[[], object]) -> None:
        """There is a session. `changed` is to be called when `facts` are different."""
        ...

    def facts(self) -> dict[str, Any]:
        """The steps, as the page shows them."""
        ...

    def do(self, step: str) -> bool:
        """Do a step for the user. False if it is too early.

        Raises:
            KeyError: There is no such step.
        """
        ...


@dataclass
class Inspector:
    """The state of a running inspector. `session` and what goes with it come a moment after the page."""

    key: Key
    session: "Session | None" = None
    feed: "PageFeed | None" = None
    servers: "ServersApi | None" = None
    saved: "SavedCalls | None" = None
    failure: dict[str, Any] | None = None
    """Why there is no session, and there will be none."""
    guide: Guide | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    streams: deque[asyncio.Event] = field(default_factory=deque[asyncio.Event])
    """Those that are open; see `stream`."""

    @property
    def ready(self) -> bool:
        """Whether there is a session."""
        return self.session is not None and self.feed is not None


def of(request: Request) -> Inspector:
    """The inspector that a request is to."""
    return request.app.state.inspector


def _there(value: Any, inspector: Inspector) -> Any:
    if value is not None:
        return value
    if inspector.failure is not None:
        raise ApiProblem(503, "not-started", str(inspector.failure.get("message")), who="this program")
    raise ApiProblem(503, "starting", "The inspector is about to start.", "Ask again in a moment.", who="this program")


def session_of(request: Request) -> "Session":
    """Its session.

    Raises:
        Problem: It is not there yet.
    """
    return _there(of(request).session, of(request))


def feed_of(request: Request) -> "PageFeed":
    """Its feed.

    Raises:
        Problem: It is not there yet.
    """
    return _there(of(request).feed, of(request))


def servers_of(request: Request) -> "ServersApi":
    """Its catalog.

    Raises:
        Problem: It is not there yet.
    """
    return _there(of(request).servers, of(request))


def saved_of(request: Request) -> "SavedCalls":
    """The saved calls.

    Raises:
        Problem: They are not there yet.
    """
    return _there(of(request).saved, of(request))


def server_of(request: Request) -> "InspectedServer":
    """The server that the path names.

    Raises:
        Problem: There is none of this name.
    """
    return named_server(session_of(request), request.path_params["server"])


def named_server(session: "Session", name: str) -> "InspectedServer":
    """The server of this name.

    Raises:
        Problem: There is none.
    """
    found = session.servers.get(name)
    if found is None:
        raise unknown("server", name, session.servers)
    return found
