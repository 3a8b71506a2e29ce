"""Watching the folders of a vault."""

import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import ObjectReceiveStream

from tests.server.serving import eventually
from tidings._kit import files
from tidings.vault import watch as watching
from tidings.vault.files.paths import Vault
from tidings.vault.watch import Changed, Happening, LookAround, WatchPace, WentAway, watch

pytestmark = pytest.mark.anyio

QUICK = WatchPace(tick=0.1, poll=0.01)


class Seen:
    """What a watcher says, as it comes."""

    def __init__(self, stream: ObjectReceiveStream[Happening]) -> None:
        self._stream = stream
        self.changed: set[Path] = set()

    async def next(self) -> Happening:
        with anyio.fail_after(20):
            return await self._stream.receive()

    async def until(self, *paths: Path) -> None:
        """Wait until all of `paths` were said to have changed."""
        while not self.changed.issuperset(paths):
            happening = await self.next()
            if isinstance(happening, Changed):
                self.changed |= happening.paths


@asynccontextmanager
async def seen(vault: Vault, pace: WatchPace = QUICK) -> AsyncGenerator[Seen]:
    send, receive = anyio.create_memory_object_stream[Happening](100_000)

    async def forward() -> None:
        async with aclosing(watch(vault, pace)) as happenings:
            async for happening in happenings:
                await send.send(happening)

    async with anyio.create_task_group() as tasks:
        with send, receive:
            tasks.start_soon(forward)
            yield Seen(receive)
            tasks.cancel_scope.cancel()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    return folder


async def test_it_begins_by_saying_that_anything_may_have_changed(root: Path) -> None:
    async with seen(Vault([root])) as happenings:
        assert await happenings.next() == LookAround("events")


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "a.md").write_text("new"),
        lambda root: (root / "old.md").rename(root / "a.md"),
        lambda root: Path(shutil.copy(root / "old.md", root / ".a.md.tmp")).replace(root / "a.md"),
        lambda root: shutil.copytree(root / "folder", root / "a.md"),
    ],
    ids=["written", "renamed", "replaced atomically", "a folder copied"],
)
async def test_what_happens_on_the_disk_is_seen(root: Path, change: Callable[[Path], Any]) -> None:
    (root / "old.md").write_text("old")
    (root / "folder").mkdir()
    async with seen(Vault([root])) as happenings:
        await happenings.next()
        change(root)
        await happenings.until(root / "a.md")


async def test_a_file_in_a_folder_that_was_deleted_and_made_again_is_seen(root: Path) -> None:
    (root / "folder").mkdir()
    async with seen(Vault([root])) as happenings:
        await happenings.next()
        (root / "folder").rmdir()
        await happenings.until(root / "folder")
        (root / "folder").mkdir()
        happenings.changed.clear()
        await happenings.until(root / "folder")
        (root / "folder" / "a.md").write_text("again")
        await happenings.until(root / "folder" / "a.md")


async def test_dot_folders_and_what_is_excluded_are_not_heard_of(root: Path) -> None:
    (root / ".git").mkdir()
    async with seen(Vault([root], exclude=["Private"])) as happenings:
        await happenings.next()
        (root / ".git" / "index").write_text("busy")
        (root / "Private").mkdir()
        (root / ".a.md.tmp").write_text("half")
        (root / "a.md").write_text("whole")
        await happenings.until(root / "a.md")
        assert happenings.changed == {root / "a.md"}


async def test_all_of_several_vaults_are_watched(tmp_path: Path) -> None:
    roots = [tmp_path / "one", tmp_path / "two"]
    for each in roots:
        each.mkdir()
    async with seen(Vault(roots)) as happenings:
        await happenings.next()
        for each in roots:
            (each / "a.md").write_text("new")
        await happenings.until(*(each / "a.md" for each in roots))


async def test_after_a_large_burst_everything_is_looked_at_because_some_of_it_may_be_lost(root: Path) -> None:
    async with seen(Vault([root]), WatchPace(burst=20)) as happenings:
        assert await happenings.next() == LookAround("events")
        for number in range(100):
            (root / f"{number}.md").write_text("new")
        with anyio.fail_after(20):
            while await happenings.next() != LookAround("events"):
                pass


async def test_everything_is_looked_at_from_time_to_time_though_nothing_is_seen(root: Path) -> None:
    async with seen(Vault([root]), WatchPace(tick=0.01, audit=0.01)) as happenings:
        for _ in range(3):
            assert await happenings.next() == LookAround("events")


async def test_a_vault_that_disappears_is_away_until_it_comes_back(root: Path) -> None:
    async with seen(Vault([root])) as happenings:
        await happenings.next()
        root.rename(root.parent / "elsewhere")
        while not isinstance(away := await happenings.next(), WentAway):
            pass
        assert str(root) in away.note
        (root.parent / "elsewhere").rename(root)
        assert await happenings.next() == LookAround("events")
        (root / "a.md").write_text("new")
        await happenings.until(root / "a.md")


async def test_another_folder_in_the_place_of_the_vault_is_looked_at_anew(root: Path) -> None:
    async with seen(Vault([root])) as happenings:
        await happenings.next()
        root.rename(root.parent / "elsewhere")
        root.mkdir()
        while await happenings.next() != LookAround("events"):
            pass
        (root / "a.md").write_text("new")
        await happenings.until(root / "a.md")


