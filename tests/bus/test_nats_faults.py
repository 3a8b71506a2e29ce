"""A `NatsBus` whose broker is killed, cut off, stalled, slowed and full: nothing that was accepted is lost."""

import asyncio
import itertools
import time
import uuid
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from tests.bus.buses import Ear
from tests.bus.nats_server import NatsServer, running, shared
from tests.bus.processes import peer
from tests.bus.proxy import Proxy, proxy_to
from tidings.bus.nats import NatsBus
from tidings.changes import Change, Cursor, ResourceUpdated
from tidings.errors import BusUnavailable

pytestmark = pytest.mark.anyio

A, B, C, D = (ResourceUpdated(f"note://{name}") for name in "abcd")


@pytest.fixture
def server(tmp_path: Path) -> Generator[NatsServer]:
    with running(tmp_path / "nats") as server:
        yield server


@pytest.fixture
async def proxy() -> AsyncGenerator[Proxy]:
    async with proxy_to(shared().port) as proxy:
        yield proxy


@pytest.fixture
def prefix() -> str:
    return uuid.uuid4().hex


def through(proxy: Proxy, prefix: str, **options: float) -> NatsBus:
    return NatsBus(f"nats://127.0.0.1:{proxy.port}", prefix=prefix, **options)  # type: ignore[arg-type]


async def until(condition: object, seconds: float = 20) -> None:
    assert callable(condition)
    with anyio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(0.005)


@asynccontextmanager
async def publishing(bus: NatsBus, name: str, tasks: int = 4) -> AsyncGenerator[dict[Change, Cursor]]:
    """Several publish meanwhile, without end; the newest cursor that each change was given."""
    stored: dict[Change, Cursor] = {}

    async def publish(task: int) -> None:
        for n in itertools.count():
            change = ResourceUpdated(f"{name}://{task}/{n % 40 if n % 2 else n}")
            stored[change] = await bus.publish(change)

    async with anyio.create_task_group() as group:
        for task in range(tasks):
            group.start_soon(publish, task)
        yield stored
        group.cancel_scope.cancel()


def check(ear: Ear, stored: dict[Change, Cursor]) -> None:
    """Everything that was stored was heard, where it was stored or later, and in order."""
    assert ear.in_order
    assert None not in ear.changes
    newest = {change: cursor for cursor, change in ear.heard}
    assert stored.keys() <= newest.keys()
    assert {change: (newest[change], cursor) for change, cursor in stored.items() if newest[change] < cursor} == {}


async def kept_since(bus: NatsBus, start: Cursor) -> dict[Change, Cursor]:
    """The newest cursor of each change since `start`. Asked again while it is not known: the broker is just back."""
    with anyio.fail_after(20):
        while (entries := await bus.since(start)) is None:  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(0.05)
    return {change: cursor for cursor, change in entries}


async def test_a_killed_broker_loses_nothing_that_it_has_acknowledged(server: NatsServer) -> None:
    async with NatsBus(server.url) as one, NatsBus(server.url) as two:
        ears, start = (Ear(), Ear()), one.head
        for bus, ear in zip((one, two), ears, strict=True):
            bus.subscribe(ear)
        async with publishing(one, "one") as first, publishing(two, "two") as second:
            for _ in range(3):
                before = len(first) + len(second)
                await until(lambda before=before: len(first) + len(second) > before + 200)
                await asyncio.to_thread(server.restart)
        # Publishers that were cancelled leave changes behind, which are stored all the same.
        await until(lambda: not one.state.waiting and not two.state.waiting)
        last = await one.publish(A)
        stored = first | second | {A: last}
        for ear in ears:
            await ear.until_after(last)
            check(ear, stored)
        kept = await kept_since(two, start)
        assert all(kept[change] >= cursor for change, cursor in stored.items())
        assert one.head.epoch == start.epoch
    async with NatsBus(server.url) as late:
        assert await kept_since(late, start) == kept


