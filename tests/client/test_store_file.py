"""The file of a state that is no good: of somebody else, damaged, out of reach, locked, deleted, on a full disk."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bus.processes import python
from tests.client.invoked import resource
from tests.client.library import Library, on_the_web
from tests.client.states import ask, cursor_in, locked, opened, saved, some_turns, until
from tidings.bus.sqlite import SqliteBus
from tidings.client import connect
from tidings.client.cache import ContentKind
from tidings.client.state_file import Saved
from tidings.errors import StateUnusable

pytestmark = pytest.mark.anyio

A, B = "note://a", "note://b"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


async def make(path: Path) -> None:
    async with opened(path) as state:
        state.note_put(resource(A), covered=True)
        state.note_cursor("epoch:1")


def remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


async def is_text(path: Path) -> None:
    path.write_text("Dear diary, today I learnt about databases. " * 100)


async def is_another_database(path: Path) -> None:
    ask(path, "CREATE TABLE notes (text)")


async def is_a_bus(path: Path) -> None:
    async with SqliteBus(path):
        pass


@pytest.mark.parametrize("spoil", [is_text, is_another_database, is_a_bus])
async def test_a_file_of_somebody_else_is_refused_and_left_as_it_is(path: Path, spoil: Callable[[Path], None]) -> None:
    await spoil(path)
    before = path.read_bytes()
    with pytest.raises(StateUnusable, match="left as it is") as caught:
        await saved(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


async def test_a_file_of_another_version_is_refused(path: Path) -> None:
    await make(path)
    ask(path, "PRAGMA user_version = 99")
    with pytest.raises(StateUnusable, match=r"schema 99, this one has 1.*delete it"):
        await saved(path)


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("kind", "key", "row"),
    [
        ("task", "1", DEEP),
        ("task", "1", "null"),
        ("handed out", DEEP, "{}"),
        ("handed out", '["", "note://1"]', DEEP),
        ("handed out", '["", "note://1"]', '{"digest": []}'),
        ("handed out", '[""]', '{"at": "now"}'),
    ],
    ids=lambda text: text[:16],
)
async def test_rows_that_make_no_sense_keep_no_client_from_starting(
    kind: str, key: str, row: str, tmp_path: Path
) -> None:
    library, path = Library(), tmp_path / "agent.db"
    async with on_the_web(library) as url:
        async with connect(url, state=path) as client:
            await client.subscribe("note://1")
        (identity,) = ask(path, "SELECT identity FROM states")[0]
        ask(path, "INSERT INTO kept VALUES (?, ?, ?, ?)", identity, kind, key, row)
        async with connect(url, state=path) as client:
            assert client.subscriptions == ["note://1"]
            batch = await anext(client.changes("note://1", at_most_every=0, first=True))
            assert batch[0].text == "the text of note://1"


async def test_a_file_that_lacks_its_parts_is_refused(path: Path) -> None:
    await make(path)
    ask(path, "DROP TABLE entries")
    with pytest.raises(StateUnusable, match="delete it"):
        await saved(path)


async def test_a_damaged_file_is_refused(path: Path) -> None:
    await make(path)
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * (len(content) - 100))
    with pytest.raises(StateUnusable, match="damaged"):
        await saved(path)


async def test_an_empty_file_becomes_a_state(path: Path) -> None:
    path.touch()
    await make(path)
    assert (await saved(path)).cursor == "epoch:1"


async def test_a_link_leads_to_the_file(path: Path) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    await make(link)
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    assert (await saved(path)).cursor == "epoch:1"


def no_folder(path: Path) -> Path:
    return path / "missing" / "agent.db"


def folder_is_a_file(path: Path) -> Path:
    path.parent.joinpath("file").touch()
    return path.parent / "file" / "agent.db"


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
    with pytest.raises(StateUnusable, match=words):
        await saved(place(path))


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root may write everywhere")
@pytest.mark.parametrize("what", ["folder", "file"])
async def test_what_this_user_may_not_write_is_explained(path: Path, what: str) -> None:
    # Root without its capabilities is a user like others.
    ordinary = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"] if os.geteuid() == 0 else []
    if what == "file":
        await make(path)
    (path if what == "file" else path.parent).chmod(0o555)
    try:
        async with python("-m", "tests.client.keeper", "load", str(path), before=ordinary) as process:
            said = await process.line()
    finally:
        path.parent.chmod(0o755)
    assert said.startswith("StateUnusable")
    assert "this user may not" in said


async def test_a_file_that_stays_locked_is_an_error_at_the_start(path: Path) -> None:
    await make(path)
    with locked(path), pytest.raises(StateUnusable, match="locked by another process"):
        async with opened(path, timeout=0.05) as state:
            await state.load()


async def test_a_file_that_another_is_just_preparing_is_waited_for(path: Path) -> None:
    await make(path)
    ask(path, "PRAGMA journal_mode = DELETE")
    async with opened(path) as state:
        with locked(path):
            loading = asyncio.create_task(state.load())
            for _ in range(20):
                await some_turns()
            assert not loading.done()
        assert (await loading).cursor == "epoch:1"


async def test_trouble_with_writing_is_logged_once_and_written_when_it_is_over(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(path, timeout=0) as state:
        await state.load()
        with locked(path):
            for n in range(3):
                state.note_put(resource(f"note://{n}"), covered=True)
                state.note_removed(ContentKind.RESOURCE, f"note://{n - 1}")
                state.note_cursor(f"epoch:{n}")
                await state.flush()
            (record,) = caplog.records
            assert "locked by another process" in record.message
            assert cursor_in(path) is None
        await state.flush()
        assert "saved again" in caplog.records[-1].message
        assert len(caplog.records) == 2
    found = await saved(path)
    assert (found.invocations, found.covered, found.cursor) == ((resource("note://2"),), {"note://2"}, "epoch:2")


async def test_what_could_not_be_written_is_tried_again_without_being_asked(path: Path) -> None:
    async with opened(path, timeout=0, delay=0, retry=0.01) as state:
        await state.load()
        with locked(path):
            state.note_cursor("epoch:1")
            await state.flush()
        await until(lambda: cursor_in(path) == "epoch:1")


async def test_clearing_is_done_later_if_it_cannot_be_done_now(path: Path) -> None:
    await make(path)
    async with opened(path, timeout=0) as state:
        await state.load()
        state.note_put(resource(B), covered=True)
        with locked(path):
            await state.flush()
            await state.clear()
        assert cursor_in(path) == "epoch:1"
    assert await saved(path) == Saved()


async def test_a_file_that_is_deleted_is_made_anew(path: Path) -> None:
    async with opened(path) as state:
        state.note_put(resource(A), covered=True)
        state.note_subscriptions({A, B})
        await state.flush()
        remove(path)
        state.note_put(resource(B), covered=True)
        state.note_cursor("epoch:2")
        await state.flush()
    assert await saved(path) == Saved((resource(B),), frozenset({B}), frozenset({A, B}), "epoch:2")


async def test_nothing_in_an_older_copy_that_was_put_back_counts_as_current(path: Path) -> None:
    async with opened(path) as state:
        state.note_put(resource(A, "old"), covered=True)
        state.note_cursor("epoch:1")
        await state.flush()
        ask(path, f"VACUUM INTO '{path}.copy'")
        state.note_removed(ContentKind.RESOURCE, A)
        state.note_cursor("epoch:2")
        await state.flush()
        remove(path)
        Path(f"{path}.copy").rename(path)
        state.note_put(resource(B), covered=True)
        state.note_cursor("epoch:3")
    found = await saved(path)
    assert found.invocations == (resource(A, "old"), resource(B))
    assert (found.covered, found.cursor) == ({B}, "epoch:3")


async def test_a_full_disk_leaves_the_older_state_and_then_the_newest(path: Path) -> None:
    async with python("-m", "tests.client.keeper", "fill", str(path)) as process:
        lines = await process.rest()
    assert len(lines) == 3, lines
    assert "is not saved for now" in lines[0]
    assert "Look at its disk" in lines[0]
    assert lines[1] == "meanwhile epoch:1"
    assert "saved again" in lines[2]
    found = await saved(path)
    assert [invocation.tool_name for invocation in found.invocations] == ["large 0", "large 1", "large 2"]
    assert found.cursor == "epoch:4"


async def test_much_that_is_written_does_not_pile_up_beside_the_file(path: Path) -> None:
    async with opened(path) as state:
        for n in range(40):
            state.note_put(resource(A, str(n % 10) * 500_000), covered=True)
            await state.flush()
        assert Path(f"{path}-wal").stat().st_size < 8 * 2**20
    assert path.stat().st_size < 2 * 2**20
