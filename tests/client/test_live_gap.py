"""While the set of subscriptions changes, nothing falls between the old and the new: whenever a change is told."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from mcp.server.mcpserver import MCPServer
from mcp.server.subscriptions import InMemorySubscriptionBus

from tests.client.library import ERAS, SECONDS, Library, connected, eventually, hear, on_the_web
from tidings import ResourceUpdated
from tidings.client import ClientConfig, ListChanged, connect

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

KEPT = "note://kept"
MOMENTS = range(40)
"""How many turns of the event loop after the set began to change a change is told: all is over before the last."""

QUIET = ClientConfig(list_changed=ListChanged(tools=False, resources=False, prompts=False))
Tell = Callable[[str], Awaitable[None]]


@asynccontextmanager
async def of_ours() -> AsyncGenerator[tuple[Any, Tell]]:
    library = Library()
    yield library.server, library.notify.resource_updated


@asynccontextmanager
async def of_ours_on_the_web() -> AsyncGenerator[tuple[Any, Tell]]:
    library = Library()
    async with on_the_web(library) as url:
        yield url, library.notify.resource_updated


@asynccontextmanager
async def of_the_sdk() -> AsyncGenerator[tuple[Any, Tell]]:
    bus = InMemorySubscriptionBus()
    mcp: MCPServer[Any] = MCPServer("stock", subscriptions=bus)
    mcp.resource("note://{name}", name="note")(lambda name: name)
    yield mcp, lambda uri: bus.publish(ResourceUpdated(uri))


WAYS = [
    pytest.param(of_ours, "auto", id="modern"),
    pytest.param(of_ours, "legacy", id="legacy"),
    pytest.param(of_the_sdk, "auto", id="stock-modern"),
    pytest.param(of_ours_on_the_web, "auto", id="http-modern"),
    pytest.param(of_ours_on_the_web, "legacy", id="http-legacy"),
]


@pytest.mark.parametrize(("server", "era"), WAYS)
async def test_what_is_subscribed_to_is_heard_of_while_others_come_and_go(server: Any, era: str) -> None:
    async with AsyncExitStack() as stack:
        target, tell = await stack.enter_async_context(server())
        client = await stack.enter_async_context(connect(target, era=era, config=QUIET))
        await client.subscribe(KEPT)
        heard = hear(client, ResourceUpdated)
        for moment in MOMENTS:
            for change in (client.subscribe, client.unsubscribe):
                await _told_at(moment, change, tell, heard)


async def _told_at(moment: int, change: Any, tell: Tell, heard: list[Any]) -> None:
    changing = asyncio.create_task(change(["note://1", "note://2"]))
    for _ in range(moment):
        await checkpoint()
    heard.clear()
    await tell(KEPT)
    await eventually(lambda: ResourceUpdated(KEPT) in heard)
    with anyio.fail_after(SECONDS):
        await changing


async def test_the_new_stream_is_opened_before_the_old_one_is_closed() -> None:
    library = Library()
    async with on_the_web(library) as url, connect(url) as client:
        await client.subscribe(KEPT)
        changing = asyncio.create_task(client.subscribe([f"note://{number}" for number in range(200)]))
        counts = set()
        while not changing.done():
            counts.add(library.notify.counts()[KEPT])
            await checkpoint()
        await eventually(lambda: library.notify.counts()[KEPT] == 1)
        assert counts == {1, 2}


@ERAS
async def test_a_change_at_any_moment_of_a_watchs_beginning_is_seen(era: str) -> None:
    library = Library()
    async with connected(library, era, config=QUIET) as client:
        for moment in MOMENTS:
            uri = f"note://{moment}"
            async with aclosing(client.watch(uri)) as reads:
                first = asyncio.create_task(anext(reads))
                for _ in range(moment):
                    await checkpoint()
                await library.write(uri, "new")
                with anyio.fail_after(SECONDS):
                    text = (await first).text
                    while text != "new":
                        text = (await anext(reads)).text
                    await client.wait_fresh()
                cached = client.cache.get_resource(uri)
                assert cached is not None
                assert cached.text == "new"


@ERAS
@pytest.mark.parametrize("size", [15, pytest.param(60, marks=pytest.mark.thorough)])
async def test_after_a_storm_of_changes_and_subscriptions_every_copy_is_right(era: str, size: int) -> None:
    library = Library()
    uris = [f"note://{number}" for number in range(size)]
    async with on_the_web(library) as url, connect(url, era=era) as client:
        copies: dict[str, str] = {}

        async def keep(uri: str) -> None:
            async for read in client.watch(uri):
                copies[uri] = read.text

        async def change() -> None:
            for number in range(10 * size):
                await library.write(uris[number * 7 % size], str(number))
                await checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(change)
            for uri in uris:
                tasks.start_soon(keep, uri)
                await checkpoint()
            await eventually(lambda: copies == library.texts)
            with anyio.fail_after(SECONDS):
                await client.wait_fresh()
            assert copies == library.texts
            assert all(map(client.is_fresh, uris))
            tasks.cancel_scope.cancel()
