"""Nothing of a client is left on a server: no session, no task, no stream and no open file, however the client went.

The servers run in this process, so that their tasks and files are counted with those of the client.
"""

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from mcp.server.mcpserver import MCPServer

from tests.cli.running import line_of, started, tidings
from tests.client.library import ERAS, SECONDS, Library, eventually
from tests.client.peers import BUILD
from tests.client.ways import app, environment, stdio
from tests.server.serving import serving
from tidings.client import Backoff, ClientConfig, LiveClient, Timeouts, connect
from tidings.errors import ConnectionLost, ConnectTimedOut, TidingsError, UnsupportedVersion
from tidings.inspector.catalog.entry import ServerEntry
from tidings.inspector.session import Session
from tidings.inspector.tui.app import InspectorApp

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

TRANSPORTS = pytest.mark.parametrize(
    "transport", ["http", *(pytest.param(each, marks=pytest.mark.thorough) for each in ("sse", "stdio", "memory"))]
)
OLD_ERA_FIRST = pytest.mark.parametrize(
    "era", [pytest.param("legacy", id="legacy"), pytest.param("auto", id="modern", marks=pytest.mark.thorough)]
)
SERVERS = pytest.mark.parametrize("server", ["live", "stock"])


@dataclass(frozen=True)
class Held:
    """The parts of a server and of this process that a client may leave behind."""

    sessions: int
    subscribers: int
    tasks: int
    files: int
    processes: int


@dataclass
class Place:
    """A server, and the target by which it is reached."""

    server: Any
    target: Any

    def held(self) -> Held:
        manager = getattr(self.server, "_lowlevel_server", self.server)._session_manager
        notify = getattr(self.server, "notify", None)
        return Held(
            0 if manager is None else len(manager._server_instances),
            0 if notify is None else len(notify.subscribers()),
            len(asyncio.all_tasks()),
            psutil.Process().num_fds(),
            len(psutil.Process().children()),
        )

    @asynccontextmanager
    async def unchanged(self) -> AsyncGenerator[None]:
        """Fails if anything is left of what happened within this block."""
        seen: list[Held] = []
        while len(seen) < 10 or len(set(seen[-10:])) > 1:  # What was before fades.
            seen.append(self.held())
            await anyio.sleep(0.01)
        before = seen[-1]
        assert (before.sessions, before.subscribers) == (0, 0)
        yield

        def is_no_more() -> bool:
            held = astuple(self.held())
            return all(now <= then for now, then in zip(held, astuple(before), strict=True))

        with contextlib.suppress(TimeoutError):
            await eventually(is_no_more)
        assert is_no_more(), f"{before} became {self.held()}"


@asynccontextmanager
async def placed(transport: str, name: str = "live", wrap: Callable[[Any], Any] = lambda app: app) -> Any:
    server = BUILD[name]()
    if transport == "memory":
        yield Place(server, server)
    elif transport == "stdio":
        from tests.client.peers import LIVE, STOCK

        yield Place(server, stdio({"live": LIVE, "stock": STOCK}[name]))
    else:
        async with serving(wrap(app(server, transport))) as port:
            url = f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"
            await warm_up(url)
            yield Place(server, url)


async def warm_up(url: str) -> None:
    """Lets the web server start what it starts once, such as a watcher of its own end."""
    async with connect(url, era="legacy") as client:
        await client.list_tools()


def reach(place: Place, era: str, **options: Any) -> LiveClient:
    if isinstance(place.target, list):
        options["env"] = environment()
    return connect(place.target, era=era, **options)


async def use(client: LiveClient) -> None:
    await client.read_resource("note://today")
    await client.call_tool("echo", {"text": "hello"})
    if client.supports_subscriptions:
        await client.subscribe("note://today")
    async for _ in client.watch("note://today"):
        break


# The client.


@SERVERS
@TRANSPORTS
@ERAS
async def test_a_client_that_is_closed_leaves_nothing_behind(era: str, transport: str, server: str) -> None:
    async with placed(transport, server) as place:
        async with reach(place, era) as client:  # Whatever is imported or opened once.
            await use(client)
        async with place.unchanged():
            for _ in range(1 if transport == "stdio" else 5):
                async with reach(place, era) as client:
                    await use(client)


async def test_twenty_clients_of_the_old_era_leave_no_session_behind() -> None:
    async with placed("http", "stock") as place, place.unchanged(), contextlib.AsyncExitStack() as stack:
        for _ in range(20):
            await stack.enter_async_context(reach(place, "legacy"))
        assert place.held().sessions == 20


@TRANSPORTS
@ERAS
async def test_a_client_whose_scope_is_cancelled_leaves_nothing_behind(era: str, transport: str) -> None:
    async with placed(transport) as place:
        async with reach(place, era) as client:
            await use(client)
        async with place.unchanged():
            with anyio.CancelScope() as scope:
                async with reach(place, era) as client:
                    await use(client)
                    scope.cancel()
                    await anyio.sleep_forever()
            assert client.state == "disconnected"


