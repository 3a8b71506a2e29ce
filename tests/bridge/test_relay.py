"""Requests and questions pass through the bridge, whatever the eras of its two sides."""

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.server.apps import Apps
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ListRootsRequest, ListRootsResult

from tests.bridge.upstreams import ERAS, Shop, sessions, spec, text, until, using
from tests.client import everything
from tests.server.serving import serving
from tidings import LiveServer, connect
from tidings.bridge import BridgeServer, UpstreamSpec
from tidings.client.events import LogReceived
from tidings.errors import NotSupported, RequestCancelled, ResourceNotFound

pytestmark = pytest.mark.anyio
BELOW = pytest.mark.parametrize("below", ERAS)
ABOVE = pytest.mark.parametrize("above", ERAS)


@BELOW
@ABOVE
async def test_everything_that_a_server_offers_is_offered(above: str, below: str) -> None:
    shop = Shop()
    async with using(BridgeServer([spec(shop, below)]), above) as client:
        assert [tool.name for tool in client.tools][:3] == ["count", "put", "greet"]
        assert next(tool for tool in client.tools if tool.name == "put").description == "Puts something on the shelf."
        assert [str(each.uri) for each in client.resources] == ["stock://apples", "bridge://status"]
        templates = [each.uri_template for each in client.resource_templates]
        assert templates == ["stock://{item}", "call://shop/count{?item,times}"]
        assert [each.name for each in client.prompts] == ["order"]
        assert client.instructions == "This is the shop."
        assert text(await client.call_tool("put", {"item": "figs", "text": "9 figs"})) == "done"
        assert (await client.read_resource("stock://figs")).text == "9 figs"
        prompt = await client.get_prompt("order", {"item": "figs"})
        assert "Order figs." in str(prompt.result)
        ref = {"type": "ref/prompt", "name": "order"}
        params = {"ref": ref, "argument": {"name": "item", "value": "f"}}
        assert (await client.request("completion/complete", params))["completion"]["values"] == ["figs"]


@BELOW
@ABOVE
async def test_a_question_reaches_the_one_whose_call_led_to_it(above: str, below: str) -> None:
    asked: list[str] = []

    def answer(question: object) -> object:
        asked.append(question.kind)  # type: ignore[attr-defined]
        return {"name": "Ada"} if asked[-1] == "elicitation" else "I am"

    async with using(BridgeServer([spec(Shop(), below)]), above, answer=answer) as client:
        assert text(await client.call_tool("greet")) == "Hello Ada"
        if below == "legacy":  # A plain server of the SDK asks a model in the legacy era only.
            assert text(await client.call_tool("think")) == "I am"
    assert asked == ["elicitation", "sampling"][: len(asked)]


@ABOVE
async def test_a_client_that_cannot_be_asked_is_not(above: str) -> None:
    async with using(BridgeServer([spec(Shop(), "legacy")]), above) as client:
        call = await client.call_tool("think")
        assert call.result is not None
        assert call.result.is_error
        assert "cannot answer sampling" in text(call)


@BELOW
@ABOVE
async def test_progress_and_errors_pass(above: str, below: str) -> None:
    steps: list[tuple[float, float | None, str | None]] = []
    async with using(BridgeServer([spec(Shop(), below)]), above) as client:
        await client.call_tool("work", on_progress=lambda *step: steps.append(step))
        assert steps == [(step, 3, f"step {step}") for step in (1, 2, 3)]
        failed = await client.call_tool("fail")
        assert failed.result is not None
        assert failed.result.is_error
        assert "out of stock" in text(failed)
        with pytest.raises(ResourceNotFound, match="bricks"):
            await client.read_resource("brick://bricks")
        with pytest.raises(NotSupported, match=r"has no shop/unheard-of \(Method not found\)"):
            await client.request("shop/unheard-of")


@BELOW
@ABOVE
async def test_a_call_that_is_cancelled_is_cancelled_at_the_server(above: str, below: str) -> None:
    async with using(bridge := BridgeServer([spec(Shop(), below)]), above) as client:
        call = client.start_call("sleep")
        (upstream,) = sessions(bridge)
        await until(lambda: upstream.client.queue.status().in_progress)
        call.cancel()
        with pytest.raises(RequestCancelled):
            await call
        await until(lambda: not upstream.client.queue.status().in_progress)


