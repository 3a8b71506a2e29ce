"""A server that gets warmer when it is asked to. The process that runs it leaves its number in a file."""

import os
import sys
from pathlib import Path

from tidings import LiveServer

mcp = LiveServer("weather")
degrees = {"oslo": 20}


@mcp.resource("weather://oslo", mime_type="text/markdown")
def oslo() -> str:
    return f"# Oslo\n\nTemperature: {degrees['oslo']}\n\nWind: calm\n"


@mcp.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@mcp.tool()
async def warm() -> str:
    """Make Oslo warmer."""
    degrees["oslo"] += 1
    await mcp.notify.resource_updated("weather://oslo")
    return "It is warmer now."


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(str(os.getpid()))
    mcp.run("stdio")
