"""A live server whose tools make it change. `python -m tests.server.sample [BUS]` serves it over stdio."""

import asyncio
import os
import sys
from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.resources import FunctionResource

from tidings import Cursor, LiveServer, ResourceUpdated
from tidings.bus.sqlite import SqliteBus
from tidings.server import Coalesce

TODAY, LATER, FENCE = "note://today", "note://later", "note://fence"


def build(**options: Any) -> LiveServer[Any]:
    mcp: LiveServer[Any] = LiveServer("sample", log_level="WARNING", **options)
    _add_content(mcp)
    _add_publishers(mcp)
    _add_windows(mcp)
    return mcp


def _add_content(mcp: LiveServer[Any]) -> None:
    @mcp.resource(TODAY)
    def today() -> str:
        return "sunny"

    @mcp.resource(LATER)
    def later() -> str:
        return "rain"

    @mcp.resource(FENCE)
    def fence() -> str:
        return "a change that is told last"

    @mcp.resource("city://{name}")
    def city(name: str) -> str:
        return f"the weather in {name}"

    @mcp.prompt()
    def ask(what: str) -> str:
        return f"What about {what}?"


def _add_publishers(mcp: LiveServer[Any]) -> None:
    @mcp.tool()
    async def touch(uris: list[str]) -> None:
        for uri in uris:
            await mcp.notify.resource_updated(uri)

    @mcp.tool()
    async def touch_lists() -> None:
        await mcp.notify.tools_changed()
        await mcp.notify.prompts_changed()
        await mcp.notify.resources_changed()

    @mcp.tool()
    async def touch_from_a_thread(uri: str) -> None:
        await asyncio.to_thread(mcp.notify.soon, ResourceUpdated(uri))

    @mcp.tool()
    async def tell(uri: str, ctx: Context) -> None:
        """What the SDK's own way of telling does."""
        await ctx.notify_resource_updated(uri)
        await ctx.notify_tools_changed()
        await ctx.notify_prompts_changed()
        await ctx.notify_resources_changed()

    @mcp.tool()
    async def alter(steps: list[str]) -> None:
        """Change the lists, all in one go: nothing else runs in between."""
        for step in steps:
            STEPS[step](mcp)


def _add_windows(mcp: LiveServer[Any]) -> None:
    @mcp.tool()
    async def counts() -> dict[str, int]:
        return mcp.notify.counts()

    @mcp.tool()
    async def newest(uris: list[str]) -> dict[str, str]:
        """Where the last change of each of `uris` stands in the log, once nothing is held back any more."""
        mcp._live._core.flush()
        entries = await mcp._live._bus.since(Cursor(mcp._live._bus.head.epoch, 0)) or ()
        return {uri: str(cursor) for cursor, change in entries for uri in uris if change == ResourceUpdated(uri)}

    @mcp.tool()
    async def process() -> int:
        return os.getpid()


def _another() -> str:
    return "another"


def _other(name: str) -> str:
    return name


STEPS = {
    "add a tool": lambda mcp: mcp.add_tool(_another, name="another"),
    "add a second tool": lambda mcp: mcp.add_tool(_another, name="second"),
    "disable a tool": lambda mcp: mcp.disable("tool", "another"),
    "enable a tool": lambda mcp: mcp.enable("tool", "another"),
    "remove a tool": lambda mcp: mcp.remove_tool("another"),
    "add a prompt": lambda mcp: mcp.add_prompt(Prompt.from_function(_another, name="another")),
    "disable a prompt": lambda mcp: mcp.disable("prompt", "another"),
    "enable a prompt": lambda mcp: mcp.enable("prompt", "another"),
    "remove a prompt": lambda mcp: mcp.remove_prompt("another"),
    "add a resource": lambda mcp: mcp.add_resource(FunctionResource.from_function(_another, uri="note://another")),
    "disable a resource": lambda mcp: mcp.disable("resource", "note://another"),
    "enable a resource": lambda mcp: mcp.enable("resource", "note://another"),
    "remove a resource": lambda mcp: mcp.remove_resource("note://another"),
    "add a template": lambda mcp: mcp.resource("other://{name}")(_other),
    "disable a template": lambda mcp: mcp.disable("template", "other://{name}"),
    "enable a template": lambda mcp: mcp.enable("template", "other://{name}"),
    "remove a template": lambda mcp: mcp.remove_resource_template("other://{name}"),
}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        # What is held back would lower the cursors: the other processes on this bus announce their lists, too.
        build(bus=SqliteBus(sys.argv[1], poll=0.01), coalesce=Coalesce(window=0, max_wait=0)).run("stdio")
    else:
        build().run("stdio")
