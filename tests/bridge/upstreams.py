"""Servers to put behind a bridge, and clients in front of it."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
    ToolAnnotations,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from tidings import LiveClient, connect
from tidings.bridge import BridgeServer, UpstreamSpec
from tidings.bridge.upstream import Upstream
from tidings.client import ClientConfig

ERAS = ("legacy", "2026-07-28")
SECONDS = 30


class Name(BaseModel):
    name: str


class Shop:
    """A server of the SDK with everything that a bridge passes. It tells nobody of changes."""

    def __init__(self, name: str = "shop") -> None:
        self.texts = {"apples": "3 apples", "pears": "1 pear"}
        self.reads = 0
        self.read: list[str] = []
        self.calls = 0
        self.mcp: MCPServer[Any] = MCPServer(name, instructions=f"This is the {name}.")
        self._add_resources()
        self._add_tools()

    def _add_resources(self) -> None:
        mcp = self.mcp

        @mcp.resource("stock://{item}")
        def stock(item: str) -> str:
            self.reads += 1
            self.read.append(item)
            return self.texts[item]

        @mcp.resource("stock://apples", name="apples")
        def apples() -> str:
            self.reads += 1
            self.read.append("apples")
            return self.texts["apples"]

        @mcp.prompt()
        def order(item: str) -> str:
            return f"Order {item}."

        @mcp.completion()
        async def complete(_ref: Any, argument: Any, _context: Any) -> Completion:
            return Completion(values=[item for item in self.texts if item.startswith(argument.value)])

    def _add_tools(self) -> None:
        mcp = self.mcp

        @mcp.tool(annotations=ToolAnnotations(read_only_hint=True))
        def count(item: str, times: int = 1) -> str:
            self.calls += 1
            return f"{times} x {self.texts[item]}"

        @mcp.tool()
        def put(item: str, text: str) -> str:
            """Puts something on the shelf."""
            self.texts[item] = text
            return "done"

        self._add_questions()

    def _add_questions(self) -> None:
        mcp = self.mcp

        @mcp.tool()
        async def greet(ctx: Context) -> str | InputRequiredResult:
            """Asks for a name, as the era of the call has it."""
            if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                answer = await ctx.elicit("Who are you?", Name)
                return f"Hello {answer.data.name}" if answer.action == "accept" else f"You {answer.action}"
            given = (ctx.input_responses or {}).get("who")
            if given is None:
                form = ElicitRequestFormParams(message="Who are you?", requested_schema=Name.model_json_schema())
                return InputRequiredResult(input_requests={"who": ElicitRequest(params=form)}, request_state="asked")
            assert ctx.request_state == "asked"
            return f"Hello {given.content['name']}"

        @mcp.tool()
        async def think(ctx: Context) -> str:
            """Asks a model, in the legacy era."""
            message = SamplingMessage(role="user", content=TextContent(text="Think!"))
            request = CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=10))
            related = ServerMessageMetadata(related_request_id=ctx.request_id)
            try:
                answer = await ctx.session.send_request(request, CreateMessageResult, metadata=related)
            except MCPError as error:
                raise ToolError(error.error.message) from error
            return answer.content.text

        @mcp.tool()
        async def work(ctx: Context) -> str:
            for step in (1, 2, 3):
                await ctx.report_progress(step, 3, f"step {step}")
            return "worked"

        @mcp.tool()
        async def sleep() -> str:
            await anyio.sleep(60)
            return "slept"

        @mcp.tool()
        def fail() -> str:
            raise ToolError("out of stock")


def spec(shop: Shop, era: str = "auto", name: str = "shop", **settings: Any) -> UpstreamSpec:
    return UpstreamSpec(name, shop.mcp, era=era, **settings)


def sessions(bridge: BridgeServer) -> list[Upstream]:
    """The sessions to its servers."""
    made: Any = bridge
    return list(made._group(None))


@asynccontextmanager
async def using(bridge: BridgeServer, era: str = "auto", **options: Any) -> AsyncGenerator[LiveClient]:
    """A client of a bridge, which runs for as long as it."""
    with anyio.fail_after(SECONDS):
        async with connect(bridge, era=era, config=ClientConfig(concurrency=8), **options) as client:
            yield client


async def until(condition: Callable[[], object]) -> None:
    """Waits until `condition()` is true. The test as a whole has a limit."""
    while not condition():  # noqa: ASYNC110 - nothing tells
        await anyio.sleep(0.01)


def text(call: Any) -> str:
    return "".join(block.text for block in call.result.content if isinstance(block, TextContent))
