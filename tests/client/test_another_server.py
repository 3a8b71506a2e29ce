"""Another server at the same address: nothing of the one before it passes for current."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.client.library import ERAS, SECONDS, eventually, hear, read_result
from tests.ports import free_port
from tests.server.serving import AT_ONCE, serving
from tidings import LiveClient, LiveServer, ResourceUpdated, attach, connect
from tidings.bus.sqlite import SqliteBus
from tidings.client import Backoff, ClientConfig, Poll, ResourceRead, Timeouts
from tidings.client.events import PromptsChanged, RefreshFailed, ResourcesChanged
from tidings.errors import ResourceNotFound
from tidings.server import Live

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

A, B = "note://a", "note://b"
CONFIG = ClientConfig(
    timeouts=Timeouts(connect=5, request=10),
    backoff=Backoff(delays=(0.02, 0.05)),
    poll=Poll(interval=0.1, longest=0.1),
)


def full(text: str, *, name: str = "notes", bus: Any = None) -> LiveServer[Any]:
    """A server with a tool, a prompt, a listed resource, and more resources behind a template."""
    mcp: LiveServer[Any] = LiveServer(name, coalesce=AT_ONCE, bus=bus, waking=None)
    mcp.resource(A, name="a")(lambda: text)
    mcp.resource("note://{x}", name="x")(lambda x: f"{text} {x}")
    mcp.tool(name="t")(lambda: text)
    mcp.prompt(name="p")(lambda: text)
    return mcp


def tools_only() -> Live:
    """A server without prompts and resources."""

    async def tools(*_: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="other", input_schema={"type": "object"})])

    server: Server[Any] = Server("notes", on_list_tools=tools)
    return attach(server, coalesce=AT_ONCE, waking=None)


@asynccontextmanager
async def at(port: int, server: Any) -> AsyncGenerator[str]:
    app = server.asgi() if isinstance(server, LiveServer) else server._server.streamable_http_app()
    async with serving(app, port=port):
        yield f"http://127.0.0.1:{port}/mcp"
        await server.aclose()  # Ends the streams, or uvicorn would wait for them.


async def has_met(client: LiveClient, tool: str) -> None:
    await eventually(lambda: client.connected and [each.name for each in client.tools] == [tool])
    with anyio.fail_after(SECONDS):
        await client.wait_fresh()


async def watching(stack: AsyncExitStack, url: str, **options: Any) -> tuple[LiveClient, AsyncGenerator[ResourceRead]]:
    """A client that watches a resource and has read it once, both until the stack is left."""
    client = await stack.enter_async_context(connect(url, config=CONFIG, **options))
    reads = await stack.enter_async_context(aclosing(client.watch(A)))
    assert (await anext(reads)).text == "one"
    return client, reads


@ERAS
async def test_a_server_without_prompts_and_resources_leaves_nothing_of_the_one_before(era: str) -> None:
    port = free_port()
    async with AsyncExitStack() as stack:
        async with at(port, full("one")) as url:
            client, reads = await watching(stack, url, era=era)
            await client.subscribe(B)
            await client.read_resource(B)
            await client.get_prompt("p")
            await client.call_tool("t")
            told = hear(client, PromptsChanged, ResourcesChanged, ResourceUpdated, RefreshFailed)
        async with at(port, tools_only()):
            await has_met(client, "other")
            assert (client.prompts, client.resources, client.resource_templates) == ([], [], [])
            assert not client.supports_subscriptions
            assert client.cache.get_prompt("p") is None
            assert client.cache.get_resource(A) is client.cache.get_resource(B) is None
            assert client.cache.get_tool_call_result("t") is not None
            assert not client.is_fresh(A)
            assert not client.is_fresh(B)
            assert {PromptsChanged((), None), ResourcesChanged((), None)} <= {
                each for each in told if isinstance(each, PromptsChanged | ResourcesChanged)
            }
            assert ResourceUpdated(A) in told
            assert ResourceUpdated(B) in told
            [failed] = [each for each in told if isinstance(each, RefreshFailed)]
            assert failed.uri == A
            assert isinstance(failed.error, ResourceNotFound)
            assert "has no resources any more" in failed.error.message
        async with at(port, full("three")):
            with anyio.fail_after(SECONDS):
                assert (await anext(reads)).text == "three"
            await has_met(client, "t")
            assert [each.name for each in client.prompts] == ["p"]
            assert client.is_subscribed(B)


async def test_a_server_of_another_name_on_the_same_log_is_read_again(tmp_path: Path) -> None:
    port = free_port()
    async with AsyncExitStack() as stack:
        async with at(port, full("one", bus=SqliteBus(tmp_path / "bus.db"))) as url:
            client, reads = await watching(stack, url)
            await client.read_resource(B)
        async with at(port, full("two", name="other", bus=SqliteBus(tmp_path / "bus.db"))):
            with anyio.fail_after(SECONDS):
                assert (await anext(reads)).text == "two"
                await client.wait_fresh()
            assert client.server_info is not None
            assert client.server_info.name == "other"
            assert client.cache.get_resource(B) is None


async def test_the_same_server_on_the_same_log_is_not_read_again(tmp_path: Path) -> None:
    port = free_port()
    async with AsyncExitStack() as stack:
        async with at(port, full("one", bus=SqliteBus(tmp_path / "bus.db"))) as url:
            client = await stack.enter_async_context(connect(url, config=CONFIG))
            await client.subscribe(B)
            read = await client.read_resource(B)
        async with at(port, full("one", bus=SqliteBus(tmp_path / "bus.db"))):
            await has_met(client, "t")
            assert client.cache.get_resource(B) is read
            assert client.is_fresh(B)


def old_era_app() -> Starlette:
    """A server of the legacy era alone, as those of earlier SDKs: it refuses whatever has no session."""

    async def resources(*_: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(name="a", uri=A)])

    async def read(_: Any, params: Any) -> types.ReadResourceResult:
        return read_result(params.uri, "old")

    manager = StreamableHTTPSessionManager(Server("old", on_list_resources=resources, on_read_resource=read))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with manager.run():
            yield

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        if b"mcp-method" in headers and b"mcp-session-id" not in headers:
            body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: no session"}}'
            content = (b"content-type", b"application/json")
            await send({"type": "http.response.start", "status": 400, "headers": [content]})
            await send({"type": "http.response.body", "body": body})
        else:
            await manager.handle_request(scope, receive, send)

    return Starlette(routes=[Mount("/", app)], lifespan=lifespan)


async def test_a_server_of_the_other_era_is_recognised_there_and_back(tmp_path: Path) -> None:
    port = free_port()
    async with AsyncExitStack() as stack:
        async with at(port, full("one", bus=SqliteBus(tmp_path / "bus.db"))) as url:
            client, reads = await watching(stack, url)
            assert client.era == "modern"
        async with serving(old_era_app(), port=port):
            with anyio.fail_after(SECONDS):
                assert (await anext(reads)).text == "old"
                await client.wait_fresh()
            assert client.era == "legacy"
            assert (client.tools, client.prompts) == ([], [])
        async with at(port, full("one", bus=SqliteBus(tmp_path / "bus.db"))):
            with anyio.fail_after(SECONDS):
                assert (await anext(reads)).text == "one"
            await has_met(client, "t")
            assert client.era == "modern"


async def test_the_state_of_another_server_is_not_taken(tmp_path: Path) -> None:
    port, state = free_port(), tmp_path / "agent.db"
    for name in ("notes", "other"):
        async with (
            at(port, full(name, name=name, bus=SqliteBus(tmp_path / "bus.db"))) as url,
            connect(url, config=CONFIG, state=state) as client,
        ):
            assert client.cache.get_resource(A) is None
            assert client.cache.get_prompt("p") is None
            async with aclosing(client.watch(A)) as reads:
                assert (await anext(reads)).text == name
            await client.get_prompt("p")
    async with (
        at(port, full("unread", name="other", bus=SqliteBus(tmp_path / "bus.db"))) as url,
        connect(url, config=CONFIG, state=state) as client,
    ):
        cached = client.cache.get_resource(A)
        assert cached is not None
        assert cached.text == "other"


@ERAS
async def test_a_watched_resource_that_is_gone_from_the_list_is_read_again(era: str) -> None:
    mcp = full("one")
    async with at(free_port(), mcp) as url, connect(url, era=era, config=CONFIG) as client:
        await client.subscribe("note://listed")
        mcp.resource("note://listed", name="listed")(lambda: "listed")
        async with aclosing(client.watch("note://listed")) as reads:
            assert (await anext(reads)).text == "listed"
            await eventually(lambda: len(client.resources) == 2)
            mcp.remove_resource("note://listed")  # The template has it, too.
            with anyio.fail_after(SECONDS):
                assert (await anext(reads)).text == "one listed"
