"""The file of a `SqliteBus`: deleted, replaced, damaged, of somebody else, out of reach, full."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from tests.bus.buses import Ear
from tests.bus.processes import python
from tidings.bus.sqlite import SqliteBus
from tidings.changes import Cursor, ResourceUpdated
from tidings.errors import BusMismatch, BusUnavailable

pytestmark = pytest.mark.anyio

A, B, C = (ResourceUpdated(f"note://{name}") for name in "abc")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bus.db"


def change_file(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def remove(path: Path, *suffixes: str) -> None:
    for suffix in suffixes:
        Path(f"{path}{suffix}").unlink(missing_ok=True)


async def make(path: Path) -> Cursor:
    async with SqliteBus(path) as bus:
        return await bus.publish(A)


def content(path: Path) -> bytes:
    return path.read_bytes()


def overwrite_all_but_the_header(path: Path) -> None:
    path.write_bytes(content(path)[:100] + b"\xff" * (len(content(path)) - 100))


def is_text(path: Path) -> None:
    path.write_text("Dear diary, today I learnt about databases. " * 100)


def is_another_database(path: Path) -> None:
    change_file(path, "CREATE TABLE notes (text)")


def is_marked_by_another_application(path: Path) -> None:
    change_file(path, "PRAGMA application_id = 7")


@pytest.mark.parametrize("spoil", [is_text, is_another_database, is_marked_by_another_application])
async def test_a_file_of_somebody_else_is_refused_and_left_as_it_is(path: Path, spoil: Callable[[Path], None]) -> None:
    spoil(path)
    before = content(path)
    with pytest.raises(BusMismatch, match="left as it is") as caught:
        await make(path)
    assert str(path) in str(caught.value)
    assert content(path) == before


async def test_a_file_of_another_version_is_refused(path: Path) -> None:
    await make(path)
    change_file(path, "PRAGMA user_version = 99")
    with pytest.raises(BusMismatch, match="schema 99, this one has 1"):
        await make(path)


@pytest.mark.parametrize(
    "damage", ["DROP TABLE changes", "DELETE FROM log", "DROP TABLE log", "UPDATE changes SET key = 'gossip'"]
)
async def test_a_file_that_lacks_its_parts_is_refused(path: Path, damage: str) -> None:
    cursor = await make(path)
    change_file(path, damage)
    with pytest.raises(BusMismatch, match="delete it"):
        async with SqliteBus(path) as bus:
            await bus.since(Cursor(cursor.epoch, 0))


async def test_a_damaged_file_is_refused(path: Path) -> None:
    await make(path)
    overwrite_all_but_the_header(path)
    with pytest.raises(BusMismatch, match="damaged"):
        await make(path)


async def test_an_empty_file_becomes_a_log(path: Path) -> None:
    await anyio.Path(path).touch()
    assert (await make(path)).version == 1


def no_folder(path: Path) -> Path:
    return path / "missing" / "bus.db"


def folder_is_a_file(path: Path) -> Path:
    path.parent.joinpath("file").touch()
    return path.parent / "file" / "bus.db"


def is_a_folder(path: Path) -> Path:
    path.mkdir()
    return path


def too_long(path: Path) -> Path:
    return path.with_name("x" * 300)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (no_folder, "Create it"),
        (folder_is_a_file, "is not a folder"),
        (is_a_folder, "Name a file in it"),
        (too_long, "cannot be used"),
    ],
)
async def test_a_path_that_cannot_be_a_file_is_explained(path: Path, place: Callable[[Path], Path], words: str) -> None:
    with pytest.raises(BusUnavailable, match=words):
        await make(place(path))


TRY_TO_PUBLISH = """
import anyio, sys
from tests.bus.test_sqlite_file import make
from pathlib import Path
try:
    anyio.run(make, Path(sys.argv[1]))
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root may write everywhere")
@pytest.mark.parametrize("what", ["folder", "file"])
async def test_what_this_user_may_not_write_is_explained(path: Path, what: str) -> None:
    # Root without its capabilities is a user like others.
    ordinary = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"] if os.geteuid() == 0 else []
    if what == "file":
        await make(path)
    (path if what == "file" else path.parent).chmod(0o555)
    try:
        async with python("-c", TRY_TO_PUBLISH, str(path), before=ordinary) as process:
            said = await process.line()
    finally:
        path.parent.chmod(0o755)
    assert said.startswith("BusUnavailable")
    assert "this user may not" in said


FILL = """
import anyio, resource
from pathlib import Path
from tidings.bus.sqlite import SqliteBus
from tidings.changes import ResourceUpdated
from tidings.errors import BusUnavailable

async def main(path):
    stored, n = {}, 0
    async with SqliteBus(path) as bus:
        start = bus.head
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
        try:
            while True:
                n += 1
                change = ResourceUpdated(f"note://{n}/" + "x" * 2000)
                stored[change] = await bus.publish(change)
        except BusUnavailable as error:
            print(error.retryable, error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        stored[change] = await bus.publish(change)
        assert {change: cursor for cursor, change in await bus.since(start)} == stored
        assert n > 20
    print("all there")

anyio.run(main, Path(__import__("sys").argv[1]))
"""


async def test_a_full_disk_refuses_what_it_cannot_store_and_loses_nothing_else(path: Path) -> None:
    async with python("-c", FILL, str(path)) as process:
        refusal = await process.line()
        assert refusal.startswith("True")
        assert "Look at its disk" in refusal
        assert await process.line() == "all there"


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
        remove(path, "")
        await ear.until(lambda ear: None in ear.changes)
        await bus.publish(B)
        assert ear.changes == [A, None, B]
    assert caplog.text.count("not heard for now") <= 1


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
