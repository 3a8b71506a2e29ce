"""A running inspector: the page first, its session right after, and an end within a second.

The browser opens the page through a file that only its user can read: every user can see the arguments of a program,
and the address of the page has the token in it.

The names of the files of the built page contain a hash of their content, so browsers keep them for good; the page
itself is asked for each time. Files that are built again while the inspector runs are served at the next load.
"""

import asyncio
import html
import logging
import os
import signal
import socket
import tempfile
import webbrowser
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tidings._kit.uvicorn_seam import HttpServer
from tidings.inspector.catalog.catalog import Catalog
from tidings.inspector.catalog.entry import ServerEntry
from tidings.inspector.http.api import calls, catalog, contents, saved_sessions, server, session
from tidings.inspector.http.context import SLASH, ApiProblem, Guide, Inspector, Running, SavedCalls
from tidings.inspector.http.feed import PageFeed
from tidings.inspector.http.gate import Gate, Key
from tidings.inspector.http.rows import error_facts
from tidings.inspector.session import Session, SessionServers, stop_commands

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

    async def serve(self, request: Request) -> Response:
        asset = request.path_params.get("name")
        encoded = self._load().get("index.html" if asset is None else f"assets/{asset}")
        if encoded is None and asset is None:
            return PlainTextResponse(_NOT_BUILT, 503, headers={"cache-control": "no-store"})
        if encoded is None:
            return PlainTextResponse("There is no such file. Load the page again.\n", 404)
        keep = "no-cache" if asset is None else "public, max-age=31536000, immutable"
        accepted = {each.partition(";")[0].strip() for each in request.headers.get("accept-encoding", "").split(",")}
        encoding = next(each for each in encoded if each in accepted or not each)
        headers = {"cache-control": keep, "vary": "accept-encoding"}
        headers |= {"content-encoding": encoding} if encoding else {}
        return Response(encoded[encoding], headers=headers, media_type=_KINDS[Path(asset or "index.html").suffix])

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
    files = Assets().serve
    routes: list[BaseRoute] = [*API, Route("/", files), Route("/assets/{name}", files)]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refused})
    app.state.inspector = inspector
    gate = Gate(app, inspector.key, host=host)

    # Outermost, so that the gate judges the path that is routed, not another spelling of it.
    async def routed(scope: Scope, receive: Receive, send: Send) -> None:
        # A quoted slash does not divide a name. The NUL after a name of dots keeps browsers from removing it.
        raw: bytes | None = scope.get("raw_path")
        if raw is not None and (b"%2f" in raw.lower() or b"%00" in raw):
            parts = [unquote(part).replace("/", SLASH) for part in raw.decode("latin-1").split("/")]
            scope = {**scope, "path": "/".join(part[:-1] if part in _DOTS else part for part in parts)}
        await gate(scope, receive, send)

    return routed


async def _refused(_: Request, error: Exception) -> Response:
    status: Any = getattr(error, "status_code", 500)
    words = {404: "There is nothing at this address.", 405: "This address needs another method."}
    message = words.get(status, "The inspector cannot answer this.")
    return ApiProblem(status, f"http-{status}", message).response()


logger = logging.getLogger(__name__)

_CLOSING_SECONDS: Final = 0.8  # Commands that have not ended after this time are killed.
_ENDING_SECONDS: Final = 1.0  # More for servers at a URL, which may take a while to end a session.
_WRITING_SECONDS: Final = 0.2


@dataclass(frozen=True)
class ServePlan:
    """The servers to inspect, and the files of the inspector."""

    given: tuple[ServerEntry, ...] = ()  # The servers of the command line.
    catalog: Path | None = None
    read_only: bool = False
    journal: Path | None = None  # The file of saved sessions. None: they are not saved.
    saved: Path | None = None  # The file of saved calls. None: they are lost at the end.
    # The variables for `${NAME}` in an entry.
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    connect: bool = True  # Connect to the servers of the command line at once.
    guide: Guide | None = None


