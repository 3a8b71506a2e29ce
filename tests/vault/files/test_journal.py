"""The journal of writes: undoing them, and what is left of a process that was killed."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.vault.files.test_moving import Known
from tidings.vault.files import journal as journals
from tidings.vault.files.disk import Disk, Make, OpenedFile
from tidings.vault.files.journal import Operation, Step, WriteJournal
from tidings.vault.files.outcomes import AlreadyThere, FileWritten, NotThere, WriteFailed
from tidings.vault.files.paths import Vault
from tidings.vault.files.writer import VaultWriter
from tidings.vault.notes.edits import ReplaceText


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "vault").mkdir()
    return tmp_path / "vault"


@pytest.fixture
def writer(root: Path) -> VaultWriter:
    return writer_of(root)


def writer_of(root: Path) -> VaultWriter:
    """A writer as another process would have it."""
    return VaultWriter(Vault([root]), journal=WriteJournal(root.parent / "journal"))


def contents(root: Path) -> dict[str, bytes]:
    """The files of a vault, hidden or not, but for the trash."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".trash" not in path.parts
    }


FILES = {
    "Plan.md": b"# Plan\r\n[[Other]] #todo\r\n",
    "Other.md": b"\xef\xbb\xbf[[Plan]] #todo/now\n",
    "sub/Third.md": b"[[Plan]] and [[sub/Third]]\n",
}


def fill(root: Path) -> None:
    for path, data in FILES.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_bytes(data)


WRITES: dict[str, Callable[[VaultWriter, Vault], object]] = {
    "write": lambda writer, vault: writer.write("Plan.md", "new\n", overwrite=True),
    "create": lambda writer, vault: writer.write("new/Note.md", "new\n"),
    "edit": lambda writer, vault: writer.edit("Other.md", [ReplaceText("Plan", "X")]),
    "append": lambda writer, vault: writer.append("Plan.md", "more"),
    "move": lambda writer, vault: writer.move("Plan.md", "to/There.md", references=Known(vault)),
    "move a folder": lambda writer, vault: writer.move("sub", "deep/down", references=Known(vault)),
    "move with links in itself": lambda writer, vault: writer.move(
        "sub/Third.md", "sub/4th.md", references=Known(vault)
    ),
    "delete": lambda writer, vault: writer.delete("Plan.md"),
    "delete a folder": lambda writer, vault: writer.delete("sub", recursive=True),
    "rename_tag": lambda writer, vault: writer.rename_tag("todo", "task", ["Plan.md", "Other.md", "sub/Third.md"]),
}


@pytest.mark.parametrize("name", WRITES)
def test_every_write_can_be_undone_and_done_again(root: Path, writer: VaultWriter, name: str) -> None:
    fill(root)
    WRITES[name](writer, Vault([root]))
    after = contents(root)
    assert after != FILES
    undone = writer.undo()
    assert contents(root) == FILES
    assert undone.touched
    with pytest.raises(NotThere, match="nothing that could be undone"):
        writer.undo()
    again = next(iter(writer.journal.entries()))
    assert again.did == f"Undid: {undone.did}"
    writer_of(root).undo(again.id)
    assert contents(root) == after


def test_several_writes_are_undone_one_after_the_other(root: Path, writer: VaultWriter) -> None:
    for text in ("one", "two", "three"):
        writer.append("a.md", text)
    writer.undo()
    writer.undo()
    assert (root / "a.md").read_text() == "one\n"
    writer.undo()
    assert not (root / "a.md").exists()
    assert (root / ".trash/a.md").read_text() == "one\n"


def test_a_write_is_found_by_its_id_or_its_file_also_by_another_process(root: Path, writer: VaultWriter) -> None:
    fill(root)
    writer.append("Plan.md", "x")
    writer.delete("Other.md")
    other = writer_of(root)
    with pytest.raises(NotThere, match=r"This server has written nothing.*Deleted Other.md; \w{8}: Added to Plan.md"):
        other.undo()
    assert other.undo("Plan").did == "Added to Plan.md"
    assert other.undo(next(each.id for each in other.journal.entries() if "Deleted" in each.did)).touched
    assert contents(root) == FILES
    with pytest.raises(NotThere, match="No recorded write"):
        other.undo("Nowhere.md")


def test_what_somebody_has_changed_since_is_not_undone(root: Path, writer: VaultWriter) -> None:
    fill(root)
    writer.rename_tag("todo", "task", FILES)
    (root / "Other.md").write_text("mine\n")
    before = contents(root)
    with pytest.raises(AlreadyThere, match=r"'Other.md' was changed since.*vault://history"):
        writer.undo()
    assert contents(root) == before
    writer.delete("Plan.md")
    (root / "Plan.md").write_text("new\n")
    with pytest.raises(AlreadyThere, match=r"something else at 'Plan.md' now"):
        writer.undo()
    (root / "Plan.md").unlink()
    (root / ".trash/Plan.md").unlink()
    with pytest.raises(AlreadyThere, match=r"'.trash/Plan.md' no longer exists"):
        writer.undo()


