"""One live server, and two clients of the official SDK, one for each era of the protocol, that follow its changes.

    python examples/both_eras.py [number of changes]     (Ctrl-C stops it)

The clients contain no Tidings code. They are notified because the server is live.
"""

import asyncio
import socket
import sys
import time
import warnings
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext

import anyio
import uvicorn
from anyio.streams.memory import MemoryObjectSendStream
from mcp.client import Client
from mcp_types import ResourceUpdatedNotification

from tidings import LiveServer

warnings.simplefilter("ignore")  # The SDK warns at each call that the legacy era is deprecated.

URI = "clock://now"

Heard = tuple[str, float, str]
"""The client, the time of the notification, and the content it then read."""


def clock() -> LiveServer:
    # The SDK logs an error when Ctrl-C ends a client during a request.
    mcp = LiveServer("clock", log_level="CRITICAL")

    @mcp.resource(URI)
    def now() -> str:
        return time.strftime("%H:%M:%S")

    return mcp


async def modern_client(url: str, heard: MemoryObjectSendStream[Heard], ready: anyio.Event) -> None:
    async with Client(url, mode="2026-07-28") as client, client.listen(resource_subscriptions=[URI]) as news:
        ready.set()
        async for _ in news:
            at = time.perf_counter()
            await heard.send(("modern", at, await text(client)))


async def legacy_client(url: str, heard: MemoryObjectSendStream[Heard], ready: anyio.Event) -> None:
    async def on_message(message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            updates.send_nowait(time.perf_counter())

    updates, arrivals = anyio.create_memory_object_stream[float](64)
    async with Client(url, mode="legacy", message_handler=on_message) as client:
        await client.subscribe_resource(URI)
        ready.set()
        async for at in arrivals:
            await heard.send(("legacy", at, await text(client)))


async def text(client: Client) -> str:
    result = await client.read_resource(URI)
    return result.contents[0].text


class WebServer(uvicorn.Server):
    """A web server that leaves Ctrl-C to asyncio, which ends the clients before the server."""

    def capture_signals(self) -> AbstractContextManager[None]:
        return nullcontext()


@asynccontextmanager
async def serving(mcp: LiveServer) -> AsyncIterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = WebServer(uvicorn.Config(mcp.asgi(), log_level="critical"))
    serve = asyncio.create_task(server.serve([listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        await mcp.aclose()
        server.should_exit = True
        await serve


async def main(changes: int) -> None:
    mcp = clock()
    async with serving(mcp) as url, anyio.create_task_group() as tasks:
        print(f"A live server at {url}\nTwo clients of the SDK are subscribed to {URI}:\n")
        send, heard = anyio.create_memory_object_stream[Heard](64)
        for client in (modern_client, legacy_client):
            ready = anyio.Event()
            tasks.start_soon(client, url, send, ready)
            await ready.wait()
        for count in range(1, changes + 1):
            changed = time.perf_counter()
            await mcp.notify.resource_updated(URI)
            news = sorted([await heard.receive(), await heard.receive()])
            times = ", ".join(f"{era} era after {(at - changed) * 1000:4.1f} ms" for era, at, _ in news)
            print(f"  change {count:3}: received in the {times}; both read {news[0][2]}", flush=True)
            await anyio.sleep(1 if count < changes else 0)
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    try:
        anyio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
    except KeyboardInterrupt:
        print()
