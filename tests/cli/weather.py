"""A live server for the tests of commands: `python weather.py [PORT [FILE]]`. What is said of Oslo is kept in FILE."""

import asyncio
import sys
from pathlib import Path

from mcp.server.mcpserver import Context
from pydantic import BaseModel

from tidings import LiveServer

mcp = LiveServer("weather", instructions="Ask for a city.")
reports = {"oslo": "rain", "bergen": "rain"}
KEPT = Path(sys.argv[2]) if len(sys.argv) > 2 else None


@mcp.resource("weather://oslo")
def oslo() -> str:
    return reports["oslo"] if KEPT is None or not KEPT.exists() else KEPT.read_text()


@mcp.resource("weather://{city}")
def weather(city: str) -> str:
    """The weather of a city."""
    return reports.get(city, "unknown")


@mcp.tool()
async def report(city: str, text: str) -> str:
    """Note the weather of a city."""
    reports[city] = text
    if KEPT is not None:
        KEPT.write_text(text)
    await mcp.notify.resource_updated(f"weather://{city}")
    return "noted"


@mcp.tool()
async def slow(ctx: Context, steps: int = 3) -> str:  # type: ignore[type-arg]
    """Takes its time."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps, f"step {step + 1}")
        await asyncio.sleep(0.05)
    return "done"


class Who(BaseModel):
    name: str
    age: int = 3


@mcp.tool()
async def greet(ctx: Context) -> str:  # type: ignore[type-arg]
    """Asks for a name."""
    answer = await ctx.elicit("What is your name?", Who)
    return f"{answer.action} {getattr(answer, 'data', None)}"


@mcp.prompt()
def ask(city: str, style: str = "short") -> str:
    """Ask about the weather."""
    return f"How is the weather in {city}? {style}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        mcp.run("streamable-http", port=int(sys.argv[1]))
    else:
        mcp.run("stdio")
