"""The demo from start to end: its site, its agent, and its tour in a terminal.

The page is served first, while the servers start as processes of their own. Once they listen, the inspector connects to
them and subscribes to a few resources, and the steps of the tour can be done. At the end the processes are stopped and
the folder is removed, even after `kill -9` of this process (see `servers.py` and `sample.py`).
"""

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
import signal
import socket
import textwrap
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from dataclasses import KW_ONLY, dataclass, field
from datetime import date
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidings._kit.bounded_json import as_dict, as_list
from tidings._kit.text import clock, shortened
from tidings._kit.uvicorn_seam import HttpServer
from tidings.client import connect
from tidings.client.events import TaskChanged
from tidings.demo import sample, tour
from tidings.demo.sample import Sample, StageFailed, temporary_folder
from tidings.demo.servers import ServerProcess
from tidings.demo.tour import HopSource, Tour, TourProgress, duration
from tidings.inspector.catalog.entry import ServerEntry
from tidings.inspector.http.gate import Key
from tidings.inspector.http.serve import ServePlan, Serving
from tidings.inspector.records import Record
from tidings.inspector.view.view import SessionView

if TYPE_CHECKING:
    from tidings.inspector.server import InspectedServer
    from tidings.inspector.session import Session

PAGES: Final = Path(__file__).parent / "pages"
_MOST_LINES: Final = 8
_BY_HAND: Final = {
    "edit": "edit and save {}",
    "wake": "edit and save {}: the agent says here what is new",
}
_START_SECONDS: Final = 60.0  # Until both servers listen, on a busy machine too
_WATCHING: Final = (  # The site is on this machine, and is checked more often than is polite elsewhere
    *("--bus", "memory:"),  # Nothing is kept.
    *("--allow-private", "127.0.0.1", "--robots", "ignore", "--workers", "1"),
    *("--watch-min", "0.5", "--watch-max", "1", "--requests-per-minute", "100000"),
)


class Site:
    """Three pages of the bakery on loopback, one of which changes. An unchanged page is answered with 304."""

    def __init__(self) -> None:
        self._boards = cycle(sample.TEXTS["boards"])
        self._board = next(self._boards)
        self.url = ""  # Its address, once it is served
        self.changed_at: float | None = None

    @property
    def page(self) -> str:
        return f"{self.url}/today"

    def change(self) -> None:
        self._board = next(self._boards)
        self.changed_at = time.time()

    @contextlib.asynccontextmanager
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
    """An agent that waits for changes to one note, as a model does in a host that runs tasks.

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


class TerminalTour:
    """Prints the tour with `say`."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self.say = say
        self._lost: set[str] = set()

    def steps(self, shown: Tour) -> None:
        for progress in shown.progress.values():
            how = _BY_HAND.get(progress.step.name, "press its button in the page")
            self.say(f"  {progress.number}  {progress.step.title:<18} {how.format(progress.step.place)}")
        self.say(f"  {len(shown.progress) + 1}  {tour.LAST_TITLE:<18} {tour.LAST_WORDS.rstrip(':').lower()}\n")

    def last(self, shown: Tour) -> None:
        self.say(f"\n{tour.LAST_TITLE}. {tour.LAST_WORDS}")
        for title, text in shown.snippets.items():
            self.say(f"\n  {title}:\n{textwrap.indent(text, '    ')}")
        self.say("")

    def announce(self, progress: TourProgress) -> None:
        self.say(f"\n{progress.number}  {progress.step.title}: {progress.step.place}")
        self.say(textwrap.fill(progress.step.words, 100, initial_indent="   ", subsequent_indent="   "))

    def seen(self, progress: TourProgress) -> None:
        if (seen := progress.seen) is None:
            return
        self.say(f"{clock(seen.at, milliseconds=True)}  ✓ {progress.number} {progress.step.title}: {seen.words}")
        if seen.hops:
            hops = (hop.words + ("" if hop.ms is None else f" ({duration(hop.ms / 1000)})") for hop in seen.hops)
            self.say(f"                  {' → '.join(hops)}")
        more = [f"… {len(seen.lines) - _MOST_LINES} more"] if len(seen.lines) > _MOST_LINES else []
        for line in (*seen.lines[:_MOST_LINES], *more):
            self.say(f"                    {line}")

    def hear(self, record: Record, views: SessionView) -> None:
        server, state, words = record.server, record.data.get("state"), ""
        if (view := views.servers.get(server)) is None:
            return
        if record.kind == "content":
            if (change := tour.change_of(record, view)) is not None and change.uri is not None:
                fresh = "" if change.fresh_in is None else f"fresh in {duration(change.fresh_in)}"
                words = f"{re.sub(r'^(vault://(note/)?|webfetch://)', '', unquote(change.uri)):<34} {fresh}"
        elif record.kind == "state" and state == "connected" and server in self._lost:
            self._lost.discard(server)
            words = "is connected again"
        elif record.kind == "state" and state == "error" and server not in self._lost:
            self._lost.add(server)
            words = "is lost; reconnecting"
        if words:
            self.say(f"{clock(record.at, milliseconds=True)}  {server:<6} {words}".rstrip())


