"""The site: three pages of the bakery on loopback, one of which changes. A page that did not is answered with 304."""

import asyncio
import contextlib
import hashlib
import socket
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

PAGES: Final = Path(__file__).parent / "pages"
_BOARDS: Final = (
    ("The rye is out of the oven and resting. Buns are warm.", {"Harbour rye": 60, "Cardamom buns": 40, "Coffee": 99}),
    ("The ferry was here: buns are nearly gone.", {"Harbour rye": 52, "Cardamom buns": 3, "Coffee": 61}),
    ("Buns are sold out. There is rye until six.", {"Harbour rye": 17, "Cardamom buns": 0, "Coffee": 44}),
    ("A second tray of buns is in the oven, back at three.", {"Harbour rye": 11, "Cardamom buns": 24, "Coffee": 38}),
)


class Site:
    """The pages, as they are now."""

    def __init__(self) -> None:
        self._boards = cycle(_BOARDS)
        self._board = next(self._boards)
        self.url = ""
        """Where it is, once it is served."""
        self.changed_at: float | None = None

    @property
    def page(self) -> str:
        """The address of the page that changes."""
        return f"{self.url}/today"

    def change(self) -> None:
        """Write something else on the board."""
        self._board = next(self._boards)
        self.changed_at = time.time()

    @asynccontextmanager
    async def served(self) -> AsyncGenerator["Site"]:
        """Serve it on loopback."""
        listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = _Server(
            uvicorn.Config(
                self._app(),
                lifespan="off",
                ws="none",
                log_config=None,
                log_level="error",
                access_log=False,
                timeout_graceful_shutdown=1,
            )
        )
        serving = asyncio.create_task(server.serve(sockets=[listening]), name="the site of the demo")
        try:
            yield self
        finally:
            server.should_exit = server.force_exit = True
            await asyncio.gather(serving, return_exceptions=True)
            listening.close()

    def _app(self) -> Starlette:
        return Starlette(routes=[Route("/", self._answer), Route("/{name:str}", self._answer)])

    async def _answer(self, request: Request) -> Response:
        name = request.path_params.get("name", "index")
        if name not in ("index", "about", "today"):
            return Response("There is no such page.\n", 404, media_type="text/plain")
        body = self._text(name).encode()
        tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        headers = {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type="text/html")

    def _text(self, name: str) -> str:
        text = (PAGES / f"{name}.html").read_text("utf-8")
        headline, left = self._board
        rows = "\n".join(f"<tr><td>{what}</td><td>{how_many or 'none'}</td></tr>" for what, how_many in left.items())
        return text.replace("{headline}", headline).replace("{rows}", rows)


class _Server(uvicorn.Server):
    """A server that leaves signals to others: it is one of several things in this process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield
