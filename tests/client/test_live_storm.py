"""Everything at once, at random: after the storm every copy that is kept, or watched, equals the truth."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tests.client.cutting import Cut, cable
from tests.client.library import ERAS, SECONDS, Library, eventually, on_the_web
from tidings.client import Backoff, ClientConfig, LiveClient, connect
from tidings.errors import TidingsError

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

URIS = [f"a://{number}" for number in range(6)] + [f"note://{number}" for number in range(6)]
CONFIG = ClientConfig(backoff=Backoff(delays=(0.001, 0.02), tries=None), concurrency=4)
STEPS = 150


class Storm:
    """A client, what it watches, and what happens to it."""

    def __init__(self, seed: int, library: Library, cut: Cut, client: LiveClient) -> None:
        self.random = random.Random(seed)
        self.library = library
        self.cut = cut
        self.client = client
        self.watching: dict[str, asyncio.Task[None]] = {}
        self.seen: dict[str, str] = {}
        self.asked: set[asyncio.Task[Any]] = set()
        self.writes = 0
        self.deeds = [
            (30, self.write),
            (10, self.subscribe),
            (8, self.unsubscribe),
            (10, self.watch),
            (6, self.leave),
            (12, self.read),
            (6, self.read_by_template),
            (4, self.alter),
            (3, self.break_off),
        ]

    async def blow(self) -> None:
        for _ in range(STEPS):
            weights, deeds = zip(*self.deeds, strict=True)
            await self.random.choices(deeds, weights)[0]()
            for _ in range(self.random.choice((0, 0, 1, 3, 10, 40))):
                await checkpoint()

    def ask(self, request: Any) -> None:
        """Let something be done, however it ends."""
        task = asyncio.create_task(request)
        self.asked.add(task)
        task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[Any]) -> None:
        self.asked.discard(task)
        assert task.cancelled() or task.exception() is None or isinstance(task.exception(), TidingsError)

    def some(self) -> str:
        return self.random.choice(URIS)

    async def write(self) -> None:
        self.writes += 1
        await self.library.write(self.some(), str(self.writes))

    async def alter(self) -> None:
        """Change the lists."""
        self.library.tools.append(f"more {len(self.library.tools)}")
        self.library.templates.append(f"z{len(self.library.templates)}://{{x}}")
        await self.library.notify.tools_changed()
        await self.library.notify.resources_changed()

    async def subscribe(self) -> None:
        self.ask(self.client.subscribe(self.random.choice([self.some(), [self.some(), self.some()], "a://*"])))

    async def unsubscribe(self) -> None:
        if self.client.subscriptions:
            self.ask(self.client.unsubscribe(self.random.choice(self.client.subscriptions)))

    async def watch(self) -> None:
        uri = self.some()
        if uri not in self.watching:
            self.watching[uri] = asyncio.create_task(self._watch(uri))

    async def _watch(self, uri: str) -> None:
        async with aclosing(self.client.watch(uri)) as reads:
            async for read in reads:
                self.seen[uri] = read.text

    async def leave(self) -> None:
        if self.watching:
            uri = self.random.choice(list(self.watching))
            await self.let_go(uri)

    async def let_go(self, uri: str) -> None:
        task = self.watching.pop(uri)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self.seen.pop(uri, None)

    async def read(self) -> None:
        self.ask(self.client.read_resource(self.some()))

    async def read_by_template(self) -> None:
        self.ask(self.client.read_resource_from_template("a://{x}", {"x": str(self.random.randrange(6))}))

    async def break_off(self) -> None:
        await self.cut.cut(refuse=False)

    def truth(self, uri: str) -> str:
        return self.library.texts.get(uri, f"the text of {uri}")

    def wrong(self) -> dict[str, Any]:
        """What differs from the truth, of all that is kept current."""
        client = self.client
        lists = {"tools": [tool.name for tool in client.tools] != self.library.tools}
        lists["templates"] = [each.uri_template for each in client.resource_templates] != self.library.templates
        wrong: dict[str, Any] = {
            f"watched {uri}": self.seen.get(uri) for uri in self.watching if self.seen.get(uri) != self.truth(uri)
        }
        for uri in URIS:
            is_kept = uri in client.subscriptions or uri in self.watching
            is_kept = is_kept or ("a://*" in client.subscriptions and uri.startswith("a://"))
            if is_kept or client.is_fresh(uri):
                old = [copy.text for copy in client._wiring.cache.copies(uri) if copy.text != self.truth(uri)]
                wrong.update({f"cached {uri}": old} if old else {})
        return wrong | {name: "old" for name, is_old in lists.items() if is_old}


@asynccontextmanager
async def storm(seed: int, era: str) -> AsyncGenerator[Storm]:
    library = Library()
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(on_the_web(library))
        cut = await stack.enter_async_context(cable(url))
        client = await stack.enter_async_context(connect(cut.url, era=era, config=CONFIG))
        yield Storm(seed, library, cut, client)


@ERAS
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, 2))])
async def test_after_the_storm_every_copy_equals_the_truth(era: str, seed: int) -> None:
    async with storm(seed, era) as it:
        await it.blow()
        await eventually(lambda: not it.asked)
        await eventually(lambda: it.client.connected)
        with anyio.fail_after(SECONDS):
            await it.client.wait_fresh()
        await eventually(lambda: not it.wrong())
        with anyio.fail_after(SECONDS):
            await it.client.wait_fresh()
        assert it.wrong() == {}
        assert all(not task.done() for task in it.watching.values())
        for uri in list(it.watching):
            assert it.client.is_fresh(uri), uri
            await it.let_go(uri)