def test_of_a_change_that_was_made_in_a_part_of_the_files_that_part_is_undone(
    root: Path, writer: VaultWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(root)
    change = Disk.change

    def changed(disk: Disk, place: OpenedFile, make: Make, operation: Operation) -> FileWritten:
        if place.path == "Other.md":
            raise WriteFailed("It may not be written.")
        return change(disk, place, make, operation)

    monkeypatch.setattr(Disk, "change", changed)
    done = writer.rename_tag("todo", "task", sorted(FILES))
    assert [skipped.path for skipped in done.skipped] == ["Other.md"]
    assert done.changed
    writer.undo()
    assert contents(root) == FILES


def test_a_change_of_a_file_with_two_names_can_be_undone_and_finished(root: Path, writer: VaultWriter) -> None:
    fill(root)
    (root / "Same.md").hardlink_to(root / "Plan.md")
    before = contents(root)
    writer.rename_tag("todo", "task", sorted(before))
    after = contents(root)
    writer.undo()
    assert contents(root) == before
    abandoned(root, *(Step(path, before=before[path], after=after[path]) for path in sorted(before)))
    (root / "Other.md").write_bytes(after["Other.md"])
    (said,) = writer.recover()
    assert "left as they are" not in said
    assert contents(root) == after


def test_an_undo_that_cannot_be_recorded_says_why(
    root: Path, writer: VaultWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(root)
    writer.append("Plan.md", "more")
    before = contents(root)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(journals, "_write", full)
    with pytest.raises(WriteFailed, match=r"'Added to Plan.md' was not undone: there is no space left on the disk"):
        writer.undo()
    assert contents(root) == before


def test_a_write_that_is_refused_leaves_no_entry(writer: VaultWriter) -> None:
    writer.write("a.md", "x")
    with pytest.raises(AlreadyThere):
        writer.write("a.md", "y")
    writer.write("a.md", "x", overwrite=True)
    assert [entry.did for entry in writer.journal.entries()] == ["Wrote a.md"]


def test_the_journal_is_bounded(root: Path, writer: VaultWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "MOST_ENTRIES", 5)
    for number in range(40):
        writer.append("a.md", str(number))
    assert len(list(writer.journal.entries())) < 5 + 16
    monkeypatch.setattr(journals, "MOST_BYTES", 0)
    writer_of(root).recover()
    assert list(writer.journal.entries()) == []


def test_a_journal_that_cannot_be_kept_is_mentioned(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    (root.parent / "journal").write_text("in the way")
    writer = writer_of(root)
    assert writer.recover() == []
    assert "not recorded" in caplog.text
    assert "not recorded" in writer.journal.recovered[0]
    assert writer.write("a.md", "x").created


def test_nothing_is_written_that_cannot_be_recorded(root: Path, writer: VaultWriter) -> None:
    fill(root)
    writer.recover()
    (root.parent / "journal/probe").unlink()
    (root.parent / "journal").rmdir()
    (root.parent / "journal").write_text("in the way")
    for name in ("write", "move", "rename_tag", "delete"):
        with pytest.raises((WriteFailed, AlreadyThere)):
            WRITES[name](writer, Vault([root]))
    assert contents(root) == FILES


def test_an_operation_under_way_is_left_to_its_process(root: Path) -> None:
    fill(root)
    journal = WriteJournal(root.parent / "journal")
    with journal.operation("Wrote Plan.md") as operation:
        operation.intend(Step("Plan.md", before=FILES["Plan.md"], after=b"new"), Step("Other.md", before=b"?"))
        (root / "Plan.md").write_bytes(b"new")
        (root / operation.hidden("Plan.md")).write_bytes(b"ne")
        assert writer_of(root).recover() == []
        assert (root / operation.hidden("Plan.md")).exists()


def abandoned(root: Path, *steps: Step) -> Operation:
    """An operation whose process has ended in the middle."""
    operation = Operation("Wrote it", root.parent / "journal")
    operation.intend(*steps)
    assert operation._descriptor is not None
    os.close(operation._descriptor)
    return operation


def test_a_save_that_a_killed_write_had_displaced_gets_its_name_back(root: Path, writer: VaultWriter) -> None:
    operation = abandoned(root, Step("a.md", before=b"old", after=b"new"))
    (root / "a.md").write_bytes(b"new")
    (root / operation.hidden("a.md")).write_bytes(b"saved by somebody else")
    assert "dropped" in writer.recover()[0]
    assert contents(root) == {"a.md": b"saved by somebody else"}
    assert writer_of(root).recover() == []


def test_a_note_that_was_taken_away_for_a_moment_is_put_back(root: Path, writer: VaultWriter) -> None:
    operation = abandoned(root, Step("a.md", before=b"old", after=b"new"))
    (root / f"{operation.hidden('a.md')}.old").write_bytes(b"old")
    (root / operation.hidden("a.md")).write_bytes(b"new")
    writer.recover()
    assert contents(root) == {"a.md": b"old"}


@pytest.mark.parametrize("cut", [1, 5, 9])
def test_a_note_that_was_half_overwritten_in_place_is_completed(root: Path, writer: VaultWriter, cut: int) -> None:
    before, after = b"some old text", b"SOME NEW TEXT, longer"
    abandoned(root, Step("a.md", before=before, after=after))
    (root / "a.md").write_bytes(after[:cut] + before[cut:])
    assert "finished" in writer.recover()[0]
    assert contents(root) == {"a.md": after}


def test_what_somebody_has_changed_since_is_not_finished(root: Path, writer: VaultWriter) -> None:
    abandoned(root, Step("a.md", before=b"1", after=b"2"), Step("b.md", before=b"1", after=b"2"))
    (root / "a.md").write_bytes(b"2")
    (root / "b.md").write_bytes(b"mine")
    assert "left as they are: b.md" in writer.recover()[0]
    assert contents(root) == {"a.md": b"2", "b.md": b"mine"}
    assert [entry.state for entry in writer.journal.entries()] == ["recovered"]


def test_an_entry_that_was_not_written_to_its_end_counts_as_far_as_it_goes(root: Path, writer: VaultWriter) -> None:
    operation = abandoned(root, Step("a.md", before=b"1", after=b"2"))
    assert operation.place is not None
    with operation.place.open("ab") as file:
        file.write(b"\0\0\0\0\0\0\1\0cut off")
    (root.parent / "journal/00-x.op").write_bytes(b"nonsense")
    (root / "a.md").write_bytes(b"2")
    assert "finished" in writer.recover()[0]