class Serving:
    """One run of an inspector on a socket that listens at `host`. A client has `patience` seconds for a request."""

    def __init__(
        self, listening: socket.socket, key: Key, plan: ServePlan, *, host: str = "127.0.0.1", patience: float = 60.0
    ) -> None:
        self.inspector = Inspector(key, plan.guide)
        self._plan = plan
        self._listening = listening
        self._server = HttpServer(
            make_app(self.inspector, host=host),
            patience=patience,
            lifespan="off",
            ws="none",
            log_config=None,
            log_level=None,  # As the command has set it.
            access_log=False,
            server_header=False,
            proxy_headers=False,
        )

    def stop(self) -> None:
        self._server.stop(at_once=self.inspector.stopping.is_set())
        self.inspector.stopping.set()

    async def run(self, *, signals: bool = True) -> None:
        """Serves until `stop` is called, or a signal asks for it."""
        loop = asyncio.get_running_loop()
        handled = [signal.SIGINT, signal.SIGTERM] if signals else []
        for number in handled:
            with suppress(NotImplementedError):  # On Windows, KeyboardInterrupt ends the loop.
                loop.add_signal_handler(number, self.stop)
        session = asyncio.create_task(self._hold_session(), name="session of the inspector")
        try:
            await self._server.serve(self._listening)
        finally:
            self.inspector.stopping.set()
            await asyncio.gather(session, return_exceptions=True)
            for number in handled:
                with suppress(NotImplementedError):
                    loop.remove_signal_handler(number)

    async def _hold_session(self) -> None:
        session = Session(journal=self._plan.journal, environ=self._plan.environ)
        try:
            await self._start(session)
            await self.inspector.stopping.wait()
        finally:
            await _end(session)

    async def _start(self, session: Session) -> None:
        inspector, plan = self.inspector, self._plan
        try:
            await session.__aenter__()
            if session.journal is not None and session.journal.notice:
                logger.warning("%s", session.journal.notice)
            catalog = None if plan.catalog is None else Catalog(plan.catalog, read_only=plan.read_only)
            servers = SessionServers(session, catalog, plan.environ)
            running = Running(session, servers, PageFeed(session), SavedCalls(plan.saved))
            await servers.begin(plan.given, connect=plan.connect)
            inspector.running = running
            if plan.guide is not None:
                plan.guide.begin(session, partial(running.feed.mark_stale, "tour"))
        except Exception as error:
            logger.exception("The session of the inspector could not be started")
            inspector.failure = error_facts(error)


async def _end(session: Session) -> None:
    """Disconnects from all servers in the time there is, and kills what is left of them."""
    pids = session.pids
    killing = asyncio.get_running_loop().call_later(_CLOSING_SECONDS, stop_commands, pids, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(_CLOSING_SECONDS + _ENDING_SECONDS):
            await session.aclose()
    killing.cancel()
    stop_commands(pids, signal.SIGKILL)
    if session.journal is not None:
        await asyncio.to_thread(session.journal.close, _WRITING_SECONDS)


def make_redirect(url: str) -> Path:
    """Makes a file that leads to the page, readable for its user alone. Delete it once the page is open."""
    handle, name = tempfile.mkstemp(prefix="tidings-", suffix=".html")  # 0600
    address = html.escape(url, quote=True)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(
            '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
            f'<title>Tidings</title><meta http-equiv="refresh" content="0;url={address}">'
            f'<p><a href="{address}">Open the inspector</a></p>\n'
        )
    return Path(name)


def open_page(redirect: Path) -> bool:
    """Opens the page in the user's browser, which may take a moment. Returns whether there is one."""
    try:
        return webbrowser.open(redirect.as_uri())
    except (webbrowser.Error, OSError):
        return False


def delete_redirect(redirect: Path) -> None:
    """Deletes the file, if it is still there."""
    with suppress(OSError):
        redirect.unlink()
