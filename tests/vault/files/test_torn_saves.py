"""Editors that save a note while it is read and written: no save is lost, and nobody sees half of one."""

import ctypes
import errno
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.vault.files.editors import CONSTANT, editor, whole
from tidings.vault.files import content, disk, folders, saves
from tidings.vault.files.outcomes import Conflict, WriteFailed
from tidings.vault.files.paths import Vault
from tidings.vault.files.saves import FileLease
from tidings.vault.files.writer import VaultWriter
from tidings.vault.notes.edits import SetProperty

KINDS = ["truncate", "node", "rename", "backup"]


def append(writer: VaultWriter, number: int) -> None:
    writer.append("note.md", f"agent {number}", create=False)


def edit(writer: VaultWriter, number: int) -> None:
    writer.edit("note.md", [SetProperty("n", number)])


def write(writer: VaultWriter, number: int) -> None:
    seen = writer.read("note.md")
    assert whole(seen.text) is not None
    with suppress(Conflict):
        writer.write("note.md", f"{seen.text}agent {number}\n", if_match=seen.version)


OPERATIONS: dict[str, Callable[[VaultWriter, int], None]] = {"append": append, "edit": edit, "write": write}


@contextmanager
def reading(vault: Vault) -> Iterator[list[str]]:
    """Reads the note all the time; returns the texts that were torn."""
    torn: list[str] = []
    stopped = threading.Event()
    writer = VaultWriter(vault)

    def read() -> None:
        while not stopped.is_set():
            text = writer.read("note.md").text
            if whole(text) is None:
                torn.append(text[:80])

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield torn
    finally:
        stopped.set()
        thread.join()


def rounds(
    root: Path,
    kind: str,
    operation: Callable[[VaultWriter, int], None],
    count: int,
    *,
    gaps: Sequence[float] = (0.0, 0.001, 0.01),
) -> list[str]:
    """Saves and writes at once, so many times. Returns what was lost or torn."""
    vault, path = Vault([root]), root / "note.md"
    writer, chance = VaultWriter(vault), random.Random(kind)
    problems: list[str] = []
    with editor(kind, path) as saver:
        saver.begin(0)
        saver.saved()
        with reading(vault) as torn:
            for number in range(1, count + 1):
                gap = chance.choice(gaps)
                saver.begin(number, gap=gap, lines=chance.choice([3, 40, 50_000]))
                threading.Event().wait(chance.uniform(0, 2 * gap + 0.001))
                try:
                    operation(writer, number)
                except WriteFailed as error:
                    problems.append(str(error))
                assert saver.saved() == number
                if whole(path.read_text()) != number:
                    problems.append(f"save {number} is lost: {path.read_text()[:60]!r}")
        problems += [f"torn: {text!r}" for text in torn]
    assert {each.name for each in root.iterdir()} == {"note.md"}
    return problems


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_save_is_lost_and_no_read_is_torn(tmp_path: Path, kind: str, operation: str) -> None:
    assert rounds(tmp_path, kind, OPERATIONS[operation], 6) == []


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EINVAL])
def test_no_save_is_lost_where_names_cannot_be_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def renameat2(*_: object) -> int:
        ctypes.set_errno(number)
        return -1

    monkeypatch.setattr(saves, "_rename", renameat2)
    for kind in ("truncate", "rename"):
        (root := tmp_path / kind).mkdir()
        assert rounds(root, kind, append, 6) == []


def test_a_read_waits_for_the_writer_that_has_taken_a_name_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.md").write_text("one\n")
    waiting, lock = threading.Event(), folders.OpenFolder.lock

    def announced(folder: folders.OpenFolder) -> None:
        waiting.set()
        lock(folder)

    with ThreadPoolExecutor(1) as pool:
        with folders.OpenFolder(tmp_path, ()) as folder:
            folder.lock()
            folder.rename("a.md", folder, ".aside")
            monkeypatch.setattr(folders.OpenFolder, "lock", announced)
            read = pool.submit(VaultWriter(Vault([tmp_path])).read, "a.md")
            assert waiting.wait(10)
            folder.rename(".aside", folder, "a.md")
        assert read.result(10).text == "one\n"


