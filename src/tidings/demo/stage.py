"""The site and the agent of the demo."""

import asyncio
import hashlib
import re
import socket
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidings._kit.text import shortened
from tidings._kit.uvicorn_seam import HttpServer
from tidings.client import connect
from tidings.client.events import TaskChanged
from tidings.demo.sample import TEXTS

PAGES: Final = Path(__file__).parent / "pages"


class Site:
    """Three pages of the bakery on loopback, one of which changes. An unchanged page is answered with 304."""

    def __init__(self) -> None:
        self._boards = cycle(TEXTS["boards"])
        self._board = next(self._boards)
        self.url = ""  # Its address, once it is served
        self.changed_at: float | None = None

    @property
    def page(self) -> str:
        return f"{self.url}/today"

    def change(self) -> None:
        self._board = next(self._boards)
        self.changed_at = time.time()

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[None]:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            app = Starlette(routes=[Route("/", self._answer), Route("/{name:str}", self._answer)])
            server = HttpServer(app, lifespan="off", ws="none", log_config=None, log_level="error", access_log=False)
            serving = asyncio.create_task(server.serve(listening), name="the site of the demo")
            try:
                yield
            finally:
                server.stop(at_once=True)
                await asyncio.gather(serving, return_exceptions=True)

    async def _answer(self, request: Request) -> Response:
        name = request.path_params.get("name", "index")
        if name not in ("index", "about", "today"):
            return Response("There is no such page.\n", 404, media_type="text/plain")
        headline, left = self._board
        rows = "\n".join(f"<tr><td>{what}</td><td>{how_many or 'none'}</td></tr>" for what, how_many in left.items())
        text = (PAGES / f"{name}.html").read_text("utf-8")
        body = text.replace("{headline}", headline).replace("{rows}", rows).encode()
        tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        headers = {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type="text/html")


@dataclass(eq=False)
class Agent:
    """An agent that waits for changes of one note, as a model does in a host that runs tasks.

    The call of `wait_for_change` becomes a task at the server. When it ends, the agent continues: it reads the answer,
    says what is new, and waits again. `waits` is set once it waits for the first time. `says` is called with the time,
    the agent's words, and the changed lines.
    """

    url: str
    uri: str
    says: Callable[[float, str, tuple[str, ...]], object]
    waits: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        arguments = {"uris": [self.uri]}
        async with connect(self.url) as client:
            client.on(TaskChanged, lambda _: self.waits.set())
            while True:
                result = (await client.call_tool("wait_for_change", arguments)).result
                content = [] if result is None else result.content
                answer = "\n".join(part.text for part in content if part.type == "text")
                diff = re.search(r"^```diff\n(.*?)^```", answer, re.DOTALL | re.MULTILINE)
                lines = re.findall(r"^[+-].*", diff[1] if diff else "", re.MULTILINE)
                self.says(time.time(), news(lines), tuple(f"{line[0]} {line[1:]}" for line in lines))
                # The cursor in the answer: what changes before the next wait is not missed.
                if cursor := re.search(r'since="([^"]+)"', answer):
                    arguments = {"uris": [self.uri], "since": cursor[1]}


def news(lines: list[str]) -> str:
    """Returns the words of the agent on the changed lines of its note: the script in the place of a model."""
    for sign, words in (("+", "New in Flour"), ("-", "No longer in Flour")):
        if found := [text for line in lines if line[0] == sign and (text := line[1:].strip(" -*#"))]:
            return f"{words}: {shortened('; '.join(found), 200)}"
    return "Flour was changed. I should read it again"
