"""Moving, deleting, and renaming tags: what concerns more than one file."""

import errno
import os
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.vault.files import folders
from tidings.vault.files.outcomes import AlreadyThere, Conflict, NotText, NotThere, WriteFailed
from tidings.vault.files.paths import BadPath, Vault
from tidings.vault.files.saves import EXCHANGE
from tidings.vault.files.writer import VaultWriter
from tidings.vault.notes.canvas import canvas_links
from tidings.vault.notes.edits import EditRefused
from tidings.vault.notes.links import link_name, resolve
from tidings.vault.notes.model import NoteLink
from tidings.vault.notes.parse import parse


class Known:
    """What an index would know, looked up on the disk."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault
        self.files = [
            path
            for mount in vault.mounts
            for place in sorted(mount.root.rglob("*"))
            if place.is_file() and (path := vault.relative(place)) is not None
        ]

    def candidates(self, name: str, /) -> Sequence[str]:
        return [path for path in self.files if link_name(path) == name]

    def sources(self, names: Collection[str], /) -> Iterable[str]:
        return [path for path in self.files if any(link_name(link.target) in names for link in self._links(path))]

    def _links(self, path: str) -> Iterable[NoteLink]:
        if not path.endswith((".md", ".canvas")):
            return ()
        text = self.vault.locate(path).read_text("utf-8", errors="replace")
        return canvas_links(text) if path.endswith(".canvas") else parse(text, path).links


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "vault").mkdir()
    return tmp_path / "vault"


@pytest.fixture
def vault(root: Path) -> Vault:
    return Vault([root])


@pytest.fixture
def writer(vault: Vault) -> VaultWriter:
    return VaultWriter(vault)


def fill(root: Path, **files: str) -> None:
    for name, text in files.items():
        place = root / name.replace("__", "/").replace("_canvas", ".canvas")
        place = place if place.suffix else place.with_suffix(".md")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode())


def everything(root: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


def test_a_move_updates_every_link_and_nothing_else(root: Path, vault: Vault, writer: VaultWriter) -> None:
    fill(
        root,
        Plan="# Plan\n[[A]] and [[#Plan]] and ![](pic.png)\n",
        A="---\nup: '[[Plan]]'\n---\n"
        "[[Plan]] [[Plan#Plan|the plan]] ![[Plan.md]] `[[Plan]]` [x](Plan.md#y) [[Planner]]\r\n",
        sub__B="[[Plan|p]] [rel](../Plan.md) [[/Plan]]",
        C_canvas='{"nodes": [{"type": "file",  "file": "Plan.md"}, {"type": "text", "text": "see [[Plan]]"}]}',
        Planner="[[Planner]]\n",
    )
    moved = writer.move("Plan.md", "Work/New plan.md", references=Known(vault))
    assert (root / "Work/New plan.md").read_text() == "# Plan\n[[A]] and [[#Plan]] and ![](pic.png)\n"
    assert (root / "A.md").read_bytes().decode() == (
        "---\nup: '[[New plan]]'\n---\n[[New plan]] [[New plan#Plan|the plan]] ![[New plan.md]] `[[Plan]]` "
        "[x](Work/New%20plan.md#y) [[Planner]]\r\n"
    )
    assert (root / "sub/B.md").read_text() == "[[New plan|p]] [rel](../Work/New%20plan.md) [[Work/New plan]]"
    assert (root / "C.canvas").read_text() == (
        '{"nodes": [{"type": "file",  "file": "Work/New plan.md"}, {"type": "text", "text": "see [[New plan]]"}]}'
    )
    assert set(moved.changed) == {"A.md", "sub/B.md", "C.canvas"}
    assert set(moved.touched) == {"Plan.md", "Work/New plan.md", "A.md", "sub/B.md", "C.canvas"}
    assert moved.skipped == ()


def test_a_link_that_still_leads_there_stays(root: Path, vault: Vault, writer: VaultWriter) -> None:
    fill(root, Plan="x", A="[[Plan]] [[plan]]")
    assert writer.move("Plan.md", "Work/Plan.md", references=Known(vault)).changed == ()
    assert (root / "A.md").read_text() == "[[Plan]] [[plan]]"


def test_links_in_what_is_moved_lead_where_they_led(root: Path, vault: Vault, writer: VaultWriter) -> None:
    fill(root, a__Note="[[./Near]] [[Near]] [[../Top]] [x](./Near.md) [[Note]]", a__Near="", b__Near="", Top="")
    moved = writer.move("a/Note.md", "b/Note.md", references=Known(vault))
    assert moved.changed == ("b/Note.md",)
    assert (root / "b/Note.md").read_text() == "[[../a/Near]] [[a/Near]] [[../Top]] [x](../a/Near.md) [[Note]]"


def test_a_name_that_something_moved_would_catch_is_spelled_out(root: Path, vault: Vault, writer: VaultWriter) -> None:
    fill(root, long__folder__Plan="", Other="", A="[[Plan]]")
    moved = writer.move("Other.md", "Plan.md", references=Known(vault))
    assert (root / "A.md").read_text() == "[[long/folder/Plan]]"
    assert moved.changed == ("A.md",)


def test_a_folder_is_moved_with_all_that_is_in_it(root: Path, vault: Vault, writer: VaultWriter) -> None:
    fill(root, old__A="[[old/deep/B]] [[./deep/B]]", old__deep__B="", C="[[old/A]] [[old/deep/B|b]]")
    (root / "old/.gitkeep").touch()
    (root / "old/pic.png").touch()
    moved = writer.move("old", "x/new", references=Known(vault))
    assert not (root / "old").exists()
    assert (root / "x/new/.gitkeep").exists()
    assert (root / "x/new/A.md").read_text() == "[[x/new/deep/B]] [[./deep/B]]"
    assert (root / "C.md").read_text() == "[[x/new/A]] [[x/new/deep/B|b]]"
    assert {"old/A.md", "x/new/A.md", "old/pic.png", "x/new/pic.png", "C.md"} <= set(moved.touched)
    (root / "empty").mkdir()
    assert writer.move("empty", "full", references=Known(vault)).touched == ("empty", "full")


def test_only_the_case_of_a_name_is_changed(root: Path, vault: Vault, writer: VaultWriter) -> None:
    fill(root, plan="x", A="[[plan]]")
    writer.move("plan.md", "Plan.md", references=Known(vault))
    assert sorted(path.name for path in root.iterdir()) == ["A.md", "Plan.md"]


def test_a_disk_that_knows_no_case_is_told_to_rename(
    root: Path, vault: Vault, writer: VaultWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the new name seems to be taken: by the very file that is to get it."""
    fill(root, plan="x")
    real = os.stat

    def stat(place: object, **options: object) -> os.stat_result:
        return real("plan.md" if place == "Plan.md" and not (root / "Plan.md").is_symlink() else place, **options)  # type: ignore[arg-type,call-overload]

    monkeypatch.setattr(os, "stat", stat)
    writer.move("plan.md", "Plan.md", references=Known(vault))
    monkeypatch.undo()
    assert sorted(path.name for path in root.iterdir()) == ["Plan.md"]


