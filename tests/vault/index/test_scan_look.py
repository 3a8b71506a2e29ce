"""Looking at some paths only: the index is then what a fresh one would be."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vault.building import build
from tests.vault.contents import contents
from tidings.vault.files.paths import Vault
from tidings.vault.index.index import Index
from tidings.vault.index.scan import ScanPlan, VaultAway, look, read_all


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    return folder


@pytest.fixture
def vault(root: Path) -> Vault:
    return Vault([root])


@pytest.fixture
def index(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    monkeypatch.setattr("tidings.vault.index.read_file.time.time_ns", lambda: 4_000_000_000 * 10**9)
    opened = Index(vault, memory=True)
    yield opened
    opened.close()


def put(place: Path, text: str = "") -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


def refresh(vault: Vault, index: Index, paths: set[str]) -> ScanPlan:
    todo = look(vault, index, paths)
    index.apply([], todo.gone)
    waiting, until = todo.changed, time.monotonic() + 20
    while waiting:  # A file that was just emptied may be about to be written.
        assert time.monotonic() < until
        batches = list(read_all(vault, waiting))
        for batch in batches:
            index.apply(batch.entries, batch.gone)
        waiting = [seen for seen in waiting if any(seen.path in batch.unsettled for batch in batches)]
    return todo


def fresh(vault: Vault) -> dict[str, Any]:
    index = Index(vault, memory=True)
    try:
        build(vault, index)
        return contents(index)
    finally:
        index.close()


def found(todo: ScanPlan) -> tuple[list[str], list[str]]:
    return [seen.path for seen in todo.changed], todo.gone


def test_what_is_as_it_was_is_not_read(root: Path, vault: Vault, index: Index) -> None:
    put(root / "a.md")
    build(vault, index)
    assert look(vault, index, ["a.md", "nothing.md", ".hidden.md", ""]) == ([], [])


def test_files_that_came_changed_and_went_are_found(root: Path, vault: Vault, index: Index) -> None:
    put(root / "changes.md")
    put(root / "goes.md")
    put(root / "not told.md")
    build(vault, index)
    put(root / "changes.md", "text")
    put(root / "comes.md")
    put(root / "not told.md", "text")
    (root / "goes.md").unlink()
    todo = look(vault, index, ["goes.md", "comes.md", "changes.md"])
    assert found(todo) == (["changes.md", "comes.md"], ["goes.md"])


def test_a_folder_stands_for_all_that_is_in_it(root: Path, vault: Vault, index: Index) -> None:
    put(root / "Old/a.md")
    put(root / "Old/Deep/b.md")
    build(vault, index)
    (root / "Old").rename(root / "New")
    todo = look(vault, index, ["New", "Old", "New/a.md"])
    assert found(todo) == (["New/Deep/b.md", "New/a.md"], ["Old/Deep/b.md", "Old/a.md"])


def test_a_file_in_the_place_of_a_folder_and_the_other_way_round(root: Path, vault: Vault, index: Index) -> None:
    put(root / "a.md/b.md")
    put(root / "c.md")
    build(vault, index)
    shutil.rmtree(root / "a.md")
    put(root / "a.md")
    (root / "c.md").unlink()
    put(root / "c.md/d.md")
    assert found(look(vault, index, ["a.md", "c.md"])) == (["a.md", "c.md/d.md"], ["a.md/b.md", "c.md"])


def test_other_names_of_a_file_are_looked_at_too(root: Path, vault: Vault, index: Index) -> None:
    put(root / "a.md", "one")
    os.link(root / "a.md", root / "hard.md")
    (root / "soft.md").symlink_to("a.md")
    build(vault, index)
    (root / "a.md").write_text("two")
    assert found(look(vault, index, ["a.md"])) == (["a.md", "hard.md", "soft.md"], [])
    (root / "a.md").unlink()
    assert look(vault, index, ["a.md"]).gone == ["a.md", "soft.md"]


def test_what_is_seen_by_way_of_a_link_to_a_folder_is_not_there(root: Path, vault: Vault, index: Index) -> None:
    put(root / "Real/a.md")
    (root / "Link").symlink_to("Real")
    assert found(look(vault, index, ["Link/a.md", "Link", "Real/a.md"])) == (["Real/a.md"], [])


def test_in_several_vaults_paths_begin_with_the_name_of_one(tmp_path: Path) -> None:
    put(tmp_path / "One/a.md")
    put(tmp_path / "Two/b/c.md")
    vault = Vault([tmp_path / "One", tmp_path / "Two"])
    index = Index(vault, memory=True)
    assert found(look(vault, index, ["Two", "One/a.md", "Three/d.md", "One"])) == (["One/a.md", "Two/b/c.md"], [])
    index.close()


def test_a_vault_that_goes_away_meanwhile_takes_nothing_along(
    root: Path, vault: Vault, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root / "a.md")
    build(vault, index)
    original = index.stamps

    def unplugging(path: str = "") -> Any:
        root.rename(root.with_name("elsewhere"))
        root.mkdir()
        return original(path)

    monkeypatch.setattr(index, "stamps", unplugging)
    with pytest.raises(VaultAway, match="while it was scanned"):
        look(vault, index, ["a.md"])


# Disks that take several spellings for the same file


@pytest.fixture
def folding(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the disk find files by names in other case, as those of Apple and Microsoft do."""
    original, listdir = os.lstat, os.listdir

    def lstat(place: Any) -> os.stat_result:
        if not Path(place).is_relative_to(root):
            return original(place)
        real = root
        for name in Path(place).relative_to(root).parts:
            names = {each.casefold(): each for each in listdir(real)} if real.is_dir() else {}
            real /= name if name in names.values() else names.get(name.casefold(), name)
        return original(real)

    monkeypatch.setattr(os, "lstat", lstat)


