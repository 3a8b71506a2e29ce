"""The file of a `SqliteBus` while it is used: deleted, replaced, put back, moved away."""

import shutil
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.bus.buses import Ear
from tests.bus.files import TRY_TO_PUBLISH, A, B, C, is_text, make, remove
from tests.bus.processes import python
from tests.telemetry import collect
from tidings.bus.sqlite import SqliteBus
from tidings.changes import Cursor, ResourceUpdated
from tidings.errors import BusMismatch, BusUnavailable

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("suffixes", [("",), ("", "-wal", "-shm"), ("-shm", "-wal", "")])
async def test_a_deleted_file_is_made_anew_whatever_is_left_of_it(path: Path, suffixes: tuple[str, ...]) -> None:
    async with SqliteBus(path, poll=0.005) as one, SqliteBus(path, poll=0.005) as two:
        ears = (Ear(), Ear())
        one.subscribe(ears[0])
        two.subscribe(ears[1])
        old = await one.publish(A)
        await ears[1].until_after(old)
        remove(path, *suffixes)
        new = await two.publish(B)
        for ear in ears:
            await ear.until_after(new)
            assert ear.changes.count(None) == 1
        last = await one.publish(C)
        await ears[1].until_after(last)
        assert new.epoch == last.epoch != old.epoch
        assert await one.since(new) == await two.since(new) == [(last, C)]


async def test_a_process_that_has_not_noticed_a_deletion_does_not_spoil_the_new_file(path: Path) -> None:
    async with SqliteBus(path, poll=3600) as bus:
        old = [await bus.publish(ResourceUpdated(f"note://{n}")) for n in range(50)][-1]
        remove(path, "")
        async with python("-c", TRY_TO_PUBLISH, str(path)) as process:
            said = await process.line()
        assert said.startswith("stored as")
        new = await bus.publish(B)
        assert new.epoch != old.epoch
        assert said.startswith(f"stored as {new.epoch}:1-")
        assert [change for _, change in await bus.since(Cursor(new.epoch, 0)) or ()] == [A, B]


async def test_a_file_deleted_in_the_middle_of_a_publish_costs_nothing(path: Path) -> None:
    deletions = 1

    def delete_once() -> float:
        # The clock is read within the transaction.
        nonlocal deletions
        if deletions:
            deletions -= 1
            remove(path, "", "-wal", "-shm")
        return 0.0

    async with SqliteBus(path, clock=delete_once) as bus:
        old, ear = bus.head, Ear()
        bus.subscribe(ear)
        cursor = await bus.publish(A)
        assert cursor.epoch != old.epoch
        assert ear.heard == [(cursor, None)]
        async with SqliteBus(path) as other:
            assert await other.since(Cursor(cursor.epoch, 0)) == [(cursor, A)]


async def test_a_file_that_is_deleted_all_the_time_is_given_up(path: Path) -> None:
    def delete() -> float:
        remove(path, "", "-wal", "-shm")
        return 0.0

    async with SqliteBus(path, clock=delete) as bus:
        with pytest.raises(BusUnavailable, match="again and again"):
            await bus.publish(A)


async def test_a_file_that_takes_the_place_of_another_is_noticed(path: Path) -> None:
    other = path.with_name("other.db")
    theirs = await make(other)
    async with SqliteBus(path, poll=0.005) as bus:
        ear = Ear()
        bus.subscribe(ear)
        await bus.publish(A)
        remove(path, "-wal", "-shm")
        other.replace(path)
        await ear.until(lambda ear: None in ear.changes)
        assert ear.heard[-1] == (theirs, None)
        assert bus.head == theirs


@pytest.mark.parametrize("poll", [0.005, 3600], ids=["noticed by looking", "noticed by publishing"])
async def test_an_older_copy_put_back_starts_a_new_epoch(path: Path, poll: float) -> None:
    old = await make(path)
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    async with SqliteBus(path, poll=poll) as bus:
        ear = Ear()
        bus.subscribe(ear)
        await bus.publish(B)
        remove(path, "-wal", "-shm")
        copy.replace(path)
        if poll < 1:
            await ear.until(lambda ear: None in ear.changes)
        else:
            await bus.publish(A)
        new = await bus.publish(C)
        assert old.epoch != new.epoch
        assert ear.changes == [B, None, C]
        assert ear.in_order


async def test_a_file_turned_to_rubbish_is_refused_until_it_is_gone(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with SqliteBus(path, poll=0.005) as bus:
        ear = Ear()
        bus.subscribe(ear)
        await bus.publish(A)
        rubbish = path.with_name("rubbish")
        is_text(rubbish)
        remove(path, "-wal", "-shm")
        rubbish.replace(path)
        with pytest.raises(BusMismatch, match="not a database"):
            await bus.publish(B)
        with pytest.raises(BusMismatch):
            await bus.since(bus.head)
        with anyio.fail_after(10):
            while bus.state.connected:  # noqa: ASYNC110 - looked for by a thread
                await anyio.sleep(0.005)
        assert "not a database" in bus.state.reason
        remove(path, "")
        await ear.until(lambda ear: None in ear.changes)
        assert bus.state.connected
        await bus.publish(B)
        assert ear.changes == [A, None, B]
    assert not bus.state.connected
    assert caplog.text.count("is out of reach") == 1


async def test_what_a_bus_does_is_counted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = partial(collect(monkeypatch).values, tidings__bus__engine="sqlite")
    async with SqliteBus(path, poll=0.005) as bus:
        ear = Ear()
        bus.subscribe(ear)
        for change in (A, B):
            await bus.publish(change)
        usual = {"connected": 1, "waiting": 0, "published": 2, "publish.duration": 2}
        assert counted() == {f"tidings.bus.{name}": value for name, value in usual.items()}
        rubbish = path.with_name("rubbish")
        is_text(rubbish)
        remove(path, "-wal", "-shm")
        rubbish.replace(path)
        with pytest.raises(BusMismatch):
            await bus.publish(C)
        with anyio.fail_after(10):
            while bus.state.connected:  # noqa: ASYNC110 - looked for by a thread
                await anyio.sleep(0.005)
        assert counted() | {"tidings.bus.connected": 0, "tidings.bus.outages": 1} == counted()
        assert counted() | {"tidings.bus.waiting": 0, "tidings.bus.published": 2} == counted()
        remove(path, "")
        await ear.until(lambda ear: None in ear.changes)
        assert counted() | {"tidings.bus.connected": 1, "tidings.bus.losses": 1} == counted()
    assert counted()["tidings.bus.connected"] == 0


async def test_a_folder_that_went_away_and_came_back_with_its_file_loses_nothing(tmp_path: Path) -> None:
    folder, away = tmp_path / "folder", tmp_path / "away"
    folder.mkdir()
    async with SqliteBus(folder / "bus.db", poll=0.005) as bus:
        ear, start = Ear(), bus.head
        bus.subscribe(ear)
        first = await bus.publish(A)
        folder.rename(away)
        with pytest.raises(BusUnavailable, match="there is no folder"):
            await bus.publish(B)
        async with SqliteBus(away / "bus.db") as other:
            second = await other.publish(C)
        away.rename(folder)
        await ear.until_after(second)
        assert ear.heard == await bus.since(start) == [(first, A), (second, C)]
