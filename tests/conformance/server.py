"""The server under test: what the suite calls by name, with the behaviour that it describes, in both eras.

Nothing here knows which scenario is running. `python -m tests.conformance.server FD HTTP [BUS]` serves on the listening
socket it inherits, so that the caller knows the port and nobody has to wait for the server to come up.
"""

import socket
import sys
from typing import Annotated, Any

import anyio
import uvicorn
from mcp.server import CacheHint, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import EmptyResult, LoggingLevel, SetLevelRequestParams
from pydantic import Field
from starlette.types import ASGIApp

from tests.conformance.asking import add_asking
from tests.conformance.content import add_content
from tests.conformance.events import RecentEvents
from tests.conformance.forms import add_forms
from tests.conformance.tasks import add_tasks
from tidings import LiveServer

LEVELS: tuple[LoggingLevel, ...] = LoggingLevel.__args__
BEAT = 0.05  # seconds between two of a tool's notifications


def add_logging(mcp: LiveServer) -> None:
    """Log messages: by `logging/setLevel` and session in the legacy era, by each request's own level in the new."""
    levels: dict[str, LoggingLevel] = {}

    def session(headers: Any) -> str:
        return headers.get("mcp-session-id", "") if headers else ""

    async def set_level(ctx: ServerRequestContext, params: SetLevelRequestParams) -> EmptyResult:
        levels[session(ctx.request and ctx.request.headers)] = params.level
        return EmptyResult()

    async def log(ctx: Context, text: str) -> None:
        chosen = levels.get(session(ctx.headers), "debug")
        if LEVELS.index(chosen) <= LEVELS.index("info"):
            await ctx.info(text)

    # The high-level server has no door for this method, which the modern era dropped.
    mcp._lowlevel_server.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)

    @mcp.tool()
    async def test_tool_with_logging(ctx: Context) -> str:
        """Says three times in the log how far it is."""
        await log(ctx, "Tool execution started")
        await anyio.sleep(BEAT)
        await log(ctx, "Tool processing data")
        await anyio.sleep(BEAT)
        await log(ctx, "Tool execution completed")
        return "Logged three messages."

    mcp.add_tool(test_tool_with_logging, name="test_logging_tool")


def add_behaviour(mcp: LiveServer) -> None:
    """Progress, failure, a stream that is closed early, and an argument that is repeated in a header."""

    @mcp.tool()
    async def test_tool_with_progress(ctx: Context) -> str:
        """Reports progress in three steps."""
        for percent in (0, 50, 100):
            await ctx.report_progress(percent, 100)
            await anyio.sleep(BEAT)
        return "Reported progress."

    @mcp.tool()
    def test_error_handling() -> str:
        """Always fails."""
        raise ToolError("This tool intentionally returns an error for testing")

    @mcp.tool()
    async def test_reconnection(ctx: Context) -> str:
        """Closes its stream before it answers: the client comes back for the result."""
        await ctx.close_sse_stream()
        await anyio.sleep(2 * BEAT)
        return "The result, after a reconnection."

    @mcp.tool()
    def test_headers(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
        """Has an argument that intermediaries can see in a header."""
        return f"Region: {region}"


def add_changes(mcp: LiveServer) -> None:
    """Tools that change the lists; that this is announced is the server's own doing."""

    def passing() -> str:
        """Comes and goes."""
        return "Still here."

    async def listed_tools() -> set[str]:
        return {tool.name for tool in await mcp.list_tools()}

    @mcp.tool()
    async def test_trigger_tool_change() -> str:
        """Adds a tool, or removes it again."""
        if "test_passing_tool" in await listed_tools():
            mcp.remove_tool("test_passing_tool")
            return "Removed a tool."
        mcp.add_tool(passing, name="test_passing_tool")
        return "Added a tool."

    @mcp.tool()
    async def test_trigger_prompt_change() -> str:
        """Adds one more prompt."""
        number = len(await mcp.list_prompts())
        mcp.prompt(name=f"test_passing_prompt_{number}")(passing)
        return "Added a prompt."


def schema_2020_12() -> dict[str, Any]:
    """An input schema with keywords that a function's signature cannot say."""
    text = {"type": "string"}
    address = {"$anchor": "addressDef", "type": "object", "properties": {"street": text, "city": text}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": address},
        "properties": {
            "name": text,
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": text,
            "email": text,
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }


def contact_tool() -> Tool:
    def contact(name: str = "", address: dict[str, str] | None = None, phone: str = "", email: str = "") -> str:
        """Tool with JSON Schema 2020-12 features."""
        return f"{name} {address or ''} {phone or email}"

    tool = Tool.from_function(contact, name="json_schema_2020_12_tool")
    return tool.model_copy(update={"parameters": schema_2020_12()})


def build(bus: str | None = None) -> LiveServer:
    hint = CacheHint(ttl_ms=60_000, scope="public")
    lists = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")
    mcp = LiveServer(
        "tidings-conformance",
        version="1.0.0",
        tools=[contact_tool()],
        cache_hints=dict.fromkeys(lists, hint),
        log_level="WARNING",
        bus=bus,
    )
    for add in (add_content, add_logging, add_behaviour, add_forms, add_asking, add_changes, add_tasks):
        add(mcp)
    return mcp


def application(bus: str | None = None) -> ASGIApp:
    return build(bus).asgi(event_store=RecentEvents(), retry_interval=100)


def main() -> None:
    listening = socket.socket(fileno=int(sys.argv[1]))
    http: Any = sys.argv[2]
    config = uvicorn.Config(application(*sys.argv[3:]), log_level="warning", http=http, timeout_graceful_shutdown=2)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