@pytest.mark.parametrize("in_place", [False, True])
def test_a_note_whose_name_is_taken_away_before_it_is_replaced_is_looked_at_again(
    tmp_path: Path, in_place: bool
) -> None:
    (tmp_path / "a.md").write_text("one\n")
    with folders.OpenFolder(tmp_path, ()) as folder:
        before = content.decode(b"one\n", folder.stat("a.md"))
        folder.rename("a.md", folder, "a.md~")
        assert not folders.replace(folder, "a.md", b"two\n", before, hidden=".new", in_place=in_place)
    assert [each.name for each in tmp_path.iterdir()] == ["a.md~"]


def test_no_save_is_lost_where_nobody_knows_who_has_a_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (saves, folders):
        monkeypatch.setattr(module, "take_lease", lambda *_, **__: FileLease.UNKNOWN)
    assert rounds(tmp_path, "truncate", append, 4, gaps=[0.0, 0.001]) == []
    assert rounds(tmp_path, "rename", append, 4) == []


def saving_all_the_time(root: Path, count: int) -> None:
    """Adds to a note, so many times, that an editor saves without a pause."""
    path = root / "note.md"
    path.write_text("---\nn: 0\n---\nsave 0 of 0\nend 0\n")
    process = subprocess.Popen([sys.executable, "-c", CONSTANT, path], stdout=subprocess.PIPE)
    assert process.stdout is not None
    writer = VaultWriter(Vault([root]))
    try:
        process.stdout.readline()
        for number in range(count):
            with suppress(WriteFailed):  # It leaves gaps of less than a millisecond.
                done = writer.append("note.md", f"agent {number}")
                assert whole(done.before) is not None
                assert done.text == f"{done.before}agent {number}\n"
                assert whole(writer.read("note.md").text) is not None
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_note_that_an_editor_saves_all_the_time_is_never_torn(tmp_path: Path) -> None:
    saving_all_the_time(tmp_path, 3)


def test_other_names_of_a_note_keep_its_text(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"\xef\xbb\xbfone\r\n")
    (tmp_path / "b.md").hardlink_to(tmp_path / "a.md")
    writer = VaultWriter(Vault([tmp_path]))
    assert not writer.append("a.md", "two").cut
    assert (tmp_path / "b.md").read_bytes() == b"\xef\xbb\xbfone\r\ntwo\r\n"
    assert not writer.write("b.md", "x", overwrite=True).cut
    assert (tmp_path / "a.md").read_bytes() == b"\xef\xbb\xbfx"
    assert (tmp_path / "a.md").samefile(tmp_path / "b.md")


def test_other_names_that_cannot_keep_up_are_mentioned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "take_lease", lambda *_, **__: FileLease.UNKNOWN)
    (tmp_path / "a.md").write_text("one\n")
    (tmp_path / "b.md").hardlink_to(tmp_path / "a.md")
    assert VaultWriter(Vault([tmp_path])).append("a.md", "two").cut
    assert (tmp_path / "b.md").read_text() == "one\n"


def test_a_note_that_a_program_keeps_open_is_read_but_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_PATIENCE", 0.2)
    writer = VaultWriter(Vault([tmp_path]))
    with (tmp_path / "log.md").open("w") as log:
        log.write("one\n")
        log.flush()
        assert writer.read("log.md").text == "one\n"
        with pytest.raises(WriteFailed, match="another program is writing it"):
            writer.append("log.md", "mine")
        log.write("two\n")
    writer.append("log.md", "mine")
    assert (tmp_path / "log.md").read_text() == "one\ntwo\nmine\n"


def test_a_note_that_stays_empty_while_it_is_saved_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_PATIENCE", 0.2)
    with (tmp_path / "a.md").open("w"), pytest.raises(WriteFailed, match="Try again"):
        VaultWriter(Vault([tmp_path])).read("a.md")
    assert VaultWriter(Vault([tmp_path])).read("a.md").text == ""


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_a_note_that_an_editor_saves_all_the_time_is_never_torn_in_five_hundred_writes(tmp_path: Path) -> None:
    saving_all_the_time(tmp_path, 500)


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", KINDS)
def test_no_save_of_five_hundred_is_lost_where_names_cannot_be_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(saves, "_rename", None)
    assert rounds(tmp_path, kind, append, 500) == []


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_save_of_five_hundred_is_lost(tmp_path: Path, kind: str, operation: str) -> None:
    assert rounds(tmp_path, kind, OPERATIONS[operation], 500) == []
