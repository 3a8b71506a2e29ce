"""What only a `SqliteBus` promises: about its thread, its locks, its boots, and how it looks for news."""

import asyncio
import itertools
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from tests.bus.buses import Ear
from tests.bus.files import A, B, C
from tidings.bus import History
from tidings.bus.shared import NOWHERE
from tidings.bus.sqlite import SqliteBus
from tidings.changes import ResourceUpdated
from tidings.errors import BusUnavailable, InvalidUri

pytestmark = pytest.mark.anyio


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "tidings-sqlite-bus"]


async def test_leaving_closes_everything(path: Path) -> None:
    async with SqliteBus(path) as bus:
        bus.subscribe(Ear())
        await bus.publish(A)
        assert len(threads()) == 1
    assert threads() == []
    assert [file.name for file in path.parent.iterdir()] == ["bus.db"]


async def test_leaving_while_cancelled_still_closes_everything(path: Path) -> None:
    with anyio.CancelScope() as scope:
        async with SqliteBus(path) as bus:
            await bus.publish(A)
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert threads() == []


async def test_a_bus_that_cannot_be_opened_leaves_no_thread_and_can_be_tried_again(tmp_path: Path) -> None:
    bus = SqliteBus(tmp_path / "later" / "bus.db")
    with pytest.raises(BusUnavailable):
        await bus.__aenter__()
    (tmp_path / "later").mkdir()
    async with bus:
        await bus.publish(A)
        assert len(threads()) == 1


async def test_before_it_is_entered_the_head_is_nowhere_and_listeners_may_come(path: Path) -> None:
    bus, ear = SqliteBus(path), Ear()
    bus.subscribe(ear)
    assert bus.head == NOWHERE
    with pytest.raises(BusUnavailable, match="async with"):
        await bus.since(NOWHERE)
    async with bus, SqliteBus(path) as other:
        await ear.until_after(await other.publish(A))
    assert ear.changes == [A]


async def test_the_loop_goes_on_while_the_file_is_locked(path: Path) -> None:
    async with SqliteBus(path) as bus:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            publishing = asyncio.create_task(bus.publish(A))
            # Were the loop to wait for the lock, it could never let go of it here.
            await anyio.lowlevel.checkpoint()
            other.execute("ROLLBACK")
            assert (await publishing).version == 1


async def test_a_lock_that_lasts_too_long_is_explained_and_over_when_it_is_over(path: Path) -> None:
    async with SqliteBus(path, timeout=0.01) as bus:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            results = await asyncio.gather(bus.publish(A), bus.publish(B), return_exceptions=True)
            assert all(isinstance(error, BusUnavailable) and "stayed locked" in str(error) for error in results)
            assert results[0] is not results[1]
            with pytest.raises(BusUnavailable, match="stayed locked"):
                async with SqliteBus(path, timeout=0.01):
                    pass
        cursor = await bus.publish(C)
        assert (cursor.version, await bus.since(cursor)) == (1, [])


async def test_what_waits_to_be_moved_into_the_main_file_stays_small(path: Path) -> None:
    async with SqliteBus(path, history=History(entries=100)) as bus:
        for n in range(2000):
            await bus.publish(ResourceUpdated(f"note://{n % 150}"))
        wal = await anyio.Path(f"{path}-wal").stat()
        assert wal.st_size < 8_000_000


async def test_a_reader_that_lingers_does_not_stop_publishers(path: Path) -> None:
    async with SqliteBus(path) as bus:
        await bus.publish(A)
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM changes").fetchall()
            with anyio.fail_after(20):
                for n in range(500):
                    last = await bus.publish(ResourceUpdated(f"note://{n}"))
    async with SqliteBus(path) as bus:
        assert bus.head == last


async def test_many_open_a_new_file_at_once(path: Path) -> None:
    buses = [SqliteBus(path) for _ in range(8)]
    await asyncio.gather(*(bus.__aenter__() for bus in buses))
    cursors = await asyncio.gather(*(bus.publish(A) for bus in buses))
    assert sorted(cursor.version for cursor in cursors) == list(range(1, 9))
    assert len({cursor.epoch for cursor in cursors}) == 1
    await asyncio.gather(*(bus.__aexit__(None, None, None) for bus in buses))


