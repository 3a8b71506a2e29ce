"""A server whose tools run as tasks and wait for each other. In a process of its own: over stdio, or at a port."""

import logging
import sys
from typing import Any

import anyio
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field

from tidings import LiveServer


class Choice(BaseModel):
    keep: str = Field(description="Which copy to keep", min_length=2)


def jobs() -> LiveServer[Any]:
    server: LiveServer[Any] = LiveServer("jobs")
    notes, goes_on = {"text": "# Today\n\n- one\n"}, anyio.Event()

    @server.resource("note://today", mime_type="text/markdown")
    def today() -> str:
        return notes["text"]

    @server.tool(task=True)
    async def reindex(ctx: Context, notes: int = 3) -> str:
        """Index all notes again. Waits in the middle for `go_on`."""
        for number in range(1, notes + 1):
            await ctx.report_progress(number, notes, f"Reading note {number}")
            if number == 2:
                await goes_on.wait()
        return f"{notes} notes are in the index."

    @server.tool(task=True)
    async def import_folder(ctx: Context) -> str:
        """Import a folder. Asks which of two copies to keep."""
        answer = await ctx.elicit("There are two copies of Today.md. Which one do you want to keep?", Choice)
        return f"Kept {answer.data.keep}." if answer.action == "accept" else f"Imported nothing: {answer.action}."

    @server.tool(task="required")
    async def break_down() -> str:
        """Fail."""
        raise ToolError("The disk is full.")

    @server.tool()
    async def go_on() -> str:
        """Let the tasks that wait go on, and change the note."""
        goes_on.set()
        return "They go on."

    return server


if __name__ == "__main__":
    logging.getLogger().setLevel(logging.ERROR)
    jobs().run("streamable-http", port=int(sys.argv[1])) if sys.argv[1:] else jobs().run("stdio")
