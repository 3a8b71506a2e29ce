"""A store in a file: found again, shared, and in every kind of trouble."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from tests.web.store.sample import BEGIN, Clock, entry, opened, packet, page_id_of, put
from tidings._kit.files import locked
from tidings.web.extract.model import FeedEntry
from tidings.web.store.model import PageFacts, PutOutcome, StoreError
from tidings.web.store.store import APPLICATION_ID

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
A, B = "https://a.example/", "https://b.example/"


def source(url: str, content: str, at: float = BEGIN) -> str:
    return packet(url, content, at)["source_id"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


async def test_what_was_stored_is_there_after_a_restart(path: Path) -> None:
    clock = Clock()
    async with opened(path, clock=clock) as store:
        await put(store, A, "text", raw=b"raw", etag='"1"', options={"mode": "http"})
    async with opened(path, clock=clock) as store:
        found = await store.get(source(A, "text"))
        assert found
        assert found.raw == b"raw"
        page = await store.page_of(A)
        assert page
        assert (page.etag, page.options) == ('"1"', {"mode": "http"})
        clock.now += 300
    async with opened(path, clock=clock) as store:
        assert await store.get(source(A, "text")) is None
        assert await store.prune() == (source(A, "text"),)


async def test_a_store_in_memory_is_gone_with_its_end() -> None:
    async with opened(clock=Clock()) as store:
        await put(store, A, "text")
    async with opened(clock=Clock()) as store:
        assert await store.listing() == ([], None)


async def test_the_file_is_for_this_user_alone(path: Path) -> None:
    async with opened(path) as store:
        await put(store, A, "text")
        modes = {file.name: oct(file.stat().st_mode & 0o777) for file in path.parent.iterdir()}
        assert set(modes.values()) == {"0o600"}
        assert path.name in modes


async def test_a_store_that_is_closed_says_so(path: Path) -> None:
    async with opened(path) as store:
        pass
    with pytest.raises(StoreError, match="closed"):
        await store.get("x")


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ("no folder", "there is no folder .*Create it"),
        ("folder", "it is a folder.*Name a file"),
        ("file above", "is not a folder"),
        ("text", "is not a database.*left as it is.*Choose another path"),
        ("other database", "is the database of another application.*Choose another path"),
        ("newer", "newer version of Tidings .schema 99.*Update Tidings"),
    ],
)
async def test_a_file_that_is_no_store_is_refused_and_left_as_it_is(path: Path, problem: str, words: str) -> None:
    match problem:
        case "no folder":
            path = path.parent / "none" / "store"
        case "folder":
            path.mkdir()
        case "file above":
            path.write_text("x")
            path /= "store"
        case "text":
            path.write_text("Dear diary, " * 1000)
        case _:
            with closing(sqlite3.connect(path)) as connection:
                if problem == "newer":
                    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    connection.execute("PRAGMA user_version = 99")
                connection.execute("CREATE TABLE mine (x)")
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreError, match=words):
        async with opened(path):
            pass
    assert before == (path.read_bytes() if path.is_file() else None)


async def test_a_damaged_file_is_set_aside_and_begun_anew(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(path, clock=Clock()) as store:
        for number in range(20):
            await put(store, f"https://example.org/{number}", "text" * 1000)
    with path.open("r+b") as file:
        file.truncate(8192)
    async with opened(path, clock=Clock()) as store:
        assert await store.listing() == ([], None)
        assert (await put(store, A, "text")).new
    assert "the old one is kept as store.db.damaged" in caplog.text
    assert path.with_name("store.db.damaged").stat().st_size == 8192
    async with opened(path, clock=Clock()) as store:
        assert await store.get(source(A, "text"))


async def test_damage_that_shows_later_is_treated_the_same(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(path, clock=Clock()) as store, opened(path, clock=Clock()) as other:
        await put(store, A, "text")
        await store.begin_watch(page_id_of(A), explicit=False)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("UPDATE parts SET data = x'00' WHERE kind = 'head'")
            connection.commit()
        assert await store.get(source(A, "text")) is None
        assert caplog.text.count("starting a new") == 1
        # The other process sees the new file, too.
        assert await other.listing() == ([], None)
        await put(other, B, "text")
        assert await store.get(source(B, "text"))
        # What it has subscribers to, this process knows by itself.
        await store.heartbeat()
        (watch,) = await other.watches()
        assert (watch.address, watch.url) == (A, A)
        assert not (await put(other, A, "text")).changed


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE parts SET data = '[1]' WHERE kind = 'head'",
        "UPDATE parts SET data = '[{\"x\": 1}]' WHERE kind = 'feed'",
        "DELETE FROM parts WHERE kind = 'head'",
        "DELETE FROM parts WHERE kind = 'content'",
        "DROP TABLE parts",
        "ALTER TABLE entries RENAME COLUMN raw_type TO another",
    ],
)
async def test_a_file_with_nonsense_in_it_is_begun_anew(path: Path, damage: str) -> None:
    feed = FeedEntry("1", "One", A)
    async with opened(path, clock=Clock()) as store:
        await store.put(entry(A, "text", feed=(feed,)), PageFacts(A))
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(damage.replace("'[", "CAST('[").replace("]'", "]' AS BLOB)"))
            connection.commit()
        assert await store.get(source(A, "text")) is None
        assert (await put(store, A, "text")).new


async def test_a_store_of_an_older_version_is_set_aside(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(path, clock=Clock()) as store:
        await put(store, A, "text")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 0")
    async with opened(path, clock=Clock()) as store:
        assert await store.listing() == ([], None)
    assert "it is of an older version" in caplog.text


_VERSION_2 = """
    DROP VIEW watched;
    ALTER TABLE pages RENAME COLUMN address TO canonical_url;
    ALTER TABLE entries RENAME COLUMN address TO canonical_url;
    ALTER TABLE entries DROP COLUMN packet_size;
    CREATE TABLE aliases (url TEXT PRIMARY KEY, page_id TEXT NOT NULL, no INTEGER NOT NULL) WITHOUT ROWID;
    CREATE VIEW watched AS SELECT p.canonical_url FROM pages p;
    PRAGMA user_version = 2;
