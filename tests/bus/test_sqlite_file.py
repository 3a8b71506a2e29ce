"""The file of a `SqliteBus` that is no good: of somebody else, damaged, out of reach, on a full disk."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from tests.bus.files import (
    TRY_TO_PUBLISH,
    B,
    change_file,
    content,
    is_another_database,
    is_marked_by_another_application,
    is_text,
    make,
    overwrite_all_but_the_header,
)
from tests.bus.processes import python
from tidings.bus.sqlite import SqliteBus
from tidings.changes import Cursor
from tidings.errors import BusMismatch, BusUnavailable

pytestmark = pytest.mark.anyio


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


async def test_a_file_of_the_first_version_goes_on(path: Path) -> None:
    known = await make(path)
    change_file(path, "DROP TABLE terms")
    async with SqliteBus(path) as bus:
        new = await bus.publish(B)
        old = Cursor.parse(f"{known.epoch}:{known.version}")
        assert old is not None
        assert await bus.since(old) == [(new, B)]
        # A later one without a term is of a log that was rolled back.
        assert await bus.since(Cursor(new.epoch, new.version)) is None


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
