"""An existing FastMCP server, made live with `attach` and a `notify` call after each change.

    pip install fastmcp
    python examples/from_fastmcp.py                                 # serves until Ctrl-C; takes a port as argument
    tidings watch http://127.0.0.1:8000/mcp todo://open             # in a second terminal
    tidings call http://127.0.0.1:8000/mcp add task='Feed the cat'  # in a third; the second shows it

Nothing else changes: the tools, `run`, and clients without subscriptions work as before.
"""

import sys

from fastmcp import FastMCP

from tidings import attach

mcp = FastMCP("todo")
live = attach(mcp)  # Before the server runs or creates its app.
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
