"""From the disk to the index: what is walked through, what is different, and what comes of files of all kinds."""

import errno
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.vault.building import build
from tests.vault.contents import contents
from tidings.vault.files.paths import Vault
from tidings.vault.files.saves import FileLease
from tidings.vault.index import scan
from tidings.vault.index.index import Index
from tidings.vault.index.read_file import make_entry, read_file
from tidings.vault.index.scan import FolderWalk, VaultAway, look, plan, read_all
from tidings.vault.notes import parse
from tidings.vault.notes.model import IndexEntry

YEAR_AGO = 1_700_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    return folder


@pytest.fixture
def vault(root: Path) -> Vault:
    return Vault([root])


@pytest.fixture
def index(vault: Vault) -> Iterator[Index]:
    opened = Index(vault, memory=True)
    yield opened
    opened.close()


def put(place: Path, content: str | bytes = "") -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content.encode() if isinstance(content, str) else content)
    return place


def paths(vault: Vault) -> list[str]:
    return sorted(seen.path for seen in FolderWalk(vault).files())


def entry(vault: Vault, path: str) -> IndexEntry:
    seen = FolderWalk(vault).file(path)
    assert seen
    found = read_file(seen)
    assert isinstance(found, IndexEntry)
    return found


def read_at(monkeypatch: pytest.MonkeyPatch, time: float) -> None:
    """Let all that is read be read at a time, in seconds since 1970."""
    monkeypatch.setattr("tidings.vault.index.read_file.time.time_ns", lambda: round(time * 10**9))