def test_what_is_moved_by_way_of_a_linked_folder_keeps_its_links(root: Path, vault: Vault, writer: VaultWriter) -> None:
    fill(root, real__b="b [[c]]", real__deep__c="c", a="[[b]] [[real/b]] [[real/deep/c]]")
    (root / "link").symlink_to("real")
    moved = writer.move("link/b.md", "new.md", references=Known(vault))
    assert (moved.path, moved.to, moved.changed) == ("real/b.md", "new.md", ("a.md",))
    assert moved.touched == ("real/b.md", "new.md", "a.md")
    assert (root / "a.md").read_text() == "[[new]] [[new]] [[real/deep/c]]"
    moved = writer.move("new.md", "link/deep/x.md", references=Known(vault))
    assert (moved.path, moved.to) == ("new.md", "real/deep/x.md")
    assert (root / "a.md").read_text() == "[[x]] [[x]] [[real/deep/c]]"
    moved = writer.move("link/deep", "flat", references=Known(vault))
    assert set(moved.touched) == {"real/deep/c.md", "flat/c.md", "real/deep/x.md", "flat/x.md", "a.md"}
    assert (root / "a.md").read_text() == "[[x]] [[x]] [[flat/c]]"
    (root / "real/y").mkdir()
    with pytest.raises(AlreadyThere, match="another one"):
        writer.move("link/y", "real/y", references=Known(vault))
    assert writer.delete("link/y").touched == ("real/y",)


def test_what_cannot_be_seen_is_not_taken_along(root: Path) -> None:
    vault = Vault([root], exclude=["Private", "*.key"])
    writer = VaultWriter(vault)
    fill(root, f__x="x", f__deep__y="y", f__deep__Private__p="secret", a="[[f/x]]")
    (root / "f/.git").mkdir()
    (root / "f/my.key").touch()
    before = everything(root)
    with pytest.raises(BadPath, match=r"'f' contains 3 files or folders that are not served.*one by one"):
        writer.delete("f", recursive=True)
    with pytest.raises(BadPath, match="3 files or folders"):
        writer.move("f", "g", references=Known(vault))
    assert everything(root) == before
    with pytest.raises(BadPath, match="something that is not served"):
        writer.move("f/deep", "g", references=Known(vault))
    assert writer.delete("f/x.md").trash == ".trash/f/x.md"


def test_what_systems_and_programs_leave_in_a_folder_goes_along(root: Path, vault: Vault, writer: VaultWriter) -> None:
    fill(root, f__x="x")
    for name in (".DS_Store", "._x.md", ".gitkeep", "x.md~", ".x.md.swp"):
        (root / "f" / name).touch()
    assert writer.move("f", "g", references=Known(vault)).touched == ("f/x.md", "g/x.md")
    assert len(list((root / "g").iterdir())) == 6
    assert writer.delete("g", recursive=True).touched == ("g/x.md",)


def test_nothing_is_overwritten_by_a_move(root: Path, vault: Vault, writer: VaultWriter) -> None:
    fill(root, a="a", b="b", f__c="c", g__d="d")
    (root / "link.md").symlink_to("a.md")
    before = everything(root)
    known = Known(vault)
    version = writer.read("a.md").version
    for attempt, kind, why in (
        (lambda: writer.move("a.md", "b.md", references=known), AlreadyThere, "already exists"),
        (lambda: writer.move("a.md", "a.md", references=known), AlreadyThere, "another one"),
        (lambda: writer.move("a.md", "f", references=known), AlreadyThere, "already exists"),
        (lambda: writer.move("f", "g", references=known), AlreadyThere, "already exists"),
        (lambda: writer.move("f", "f/inner", references=known), BadPath, "within"),
        (lambda: writer.move("a.md", "b.md/x.md", references=known), AlreadyThere, "is a file"),
        (lambda: writer.move("missing.md", "x.md", references=known), NotThere, "nothing"),
        (lambda: writer.move("missing/a.md", "x.md", references=known), NotThere, "nothing"),
        (lambda: writer.move("link.md", "x.md", references=known), AlreadyThere, "symbolic link"),
        (lambda: writer.move("a.md", "new/x.md", references=known, if_match="0" * 16), Conflict, version),
        (lambda: writer.move("f", "new/x", references=known, if_match="0"), NotText, "folder"),
    ):
        with pytest.raises(kind, match=why):
            attempt()
        assert everything(root) == before
    assert writer.move("a.md", "new/x.md", references=known, if_match=version).to == "new/x.md"