@ERAS
async def test_a_client_that_is_closed_in_the_middle_of_a_call_leaves_nothing_behind(era: str) -> None:
    library = Library()
    library.gates["t1"] = anyio.Event()
    async with serving(library.server.streamable_http_app()) as port:
        place = Place(library.server, f"http://127.0.0.1:{port}/mcp")
        async with reach(place, era) as client:
            await client.read_resource("note://1")
        async with place.unchanged():
            async with reach(place, era) as client:
                calling = asyncio.create_task(client.call_tool("t1"))
                await eventually(lambda: library.running["t1"])
            with pytest.raises(TidingsError):
                await calling


async def test_a_server_in_this_process_ends_in_good_order() -> None:
    ended = anyio.Event()

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None]:
        yield
        await anyio.sleep(0.01)
        ended.set()

    async with connect(MCPServer("tidy", lifespan=lifespan)):
        pass
    assert ended.is_set()


# Connecting, and connecting again.


class Gate:
    """An ASGI app whose answers to some requests are held up, or kept back for good."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.open = anyio.Event()
        self.reached = anyio.Event()
        self.at: Callable[[str, bytes], bool] = lambda method, body: False
        self.before = True
        self.methods: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        self.methods.append(scope["method"])
        first = await receive() if scope["method"] == "POST" else None
        held = self.at(scope["method"], first["body"] if first else b"")

        async def receiving() -> Any:
            nonlocal first
            message, first = first, None
            return message or await receive()

        async def sending(message: Any) -> None:
            if held:
                self.reached.set()
                await self.open.wait()
            await send(message)

        await self.app(scope, receiving, sending)


def is_initialize(_: str, body: bytes) -> bool:
    return b'"initialize"' in body


def is_initialized(_: str, body: bytes) -> bool:
    return b"notifications/initialized" in body


@pytest.mark.parametrize("at", [is_initialize, is_initialized])
@pytest.mark.parametrize("way", ["disconnect", "cancel"])
async def test_a_client_that_is_disconnected_while_it_connects_leaves_no_session_behind(
    at: Callable[[str, bytes], bool], way: str
) -> None:
    gates: list[Gate] = []

    def gated(app: Any) -> Gate:
        gates.append(Gate(app))
        return gates[0]

    async with placed("http", "stock", gated) as place, place.unchanged():
        (gate,) = gates
        gate.at = at
        client = reach(place, "legacy")
        connecting = asyncio.create_task(client.connect())
        with anyio.fail_after(SECONDS):
            await gate.reached.wait()
            assert place.held().sessions == 1
            ending = asyncio.create_task(client.disconnect() if way == "disconnect" else client.aclose())
            await anyio.sleep(0.05)
            gate.open.set()
            await ending
            with pytest.raises(TidingsError):
                await connecting
            await client.aclose()


async def test_a_client_that_refuses_the_version_leaves_no_session_behind() -> None:
    mcp = MCPServer("old")

    class OldOnly(Gate):
        """Knows nothing of the modern era."""

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if b"2026-07-28" in dict(scope.get("headers", [])).get(b"mcp-protocol-version", b""):
                await send({"type": "http.response.start", "status": 400, "headers": []})
                await send({"type": "http.response.body", "body": b""})
            else:
                await super().__call__(scope, receive, send)

    old = OldOnly(mcp.streamable_http_app())
    async with serving(old) as port:
        place = Place(mcp, f"http://127.0.0.1:{port}/mcp")
        await warm_up(place.target)
        old.methods.clear()
        async with place.unchanged():
            with pytest.raises(UnsupportedVersion):
                async with reach(place, "2026-07-28"):
                    pass
            assert "DELETE" in old.methods


async def test_a_client_that_connects_again_leaves_no_session_behind() -> None:
    async with placed("http", "stock") as place:
        config = ClientConfig(backoff=Backoff(delays=(0.01,)))
        async with place.unchanged(), reach(place, "legacy", config=config) as client:
            for _ in range(3):
                link = client._connection.link
                link.lose(ConnectionLost("A test wants it so."))
                await eventually(lambda link=link: client._connection.link not in (None, link))
                await client.read_resource("note://today")
            await eventually(lambda: place.held().sessions == 1)
            await client.disconnect()
            assert place.held().sessions == 0
            await client.connect()
            await client.read_resource("note://today")


# Servers that hang, or are gone.


@pytest.mark.parametrize("hangs", ["DELETE", "everything"])
async def test_closing_is_quick_if_the_server_hangs(hangs: str) -> None:
    gates: list[Gate] = []

    def gated(app: Any) -> Gate:
        gates.append(Gate(app))
        return gates[0]

    async with placed("http", "stock", gated) as place:
        client = reach(place, "legacy")
        await client.connect()
        gates[0].at = lambda method, _: hangs in (method, "everything")
        began = time.monotonic()
        with anyio.fail_after(SECONDS):
            await client.aclose()
        assert 1 < time.monotonic() - began < 4
        gates[0].open.set()


async def test_closing_is_quick_if_the_server_hangs_while_the_client_connects() -> None:
    gates: list[Gate] = []

    def gated(app: Any) -> Gate:
        gates.append(Gate(app))
        return gates[0]

    async with placed("http", "stock", gated) as place:
        gates[0].at = is_initialize
        began = time.monotonic()
        with pytest.raises(ConnectTimedOut):
            async with reach(
                place, "legacy", config=ClientConfig(timeouts=Timeouts(connect=0.1), backoff=Backoff(tries=0))
            ):
                pass
        assert time.monotonic() - began < 4
        gates[0].open.set()


async def test_closing_is_quick_if_the_server_is_gone() -> None:
    async with placed("http", "stock") as place:
        client = reach(place, "legacy")
        await client.connect()
    began = time.monotonic()
    with anyio.fail_after(SECONDS):
        await client.aclose()
    assert time.monotonic() - began < 2


# Commands.

COMMANDS = [
    ("list",),
    ("read", "note://today"),
    ("call", "echo", "text=hello"),
    ("prompt", "ask", "what=rain"),
    ("watch", "note://today", "--count", "1"),
    ("ping", "--count", "1"),
    ("load", "echo", "text=hello", "--requests", "5"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=[words[0] for words in COMMANDS])
@pytest.mark.parametrize(
    "transport", ["http", *(pytest.param(each, marks=pytest.mark.thorough) for each in ("sse", "stdio"))]
)
@ERAS
async def test_a_command_leaves_nothing_behind(era: str, transport: str, words: tuple[str, ...]) -> None:
    async with placed(transport, "stock") as place:
        is_url = isinstance(place.target, str)
        target = place.target if is_url else " ".join(place.target)
        verb, *rest = words
        options = [] if is_url else [f"--env={name}={value}" for name, value in environment().items()]

        await asyncio.to_thread(tidings, "--version")  # Starts the process from which commands are forked.
        async with place.unchanged():
            done = await asyncio.to_thread(tidings, verb, target, *rest, "--era", era, *options)
            assert done.code == 0, done.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_command_that_is_interrupted_leaves_nothing_behind(number: signal.Signals) -> None:
    async with placed("http", "stock") as place:

        def watch() -> None:
            with started("watch", place.target, "note://today", "--era", "legacy") as watching:
                line_of(watching)
                os.kill(watching.pid, number)
                watching.wait(SECONDS)

        await asyncio.to_thread(watch)
        async with place.unchanged():
            await asyncio.to_thread(watch)


# The inspector.


@pytest.mark.parametrize(
    "transport", ["http", *(pytest.param(each, marks=pytest.mark.thorough) for each in ("sse", "stdio"))]
)
@ERAS
async def test_the_inspector_leaves_nothing_behind(era: str, transport: str) -> None:
    async with placed(transport, "stock") as place:
        if isinstance(place.target, str):
            entry = ServerEntry("one", url=place.target, era=era)
        else:
            command, *args = place.target
            entry = ServerEntry("one", command=command, args=tuple(args), env=environment(), era=era)

        async def inspect() -> None:
            async with Session() as session:
                server = await session.add(entry)
                await server.connect()
                assert server.view.state == "connected", server.view.error
                server.read("note://today")
                await server.disconnect()
                await server.connect()
                await server.reconnect()
                server.call("echo", {"text": "hello"})

        with anyio.fail_after(SECONDS * 3):
            await inspect()
            async with place.unchanged():
                await inspect()


@OLD_ERA_FIRST
async def test_the_inspector_of_a_browser_leaves_nothing_behind(era: str, tmp_path: Path) -> None:
    async with placed("http") as place:
        options = (
            "--era",
            era,
            "--no-browser",
            "--port",
            "0",
            "--no-journal",
            "--catalog",
            str(tmp_path / "none.json"),
        )

        def run(listens: threading.Event) -> None:
            with started("inspect", place.target, *options) as inspector:
                line_of(inspector)
                assert listens.wait(SECONDS * 3)
                os.kill(inspector.pid, signal.SIGINT)
                assert inspector.wait(SECONDS) == 0

        async def inspect() -> None:
            listens = threading.Event()
            running = asyncio.create_task(asyncio.to_thread(run, listens))
            await eventually(lambda: running.done() or place.held().subscribers)
            listens.set()
            await running

        await inspect()
        async with place.unchanged():
            await inspect()


@OLD_ERA_FIRST
async def test_the_inspector_of_a_terminal_leaves_nothing_behind(era: str) -> None:
    async with placed("http") as place:

        async def inspect() -> None:
            async with Session() as session:
                await session.add(ServerEntry("one", url=place.target, era=era))
                async with InspectorApp(session).run_test(size=(150, 42)) as pilot:
                    await eventually(lambda: place.held().subscribers)
                    await pilot.press("q")

        with anyio.fail_after(SECONDS * 3):
            await inspect()
            async with place.unchanged():
                await inspect()
