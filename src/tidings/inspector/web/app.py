"""The app: routes, behind the gate. It answers before there is a session; `inspector` says when there is one."""

from typing import Any, Final
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tidings.inspector.web import (
    api_catalog,
    api_contents,
    api_forms,
    api_help,
    api_questions,
    api_saved,
    api_servers,
    api_session,
    api_sessions,
    api_tour,
)
from tidings.inspector.web.answers import SLASH, Problem, answered
from tidings.inspector.web.assets import Assets
from tidings.inspector.web.gate import App, Gate, Receive, Scope, Send
from tidings.inspector.web.inspector import Inspector

API: Final[tuple[Route, ...]] = (
    *api_session.ROUTES,
    *api_servers.ROUTES,
    *api_questions.ROUTES,
    *api_contents.ROUTES,
    *api_forms.ROUTES,
    *api_catalog.ROUTES,
    *api_sessions.ROUTES,
    *api_saved.ROUTES,
    *api_help.ROUTES,
    *api_tour.ROUTES,
)
"""Every endpoint. All of them are behind the cookie, save `/api/enter`."""


_STEPS: Final = (".\0", "..\0")


def make_app(inspector: Inspector, *, host: str = "127.0.0.1", assets: Assets | None = None) -> App:
    """The ASGI app of an inspector that listens at `host`."""
    files = assets or Assets()
    routes: list[BaseRoute] = [
        *API,
        Route("/", files.page),
        Route("/assets/{name}", files.asset),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refused})
    app.state.inspector = inspector
    # Outermost: the gate is to judge the path that is routed, and no other spelling of it.
    return _by_segments(Gate(app, inspector.key, host=host))


def _by_segments(app: App) -> App:
    """The app, for paths in which a name may have a slash, or be `..`.

    A slash that was quoted does not part a name in two. The NUL behind a name of dots alone keeps browsers from taking
    it for a step.
    """

    async def routed(scope: Scope, receive: Receive, send: Send) -> None:
        raw: bytes | None = scope.get("raw_path")
        if raw is not None and (b"%2f" in raw.lower() or b"%00" in raw):
            parts = [unquote(part).replace("/", SLASH) for part in raw.decode("latin-1").split("/")]
            scope = {**scope, "path": "/".join(part[:-1] if part in _STEPS else part for part in parts)}
        await app(scope, receive, send)

    return routed


async def _refused(_: Request, error: Exception) -> Response:
    status: Any = getattr(error, "status_code", 500)
    words = {404: "There is nothing at this address.", 405: "This address takes another method."}
    message = words.get(status, "The inspector could not answer this.")
    return answered({"error": Problem(status, f"http-{status}", message).facts}, status)
