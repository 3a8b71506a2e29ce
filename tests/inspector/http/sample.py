"""A server with something of everything, some of it hostile."""

import base64
from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

from tidings import LiveServer

SCRIPT = "<script>alert(1)</script>"
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Sum(BaseModel):
    total: int


class Name(BaseModel):
    name: str


def sample() -> tuple[LiveServer[Any], dict[str, str]]:
    """The server, and the text that its note has."""
    server: LiveServer[Any] = LiveServer("sample")
    note = {"text": "one\ntwo\n"}

    @server.tool()
    def add(a: int, b: int = 2) -> Sum:
        """Add two numbers."""
        return Sum(total=a + b)

    @server.tool()
    async def ask(ctx: Context) -> str:
        """Ask who is there."""
        answer = await ctx.elicit("Who is there?", Name)
        return f"{answer.action}: {getattr(answer, 'data', None)}"

    @server.tool()
    def fail() -> str:
        """Fail."""
        raise ToolError(SCRIPT)

    @server.resource("note://one", mime_type="text/markdown")
    def one() -> str:
        return note["text"]

    @server.resource("page://hostile", mime_type="text/html")
    def hostile() -> str:
        return f"<h1>Hello</h1>{SCRIPT}<img src=x onerror=alert(1)>"

    @server.resource("picture://dot", mime_type="image/png")
    def dot() -> bytes:
        return PICTURE

    @server.resource("strange://kind", mime_type="text/javascript")
    def strange() -> str:
        return "alert(1)"

    @server.resource("item://{name}")
    def item(name: str) -> str:
        return name

    @server.prompt()
    def greet(name: str) -> str:
        return f"Greet {name}."

    return server, note
