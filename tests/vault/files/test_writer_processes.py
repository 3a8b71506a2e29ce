"""Several programs that write to one vault, one that is killed, and systems that offer less."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidings.vault.files import folders
from tidings.vault.files.journal import WriteJournal
from tidings.vault.files.outcomes import NotThere, WriteFailed
from tidings.vault.files.paths import BadPath, Vault
from tidings.vault.files.writer import VaultWriter

COUNT = """
import sys
from pathlib import Path
from tidings.vault.files.paths import Vault
from tidings.vault.files.outcomes import Conflict
from tidings.vault.files.writer import VaultWriter

writer = VaultWriter(Vault([Path(sys.argv[1])]))
done = conflicts = 0
while done < 25:
    seen = writer.read("count.md")
    try:
        writer.write("count.md", str(int(seen.text) + 1), if_match=seen.version)
    except Conflict:
        conflicts += 1
    else:
        done += 1
    writer.append("log.md", sys.argv[2])
"""

WRITE_FOR_EVER = """
import sys
from pathlib import Path
from tidings.vault.files.paths import Vault
from tidings.vault.files.journal import WriteJournal
from tidings.vault.files.writer import VaultWriter

writer = VaultWriter(Vault([Path(sys.argv[1])]), journal=WriteJournal(Path(sys.argv[2])))
size = 0
while True:
    size = size % 50 + 1
    writer.write("note.md", f"{size}\\n" * size * 1000, overwrite=True)
    print(flush=True)
"""


def test_two_programs_that_write_with_versions_lose_no_update(tmp_path: Path) -> None:
    (tmp_path / "count.md").write_text("0")
    (tmp_path / "log.md").write_text("start\n")
    programs = [subprocess.Popen([sys.executable, "-c", COUNT, tmp_path, name]) for name in ("a", "b")]
    assert [program.wait(50) for program in programs] == [0, 0]
    assert (tmp_path / "count.md").read_text() == "50"
    assert len((tmp_path / "log.md").read_text().split()) >= 51
    assert {path.name for path in tmp_path.iterdir()} == {"count.md", "log.md"}


def test_a_program_that_is_killed_leaves_whole_notes(tmp_path: Path) -> None:
    (vault := tmp_path / "vault").mkdir()
    command = [sys.executable, "-c", WRITE_FOR_EVER, vault, journal := tmp_path / "journal"]
    for rounds in range(1, 6):
        program = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert program.stdout is not None
        for _ in range(rounds):
            program.stdout.readline()
        program.send_signal(signal.SIGKILL)
        program.wait(20)
        program.stdout.close()
        lines = (vault / "note.md").read_text().splitlines()
        assert len(set(lines)) == 1
        assert len(lines) == int(lines[0]) * 1000
    VaultWriter(Vault([vault]), journal=WriteJournal(journal)).recover()
    assert [path.name for path in vault.iterdir()] == ["note.md"]


def test_a_folder_that_another_program_keeps_locked_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "_LOCK_SECONDS", 0.01)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(WriteFailed, match="another program"):
            VaultWriter(Vault([tmp_path])).write("a.md", "x")
        assert list(tmp_path.iterdir()) == []
    finally:
        os.close(descriptor)
    assert VaultWriter(Vault([tmp_path])).write("a.md", "x").created


def test_a_disk_that_knows_no_locks_is_written_to_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert VaultWriter(Vault([tmp_path])).write("a.md", "x").created


def test_a_system_that_cannot_hold_folders_does_the_same_by_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "_HOLDS", False)
    writer = VaultWriter(Vault([tmp_path]))
    assert writer.write("a/b/Plan.md", "one\n").created
    assert writer.append("a/b/Plan.md", "two").version == writer.read("a/b/Plan.md").version
    assert (tmp_path / "a/b/Plan.md").read_text() == "one\ntwo\n"
    with pytest.raises(NotThere):
        writer.read("a/c/Plan.md")
    assert writer.delete("a/b", recursive=True).trash == ".trash/a/b"
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_link_that_is_put_in_between_does_not_lead_out_by_path_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "_HOLDS", False)
    (tmp_path / "outside").mkdir()
    root = tmp_path / "vault"
    (root / "a").mkdir(parents=True)
    (root / "a/note.md").write_text("mine")
    fsync = os.fsync

    def swap(descriptor: int) -> None:
        (root / "a").rename(root / "b")
        (root / "a").symlink_to("../outside")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", swap)
    with pytest.raises(BadPath, match="has just become"):
        VaultWriter(Vault([root])).append("a/note.md", "x")
    assert list((tmp_path / "outside").iterdir()) == []
