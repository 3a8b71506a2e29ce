"""Reading files with worker processes gives the same as reading them here; so does an early start."""

import math
import os
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tidings.vault.files.paths import Vault
from tidings.vault.index import parallel, scan
from tidings.vault.index.index import Index
from tidings.vault.index.parallel import index_pool, tasks_of
from tidings.vault.index.read_file import LARGEST, Missed, Same, WalkedFile, read_file
from tidings.vault.index.scan import plan, read_all
from tidings.vault.index.walk import FolderWalk
from tidings.vault.notes.model import IndexEntry, Stamp

NOTES = 120
Item = IndexEntry | Missed | Same


@pytest.fixture
def tasks(tmp_path: Path) -> list[list[WalkedFile]]:
    for number in range(20):
        (tmp_path / f"{number}.md").write_text(f"---\nn: {number}\n---\n#tag{number} [[{number + 1}]]")
    vault = Vault([tmp_path])
    (task,) = tasks_of(sorted(FolderWalk(vault).everything()))
    return [[job] for job in task]


@pytest.fixture
def here(tasks: list[list[WalkedFile]]) -> list[Item]:
    return [read_file(job) for task in tasks for job in task]


def plain(items: list[Item]) -> list[object]:
    """What was read, in order, without stamps: they also say how long ago the file was changed."""
    return sorted(
        (item._replace(stamp=Stamp(0, 0, 0, 0)) if isinstance(item, IndexEntry) else item for item in items), key=repr
    )


@pytest.mark.parametrize("command", [None, ("/no/such/program",), ("sh", "-c", "echo no answer")])
def test_what_processes_read_is_what_is_read_here(
    tasks: list[list[WalkedFile]], here: list[Item], command: tuple[str, ...] | None
) -> None:
    with index_pool(2, command=command) as pool:
        answers = [item for answer in pool.read(tasks) for item in answer]
    assert plain(answers) == plain(here)


def test_much_is_read_by_processes_that_are_gone_when_reading_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: list[list[WalkedFile]]
) -> None:
    monkeypatch.setattr(scan, "MANY_FILES", len(tasks) - 1)
    vault = Vault([tmp_path])
    before = set(psutil.Process().children())
    batches = read_all(vault, list(FolderWalk(vault).everything()))
    batch = next(batches)
    batches.close()
    assert {entry.path for entry in batch.entries} == {task[0].path for task in tasks}
    assert set(psutil.Process().children()) <= before


def test_a_file_over_the_limit_is_not_worth_a_process_and_a_large_one_is_never_read_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small.md").write_text("small")
    (tmp_path / "large.md").write_text("large\n" * 200_000)
    with (tmp_path / "huge.md").open("wb") as file:
        file.truncate(LARGEST + 1)
    read_here: list[str] = []

    def read(job: WalkedFile) -> Item:
        read_here.append(job.path)
        return read_file(job)

    monkeypatch.setattr("tidings.vault.index.read_file.read_file", read)
    vault = Vault([tmp_path])
    (batch,) = read_all(vault, list(FolderWalk(vault).everything()))
    found = {entry.path: entry for entry in batch.entries}
    assert sorted(read_here) == ["huge.md", "small.md"]
    assert found["large.md"].hash
    assert "larger than" in (found["huge.md"].problem or "")


def test_while_processes_start_small_files_are_read_here(tasks: list[list[WalkedFile]], here: list[Item]) -> None:
    large = tasks[7][0].stamp.size + 1
    (job,) = tasks[3]
    tasks[3] = [job._replace(stamp=job.stamp._replace(size=large))]
    with index_pool(1, command=("sleep", "60"), small=large - 1) as pool:
        read = pool.read(tasks)
        # The process that never answers has taken the first.
        assert plain([item for _ in tasks[4:] for item in next(read)]) == plain(here[4:])


