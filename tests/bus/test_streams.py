"""The bounded streams of events and the leases that the records of every bus carry, tried on each."""

import asyncio
import itertools
import sys
from collections.abc import Sequence
from contextlib import suppress

import anyio
import pytest

from tests.bus.buses import BusFactory, buses_that, open_bus, records_of
from tests.bus.processes import python
from tidings.bus import Records, StoredRecord
from tidings.bus.memory import MemoryRecords
from tidings.bus.streams import EventStream, Lease, Retention, StreamPage
from tidings.errors import BusUnavailable

pytestmark = pytest.mark.anyio

LARGEST = bytes(range(256)) * 1900  # 486 kB


def payloads(page: StreamPage) -> list[bytes]:
    return [event.payload for event in page.events]


async def fill(stream: EventStream, names: Sequence[str]) -> list[str]:
    """Append an event for each name: the cursors."""
    return [(await stream.append(name.encode())).cursor for name in names]


async def test_events_are_read_in_order_from_any_cursor(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        stream = EventStream(records_of(bus), "orders")
        beginning = await stream.end()
        assert await stream.read(None) == StreamPage([], beginning)
        cursors = await fill(stream, "abcab")  # Equal ones are kept, too.
        assert payloads(await stream.read(None)) == [b"a", b"b", b"c", b"a", b"b"]
        for place, cursor in enumerate([beginning, *cursors]):
            page = await stream.read(cursor)
            assert payloads(page) == [b"a", b"b", b"c", b"a", b"b"][place:]
            assert (page.cursor, page.truncated, page.more) == (cursors[-1], False, False)
        assert await stream.end() == cursors[-1]


async def test_a_page_says_whether_there_is_more(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        stream = EventStream(records_of(bus), "orders")
        cursor: str | None = await stream.end()
        await fill(stream, [str(number) for number in range(70)])
        found: list[bytes] = []
        for most, more in ((1, True), (33, True), (30, True), (6, False), (5, False)):
            page = await stream.read(cursor, most)
            assert (len(page.events) <= most, page.more, page.truncated) == (True, more, False)
            cursor, found = page.cursor, found + payloads(page)
        assert found == [str(number).encode() for number in range(70)]


async def test_streams_do_not_mix_and_bytes_come_back_as_they_were(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        one, other = (EventStream(records_of(bus), key) for key in ("a", "a/b"))
        for payload in (b"", b"\n\0 \xff", LARGEST):
            await one.append(payload)
        await other.append(b"other")
        assert payloads(await one.read(None)) == [b"", b"\n\0 \xff", LARGEST]
        assert payloads(await other.read(None)) == [b"other"]


async def test_only_the_newest_are_kept_by_count(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        stream = EventStream(records_of(bus), "orders", Retention(count=3))
        cursors = await fill(stream, "abcdefgh")
        assert payloads(await stream.read(None)) == [b"f", b"g", b"h"]
        assert not (await stream.read(None)).truncated  # Nothing in particular was asked for.
        assert (await stream.read(cursors[4])).truncated is False
        for cursor in cursors[:4]:
            page = await stream.read(cursor)
            assert (payloads(page), page.truncated) == ([b"f", b"g", b"h"], True)
        assert payloads(await EventStream(records_of(bus), "orders").read(None)) == [b"f", b"g", b"h"]  # Deleted.


async def test_only_the_newest_are_kept_by_bytes(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        stream = EventStream(records_of(bus), "orders", Retention(bytes=1_000))
        sizes = [400, 400, 400, 10, 0, 900, 90, 10, 400]
        cursors = [(await stream.append(b"x" * size)).cursor for size in sizes]
        for place, cursor in enumerate(cursors):
            kept = [size for n, size in enumerate(sizes) if n > place and sum(sizes[n:]) <= 1_000]
            page = await stream.read(cursor)
            assert [len(each) for each in payloads(page)] == kept
            assert page.truncated == (len(kept) < len(sizes) - place - 1)
        assert [len(each) for each in payloads(await stream.read(None))] == [90, 10, 400]


async def test_an_event_that_exceeds_all_bytes_is_gone_at_once_and_that_is_said(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        stream = EventStream(records_of(bus), "orders", Retention(bytes=10))
        beginning = await stream.end()
        large = await stream.append(b"x" * 11)
        page = await stream.read(beginning)
        assert (payloads(page), page.truncated) == ([], True)
        assert (await stream.read(large.cursor)).truncated is False
        await stream.append(b"small")
        assert payloads(await stream.read(large.cursor)) == [b"small"]


@buses_that(lambda bus: bus.has_clock)
async def test_old_events_go_by_the_clock_of_the_bus(bus_factory: BusFactory) -> None:
    now = 1_000.0
    async with bus_factory.open(clock=lambda: now) as bus:
        stream = EventStream(records_of(bus), "orders", Retention(age=100))
        old = await fill(stream, "ab")
        now += 60
        young = await fill(stream, "cd")
        assert payloads(await stream.read(None)) == [b"a", b"b", b"c", b"d"]
        now += 60
        page = await stream.read(old[0])
        assert (payloads(page), page.truncated) == ([b"c", b"d"], True)
        assert (await stream.read(old[1])).truncated is False
        now += 60
        page = await stream.read(young[0])
        assert (payloads(page), page.truncated) == ([], True)
        assert (await stream.read(page.cursor)).truncated is False
        again = await fill(EventStream(records_of(bus), "orders", Retention(age=100)), "e")
        assert payloads(await stream.read(young[1])) == [b"e"]
        assert again[0] not in old + young  # No number is given twice.


@pytest.mark.parametrize("text", ["", "nonsense", "abc.1.", "0123456789ab.-1.", "0123456789ab.1.zz", "1:2", "é.1."])
async def test_what_is_no_cursor_is_refused(bus_factory: BusFactory, text: str) -> None:
    async with bus_factory.open() as bus:
        with pytest.raises(ValueError, match="not a cursor"):
            await EventStream(records_of(bus), "orders").read(text)


async def test_a_cursor_of_another_stream_or_of_the_future_begins_anew(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        stream = EventStream(records_of(bus), "orders")
        await fill(stream, "abc")
        epoch = (await stream.end()).partition(".")[0]
        for cursor in ("0123456789ab.1.", f"{epoch}.4.", f"{epoch}.999999999999999.", f"{epoch}.2.00000000"):
            page = await stream.read(cursor)
            assert (payloads(page), page.truncated) == ([b"a", b"b", b"c"], True)


async def test_appending_at_once_loses_nothing_and_mixes_nothing(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        streams = [EventStream(records_of(bus), "orders") for _ in range(4)]
        events = [f"{number}-{each}" for number in range(10) for each in range(4)]
        async with anyio.create_task_group() as tasks:
            for place, stream in enumerate(streams):
                tasks.start_soon(fill, stream, events[place::4])
        found = [payload.decode() for payload in payloads(await streams[0].read(None))]
        assert sorted(found) == sorted(events)
        for place in range(4):
            assert [each for each in found if each.endswith(f"-{place}")] == events[place::4]


@buses_that(lambda bus: bus.shared)
async def test_several_handles_share_a_stream(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as one, bus_factory.open() as other:
        first, second = (EventStream(records_of(each), "orders") for each in (one, other))
        cursor = await first.end()
        for number in range(6):
            await (first, second)[number % 2].append(str(number).encode())
        for stream in (first, second):
            assert payloads(await stream.read(cursor)) == [b"0", b"1", b"2", b"3", b"4", b"5"]


@buses_that(lambda bus: bus.outlives)
async def test_a_stream_outlives_its_users(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        cursors = await fill(EventStream(records_of(bus), "orders"), "abc")
    async with bus_factory.open() as bus:
        stream = EventStream(records_of(bus), "orders")
        assert payloads(await stream.read(cursors[0])) == [b"b", b"c"]
        assert await stream.end() == cursors[-1]
        await stream.append(b"d")
        assert payloads(await stream.read(cursors[2])) == [b"d"]


@buses_that(lambda bus: bus.outlives)
async def test_an_older_copy_in_place_of_the_stream_is_noticed(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        before = await fill(EventStream(records_of(bus), "orders"), "ab")
    restore = await bus_factory.copy()
    async with bus_factory.open() as bus:
        lost = await fill(EventStream(records_of(bus), "orders"), "cd")
    await restore()
    async with bus_factory.open() as bus:
        stream = EventStream(records_of(bus), "orders")
        assert (await stream.read(lost[0])).truncated
        await fill(stream, "xyz")
        for cursor in lost:
            page = await stream.read(cursor)
            assert (payloads(page), page.truncated) == ([b"a", b"b", b"x", b"y", b"z"], True)
        assert payloads(await stream.read(before[-1])) == [b"x", b"y", b"z"]


class FragileRecords(MemoryRecords):
    """Records that one may lose parts of, and whose writes fail from some point on."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.left = 1_000_000

    async def put(self, key: str, value: bytes, *, seconds: float, revision: int | None = None) -> StoredRecord | None:
        self.left -= 1
        if self.left < 0:
            raise BusUnavailable("It is away.")
        return await super().put(key, value, seconds=seconds, revision=revision)


async def test_the_stream_goes_on_wherever_a_writer_was_killed() -> None:
    for writes in range(12):
        records = FragileRecords()
        acknowledged: list[str] = []
        records.left = writes
        stream = EventStream(records, "orders", Retention(count=100))
        with suppress(BusUnavailable):
            for name in map(str, itertools.count()):
                await stream.append(name.encode())
                acknowledged.append(name)
        records.left = 1_000_000
        after = EventStream(records, "orders", Retention(count=100))
        await after.append(b"next")
        found = [each.decode() for each in payloads(await after.read(None))]
        unsure = [str(len(acknowledged))]
        assert found in ([*acknowledged, "next"], [*acknowledged, *unsure, "next"])


async def test_a_stream_whose_record_was_lost_begins_anew_for_its_writer_too() -> None:
    records = FragileRecords()
    stream = EventStream(records, "orders")
    cursor = (await stream.append(b"a")).cursor
    await records.delete("orders")
    await stream.append(b"b")
    page = await EventStream(records, "orders").read(cursor)
    assert (payloads(page), page.truncated) == ([b"b"], True)


@pytest.mark.parametrize("options", [{"count": 0}, {"age": 0}, {"bytes": -1}])
def test_a_retention_keeps_something(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="> 0"):
        Retention(**options)


# Leases


async def test_one_at_a_time_holds_a_lease(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        one, other = (Lease(records_of(bus), "work", 60) for _ in range(2))
        assert not one.is_held
        assert await one.take()
        assert await other.take() is False
        assert await one.take()  # For some time more.
        assert (one.is_held, other.is_held) == (True, False)
        await other.leave()  # Which it does not hold.
        assert await other.take() is False
        await one.leave()
        assert not one.is_held
        assert await other.take()


@buses_that(lambda bus: bus.has_clock)
async def test_a_lease_ends_by_itself_first_for_its_holder(bus_factory: BusFactory) -> None:
    now = 1_000.0
    async with bus_factory.open(clock=lambda: now) as bus:
        one, other = (Lease(records_of(bus), "work", 10, clock=lambda: now) for _ in range(2))
        assert await one.take()
        now += 9.5
        assert not one.is_held
        assert await other.take() is False
        now += 1
        assert await other.take()
        assert await one.take() is False
        await one.leave()  # Too late: it is the other's.
        assert await Lease(records_of(bus), "work", 10).take() is False


async def test_of_many_one_gets_the_lease(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        leases = [Lease(records_of(bus), "work", 60) for _ in range(8)]
        assert sum(await asyncio.gather(*(each.take() for each in leases))) == 1


# A process that is killed


async def append_for_ever(address: str) -> None:
    """The program of the process that is killed."""
    async with open_bus(address) as bus:
        stream = EventStream(records_of(bus), "orders")
        for number in range(1_000_000):
            event = await stream.append(str(number).encode())
            sys.stdout.write(f"{number} {event.cursor}\n")
            sys.stdout.flush()


@buses_that(lambda bus: bus.shared and bus.reaches_processes)
async def test_what_was_appended_is_there_after_kill_9(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:  # It begins the log, as a server does.
        async with python("-m", "tests.bus.test_streams", bus_factory.address) as writer:
            for _ in range(20):
                await writer.line()
            writer.process.kill()
            said = [*await writer.rest()]
            await writer.process.wait()
        records: Records = records_of(bus)
        last = int(said[-1].split()[0]) if said else 19
        found = [int(each) for each in payloads(await EventStream(records, "orders").read(None))]
        assert found == list(range(len(found)))
        assert last < len(found) <= last + 2


if __name__ == "__main__":
    asyncio.run(append_for_ever(sys.argv[1]))