def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all that is on the disk be long ago."""
    read_at(monkeypatch, 4_000_000_000)


# Walking


def test_files_of_all_kinds_are_seen_and_nothing_hidden_or_excluded(root: Path) -> None:
    for path in (
        "a.md",
        "B/c.MD",
        "B/d.canvas",
        "e.base",
        "B/C/f.png",
        "g",
        ".obsidian/app.json",
        "B/.h.md",
        "Old/i.md",
    ):
        put(root / path)
    found = {seen.path: seen.kind for seen in FolderWalk(Vault([root], exclude=["Old"])).files()}
    assert found == {
        "a.md": "note",
        "B/c.MD": "note",
        "B/d.canvas": "canvas",
        "e.base": "base",
        "B/C/f.png": "attachment",
        "g": "attachment",
    }


def test_several_vaults_are_walked_through_under_their_names(tmp_path: Path) -> None:
    put(tmp_path / "One/a.md")
    put(tmp_path / "Two/b/c.md")
    assert paths(Vault([tmp_path / "One", tmp_path / "Two"])) == ["One/a.md", "Two/b/c.md"]


def test_links_out_of_the_vault_and_links_to_folders_are_not_followed(root: Path, vault: Vault) -> None:
    put(root.parent / "outside/secret.md")
    put(root / "in/a.md")
    put(root / ".hidden/b.md")
    (root / "out").symlink_to(root.parent / "outside")
    (root / "out.md").symlink_to(root.parent / "outside/secret.md")
    (root / "hidden.md").symlink_to(root / ".hidden/b.md")
    (root / "in/circle").symlink_to(root)
    (root / "self").symlink_to("self")
    (root / "nowhere.md").symlink_to("nothing.md")
    (root / "again").symlink_to("in")
    assert paths(vault) == ["in/a.md"]


def test_a_link_to_a_file_of_the_vault_is_a_file_of_its_own(root: Path, vault: Vault) -> None:
    put(root / "in/a.md", "text")
    (root / "b.md").symlink_to("in/a.md")
    assert paths(vault) == ["b.md", "in/a.md"]
    assert entry(vault, "b.md").text == "text"
    assert entry(vault, "b.md").stamp.inode == entry(vault, "in/a.md").stamp.inode


def test_names_with_odd_characters_are_read(root: Path, vault: Vault, index: Index) -> None:
    names = [
        "a b",
        "a%20b",
        "#a",
        "a'b\"c",
        "日本語",
        "😀",
        "e\u0301",
        "é",
        "a:b*c?<d>|e",
        "…",
        "-rf",
        "~",
        "$x",
        "a;b&c",
    ]
    for name in names:
        put(root / f"{name}.md", f"text of {name}")
    assert build(vault, index) == []
    assert {index.queries.text(f"{name}.md") for name in names} == {f"text of {name}" for name in names}


def test_a_name_that_is_no_text_is_left_out_and_told(
    root: Path, vault: Vault, caplog: pytest.LogCaptureFixture
) -> None:
    put(root / "a.md")
    put(Path(os.fsdecode(os.fsencode(root) + b"/\xff.md")))
    assert paths(vault) == ["a.md"]
    assert "not UTF-8" in caplog.text


def test_what_is_no_file_is_not_opened(root: Path, vault: Vault, index: Index) -> None:
    place = put(root / "pipe.md")
    seen = list(FolderWalk(vault).files())
    place.unlink()
    os.mkfifo(place)
    assert build(vault, index) == []
    assert FolderWalk(vault).file("pipe.md") is None
    assert [batch.gone for batch in read_all(vault, seen)] == [["pipe.md"]]
    assert contents(index)["files"] == []


@pytest.mark.parametrize(
    ("number", "kept"), [(errno.EACCES, []), (errno.ENOENT, []), (errno.EIO, ["B/c.md"]), (errno.ESTALE, ["B/c.md"])]
)
def test_a_folder_that_cannot_be_read_hides_its_files_if_it_is_forbidden_and_keeps_them_if_the_disk_fails(
    vault: Vault, index: Index, monkeypatch: pytest.MonkeyPatch, number: int, kept: list[str]
) -> None:
    root = vault.mounts[0].root
    put(root / "a.md")
    put(root / "B/c.md")
    build(vault, index)
    fail_for(monkeypatch, "scandir", root / "B", number)
    build(vault, index)
    assert sorted(index.stamps()) == sorted(["a.md", *kept])


def fail_for(monkeypatch: pytest.MonkeyPatch, function: str, place: Path, number: int) -> None:
    """Let a function of the system fail for one place: the tests may run as a user who may do everything."""
    original: Any = getattr(os, function)

    def failing(path: Any, *arguments: Any, **options: Any) -> Any:
        if os.fspath(path) == str(place):
            raise OSError(number, os.strerror(number), str(place))
        return original(path, *arguments, **options)

    monkeypatch.setattr(os, function, failing)


def test_what_vanishes_between_two_looks_is_passed_over(
    root: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root / "a.md")
    original = os.scandir

    class Entries:
        """Gives each entry after its file is gone."""

        def __init__(self, place: str) -> None:
            self.entries = original(place)

        def __enter__(self) -> list["os.DirEntry[str]"]:
            entries = list(self.entries)
            for each in entries:
                Path(each.path).unlink()
            return entries

        def __exit__(self, *_: object) -> None:
            self.entries.close()

    monkeypatch.setattr(os, "scandir", Entries)
    assert paths(vault) == []


# A vault that is away


def test_a_vault_that_is_not_there_is_away_and_the_index_keeps_what_it_knows(
    root: Path, vault: Vault, index: Index
) -> None:
    put(root / "a.md")
    build(vault, index)
    root.rename(root.with_name("elsewhere"))
    with pytest.raises(VaultAway, match="is missing"):
        plan(vault, index)
    root.write_text("a file in its place")
    with pytest.raises(VaultAway):
        plan(vault, index)
    assert list(index.stamps()) == ["a.md"]


def test_a_vault_that_vanishes_while_it_is_walked_through_is_away(root: Path, vault: Vault) -> None:
    put(root / "a.md")
    put(root / "B/c.md")
    seen = FolderWalk(vault).files()
    next(seen)
    shutil.rmtree(root)
    with pytest.raises(VaultAway):
        list(seen)


def test_a_vault_that_is_replaced_while_it_is_walked_through_is_away(root: Path, vault: Vault) -> None:
    put(root / "a.md")
    put(root / "B/c.md")
    seen = FolderWalk(vault).files()
    next(seen)
    root.rename(root.with_name("elsewhere"))
    root.mkdir()
    with pytest.raises(VaultAway):
        list(seen)


def test_the_empty_place_of_a_disk_that_was_unplugged_is_no_empty_vault(root: Path, vault: Vault, index: Index) -> None:
    put(root / "a.md")
    build(vault, index)
    root.rename(root.with_name("elsewhere"))
    root.mkdir()
    put(root / ".hidden")
    with pytest.raises(VaultAway, match="its disk seems to be missing"):
        plan(vault, index)
    with pytest.raises(VaultAway, match="replaced"):
        scan.look(vault, index, ["a.md"])
    assert list(index.stamps()) == ["a.md"]
    put(root / "b.md")
    build(vault, index)
    assert list(index.stamps()) == ["b.md"]


def test_a_vault_that_was_emptied_is_empty(root: Path, vault: Vault, index: Index) -> None:
    put(root / "a.md")
    build(vault, index)
    (root / "a.md").unlink()
    assert plan(vault, index).gone == ["a.md"]


def test_files_that_vanish_with_their_vault_while_they_are_read_are_not_gone(root: Path, vault: Vault) -> None:
    put(root / "a.md")
    seen = list(FolderWalk(vault).files())
    shutil.rmtree(root)
    with pytest.raises(VaultAway):
        list(read_all(vault, seen))
    root.mkdir()
    batches = read_all(vault, seen)
    (gone,) = batches
    assert gone.gone == ["a.md"]


def test_a_vault_that_is_replaced_while_it_is_read_is_away(
    root: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root / "a.md")
    seen = list(FolderWalk(vault).files())
    original = os.open

    def replacing(*arguments: Any) -> int:
        root.rename(root.with_name("elsewhere"))
        root.mkdir()
        return original(*arguments)

    monkeypatch.setattr(os, "open", replacing)
    with pytest.raises(VaultAway, match="while it was read"):
        list(read_all(vault, seen))


# What is different


@pytest.mark.parametrize("name", ["a.md", "b.png"])
@pytest.mark.parametrize(("counts", "soon", "later"), [("parts of seconds", 0.05, 0.5), ("seconds", 1.5, 2.5)])
def test_after_a_build_nothing_is_different_but_what_was_touched_just_before(
    vault: Vault, index: Index, monkeypatch: pytest.MonkeyPatch, *, name: str, counts: str, soon: float, later: float
) -> None:
    file = put(vault.mounts[0].root / name)
    if counts == "seconds":
        os.utime(file, (int(file.stat().st_mtime),) * 2)
    changed = file.stat().st_mtime
    read_at(monkeypatch, changed + soon)
    build(vault, index)
    # Within the same tick of the clock, it may have been written again.
    assert [seen.path for seen in plan(vault, index).changed] == [name]
    read_at(monkeypatch, changed + later)
    build(vault, index)
    assert plan(vault, index) == ([], [])


@pytest.mark.parametrize("whole", [True, False], ids=["all", "some"])
def test_what_is_read_again_and_is_the_same_stays_as_it_is(
    root: Path, vault: Vault, index: Index, monkeypatch: pytest.MonkeyPatch, *, whole: bool
) -> None:
    changed = put(root / "a.md", "#tag [[b]]").stat().st_mtime
    read_at(monkeypatch, changed)
    build(vault, index)
    read_at(monkeypatch, changed + 3)
    (batch,) = read_all(vault, (plan(vault, index) if whole else look(vault, index, ["a.md"])).changed)
    index.apply(batch.entries)
    assert plan(vault, index) == ([], [])
    assert (index.queries.text("a.md"), index.queries.stats()["tags"]) == ("#tag [[b]]", 1)


def test_a_change_that_leaves_size_and_time_as_they_were_is_seen_after_a_recent_change(
    root: Path, vault: Vault, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = put(root / "a.md", "one")
    os.utime(place, (YEAR_AGO, YEAR_AGO))
    read_at(monkeypatch, place.stat().st_ctime)
    build(vault, index)
    place.write_text("two")
    os.utime(place, (YEAR_AGO, YEAR_AGO))
    build(vault, index)
    assert index.queries.text("a.md") == "two"


def test_what_changed_came_or_went_is_brought_into_the_index(
    root: Path, vault: Vault, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    for name in ("stays", "changes", "goes"):
        put(root / f"{name}.md", name)
    build(vault, index)
    put(root / "changes.md", "changed")
    put(root / "comes.md", "new")
    (root / "goes.md").unlink()
    todo = plan(vault, index)
    assert ({seen.path for seen in todo.changed}, todo.gone) == ({"changes.md", "comes.md"}, ["goes.md"])
    build(vault, index)
    assert {path: index.queries.text(path) for path in index.stamps()} == {
        "stays.md": "stays",
        "changes.md": "changed",
        "comes.md": "new",
    }


def test_a_build_tells_how_far_it_is_and_can_be_stopped(
    root: Path, vault: Vault, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    for number in range(400):
        put(root / f"{number}.md", "text")
    told: list[tuple[int, int]] = []
    build(vault, index, on_progress=lambda done, total: told.append((done, total)), stopped=lambda: len(told) == 1)
    assert told == [(150, 400)]
    assert len(index.stamps()) == 150
    told.clear()
    build(vault, index, on_progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (250, 250)
    assert len(index.stamps()) == 400


def test_batches_are_small_first_and_never_hold_much_text(
    root: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "_BATCH_CHARACTERS", 1000)
    for number in range(400):
        put(root / f"{number:03}.md", "x" * (600 if number < 100 else 1))
    sizes = [len(batch.entries) for batch in read_all(vault, sorted(FolderWalk(vault).files()))]
    assert sizes == [50, 50, 300]


# What is in files


def test_a_note_is_read_with_all_that_is_in_it(root: Path, vault: Vault) -> None:
    text = "---\ntags: [a]\nstatus: open\n---\n# Head\r\n[[Other|shown]] #b\n- [ ] do it\n"
    put(root / "Folder/My note.md", text)
    found = entry(vault, "Folder/My note.md")
    assert found.text == text
    note = parse.parse(text, "My note")
    assert found == make_entry(found.path, "note", found.stamp, version=found.hash, text=text, note=note)
    assert (found.kind, found.problem, len(found.hash or "")) == ("note", None, 16)


@pytest.mark.parametrize(
    ("data", "text", "problem"),
    [
        (b"plain", "plain", None),
        (b"", "", None),
        ("\ufeffmarked".encode(), "marked", None),
        ("größe".encode("utf-16"), "größe", None),
        ("größe".encode("utf-16-be"), "", "binary"),
        (b"\xfe\xff" + "größe".encode("utf-16-be"), "größe", None),
        (b"\xff\xfea\x00\x00\xd8", "a\ufffd", "not valid UTF-16"),
        (b"a\xffb", "a\ufffdb", "not valid UTF-8 from byte 1"),
        (b"\x89PNG\r\n\x1a\n\0\0\0", "", "binary"),
        (b"a" * 10_000 + b"\0", "a" * 10_000 + "\ufffd", None),
    ],
)
def test_bytes_become_text_or_say_why_not(
    vault: Vault, index: Index, data: bytes, text: str, problem: str | None
) -> None:
    put(vault.mounts[0].root / "a.md", data)
    found = entry(vault, "a.md")
    assert found.text == text
    assert (found.problem is None) == (problem is None)
    assert problem is None or problem in (found.problem or "")
    assert build(vault, index) == []
    assert index.queries.text("a.md") == text


def test_a_note_that_is_too_large_is_known_by_name(root: Path, vault: Vault, index: Index) -> None:
    with (root / "huge.md").open("wb") as file:
        file.truncate(100_000_000)
    build(vault, index)
    row = index.queries.file("huge.md")
    assert row
    assert (row.title, row.hash, row.size) == ("huge", None, 100_000_000)
    assert "larger than 20,000,000 bytes" in (row.problem or "")


def no_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a file be changed while it is read. Otherwise who wants to has to wait."""
    monkeypatch.setattr("tidings.vault.files.saves.take_lease", lambda *_, **__: FileLease.UNKNOWN)