@ABOVE
async def test_the_old_server_of_others_passes_whole(above: str) -> None:
    answers = {"elicitation": {"name": "Ada"}, "sampling": "sampled", "roots": ["/srv"]}
    logged: list[object] = []
    bridge = BridgeServer([UpstreamSpec("every", everything.command("stdio"))])
    async with using(bridge, above, answer=lambda each: answers[each.kind], log_level="debug") as client:
        assert len(client.tools) == 20  # Its own, and the one that waits.
        client.on(LogReceived, logged.append)
        assert "sampled" in text(await client.call_tool("trigger-sampling-request", {"prompt": "x", "maxTokens": 9}))
        assert "Ada" in text(await client.call_tool("trigger-elicitation-request"))
        assert "sampled" in text(await client.call_tool("trigger-sampling-request-async", {"prompt": "?"}))
        assert "Report: tides" in text(await client.call_tool("simulate-research-query", {"topic": "tides"}))
        links = await client.call_tool("get-resource-links", {"count": 1})
        assert "demo://resource" in str(links.result)
        await client.call_tool("toggle-simulated-logging")
        if above == "legacy":
            await until(lambda: logged)


@ABOVE
async def test_a_call_that_ends_while_its_client_is_still_asked_has_its_result(above: str) -> None:
    asked, ended = anyio.Event(), anyio.Event()
    shop = Shop()

    @shop.mcp.tool()
    async def hurry(ctx: Context) -> str:
        """Asks for the roots, and does not wait for them."""
        asking: asyncio.Future[Any] = asyncio.ensure_future(
            ctx.session.send_request(ListRootsRequest(), ListRootsResult)
        )
        await asked.wait()
        asking.cancel()
        return "done"

    async def answer(_: object) -> object:
        asked.set()
        with anyio.move_on_after(20):
            await ended.wait()
        return ["/srv"]

    bridge = BridgeServer([spec(shop, "legacy")])
    async with using(bridge, above, answer=answer) as client, anyio.create_task_group() as tasks:

        async def call() -> None:
            assert text(await client.call_tool("hurry")) == "done"

        tasks.start_soon(call)
        await asked.wait()
        (upstream,) = sessions(bridge)
        await until(lambda: not upstream.client.queue.status().in_progress)
        ended.set()


WONDERS = """
import sys
from pathlib import Path
import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ListRootsRequest, ListRootsResult
mcp = MCPServer("wonders")
@mcp.tool()
async def wonder(ctx: Context) -> str:
    while not Path(sys.argv[1]).exists():
        await anyio.sleep(0.05)
    try:
        return str(await ctx.session.send_request(ListRootsRequest(), ListRootsResult))
    except MCPError as error:
        return error.error.message
@mcp.tool()
async def sleep() -> str:
    await anyio.sleep(60)
mcp.run()
"""


@ABOVE
async def test_a_question_whose_cause_is_not_certain_reaches_nobody_else(above: str, tmp_path: Path) -> None:
    program, go, asked = tmp_path / "wonders.py", tmp_path / "go", list[str]()
    program.write_text(WONDERS)

    def answering(name: str) -> Any:
        def answer(_: object) -> list[str]:
            asked.append(name)
            return [f"/srv/{name}"]

        return answer

    bridge = BridgeServer([UpstreamSpec("wonders", [sys.executable, str(program), str(go)], era="legacy")])
    with anyio.fail_after(60):
        async with serving(bridge.asgi()) as port, AsyncExitStack() as stack:
            ada, eve = [
                await stack.enter_async_context(
                    connect(f"http://127.0.0.1:{port}/mcp", era=above, answer=answering(name))
                )
                for name in ("ada", "eve")
            ]
            asked.clear()
            (upstream,) = sessions(bridge)
            wondering = ada.start_call("wonder")
            await until(lambda: upstream.client.queue.status().in_progress == 1)
            sleeping = eve.start_call("sleep")
            await until(lambda: upstream.client.queue.status().in_progress == 2)
            go.touch()
            assert "/srv/eve" not in text(await wondering)
            sleeping.cancel()
    assert "eve" not in asked


@ABOVE
async def test_what_a_server_says_of_its_extensions_passes(above: str) -> None:
    shop = Shop()
    shop.mcp = MCPServer("shop", extensions=[Apps()])
    async with using(BridgeServer([spec(shop)]), above) as client:
        assert client.capabilities is not None
        extensions = client.capabilities.extensions or {}
        assert {Apps.identifier, "io.modelcontextprotocol/events"} <= set(extensions)


async def test_a_legacy_client_hears_of_the_progress_of_a_task() -> None:
    server, heard = LiveServer("tasks"), anyio.Event()

    @server.tool(task=True)
    async def work(ctx: Context) -> str:
        await ctx.report_progress(1, 2, "halfway")
        await heard.wait()
        return "worked"

    bridge = BridgeServer([UpstreamSpec("tasks", server, era="2026-07-28")])
    async with using(bridge, "legacy") as client:
        made = await client.call_tool("work", on_progress=lambda *_: heard.set())
        assert text(made) == "worked"