async def show(**options: Any) -> int:
    """Runs a `Demo`, cleans up, and returns the exit code. Raises `StageFailed` if it cannot be shown."""
    with _ending() as asked:
        with temporary_folder() as folder:
            demo = Demo(folder, asked, **options)
            code = await demo.run()
        if folder.exists():
            demo.say(f"Not all of {folder} could be removed.")
        return code


@contextlib.contextmanager
def _ending() -> Generator[asyncio.Event]:
    """Yields an event that Ctrl-C, SIGTERM and the end of the terminal set, so that everything ends in order."""
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    numbers = [number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None))]
    with contextlib.ExitStack() as stack:
        for number in numbers:
            with contextlib.suppress(NotImplementedError):  # On Windows, KeyboardInterrupt cancels this.
                loop.add_signal_handler(number, asked.set)
                stack.callback(loop.remove_signal_handler, number)
        yield asked


@dataclass(eq=False)
class Demo:
    """One run. It is the guide of its inspector; see `tidings.inspector.http.context.Guide`."""

    folder: Path
    asked: asyncio.Event  # Set when it is to end
    _: KW_ONLY
    listening: socket.socket  # The socket on which the page is served
    key: Key
    say: Callable[[str], object]
    automatic: bool = False  # Do all steps, one after the other, and end
    seconds: float | None = None  # End after this time, whatever happens

    def __post_init__(self) -> None:
        self._terminal = TerminalTour(self._say)
        self.tour = Tour(on_seen=self._terminal.seen)
        self.facts, self.do = self.tour.facts, self.tour.do
        self._sample = Sample(self.folder / "Bakery", date.today())  # noqa: DTZ011 - the user's day
        self._site = Site()
        # Chosen here, so that a restarted server has the same address.
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
            vault, web = (f"127.0.0.1:{each.getsockname()[1]}" for each in (one, other))
        self._vault_url = f"http://{vault}/mcp"
        self._vault = ServerProcess(
            "vault",
            ["vault", str(self._sample.folder), "--http", vault, "--cache", str(self.folder / "index")],
            ended=self._vault_ended,
            serves=lambda pid: self.tour.server_listens(time.time(), pid),
        )
        self._web = ServerProcess("web", ["web", "--http", web, *_WATCHING])
        self._agent = Agent(self._vault_url, sample.FLOUR_URI, self._woken)
        self._killed_at: float | None = None
        self._failure: BaseException | None = None
        self._work: set[asyncio.Task[None]] = set()
        entries = (ServerEntry("vault", url=self._vault_url), ServerEntry("web", url=f"http://{web}/mcp"))
        # The servers are still starting when the page is served: connecting at once would fail.
        plan = ServePlan(entries, connect=False, environ=os.environ, guide=self)
        self._serving = Serving(self.listening, self.key, plan)

    async def run(self) -> int:
        """Runs the demo and returns the exit code. Raises `StageFailed` if a server cannot be started or used."""
        await asyncio.to_thread(self._sample.write)
        async with self._site.served():
            claude = not self.automatic and shutil.which("claude") is not None
            texts = tour.snippets(self._vault_url, claude=claude)
            self.tour.set_steps(tour.steps(self._sample.folder, self._site.page), texts)
            await self._run_until_asked()
        if self._failure is not None:
            raise self._failure
        return 0 if self.tour.complete or not self.automatic else 1

    async def _run_until_asked(self) -> None:
        for work in (self._vault.run(), self._web.run(), self._wake(), self._begun()):
            self._start(work)
        serving = asyncio.create_task(self._serving.run(signals=False), name="the inspector")
        serving.add_done_callback(self._ended)
        asked = asyncio.create_task(self.asked.wait())
        self._terminal.steps(self.tour)
        try:
            await asyncio.wait((serving, asked), timeout=self.seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:  # All at the same time: this takes no longer than the slowest.
            self._serving.stop()
            for task in (asked, *self._work):
                task.cancel()
            await asyncio.gather(serving, asked, *self._work, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        # Nothing can be shown without it: a failure of one part ends the demo.
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self.asked.set()

    async def _begun(self) -> None:
        """Waits for the inspector's session. Raises `RuntimeError` if it cannot be started."""
        inspector = self._serving.inspector
        while inspector.failure is None and inspector.running is None:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.1)
        if inspector.failure:
            raise RuntimeError(f"The inspector's session could not be started: {inspector.failure.get('message')}")

    def begin(self, session: "Session", changed: Callable[[], object]) -> None:
        self.tour.listen(changed)
        self._start(self._open(session))

    async def _open(self, session: "Session") -> None:
        session.listen(lambda record: self._terminal.hear(record, session.view))
        session.listen(lambda record: self.tour.hear(record, session.view))
        try:
            async with asyncio.timeout(_START_SECONDS):
                await asyncio.gather(self._open_vault(session), self._open_web(session))
        except TimeoutError:
            raise StageFailed(f"The servers did not start within {_START_SECONDS:.0f} s.") from None
        if self.automatic:
            for progress in self.tour.progress.values():
                self._terminal.announce(progress)
                self.tour.do(progress.step.name)
                if await self.tour.wait(progress.step.name) is None:
                    self._say(f"✗ {progress.step.title}: no effect was seen.")
            self._terminal.last(self.tour)
            self.asked.set()

    async def _open_vault(self, session: "Session") -> None:
        server = await _connected(session, self._vault)
        uris = (sample.PLAN_URI, sample.FLOUR_URI, sample.ORDERS_URI, sample.OPEN_TASKS_URI, "vault://daily/today")
        await _subscribe(session, server, *uris)
        await self._agent.waits.wait()
        actions = {
            "edit": self._acting(self._sample.edit_plan),
            "wake": self._acting(self._sample.edit_flour),
            "ask": lambda: server.call("search", {"query": tour.QUESTION}),
            "kill": self._kill,
        }
        source = HopSource(sample.PLAN_URI, "file saved", lambda: self._sample.saved_at(sample.PLAN))
        self.tour.open("vault", source, actions)
        self._start(self._live())

    async def _open_web(self, session: "Session") -> None:
        server = await _connected(session, self._web)
        fetched = await server.wait(server.call("fetch", {"urls": [self._site.page]}))
        result: Any = fetched.result
        pages = as_list(as_dict(as_dict(as_dict(result).get("_meta")).get("dev.tidings/data")).get("pages"))
        if not pages:
            reason = result if fetched.error is None else fetched.error.message
            raise StageFailed(f"The web server could not fetch {self._site.page}: {reason}")
        page = as_dict(pages[0])
        diff_uri = str(page.get("diff_uri"))
        await _subscribe(session, server, str(page.get("page_uri")), diff_uri)
        source = HopSource(diff_uri, "page changed", lambda: self._site.changed_at)
        self.tour.open("web", source, {"page": self._site.change})

    def _acting(self, action: Callable[[], object]) -> Callable[[], None]:
        def act() -> None:
            try:
                action()
            except StageFailed as error:  # A full disk ends the demo.
                self._fail(error)

        return act

    def _kill(self) -> None:
        self._killed_at = time.time()
        self._vault.kill()

    def _vault_ended(self) -> None:
        since, self._killed_at = self._killed_at or time.time(), None
        self.tour.server_ended(since, self._sample.edit_while_away())

    def _woken(self, at: float, words: str, lines: tuple[str, ...]) -> None:
        self.tour.woken(at, self._sample.saved_at(sample.FLOUR), words, lines)

    async def _wake(self) -> None:
        await self._vault.serving()
        await self._agent.run()

    async def _live(self) -> None:
        """Lets orders arrive in the vault, so that something happens without the user."""
        for _ in range(1_000):
            await asyncio.to_thread(self._sample.take_order)
            await asyncio.sleep(12.0)

    def _say(self, text: str) -> None:
        try:
            self.say(text)
        except OSError:  # Nobody reads it any more.
            self.asked.set()


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
