"""Programs that tests start in processes of their own, to stop or kill them.

python -m tests.server.programs run PORT          LiveServer.run()
python -m tests.server.programs uvicorn PORT      uvicorn.run(mcp.asgi())
python -m tests.server.programs replica PORT BUS  the same, on the bus with this URL
python -m tests.server.programs mounted PORT      the same, within somebody else's app, lifespan and middleware
python -m tests.server.programs routes PORT       the same, of which only the routes were taken
python -m tests.server.programs hindered PORT BUS uvicorn.run(mcp.asgi()), with slow sources, and changes held back
python -m tests.server.programs listen PORT ERA URI...   a client that subscribes, says so, and waits
"""

import asyncio
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount

from tests.server import wire
from tidings import LiveServer, ResourceUpdated
from tidings.bus.sqlite import SqliteBus
from tidings.server import Coalesce

SEND_BUFFER = 16_384


def live_server(**options: Any) -> LiveServer[Any]:
    mcp = LiveServer("apart", **{"coalesce": Coalesce(0, 0), **options})

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

    return mcp


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

    return Starlette(routes=[Mount("/", inner)], lifespan=lifespan, middleware=[Middleware(Plain)])


async def hear(port: int, era: wire.Era, uris: list[str]) -> None:
    subscription = await wire.subscribe(era, port, uris)
    print(subscription.session.id if subscription.session else "listening", flush=True)  # noqa: T201 - to the parent
    await subscription.stream.over(3600)


def main(kind: str, port: int, *options: str) -> None:
    if kind == "listen":
        era, *uris = options
        asyncio.run(hear(port, cast("wire.Era", era), uris))
        return
    mcp = hindered(*options) if kind == "hindered" else live_server(bus=options[0] if options else None)
    if kind == "run":
        mcp.run("streamable-http", port=port)
        return
    app = {"mounted": mounted, "routes": routes}.get(kind, LiveServer.asgi)(mcp)
    # A small buffer of the system's, so that a stalled reader is soon felt.
    listening = socket.create_server(("127.0.0.1", port))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    uvicorn.run(app, fd=listening.fileno(), ws="none")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
