"""A server whose tools run as tasks until a test lets them go on, in this process or in one of its own.

python -m tests.client.working FOLDER BUS POLL [PORT]    over HTTP, or over stdio without a port
"""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server.mcpserver import AcceptedElicitation, Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from tests import forking
from tests.client.ways import environment
from tests.server.serving import serving
from tidings import LiveServer
from tidings.client import LiveClient, connect
from tidings.server import Coalesce, Waking

POLL = Waking(quiet=0.01, longest_quiet=0.1, poll=0.05)
NEVER = Waking(quiet=0.01, longest_quiet=0.1, poll=3600)
"""A client that waits for its next look at a task would wait for longer than any test."""
TODAY = "note://today"


class Colour(BaseModel):
    colour: str


class Weight(BaseModel):
    kilograms: float


class Workshop:
    """The server, and the files in `folder` by which a test knows and says how far its tools are."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.waking: Waking = options.setdefault("waking", POLL)
        mcp = self.mcp = LiveServer[Any]("workshop", coalesce=Coalesce(0, 0), **options)
        mcp.resource("note://{name}", name="note")(lambda name: (folder / name).read_text())
        mcp.tool()(self.plain)
        for tool in (self.work, self.ask, self.ask_twice, self.fail, self.weigh):
            mcp.tool(task=True)(tool)

    @property
    def begun(self) -> int:
        """How often `work` was called."""
        return len((self.folder / "begun").read_text()) if (self.folder / "begun").exists() else 0

    @property
    def ended(self) -> bool:
        """`work` was cancelled."""
        return (self.folder / "cancelled").exists()

    def go(self) -> None:
        (self.folder / "go").touch()

    async def plain(self) -> str:
        return "plain"

    async def work(self, ctx: Context, steps: int = 0) -> str:
        with (self.folder / "begun").open("a") as file:
            file.write("+")
        try:
            for step in range(steps):
                await ctx.report_progress(step + 1, steps, f"step {step + 1}")
                (self.folder / f"said {step + 1}").touch()
                while not (self.folder / f"next {step + 1}").exists():  # noqa: ASYNC110 - the test may be elsewhere
                    await anyio.sleep(0.01)
            while not (self.folder / "go").exists():  # noqa: ASYNC110
                await anyio.sleep(0.01)
        except BaseException:
            (self.folder / "cancelled").touch()
            raise
        return "done"

    async def ask(self, ctx: Context) -> str:
        answer = await ctx.elicit("Which colour?", Colour)
        return answer.data.colour if isinstance(answer, AcceptedElicitation) else answer.action

    async def ask_twice(self, ctx: Context) -> str:
        said: dict[int, str] = {}

        async def one(number: int) -> None:
            answer = await ctx.elicit(f"Colour {number}?", Colour)
            said[number] = answer.data.colour if isinstance(answer, AcceptedElicitation) else answer.action

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, 1)
            tasks.start_soon(one, 2)
        return f"{said[1]} {said[2]}"

    async def fail(self, how: str) -> str:
        if how == "tool":
            raise ToolError("no luck")
        raise MCPError(-31999, "out of order", {"part": 7})

    async def weigh(self) -> Weight:
        return Weight(kilograms=3.5)


def command(folder: Path, bus: str, poll: float = POLL.poll) -> list[str]:
    """The words that run it over stdio."""
    return forking.command("-m", "tests.client.working", str(folder), bus, str(poll))


@asynccontextmanager
async def joined(workshop: Workshop, transport: str = "memory", **options: Any) -> AsyncGenerator[LiveClient]:
    """A client of it, over a transport. Over stdio, the server is another process with the same folder."""
    if transport == "http":
        async with serving(workshop.mcp.asgi()) as port, connect(f"http://127.0.0.1:{port}/mcp", **options) as client:
            yield client
    elif transport == "stdio":
        words = command(workshop.folder, "memory:", workshop.waking.poll)
        async with connect(words, env=environment(), **options) as client:
            yield client
    else:
        async with connect(workshop.mcp, **options) as client:
            yield client


def main(folder: str, bus: str, poll: str, port: str | None = None) -> None:
    mcp = Workshop(Path(folder), bus=bus, waking=replace(POLL, poll=float(poll))).mcp
    if port is None:
        mcp.run("stdio")
    else:
        uvicorn.run(mcp.asgi(), host="127.0.0.1", port=int(port), log_level="error")


if __name__ == "__main__":
    main(*sys.argv[1:])