@pytest.mark.parametrize("on_linux", [True, False])
@pytest.mark.parametrize(
    "error", [OSError("OS file watch limit reached."), RuntimeError("no inotify here"), ValueError("no text")]
)
async def test_where_folders_cannot_be_watched_they_are_looked_at_again_and_again_and_it_is_said(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception, on_linux: bool
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(watching, "FolderWatch" if on_linux else "RustNotify", refuse)
    monkeypatch.setattr(watching, "_ON_LINUX", on_linux)
    async with seen(Vault([root])) as happenings:
        for _ in range(3):
            happening = await happenings.next()
            assert isinstance(happening, LookAround)
            assert happening.by == "polling"
            assert str(error) in (happening.note or "")
    assert str(error) in caplog.text


async def test_a_watcher_that_fails_later_is_begun_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = watching.FolderWatch
    failures = iter([RuntimeError("broken")])

    class Failing:
        def __init__(self, *arguments: Any) -> None:
            self._real = real(*arguments)

        def close(self) -> None:
            self._real.close()

        def wait(self, *arguments: Any) -> Any:
            for failure in failures:
                raise failure
            return self._real.wait(*arguments)

    monkeypatch.setattr(watching, "FolderWatch", Failing)
    async with seen(Vault([root])) as happenings:
        for _ in range(2):
            assert await happenings.next() == LookAround("events")
        (root / "a.md").write_text("new")
        await happenings.until(root / "a.md")


@pytest.mark.parametrize(
    ("mounts", "polled"),
    [
        ("disk / ext4 rw 0 0", False),
        ("disk / ext4 rw 0 0\nserver:/x {root} nfs4 rw 0 0", True),
        ("server:/x {root} nfs4 rw 0 0\ndisk / ext4 rw 0 0", True),
        ("server:/x / cifs rw 0 0\ndisk {root} ext4 rw 0 0", False),
        ("server:/x {root}/further nfs rw 0 0", False),
        ("", False),
    ],
)
async def test_a_network_disk_is_looked_at_again_and_again(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mounts: str, polled: bool
) -> None:
    table = tmp_path / "mounts"
    table.write_text(mounts.format(root=str(root).replace(" ", "\\040")))
    monkeypatch.setattr(files, "_MOUNTS", table)
    async with seen(Vault([root])) as happenings:
        happening = await happenings.next()
        assert isinstance(happening, LookAround)
        assert happening.by == ("polling" if polled else "events")


async def test_where_the_system_does_not_say_what_is_mounted_folders_are_watched(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(files, "_MOUNTS", tmp_path / "nothing")
    async with seen(Vault([root])) as happenings:
        assert await happenings.next() == LookAround("events")


async def test_polling_ends_when_the_folder_is_another(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "network_disk", lambda _: "nfs")
    async with seen(Vault([root])) as happenings:
        assert isinstance(await happenings.next(), LookAround)
        root.rename(root.parent / "elsewhere")
        while not isinstance(await happenings.next(), WentAway):
            pass


async def test_where_there_is_no_inotify_watchfiles_sees_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_ON_LINUX", False)
    async with seen(Vault([root])) as happenings:
        assert await happenings.next() == LookAround("events")
        (root / "a.md").write_text("new")
        await happenings.until(root / "a.md")


def watches() -> int:
    """The folders that this process watches, as the system counts them."""
    infos = [info for info in Path("/proc/self/fdinfo").iterdir() if info.exists()]
    return sum(info.read_text().count("inotify wd:") for info in infos if info.exists())


async def test_hidden_and_excluded_folders_are_not_watched(root: Path) -> None:
    for place in (".git/objects", "Private", "Shown/.cache"):
        for number in range(50):
            (root / place / f"{number}/deep").mkdir(parents=True)
    (root / ".obsidian/plugins/periodic-notes").mkdir(parents=True)
    before = watches()
    async with seen(Vault([root], exclude=["Private"])) as happenings:
        await happenings.next()
        assert watches() - before == 4  # The vault, Shown, and two folders of settings.
        (root / ".later/deep").mkdir(parents=True)
        (root / "New/deep").mkdir(parents=True)
        await happenings.until(root / "New")
        (root / "New/deep/a.md").write_text("x")
        await happenings.until(root / "New/deep/a.md")
        assert watches() - before == 6
        for settings in (".obsidian/app.json", ".obsidian/plugins/periodic-notes/data.json"):
            (root / settings).write_text("{}")
            await happenings.until(root / settings)
        (root / "New").rename(root / "Moved")
        await happenings.until(root / "Moved")
        (root / "Moved/deep/b.md").write_text("x")
        await happenings.until(root / "Moved/deep/b.md")
        shutil.rmtree(root / "Moved")
        await happenings.until(root / "Moved")
        await eventually(lambda: watches() - before == 4)


async def test_links_to_folders_hide_nothing_and_end_nowhere(root: Path) -> None:
    (root / "Real/inner").mkdir(parents=True)
    for name, target in (("A link", "Real"), ("Real/up", ".."), ("Real/inner/self", "."), ("z", "/"), ("gone", "no")):
        (root / name).symlink_to(target)
    async with seen(Vault([root])) as happenings:
        await happenings.next()
        for name in ("Real/a.md", "Real/inner/b.md"):
            (root / name).write_text("x")
            await happenings.until(root / name)
