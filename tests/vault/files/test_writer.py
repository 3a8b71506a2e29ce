"""The one place that writes to a vault."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.vault.files import disk, saves
from tidings.vault.files.content import decode, encode, with_endings_of
from tidings.vault.files.outcomes import AlreadyThere, Conflict, FileTooLarge, NotText, NotThere, ReadOnly, WriteFailed
from tidings.vault.files.paths import BadPath, Vault
from tidings.vault.files.writer import VaultWriter
from tidings.vault.notes.edits import EditRefused, ReplaceSection, ReplaceText, SetProperty
from tidings.vault.notes.model import version_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "vault").mkdir()
    return tmp_path / "vault"


@pytest.fixture
def writer(root: Path) -> VaultWriter:
    return VaultWriter(Vault([root]))


@pytest.fixture
def old_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system or disk without `renameat2`."""
    monkeypatch.setattr(saves, "_rename", None)


def everything(root: Path) -> dict[str, bytes | None]:
    """All that is in a folder, hidden or not."""
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


def test_a_note_is_created_with_its_folders_and_read_again(root: Path, writer: VaultWriter) -> None:
    written = writer.write("a/b/Plan.md", "# Plan\n")
    assert (root / "a/b/Plan.md").read_bytes() == b"# Plan\n"
    assert (written.path, written.touched, written.created) == ("a/b/Plan.md", ("a/b/Plan.md",), True)
    content = writer.read("a/b/Plan.md")
    assert (content.text, content.version, len(content.data)) == ("# Plan\n", written.version, 7)
    assert content.version == version_of(b"# Plan\n")
    assert content.seen
    assert content.seen.st_mtime == (root / "a/b/Plan.md").stat().st_mtime
    assert not [path for path in root.rglob("*") if path.name.startswith(".")]


def test_a_note_that_is_there_is_only_replaced_by_who_knows_it(root: Path, writer: VaultWriter) -> None:
    version = writer.write("a.md", "one\n").version
    with pytest.raises(AlreadyThere, match=f"version {version}.*if_match"):
        writer.write("a.md", "two\n")
    written = writer.write("a.md", "two\n", if_match=version)
    assert not written.created
    assert "-one\n+two" in written.diff
    assert writer.write("a.md", "three\n", overwrite=True).version == writer.read("a.md").version
    with pytest.raises(NotThere):
        writer.append("b.md", "x", create=False)
    assert not (root / "b.md").exists()


def test_a_conflict_shows_both_versions_and_what_would_be_lost(root: Path, writer: VaultWriter) -> None:
    mine = writer.write("a.md", "one\n").version
    (root / "a.md").write_text("theirs\n")
    for attempt in (
        lambda: writer.write("a.md", "mine\n", if_match=mine),
        lambda: writer.edit("a.md", [ReplaceText("theirs", "mine")], if_match=mine),
        lambda: writer.edit("a.md", [ReplaceText("gone", "mine")], if_match=mine),
        lambda: writer.append("a.md", "mine", if_match=mine),
        lambda: writer.delete("a.md", if_match=mine),
    ):
        theirs = version_of(b"theirs\n")
        with pytest.raises(Conflict, match=f"it is version {theirs} now, not {mine}"):
            attempt()
        assert (root / "a.md").read_text() == "theirs\n"
    with pytest.raises(Conflict, match="-theirs\n\\+mine"):
        writer.write("a.md", "mine\n", if_match=mine)


def test_a_version_of_a_note_that_is_not_there_is_a_conflict(root: Path, writer: VaultWriter) -> None:
    for attempt in (
        lambda: writer.write("new/a.md", "x", if_match="0" * 16),
        lambda: writer.edit("new/a.md", [], if_match="0" * 16),
        lambda: writer.append("new/a.md", "x", if_match="0" * 16),
    ):
        with pytest.raises(Conflict, match="does not exist"):
            attempt()
    assert everything(root) == {}


def test_a_write_that_changes_nothing_touches_nothing(root: Path, writer: VaultWriter) -> None:
    writer.write("a.md", "one\n")
    before = (root / "a.md").stat()
    written = writer.write("a.md", "one\n", overwrite=True)
    assert written.touched == ()
    assert written.diff == ""
    assert (root / "a.md").stat() == before


