"""The stage of the demo: the notes, the site, a server for each, the agent, and the session that is connected."""

import asyncio
import hashlib
import re
import socket
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import date
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidings._kit.bounded_json import as_dict, as_list
from tidings._kit.text import shortened
from tidings._kit.uvicorn_seam import HttpServer
from tidings.client import connect
from tidings.client.events import TaskChanged
from tidings.demo.sample import FLOUR, FLOUR_URI, OPEN_TASKS_URI, ORDERS_URI, PLAN, PLAN_URI, TEXTS, Sample, StageFailed
from tidings.demo.servers import ServerProcess
from tidings.demo.tour import QUESTION, HopSource

if TYPE_CHECKING:
    from tidings.inspector.server import InspectedServer
    from tidings.inspector.session import Session

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
    async def served(self) -> AsyncGenerator["Site"]:
        listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        app = Starlette(routes=[Route("/", self._answer), Route("/{name:str}", self._answer)])
        server = HttpServer(app, lifespan="off", ws="none", log_config=None, log_level="error", access_log=False)
        serving = asyncio.create_task(server.serve(listening), name="the site of the demo")
        try:
            yield self
        finally:
            server.stop(at_once=True)
            await asyncio.gather(serving, return_exceptions=True)
            listening.close()

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


_START_SECONDS: Final = 60.0  # Until both servers listen, on a busy machine too
_WATCHING: Final = (  # The site is on this machine, and is checked more often than is polite elsewhere
    *("--bus", "memory:"),  # Nothing is kept.
    *("--allow-private", "127.0.0.1", "--robots", "ignore", "--workers", "1"),
    *("--watch-min", "0.5", "--watch-max", "1", "--requests-per-minute", "100000"),
)


class Stage:
    """Everything that the demo shows. All files are written to `folder`.

    `on_woken` is called when the agent continues, with the time, the time when its note was saved, its words, and the
    changed lines. `on_ended` is called when the vault's server has ended, with the time and the text that was then
    written into the plan; `on_served` when it listens, with the time and its process id.
    """

    def __init__(
        self,
        folder: Path,
        *,
        on_woken: Callable[[float, float | None, str, tuple[str, ...]], object],
        on_ended: Callable[[float, str], object],
        on_served: Callable[[float, int], object],
    ) -> None:
        self._on_ended = on_ended
        self.sample = Sample(folder / "Bakery", date.today())  # noqa: DTZ011 - the user's day
        self.site = Site()
        # Chosen here, so that a restarted server has the same address.
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
            ports = [one.getsockname()[1], other.getsockname()[1]]
        self.urls = {name: f"http://127.0.0.1:{port}/mcp" for name, port in zip(("vault", "web"), ports, strict=True)}
        self.agent = Agent(
            self.urls["vault"],
            FLOUR_URI,
            lambda at, words, lines: on_woken(at, self.sample.saved_at(FLOUR), words, lines),
        )
        self._killed_at: float | None = None
        self._connected = asyncio.Event()
        vault = ["vault", str(self.sample.folder), "--http", f"127.0.0.1:{ports[0]}", "--cache", str(folder / "index")]
        self.vault = ServerProcess("vault", vault, ended=self._ended, serves=lambda pid: on_served(time.time(), pid))
        self.web = ServerProcess("web", ["web", "--http", f"127.0.0.1:{ports[1]}", *_WATCHING])

    async def connect(self, session: "Session", opened: Callable[[str, HopSource], object]) -> None:
        """Connects to the servers once they listen, and gives `opened` the source of each. Raises `StageFailed`."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                await asyncio.gather(self._connect_vault(session, opened), self._connect_web(session, opened))
        except TimeoutError:
            raise StageFailed(f"The servers did not start within {_START_SECONDS:.0f} s.") from None

    async def _connect_vault(self, session: "Session", opened: Callable[[str, HopSource], object]) -> None:
        server = await _connected(session, self.vault)
        await _subscribe(session, server, PLAN_URI, FLOUR_URI, ORDERS_URI, OPEN_TASKS_URI, "vault://daily/today")
        await self.agent.waits.wait()
        opened("vault", HopSource(PLAN_URI, "file saved", lambda: self.sample.saved_at(PLAN)))
        self._connected.set()

    async def _connect_web(self, session: "Session", opened: Callable[[str, HopSource], object]) -> None:
        server = await _connected(session, self.web)
        fetched = await server.wait(server.call("fetch", {"urls": [self.site.page]}))
        result: Any = fetched.result
        pages = as_list(as_dict(as_dict(as_dict(result).get("_meta")).get("dev.tidings/data")).get("pages"))
        if not pages:
            reason = result if fetched.error is None else fetched.error.message
            raise StageFailed(f"The web server could not fetch {self.site.page}: {reason}")
        page = as_dict(pages[0])
        diff_uri = str(page.get("diff_uri"))
        await _subscribe(session, server, str(page.get("page_uri")), diff_uri)
        opened("web", HopSource(diff_uri, "page changed", lambda: self.site.changed_at))

    def actions(self, session: "Session") -> dict[str, Callable[[], object]]:
        return {
            "edit": self.sample.edit_plan,
            "wake": self.sample.edit_flour,
            "ask": lambda: session.servers["vault"].call("search", {"query": QUESTION}),
            "page": self.site.change,
            "kill": self._kill,
        }

    def _kill(self) -> None:
        self._killed_at = time.time()
        self.vault.kill()

    def _ended(self) -> None:
        since, self._killed_at = self._killed_at or time.time(), None
        self._on_ended(since, self.sample.edit_while_away())

    async def wake(self) -> None:
        """Runs the agent, once the vault's server listens."""
        await self.vault.serving()
        await self.agent.run()

    async def live(self) -> None:
        """Lets orders arrive in the vault, so that something happens without the user."""
        await self._connected.wait()
        for _ in range(1_000):
            await asyncio.to_thread(self.sample.take_order)
            await asyncio.sleep(12.0)


async def _connected(session: "Session", process: ServerProcess) -> "InspectedServer":
    await process.serving()
    server = session.servers[process.name]
    await server.connect()
    return server


async def _subscribe(session: "Session", server: "InspectedServer", *uris: str) -> None:
    """Subscribes, and waits until each resource was read once: what comes later is a change."""
    read = asyncio.Event()
    unlisten = session.listen(lambda _: all(uri in server.view.contents for uri in uris) and read.set())
    try:
        for uri in uris:
            await server.subscribe(uri)
        await read.wait()
    finally:
        unlisten()
