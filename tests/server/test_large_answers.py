"""Answers that are larger than an event that the SDK's clients accept."""

from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest
from mcp import MCPError
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import DEFAULT_MAX_SSE_EVENT_SIZE
from mcp.server.mcpserver import Context

from tests.server.serving import live, serving
from tidings import LiveServer
from tidings.server.http_exchange import LARGEST_EVENT

pytestmark = pytest.mark.anyio

LARGE = "größer \\ \n" * 300_000


def server() -> LiveServer[Any]:
    mcp = LiveServer("large")

    @mcp.resource("large://text")
    def text() -> str:
        return LARGE

    @mcp.resource("large://bytes", mime_type="application/octet-stream")
    def data() -> bytes:
        return bytes(range(256)) * 10_000

    @mcp.tool()
    async def say(ctx: Context, times: int, slow: bool = False) -> str:
        if slow:
            await ctx.report_progress(1, 2)
        return "x" * times

    return mcp


def test_the_limit_is_below_that_of_the_sdk() -> None:
    assert LARGEST_EVENT < DEFAULT_MAX_SSE_EVENT_SIZE


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_over_streamable_http_a_client_of_any_era_gets_it(mode: str) -> None:
    with anyio.fail_after(60):
        async with live(server()) as port, Client(f"http://127.0.0.1:{port}/mcp", mode=mode) as client:
            (content,) = (await client.read_resource("large://text")).contents
            assert content.model_dump()["text"] == LARGE
            (content,) = (await client.read_resource("large://bytes")).contents
            assert len(content.model_dump()["blob"]) > LARGEST_EVENT
            for times in (10, 2_000_000, LARGEST_EVENT):
                result = await client.call_tool("say", {"times": times})
                assert result.content[0].model_dump()["text"] == "x" * times
            assert (await client.call_tool("say", {"times": 3, "slow": True})).content[0].model_dump()["text"] == "xxx"
            if mode == "legacy":  # The stream has begun with the progress.
                with pytest.raises(MCPError, match="Ask for a part"):
                    await client.call_tool("say", {"times": 2_000_000, "slow": True}, progress_callback=ignore)


async def ignore(progress: float, total: float | None, message: str | None) -> None:
    pass


async def test_over_sse_the_client_is_told_why_it_cannot_get_it() -> None:
    with anyio.fail_after(60):
        async with AsyncExitStack() as stack:
            mcp = server()
            port = await stack.enter_async_context(serving(mcp.sse_app()))
            stack.push_async_callback(mcp.aclose)
            client = await stack.enter_async_context(Client(sse_client(f"http://127.0.0.1:{port}/sse"), mode="legacy"))
            for ask in (client.read_resource("large://text"), client.call_tool("say", {"times": 2_000_000})):
                with pytest.raises(MCPError, match=r"has .* bytes.*Ask for a part"):
                    await ask
            # The connection is as good as before.
            assert (await client.call_tool("say", {"times": 3})).content[0].model_dump()["text"] == "xxx"