def test_vaults_are_not_mixed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        fill(tmp_path / name, A="[[B]]", B="")
    vault = Vault([tmp_path / "one", tmp_path / "two"])
    writer = VaultWriter(vault)
    with pytest.raises(BadPath, match="another vault"):
        writer.move("one/A.md", "two/C.md", references=Known(vault))
    for path in ("one", "two"):
        with pytest.raises(BadPath, match="whole vault"):
            writer.delete(path, recursive=True)
    moved = writer.move("one/B.md", "one/C.md", references=Known(vault))
    assert moved.changed == ("one/A.md",)
    assert (tmp_path / "one/A.md").read_text() == "[[C]]"
    assert (tmp_path / "two/A.md").read_text() == "[[B]]"
    assert writer.delete("one/C.md").trash == ".trash/C.md"
    assert (tmp_path / "one/.trash/C.md").exists()


def test_a_note_that_changes_meanwhile_is_read_again_and_one_that_goes_is_reported(
    root: Path, vault: Vault, writer: VaultWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(
        root,
        Plan="",
        A="[[Plan]]",
        B="[[Plan]]",
        C="[[Plan]]",
        D="\udcff".encode("utf-8", "surrogatepass").decode("latin-1"),
    )
    (root / "D.md").write_bytes(b"[[Plan]] \xff")
    rename = folders.rename_with

    def meanwhile(*arguments: Any) -> bool:
        monkeypatch.undo()
        (root / "A.md").write_text("[[Plan]] theirs")
        (root / "B.md").unlink()
        return rename(*arguments)

    monkeypatch.setattr(folders, "rename_with", meanwhile)
    moved = writer.move("Plan.md", "New.md", references=Known(vault))
    assert moved.changed == ("A.md", "C.md")
    assert sorted(skipped.path for skipped in moved.skipped) == ["B.md", "D.md"]
    assert (root / "A.md").read_text() == "[[New]] theirs"
    assert not (root / "B.md").exists()
    assert (root / "D.md").read_bytes() == b"[[Plan]] \xff"


def test_a_move_whose_links_cannot_be_written_is_undone(
    root: Path, vault: Vault, writer: VaultWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(root, f__Plan="[[./Plan]]", A="[[f/Plan]]", B="[[f/Plan]]")
    before = everything(root)
    rename, calls = folders.rename_with, 0

    def fail(flag: int, *arguments: Any) -> bool:
        nonlocal calls
        calls += flag == EXCHANGE
        if calls == 2:
            calls += 1
            raise OSError(errno.ENOSPC, "full")
        return rename(flag, *arguments)

    monkeypatch.setattr(folders, "rename_with", fail)
    with pytest.raises(WriteFailed, match=r"no space left.*Everything was put back"):
        writer.move("f/Plan.md", "x/y/New.md", references=Known(vault))
    monkeypatch.undo()
    assert everything(root) == before


def test_a_move_that_cannot_be_undone_says_what_is_left(
    root: Path, vault: Vault, writer: VaultWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(root, Plan="", A="[[Plan]]", B="[[Plan]]")
    rename, calls = folders.rename_with, 0

    def fail(flag: int, *arguments: Any) -> bool:
        nonlocal calls
        calls += flag == EXCHANGE
        if calls > 1:
            (root / "Plan.md").write_text("theirs")
            raise OSError(errno.EIO, "broken")
        return rename(flag, *arguments)

    monkeypatch.setattr(folders, "rename_with", fail)
    with pytest.raises(WriteFailed, match=r"could not be put back: 'A.md', 'New.md'"):
        writer.move("Plan.md", "New.md", references=Known(vault))


def test_sources_that_are_gone_or_no_notes_are_passed_over(root: Path, vault: Vault, writer: VaultWriter) -> None:
    fill(root, Plan="", A="[[Plan]]")

    class Stale(Known):
        def sources(self, names: Collection[str], /) -> Iterable[str]:
            return ["gone.md", "pic.png", "A.md", "A.md", "folder.md"]

    (root / "folder.md").mkdir()
    moved = writer.move("Plan.md", "New.md", references=Stale(vault))
    assert moved.changed == ("A.md",)
    assert [skipped.path for skipped in moved.skipped] == ["folder.md"]


PATHS = ["A.md", "B.md", "x/A.md", "x/B.md", "x/y/A.md", "y/B.md", "y/pic.png", "x/C d.md"]
TARGETS = [
    "A",
    "B.md",
    "x/A",
    "/A",
    "./A",
    "../A",
    "../B.md",
    "y/B",
    "pic.png",
    "C d",
    "x/y/A",
    "b",
    "./y/A",
    "x/C%20d.md",
]
WHERE = ["A.md", "new.md", "z/B.md", "x/new/A.md", "y/A.md", "x/B.md"]


@settings(max_examples=60)
@given(
    st.sets(st.sampled_from(PATHS), min_size=2),
    st.lists(st.tuples(st.sampled_from(TARGETS), st.booleans()), min_size=1, max_size=6),
    st.sampled_from([*PATHS, "x", "y", "x/y"]),
    st.sampled_from([*WHERE, "z", "y/x"]),
)
def test_after_a_move_every_link_leads_where_it_led(
    tmp_path_factory: pytest.TempPathFactory, paths: set[str], links: list[tuple[str, bool]], path: str, to: str
) -> None:
    root = tmp_path_factory.mktemp("moves")
    text = " ".join(f"[x]({target.replace(' ', '%20')})" if plain else f"[[{target}|x]]" for target, plain in links)
    for each in paths:
        (root / each).parent.mkdir(parents=True, exist_ok=True)
        (root / each).write_text(text if each.endswith(".md") else "")
    vault = Vault([root])
    before = Known(vault)
    try:
        writer = VaultWriter(vault)
        writer.move(path, to, references=before)
    except (NotThere, AlreadyThere, BadPath):
        assert Known(vault).files == before.files
        return
    after = Known(vault)

    def now(old: str | None) -> str | None:
        inside = old is not None and (old == path or old.startswith(path + "/"))
        return to + old[len(path) :] if old is not None and inside else old

    for source in before.files:
        if source.endswith(".md"):
            led = [resolve(link.target, source, before.candidates) for link in parse(text, source).links]
            there = now(source) or ""
            moved = parse((root / there).read_text(), there).links
            leads = [resolve(link.target, there, after.candidates) for link in moved]
            assert [one for one in zip(led, leads, strict=True) if one[0] is not None and now(one[0]) != one[1]] == []


def test_what_is_deleted_is_in_the_trash_with_its_folders(root: Path, writer: VaultWriter) -> None:
    fill(root, a__b__Plan="1")
    deleted = writer.delete("a/b/Plan.md", if_match=writer.read("a/b/Plan.md").version)
    assert (deleted.trash, deleted.touched) == (".trash/a/b/Plan.md", ("a/b/Plan.md",))
    fill(root, a__b__Plan="2")
    assert writer.delete("a/b/Plan.md").trash == ".trash/a/b/Plan 1.md"
    assert (root / ".trash/a/b/Plan.md").read_text() == "1"
    assert (root / ".trash/a/b/Plan 1.md").read_text() == "2"
    assert (root / "a/b").is_dir()


def test_a_folder_is_deleted_when_it_is_empty_or_all_of_it_is_meant(root: Path, writer: VaultWriter) -> None:
    fill(root, f__g__A="a", f__B="b")
    (root / "empty").mkdir()
    assert writer.delete("empty").trash == ".trash/empty"
    with pytest.raises(AlreadyThere, match=r"not empty.*recursive=true"):
        writer.delete("f")
    with pytest.raises(NotText, match="folder"):
        writer.delete("f", if_match="0", recursive=True)
    deleted = writer.delete("f", recursive=True)
    assert deleted.touched == ("f/B.md", "f/g/A.md")
    assert (root / ".trash/f/g/A.md").read_text() == "a"
    fill(root, f__B="again")
    assert writer.delete("f", recursive=True).trash == ".trash/f 1"


def test_odd_trashes_are_coped_with(root: Path, writer: VaultWriter) -> None:
    fill(root, f__A="a", f__B="b", g__A="c")
    long = "x" * 252 + ".md"
    for text in ("1", "2"):
        (root / long).write_text(text)
        writer.delete(long)
    (root / ".trash/g").write_text("a file")
    assert writer.delete("g/A.md").trash == ".trash/A.md"
    (root / "noext").touch()
    (root / "b.txt").symlink_to("noext")
    assert writer.delete("b.txt").trash == ".trash/b.txt"
    assert (root / "noext").exists()
    assert len(list((root / ".trash").iterdir())) == 5


def test_a_trash_that_leads_out_is_not_used(root: Path, writer: VaultWriter) -> None:
    (root.parent / "outside").mkdir()
    (root / ".trash").symlink_to("../outside")
    fill(root, A="a")
    with pytest.raises(BadPath, match="symbolic link"):
        writer.delete("A.md")
    (root / ".trash").unlink()
    (root / ".trash").write_text("a file")
    with pytest.raises(AlreadyThere, match="trash"):
        writer.delete("A.md")
    assert (root / "A.md").exists()


def test_what_is_not_there_cannot_be_deleted(root: Path, writer: VaultWriter) -> None:
    for path in ("A.md", "f/A.md"):
        with pytest.raises(NotThere):
            writer.delete(path)
    assert everything(root) == {}


def test_a_tag_is_renamed_wherever_it_is_one(root: Path, writer: VaultWriter) -> None:
    fill(
        root,
        A="---\ntags: [Work, 'other', \"work/deep\"]  # kept\nnote: work\n---\n"
        "#work text `#work` #work/sub #workshop\r\n```\n#work\n```\n",
        B="---\ntags:\n  - x\n  - work\n---\nno #WORK/x here\n",
        C="#other\n",
    )
    done = writer.rename_tag("#work", "job/main", ["A.md", "B.md", "C.md", "gone.md"])
    assert (root / "A.md").read_bytes().decode() == (
        "---\ntags: [job/main, 'other', \"job/main/deep\"]  # kept\nnote: work\n---\n"
        "#job/main text `#work` #job/main/sub #workshop\r\n```\n#work\n```\n"
    )
    assert (root / "B.md").read_text() == "---\ntags:\n  - x\n  - job/main\n---\nno #job/main/x here\n"
    assert (done.touched, done.count) == (("A.md", "B.md"), 6)
    assert [skipped.path for skipped in done.skipped] == ["gone.md"]
    writer.rename_tag("job/main", "job", ["A.md"])
    assert "#job/sub" in (root / "A.md").read_text()


def test_a_tag_that_a_note_has_very_often_is_renamed_in_time(root: Path, writer: VaultWriter) -> None:
    fill(root, A=("word " * 10 + "#old\n") * 80_000)
    before = time.process_time()
    assert writer.rename_tag("old", "new", ["A.md"]).count == 80_000
    assert time.process_time() - before < 30  # 2 seconds here; many times as long if each copies the text.
    assert (root / "A.md").read_text().count("#new\n") == 80_000


@pytest.mark.parametrize("name", ["", "#", "two words", "12", "a,b", "a//b", "/a", "a/", "a#b", "x!"])
def test_what_is_no_tag_is_refused(writer: VaultWriter, name: str) -> None:
    for old, new in ((name, "x"), ("x", name)):
        with pytest.raises(EditRefused, match="is not a tag"):
            writer.rename_tag(old, new, [])


@pytest.mark.parametrize(
    "text",
    ["---\ntags: [old, x]\n---\n", '---\ntags: ["o\\u006cd"]\n---\n', "\xff #old"],
    ids=["number", "escapes", "bytes"],
)
def test_a_note_in_which_the_tag_would_say_something_else_is_reported(
    root: Path, writer: VaultWriter, text: str
) -> None:
    """Bare in YAML, `1e5` is a number and no tag."""
    (root / "A.md").write_bytes(text.encode("latin-1"))
    done = writer.rename_tag("old", "1e5", ["A.md"])
    assert [skipped.path for skipped in done.skipped] == ["A.md"]
    assert (root / "A.md").read_bytes() == text.encode("latin-1")
