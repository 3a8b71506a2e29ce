"""A vault and its index, kept equal through what goes wrong."""

import asyncio
import json
import logging
import sqlite3
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from tidings.vault import indexer, library
from tidings.vault.change_detection import FoundChanges, SubscribedResources
from tidings.vault.files.outcomes import WriteFailed
from tidings.vault.files.paths import Vault
from tidings.vault.files.writer import VaultWriter
from tidings.vault.index import scan
from tidings.vault.index.index import Index, IndexBlocked, IndexDamaged
from tidings.vault.index.scan import ScanBatch
from tidings.vault.library import PublishedStates, VaultLibrary
from tidings.vault.resources.render import render
from tidings.vault.tools import lookup
from tidings.vault.tools.lookup import ResultRange
from tidings.vault.view import VaultView
from tidings.vault.watch import Changed, Happening, LookAround, WentAway

pytestmark = pytest.mark.anyio


class World:
    """A vault, a disk of which a test says what is seen, and a listener."""

    def __init__(self, root: Path, cache: Path | None = None) -> None:
        self.root = root
        self.vault = Vault([root])
        self.interest = SubscribedResources(outlived=False)
        self.told: list[str] = []
        self.changed_at: float | None = None
        self._happenings: asyncio.Queue[Happening | Exception] = asyncio.Queue()
        self.index: Index
        self._cache = cache
        self.library = VaultLibrary(
            self.vault,
            VaultWriter(self.vault),
            open_index=self._open,
            publish=self._publish,
            interest=self.interest,
            published=PublishedStates(),
            on_lost=self.library_lost,
            expect=lambda found: None,
            deliver_here=lambda uris, listed: None,
            watcher=self._watch,
        )

    async def library_lost(self) -> None:
        raise AssertionError

    def _open(self) -> Index:
        self.index = Index(self.vault, self._cache, memory=self._cache is None)
        return self.index

    async def _publish(self, found: FoundChanges) -> None:
        self.told += found.states
        self.changed_at = found.changed_at

    async def _watch(self, _: Vault) -> AsyncGenerator[Happening]:
        yield LookAround("events")
        while True:
            happening = await self._happenings.get()
            if isinstance(happening, Exception):
                raise happening
            yield happening

    def happens(self, happening: Happening | Exception) -> None:
        self._happenings.put_nowait(happening)

    async def until(self, true: Callable[[], bool]) -> None:
        with anyio.fail_after(20):
            while not true():  # noqa: ASYNC110 - no event says that a thread has come so far
                await anyio.sleep(0.01)

    async def read(self, uri: str) -> str | None:
        def question(view: VaultView) -> str | None:
            return render(view, uri).text

        return await self.library.ask(question)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    (folder / "A.md").write_text("one #tag\n")
    return folder


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(indexer, "_QUIET_SECONDS", 0.01)
    monkeypatch.setattr(indexer, "_UNSETTLED_SECONDS", 0.01)


@asynccontextmanager
async def running(world: World) -> AsyncGenerator[World]:
    async with world.library.running():
        with anyio.fail_after(20):
            await world.library.settled()
        yield world


async def test_whoever_asks_at_the_start_gets_a_whole_answer_if_it_is_there_in_a_moment(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "_FIRST_SECONDS", 20.0)
    world = World(root)
    async with world.library.running():
        stats = json.loads(await world.read("vault://stats") or "")
    assert "partial" not in stats
    assert stats["notes"] == 1