# An early start


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A vault that is worth a process; none is left in the end."""
    monkeypatch.setattr(scan, "MANY_FILES", NOTES // 2)
    monkeypatch.setattr(parallel, "MANY_FILES", NOTES // 2)
    root = tmp_path / "Notes"
    root.mkdir()
    for number in range(NOTES):
        _old(root / f"{number}.md", f"# {number}\n#tag{number}\n")
    (root / "picture.png").write_bytes(b"\x89PNG")
    before = set(psutil.Process().children())
    yield root
    assert set(psutil.Process().children()) <= before


def _old(file: Path, text: str) -> None:
    """A file that did not change just now, so that its stamp is believed."""
    file.write_text(text)
    os.utime(file, (1_700_000_000, 1_700_000_000))


def _wait(early: "parallel.Ahead") -> None:
    """Return when all that was begun is read."""
    workers, begun = early.take()
    assert workers is not None
    deadline = time.monotonic() + 60
    while workers._done.qsize() < math.ceil(len(begun) / 50):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _texts(vault: Vault, index: Index, early: "parallel.Ahead | None") -> dict[str, str]:
    todo = plan(vault, index)
    return {entry.path: entry.text for batch in read_all(vault, todo.changed, ahead=early) for entry in batch.entries}


def test_what_was_read_early_is_what_would_be_read(root: Path, tmp_path: Path) -> None:
    vault, cache = Vault([root]), tmp_path / "cache"
    parallel.begin(vault, cache)
    early = parallel.taken(Vault([root]))
    assert early is not None
    workers, begun = early.take()
    assert workers is not None
    assert len(begun) == NOTES
    index = Index(vault, cache)
    found = _texts(vault, index, early)
    assert found == {f"{number}.md": f"# {number}\n#tag{number}\n" for number in range(NOTES)} | {"picture.png": ""}
    index.close()


def test_what_changed_came_or_went_meanwhile_is_read_as_it_is(root: Path, tmp_path: Path) -> None:
    vault, cache = Vault([root]), tmp_path / "cache"
    parallel.begin(vault, cache)
    early = parallel.taken(vault)
    assert early is not None
    _wait(early)
    for number in range(0, NOTES, 3):
        _old(root / f"{number}.md", f"# {number + 1}\n#tag{number}\n"[: len(f"# {number}\n#tag{number}\n")])
    for number in range(1, NOTES, 3):
        (root / f"{number}.md").unlink()
    _old(root / "new.md", "new\n")
    index = Index(vault, cache)
    expected = {path.name: path.read_text() for path in root.glob("*.md")}
    assert _texts(vault, index, early) == expected | {"picture.png": ""}
    index.close()


def test_what_is_left_out_now_is_left_out_though_it_was_read(root: Path, tmp_path: Path) -> None:
    parallel.begin(Vault([root]), tmp_path / "cache")
    vault = Vault([root], exclude=["1*.md"])
    early = parallel.taken(vault)
    assert early is not None
    index = Index(vault, tmp_path / "cache")
    found = _texts(vault, index, early)
    assert "2.md" in found
    assert not [path for path in found if path.startswith("1")]
    index.close()


def test_it_is_taken_once(root: Path, tmp_path: Path) -> None:
    vault = Vault([root])
    parallel.begin(vault, tmp_path / "cache")
    early = parallel.taken(vault)
    assert early is not None
    assert parallel.taken(vault) is None
    batches = read_all(vault, [], ahead=early)
    assert list(batches) == []


def test_nothing_is_read_early_where_there_is_an_index(root: Path, tmp_path: Path) -> None:
    vault = Vault([root])
    Index(vault, tmp_path / "cache").close()
    parallel.begin(vault, tmp_path / "cache")
    assert parallel.taken(vault) is None


def test_a_few_files_are_worth_no_process(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "MANY_FILES", NOTES)
    vault = Vault([root])
    parallel.begin(vault, tmp_path / "cache")
    early = parallel.taken(vault)
    assert early is not None
    assert early.take() == (None, frozenset())
    index = Index(vault, tmp_path / "cache")
    assert len(_texts(vault, index, early)) == NOTES + 1
    index.close()


def test_the_processes_end_when_nobody_reads_on(root: Path, tmp_path: Path) -> None:
    vault = Vault([root])
    parallel.begin(vault, tmp_path / "cache")
    index = Index(vault, tmp_path / "cache")
    batches = read_all(vault, plan(vault, index).changed, ahead=parallel.taken(vault))
    assert next(batches).entries
    batches.close()
    index.close()


def test_closing_ends_the_processes_and_reads_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    monkeypatch.setattr("tidings.vault.index.read_file.read_file", lambda job, _: read.append(job.path))
    before = set(psutil.Process().children())
    for _ in range(5):
        parallel.begin(Vault([root]), tmp_path / "cache")
        early = parallel.taken(Vault([root]))
        assert early is not None
        early.close()
        early.close()
    assert read == []
    assert set(psutil.Process().children()) <= before


def test_a_vault_that_is_away_is_somebody_elses_to_say(tmp_path: Path) -> None:
    root = tmp_path / "Notes"
    root.mkdir()
    vault = Vault([root])
    root.rmdir()
    parallel.begin(vault, tmp_path / "cache")
    early = parallel.taken(vault)
    assert early is not None
    assert early.take() == (None, frozenset())
