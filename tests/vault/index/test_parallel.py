"""Reading files with worker processes gives the same as reading them here."""

from pathlib import Path

import psutil
import pytest

from tidings.vault.files.paths import Vault
from tidings.vault.index import scan
from tidings.vault.index.read_file import LARGEST, Missed, WalkedFile, read_file
from tidings.vault.index.scan import FolderWalk, index_pool, read_all, tasks_of
from tidings.vault.notes.model import IndexEntry, Stamp

Item = IndexEntry | Missed


@pytest.fixture
def tasks(tmp_path: Path) -> list[list[WalkedFile]]:
    for number in range(20):
        (tmp_path / f"{number}.md").write_text(f"---\nn: {number}\n---\n#tag{number} [[{number + 1}]]")
    vault = Vault([tmp_path])
    (task,) = tasks_of(sorted(FolderWalk(vault).files()))
    return [[job] for job in task]


@pytest.fixture
def here(tasks: list[list[WalkedFile]]) -> list[Item]:
    return [read_file(job) for task in tasks for job in task]


def plain(items: list[Item]) -> list[object]:
    """What was read, in order, without stamps: they also say how long ago the file was changed."""

    def one(item: Item) -> Item:
        if not isinstance(item, IndexEntry):
            return item
        return item._replace(stamp=Stamp(0, 0, 0, 0), vocabulary="\n".join(sorted(item.vocabulary.split("\n"))))

    return sorted(map(one, items), key=repr)


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
    batches = read_all(vault, list(FolderWalk(vault).files()))
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
    (batch,) = read_all(vault, list(FolderWalk(vault).files()))
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