@pytest.mark.usefixtures("folding")
@pytest.mark.parametrize("told", [{"Note.md"}, {"note.md"}, {"Note.md", "note.md"}])
def test_a_file_renamed_in_case_alone_is_the_one_that_is_written_on_the_disk(
    root: Path, vault: Vault, index: Index, told: set[str]
) -> None:
    put(root / "Note.md")
    put(root / "other.md")
    build(vault, index)
    (root / "Note.md").rename(root / "note.md")
    assert found(look(vault, index, told)) == (["note.md"], ["Note.md"])


@pytest.mark.usefixtures("folding")
@pytest.mark.parametrize("told", [{"Old"}, {"old"}, {"Old", "old"}, {"Old/a.md"}, {"old/a.md"}])
def test_a_folder_renamed_in_case_alone_takes_its_files_along(
    root: Path, vault: Vault, index: Index, told: set[str]
) -> None:
    put(root / "Old/a.md")
    put(root / "older/b.md")
    build(vault, index)
    (root / "Old").rename(root / "old")
    assert found(look(vault, index, told)) == (["old/a.md"], ["Old/a.md"])


@pytest.mark.usefixtures("folding")
def test_where_nothing_can_be_listed_nothing_is_found_by_another_spelling(
    root: Path, vault: Vault, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root / "a.md")

    def failing(_: Any) -> list[str]:
        raise PermissionError

    monkeypatch.setattr(os, "listdir", failing)
    assert look(vault, index, ["A.md"]) == ([], [])


def test_names_that_differ_in_case_alone_are_two_files_where_the_disk_says_so(
    root: Path, vault: Vault, index: Index
) -> None:
    put(root / "Note.md", "one")
    put(root / "note.md", "two")
    build(vault, index)
    (root / "Note.md").unlink()
    assert found(look(vault, index, ["Note.md", "note.md"])) == ([], ["Note.md"])
    os.link(root / "note.md", root / "NOTE.md")
    assert look(vault, index, ["NOTE.md"]).gone == []


