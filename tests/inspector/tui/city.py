"""A server in this process with a little of everything: tools that are slow, fail and ask; resources; a prompt."""

import asyncio
from typing import Annotated

from mcp.server.mcpserver import Context
from pydantic import BaseModel, Field

from tidings import LiveServer


class Calendar(BaseModel):
    calendar: str = Field(description="which one")


def city() -> LiveServer:
    mcp = LiveServer("city")
    degrees = {"now": 20}
    never = asyncio.Event()

    @mcp.resource("city://oslo", mime_type="text/markdown")
    def oslo() -> str:
        return f"# Oslo\n\nTemperature: {degrees['now']}\n\nWind: calm\n"

    @mcp.resource("city://{name}/streets")
    def streets(name: str) -> str:
        return f"the streets of {name}"

    @mcp.prompt()
    def greet(who: str) -> str:
        """Greet somebody."""
        return f"Say hello to {who}."

    @mcp.tool()
    def add(a: int, b: Annotated[int, Field(ge=0)] = 1) -> int:
        """Add two numbers."""
        return a + b

    @mcp.tool()
    def fail() -> str:
        """Fail."""
        raise ValueError("no luck today")

    @mcp.tool()
    async def slow(ctx: Context) -> str:
        """Take as long as one likes."""
        await ctx.report_progress(3, 10, "laying stones")
        await never.wait()
        return "never"

    @mcp.tool()
    async def ask(ctx: Context) -> str:
        """Ask the user."""
        answer = await ctx.elicit("Which calendar?", Calendar)
        return f"{answer.action}: {getattr(answer, 'data', None)}"

    @mcp.tool()
    async def warm() -> str:
        """Make Oslo warmer."""
        degrees["now"] += 1
        await mcp.notify.resource_updated("city://oslo")
        return "warmer"

    return mcp
