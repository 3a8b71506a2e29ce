"""Servers that tests start in processes of their own, to kill and start again.

python -m tests.client.programs stdio FOLDER              over stdio
python -m tests.client.programs zygote PORT FOLDER        on a port, in a child: each line on stdin is an order:
                                                          "start" a child, "kill" it

What they serve are the files of FOLDER, as `file:///NAME`: so the truth outlives them. Whoever changes a file need not
tell them; they look. The server keeps no memory of what it told before it was killed.
"""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn

from tidings import LiveServer
from tidings.server import Coalesce

LOOK_SECONDS = 0.02


def build(folder: Path) -> LiveServer[Any]:
    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None]:
        looking = asyncio.create_task(_look(mcp, folder))
        try:
            yield
        finally:
            looking.cancel()

    mcp: LiveServer[Any] = LiveServer("files", lifespan=lifespan, coalesce=Coalesce(window=0, max_wait=0))

    @mcp.resource("file:///{name}")
    def content(name: str) -> str:
        return (folder / name).read_text()

    @mcp.tool()
    def pid() -> int:
        return os.getpid()

    return mcp


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    stamps: dict[str, tuple[int, int]] = {}
    for entry in os.scandir(folder):
        status = entry.stat()
        stamps[entry.name] = (status.st_mtime_ns, status.st_ino)
    return stamps


async def _look(mcp: LiveServer[Any], folder: Path) -> None:
    seen = _stamps(folder)
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now = _stamps(folder)
        for name in now.keys() | seen.keys():
            if now.get(name) != seen.get(name):
                await mcp.notify.resource_updated(f"file:///{name}")
        seen = now


def _serve(listening: socket.socket, folder: Path) -> None:
    mcp = build(folder)
    sse = mcp.sse_app()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        # Both in one: whichever the client asks for.
        old = scope["type"] == "http" and scope["path"].startswith(("/sse", "/messages"))
        await (sse if old else http)(scope, receive, send)

    http = mcp.asgi()
    config = uvicorn.Config(app, log_config=None, access_log=False, ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    asyncio.run(server.serve(sockets=[listening]))


def zygote(port: int, folder: Path) -> None:
    """A process that has everything imported, and starts and kills servers in no time."""
    gc.freeze()  # What is there already is garbage in no child.
    child = 0
    for order in sys.stdin:
        if order.strip() == "start":
            child = os.fork()
            if child == 0:
                listening = socket.create_server(("127.0.0.1", port), backlog=512, reuse_port=False)
                _serve(listening, folder)
                os._exit(0)
        elif child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            child = 0
        print(child, flush=True)  # noqa: T201
    if child:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def main() -> None:
    kind, *rest = sys.argv[1:]
    if kind == "stdio":
        build(Path(rest[0])).run("stdio")
    else:
        zygote(int(rest[0]), Path(rest[1]))


if __name__ == "__main__":
    main()