async def test_a_change_that_no_file_can_hold_spoils_no_other(path: Path) -> None:
    async with SqliteBus(path) as bus:
        results = await asyncio.gather(
            bus.publish(A), bus.publish(ResourceUpdated("note://\ud800")), bus.publish(B), return_exceptions=True
        )
        assert isinstance(results[1], InvalidUri)
        assert bus.head.version == 2


async def test_foreign_changes_come_before_an_own_one_that_is_later(path: Path) -> None:
    async with SqliteBus(path, poll=3600) as bus, SqliteBus(path) as other:
        ear = Ear()
        bus.subscribe(ear)
        await bus.since(bus.head)
        log = [(await other.publish(A), A), (await other.publish(B), B), (await bus.publish(C), C)]
        assert ear.heard == log


async def test_a_new_listener_hears_of_all_after_the_head_at_that_time(path: Path) -> None:
    async with SqliteBus(path, poll=3600) as bus, SqliteBus(path) as other:
        # Nobody listens, so this goes unseen.
        first = await other.publish(A)
        assert bus.head < first
        ear = Ear()
        bus.subscribe(ear)
        await ear.until_after(first)
        assert ear.heard == [(first, A)]


async def test_a_process_that_was_away_for_longer_than_the_history_is_told(path: Path) -> None:
    history = History(entries=2)
    async with SqliteBus(path, poll=3600, history=history) as bus, SqliteBus(path, history=history) as other:
        ear = Ear()
        bus.subscribe(ear)
        await bus.since(bus.head)
        for change in (A, B, C):
            last = await other.publish(change)
        bus.subscribe(lambda *_: None)
        await ear.until_after(last)
        assert ear.heard == [(last, None)]
        await bus.publish(A)
        assert ear.changes == [None, A]


async def test_versions_are_never_given_twice_though_all_entries_went(path: Path) -> None:
    times = itertools.count(0.0, 10.0)
    async with SqliteBus(path, history=History(entries=1, age=1), clock=times.__next__) as bus:
        last = [await bus.publish(change) for change in (A, B, A)][-1]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM changes")
    async with SqliteBus(path, history=History(entries=1, age=1), clock=times.__next__) as bus:
        assert await bus.publish(B) > last


async def test_another_boot_of_the_machine_starts_a_new_epoch(path: Path) -> None:
    async with SqliteBus(path) as bus:
        before = await bus.publish(A)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE log SET boot = 'yesterday' WHERE boot <> ''")
    async with SqliteBus(path) as bus:
        assert bus.head.epoch != before.epoch
        assert await bus.since(before) is None
        after = await bus.publish(B)
        assert after.version > before.version
    async with SqliteBus(path) as bus:
        assert bus.head == after


async def test_a_durable_log_does_not_care_about_boots(path: Path) -> None:
    async with SqliteBus(path, durable=True) as bus:
        await bus.publish(A)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT boot FROM log").fetchone() == ("",)


@pytest.mark.parametrize("wrong", [{"poll": 0}, {"poll": -1}, {"poll": float("nan")}, {"timeout": -1}])
def test_senseless_options_are_refused(path: Path, wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="seconds"):
        SqliteBus(path, **wrong)


def test_a_loop_that_ends_without_leaving_the_bus_ends_the_thread(path: Path) -> None:
    async def forget() -> None:
        bus = SqliteBus(path, poll=0.005)
        await bus.__aenter__()
        bus.subscribe(Ear())

    asyncio.run(forget())
    [thread] = threads()
    # What another publishes is news, for which there is no loop any more.
    asyncio.run(_publish(path))
    thread.join(timeout=10)
    assert not thread.is_alive()


async def _publish(path: Path) -> None:
    async with SqliteBus(path) as bus:
        await bus.publish(A)


async def test_a_bus_knows_its_own_changes_while_they_are_told(path: Path) -> None:
    heard: list[tuple[object, bool]] = []
    async with SqliteBus(path) as bus, SqliteBus(path) as other:
        bus.subscribe(lambda cursor, change: heard.append((change, bus.is_own(cursor))))
        await bus.publish(A)
        await other.publish(B)
        await bus.publish(C)
        await other.publish(A)  # The same change, but not this one's.
        with anyio.fail_after(5):
            while len(heard) < 4:  # noqa: ASYNC110 - nobody tells
                await anyio.sleep(0.01)
    assert heard == [(A, True), (B, False), (C, True), (A, False)]
