"""Listening again from a cursor: what was missed is told first, and nothing is lost in between."""

import os
import signal
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.server import wire
from tests.server.hearing import MODERN, Ear, Way, connected, hearing, in_cursor_order, listening, stdio
from tests.server.sample import FENCE, LATER, TODAY, build
from tests.server.serving import live, notes
from tidings import Cursor, PromptsListChanged, ResourcesListChanged, ResourceUpdated, ToolsListChanged
from tidings.bus import History
from tidings.bus.memory import MemoryBus
from tidings.bus.sqlite import SqliteBus
from tidings.server import Coalesce

pytestmark = pytest.mark.anyio

UNMERGED = Coalesce(window=0, max_wait=0)
LISTS = {ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()}


@pytest.fixture(params=[Way("memory", MODERN), Way("http", MODERN), Way("stdio", MODERN)], ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    return request.param


async def test_what_changed_meanwhile_is_told_once_each_first_and_in_order(way: Way) -> None:
    async with hearing(way, build()) as ear:
        async with listening(ear, TODAY) as first:
            assert first.recovered is False
            await ear.touch(TODAY)
            await first.hears(ResourceUpdated(TODAY))
        for uri in (LATER, TODAY, LATER, "city://rome", "city://oslo", LATER):
            await ear.touch(uri)
        await ear.call("touch_lists")
        newest = await ear.call("newest", uris=[LATER, TODAY, "city://oslo"])
        async with listening(ear, LATER, TODAY, "city://oslo", FENCE, since=first.last, lists=True) as second:
            assert second.recovered is True
            await ear.fence()
            missed = [heard for heard in second.heard if isinstance(heard.change, ResourceUpdated)]
            assert {heard.change.uri: str(heard.cursor) for heard in missed} == newest  # type: ignore[union-attr]
            assert len(missed) == len(newest)
            assert len(second.heard) == len(newest) + len(LISTS)
            assert set(second.changes) >= LISTS
            assert in_cursor_order(second.heard)


async def test_the_last_of_what_was_missed_says_so(way: Way) -> None:
    async with hearing(way, build()) as ear:
        async with listening(ear, TODAY, LATER) as first:
            assert first.behind is None
        for missed in ([], [TODAY], [LATER, TODAY]):
            if missed:
                await ear.touch(*missed)
            new = f"city://{len(missed)}"
            async with listening(ear, TODAY, LATER, new, since=first.last) as again:
                assert again.behind is (True if missed else None)
                await ear.touch(new)
                await again.hears(ResourceUpdated(new))
                marks = [heard.behind for heard in again.heard]
                assert marks == [None] * (len(missed) - 1) + [False] * bool(missed) + [None]
                first = again


async def test_what_was_replayed_comes_before_what_is_new(way: Way) -> None:
    async with hearing(way, build()) as ear:
        async with listening(ear, TODAY) as first:
            pass
        await ear.touch(TODAY)
        async with listening(ear, TODAY, LATER, since=first.last) as second:
            await ear.touch(LATER)
            await second.hears(ResourceUpdated(LATER))
            assert second.changes == [ResourceUpdated(TODAY), ResourceUpdated(LATER)]


async def test_who_missed_nothing_is_told_nothing_and_moves_on(way: Way) -> None:
    async with hearing(way, build()) as ear:
        async with listening(ear, TODAY) as first:
            pass
        await ear.touch(LATER)
        async with listening(ear, TODAY, FENCE, since=first.last) as second:
            assert second.recovered is True
            assert second.cursor is not None
            assert first.cursor is not None
            assert second.cursor.version > first.cursor.version
            await ear.fence()
            assert second.heard == []


async def test_an_acknowledgment_never_claims_more_than_was_told(way: Way) -> None:
    # Whoever loses the stream right behind the acknowledgment asks again from its cursor.
    async with hearing(way, build()) as ear:
        async with listening(ear, TODAY) as first:
            pass
        await ear.touch(TODAY)
        async with listening(ear, TODAY, since=first.last) as second:
            acknowledged = second.cursor
        async with listening(ear, TODAY, since=acknowledged) as third:
            assert third.recovered is True
            await third.hears(ResourceUpdated(TODAY))


@pytest.mark.parametrize(
    "since",
    [None, "elsewhere:1", "", "garbage", ":", 7, ["a"], {"a": 1}, "x" * 10_000, "future", "huge", "negative", True],
    ids=lambda since: f"{since!s:.12}",
)
async def test_what_no_log_knows_is_answered_with_recovered_false_and_nothing_old(since: Any) -> None:
    mcp = build()
    async with connected(mcp, MODERN) as ear:
        await ear.touch(TODAY)
        epoch = mcp._live._bus.head.epoch
        made_up = {"future": f"{epoch}:{10**6}", "huge": f"{epoch}:{10**40}", "negative": f"{epoch}:-1"}
        if isinstance(since, str):
            since = made_up.get(since, since)
        async with listening(ear, TODAY, FENCE, since=since) as listen:
            assert listen.recovered is False
            await ear.fence()
            assert listen.heard == []
            await ear.touch(TODAY)
            await listen.hears(ResourceUpdated(TODAY))


async def test_a_past_that_is_no_longer_kept_is_not_recovered() -> None:
    mcp = build(bus=MemoryBus(history=History(entries=3)))
    async with connected(mcp, MODERN) as ear:
        async with listening(ear, TODAY) as first:
            pass
        await ear.touch("city://0", "city://1", "city://2")
        async with listening(ear, TODAY, since=first.last) as kept:
            assert kept.recovered is True
        await ear.touch("city://3")
        async with listening(ear, TODAY, since=first.last) as lost:
            assert lost.recovered is False
            assert lost.heard == []


async def test_a_prefix_is_told_of_each_resource_that_it_missed() -> None:
    async with connected(build(), MODERN) as ear:
        async with listening(ear, "city://*") as first:
            pass
        await ear.touch("city://rome", TODAY, "city://oslo", "city://rome")
        async with listening(ear, "city://*", FENCE, since=first.last) as second:
            await ear.fence()
            assert set(second.changes) == {ResourceUpdated("city://oslo"), ResourceUpdated("city://rome")}
            assert len(second.changes) <= 3


@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_nothing_is_lost_while_listeners_come_and_go_and_a_publisher_goes_on(transport: str) -> None:
    uris = [f"city://{number}" for number in range(30)]
    mcp = build(coalesce=UNMERGED)
    done = anyio.Event()

    async def publish() -> None:
        number = 0
        while not done.is_set():
            await mcp.notify.resource_updated(uris[number * 7 % len(uris)])
            number += 1
            await anyio.lowlevel.checkpoint()

    async with hearing(Way(transport, MODERN), mcp) as ear, anyio.create_task_group() as tasks:
        tasks.start_soon(publish)
        newest_heard: dict[str, int] = {}
        since: Cursor | None = None
        for turn in range(50):
            async with listening(ear, *uris, FENCE, since=since) as listen:
                assert listen.recovered is (turn > 0)
                # Some go before they have heard anything, some later.
                await ear.until(lambda: len(listen.heard) >= turn % 4)  # noqa: B023 - awaited at once
                since = listen.last
                _remember(newest_heard, listen)
                if turn == 49:
                    done.set()
                    await ear.fence()
                    _remember(newest_heard, listen)
    entries = await mcp._live._bus.since(Cursor(mcp._live._bus.head.epoch, 0)) or ()
    published = {change.uri: cursor.version for cursor, change in entries if isinstance(change, ResourceUpdated)}
    del published[FENCE]
    assert published.keys() == set(uris)
    assert {uri: newest_heard.get(uri) for uri in uris} == published


async def test_a_restarted_server_recovers_its_listeners_from_the_bus_file(tmp_path: Path) -> None:
    path = tmp_path / "bus"
    async with (
        hearing(Way("http", MODERN), build(bus=SqliteBus(path))) as ear,
        listening(ear, TODAY, lists=True) as first,
    ):
        await ear.touch(TODAY)
        await first.hears(ResourceUpdated(TODAY))
    async with hearing(Way("http", MODERN), build(bus=SqliteBus(path))) as ear:
        await ear.touch(LATER)
        async with listening(ear, TODAY, LATER, FENCE, since=first.last, lists=True) as second:
            assert second.recovered is True
            # A new program may have other tools: that is told to whoever was here before.
            await second.hears(ResourceUpdated(LATER), *LISTS)
            await ear.fence()
            assert ResourceUpdated(TODAY) not in second.changes
            assert in_cursor_order(second.heard)


async def test_after_kill_9_a_listener_hears_what_another_process_published_meanwhile(tmp_path: Path) -> None:
    path = str(tmp_path / "bus")
    async with connected(stdio(path), MODERN) as other:
        async with AsyncExitStack() as stack:
            ear = await stack.enter_async_context(connected(stdio(path), MODERN))
            async with listening(ear, TODAY, LATER) as first:
                await ear.touch(TODAY)
                await first.hears(ResourceUpdated(TODAY))
            await _kill(await ear.call("process"), ear)
        await other.touch(LATER)
        async with (
            connected(stdio(path), MODERN) as ear,
            listening(ear, TODAY, LATER, FENCE, since=first.last, lists=True) as second,
        ):
            assert second.recovered is True
            await second.hears(ResourceUpdated(LATER), *LISTS)
            await ear.fence()
            assert ResourceUpdated(TODAY) not in second.changes


async def test_two_servers_on_one_bus_file_reach_each_others_subscribers(tmp_path: Path) -> None:
    path = str(tmp_path / "bus")
    mine = build(bus=SqliteBus(path, poll=0.01))
    async with connected(mine, MODERN) as here, connected(stdio(path), MODERN) as there:
        async with listening(here, TODAY, lists=True) as ours, listening(there, LATER, lists=True) as theirs:
            await there.touch(TODAY)
            await ours.hears(ResourceUpdated(TODAY))
            await here.touch(LATER)
            await theirs.hears(ResourceUpdated(LATER))
            ours_before, theirs_before = len(ours.heard), len(theirs.heard)
            await there.call("alter", steps=["add a tool"])
            await here.until(lambda: ToolsListChanged() in ours.changes[ours_before:])
            await there.until(lambda: ToolsListChanged() in theirs.changes[theirs_before:])
        # A cursor of the one is good at the other: they share one log.
        async with listening(here, TODAY, since=theirs.last) as moved:
            assert moved.recovered is True


async def test_whoever_loses_its_stream_while_it_is_told_of_a_lost_log_is_not_taken_for_told(tmp_path: Path) -> None:
    path, uris = tmp_path / "bus", ["note://a", "note://b", "note://c"]
    mcp = notes(bus=SqliteBus(path, poll=0.01))
    async with live(mcp) as port:
        stream = await wire.listen(port, wire.wanted(uris, []))
        cursors = [(await stream.next())["params"]["_meta"].get(wire.CURSOR)]
        await mcp.notify.resource_updated(uris[0])
        cursors.append((await stream.next())["params"]["_meta"].get(wire.CURSOR))
        for file in tmp_path.glob("bus*"):
            file.unlink()
        told = [(await stream.next())["params"] for _ in uris]
        assert {params["uri"] for params in told} == set(uris)
        places = [params["_meta"].get(wire.CURSOR) for params in told]
        stream.abort()
        for read, recovered in ((1, False), (2, False), (3, True)):
            since = [cursor for cursor in cursors + places[:read] if cursor][-1]
            again = await wire.listen(port, wire.wanted(uris, []), **{"dev.tidings/since": since})
            assert (await again.next())["params"]["_meta"]["dev.tidings/recovered"] is recovered


def _remember(newest: dict[str, int], listen: Any) -> None:
    for heard in listen.heard:
        if heard.change.uri != FENCE:
            newest[heard.change.uri] = max(newest.get(heard.change.uri, 0), heard.cursor.version)


async def _kill(process: int, ear: Ear) -> None:
    os.kill(process, signal.SIGKILL)
    with anyio.fail_after(8), suppress(Exception):
        await ear.call("process")
