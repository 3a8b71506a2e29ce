"""Subscriptions that are read by themselves, and the events that say which read follows which change, and when."""

import time

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from tests.client.library import ERAS, Library, connected, eventually, hear
from tidings import ResourceUpdated
from tidings.changes import ToolsListChanged
from tidings.client.events import ChangeReceived, ReadCompleted, RefreshFailed, ResourceContentChanged

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

ONE, TWO = "note://1", "note://2"


@ERAS
async def test_a_refreshed_subscription_is_read_now_and_after_each_change(era: str) -> None:
    library = Library()
    library.texts[ONE] = "a"
    async with connected(library, era) as client:
        contents = hear(client, ResourceContentChanged)
        await client.subscribe(ONE, refresh=True)
        await eventually(lambda: [event.read.text for event in contents] == ["a"])
        await library.write(ONE, "b")
        await eventually(lambda: [event.read.text for event in contents] == ["a", "b"])
        await client.unsubscribe(ONE)
        assert client.subscriptions == []
        assert client._subscriptions.all == frozenset()


async def test_what_a_refreshed_prefix_covers_is_read_after_each_change() -> None:
    library = Library()
    async with connected(library) as client:
        contents = hear(client, ResourceContentChanged)
        await client.subscribe("note://*", refresh=True)
        assert contents == []
        await library.write(TWO, "b")
        await eventually(lambda: [(event.uri, event.read.text) for event in contents] == [(TWO, "b")])
        await client.unsubscribe("note://*")
        await library.write(TWO, "c")
        await client.ping()
        assert library.asked[TWO] == 1


async def test_a_subscription_without_refresh_is_not_read() -> None:
    library = Library()
    async with connected(library) as client:
        updates = hear(client, ResourceUpdated)
        await client.subscribe([ONE, "note://*"])
        await library.write(ONE, "b")
        await eventually(lambda: updates)
        await client.ping()
        assert library.asked[ONE] == 0


async def test_a_refresh_that_fails_is_announced() -> None:
    library = Library()
    library.broken[ONE] = MCPError(INTERNAL_ERROR, "No")
    async with connected(library) as client:
        failures = hear(client, RefreshFailed)
        await client.subscribe("note://*", refresh=True)
        await library.write(ONE, "b")
        await eventually(lambda: [(each.uri, str(each.error)) for each in failures] == [(ONE, "No")])


@ERAS
async def test_a_read_names_the_changes_that_it_is_the_first_after(era: str) -> None:
    library = Library()
    async with connected(library, era) as client:
        heard = hear(client, ChangeReceived, ReadCompleted)
        await client.subscribe(ONE)
        begin = time.time()
        for number, text in enumerate("abc", 1):
            await library.write(ONE, text)
            await eventually(lambda number=number: len(heard) == number)
        changes = list(heard)
        assert [each.change for each in changes] == [ResourceUpdated(ONE)] * 3
        assert [each.unread for each in changes] == [0, 1, 2]
        assert all(begin - 1 <= each.published <= each.received <= time.time() for each in changes if each.published)
        assert (era == "legacy") or all(each.published and each.cursor for each in changes)
        read = await client.read_resource(ONE)
        completed = heard[-1]
        assert completed == ReadCompleted(read, completed.entry, changes[-1], 3)
        assert completed.entry.completed_at is not None
        await client.read_resource(ONE)
        assert (heard[-1].change, heard[-1].changes) == (None, 0)


async def test_a_read_that_fails_leaves_its_changes_to_the_next() -> None:
    library = Library()
    async with connected(library) as client:
        heard = hear(client, ChangeReceived, ReadCompleted)
        await client.subscribe(ONE)
        await library.write(ONE, "a")
        await eventually(lambda: heard)
        library.gates[ONE] = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.read_resource, ONE)
            await eventually(lambda: library.running[ONE])
            await library.write(ONE, "b")
            await eventually(lambda: len(heard) == 2)
            tasks.cancel_scope.cancel()
        del library.gates[ONE]
        await client.read_resource(ONE)
        assert (heard[-1].change, heard[-1].changes) == (heard[1], 2)


async def test_changes_of_lists_are_announced_as_received() -> None:
    library = Library()
    async with connected(library) as client:
        heard = hear(client, ChangeReceived)
        await library.notify.tools_changed()
        await eventually(lambda: [each.change for each in heard] == [ToolsListChanged()])
