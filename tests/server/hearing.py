"""Stock SDK clients that write down what they hear, over each transport and in each era."""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY, event_from_wire
from pydantic import BaseModel

from tests import forking
from tests.server.sample import FENCE
from tidings.changes import BEHIND_KEY, CURSOR_KEY, RECOVERED_KEY, SINCE_KEY, Change, Cursor

ROOT = Path(__file__).parents[2]
MODERN, LEGACY = "2026-07-28", "legacy"
SECONDS = 20
"""What a busy machine may take for what takes milliseconds."""


@dataclass(frozen=True)
class Way:
    """A transport, and an era spoken over it."""

    transport: str
    mode: str

    def __str__(self) -> str:
        return f"{self.transport}-{'modern' if self.mode == MODERN else 'legacy'}"


WAYS = [
    Way("memory", MODERN),
    Way("memory", LEGACY),
    Way("stdio", MODERN),
    Way("stdio", LEGACY),
    Way("http", MODERN),
    Way("http", LEGACY),
    Way("sse", LEGACY),
]


@dataclass(frozen=True)
class Heard:
    """A notification of a change: what changed, where that stands in the log, and on which listen stream it came."""

    change: Change
    cursor: Any
    """A `Cursor`, or its text if that is sealed."""
    stream: object = None
    behind: object = None
    """False: this was the last of what its listener had missed."""


def read(text: str) -> Cursor | str:
    """The cursor in a text, or the text if only its server can read it."""
    return Cursor.parse(text) or text


class Ear:
    """A connected client, and all it has heard."""

    def __init__(self) -> None:
        self.client: Client
        self.mode = ""
        self.all: list[Heard] = []
        self.acks: list[types.SubscriptionsAcknowledgedNotification] = []
        self._news = anyio.Event()
        self._listening = AsyncExitStack()

    async def on_message(self, message: Any) -> None:
        if isinstance(message, types.SubscriptionsAcknowledgedNotification):
            self.acks.append(message)
        elif isinstance(message, BaseModel):
            raw = message.model_dump(by_alias=True, mode="json", exclude_none=True)
            params = raw.get("params", {})
            if (change := event_from_wire(raw["method"], params)) is not None:
                meta = params["_meta"]
                stream, behind = meta.get(SUBSCRIPTION_ID_META_KEY), meta.get(BEHIND_KEY)
                self.all.append(Heard(change, read(meta[CURSOR_KEY]), stream, behind))
        self._news.set()

    async def until(self, condition: Callable[[], object]) -> None:
        with anyio.fail_after(SECONDS):
            while not condition():
                self._news = anyio.Event()
                await self._news.wait()

    @property
    def changes(self) -> list[Change]:
        return [heard.change for heard in self.all]

    async def hears(self, *changes: Change) -> None:
        await self.until(lambda: set(changes) <= set(self.changes))

    async def subscribe(self, *uris: str) -> None:
        """Subscribe as the client's era does; the lists are heard of too."""
        if self.mode == LEGACY:
            for uri in uris:
                await self.client.subscribe_resource(uri)
        else:
            await self._listening.enter_async_context(
                self.client.listen(
                    tools_list_changed=True,
                    prompts_list_changed=True,
                    resources_list_changed=True,
                    resource_subscriptions=uris,
                )
            )

    async def unsubscribe(self, *uris: str) -> None:
        """Unsubscribe; a listen stream is closed as a whole."""
        if self.mode == LEGACY:
            for uri in uris:
                await self.client.unsubscribe_resource(uri)
        else:
            await self._listening.aclose()

    async def call(self, tool: str, **arguments: Any) -> Any:
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        structured = result.structured_content or {}
        return structured.get("result", structured)

    async def touch(self, *uris: str) -> None:
        await self.call("touch", uris=list(uris))

    async def fence(self) -> None:
        """Wait until everything that was told so far is heard. Needs a subscription to the fence."""
        self.all = [heard for heard in self.all if getattr(heard.change, "uri", None) != FENCE]
        await self.touch(FENCE)
        await self.until(lambda: any(getattr(change, "uri", None) == FENCE for change in self.changes))
        self.all = [heard for heard in self.all if getattr(heard.change, "uri", None) != FENCE]


