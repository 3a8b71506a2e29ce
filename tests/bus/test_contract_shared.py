"""What every bus promises whose log several handles and processes share: faults included."""

import asyncio
import json

import pytest

from tests.bus.buses import BusFactory, Ear, buses_that, newest
from tests.bus.processes import peer
from tidings.bus import Entry
from tidings.changes import Change, Cursor, ResourceUpdated

pytestmark = pytest.mark.anyio

A, B, C = (ResourceUpdated(f"note://{name}") for name in "abc")


@buses_that(lambda bus: bus.shared)
async def test_handles_on_one_log_hear_each_other_in_order(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as one, bus_factory.open() as two:
        ears = (Ear(), Ear())
        for bus, ear in zip((one, two), ears, strict=True):
            bus.subscribe(ear)
        changes = [ResourceUpdated(f"note://{n}") for n in range(100)]
        cursors = await asyncio.gather(*((one, two)[n % 2].publish(change) for n, change in enumerate(changes)))
        for ear in ears:
            await ear.until_after(max(cursors))
            assert ear.heard == sorted(zip(cursors, changes, strict=True), key=lambda entry: entry[0])
        assert one.head == two.head == max(cursors)


@buses_that(lambda bus: bus.outlives)
async def test_the_log_outlives_those_who_use_it(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        start = bus.head
        first = await bus.publish(A)
    async with bus_factory.open() as bus:
        assert bus.head == first
        assert list(await bus.since(start) or ()) == [(first, A)]


@buses_that(lambda bus: bus.outlives)
async def test_a_lost_log_is_told_once_to_each_listener_and_a_new_one_begins(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as one, bus_factory.open() as two:
        ears = (Ear(), Ear())
        for bus, ear in zip((one, two), ears, strict=True):
            bus.subscribe(ear)
        before = await one.publish(A)
        for ear in ears:
            await ear.until_after(before)
        await bus_factory.lose()
        for ear in ears:
            await ear.until(lambda ear: None in ear.changes)
        after = await one.publish(B)
        for ear in ears:
            await ear.until_after(after)
            assert ear.changes == [A, None, B]
            assert ear.heard[1][0].epoch == after.epoch != before.epoch
        assert await one.since(before) is None
        assert await two.since(before) is None


@buses_that(lambda bus: bus.outlives)
async def test_a_publish_into_a_lost_log_is_stored_in_the_new_one(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as one, bus_factory.open() as two:
        ears = (Ear(), Ear())
        for bus, ear in zip((one, two), ears, strict=True):
            bus.subscribe(ear)
        await one.publish(A)
        await bus_factory.lose()
        cursor = await one.publish(B)
        for ear in ears:
            await ear.until_after(cursor)
            assert ear.changes.count(None) == 1
        assert list(await two.since(Cursor(cursor.epoch, 0)) or ()) == [(cursor, B)]


@buses_that(lambda bus: bus.outlives)
@pytest.mark.parametrize("again", [[B], [A, B], [C]], ids=["other changes", "the same changes", "one change"])
async def test_a_log_that_was_rolled_back_does_not_know_what_it_has_lost(
    bus_factory: BusFactory, again: list[Change]
) -> None:
    async with bus_factory.open() as bus:
        start, kept = bus.head, await bus.publish(C)
        roll_back = await bus_factory.copy()
        lost = [await bus.publish(change) for change in (A, B, A)]
    await roll_back()
    async with bus_factory.open() as bus:
        for cursor in lost:
            assert await bus.since(cursor) is None
        stored: list[Entry] = [(kept, C)]
        while stored[-1][0].version <= lost[-1].version + 2:
            stored += [(await bus.publish(change), change) for change in again]
        # Even if each entry has been replaced by a later one.
        for cursor in lost:
            assert await bus.since(cursor) is None
        for cursor in (start, *(cursor for cursor, _ in stored)):
            assert list(await bus.since(cursor) or ()) == newest([entry for entry in stored if entry[0] > cursor])


@buses_that(lambda bus: bus.outlives and bus.reaches_processes)
@pytest.mark.parametrize("lines", [40, *(pytest.param(n, marks=pytest.mark.thorough) for n in (1, 400))])
async def test_a_process_killed_while_it_publishes_loses_nothing_it_was_told_of(
    bus_factory: BusFactory, lines: int
) -> None:
    async with bus_factory.open() as bus:
        ear, start = Ear(), bus.head
        bus.subscribe(ear)
        async with peer(bus_factory.address, "stream", "killed") as publisher:
            said = [await publisher.line() for _ in range(lines)]
            publisher.process.kill()
            said += await publisher.rest()
        kept = {change: cursor.version for cursor, change in await bus.since(start) or ()}
        for version, uri in (line.split() for line in said):
            assert kept[ResourceUpdated(uri)] >= int(version)
        # Those who stayed go on, and have heard all of it.
        await ear.until_after(await bus.publish(A))
        assert ear.in_order
        assert {change for change in kept if change} | {A} == set(ear.changes)


@buses_that(lambda bus: bus.shared and bus.reaches_processes)
async def test_processes_that_publish_at_once_hear_all_of_each_other_in_order(bus_factory: BusFactory) -> None:
    async with peer(bus_factory.address, "exchange", "one") as one, peer(bus_factory.address, "exchange", "two") as two:
        for process in (one, two):
            assert await process.line() == "ready"
        for process in (one, two):
            await process.write_line("go")
        heard = [json.loads(await process.line()) for process in (one, two)]
    for entries in heard:
        versions = [version for version, _ in entries]
        assert versions == sorted(set(versions))
        assert {uri for _, uri in entries} == {
            f"{name}://{task}/{n}" for name in ("one", "two") for task in range(4) for n in range(25)
        }
    assert heard[0] == heard[1]
