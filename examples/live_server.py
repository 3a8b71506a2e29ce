"""A live server in 20 lines: notice boards, and whoever reads one hears of each new notice.

    python examples/live_server.py                                         # serves until Ctrl-C; a port may follow
    tidings watch http://127.0.0.1:8000/mcp board://kitchen                # in a second terminal: the notice, always
    tidings call http://127.0.0.1:8000/mcp post room=kitchen text=Cake!    # in a third: look at the second

Nobody asks twice: the second terminal is told.
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
    await mcp.notify.resource_updated(f"board://{room}")  # All that makes it live.
    return "posted"


if __name__ == "__main__":
    mcp.run("streamable-http", port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
