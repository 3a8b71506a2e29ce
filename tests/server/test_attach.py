"""`attach()`: an existing server becomes live, of whichever kind it is."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import anyio
import fastmcp
import pytest
from fastmcp.server.middleware import Middleware
from mcp.client.subscriptions import listen
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resources import FunctionResource
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp_types import (
    ListResourcesResult,
    ListToolsResult,
    ReadResourceResult,
    Resource,
    ServerCapabilities,
    SubscriptionFilter,
    TextResourceContents,
)
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.server.hearing import LEGACY, MODERN, Ear, connected, web
from tidings import LiveServer, PromptsListChanged, ResourcesListChanged, ResourceUpdated, ToolsListChanged, attach
from tidings.server import Live

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

NOTE, FENCE = "note://today", "note://fence"
ERAS = pytest.mark.parametrize("mode", [MODERN, LEGACY], ids=["modern", "legacy"])


def made_by_the_sdk() -> MCPServer[Any]:
    mcp: MCPServer[Any] = MCPServer("plain", log_level="WARNING")
    for uri in (NOTE, FENCE):
        mcp.add_resource(FunctionResource.from_function(lambda: "text", uri=uri, name=uri))
    mcp.add_tool(_nothing, name="nothing")
    return mcp


def lowlevel() -> Server[Any]:
    async def list_resources(*_: Any) -> ListResourcesResult:
        return ListResourcesResult(resources=[Resource(uri=uri, name=uri) for uri in (NOTE, FENCE)])

    async def read_resource(_: Any, params: Any) -> ReadResourceResult:
        return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, text="text")])

    async def list_tools(*_: Any) -> ListToolsResult:
        return ListToolsResult(tools=[])

    return Server("low", on_list_resources=list_resources, on_read_resource=read_resource, on_list_tools=list_tools)


def made_by_fastmcp(**options: Any) -> fastmcp.FastMCP:
    mcp: fastmcp.FastMCP = fastmcp.FastMCP("fast", **options)
    for uri in (NOTE, FENCE):
        mcp.resource(uri, name=uri)(_nothing)
    mcp.tool(_nothing, name="nothing")
    return mcp


def _nothing() -> str:
    return ""


@asynccontextmanager
async def served(server: Any, transport: str) -> AsyncGenerator[Any]:
    """What a stock client connects to."""
    if transport == "memory":
        yield getattr(server, "_mcp_server", server)
        return
    app = server.http_app() if isinstance(server, fastmcp.FastMCP) else server.streamable_http_app()
    async with web(app) as url:
        yield url + "/mcp"


async def fence(ear: Ear, live: Live) -> None:
    await live.notify.resource_updated(FENCE)
    await ear.hears(ResourceUpdated(FENCE))


# Every kind


@ERAS
@pytest.mark.parametrize("transport", ["memory", "http"])
@pytest.mark.parametrize("make", [made_by_the_sdk, lowlevel, made_by_fastmcp])
async def test_every_kind_of_server_tells_every_kind_of_change(
    make: Callable[[], Any], transport: str, mode: str
) -> None:
    server = make()
    live = attach(server)
    async with served(server, transport) as target, connected(target, mode) as ear:
        await ear.subscribe(NOTE, FENCE)
        await live.notify.resource_updated(NOTE)
        await live.notify.tools_changed()
        await live.notify.prompts_changed()
        await live.notify.resources_changed()
        await fence(ear, live)
        told = [ResourceUpdated(NOTE), ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()]
        assert sorted(ear.changes, key=str) == sorted([*told, ResourceUpdated(FENCE)], key=str)
        [subscriber] = live.notify.subscribers(NOTE)
        assert subscriber.era == ("legacy" if mode == LEGACY else "modern")
        await ear.unsubscribe(NOTE, FENCE)
        with anyio.fail_after(5):
            while live.notify.subscribers(NOTE):
                await anyio.lowlevel.checkpoint()
    assert live.notify.subscribers() == []


@ERAS
@pytest.mark.parametrize("make", [made_by_the_sdk, lowlevel, made_by_fastmcp])
async def test_every_kind_of_server_says_beforehand_that_it_tells(make: Callable[[], Any], mode: str) -> None:
    server = make()
    attach(server)
    async with served(server, "memory") as target, connected(target, mode) as ear:
        if mode == LEGACY:
            capabilities = ear.client.server_capabilities
        else:
            discovered = await ear.client.session.send_discover(MODERN)
            capabilities = ServerCapabilities.model_validate(discovered["capabilities"])
        assert capabilities.resources is not None
        assert capabilities.resources.subscribe is True
        assert capabilities.resources.list_changed is True
        assert capabilities.tools is not None
        assert capabilities.tools.list_changed is True


@pytest.mark.parametrize("make", [made_by_the_sdk, lowlevel, made_by_fastmcp, lambda: LiveServer("live")])
def test_a_server_is_made_live_once(make: Callable[[], Any]) -> None:
    server = make()
    if not isinstance(server, LiveServer):
        attach(server)
    with pytest.raises(ValueError, match="already live"):
        attach(server)
    if (heart := getattr(server, "_lowlevel_server", None)) is not None:
        with pytest.raises(ValueError, match="already live"):
            attach(heart)


@pytest.mark.parametrize("other", [None, 7, "server", SimpleNamespace(), MCPServer, Starlette()])
def test_anything_else_is_refused_with_what_would_do(other: object) -> None:
    with pytest.raises(TypeError, match=r"an mcp MCPServer, an mcp lowlevel Server or a fastmcp FastMCP") as refused:
        attach(other)
    assert type(other).__qualname__ in str(refused.value)


# The SDK's MCPServer


@ERAS
async def test_a_custom_bus_of_the_sdk_is_heard(mode: str) -> None:
    theirs = InMemorySubscriptionBus()
    mcp: MCPServer[Any] = MCPServer("plain", subscriptions=theirs, log_level="WARNING")
    mcp.add_resource(FunctionResource.from_function(_nothing, uri=NOTE, name="note"))

    @mcp.tool()
    async def tell(ctx: Context) -> None:
        await ctx.notify_resource_updated(NOTE)

    attach(mcp)
    async with connected(mcp, mode) as ear:
        await ear.subscribe(NOTE)
        await theirs.publish(ResourceUpdated(NOTE))
        await ear.hears(ResourceUpdated(NOTE))
        ear.all.clear()
        await ear.call("tell")
        await ear.hears(ResourceUpdated(NOTE))


async def test_a_server_that_served_no_subscriptions_does_so_once_it_is_live() -> None:
    mcp: MCPServer[Any] = MCPServer("plain", subscriptions=False, log_level="WARNING")
    mcp.add_resource(FunctionResource.from_function(_nothing, uri=NOTE, name="note"))
    live = attach(mcp)
    async with connected(mcp, MODERN) as ear:
        await ear.subscribe(NOTE)
        await live.notify.resource_updated(NOTE)
        await ear.hears(ResourceUpdated(NOTE))


@ERAS
async def test_an_app_that_was_made_before_is_live_through_wrap(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    mcp = made_by_the_sdk()
    app = mcp.streamable_http_app()
    live = attach(mcp)
    async with web(live.wrap(app)) as url, connected(url + "/mcp", mode) as ear:
        await ear.subscribe(NOTE)
        await live.notify.resource_updated(NOTE)
        await ear.hears(ResourceUpdated(NOTE))
        mcp.remove_tool("nothing")
        await ear.hears(ToolsListChanged())
        assert live.notify.subscribers(NOTE)[0].transport == "streamable-http"
    assert "not wrapped" not in caplog.text


@ERAS
async def test_an_app_that_was_made_before_and_is_not_wrapped_still_tells(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    mcp = made_by_the_sdk()
    app = mcp.streamable_http_app()
    live = attach(mcp)
    async with web(app) as url, connected(url + "/mcp", mode) as ear:
        await ear.subscribe(NOTE)
        # Nobody says when the event stream of a legacy client is open: told often enough, it hears.
        with anyio.fail_after(8):
            while ResourceUpdated(NOTE) not in ear.changes:
                await live.notify.resource_updated(NOTE)
                await ear.client.list_tools()
        assert "Serve attach(server).wrap(app)" in caplog.text


@ERAS
async def test_an_app_mounted_into_another_is_live(mode: str) -> None:
    mcp = made_by_the_sdk()
    live = attach(mcp)
    inner = mcp.streamable_http_app(streamable_http_path="/")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with mcp.session_manager.run():
            yield

    outer = Starlette(routes=[Mount("/live", app=inner)], lifespan=lifespan)
    async with web(outer) as url, connected(url + "/live/", mode) as ear:
        await ear.subscribe(NOTE)
        await live.notify.resource_updated(NOTE)
        await ear.hears(ResourceUpdated(NOTE))
        assert live.notify.subscribers(NOTE)[0].transport == "streamable-http"


async def test_the_lifespan_and_middleware_of_the_server_still_run() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[dict[str, int]]:
        seen.append("started")
        yield {"answer": 42}
        seen.append("stopped")

    async def middleware(ctx: Any, call_next: Any) -> Any:
        seen.append(ctx.method)
        return await call_next(ctx)

    mcp: MCPServer[Any] = MCPServer("plain", lifespan=lifespan, middleware=[middleware], log_level="WARNING")

    @mcp.tool()
    async def answer(ctx: Context) -> int:
        return ctx.request_context.lifespan_context["answer"]

    attach(mcp)
    async with connected(mcp, MODERN) as ear:
        assert await ear.call("answer") == 42
        await ear.subscribe()
    assert seen[0] == "started"
    assert {"tools/call", "subscriptions/listen"} <= set(seen)
    assert seen[-1] == "stopped"


# FastMCP

LISTS = {"tool": ToolsListChanged(), "prompt": PromptsListChanged(), "resource": ResourcesListChanged()}


def _made_tool(mcp: fastmcp.FastMCP) -> None:
    mcp.tool(_nothing, name="made")


FASTMCP_STEPS: list[tuple[str, str, Callable[[fastmcp.FastMCP], object]]] = [
    ("a decorated tool", "tool", _made_tool),
    ("add_tool", "tool", lambda mcp: mcp.add_tool(fastmcp.tools.Tool.from_function(_nothing, name="added"))),
    ("remove_tool", "tool", lambda mcp: mcp.local_provider.remove_tool("nothing")),
    ("a decorated prompt", "prompt", lambda mcp: mcp.prompt(_nothing, name="made")),
    ("remove_prompt", "prompt", lambda mcp: mcp.local_provider.remove_prompt("there")),
    ("a decorated resource", "resource", lambda mcp: mcp.resource("note://made")(_nothing)),
    ("a decorated template", "resource", lambda mcp: mcp.resource("made://{name}")(_greeting)),
    ("remove_resource", "resource", lambda mcp: mcp.local_provider.remove_resource(NOTE)),
    ("remove_template", "resource", lambda mcp: mcp.local_provider.remove_template("there://{name}")),
]


def _greeting(name: str) -> str:
    return name


@ERAS
@pytest.mark.parametrize(("list_name", "step"), [step[1:] for step in FASTMCP_STEPS], ids=[s[0] for s in FASTMCP_STEPS])
async def test_fastmcp_tells_when_a_component_comes_or_goes(list_name: str, step: Any, mode: str) -> None:
    mcp = made_by_fastmcp()
    mcp.prompt(_nothing, name="there")
    mcp.resource("there://{name}")(_greeting)
    live = attach(mcp)
    async with connected(mcp._mcp_server, mode) as ear:
        await ear.subscribe(FENCE)
        step(mcp)
        await ear.hears(LISTS[list_name])
        await fence(ear, live)
        assert ear.changes.count(LISTS[list_name]) == 1
        assert set(ear.changes) == {LISTS[list_name], ResourceUpdated(FENCE)}


@ERAS
async def test_fastmcp_tells_when_a_component_is_hidden_and_shown(mode: str) -> None:
    mcp = made_by_fastmcp()
    attach(mcp)
    async with connected(mcp._mcp_server, mode) as ear:
        await ear.subscribe(FENCE)
        mcp.disable(names={"nothing"})
        await ear.hears(ToolsListChanged())
        assert [tool.name for tool in (await ear.client.list_tools()).tools] == ["wait_for_change"]
        ear.all.clear()
        mcp.enable(names={"nothing"})
        await ear.hears(ToolsListChanged())
        assert [tool.name for tool in (await ear.client.list_tools()).tools] == ["nothing", "wait_for_change"]


@ERAS
@pytest.mark.parametrize("namespace", [None, "child"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_fastmcp_tells_of_the_servers_mounted_in_it(when: str, namespace: str | None, mode: str) -> None:
    mcp, child, grandchild = made_by_fastmcp(), fastmcp.FastMCP("child"), fastmcp.FastMCP("grandchild")
    if when == "before":
        mcp.mount(child, namespace=namespace)
        child.mount(grandchild, namespace=namespace)
    live = attach(mcp)
    async with connected(mcp._mcp_server, mode) as ear:
        await ear.subscribe(FENCE)
        if when == "after":
            mcp.mount(child, namespace=namespace)
            await ear.hears(*LISTS.values())
            child.mount(grandchild, namespace=namespace)
        await fence(ear, live)
        ear.all.clear()
        _made_tool(grandchild)
        await ear.hears(ToolsListChanged())
        assert any("made" in tool.name for tool in (await ear.client.list_tools()).tools)
        ear.all.clear()
        child.disable(names={"made"})
        await ear.hears(ToolsListChanged())


@ERAS
async def test_fastmcps_lifespan_and_middleware_still_run(mode: str) -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[dict[str, int]]:
        seen.append("started")
        yield {"answer": 42}
        seen.append("stopped")

    class Watching(Middleware):
        async def on_message(self, context: Any, call_next: Any) -> Any:
            seen.append(context.method)
            return await call_next(context)

    mcp = made_by_fastmcp(lifespan=lifespan, middleware=[Watching()])

    @mcp.tool
    async def answer(ctx: fastmcp.Context) -> int:
        return ctx.lifespan_context["answer"]

    live = attach(mcp)
    async with served(mcp, "http") as target, connected(target, mode) as ear:
        await ear.subscribe(NOTE)
        assert await ear.call("answer") == 42
        await live.notify.resource_updated(NOTE)
        await ear.hears(ResourceUpdated(NOTE))
    assert seen[0] == "started"
    assert seen[-1] == "stopped"
    assert "tools/call" in seen
    assert ("resources/subscribe" if mode == LEGACY else "subscriptions/listen") in seen


@pytest.mark.parametrize("transport", ["memory", "http", "sse"])
async def test_fastmcps_own_client_hears(transport: str) -> None:
    mcp = made_by_fastmcp()
    live = attach(mcp)
    ear = Ear()
    async with web(mcp.http_app(transport="sse" if transport == "sse" else "http")) as url:
        target = {"memory": mcp, "http": url + "/mcp", "sse": url + "/sse"}[transport]
        async with fastmcp.Client(target, message_handler=ear.on_message) as client:
            if client.protocol_version == MODERN:
                async with listen(
                    client.session, tools_list_changed=True, resource_subscriptions=[NOTE]
                ) as subscription:
                    assert subscription.honored == SubscriptionFilter(
                        tools_list_changed=True, resource_subscriptions=[NOTE]
                    )
                    await _changes_are_heard(mcp, live, ear)
            else:
                await client.session.subscribe_resource(NOTE)
                await _changes_are_heard(mcp, live, ear)


async def _changes_are_heard(mcp: fastmcp.FastMCP, live: Live, ear: Ear) -> None:
    await live.notify.resource_updated(NOTE)
    _made_tool(mcp)
    await ear.hears(ResourceUpdated(NOTE), ToolsListChanged())