def test_a_note_is_edited(root: Path, writer: VaultWriter) -> None:
    (root / "a.md").write_bytes(b"---\nx:   1 # c\n---\n# A\r\nold\r\n")
    written = writer.edit("a.md", [ReplaceSection("A", "new\nlines"), SetProperty("y", 2)])
    assert written.version == writer.read("a.md").version
    data = (root / "a.md").read_bytes()
    assert data.startswith(b"---\nx:   1 # c\ny: 2")
    assert data.endswith((b"# A\r\nnew\r\nlines\r\n", b"# A\r\nnew\nlines\r\n"))
    with pytest.raises(EditRefused):
        writer.edit("a.md", [ReplaceText("new", "x"), ReplaceText("missing", "y")])
    assert (root / "a.md").read_bytes() == data
    with pytest.raises(NotThere):
        writer.edit("b.md", [ReplaceText("a", "b")])


def test_a_note_is_added_to(root: Path, writer: VaultWriter) -> None:
    writer.append("log/a.md", "first\n")
    writer.append("log/a.md", "second")
    writer.append("log/a.md", "zeroth", at_start=True)
    writer.append("log/a.md", "- item", section="Log")
    writer.append("log/a.md", "- before", section="Log", at_start=True)
    assert (root / "log/a.md").read_text() == "zeroth\nfirst\nsecond\n\n## Log\n- before\n- item\n"
    with pytest.raises(NotThere):
        writer.append("log/b.md", "x", create=False)
    with pytest.raises(EditRefused, match="no heading"):
        writer.append("log/a.md", "x", create=False, section="Missing")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encoding_and_line_endings_stay(root: Path, writer: VaultWriter, encoding: str) -> None:
    (root / "a.md").write_bytes("ä\r\nb\nc\r\n".encode(encoding))
    writer.edit("a.md", [ReplaceText("b", "ü\nx")])
    assert (root / "a.md").read_bytes() == "ä\r\nü\r\nx\nc\r\n".encode(encoding)
    assert writer.read("a.md").text == "ä\r\nü\r\nx\nc\r\n"
    writer.write("a.md", "ä\nnew\nx\nc\n", overwrite=True)
    assert (root / "a.md").read_bytes() == "ä\r\nnew\r\nx\nc\r\n".encode(encoding)


@given(st.text(), st.sampled_from(["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"]))
def test_a_text_comes_back_from_its_bytes(text: str, encoding: str) -> None:
    data = encode(text, encoding)  # type: ignore[arg-type]
    content = decode(data)
    if not text.startswith("\ufeff"):
        assert (content.text, content.encoding) == (text, encoding)
    assert encode(content.text, content.encoding) == data


@given(st.binary(max_size=40))
def test_bytes_are_written_back_as_they_were_or_reported(data: bytes) -> None:
    content = decode(data)
    if content.problem is None:
        assert encode(content.text, content.encoding) == data


@given(st.lists(st.sampled_from(["a\n", "b\r\n", "c\n", "\r\n"])), st.lists(st.sampled_from(["a", "b", "c", ""])))
def test_a_whole_new_text_keeps_the_endings_of_the_lines_that_stay(old: list[str], new: list[str]) -> None:
    before = "".join(old)
    assert with_endings_of(before, before.replace("\r\n", "\n")) == before
    after = with_endings_of(before, "\n".join(new))
    assert after.replace("\r\n", "\n") == "\n".join(new)


def test_what_is_no_text_is_not_edited_but_can_be_written_anew(root: Path, writer: VaultWriter) -> None:
    for data in (b"caf\xe9\n", b"\xff\xfea", b"a\0b"):
        (root / "a.md").write_bytes(data)
        assert writer.read("a.md").problem
        for attempt in (lambda: writer.append("a.md", "x"), lambda: writer.edit("a.md", [ReplaceText("a", "b")])):
            with pytest.raises(NotText, match="UTF-8"):
                attempt()
        assert (root / "a.md").read_bytes() == data
        writer.write("a.md", "x", overwrite=True)
        assert (root / "a.md").read_bytes() == b"x"
    with pytest.raises(NotText, match="U\\+D800"):
        writer.write("b.md", "\ud800")
    assert not (root / "b.md").exists()


def test_permissions_and_attributes_stay(root: Path, writer: VaultWriter) -> None:
    (root / "a.md").write_text("x")
    (root / "a.md").chmod(0o640)
    try:
        os.setxattr(root / "a.md", "user.test", b"kept")
        attributes = True
    except (OSError, AttributeError):
        attributes = False
    if os.geteuid() == 0:
        os.chown(root / "a.md", 12345, 54321)
    before = (root / "a.md").stat()
    writer.append("a.md", "y")
    after = (root / "a.md").stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert not attributes or os.getxattr(root / "a.md", "user.test") == b"kept"


