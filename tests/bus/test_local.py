"""The bus of a server that was given none: what happens where its file cannot be used, or no longer."""

import resource
import sqlite3
import stat
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.bus.buses import Ear
from tests.bus.files import is_another_database, is_text, overwrite_all_but_the_header
from tidings._kit import files
from tidings.bus.local import LocalBus
from tidings.changes import ResourceUpdated

pytestmark = pytest.mark.anyio
A, B = ResourceUpdated("note://a"), ResourceUpdated("note://b")


def bus_at(path: Path, **options: str) -> LocalBus:
    return LocalBus(path, poll=0.005, timeout=0.1, **options)  # type: ignore[arg-type]


@contextmanager
def held(path: Path) -> Generator[None]:
    """Another program locks the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield


@contextmanager
def full(path: Path) -> Generator[None]:
    """No file can grow beyond what this one has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (Path(f"{path}-wal").stat().st_size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_the_file_is_for_its_owner_alone_and_so_is_what_sqlite_keeps_beside_it(tmp_path: Path) -> None:
    async with bus_at(tmp_path / "a" / "bus.db") as bus:
        await bus.publish(A)
        found = list((tmp_path / "a").iterdir())
        assert len(found) >= 3
        assert {stat.S_IMODE(each.stat().st_mode) for each in found} == {0o600}
        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


def is_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def lies_below_a_file(path: Path) -> None:
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("")


@pytest.mark.parametrize("spoil", [is_a_folder, lies_below_a_file, is_text, is_another_database])
async def test_where_the_file_cannot_be_used_the_log_is_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: Callable[[Path], None]
) -> None:
    path = tmp_path / "a" / "bus.db"
    path.parent.mkdir()
    path.write_bytes(b"")
    spoil(path)
    ear = Ear()
    async with bus_at(path) as bus:
        assert not bus.is_shared
        bus.subscribe(ear)
        start = bus.head
        place = await bus.publish(A)
        assert ear.heard == [(place, A)] == await bus.since(start)
        assert await bus.records.put("key", b"x", seconds=9, revision=0)
        assert not await bus.records.put("key", b"y", seconds=9, revision=0)
        assert (found := await bus.records.get("key"))
        assert found.value == b"x"
        await bus.records.delete("key")
        assert await bus.records.get("key") is None
    assert "The log of changes is in memory" in caplog.text
    if spoil in (is_text, is_another_database):
        assert path.read_bytes()  # It was left as it is.


async def test_a_file_that_stays_locked_does_not_keep_the_server_from_its_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "bus.db"
    async with bus_at(path):
        pass
    with held(path):
        async with bus_at(path) as bus:
            assert not bus.is_shared
            await bus.publish(A)
    assert "locked" in caplog.text
    async with bus_at(path) as bus:
        assert bus.is_shared  # The next start tries again.


async def test_a_damaged_file_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "bus.db"
    async with bus_at(path) as bus:
        before = await bus.publish(A)
    overwrite_all_but_the_header(path)
    async with bus_at(path) as bus:
        assert bus.is_shared
        assert await bus.since(before) is None
        await bus.publish(B)
    assert "starting a new" in caplog.text


async def test_a_folder_on_a_network_disk_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "mounts").write_text(f"server:/x {tmp_path.resolve()} nfs4 rw 0 0")
    monkeypatch.setattr(files, "_MOUNTS", tmp_path / "mounts")
    async with bus_at(tmp_path / "bus.db") as bus:
        assert not bus.is_shared
        await bus.publish(A)
    assert "network disk (nfs4)" in caplog.text
    assert not (tmp_path / "bus.db").exists()


@pytest.mark.parametrize("trouble", [held, full])
async def test_when_the_file_cannot_be_written_any_more_the_log_goes_on_in_memory_and_records_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, trouble: Callable[[Path], Generator[None]]
) -> None:
    path, ear = tmp_path / "bus.db", Ear()
    async with bus_at(path) as bus:
        bus.subscribe(ear)
        before = await bus.publish(A)
        task = await bus.records.put("task", b"working", seconds=99)
        assert task
        with trouble(path):  # type: ignore[attr-defined]
            for number in range(50):
                after = await bus.publish(ResourceUpdated(f"note://{number}/{'x' * 2000}"))
            await bus.publish(B)
            assert not bus.is_shared
            # In order: what was published, that anything may have changed, and what is published since.
            assert ear.changes[0] == A
            assert ear.changes.count(None) == 1
            assert ear.changes[-1] == B
            assert ear.in_order
            assert await bus.since(before) is None
            assert [change for _, change in await bus.since(after) or ()] == [B]
            assert await bus.records.put("task", b"done", seconds=99, revision=0) is None
        done = await bus.records.put("task", b"done", seconds=99, revision=task.revision)
        assert done
        assert await bus.records.get("task") == done
        await bus.records.delete("other")
    assert "continues in memory" in caplog.text


async def test_records_that_cannot_be_written_lead_to_memory_as_well(tmp_path: Path) -> None:
    path = tmp_path / "bus.db"
    async with bus_at(path) as bus:
        with held(path):
            assert await bus.records.put("key", b"x", seconds=9, revision=0)
        assert not bus.is_shared
        assert (found := await bus.records.get("key"))
        assert found.value == b"x"


async def test_lists_are_known_while_the_edition_stays_the_same(tmp_path: Path) -> None:
    path, known = tmp_path / "bus.db", list[bool]()
    for edition in ("1", "1", "2", "2", "1"):
        async with bus_at(path, edition=edition) as bus:
            known.append(bus.lists_known)
    assert known == [False, True, False, True, False]


async def test_what_is_known_begins_with_the_oldest_change(tmp_path: Path) -> None:
    async with bus_at(tmp_path / "bus.db") as bus:
        start, at = await bus.oldest()
        assert (start, at) == (bus.head, None)
        places = [await bus.publish(change) for change in (A, B)]
        start, at = await bus.oldest()
        assert at is not None
        assert await bus.since(start) == list(zip(places, (A, B), strict=True))