def test_a_note_that_grows_beyond_the_limit_while_it_is_read_is_not_read_without_end(
    root: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_leases(monkeypatch)
    put(root / "a.md", "x" * 10)
    open_descriptor = os.fdopen

    def growing(*arguments: Any, **options: Any) -> Any:
        with (root / "a.md").open("ab") as more:
            more.write(b"x" * 10)
        return open_descriptor(*arguments, **options)

    monkeypatch.setattr(os, "fdopen", growing)
    monkeypatch.setattr("tidings.vault.index.read_file.LARGEST", 15)
    assert "larger" in (entry(vault, "a.md").problem or "")


def test_a_million_lines_are_read(root: Path, vault: Vault, index: Index) -> None:
    put(root / "long.md", "- a line\n" * 1_000_000 + "#end")
    build(vault, index)
    assert index.queries.with_tag("end")[0].path == "long.md"


def test_a_file_that_may_not_be_read_says_so_and_is_read_when_it_may(
    root: Path, vault: Vault, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = put(root / "a.md", "text")
    with monkeypatch.context() as patch:
        fail_for(patch, "open", place, errno.EACCES)
        build(vault, index)
    row = index.queries.file("a.md")
    assert row
    assert "may not be read" in (row.problem or "")
    place.chmod(0o600)
    build(vault, index)
    assert index.queries.text("a.md") == "text"


@pytest.mark.parametrize(("number", "why"), [(errno.EIO, "unsettled"), (errno.ENOENT, "gone"), (errno.ENOTDIR, "gone")])
def test_a_file_that_cannot_be_read_is_gone_or_left_for_later(
    root: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch, number: int, why: str
) -> None:
    place = put(root / "a.md", "text")
    (seen,) = FolderWalk(vault).files()
    fail_for(monkeypatch, "open", place, number)
    (batch,) = read_all(vault, [seen])
    assert (batch.gone, batch.unsettled) == ((["a.md"], []) if why == "gone" else ([], ["a.md"]))


def test_a_file_that_changes_once_while_it_is_read_is_read_again(
    root: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_leases(monkeypatch)
    place = put(root / "a.md", "before")
    changes = iter(["after!"])
    open_descriptor = os.fdopen

    def changing(*arguments: Any, **options: Any) -> Any:
        for text in changes:
            place.write_text(text)
            os.utime(place, (1, 1))
            break
        return open_descriptor(*arguments, **options)

    monkeypatch.setattr(os, "fdopen", changing)
    assert entry(vault, "a.md").text == "after!"


def test_a_file_that_changes_whenever_it_is_read_is_left_for_later(
    root: Path, vault: Vault, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root / "a.md", "0")
    build(vault, index)
    put(root / "a.md", "longer")
    reads = 0

    def never(*_: object, **__: object) -> bool:
        nonlocal reads
        reads += 1
        return False

    monkeypatch.setattr("tidings.vault.index.read_file.is_settled", never)
    assert build(vault, index) == ["a.md"]
    assert reads == 3
    assert index.queries.text("a.md") == "0"


def test_a_file_that_was_emptied_is_read_again_before_it_counts(root: Path, vault: Vault, index: Index) -> None:
    put(root / "a.md", "text")
    put(root / "new.md", "")
    assert build(vault, index) == []
    put(root / "a.md", "")
    assert build(vault, index) == ["a.md"]
    assert index.queries.text("a.md") == "text"
    os.utime(root / "a.md", (0, 0))  # Its time of change is still new.
    while build(vault, index):
        pass
    assert index.queries.text("a.md") == ""


def test_a_file_replaced_by_a_link_out_of_the_vault_is_not_read(root: Path, vault: Vault) -> None:
    place = put(root / "a.md", "mine")
    (seen,) = FolderWalk(vault).files()
    place.unlink()
    place.symlink_to(put(root.parent / "secret.md", "secret"))
    (batch,) = read_all(vault, [seen])
    assert (batch.entries, batch.gone) == ([], ["a.md"])


def test_a_text_that_the_parser_fails_on_is_kept_with_a_word(
    root: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(_text: str, _name: str) -> None:
        raise ZeroDivisionError("a mistake")

    put(root / "a.md", "text")
    with monkeypatch.context() as patch:
        patch.setattr(parse, "parse", failing)
        found = entry(vault, "a.md")
    assert (found.text, found.rows) == ("text", {})
    assert "a mistake" in (found.problem or "")
    assert caplog.record_tuples[0][1] == logging.ERROR


def test_a_canvas_has_its_words_and_its_links(root: Path, vault: Vault, index: Index) -> None:
    put(root / "a.md")
    put(
        root / "b.canvas",
        """{"nodes": [{"id": "1", "type": "file", "file": "a.md"},
        {"id": "2", "type": "text", "text": "some *words* and [[a]]"}]}""",
    )
    put(root / "c.canvas", "{")
    put(root / "d.canvas", "")
    put(root / "e.base", "views: []")
    build(vault, index)
    assert "some *words*" in (index.queries.text("b.canvas") or "")
    found = {path: row.problem for path in index.stamps() if (row := index.queries.file(path))}
    assert found.pop("c.canvas")
    assert set(found.values()) == {None}
    assert index.queries.text("e.base") == "views: []"


# Attachments


def hashes(index: Index) -> dict[str, str | None]:
    return dict(index.queries.connection.execute("SELECT path, hash FROM files").fetchall())


def test_an_attachment_is_known_by_what_it_holds(root: Path, vault: Vault, index: Index) -> None:
    picture = put(root / "p.png", b"\x89PNG1" * 300_000)
    build(vault, index)
    first = hashes(index)["p.png"]
    os.utime(picture, (YEAR_AGO, YEAR_AGO))
    build(vault, index)
    assert hashes(index)["p.png"] == first is not None
    put(picture, b"\x89PNG2" * 300_000)
    os.utime(picture, (YEAR_AGO, YEAR_AGO))
    build(vault, index)
    assert hashes(index)["p.png"] not in (first, None)
    found = index.queries.file("p.png")
    assert found
    assert (found.size, index.queries.text("p.png")) == (1_500_000, "")


def test_of_many_or_large_attachments_only_names_are_known(
    root: Path, vault: Vault, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "_LARGEST_HASHED", 10)
    monkeypatch.setattr(scan, "_HASHED_BYTES", 10)
    put(root / "large.png", b"x" * 11)
    put(root / "a.png", b"x" * 6)
    build(vault, index)
    assert [path for path, found in hashes(index).items() if found] == ["a.png"]
    put(root / "a.png", b"y" * 6)
    put(root / "b.png", b"y" * 6)
    build(vault, index)
    assert hashes(index) == {"large.png": None, "a.png": None, "b.png": None}
    assert index.stamps()["a.png"].size == 6


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_an_attachment_that_changes_or_goes_while_it_is_read_is_known_by_its_name(root: Path, vault: Vault) -> None:
    for name in ("grows.png", "gone.png", "pipe.png"):
        put(root / name, b"x")
    seen = list(FolderWalk(vault).files())
    put(root / "grows.png", b"longer")
    (root / "gone.png").unlink()
    (root / "pipe.png").unlink()
    os.mkfifo(root / "pipe.png")
    (batch,) = read_all(vault, seen)
    assert {entry.path: entry.hash for entry in batch.entries} == {
        "grows.png": None,
        "gone.png": None,
        "pipe.png": None,
    }
