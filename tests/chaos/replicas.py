"""One replica of the server in a chaos run. The truth is a folder of files, which outlives it.

`GET /publish?uri=…` publishes a change, and answers 200 when the bus has it: whoever changed the truth asks one replica
after the other until one says so.
"""

import asyncio
import logging
import socket
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import uvicorn
from mcp.server import _streamable_http_modern
from mcp.server.mcpserver import MCPServer
from sse_starlette import EventSourceResponse

from tidings import LiveServer, TidingsError
from tidings.server import Coalesce


def run(port: int, folder: str, bus: str, keep_alive: float) -> None:
    _streamable_http_modern._SSE_PING_INTERVAL = EventSourceResponse.DEFAULT_PING_INTERVAL = keep_alive
    mcp: LiveServer[Any] = LiveServer("chaos", bus=bus, coalesce=Coalesce(0.005, 0.05), log_level="CRITICAL")
    _resources(mcp, Path(folder))

    async def publish(uri: str) -> None:
        await mcp.notify.resource_updated(uri)

    _serve(mcp.asgi(), publish, port)


def run_stock(port: int, folder: str, bus: str, keep_alive: float) -> None:  # noqa: ARG001 - as it is, with a bus of its own
    mcp: MCPServer[Any] = MCPServer("chaos", log_level="CRITICAL")
    _resources(mcp, Path(folder))

    async def publish(uri: str) -> None:
        from mcp.shared.subscriptions import ResourceUpdated

        await mcp._subscriptions.publish(ResourceUpdated(uri))

    _serve(mcp.streamable_http_app(), publish, port)


def _resources(mcp: MCPServer[Any], folder: Path) -> None:
    @mcp.resource("note://{name}")
    def note(name: str) -> str:
        return (folder / name).read_text()


def _serve(app: Any, publish: Any, port: int) -> None:
    logging.disable(logging.CRITICAL)

    async def with_control(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/publish":
            [uri] = parse_qs(scope["query_string"].decode())["uri"]
            try:
                async with asyncio.timeout(5):
                    await publish(uri)
                status = 200
            except (TidingsError, TimeoutError):
                status = 503
            await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
        else:
            await app(scope, receive, send)

    listening = socket.create_server(("127.0.0.1", port), backlog=512)
    config = uvicorn.Config(with_control, log_config=None, access_log=False, ws="none", timeout_graceful_shutdown=1)
    asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))
