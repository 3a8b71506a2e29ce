"""Programs that tests start in processes of their own, to stop or kill them.

python -m tests.server.programs run PORT          LiveServer.run("streamable-http")
python -m tests.server.programs sse PORT          LiveServer.run("sse")
python -m tests.server.programs stdio 0           LiveServer.run()
python -m tests.server.programs attached 0        attach(MCPServer()).run_stdio_async()
python -m tests.server.programs failing 0         LiveServer(lifespan=...).run(), whose lifespan fails
python -m tests.server.programs uvicorn PORT      uvicorn.run(mcp.asgi())
python -m tests.server.programs replica PORT BUS  the same, on the bus with this URL
python -m tests.server.programs tasks PORT BUS    the same, whose slow tools run as tasks; over stdio if PORT is 0
python -m tests.server.programs mounted PORT      the same, within somebody else's app, lifespan and middleware
python -m tests.server.programs routes PORT       the same, of which only the routes were taken
python -m tests.server.programs hindered PORT BUS uvicorn.run(mcp.asgi()), with slow sources, and changes held back
python -m tests.server.programs asking PORT       uvicorn.run(mcp.asgi()), with an `authorize` that takes its time
python -m tests.server.programs listen PORT ERA URI...   a client that subscribes, says so, and waits
"""

import asyncio
import atexit
import socket
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread
import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route

from tests.server import wire
from tidings import LiveServer, ResourceUpdated
from tidings.bus.sqlite import SqliteBus
from tidings.server import Coalesce, attach

SEND_BUFFER = 16_384


def live_server(bus: Any = None, **options: Any) -> LiveServer[Any]:
    mcp = LiveServer("apart", bus=bus, **{"coalesce": Coalesce(0, 0), **options})

    @mcp.resource("note://{name}")
    def note(name: str) -> str:
        return name

    @mcp.tool()
    async def touch(uri: str, times: int = 1) -> int:
        """Say that `uri` has changed, again and again."""
        for _ in range(times):
            await mcp.notify.resource_updated(uri)
            for _ in range(8):
                await asyncio.sleep(0)  # Written before the next comes, where that takes turns of the event loop.
        return times

    @mcp.tool()
    async def touch_soon(uri: str) -> None:
        """Say that `uri` has changed, without waiting for the bus."""
        mcp.notify.soon(ResourceUpdated(uri))

    @mcp.tool()
    async def waiting() -> list[int]:
        """How much waits to be written, for each subscriber."""
        return [subscriber.waiting for subscriber in mcp.notify.subscribers()]

    add_slow_routes(mcp)
    add_slow_tools(mcp)
    return mcp


def add_slow_tools(mcp: MCPServer[Any]) -> None:
    """Tools that take a minute, each in another way. They make the file `mark` when they begin."""

    @mcp.tool()
    def sleeps(mark: str) -> None:
        Path(mark).touch()
        time.sleep(60)

    @mcp.tool()
    async def waits(mark: str) -> None:
        Path(mark).touch()
        await asyncio.sleep(60)

    @mcp.tool()
    async def stubborn(mark: str) -> None:
        end = time.monotonic() + 60
        Path(mark).touch()
        while time.monotonic() < end:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

    @mcp.tool()
    async def in_executor(mark: str) -> None:
        await asyncio.to_thread(sleeps, mark)

    @mcp.tool()
    async def in_group(mark: str) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, sleeps, mark)

    @mcp.tool()
    async def says_much(mark: str) -> str:
        Path(mark).touch()
        return "x" * 10_000_000

    @mcp.tool()
    async def only_once(mark: str) -> str:
        if not Path(mark).exists():
            await waits(mark)
        return "again"


def add_slow_routes(mcp: LiveServer[Any]) -> None:
    """Routes that take a minute. They make the file `mark` when they begin."""

    @mcp.custom_route("/waits", ["GET", "POST"])
    async def waits(request: Request) -> Response:
        Path(request.query_params["mark"]).touch()
        await asyncio.sleep(60)
        return Response()

    @mcp.custom_route("/sleeps", ["GET", "POST"])
    def sleeps(request: Request) -> Response:
        Path(request.query_params["mark"]).touch()
        time.sleep(60)
        return Response()

    @mcp.custom_route("/streams", ["GET", "POST"])
    async def streams(request: Request) -> Response:
        async def parts() -> AsyncGenerator[bytes]:
            yield b"one part"
            Path(request.query_params["mark"]).touch()
            await asyncio.sleep(60)

        return StreamingResponse(parts(), media_type="text/plain")


