"""What every bus promises, tried on each: within one process. `test_contract_shared.py` goes on from there."""

import asyncio
import threading

import anyio
import pytest

from tests.bus.buses import BusFactory, Ear, buses_that, newest
from tidings.bus import Entry, History
from tidings.changes import Change, Cursor, PromptsListChanged, ResourcesListChanged, ResourceUpdated, ToolsListChanged
from tidings.errors import BusUnavailable

pytestmark = pytest.mark.anyio

A, B, C = (ResourceUpdated(f"note://{name}") for name in "abc")
KINDS: list[Change] = [A, ToolsListChanged(), PromptsListChanged(), ResourcesListChanged(), ResourceUpdated("tools:")]


async def test_a_listener_hears_each_change_with_the_cursor_that_publish_returned(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        ear = Ear()
        bus.subscribe(ear)
        published = [(await bus.publish(change), change) for change in KINDS]
        await ear.until_after(published[-1][0])
        assert ear.heard == published


async def test_versions_rise_in_one_epoch_and_the_head_follows(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        cursors = [bus.head, await bus.publish(A), await bus.publish(A), await bus.publish(B)]
        assert {cursor.epoch for cursor in cursors} == {bus.head.epoch}
        assert cursors == sorted(set(cursors))
        assert bus.head == cursors[-1]


async def test_since_gives_the_newest_of_each_change_in_order(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        start = bus.head
        log: list[Entry] = [(await bus.publish(change), change) for change in [A, B, A, *KINDS, C, B]]
        for place in [start, *(cursor for cursor, _ in log)]:
            expected = newest([entry for entry in log if entry[0] > place])
            assert list(await bus.since(place) or ()) == expected
        assert await bus.since(bus.head) is not None


@pytest.mark.parametrize("ahead", [1, 10**6, 10**19])
async def test_since_does_not_know_the_future(bus_factory: BusFactory, ahead: int) -> None:
    async with bus_factory.open() as bus:
        await bus.publish(A)
        assert await bus.since(Cursor(bus.head.epoch, bus.head.version + ahead)) is None


async def test_since_knows_nothing_of_another_epoch_nor_of_what_never_was(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        await bus.publish(A)
        assert await bus.since(Cursor("another", bus.head.version)) is None
        assert await bus.since(Cursor("", 0)) is None
        assert await bus.since(Cursor(bus.head.epoch, -1)) is None


async def test_a_listener_that_fails_is_logged_and_reaches_nobody_else(
    bus_factory: BusFactory, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    async with bus_factory.open() as bus:
        before, after = Ear(), Ear()
        for listener in (before, fails, after):
            bus.subscribe(listener)
        await bus.publish(A)
        last = await bus.publish(B)
        await after.until_after(last)
        assert before.changes == after.changes == [A, B]
        assert "on purpose" in caplog.text


async def test_an_ended_listener_hears_nothing_and_may_be_ended_twice(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        ended, ear = Ear(), Ear()
        end = bus.subscribe(ended)
        bus.subscribe(ear)
        await ear.until_after(await bus.publish(A))
        end()
        end()
        await ear.until_after(await bus.publish(B))
        assert (ended.changes, ear.changes) == ([A], [A, B])


async def test_a_listener_can_end_itself_and_those_after_it(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        second, ear = Ear(), Ear()

        def first(*_: object) -> None:
            end_first()
            end_second()

        end_first, end_second = bus.subscribe(first), bus.subscribe(second)
        bus.subscribe(ear)
        await ear.until_after(await bus.publish(A))
        assert (second.changes, ear.changes) == ([], [A])


async def test_a_function_that_listens_twice_hears_twice_and_ends_once(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        ear = Ear()
        end = bus.subscribe(ear)
        bus.subscribe(ear)
        await ear.until_after(await bus.publish(A))
        end()
        await ear.until_after(await bus.publish(B))
        assert ear.changes == [A, A, B]


async def test_listeners_are_called_on_the_loop_on_which_the_bus_was_entered(bus_factory: BusFactory) -> None:
    places: list[tuple[object, int]] = []
    async with bus_factory.open() as bus:
        ear = Ear()
        bus.subscribe(lambda *_: places.append((asyncio.get_running_loop(), threading.get_ident())))
        bus.subscribe(ear)
        await ear.until_after(await bus.publish(A))
    assert places == [(asyncio.get_running_loop(), threading.get_ident())]


async def test_many_publish_at_once_and_each_is_heard_in_order(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        ear, start = Ear(), bus.head
        bus.subscribe(ear)
        changes = [ResourceUpdated(f"note://{n}") for n in range(200)]
        cursors = await asyncio.gather(*(bus.publish(change) for change in changes))
        await ear.until_after(max(cursors))
        assert len(set(cursors)) == 200
        assert ear.heard == sorted(zip(cursors, changes, strict=True), key=lambda entry: entry[0])
        assert ear.heard == list(await bus.since(start) or ())


async def test_the_last_of_many_equal_changes_is_heard(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        ear = Ear()
        bus.subscribe(ear)
        cursors = await asyncio.gather(*(bus.publish(A) for _ in range(50)))
        await ear.until_after(max(cursors))
        assert ear.in_order
        assert ear.heard[-1] == (max(cursors), A)


async def test_whoever_gives_up_publishing_disturbs_nobody(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        ear = Ear()
        bus.subscribe(ear)
        tasks = [asyncio.create_task(bus.publish(ResourceUpdated(f"note://{n}"))) for n in range(40)]
        await anyio.lowlevel.checkpoint()
        for task in tasks[::2]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await ear.until_after(await bus.publish(A))
        heard = dict(ear.heard)
        assert all(heard[cursor] for cursor in results if isinstance(cursor, Cursor))
        assert all(isinstance(result, Cursor) for result in results[1::2])
        assert ear.in_order


async def test_the_history_keeps_so_many_distinct_changes(bus_factory: BusFactory) -> None:
    async with bus_factory.open(history=History(entries=2)) as bus:
        start = bus.head
        first = await bus.publish(A)
        kept: list[Entry] = [(await bus.publish(change), change) for change in (B, C)]
        assert await bus.since(start) is None
        assert list(await bus.since(first) or ()) == kept
        assert bus.head == kept[-1][0]


async def test_what_is_published_again_does_not_fill_the_history(bus_factory: BusFactory) -> None:
    async with bus_factory.open(history=History(entries=2)) as bus:
        start = bus.head
        log: list[Entry] = [(await bus.publish(change), change) for change in (A, B, A, B, A, A)]
        assert list(await bus.since(start) or ()) == newest(log)


async def test_a_small_history_hides_nothing_from_a_listener(bus_factory: BusFactory) -> None:
    async with bus_factory.open(history=History(entries=1)) as bus:
        ear = Ear()
        bus.subscribe(ear)
        cursors = await asyncio.gather(*(bus.publish(change) for change in (A, B, C)))
        await ear.until_after(max(cursors))
        assert set(ear.changes) == {A, B, C}


@buses_that(lambda bus: bus.has_clock)
async def test_the_history_keeps_nothing_for_longer_than_its_age(bus_factory: BusFactory) -> None:
    now = 1000.0
    async with bus_factory.open(history=History(age=60), clock=lambda: now) as bus:
        start = bus.head
        first = await bus.publish(A)
        now = 1060.0
        second = await bus.publish(B)
        assert list(await bus.since(start) or ()) == [(first, A), (second, B)]
        now = 1061.0
        third = await bus.publish(C)
        assert await bus.since(start) is None
        assert list(await bus.since(first) or ()) == [(second, B), (third, C)]


@buses_that(lambda bus: bus.has_clock)
async def test_a_clock_that_steps_back_breaks_nothing(bus_factory: BusFactory) -> None:
    now = 1000.0
    async with bus_factory.open(history=History(entries=3, age=60), clock=lambda: now) as bus:
        ear, start = Ear(), bus.head
        bus.subscribe(ear)
        log: list[Entry] = [(await bus.publish(A), A)]
        now = -5000.0
        log += [(await bus.publish(change), change) for change in (B, A, C)]
        assert list(await bus.since(start) or ()) == newest(log)
        await ear.until_after(await bus.publish(ResourceUpdated("note://d")))
        assert ear.in_order
        assert await bus.since(start) is None


async def test_a_bus_that_was_left_refuses_to_publish_and_may_be_left_twice(bus_factory: BusFactory) -> None:
    bus = bus_factory.open()
    async with bus:
        await bus.publish(A)
    await bus.__aexit__(None, None, None)
    with pytest.raises(BusUnavailable) as caught:
        await bus.publish(B)
    assert caught.value.retryable


async def test_a_bus_that_several_share_is_left_when_all_have_left(bus_factory: BusFactory) -> None:
    async with bus_factory.open() as bus:
        ear = Ear()
        async with bus:
            bus.subscribe(ear)
        await ear.until_after(await bus.publish(A))
        assert ear.changes == [A]


async def test_a_bus_can_be_entered_again_and_its_log_goes_on(bus_factory: BusFactory) -> None:
    bus, ear = bus_factory.open(), Ear()
    async with bus:
        start = bus.head
        bus.subscribe(ear)
        first = await bus.publish(A)
    async with bus:
        second = await bus.publish(B)
        assert list(await bus.since(start) or ()) == [(first, A), (second, B)]
    assert ear.changes == [A]


async def test_what_was_accepted_is_finished_before_the_bus_is_left(bus_factory: BusFactory) -> None:
    bus, ear = bus_factory.open(), Ear()
    async with bus:
        bus.subscribe(ear)
        tasks = [asyncio.create_task(bus.publish(ResourceUpdated(f"note://{n}"))) for n in range(100)]
        await anyio.lowlevel.checkpoint()
    cursors = [await task for task in tasks]
    assert [cursor for cursor, _ in ear.heard] == cursors


@pytest.mark.parametrize("wrong", [{"entries": 0}, {"age": 0}, {"age": -1}, {"age": float("nan")}])
def test_a_history_that_keeps_nothing_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="not"):
        History(**wrong)  # type: ignore[arg-type]
