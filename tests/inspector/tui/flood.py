"""A server that sends thousands of notifications at once when it is asked to: log messages and resource updates."""

import sys

from mcp.server.mcpserver import Context

from tidings import LiveServer
from tidings.server import Coalesce

mcp = LiveServer("flood", coalesce=Coalesce(window=0, max_wait=0))


@mcp.resource("flood://level")
def level() -> str:
    return "high"


@mcp.tool()
async def flood(ctx: Context, logs: int, updates: int) -> str:
    """Send so many of each, as fast as they go."""
    for number in range(max(logs, updates)):
        if number < logs:
            await ctx.info(f"entry {number}")
        if number < updates:
            await mcp.notify.resource_updated("flood://level")
    return "all of them"


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        mcp.run("stdio")
    else:
        mcp.run("streamable-http", port=int(sys.argv[1]))
