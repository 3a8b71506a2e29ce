"""A server that does what a test says: what is in it, how it is told of, what it waits for. And an ear for a client."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server.lowlevel.server import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError

from tests.server import serving as apps
from tests.server.serving import AT_ONCE, serving
from tidings import ResourceUpdated, attach
from tidings.client import LiveClient, connect
from tidings.server import Live

SECONDS = 20
"""What a busy machine may take for what takes milliseconds."""

eventually = partial(apps.eventually, within=SECONDS)
ERAS = pytest.mark.parametrize("era", ["auto", "legacy"], ids=["modern", "legacy"])


def hear(client: LiveClient, *kinds: type[Any]) -> list[Any]:
    """A list that fills with the events of these kinds, in order."""
    told: list[Any] = []
    for kind in kinds:
        client.on(kind, told.append)
    return told


def read_result(uri: str, text: str) -> types.ReadResourceResult:
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, text=text)])


class Library:
    """A server with four lists, in pages of two, and resources. `live` tells of its changes in both eras."""

    def __init__(self, *, is_live: bool = True, **options: Any) -> None:
        self.tools = ["t1", "t2", "t3", "t4", "t5"]
        self.resources = ["note://1", "note://2", "note://3", "note://4", "note://5"]
        self.templates = ["a://{x}", "b://{x}", "c://{x}", "d://{x}", "e://{x}"]
        self.prompts = ["p1", "p2", "p3", "p4", "p5"]
        self.annotations: dict[str, types.ToolAnnotations] = {}
        self.texts: dict[str, str] = {}
        self.asked: Counter[str] = Counter()
        """How often each method came; for a read, each URI."""
        self.running: Counter[str] = Counter()
        self.most_running: Counter[str] = Counter()
        self.gates: dict[str, anyio.Event] = {}
        """What a method, or the read of a URI, waits for."""
        self.broken: dict[str, MCPError] = {}
        """What it answers instead."""
        self.cancelled: list[str] = []
        """What was cancelled while it waited."""
        self._open_streams: dict[str, anyio.CancelScope] = {}
        self.cursors: dict[str, int] = {}
        """Where the page of each cursor begins."""
        self.session: Any = None
        """The session of the last request."""
        self.server: Server[Any] = Server(
            "library",
            on_list_tools=self._list_tools,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_list_prompts=self._list_prompts,
            on_read_resource=self._read,
            on_get_prompt=self._get_prompt,
            on_call_tool=self.call_tool,
            on_completion=self._complete,
        )
        # Its tools are those above: it offers no waiting.
        options = {"coalesce": AT_ONCE, "waking": None, **options}
        self.live: Live | None = attach(self.server, **options) if is_live else None

    @property
    def notify(self) -> Any:
        assert self.live is not None
        return self.live.notify

    async def write(self, uri: str, text: str) -> None:
        """Change a resource, and say so."""
        self.texts[uri] = text
        await self.notify.resource_updated(uri)

    @asynccontextmanager
    async def _asked(self, ctx: Any, what: str) -> AsyncGenerator[None]:
        self.session = ctx.session
        async with self.counted(what):
            if what in self.gates:
                await self.gates[what].wait()
            if what in self.broken:
                raise self.broken[what]
            yield

    async def until_hung_up(self, what: str, app: Any, scope: Any, receive: Any, send: Any) -> None:
        """Serve a stream until it ends, or until a test ends it as if all were said."""
        with anyio.CancelScope() as scope_of_it:
            self._open_streams[what] = scope_of_it
            await app(scope, receive, self._slow_after_acknowledgment(send))
        if scope_of_it.cancelled_caught:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _slow_after_acknowledgment(self, send: Any) -> Any:
        gate = self.gates.get("after the acknowledgment")
        acknowledged = False

        async def slow(message: Any) -> None:
            nonlocal acknowledged
            if acknowledged and gate is not None and not gate.is_set():
                async with self.counted("after the acknowledgment"):
                    await gate.wait()
            acknowledged = acknowledged or b"acknowledged" in message.get("body", b"")
            await send(message)

        return slow

    def hang_up(self, what: str) -> None:
        """End the stream of this kind that was opened last."""
        self._open_streams[what].cancel()

    @asynccontextmanager
    async def counted(self, what: str) -> AsyncGenerator[None]:
        """Count this among what was asked, and while it runs."""
        self.asked[what] += 1
        self.running[what] += 1
        self.most_running[what] = max(self.most_running[what], self.running[what])
        try:
            yield
        except asyncio.CancelledError:
            self.cancelled.append(what)
            raise
        finally:
            self.running[what] -= 1

    async def _page(self, ctx: Any, method: str, params: Any, items: list[str]) -> tuple[list[str], str | None]:
        async with self._asked(ctx, method):
            start = self.cursors[params.cursor] if params and params.cursor is not None else 0
            cursor = "" if start == 0 else str(start + 2)  # An empty one is as good as any.
            self.cursors[cursor] = start + 2
            return items[start : start + 2], cursor if len(items) > start + 2 else None

    async def _list_tools(self, ctx: Any, params: Any) -> types.ListToolsResult:
        names, cursor = await self._page(ctx, "tools/list", params, self.tools)
        tools = [
            types.Tool(name=name, input_schema={"type": "object"}, annotations=self.annotations.get(name))
            for name in names
        ]
        return types.ListToolsResult(tools=tools, next_cursor=cursor)

    async def _list_resources(self, ctx: Any, params: Any) -> types.ListResourcesResult:
        uris, cursor = await self._page(ctx, "resources/list", params, self.resources)
        return types.ListResourcesResult(
            resources=[types.Resource(uri=uri, name=uri) for uri in uris], next_cursor=cursor
        )

    async def _list_templates(self, ctx: Any, params: Any) -> types.ListResourceTemplatesResult:
        texts, cursor = await self._page(ctx, "resources/templates/list", params, self.templates)
        templates = [types.ResourceTemplate(uri_template=text, name=text) for text in texts]
        return types.ListResourceTemplatesResult(resource_templates=templates, next_cursor=cursor)

    async def _list_prompts(self, ctx: Any, params: Any) -> types.ListPromptsResult:
        names, cursor = await self._page(ctx, "prompts/list", params, self.prompts)
        return types.ListPromptsResult(prompts=[types.Prompt(name=name) for name in names], next_cursor=cursor)

    async def _read(self, ctx: Any, params: Any) -> types.ReadResourceResult:
        uri = str(params.uri)
        async with self._asked(ctx, uri):
            return read_result(uri, self.texts.get(uri, f"the text of {uri}"))

    async def _get_prompt(self, ctx: Any, params: Any) -> types.GetPromptResult:
        async with self._asked(ctx, params.name):
            return types.GetPromptResult(
                messages=[types.PromptMessage(role="user", content=types.TextContent(text=params.name))]
            )

    async def _complete(self, ctx: Any, params: Any) -> types.CompleteResult:
        async with self._asked(ctx, "completion/complete"):
            before = params.context.arguments if params.context else None
            return types.CompleteResult(
                completion=types.Completion(values=[f"{params.ref.type} {params.argument.value}! {before}"])
            )

    async def call_tool(self, ctx: Any, params: Any) -> Any:
        async with self._asked(ctx, params.name):
            return types.CallToolResult(content=[types.TextContent(text=params.name)])


@asynccontextmanager
async def connected(library: Library, era: str = "auto", **options: Any) -> AsyncGenerator[LiveClient]:
    """A client of it, in memory."""
    with anyio.fail_after(SECONDS):
        client = await connect(library.server, era=era, **options).__aenter__()
    try:
        yield client
    finally:
        await client.aclose()


class Forgetful(Library):
    """A server with the SDK's own streams, which know nothing of what was missed."""

    def __init__(self) -> None:
        super().__init__(is_live=False)
        self.bus = InMemorySubscriptionBus()
        self.handler = ListenHandler(self.bus)
        self.server.add_request_handler("subscriptions/listen", *_listen(self.handler))

    async def write(self, uri: str, text: str) -> None:
        self.texts[uri] = text
        await self.bus.publish(ResourceUpdated(uri))


def _listen(handler: ListenHandler) -> tuple[Any, Any]:
    entry = Server("other", on_subscriptions_listen=handler)._request_handlers["subscriptions/listen"]
    return entry.params_type, entry.handler


@asynccontextmanager
async def on_the_web(library: Library, port: int = 0) -> AsyncGenerator[str]:
    """Its address, while it is served."""
    app = library.server.streamable_http_app()

    async def counting(scope: Any, receive: Any, send: Any) -> None:
        method = dict(scope.get("headers", ())).get(b"mcp-method", b"").decode()
        stream = scope.get("method") if scope.get("method") == "GET" else method
        if stream not in ("GET", "subscriptions/listen"):
            await app(scope, receive, send)
            return
        async with library.counted(stream):
            if stream in library.gates:
                await library.gates[stream].wait()
            await library.until_hung_up(stream, app, scope, receive, send)

    async with serving(counting, port=port) as bound:
        try:
            yield f"http://127.0.0.1:{bound}/mcp"
        finally:
            if library.live is not None:
                await library.live.aclose()  # Ends the streams, or uvicorn would wait for them.