def hindered(bus: str) -> LiveServer[Any]:
    """Each change but the first is held back. The sources at `slow://` and `leaving://` take their time."""
    mcp = live_server(bus=SqliteBus(bus, timeout=60), coalesce=Coalesce(30, 30))
    for scheme in ("slow", "leaving"):
        mcp.resource(f"{scheme}://{{name}}", name=scheme)(lambda name: name)

    @mcp.on_first_subscriber("slow://{name}")
    async def watch(name: str) -> None:
        print(f"{name} is asked for", flush=True)  # noqa: T201 - to the parent
        await asyncio.sleep(60)

    @mcp.on_last_subscriber("leaving://{name}")
    async def let_go(name: str) -> None:  # noqa: ARG001 - the variable of the template
        await asyncio.sleep(60)

    return mcp


async def authorize(_: Any, uri: str) -> bool:
    """Takes a minute for what is not at `note://`, each scheme in another way."""
    scheme, _, mark = uri.partition("://")
    if scheme != "note":
        Path(f"/{mark}").touch()
    if scheme == "waits":
        await asyncio.sleep(60)
    elif scheme == "in-thread":
        await asyncio.to_thread(time.sleep, 60)
    elif scheme == "stubborn":
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
    return True


def asking(bus: str | None = None) -> LiveServer[Any]:
    mcp = live_server(bus=bus, authorize=authorize)
    for scheme in ("waits", "in-thread", "stubborn"):
        mcp.resource(f"{scheme}://{{+mark}}", name=scheme)(lambda mark: mark)
    return mcp


def tasks(bus: str) -> LiveServer[Any]:
    mcp = live_server(bus)
    for tool in ("sleeps", "waits", "stubborn", "in_executor", "in_group", "touch"):
        mcp._live.task(tool)
    return mcp


def routes(mcp: LiveServer[Any]) -> Starlette:
    return Starlette(routes=list(mcp.asgi().routes), lifespan=lambda _: mcp.session_manager.run())


def mounted(mcp: LiveServer[Any]) -> Starlette:
    inner = mcp.asgi()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with mcp.session_manager.run():
            yield

    class Plain(BaseHTTPMiddleware):
        async def dispatch(self, request: Request, call_next: Any) -> Response:
            return cast("Response", await call_next(request))

    async def slow(request: Request) -> Response:
        Path(request.query_params["mark"]).touch()
        await asyncio.sleep(1.5)  # Longer than a stop of ours takes.
        return Response("from another app")

    routes = [Route("/slow", slow), Mount("/", inner)]
    return Starlette(routes=routes, lifespan=lifespan, middleware=[Middleware(Plain)])


@asynccontextmanager
async def failing(_: Any) -> AsyncGenerator[None]:
    raise BrokenPipeError("of the lifespan")
    yield


async def hear(port: int, era: wire.Era, uris: list[str]) -> None:
    subscription = await wire.subscribe(era, port, uris)
    print(subscription.session.id if subscription.session else "listening", flush=True)  # noqa: T201 - to the parent
    await subscription.stream.over(3600)


def main(kind: str, port: int, *options: str) -> None:
    if kind == "listen":
        era, *uris = options
        asyncio.run(hear(port, cast("wire.Era", era), uris))
        return
    if kind == "attached":
        server: MCPServer[Any] = MCPServer("apart")
        add_slow_tools(server)
        anyio.run(attach(server).run_stdio_async)
        return
    if kind == "failing":
        LiveServer("apart", lifespan=failing).run()
        return
    make = {"hindered": hindered, "asking": asking, "tasks": tasks}.get(kind, live_server)
    mcp = make(*options)
    kind = "stdio" if kind == "tasks" and not port else kind
    if kind in ("run", "sse", "stdio"):
        atexit.register(print, "at the exit", file=sys.stderr)
        mcp.run("streamable-http" if kind == "run" else kind, **{} if kind == "stdio" else {"port": port})
        print("behind run()", file=sys.stderr)  # noqa: T201 - to the parent
        return
    app = {"mounted": mounted, "routes": routes}.get(kind, LiveServer.asgi)(mcp)
    # A small buffer of the system's, so that a stalled reader is soon felt.
    listening = socket.create_server(("127.0.0.1", port))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    uvicorn.run(app, fd=listening.fileno(), ws="none")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
