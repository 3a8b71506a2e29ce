"""The servers that the contract is tried with. `python -m tests.client.peers NAME` serves one over stdio.

Three are the same content on three frameworks; the fourth was written by others, and has names of its own.
"""

import asyncio
import itertools
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import fastmcp
import mcp_types as types
from fastmcp import FastMCP
from fastmcp.resources import TextResource
from fastmcp.server.dependencies import get_context
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resources import FunctionResource
from mcp.server.subscriptions import InMemorySubscriptionBus

from tests.client.asking import FORM, Person, capital, greet, where
from tests.server.serving import AT_ONCE
from tidings import Change, LiveServer, ResourcesListChanged, ResourceUpdated
from tidings.client import LiveClient

MODERN = "2026-07-28"
READ_ONLY = types.ToolAnnotations(read_only_hint=True)

_numbers = itertools.count(1)
Tell = Callable[[Change], Awaitable[None]]


@dataclass(frozen=True)
class Peer:
    """A server, and what is on it."""

    name: str
    eras: tuple[str, ...] = ("auto", "legacy")
    transports: tuple[str, ...] = ("memory", "http", "sse", "stdio")
    subscribes: tuple[str, ...] = ()
    """The eras in which it offers subscriptions."""
    tells_lists: tuple[str, ...] = ()
    """The eras in which it says that its lists changed."""
    uri: str = "note://today"
    template: str = "city://{name}"
    params: Mapping[str, str] = field(default_factory=lambda: {"name": "oslo"})
    expanded: str = "city://oslo"
    prompt: str = "ask"
    question: Mapping[str, Any] = field(default_factory=lambda: {"what": "rain"})
    tool: str = "echo"
    words: tuple[dict[str, Any], dict[str, Any]] = ({"text": "one"}, {"text": "two"})
    walk: tuple[str, dict[str, Any]] = ("walk", {"steps": 3})
    """A tool that tells of three steps."""
    road: tuple[str, str] | None = ("road://3", "hike")
    """A resource, and a prompt with a number of `steps`, that tell of three."""
    log: str = "speak"
    """A tool that sends a log message."""
    form: str = "greet"
    """A tool that asks for a name."""
    sample: tuple[str, dict[str, Any]] | None = ("capital", {})
    """A tool that asks for a text."""
    roots: str | None = "where"
    """A tool that asks for roots."""

    async def change(self, client: LiveClient, uri: str) -> None:
        """Make it change a resource, and say so if it can."""
        await client.call_tool("write", {"uri": uri, "text": f"text {next(_numbers)}"})

    async def grow(self, client: LiveClient, name: str) -> str:
        """Make it have one resource more, and say so if it can; the URI."""
        await client.call_tool("grow", {"uri": f"note://{name}"})
        return f"note://{name}"


class Everything(Peer):
    """The one that others wrote."""

    async def change(self, client: LiveClient, uri: str) -> None:
        await client.call_tool("toggle-subscriber-updates")  # Says at once that all that is subscribed to changed.
        await client.call_tool("toggle-subscriber-updates")

    async def grow(self, client: LiveClient, name: str) -> str:
        await client.call_tool("gzip-file-as-resource", {"name": name, "data": "data:text/plain,more"})
        return f"demo://resource/session/{name}"


LIVE = Peer("live", subscribes=("auto", "legacy"), tells_lists=("auto", "legacy"))
STOCK = Peer("stock", subscribes=("auto",), tells_lists=("auto",))
FAST = Peer("fast", tells_lists=("legacy",), sample=None, roots=None)
EVERYTHING = Everything(
    "everything",
    transports=("http", "sse", "stdio"),
    subscribes=("auto", "legacy"),
    tells_lists=("auto", "legacy"),
    uri="demo://resource/static/document/features.md",
    template="demo://resource/dynamic/text/{resourceId}",
    params={"resourceId": "7"},
    expanded="demo://resource/dynamic/text/7",
    prompt="args-prompt",
    question={"city": "Oslo"},
    words=({"message": "one"}, {"message": "two"}),
    walk=("trigger-long-running-operation", {"duration": 0.03, "steps": 3}),
    road=None,
    log="toggle-simulated-logging",
    form="trigger-elicitation-request",
    sample=("trigger-sampling-request", {"prompt": "The capital of France?"}),
    roots="get-roots-list",
)