def test_a_new_note_has_the_permissions_that_are_usual(root: Path, writer: VaultWriter) -> None:
    (root / "usual").touch()
    writer.write("a.md", "x")
    assert (root / "a.md").stat().st_mode == (root / "usual").stat().st_mode


def test_a_note_behind_a_link_within_the_vault_is_written_where_it_is(root: Path, writer: VaultWriter) -> None:
    (root / "real").mkdir()
    (root / "real/a.md").write_text("x\n")
    (root / "link.md").symlink_to("real/a.md")
    (root / "folder").symlink_to("real")
    written = writer.append("link.md", "y")
    assert written.touched == ("link.md", "real/a.md")
    assert writer.write("folder/b.md", "b").touched == ("folder/b.md", "real/b.md")
    assert (root / "link.md").is_symlink()
    assert (root / "real/a.md").read_text() == "x\ny\n"
    (root / "self").symlink_to(".")
    with pytest.raises(BadPath, match="whole vault"):
        writer.read("self")


def test_a_server_that_only_reads_refuses_before_anything_is_touched(root: Path) -> None:
    (root / "a.md").write_text("#tag\n")
    (root / "stale").mkdir()
    before = everything(root)
    writer = VaultWriter(Vault([root]), read_only=True)
    for attempt in (
        lambda: writer.write("b/c.md", "x"),
        lambda: writer.write("a.md", "x", overwrite=True),
        lambda: writer.edit("a.md", [ReplaceText("tag", "x")]),
        lambda: writer.append("b/c.md", "x"),
        lambda: writer.append("a.md", "x", at_start=True),
        lambda: writer.move("a.md", "b/c.md", references=None),  # type: ignore[arg-type]
        lambda: writer.delete("a.md"),
        lambda: writer.rename_tag("tag", "other", ["a.md"]),
    ):
        with pytest.raises(ReadOnly, match="is read-only"):
            attempt()
    assert writer.read_only
    assert everything(root) == before
    assert writer.read("a.md").text == "#tag\n"


@pytest.mark.parametrize(
    "failure",
    [
        (errno.ENOSPC, "no space left"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "is read-only"),
        (errno.EACCES, "permission"),
        (errno.EIO, "reports an error"),
        (errno.EBUSY, "Try again"),
    ],
)
@pytest.mark.usefixtures("old_system")
@pytest.mark.parametrize("step", ["fsync", "replace", "link", "mkdir"])
def test_a_write_that_fails_leaves_nothing_behind(
    root: Path, writer: VaultWriter, monkeypatch: pytest.MonkeyPatch, failure: tuple[int, str], step: str
) -> None:
    error, why = failure
    (root / "a.md").write_text("old\n")
    before = everything(root)

    def fail(*_: object, **__: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, step, fail)
    attempts: list[Callable[[], object]] = []
    if step in {"fsync", "replace", "link"}:
        attempts.append(lambda: writer.write("a.md", "new", overwrite=True))
    if step in {"fsync", "mkdir"} or step == "link":
        attempts.append(lambda: writer.write("new/deep/a.md", "new"))
    for attempt in attempts:
        with pytest.raises(WriteFailed, match=why):
            attempt()
    monkeypatch.undo()
    assert everything(root) == before


@pytest.mark.usefixtures("old_system")
def test_a_disk_without_hard_links_still_never_overwrites(
    root: Path, writer: VaultWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "no links")

    monkeypatch.setattr(os, "link", refuse)
    assert writer.write("a.md", "x").created
    assert (root / "a.md").read_text() == "x"
    assert writer.delete("a.md").trash == ".trash/a.md"
    assert set(everything(root)) == {".trash", ".trash/a.md"}