"""


async def test_a_store_of_pages_by_their_claims_keeps_what_was_watched_by_url(path: Path) -> None:
    """Two URLs that claimed a third one were one page; one of them was watched."""
    one, two = f"{A}shirt?variant=1", f"{A}shirt?variant=2"
    clock = Clock()
    async with opened(path, clock=clock) as store:
        for number, url in enumerate((one, two, one)):
            options = {"url": url, "variant": f"v{url[-1]}"}
            await put(store, A, f"text {number}", BEGIN + number, fetched_by=url, options=options, etag='"1"')
        plan = {"fetch": {"url": two, "variant": "v2"}, "every": 5.0}
        assert await store.begin_watch(page_id_of(A), explicit=True, options=plan | {"since": {}}, next_at=BEGIN + 9)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(_VERSION_2)
    async with opened(path, clock=clock) as store:
        assert await store.listing() == ([], None)
        assert await store.page_of(one) is None
        (watch,) = await store.watches()
        assert (watch.page_id, watch.url, watch.options, watch.state) == (page_id_of(two), two, plan, {})
        (due,) = await store.due(9, 60.0)
        assert due.page_id == page_id_of(two)
        await put(store, two, "text", fetched_by=two, options={"url": two, "variant": "v2"})
        clock.now += 1000
        await store.prune()
        assert await store.get(source(two, "text"))  # It is watched.


async def test_a_file_that_was_deleted_is_made_again(path: Path) -> None:
    async with opened(path, clock=Clock()) as store:
        await put(store, A, "text")
        for file in path.parent.iterdir():
            file.unlink()
        assert await store.get(source(A, "text")) is None
        await put(store, B, "text")
        assert path.exists()


async def test_a_locked_file_is_told_and_what_is_there_can_still_be_read(path: Path) -> None:
    async with opened(path, clock=Clock(), timeout=0.05) as store:
        await put(store, A, "text")
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match=r"stayed locked by another process.*End what keeps it locked"):
                await put(store, B, "text")
            assert await store.get(source(A, "text"))
            connection.execute("ROLLBACK")
        await put(store, B, "text")


async def test_a_full_disk_is_told_and_what_is_there_can_still_be_read(path: Path) -> None:
    async with opened(path, clock=Clock()) as store:
        await put(store, A, "text")
        connection = store._database._connection
        assert connection
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StoreError, match=r"has no room on its disk.*Free some space"):
            await put(store, B, "text" * 10_000)
        assert await store.get(source(A, "text"))
        assert await store.page_of(B) is None
        connection.execute("PRAGMA max_page_count = 1000000")
        await put(store, B, "text" * 10_000)


async def test_a_file_that_another_process_is_opening_for_too_long_is_told(path: Path) -> None:
    with (
        locked(path.with_name(f"{path.name}-lock"), 0),
        pytest.raises(StoreError, match="stayed locked by another process"),
    ):
        async with opened(path, timeout=0.05):
            pass
    async with opened(path, timeout=0.05):
        pass


async def test_a_failure_of_the_database_in_memory_is_told_as_such() -> None:
    async with opened(clock=Clock()) as store:
        await put(store, A, "text")
        connection = store._database._connection
        assert connection
        connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0]}")
        with pytest.raises(StoreError, match="The store in memory has no room"):
            await put(store, B, "text" * 10_000)
        assert await store.get(source(A, "text"))


async def test_a_file_system_without_shared_memory_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Without(sqlite3.Connection):
        def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
            return super().execute(statement.replace("journal_mode = WAL", "journal_mode"), *values)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **how: connect(*given, **how, factory=Without))
    with pytest.raises(StoreError, match=r"no shared memory.*Put it on a local disk"):
        async with opened(path):
            pass


async def test_room_is_given_back_to_the_disk(path: Path) -> None:
    clock = Clock()
    async with opened(path, clock=clock) as store:
        await put(store, A, "text", raw=os.urandom(20 * 2**20))
        assert path.stat().st_size > 20 * 2**20
        clock.now += 300
        await store.prune()
    assert path.stat().st_size < 2**20


async def test_the_log_is_worked_into_the_file_from_time_to_time(path: Path) -> None:
    async with opened(path, clock=Clock()) as store:
        for number in range(40):
            await put(store, A, f"text {number}", raw=os.urandom(2**20), raw_type="x")
        assert path.with_name("store.db-wal").stat().st_size < 20 * 2**20


async def test_a_write_that_has_begun_is_waited_for_even_by_whoever_is_cancelled(path: Path) -> None:
    async with opened(path, clock=Clock(), timeout=30) as store:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await put(store, B, "never begun")
        assert await store.page_of(B) is None
        waiting = threading.Event()
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        told: list[PutOutcome] = []
        async with anyio.create_task_group() as tasks:

            async def write() -> None:
                with scope:
                    told.append(await put(store, A, "text"))
                    await anyio.lowlevel.checkpoint()
                    told.clear()

            scope = anyio.CancelScope()
            store._thread.submit(waiting.set)
            tasks.start_soon(write)
            await anyio.to_thread.run_sync(waiting.wait)
            # The thread now waits for the lock, and cannot be stopped.
            scope.cancel()
            other.execute("ROLLBACK")
        other.close()
        assert [put_.new for put_ in told] == [True]
        assert await store.get(source(A, "text"))


async def test_a_task_that_is_cancelled_outright_leaves_the_store_whole(path: Path) -> None:
    async with opened(path, clock=Clock()) as store:
        task = asyncio.create_task(put(store, A, "text"))
        read = asyncio.create_task(store.get(source(A, "text")))
        await anyio.lowlevel.checkpoint()
        task.cancel()
        read.cancel()
        await asyncio.wait([task, read])
        assert task.cancelled()
        assert read.cancelled()
        # One thread: what was begun before is done before.
        assert await store.get(source(A, "text"))


WORKER = """
import asyncio, sys
from pathlib import Path
from tests.web.store.sample import opened, put

