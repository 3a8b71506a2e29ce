"""A live server in 20 lines: notice boards that notify their readers of each new notice.

    python examples/live_server.py                                         # serves until Ctrl-C; takes a port
    tidings watch http://127.0.0.1:8000/mcp board://kitchen                # in a second terminal
    tidings call http://127.0.0.1:8000/mcp post room=kitchen text=Cake!    # in a third; the second shows it

The second terminal does not poll: the server notifies it.
"""

import sys

from tidings import LiveServer

mcp = LiveServer("boards")
notices: dict[str, str] = {}


@mcp.resource("board://{room}")
def board(room: str) -> str:
    return notices.get(room, "Nothing yet.")


@mcp.tool()
async def post(room: str, text: str) -> str:
    notices[room] = text
    await mcp.notify.resource_updated(f"board://{room}")  # This line makes the server live.
    return "posted"


if __name__ == "__main__":
    mcp.run("streamable-http", port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