async def test_a_bus_that_was_cut_off_names_the_terms_that_began_meanwhile(proxy: Proxy, prefix: str) -> None:
    """Each process that publishes begins a term with a mark, and the next mark overwrites it."""
    async with through(proxy, prefix) as cut_off:
        ear = Ear()
        cut_off.subscribe(ear)
        proxy.refusing = True
        proxy.cut()
        await until(lambda: not cut_off.state.connected)
        stored: list[tuple[Cursor, Change]] = []
        for change in (A, B, C):
            async with NatsBus(shared().url, prefix=prefix) as bus:
                stored.append((await bus.publish(change), change))
        proxy.refusing = False
        await ear.until_after(stored[-1][0])
        assert ear.heard == stored


async def test_processes_go_on_through_a_kill_of_the_broker(server: NatsServer) -> None:
    async with NatsBus(server.url) as bus:
        ear, start = Ear(), bus.head
        bus.subscribe(ear)
        address = f"{server.url}#tidings"
        async with peer(address, "stream", "one") as one, peer(address, "stream", "two") as two:
            said = [await process.line() for process in (one, two) for _ in range(50)]
            await asyncio.to_thread(server.restart)
            said += [await process.line() for process in (one, two) for _ in range(200)]
            for process in (one, two):
                process.process.kill()
                said += await process.rest()
        stored: dict[Change, Cursor] = {}
        for version, uri in (line.split() for line in said):
            change = ResourceUpdated(uri)
            stored[change] = max(Cursor(start.epoch, int(version)), stored.get(change, start))
        await ear.until_after(await bus.publish(A))
        check(ear, stored)


async def test_a_connection_that_is_cut_again_and_again_loses_nothing(proxy: Proxy, prefix: str) -> None:
    async with through(proxy, prefix) as one, NatsBus(shared().url, prefix=prefix) as two:
        ears = (Ear(), Ear())
        for bus, ear in zip((one, two), ears, strict=True):
            bus.subscribe(ear)
        async with publishing(one, "one") as first, publishing(two, "two") as second:
            for _ in range(15):
                before = len(first)
                proxy.cut()
                await until(lambda before=before: len(first) > before + 20)
        last = await one.publish(A)
        for ear in ears:
            await ear.until_after(last)
            check(ear, first | second | {A: last})