async def main(path, name, rounds):
    async with opened(Path(path), max_entries=100000, timeout=60) as store:
        for number in range(int(rounds)):
            await put(store, f"https://example.org/{name}/{number}", "text")
        print("ready", flush=True)
        sys.stdin.readline()
        while mine := await store.due(3, 60):
            for watch in mine:
                print(watch.address, flush=True)
                await asyncio.sleep(0)
                assert await store.reschedule(watch.page_id, watch.next_at + 10**9)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_several_processes_share_a_file_and_each_page_is_claimed_by_one(path: Path) -> None:
    processes = [_started(path, name) for name in range(4)]
    try:
        for process in processes:
            assert process.stdout
            assert await anyio.to_thread.run_sync(process.stdout.readline) == "ready\n"
        async with opened(path, max_entries=100_000) as store:
            urls = [f"https://example.org/{name}/{number}" for name in range(4) for number in range(20)]
            for url in urls:
                assert await store.begin_watch(page_id_of(url), explicit=True)
            outputs = await _all_outputs(processes)
            assert sorted(line for output in outputs for line in output.split()) == sorted(urls)
            assert await store.due(1000, 60) == []
            assert len((await store.listing(limit=200))[0]) == 80
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _started(path: Path, name: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(path), str(name), "20"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


async def _all_outputs(processes: list[subprocess.Popen[str]]) -> list[str]:
    outputs: list[str] = []

    async def finish(process: subprocess.Popen[str]) -> None:
        output, _ = await anyio.to_thread.run_sync(process.communicate, "go\n")
        assert process.returncode == 0
        outputs.append(output)

    async with anyio.create_task_group() as tasks:
        for process in processes:
            tasks.start_soon(finish, process)
    return outputs


async def test_a_process_that_was_killed_leaves_its_claims_to_others(path: Path) -> None:
    clock = Clock()
    async with opened(path, clock=clock, alive=90) as store:
        await put(store, A, "text")
        await store.begin_watch(page_id_of(A), explicit=True)
        code = (
            "import asyncio, os, sys\nfrom pathlib import Path\nfrom tests.web.store.sample import Clock, opened\n"
            "async def main():\n"
            "    async with opened(Path(sys.argv[1]), clock=Clock(), alive=90) as store:\n"
            "        assert await store.begin_watch((await store.watches())[0].page_id, explicit=False)\n"
            "        assert await store.due(10, 10_000)\n"
            "        os.kill(os.getpid(), 9)\n"
            "asyncio.run(main())\n"
        )
        run = [sys.executable, "-c", code, str(path)]
        ended = await anyio.to_thread.run_sync(
            lambda: subprocess.run(run, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
        )
        assert ended.returncode == -9
        assert await store.due(10, 60) == []
        assert (await store.watches())[0].subscribers == 1
        clock.now += 89
        await store.heartbeat()
        assert await store.due(10, 60) == []
        clock.now += 1
        assert [watch.address for watch in await store.due(10, 60)] == [A]
        assert (await store.watches())[0].subscribers == 0


async def test_trouble_at_the_end_is_no_matter(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        async with opened(path, timeout=0.05) as store:
            await put(store, A, "text")
            connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")


async def test_a_connection_that_is_of_no_use_any_more_is_replaced(path: Path) -> None:
    class Broken(sqlite3.Connection):
        def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
            if statement in {"COMMIT", "ROLLBACK"}:
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
                raise error
            return super().execute(statement, *values)

    async with opened(path, clock=Clock()) as store:
        await put(store, A, "text")
        store._database.close()
        store._database._connection = sqlite3.connect(
            path, factory=Broken, isolation_level=None, check_same_thread=False
        )
        with pytest.raises(StoreError, match=r"could not be read or written.*Look at its disk"):
            await put(store, B, "text")
        assert await store.get(source(A, "text"))
        await put(store, B, "text")


async def test_a_store_has_a_name_of_its_own(path: Path) -> None:
    async with opened(path) as one, opened(path) as other:
        assert one._owner.name != other._owner.name