async def test_whoever_asks_at_the_start_waits_no_longer_than_a_moment(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, goes_on = World(root), threading.Event()

    def plan(vault: Vault, index: Index, _: object) -> scan.ScanPlan:
        goes_on.wait(20)
        return scan.plan(vault, index)

    monkeypatch.setattr(indexer, "plan", plan)
    async with world.library.running():
        assert "partial" in json.loads(await world.read("vault://stats") or "")
        goes_on.set()
        with anyio.fail_after(20):
            await world.library.settled()


async def test_nobody_waits_at_the_start_for_an_index_that_takes_long(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, goes_on = World(root), threading.Event()
    real = indexer.read_all

    def slowly(*arguments: Any, **options: Any) -> Generator[ScanBatch]:
        goes_on.wait(20)
        yield from real(*arguments, **options)

    monkeypatch.setattr(indexer, "read_all", slowly)
    monkeypatch.setattr(indexer, "_LOGGED_FILES", 0)
    monkeypatch.setattr(library, "_FIRST_SECONDS", 60.0)
    async with world.library.running():
        with anyio.fail_after(20):
            assert "partial" in json.loads(await world.read("vault://stats") or "")
            goes_on.set()
            await world.library.settled()


@pytest.mark.parametrize(("patience", "stored"), [(60.0, False), (0.0, True)])
async def test_the_first_index_waits_for_a_search_but_not_for_ever(
    root: Path, monkeypatch: pytest.MonkeyPatch, patience: float, *, stored: bool
) -> None:
    world, searching, applied = World(root), threading.Event(), threading.Event()

    def plan(vault: Vault, index: Index, give_way: Callable[[int], None]) -> scan.ScanPlan:
        searching.wait(20)
        return scan.plan(vault, index, give_way)

    def search(_: VaultView) -> bool:
        searching.set()
        return applied.wait(20 if stored else 0.2)

    def apply(index: Index, *arguments: Any) -> None:
        applied.set()
        real(index, *arguments)

    real = Index.apply
    monkeypatch.setattr(Index, "apply", apply)
    monkeypatch.setattr(indexer, "plan", plan)
    monkeypatch.setattr(indexer, "_YIELDED_SECONDS", patience)
    monkeypatch.setattr(library, "_FIRST_SECONDS", 0.0)
    async with world.library.running():
        assert await world.library.ask(search, search=True) == stored
        with anyio.fail_after(20):
            await world.library.settled()
    assert applied.is_set()


async def test_a_vault_that_is_away_is_remembered_and_said_to_be_until_it_is_back(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with running(World(root)) as world:
        world.interest.begin("vault://tags")
        world.happens(WentAway("It is not there."))
        await world.until(lambda: world.library.status.phase == "away")
        await world.until(lambda: world.told == ["vault://tags"])
        assert "cannot be reached" in (await world.read("vault://tags") or "")
        assert '"tag"' in (await world.read("vault://tags") or "")
        world.happens(LookAround("events"))
        await world.until(lambda: world.library.status.phase == "watching")
        await world.until(lambda: world.told == ["vault://tags"] * 2)
        assert "cannot be reached" not in (await world.read("vault://tags") or "")
    assert "The vault is back" in caplog.text


async def test_a_disk_that_was_taken_out_is_waited_for(root: Path) -> None:
    async with running(World(root)) as world:
        root.rename(root.parent / "elsewhere")
        world.happens(LookAround("events"))
        await world.until(lambda: world.library.status.phase == "away")
        assert await world.read("vault://note/A") == "one #tag\n"
        (root.parent / "elsewhere").rename(root)
        await world.until(lambda: world.library.status.phase == "watching")


async def test_nothing_is_written_where_the_vault_was_when_the_server_starts_without_its_disk(
    root: Path, tmp_path: Path
) -> None:
    async with running(World(root, tmp_path / "cache")):
        pass
    root.rename(root.parent / "elsewhere")
    root.mkdir()  # As a disk leaves it that is not mounted.
    world = World(root, tmp_path / "cache")
    async with world.library.running():
        await world.until(lambda: world.library.status.phase == "away")
        with pytest.raises(WriteFailed, match=r"its disk seems to be missing.*Nothing was changed"):
            await world.library.write(lambda writer: writer.write("B.md", "lost"))
        assert list(root.iterdir()) == []
        assert await world.read("vault://note/A") == "one #tag\n"


async def test_a_failure_to_follow_is_said_and_tried_again(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with running(World(root)) as world:
        world.happens(OSError("the disk is tired"))
        await world.until(lambda: "the disk is tired" in world.library.status.standing)
        (root / "A.md").write_text("two\n")
        await world.until(lambda: world.library.status.phase == "watching")
        assert await world.read("vault://note/A") == "two\n"
    assert "trying again" in caplog.text
    assert "The vault is followed again" in caplog.messages


async def test_a_first_index_that_cannot_be_stored_does_not_keep_searches_from_the_disk(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk of the index is full, and has room again later."""
    caplog.set_level(logging.INFO)
    world, is_full = World(root), True

    def apply(index: Index, *arguments: Any) -> None:
        if is_full and index is world.index:
            raise IndexBlocked("The index has no room on its disk. Free some space.")
        real(index, *arguments)

    real = Index.apply
    monkeypatch.setattr(Index, "apply", apply)
    async with world.library.running():
        await world.until(lambda: world.library.status.phase == "blocked")

        def search(view: VaultView) -> dict[str, Any]:
            return lookup.search(view, "tag:#tag", "relevance", ResultRange(5)).structured_content or {}

        found = await world.library.ask(search, search=True)
        assert [hit["path"] for hit in found["results"]] == ["A.md"]
        assert "Free some space" in json.loads(await world.read("vault://tags") or "")["blocked"]
        is_full = False
        with anyio.fail_after(20):
            await world.library.settled()
        assert world.index.queries.text("A.md") == "one #tag\n"
    assert "Traceback" not in caplog.text


async def test_an_index_that_turns_out_to_be_damaged_when_it_is_written_is_built_anew(root: Path) -> None:
    async with running(World(root)) as world:
        world.interest.begin("vault://note/A.md")
        (root / "A.md").write_text("two\n")
        world.happens(IndexDamaged("It holds nonsense."))
        await world.until(lambda: "vault://note/A.md" in world.told)
        assert await world.read("vault://note/A") == "two\n"


async def test_an_index_that_turns_out_to_be_damaged_when_it_is_read_is_built_anew(root: Path, tmp_path: Path) -> None:
    async with running(World(root, tmp_path / "cache")) as world:

        def question(view: VaultView) -> None:
            view.queries.connection.execute("SELECT * FROM files")
            raise sqlite3.DatabaseError("database disk image is malformed")

        with pytest.raises(IndexDamaged, match="is rebuilt"):
            await world.library.ask(question)
        await world.until(lambda: not world.library._indexer._damaged and world.library.status.phase == "watching")
        assert await world.read("vault://note/A") == "one #tag\n"


async def test_an_index_that_cannot_be_read_for_now_is_no_reason_to_build_it_anew(root: Path) -> None:
    async with running(World(root)) as world:

        def question(_: VaultView) -> None:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error

        with pytest.raises(IndexBlocked, match="locked"):
            await world.library.ask(question)
        assert not world.library._indexer._damaged


async def test_what_a_plan_is_too_old_for_gives_way_to_what_was_read_since(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long look round the disk has read a file; before that is stored, somebody writes and stores another version."""
    async with running(World(root)) as world:
        (root / "Folder").mkdir()
        (root / "Folder/B.md").write_text("old\n")
        (root / "A.md").unlink()
        real, has_read, may_go_on = indexer.read_all, threading.Event(), threading.Event()

        def slowly(*arguments: Any, **options: Any) -> Generator[ScanBatch]:
            for batch in real(*arguments, **options):
                has_read.set()
                assert may_go_on.wait(20)
                yield batch

        async with anyio.create_task_group() as tasks:
            monkeypatch.setattr(indexer, "read_all", slowly)
            tasks.start_soon(world.library._indexer._look_around)
            await world.until(has_read.is_set)
            monkeypatch.setattr(indexer, "read_all", real)
            (root / "Folder/B.md").write_text("newer\n")
            (root / "A.md").write_text("again\n")
            tasks.start_soon(world.library.refresh, ["Folder", "A.md"])
            await anyio.wait_all_tasks_blocked()  # What it looks at waits behind what is being read.
            may_go_on.set()
        assert await world.read("vault://note/B") == "newer\n"
        assert await world.read("vault://note/A") == "again\n"


async def test_files_that_are_being_written_are_read_when_they_rest(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(World(root)) as world:
        real = indexer.read_all

        def unsettled(*_: object, **__: object) -> Generator[ScanBatch]:
            yield ScanBatch([], [], ["A.md"])

        monkeypatch.setattr(indexer, "read_all", unsettled)
        (root / "A.md").write_text("new\n")
        await world.library.refresh(["A.md"])
        assert await world.read("vault://note/A") == "one #tag\n"
        monkeypatch.setattr(indexer, "read_all", real)
        with anyio.fail_after(20):
            while await world.read("vault://note/A") != "new\n":  # noqa: ASYNC110 - nobody tells
                await anyio.sleep(0.01)


async def test_what_happens_to_a_vault_that_vanishes_meanwhile_is_left_to_the_watcher(root: Path) -> None:
    async with running(World(root)) as world:
        root.rename(root.parent / "elsewhere")
        world.happens(Changed(frozenset([root / "A.md"])))
        await world.library.refresh(["A.md"])
        assert await world.read("vault://note/A") == "one #tag\n"


class Calendar:
    """Days that a test turns."""

    def __init__(self) -> None:
        self.day = date(2026, 1, 31)

    def today(self) -> date:
        return self.day


@pytest.fixture
def calendar(monkeypatch: pytest.MonkeyPatch) -> Calendar:
    calendar = Calendar()
    monkeypatch.setattr(library, "_DAY_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(library, "date", calendar)
    return calendar


async def test_a_new_day_is_told_to_those_who_watch_todays_note(root: Path, calendar: Calendar) -> None:
    (root / "2026-01-31.md").write_text("Saturday\n")
    async with running(World(root)) as world:
        await world.library.begin_interest("vault://daily/today")
        await world.library.begin_interest("vault://daily/2026-01-31")
        calendar.day = date(2026, 2, 1)
        await world.until(lambda: bool(world.told))
        calendar.day = date(2026, 2, 2)  # Neither of the two days has a note: nothing is different.
        await world.library.refresh(["A.md"])
        assert world.told == ["vault://daily/today"]


@pytest.mark.usefixtures("calendar")
async def test_what_was_new_is_found_no_more_after_a_while(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(World(root)) as world:
        await world.library.begin_interest("vault://search/modified:1d")
        monkeypatch.setattr(library, "fingerprint", lambda *_, **__: "less")
        await world.until(lambda: world.told == ["vault://search/modified:1d"])


async def test_searches_are_compared_again_when_the_index_can_be_read_again(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with running(World(root)) as world:
        await world.library.begin_interest("vault://search/two")
        real, locked = library.fingerprint, iter([True, False])

        def fingerprint(view: VaultView, uri: str) -> str:
            if next(locked, False):
                error = sqlite3.OperationalError("database is locked")
                error.sqlite_errorcode = sqlite3.SQLITE_BUSY
                raise error
            return real(view, uri)

        monkeypatch.setattr(library, "fingerprint", fingerprint)
        (root / "A.md").write_text("two\n")
        await world.library.refresh(["A.md"])
        await world.until(lambda: "vault://search/two" in world.told)
    assert "cannot be compared now" in caplog.text


async def test_questions_that_may_take_long_hold_up_no_others(root: Path) -> None:
    go_on = threading.Event()
    async with running(World(root)) as world, anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(partial(world.library.ask, lambda _: go_on.wait(20), search=True))
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(10):
            assert await world.read("vault://note/A") == "one #tag\n"
        go_on.set()


@pytest.mark.parametrize("error", [IndexBlocked("It is locked."), IndexDamaged("It holds nonsense.")])
async def test_what_was_written_was_written_though_the_index_does_not_know_it_yet(
    root: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async with running(World(root)) as world:
        real, errors = Index.apply, iter([error])

        def apply(index: Index, *arguments: Any) -> None:
            for each in errors:
                raise each
            real(index, *arguments)

        monkeypatch.setattr(Index, "apply", apply)
        written = await world.library.write(lambda writer: writer.append("A.md", "two"))
        assert written.touched
        assert (root / "A.md").read_text().startswith("one #tag\ntwo")
        world.happens(LookAround("events"))
        with anyio.fail_after(20):
            # Not by the index's own connection: it is another thread's, which may be building the index anew.
            while "two" not in (await world.library.ask(lambda view: view.queries.text("A.md")) or ""):  # noqa: ASYNC110
                await anyio.sleep(0.01)


async def test_the_index_is_tidied_up_when_it_is_quiet(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = iter([True, True, False])
    tidied: list[bool] = []

    def tidy(_: Index) -> bool:
        tidied.append(next(more, False))
        return tidied[-1]

    monkeypatch.setattr(Index, "tidy", tidy)
    async with running(World(root)) as world:
        await world.until(lambda: tidied[:3] == [True, True, False])


async def test_the_index_is_tidied_up_although_it_is_never_quiet(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer, "_QUIET_SECONDS", 0.25)
    tidied = asyncio.Event()
    loop = asyncio.get_running_loop()

    def tidy(_: Index) -> bool:
        loop.call_soon_threadsafe(tidied.set)
        return False

    monkeypatch.setattr(Index, "tidy", tidy)
    async with running(World(root)) as world:
        with anyio.fail_after(20):
            await tidied.wait()  # After the start, it is quiet for once.
        tidied.clear()
        for number in range(60):
            (root / "A.md").write_text(f"{number}\n")
            world.happens(LookAround("events"))
            with anyio.move_on_after(0.02):
                await tidied.wait()
        assert tidied.is_set()


async def test_an_index_that_cannot_be_tidied_up_is_used_as_it_is(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def tidy(_: Index) -> bool:
        raise IndexBlocked("no room")

    caplog.set_level(logging.INFO)
    monkeypatch.setattr(Index, "tidy", tidy)
    async with running(World(root)) as world:
        await world.until(lambda: "no room" in caplog.text)
        assert await world.read("vault://note/A") == "one #tag\n"


async def test_who_asks_before_it_runs_is_answered_when_it_does(root: Path) -> None:
    world = World(root)

    async def ask(question: Callable[[], Awaitable[object]], answered: anyio.Event) -> None:
        await question()
        answered.set()

    for _ in range(2):
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                settled, read = anyio.Event(), anyio.Event()
                tasks.start_soon(ask, world.library.settled, settled)
                tasks.start_soon(ask, partial(world.read, "vault://tags"), read)
                await anyio.wait_all_tasks_blocked()
                async with running(world):
                    assert await world.read("vault://note/A.md") == "one #tag\n"
                    await settled.wait()
                    await read.wait()


def test_it_runs_in_one_event_loop_after_another(root: Path) -> None:
    world = World(root)

    async def read(text: str) -> None:
        async with world.library.running():
            with anyio.fail_after(20):
                await world.library.settled()
                await world.library.begin_interest("vault://search/one")
            assert await world.read("vault://note/A") == text

    world._happenings = asyncio.Queue()
    asyncio.run(read("one #tag\n"))
    (root / "A.md").write_text("two\n")
    world._happenings = asyncio.Queue()
    asyncio.run(read("two\n"))


async def test_a_change_is_told_with_when_its_file_was_changed(root: Path) -> None:
    async with running(World(root)) as world:
        world.interest.begin("vault://note/A")
        (root / "A.md").write_text("two\n")
        world.happens(Changed(frozenset([root / "A.md"])))
        await world.until(lambda: "vault://note/A" in world.told)

        assert world.changed_at == (root / "A.md").stat().st_mtime_ns / 1e9
