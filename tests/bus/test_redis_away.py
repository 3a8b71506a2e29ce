"""A Redis that is out of reach for a while: cut off, stalled, slow, gone. What waits goes out, and nobody is kept."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.bus.buses import Ear
from tests.bus.proxy import Proxy, proxy_to
from tests.bus.redis_server import ALWAYS, bus_beside, bus_through, redis_server, shared_server, until
from tidings.bus import shared
from tidings.bus.redis import RedisBus
from tidings.changes import ResourceUpdated
from tidings.errors import BusUnavailable

pytestmark = [pytest.mark.anyio, pytest.mark.redis]

A, B, C = (ResourceUpdated(f"note://{name}") for name in "abc")
NOTES = [ResourceUpdated(f"note://{n}") for n in range(50)]


@pytest.fixture
async def proxy() -> AsyncGenerator[Proxy]:
    async with proxy_to(shared_server().port) as proxy:
        yield proxy


async def test_what_is_published_while_the_server_is_away_goes_out_in_order_when_it_is_back(
    proxy: Proxy, tmp_path: Path
) -> None:
    async with bus_through(proxy, tmp_path) as bus, bus_beside(tmp_path) as other:
        ears = (Ear(), Ear())
        bus.subscribe(ears[0])
        other.subscribe(ears[1])
        proxy.refusing = True
        proxy.cut()
        publishing = [asyncio.create_task(bus.publish(change)) for change in [*NOTES, *NOTES]]
        meanwhile = await other.publish(A)
        await until(lambda: not bus.state.connected)
        proxy.refusing = False
        cursors = await asyncio.gather(*publishing)
        for ear in ears:
            await ear.until_after(max(cursors))
            assert ear.heard[0] == (meanwhile, A)
            assert ear.changes[1:] == NOTES
            assert ear.in_order
        assert len(set(cursors)) == 50  # Equal changes that wait have one.


async def test_a_publish_that_is_not_answered_in_time_is_kept_and_goes_out_later(proxy: Proxy, tmp_path: Path) -> None:
    async with bus_through(proxy, tmp_path, timeout=1) as bus, bus_beside(tmp_path) as other:
        ear = Ear()
        other.subscribe(ear)
        proxy.stall()
        began = time.monotonic()
        with pytest.raises(BusUnavailable, match=r"within 1 s.*The change is kept") as caught:
            await bus.publish(A)
        assert time.monotonic() - began < 10
        assert caught.value.retryable
        assert bus.state.waiting == 1
        assert await bus.since(bus.head) is None
        proxy.cut()
        proxy.flow()
        await ear.until(lambda ear: A in ear.changes)
        await ear.until_after(await bus.publish(B))
        assert bus.state.connected
        assert bus.state.waiting == 0
        assert set(ear.changes) == {A, B}


async def test_only_the_beginning_of_an_outage_is_waited_for(proxy: Proxy, tmp_path: Path) -> None:
    async with bus_through(proxy, tmp_path, timeout=1) as bus:
        proxy.refusing = True
        proxy.cut()
        for change in (A, B):
            with pytest.raises(BusUnavailable, match=r"cannot be reached.*The change is kept"):
                await bus.publish(change)
        began = time.monotonic()
        for change in NOTES:
            with pytest.raises(BusUnavailable, match="The change is kept"):
                await bus.publish(change)
        assert time.monotonic() - began < 10  # Fifty times the same second would be more.
        assert bus.state.waiting == 52


async def test_what_has_no_room_is_refused_and_not_kept(proxy: Proxy, tmp_path: Path) -> None:
    async with bus_through(proxy, tmp_path, timeout=1, buffer=3) as bus, bus_beside(tmp_path) as other:
        ear = Ear()
        other.subscribe(ear)
        proxy.stall()
        results = await asyncio.gather(*(bus.publish(change) for change in NOTES[:6]), return_exceptions=True)
        assert [("is kept" in str(result)) for result in results] == [True] * 3 + [False] * 3
        assert all("not kept, because 3 others already wait" in str(result) for result in results[3:])
        await until(lambda: not bus.state.connected)
        # What waits already may come again.
        with pytest.raises(BusUnavailable, match="The change is kept"):
            await bus.publish(NOTES[1])
        assert bus.state.waiting == 3
        proxy.cut()
        proxy.flow()
        await until(lambda: bus.state.connected)
        await ear.until_after(await bus.publish(A))
        assert set(ear.changes) == {*NOTES[:3], A}


async def test_a_burst_larger_than_the_buffer_waits_for_room(tmp_path: Path) -> None:
    async with RedisBus(shared_server().url, prefix=str(tmp_path), buffer=5) as bus:
        assert len(set(await asyncio.gather(*(bus.publish(change) for change in NOTES)))) == 50


async def test_what_was_published_while_this_process_was_cut_off_is_heard_when_it_is_back(
    proxy: Proxy, tmp_path: Path
) -> None:
    async with bus_through(proxy, tmp_path) as bus, bus_beside(tmp_path) as other:
        ear = Ear()
        bus.subscribe(ear)
        proxy.refusing = True
        proxy.cut()
        # More than a page.
        changes = [ResourceUpdated(f"note://{n}") for n in range(2500)]
        published = await asyncio.gather(*(other.publish(change) for change in changes))
        proxy.refusing = False
        await ear.until_after(max(published))
        assert ear.heard == list(zip(published, changes, strict=True))


async def test_a_lost_sign_is_made_good_by_looking(proxy: Proxy, tmp_path: Path) -> None:
    """Only the first line, on which it asks, leads anywhere."""
    async with bus_through(proxy, tmp_path, poll=0.1) as bus, bus_beside(tmp_path) as other:
        ear = Ear()
        bus.subscribe(ear)
        shared_server().ask("CLIENT", "KILL", "TYPE", "pubsub")
        proxy.refusing = True
        await ear.until_after(await other.publish(A))
        assert bus.state.connected
        proxy.refusing = False
        await ear.until_after(await other.publish(B))
        assert ear.changes == [A, B]


async def test_a_line_for_signs_that_has_gone_silent_is_made_anew(proxy: Proxy, tmp_path: Path) -> None:
    async with bus_through(proxy, tmp_path, timeout=1, poll=3600) as bus, bus_beside(tmp_path) as other:
        ear = Ear()
        bus.subscribe(ear)
        before = proxy.accepted
        proxy.stall()
        await until(lambda: proxy.accepted > before)
        proxy.flow()
        await ear.until_after(await other.publish(A))


async def test_a_slow_server_is_waited_for(proxy: Proxy, tmp_path: Path) -> None:
    async with bus_through(proxy, tmp_path) as bus:
        ear = Ear()
        bus.subscribe(ear)
        proxy.delay = 0.2
        cursors = await asyncio.gather(*(bus.publish(change) for change in NOTES))
        assert ear.heard == list(zip(cursors, NOTES, strict=True))
        assert bus.state.connected


async def test_each_change_of_state_is_logged_once(
    proxy: Proxy, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with bus_through(proxy, tmp_path) as bus:
        assert bus.state.connected
        entered = bus.state.since
        proxy.refusing = True
        proxy.cut()
        publishing = asyncio.create_task(bus.publish(A))
        attempts = proxy.accepted
        await until(lambda: proxy.accepted >= attempts + 4)
        assert not bus.state.connected
        assert bus.state.since > entered
        assert bus.state.waiting == 1
        assert "cannot be reached" in bus.state.reason
        proxy.refusing = False
        await publishing
        assert bus.state.connected
    said = [record.message for record in caplog.records if record.name == shared.__name__]
    assert len(said) == 2
    assert "out of reach" in said[0]
    assert "is back after" in said[1]


SLOW_TO_LOAD = (*ALWAYS, "--key-load-delay", "200")
FILL = ("EVAL", "for n = 1, 5000 do redis.call('SET', 'k' .. n, n) end", 0)


async def test_a_server_that_still_loads_its_data_is_waited_for(tmp_path: Path) -> None:
    async with (
        redis_server(tmp_path, *SLOW_TO_LOAD) as server,
        RedisBus(server.url, durable=True, timeout=20) as bus,
    ):
        first = await bus.publish(A)
        server.ask(*FILL)
        server.kill()
        publishing = asyncio.create_task(bus.publish(B))
        await server.start()
        await until(lambda: "still reads its data" in bus.state.reason)
        # Who begins now is no worse off than who was there.
        async with RedisBus(server.url, durable=True, timeout=20) as other:
            second = await publishing
            assert first.epoch == second.epoch
            assert await other.since(first) == [(second, B)]


async def test_a_server_that_moves_its_clock_moves_nothing_else(tmp_path: Path) -> None:
    """Ages go by the server's clock, and the clocks of clients by nothing."""
    async with redis_server(tmp_path) as server, RedisBus(server.url, poll=0.05) as bus:
        first = await bus.publish(A)
        # As if the clock had been a year ahead when A was published, and a year behind for B.
        server.ask("HSET", "{tidings}:times", "resource note://a", "99999999999.0")
        second = await bus.publish(B)
        server.ask("HSET", "{tidings}:times", "resource note://b", "1.0")
        third = await bus.publish(C)
        assert await bus.since(first) == [(second, B), (third, C)]
        server.ask("HSET", "{tidings}:times", "resource note://a", "1.0")
        last = await bus.publish(C)
        assert await bus.since(first) is None
        assert await bus.since(second) == [(last, C)]
