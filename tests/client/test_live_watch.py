"""Watched resources: the content now, each real change of it, at the cost of one subscription, or by polling."""

import asyncio
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from tests.client.library import ERAS, SECONDS, Library, connected, eventually, hear, on_the_web
from tests.client.peers import stock
from tidings import ResourceUpdated
from tidings.client import ClientConfig, LiveClient, Poll, Timeouts, connect
from tidings.client.events import RefreshFailed, RequestChanged, SubscriptionsChanged
from tidings.errors import Disconnected, NotConnected, RequestTimedOut

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

ONE, TWO = "note://1", "note://2"
POLLING = ClientConfig(poll=Poll(interval=0.01, longest=0.02))


class Watcher:
    """Somebody who watches, and what they have seen."""

    def __init__(self, client: LiveClient, *uris: str) -> None:
        self.seen: list[str] = []
        self._task = asyncio.create_task(self._watch(client, uris))

    async def _watch(self, client: LiveClient, uris: Any) -> None:
        async with aclosing(client.watch(list(uris))) as reads:
            async for read in reads:
                self.seen.append(read.text)

    async def sees(self, *texts: str) -> None:
        await eventually(lambda: self.seen == list(texts) or self._task.done())
        assert self.seen == list(texts)

    async def leaves(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def fails(self) -> BaseException | None:
        await eventually(self._task.done)
        return self._task.exception()


@ERAS
async def test_only_real_changes_are_seen(era: str) -> None:
    library = Library()
    library.texts[ONE] = "a"
    async with connected(library, era) as client:
        watcher = Watcher(client, ONE)
        await watcher.sees("a")
        reads = library.asked[ONE]
        await library.notify.resource_updated(ONE)
        await eventually(lambda: library.asked[ONE] > reads)
        with anyio.fail_after(SECONDS):
            await client.wait_fresh()
        await library.write(ONE, "b")
        await watcher.sees("a", "b")
        await watcher.leaves()


@ERAS
async def test_several_watchers_share_one_subscription_which_ends_with_the_last(era: str) -> None:
    library = Library()
    library.texts[ONE] = "a"
    async with connected(library, era) as client:
        told = hear(client, SubscriptionsChanged)
        first, second = Watcher(client, ONE), Watcher(client, ONE, TWO)
        await first.sees("a")
        await eventually(lambda: len(second.seen) == 2)
        assert library.asked[ONE] == 1
        third = Watcher(client, ONE)  # Gets what is known to be current.
        await third.sees("a")
        assert library.asked[ONE] == 1
        assert library.notify.counts()[ONE] == 1
        await library.write(ONE, "b")
        await first.sees("a", "b")
        await third.sees("a", "b")
        assert library.asked[ONE] == 2
        await first.leaves()
        await third.leaves()
        await library.write(ONE, "c")
        await eventually(lambda: "c" in second.seen)
        await second.leaves()
        await eventually(lambda: not {ONE, TWO} & set(library.notify.counts()))
        assert (client.subscriptions, told) == ([], [])


@ERAS
async def test_a_slow_reader_gets_the_newest_and_a_steady_stream_of_changes_is_seen(era: str) -> None:
    library = Library()
    async with connected(library, era) as client, aclosing(client.watch(ONE)) as reads:
        with anyio.fail_after(SECONDS):
            await anext(reads)
            for number in range(100):
                await library.write(ONE, str(number))
            await client.wait_fresh()
            assert (await anext(reads)).text == "99"

        async def change() -> None:
            for number in range(1_000_000):
                await library.write(ONE, str(number))
                await asyncio.sleep(0)

        changing = asyncio.create_task(change())
        with anyio.fail_after(SECONDS):
            seen = [int((await anext(reads)).text) for _ in range(5)]
        changing.cancel()
        assert seen == sorted(set(seen))


@ERAS
async def test_what_is_known_to_be_current_is_said_to_be_fresh(era: str) -> None:
    library = Library()
    async with connected(library, era) as client:
        with anyio.fail_after(SECONDS):
            await client.read_resource(ONE)
            assert not client.is_fresh(ONE)  # Nobody would say if it changed.
            await client.subscribe(ONE)
            await client.wait_fresh()
            assert client.is_fresh(ONE)
            stale: list[bool] = []
            client.on(ResourceUpdated, lambda event: stale.append(client.is_fresh(event.uri)))
            await library.write(ONE, "new")
            await eventually(lambda: stale)
            assert stale == [False]
            assert not client.is_fresh(ONE)
            await client.read_resource(ONE)
            assert client.is_fresh(ONE)
            gate = library.gates[TWO] = anyio.Event()
            watcher = Watcher(client, TWO)
            waiting = asyncio.create_task(client.wait_fresh())
            await eventually(lambda: library.running[TWO])
            assert not waiting.done()
            gate.set()
            await waiting
            assert client.is_fresh(TWO)
            await watcher.leaves()
            await client.disconnect()
            assert not client.is_fresh(ONE)
            with pytest.raises(NotConnected):
                await client.wait_fresh()


@ERAS
async def test_a_long_call_never_delays_what_is_watched(era: str) -> None:
    library = Library()
    gate = library.gates["t1"] = anyio.Event()
    async with connected(library, era) as client:
        watcher = Watcher(client, ONE)
        await watcher.sees("the text of note://1")
        calling = asyncio.create_task(client.call_tool("t1"))
        await eventually(lambda: library.running["t1"])
        behind = asyncio.create_task(client.read_resource(TWO))
        await library.write(ONE, "new")
        await watcher.sees("the text of note://1", "new")
        library.tools.append("t6")
        await library.notify.tools_changed()
        await eventually(lambda: len(client.tools) == 6)
        assert not calling.done()
        assert library.asked[TWO] == 0
        gate.set()
        with anyio.fail_after(SECONDS):
            await calling
            await behind
        await watcher.leaves()


@ERAS
async def test_what_cannot_be_read_for_a_while_is_read_later(era: str) -> None:
    library = Library()
    async with connected(library, era, config=ClientConfig(timeouts=Timeouts(request=0.3))) as client:
        watcher = Watcher(client, ONE)
        await watcher.sees("the text of note://1")
        failed = hear(client, RefreshFailed)
        library.gates[ONE] = anyio.Event()
        await library.write(ONE, "new")
        await eventually(lambda: failed)
        assert (failed[0].uri, type(failed[0].error)) == (ONE, RequestTimedOut)
        assert not client.is_fresh(ONE)
        library.gates.clear()
        await watcher.sees("the text of note://1", "new")
        assert client.is_fresh(ONE)
        await watcher.leaves()


@ERAS
async def test_a_watch_ends_when_the_client_is_disconnected(era: str) -> None:
    library = Library()
    async with connected(library, era) as client:
        watcher = Watcher(client, ONE)
        await watcher.sees("the text of note://1")
        await client.disconnect()
        assert isinstance(await watcher.fails(), Disconnected)


async def test_hundreds_of_watched_resources_cost_one_stream() -> None:
    library = Library()
    uris = [f"note://{number}" for number in range(300)]
    async with on_the_web(library) as url, connect(url) as client:
        watchers = [Watcher(client, uri) for uri in uris]
        await eventually(lambda: sum(len(watcher.seen) for watcher in watchers) == len(uris), within=30)
        with anyio.fail_after(SECONDS):
            await client.wait_fresh()
        assert len(library.notify.subscribers()) == 1
        assert library.most_running["subscriptions/listen"] <= 2  # The new one is opened before the old one is closed.
        assert library.asked["subscriptions/listen"] <= 3
        assert all(library.notify.counts()[uri] == 1 for uri in uris)
        await library.write(uris[150], "new")
        await eventually(lambda: any("new" in watcher.seen for watcher in watchers))
        for watcher in watchers:
            await watcher.leaves()
        await eventually(lambda: not any(library.notify.counts().get(uri) for uri in uris))


async def test_one_watch_of_a_thousand_resources_sees_each() -> None:
    library = Library()
    uris = [f"note://{number}" for number in range(1000)]
    async with connected(library) as client:
        watcher = Watcher(client, *uris)
        await eventually(lambda: len(watcher.seen) == 1000, within=30)
        assert len(library.notify.subscribers()) == 1
        for uri in uris[::100]:
            await library.write(uri, f"new {uri}")
        await eventually(lambda: len(watcher.seen) == 1010)
        assert sorted(watcher.seen[1000:]) == sorted(f"new {uri}" for uri in uris[::100])
        await watcher.leaves()


async def test_where_there_are_no_subscriptions_a_watch_polls_and_sees_only_changes() -> None:
    server = stock()
    async with connect(server, era="legacy", config=POLLING) as client:
        assert not client.supports_subscriptions
        watcher = Watcher(client, "city://oslo")
        await watcher.sees("the weather in oslo")
        polled = hear(client, RequestChanged)
        await eventually(lambda: _began(polled, "city://oslo") > 3)
        await client.call_tool("write", {"uri": "city://oslo", "text": "snow"})
        await watcher.sees("the weather in oslo", "snow")
        assert not client.is_fresh("city://oslo")
        await watcher.leaves()
        with anyio.fail_after(SECONDS):
            await client.wait_fresh()
        polled.clear()
        other = Watcher(client, "city://rome")
        await eventually(lambda: _began(polled, "city://rome") > 3)
        assert _began(polled, "city://oslo") == 0
        await other.leaves()


def _began(told: list[RequestChanged], uri: str) -> int:
    """How often a read of `uri` began."""
    return sum(event.entry.params.get("uri") == uri for event in told)


@ERAS
async def test_what_cannot_be_subscribed_to_is_polled_beside_what_can(era: str) -> None:
    async def authorize(_: Any, uri: str) -> bool:
        return uri != TWO

    library = Library(authorize=authorize)
    async with connected(library, era, config=POLLING) as client:
        watcher = Watcher(client, ONE, TWO)
        await eventually(lambda: len(watcher.seen) == 2)
        library.texts[TWO] = "unheard of"
        await eventually(lambda: "unheard of" in watcher.seen)
        await library.write(ONE, "heard of")
        await eventually(lambda: "heard of" in watcher.seen)
        assert library.asked[ONE] == 2
        await watcher.leaves()
