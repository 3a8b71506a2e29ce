"""A FastMCP server that exists, made live by two lines: `attach`, and `notify` where something changes.

    pip install fastmcp
    python examples/from_fastmcp.py                                 # serves until Ctrl-C; a port may follow
    tidings watch http://127.0.0.1:8000/mcp todo://open             # in a second terminal
    tidings call http://127.0.0.1:8000/mcp add task='Feed the cat'  # in a third: look at the second

Everything else is as it was: the same tools, the same `run`, and clients that know nothing of subscriptions.
"""

import sys

from fastmcp import FastMCP

from tidings import attach

mcp = FastMCP("todo")
live = attach(mcp)  # Before the server is run, or its app made.
tasks: list[str] = []


@mcp.resource("todo://open")
def still_open() -> str:
    return "\n".join(tasks) or "All done."


@mcp.tool
async def add(task: str) -> str:
    tasks.append(task)
    await live.notify.resource_updated("todo://open")
    return f"{len(tasks)} to do"


@mcp.tool
async def done(task: str) -> str:
    tasks.remove(task)
    await live.notify.resource_updated("todo://open")
    return f"{len(tasks)} to do"


if __name__ == "__main__":
    mcp.run("http", port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000, show_banner=False)
