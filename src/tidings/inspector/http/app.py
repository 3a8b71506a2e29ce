"""The ASGI app: the routes behind the gate, and the files of the built page.

The names of the files contain a hash of their content, so browsers keep them for good; the page itself is asked for
each time. Files that are built again while the inspector runs are served at the next load.
"""

from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tidings.inspector.http.api import calls, catalog, contents, saved_sessions, server, session
from tidings.inspector.http.context import Inspector
from tidings.inspector.http.exchange import SLASH, ApiProblem
from tidings.inspector.http.gate import Gate

STATIC: Final = Path(__file__).parent.parent / "static"

_NOT_BUILT: Final = """\
The inspector runs, but its page was not built.

In a checkout, build it with `make ui` and load this page again.
An installed Tidings has the page in it: if it is missing, install it again.
The inspector in the terminal needs no page: `tidings tui`.
"""
_KINDS: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
_ENCODINGS: Final = {"br": ".br", "gzip": ".gz", "": ""}  # The suffix of the file for each, the best first.


class Assets:
    """The files of the built page. Only files that the build made can be asked for: a request never names a path."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._folder = folder
        self._files: dict[str, dict[str, bytes]] = {}  # The bytes of each file in each encoding.
        self._built_at: int | None = None

    async def page(self, request: Request) -> Response:
        """Returns the page itself."""
        missing = PlainTextResponse(_NOT_BUILT, 503, headers={"cache-control": "no-store"})
        return self._response(request, "index.html", "no-cache") or missing

    async def asset(self, request: Request) -> Response:
        """Returns a file of the page."""
        missing = PlainTextResponse("There is no such file. Load the page again.\n", 404)
        name = f"assets/{request.path_params['name']}"
        return self._response(request, name, "public, max-age=31536000, immutable") or missing

    def _response(self, request: Request, name: str, keep: str) -> Response | None:
        if (encoded := self._load().get(name)) is None:
            return None
        headers = {"cache-control": keep, "vary": "accept-encoding"}
        accepted = {each.partition(";")[0].strip() for each in request.headers.get("accept-encoding", "").split(",")}
        encoding = next(each for each in encoded if each in accepted or not each)
        if encoding:
            headers["content-encoding"] = encoding
        return Response(encoded[encoding], headers=headers, media_type=_KINDS[Path(name).suffix])

    def _load(self) -> dict[str, dict[str, bytes]]:
        try:
            built_at = (self._folder / "index.html").stat().st_mtime_ns
        except OSError:
            self._files, self._built_at = {}, None
            return self._files
        if built_at != self._built_at:
            paths = [self._folder / "index.html", *sorted((self._folder / "assets").glob("*"))]
            self._files = {
                path.relative_to(self._folder).as_posix(): {
                    encoding: file.read_bytes()
                    for encoding, suffix in _ENCODINGS.items()
                    if (file := path.with_name(path.name + suffix)).is_file()
                }
                for path in paths
                if path.suffix in _KINDS
            }
            self._built_at = built_at
        return self._files


# Every endpoint. All of them need the cookie, apart from `/api/enter`.
API: Final[tuple[Route, ...]] = (
    *session.ROUTES,
    *server.ROUTES,
    *contents.ROUTES,
    *calls.ROUTES,
    *catalog.ROUTES,
    *saved_sessions.ROUTES,
)
_DOTS: Final = (".\0", "..\0")


def make_app(inspector: Inspector, *, host: str = "127.0.0.1") -> ASGIApp:
    """Returns the ASGI app of an inspector that listens at `host`."""
    files = Assets()
    routes: list[BaseRoute] = [*API, Route("/", files.page), Route("/assets/{name}", files.asset)]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refused})
    app.state.inspector = inspector
    # Outermost, so that the gate judges the path that is routed, not another spelling of it.
    return _by_segments(Gate(app, inspector.key, host=host))


def _by_segments(app: ASGIApp) -> ASGIApp:
    """Returns the app for paths in which a name may contain a slash, or be `..`.

    A quoted slash does not divide a name. The NUL after a name of dots keeps browsers from removing it.
    """

    async def routed(scope: Scope, receive: Receive, send: Send) -> None:
        raw: bytes | None = scope.get("raw_path")
        if raw is not None and (b"%2f" in raw.lower() or b"%00" in raw):
            parts = [unquote(part).replace("/", SLASH) for part in raw.decode("latin-1").split("/")]
            scope = {**scope, "path": "/".join(part[:-1] if part in _DOTS else part for part in parts)}
        await app(scope, receive, send)

    return routed


async def _refused(_: Request, error: Exception) -> Response:
    status: Any = getattr(error, "status_code", 500)
    words = {404: "There is nothing at this address.", 405: "This address needs another method."}
    message = words.get(status, "The inspector cannot answer this.")
    return ApiProblem(status, f"http-{status}", message).response()