# The servers.


def live(**options: Any) -> LiveServer[Any]:
    mcp: LiveServer[Any] = LiveServer("live", **{"coalesce": AT_ONCE, "log_level": "WARNING", **options})

    async def tell(change: Change) -> None:
        if isinstance(change, ResourceUpdated):  # The lists are told of by themselves.
            await mcp.notify.resource_updated(change.uri)

    _fill(mcp, tell)
    return mcp


def stock(**options: Any) -> MCPServer[Any]:
    bus = InMemorySubscriptionBus()
    mcp: MCPServer[Any] = MCPServer("stock", subscriptions=bus, log_level="WARNING", **options)
    _fill(mcp, bus.publish)
    return mcp


def fast() -> FastMCP[Any]:
    mcp: FastMCP[Any] = FastMCP("fast")

    async def tell(change: Change) -> None:
        if isinstance(change, ResourcesListChanged):
            await get_context().send_notification(types.ResourceListChangedNotification())

    _fill(mcp, tell)
    return mcp


BUILD: Mapping[str, Callable[[], Any]] = {"live": live, "stock": stock, "fast": fast}


def _fill(mcp: Any, tell: Tell) -> None:
    texts: dict[str, str] = {}

    @mcp.resource("note://today")
    def today() -> str:
        return texts.get("note://today", "sunny")

    @mcp.resource("city://{name}")
    def city(name: str) -> str:
        return texts.get(f"city://{name}", f"the weather in {name}")

    @mcp.prompt()
    def ask(what: str) -> str:
        return f"What about {what}?"

    @mcp.tool(annotations=READ_ONLY)
    def echo(text: str) -> str:
        return text

    @mcp.tool()
    async def write(uri: str, text: str) -> None:
        texts[uri] = text
        await tell(ResourceUpdated(uri))

    @mcp.tool()
    async def grow(uri: str) -> None:
        if isinstance(mcp, FastMCP):
            mcp.add_resource(TextResource(uri=uri, name=uri, text="more"))  # type: ignore[arg-type]
        else:
            mcp.add_resource(FunctionResource.from_function(_more, uri=uri, name=uri))
        await tell(ResourcesListChanged())

    _add_speakers(mcp)


def _add_speakers(mcp: Any) -> None:
    if isinstance(mcp, FastMCP):
        for tool in (fast_walk, fast_speak, fast_greet):
            mcp.tool(tool, name=tool.__name__.removeprefix("fast_"))
    else:
        for tool in (walk, speak, greet, capital, where):
            mcp.add_tool(tool)
    of_three = fast_walk if isinstance(mcp, FastMCP) else walk
    mcp.resource("road://{steps}")(of_three)
    mcp.prompt(name="hike")(of_three)


def _more() -> str:
    return "more"


async def walk(steps: int, ctx: Context) -> str:
    for step in range(steps):
        await ctx.report_progress(step + 1, steps)
    return "there"


async def speak(ctx: Context) -> None:
    await ctx.log("warning", "It rains", logger_name="weather")


async def fast_walk(steps: int, ctx: fastmcp.Context) -> str:
    for step in range(steps):
        await ctx.report_progress(step + 1, steps)
    return "there"


async def fast_speak(ctx: fastmcp.Context) -> None:
    await ctx.log("It rains", level="warning", logger_name="weather")


async def fast_greet(ctx: fastmcp.Context) -> str | types.InputRequiredResult:
    """In the modern era it asks by its result."""
    answer: Any
    if not ctx._is_modern_protocol():
        answer = (await ctx.elicit("Who are you?", Person)).data  # type: ignore[union-attr]
        return f"{answer.name}, {answer.age}"
    if ctx.input_responses:
        answer = ctx.input_responses["person"]
        return "{name}, {age}".format(**answer.content)
    question = types.ElicitRequest(params=FORM)
    return types.InputRequiredResult(input_requests={"person": question})


if __name__ == "__main__":
    server = BUILD[sys.argv[1]]()
    if isinstance(server, FastMCP):
        asyncio.run(server.run_stdio_async(show_banner=False))
    else:
        server.run("stdio")