async def test_what_waits_goes_out_in_order_when_the_broker_is_back(
    proxy: Proxy, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with through(proxy, prefix, timeout=0.5) as one, NatsBus(shared().url, prefix=prefix) as two:
        ear, start = Ear(), one.head
        two.subscribe(ear)
        await one.publish(A)
        proxy.refusing = True
        proxy.cut()
        for change in (B, C, D, B, B):
            with pytest.raises(BusUnavailable, match="The change is kept, and published"):
                await one.publish(change)
        assert not one.state.connected
        assert one.state.waiting == 3
        assert one.state.reason
        assert one.state.since <= time.time()
        assert await one.since(start) is None
        proxy.refusing = False
        await ear.until(lambda ear: len(ear.heard) == 4)
        assert ear.changes[0] == A
        assert set(ear.changes[1:]) == {B, C, D}
        assert ear.in_order
        await until(lambda: one.state.connected and one.state.waiting == 0)
        assert await one.since(start) == await two.since(start)
    assert caplog.text.count("is out of reach") == caplog.text.count("is back") == 1


async def test_those_who_publish_during_an_outage_wait_for_it_together(proxy: Proxy, prefix: str) -> None:
    async with through(proxy, prefix, timeout=1) as bus:
        proxy.refusing = True
        proxy.cut()
        with pytest.raises(BusUnavailable):
            await bus.publish(A)
        began = time.monotonic()
        for n in range(20):
            with pytest.raises(BusUnavailable, match="kept"):
                await bus.publish(ResourceUpdated(f"note://{n}"))
        assert time.monotonic() - began < 10  # Twenty times the same second would be more.


async def test_a_full_buffer_keeps_what_it_has_and_says_so(proxy: Proxy, prefix: str) -> None:
    async with through(proxy, prefix, timeout=1, buffer=3) as bus:
        ear = Ear()
        bus.subscribe(ear)
        proxy.refusing = True
        proxy.cut()
        for change in (A, B, C, A):
            with pytest.raises(BusUnavailable, match="The change is kept"):
                await bus.publish(change)
        with pytest.raises(BusUnavailable, match="is not kept, because 3 others already wait"):
            await bus.publish(D)
        assert bus.state.waiting == 3
        proxy.refusing = False
        await ear.until(lambda ear: len(ear.heard) == 3)
        assert set(ear.changes) == {A, B, C}


async def test_a_broker_that_stalls_is_given_up_and_found_again(proxy: Proxy, prefix: str) -> None:
    async with through(proxy, prefix, timeout=0.5) as one, NatsBus(shared().url, prefix=prefix) as two:
        ear = Ear()
        one.subscribe(ear)
        await one.publish(A)
        accepted = proxy.accepted
        proxy.stall()
        with pytest.raises(BusUnavailable, match="kept"):
            await one.publish(B)
        cursor = await two.publish(C)
        # Nothing says that the connection is dead: the signs of life that do not come do.
        await until(lambda: proxy.accepted > accepted and not one.state.connected)
        proxy.flow()
        await ear.until(lambda ear: {A, B, C} <= set(ear.changes))
        await ear.until_after(cursor)
        assert ear.in_order
        assert None not in ear.changes


async def test_a_listener_hears_again_though_nobody_here_publishes(proxy: Proxy, prefix: str) -> None:
    async with through(proxy, prefix, timeout=0.5) as one, NatsBus(shared().url, prefix=prefix) as two:
        ear = Ear()
        one.subscribe(ear)
        proxy.stall()
        log = [(await two.publish(change), change) for change in (A, B, A, C)]
        await until(lambda: not one.state.connected)
        proxy.flow()
        await ear.until_after(log[-1][0])
        assert ear.heard == log[1:]


async def test_a_slow_broker_is_only_slow(proxy: Proxy, prefix: str) -> None:
    async with through(proxy, prefix) as bus:
        ear, start = Ear(), bus.head
        bus.subscribe(ear)
        proxy.delay = 0.02
        cursors = await asyncio.gather(*(bus.publish(ResourceUpdated(f"note://{n}")) for n in range(500)))
        assert [cursor for cursor, _ in ear.heard] == sorted(cursors)
        assert await bus.since(start) == ear.heard
        assert (proxy.accepted, bus.state.connected) == (1, True)


async def test_whoever_gives_up_during_an_outage_disturbs_nobody(proxy: Proxy, prefix: str) -> None:
    async with through(proxy, prefix) as bus:
        ear = Ear()
        bus.subscribe(ear)
        proxy.refusing = True
        proxy.cut()
        tasks = [asyncio.create_task(bus.publish(ResourceUpdated(f"note://{n}"))) for n in range(40)]
        await until(lambda: not bus.state.connected)
        for task in tasks[::2]:
            task.cancel()
        proxy.refusing = False
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, Cursor) for result in results[1::2])
        assert set(results[1::2]) <= {cursor for cursor, _ in ear.heard}
        assert ear.in_order


async def test_the_clock_of_a_process_may_say_anything(
    proxy: Proxy, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = itertools.cycle([0.0, 4e9, -1e9, 1e9])
    monkeypatch.setattr(time, "time", times.__next__)
    monkeypatch.setattr(time, "time_ns", lambda: round(next(times) * 10**9))
    async with through(proxy, prefix) as bus:
        ear, start = Ear(), bus.head
        bus.subscribe(ear)
        log = [(await bus.publish(A), A)]
        proxy.cut()
        log += [(await bus.publish(change), change) for change in (B, C)]
        assert ear.heard == await bus.since(start) == log
