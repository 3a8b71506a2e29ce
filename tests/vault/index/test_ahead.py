"""What was read before there was a server counts where it is true still, and only there."""

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
from tidings.vault.index.scan import plan, read_all

NOTES = 120


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
    monkeypatch.setattr("tidings.vault.index.workers.read_file", lambda job, _: read.append(job.path))
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