# Anything in any order

FOLDERS = ("", "A/", "a/", "B/C/", "B/")
NAMES = ("x.md", "X.md", "y.md", "p.png", "c.canvas")
TEXTS = ("", "#t [[x]]", "#T/u\n# H", "---\ntags: [t]\na: 1\n---\n[[y|z]] ^b", "- [ ] do\n#u", "[[a/x]]")
PATHS = st.builds("{}{}".format, st.sampled_from(FOLDERS), st.sampled_from(NAMES))
OPERATIONS = st.one_of(
    st.tuples(st.just("write"), PATHS, st.sampled_from(TEXTS)),
    st.tuples(st.just("delete"), PATHS, st.none()),
    st.tuples(st.just("move"), PATHS, PATHS),
    st.tuples(st.just("move"), st.sampled_from(("A", "a", "B", "B/C")), st.sampled_from(("A", "a", "B", "B/C", "D"))),
    st.tuples(st.just("clear"), st.sampled_from(("A", "a", "B", "B/C", "D")), st.none()),
    st.tuples(st.just("look"), st.none(), st.none()),
)


def do(root: Path, what: str, path: str, other: str | None) -> set[str]:
    """Do something to the files, as far as it is possible; the paths that a watcher would tell of."""
    place = root / path
    try:
        if what == "write":
            put(place, other or "")
        elif what == "delete":
            place.unlink()
        elif what == "clear":
            shutil.rmtree(place)
        else:
            (root / str(other)).parent.mkdir(parents=True, exist_ok=True)
            place.rename(root / str(other))
            return {path, str(other)}
    except OSError:
        return set()
    return {path}


@settings(max_examples=40)
@given(st.lists(OPERATIONS, max_size=25))
def test_after_any_operations_the_index_is_what_a_fresh_one_would_be(operations: list[tuple[str, Any, Any]]) -> None:
    check_operations(operations)


@pytest.mark.thorough
@settings(max_examples=300)
@given(st.lists(OPERATIONS, max_size=25))
def test_after_many_operations_the_index_is_what_a_fresh_one_would_be(operations: list[tuple[str, Any, Any]]) -> None:
    check_operations(operations)


def check_operations(operations: list[tuple[str, Any, Any]]) -> None:
    with TemporaryDirectory() as folder:
        vault = Vault([Path(folder)])
        index = Index(vault, memory=True)
        build(vault, index)
        told: set[str] = set()
        for operation in [*operations, ("look", None, None)]:
            if operation[0] == "look":
                refresh(vault, index, told)
                told.clear()
            else:
                told |= do(vault.mounts[0].root, *operation)
        assert contents(index) == fresh(vault)
        index.close()


@settings(max_examples=50)
@given(st.lists(OPERATIONS, max_size=25))
def test_a_build_after_any_operations_gives_the_same_as_a_fresh_one(operations: list[tuple[str, Any, Any]]) -> None:
    with TemporaryDirectory() as folder:
        vault = Vault([Path(folder)])
        index = Index(vault, memory=True)
        for operation in [*operations, ("look", None, None)]:
            if operation[0] == "look":
                until = time.monotonic() + 20
                while build(vault, index):  # See `refresh`.
                    assert time.monotonic() < until
            else:
                do(vault.mounts[0].root, *operation)
        assert contents(index) == fresh(vault)
        index.close()


def test_a_link_follows_atomic_saves_of_its_target_and_goes_with_it(root: Path, vault: Vault, index: Index) -> None:
    put(root / "a.md", "one")
    (root / "soft.md").symlink_to("a.md")
    build(vault, index)
    for text in ("two", "three"):
        put(root.parent / "new.md", text).replace(root / "a.md")
        refresh(vault, index, {"a.md"})
        assert index.queries.text("soft.md") == text
    (root / "a.md").unlink()
    refresh(vault, index, {"a.md"})
    assert index.queries.file("soft.md") is None