@asynccontextmanager
async def connected(target: Any, mode: str) -> AsyncGenerator[Ear]:
    """A stock client of `target`: whatever the SDK's `Client` takes."""
    ear = Ear()
    # Its cache would reorder what it hands on, while it forgets what changed.
    async with Client(target, mode=mode, message_handler=ear.on_message, cache=None) as client:
        ear.client, ear.mode = client, mode
        async with ear._listening:
            yield ear


class _Web(uvicorn.Server):
    """A uvicorn that says when it has started."""

    def __init__(self, app: Any, ready: anyio.Event) -> None:
        super().__init__(uvicorn.Config(app, log_level="warning", lifespan="on", timeout_graceful_shutdown=2))
        self._ready = ready

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self._ready.set()


@asynccontextmanager
async def web(app: Any) -> AsyncGenerator[str]:
    """Serve `app` on loopback; its address."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        ready = anyio.Event()
        server = _Web(app, ready)
        # Not a child of this one: a test that fails would break it off, and leave its sockets to the next.
        serving = asyncio.create_task(server.serve([sock]))
        try:
            with anyio.fail_after(SECONDS):
                await ready.wait()
            yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        finally:
            server.should_exit = True
            with anyio.CancelScope(shield=True):
                await serving


def stdio(*arguments: str) -> StdioServerParameters:
    # With this process's environment, so that the coverage of the server counts too.
    python, *words = forking.command("-m", "tests.server.sample", *arguments)
    return StdioServerParameters(command=python, args=words, cwd=ROOT, env=dict(os.environ))


@asynccontextmanager
async def hearing(way: Way, server: Any, *arguments: str) -> AsyncGenerator[Ear]:
    """A client that has come to `server` by `way`; over stdio, to a process of `sample` with `arguments`."""
    async with AsyncExitStack() as stack:
        match way.transport:
            case "memory":
                target = server
            case "stdio":
                target = stdio(*arguments)
            case "http":
                target = await stack.enter_async_context(web(server.streamable_http_app())) + "/mcp"
            case _:
                target = sse_client(await stack.enter_async_context(web(server.sse_app())) + "/sse")
        yield await stack.enter_async_context(connected(target, way.mode))


# Listening by hand: with a cursor


class Listen:
    """One `subscriptions/listen` of an ear's client, with what it was told."""

    def __init__(self, ear: Ear, ack: types.SubscriptionsAcknowledgedNotification) -> None:
        meta: Any = ack.params.meta
        self._ear = ear
        self._id = meta[SUBSCRIPTION_ID_META_KEY]
        self.honoured = ack.params.notifications
        self.recovered: bool = meta[RECOVERED_KEY]
        self.behind: object = meta.get(BEHIND_KEY)
        self.cursor: Any = read(meta[CURSOR_KEY])

    @property
    def heard(self) -> Sequence[Heard]:
        return [heard for heard in self._ear.all if heard.stream == self._id]

    @property
    def changes(self) -> list[Change]:
        return [heard.change for heard in self.heard]

    @property
    def last(self) -> Any:
        """What to give as `since` next time."""
        return self.heard[-1].cursor if self.heard else self.cursor

    async def hears(self, *changes: Change) -> None:
        await self._ear.until(lambda: set(changes) <= set(self.changes))


@asynccontextmanager
async def listening(ear: Ear, *uris: str, since: object = None, lists: bool = False) -> AsyncGenerator[Listen]:
    """Listen from the cursor `since`; one at a time for each ear."""
    lists_or_none = lists or None
    meta: Any = None if since is None else {SINCE_KEY: str(since) if isinstance(since, Cursor) else since}
    request = types.SubscriptionsListenRequest(
        params=types.SubscriptionsListenRequestParams(
            notifications=types.SubscriptionFilter(
                tools_list_changed=lists_or_none,
                prompts_list_changed=lists_or_none,
                resources_list_changed=lists_or_none,
                resource_subscriptions=list(uris) or None,
            ),
            _meta=meta,
        )
    )
    before = len(ear.acks)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ear.client.session.send_request, request, types.SubscriptionsListenResult)
        await ear.until(lambda: len(ear.acks) > before)
        yield Listen(ear, ear.acks[-1])
        tasks.cancel_scope.cancel()


def in_cursor_order(heard: Sequence[Heard]) -> bool:
    versions = [each.cursor.version for each in heard]
    return versions == sorted(set(versions))