@pytest.mark.usefixtures("old_system")
def test_without_hard_links_a_name_that_is_taken_stays(
    root: Path, writer: VaultWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def appear(*_: object, **__: object) -> None:
        (root / "a.md").write_text("theirs")
        raise OSError(errno.EOPNOTSUPP, "no links")

    monkeypatch.setattr(os, "link", appear)
    with pytest.raises(AlreadyThere):
        writer.write("a.md", "mine")
    assert everything(root) == {"a.md": b"theirs"}


@pytest.mark.usefixtures("old_system")
def test_a_file_that_cannot_leave_its_place_stays_there(
    root: Path, writer: VaultWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a.md").write_text("x")
    unlink = os.unlink

    def fail(name: object, **options: object) -> None:
        if name == "a.md" and not (root / ".trash/stuck").exists():
            (root / ".trash/stuck").touch()
            raise OSError(errno.EPERM, "may not")
        unlink(name, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "unlink", fail)
    with pytest.raises(WriteFailed, match="permission"):
        writer.delete("a.md")
    monkeypatch.undo()
    assert set(everything(root)) == {"a.md", ".trash", ".trash/stuck"}


def test_nothing_is_written_where_a_disk_is_missing(root: Path, writer: VaultWriter) -> None:
    writer.write("a.md", "x #old\n")
    away = root.rename(root.parent / "away")
    for there in (False, True):
        if there:
            root.mkdir()
            (root / ".DS_Store").touch()
        for attempt in (
            lambda: writer.write("new/b.md", "x"),
            lambda: writer.append("a.md", "x"),
            lambda: writer.delete("a.md"),
            lambda: writer.read("a.md"),
        ):
            with pytest.raises(WriteFailed, match=r"'vault' .*its disk seems to be missing.*Nothing was changed"):
                attempt()
        assert writer.rename_tag("old", "new", ["a.md"]).count == 0
    assert set(everything(root)) == {".DS_Store"}
    root.rename(root.parent / "empty")
    away.rename(root)
    assert writer.write("a.md", "y\n", overwrite=True).touched == ("a.md",)


def test_another_folder_with_notes_in_it_is_taken_for_the_vault(root: Path, writer: VaultWriter) -> None:
    root.rename(root.parent / "away")
    root.mkdir()
    (root / "a.md").write_text("other\n")
    assert writer.read("a.md").text == "other\n"
    (root / "a.md").unlink()
    writer.write("b.md", "x")
    assert set(everything(root)) == {"b.md"}


def test_what_is_no_file_is_refused(root: Path, writer: VaultWriter) -> None:
    (root / "folder.md").mkdir()
    (root / "file").write_text("x")
    os.mkfifo(root / "pipe.md")
    before = set(everything(root))
    with pytest.raises(AlreadyThere, match="is a folder"):
        writer.write("folder.md", "x", overwrite=True)
    with pytest.raises(AlreadyThere, match="is a folder"):
        writer.read("folder.md")
    with pytest.raises(AlreadyThere, match="is a file"):
        writer.write("file/a.md", "x")
    with pytest.raises(WriteFailed, match="permission"):
        writer.read("pipe.md")
    with pytest.raises(NotThere):
        writer.read("missing/a.md")
    with pytest.raises(NotThere):
        writer.read("missing.md")
    assert set(everything(root)) == before


def test_a_note_that_is_write_protected_stays(root: Path, writer: VaultWriter) -> None:
    (root / "a.md").write_text("x")
    (root / "a.md").chmod(0o444)
    with pytest.raises(WriteFailed, match="permission"):
        writer.append("a.md", "y")
    assert everything(root) == {"a.md": b"x"}


@pytest.mark.skipif(not hasattr(os, "fstatvfs"), reason="this system does not tell that a disk is read-only")
def test_a_note_on_a_disk_that_is_read_only_stays(
    root: Path, writer: VaultWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a.md").write_text("x")
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    monkeypatch.setattr(os, "fstatvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    with pytest.raises(WriteFailed, match="the disk is read-only"):
        writer.append("a.md", "y")
    assert everything(root) == {"a.md": b"x"}


def test_sizes_are_limited(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "LARGEST_WRITE", 10)
    monkeypatch.setattr(disk, "LARGEST_READ", 20)
    writer = VaultWriter(Vault([root]))
    with pytest.raises(FileTooLarge, match="11 bytes, and 10 are allowed"):
        writer.write("new/a.md", "x" * 11)
    writer.write("a.md", "x" * 10)
    with pytest.raises(FileTooLarge):
        writer.append("a.md", "y")
    (root / "big.md").write_text("x" * 21)
    with pytest.raises(FileTooLarge, match="At most 20 are read"):
        writer.read("big.md")
    assert set(everything(root)) == {"a.md", "big.md"}


@pytest.mark.parametrize(
    "path", ["../a.md", ".obsidian/app.json", "a/../../b.md", "/etc/passwd", "out/a.md", "What?.md", ""]
)
def test_nothing_is_written_outside(root: Path, writer: VaultWriter, path: str) -> None:
    (root.parent / "outside").mkdir()
    (root / "out").symlink_to("../outside")
    before = everything(root.parent)
    for attempt in (
        lambda: writer.write(path, "x"),
        lambda: writer.append(path, "x"),
        lambda: writer.move("a.md", path, references=None),  # type: ignore[arg-type]
    ):
        with pytest.raises(BadPath):
            attempt()
    assert everything(root.parent) == before


def test_a_link_that_is_put_in_between_does_not_lead_out(
    root: Path, writer: VaultWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the check of the path and the write, somebody swaps the folder for a link to another place."""
    (root.parent / "outside").mkdir()
    (root / "a").mkdir()
    locate = Vault.locate

    def swap(self: Vault, path: str, *, creating: bool = False) -> Path:
        found = locate(self, path, creating=creating)
        resolved = os.path.realpath
        monkeypatch.setattr(os.path, "realpath", lambda place: swapped(resolved(place)))
        return found

    def swapped(real: str) -> str:
        monkeypatch.undo()
        (root / "a").rmdir()
        (root / "a").symlink_to("../outside")
        return real

    monkeypatch.setattr(Vault, "locate", swap)
    with pytest.raises(BadPath, match="has just become"):
        writer.write("a/b.md", "x")
    assert everything(root.parent / "outside") == {}


@pytest.mark.parametrize("where", ["../outside", ".obsidian"])
def test_a_link_that_is_put_in_before_the_path_is_resolved_does_not_lead_out(
    root: Path, writer: VaultWriter, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    (root.parent / "outside").mkdir()
    (root / ".obsidian").mkdir()
    (root / "a").mkdir()
    locate = Vault.locate

    def swap(self: Vault, path: str, *, creating: bool = False) -> Path:
        found = locate(self, path, creating=creating)
        (root / "a").rmdir()
        (root / "a").symlink_to(where)
        return found

    monkeypatch.setattr(Vault, "locate", swap)
    with pytest.raises(BadPath, match="leads out of the vault now"):
        writer.write("a/b.md", "x")
    assert not list(root.parent.rglob("b.md"))


def test_a_folder_that_is_moved_away_while_it_is_written_to_leads_nowhere_else(
    root: Path, writer: VaultWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root.parent / "outside").mkdir()
    (root / "a").mkdir()
    fsync = os.fsync

    def swap(descriptor: int) -> None:
        monkeypatch.undo()
        (root / "a").rename(root / "b")
        (root / "a").symlink_to("../outside")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", swap)
    writer.write("a/note.md", "x")
    assert everything(root.parent / "outside") == {}
    assert everything(root / "b") == {"note.md": b"x"}


def test_what_another_program_writes_meanwhile_is_not_lost(
    root: Path, writer: VaultWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a.md").write_text("one\n")
    version = writer.read("a.md").version
    fsync = os.fsync

    def meanwhile(descriptor: int) -> None:
        monkeypatch.undo()
        (root / "a.md").write_text("one\ntheirs\n")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", meanwhile)
    writer.append("a.md", "mine")
    assert (root / "a.md").read_text() == "one\ntheirs\nmine\n"

    version = writer.read("a.md").version
    monkeypatch.setattr(os, "fsync", meanwhile)
    with pytest.raises(Conflict):
        writer.append("a.md", "mine", if_match=version)
    assert everything(root) == {"a.md": b"one\ntheirs\n"}


@pytest.mark.usefixtures("old_system")
def test_a_note_that_appears_while_it_is_created_is_not_overwritten(
    root: Path, writer: VaultWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def meanwhile(*arguments: object, **options: object) -> None:
        monkeypatch.undo()
        (root / "a.md").write_text("theirs\n")
        link(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "link", meanwhile)
    with pytest.raises(AlreadyThere):
        writer.write("a.md", "mine\n")
    assert everything(root) == {"a.md": b"theirs\n"}


def test_a_note_that_never_rests_is_left_alone(
    root: Path, writer: VaultWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a.md").write_text("x")
    fsync = os.fsync

    def always(descriptor: int) -> None:
        (root / "new").write_text("x")
        (root / "new").rename(root / "a.md")
        fsync(descriptor)

    monkeypatch.setattr(disk, "_PATIENCE", 0.1)
    monkeypatch.setattr(os, "fsync", always)
    with pytest.raises(WriteFailed, match="keeps changing"):
        writer.append("a.md", "mine")
    assert set(everything(root)) == {"a.md"}


def test_two_threads_at_one_note_lose_nothing(root: Path, writer: VaultWriter) -> None:
    writer.write("a.md", "start\n")
    errors: list[Exception] = []

    def work(name: str) -> None:
        try:
            for number in range(15):
                writer.append("a.md", f"{name}{number}")
                writer.append(f"{name}.md", "own")
        except Exception as error:  # noqa: BLE001 - told in the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "pqr"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted((root / "a.md").read_text().split()[1:]) == sorted(f"{n}{i}" for n in "pqr" for i in range(15))
