"""Processes that are killed in the middle of a write: after the next start, nothing is half done."""

import multiprocessing
import random
import time
from pathlib import Path

import pytest

from tests.vault.files import operations
from tests.vault.files.test_journal import contents, writer_of
from tests.vault.files.test_moving import Known
from tidings.vault.files.paths import Vault
from tidings.vault.notes.links import resolve
from tidings.vault.notes.parse import parse

NOTES = 24

PROCESSES = multiprocessing.get_context("forkserver")  # Each starts at once, with everything imported.
PROCESSES.set_forkserver_preload([operations.__name__])


OPERATIONS = ["move", "move a folder", "rename_tag", "delete", "write", "undo"]


def fill(root: Path) -> None:
    (root / "notes").mkdir(parents=True)
    (root / "Target.md").write_text("[[notes/1]] #todo\n")
    for number in range(NOTES):
        other = (number + 1) % NOTES
        text = f"[[Target]] #todo and [{number}](../Target.md) and [[notes/{other}]]\n" + f"line {number}\n" * 300
        (root / f"notes/{number}.md").write_text(text)


def dead_links(root: Path) -> set[tuple[str, str]]:
    known = Known(Vault([root]))
    return {
        (path, link.target)
        for path in known.files
        for link in parse((root / path).read_text(), path).links
        if resolve(link.target, path, known.candidates) is None
    }


def outcome(root: Path, operation: str) -> dict[str, bytes]:
    """The vault after the operation, as an undisturbed process would have left it."""
    run(root, operation, None, exchange=True)
    return contents(root)


def run(root: Path, operation: str, until: float | None, *, exchange: bool) -> None:
    """Runs an operation in a process of its own, and kills it after some time."""
    begun = PROCESSES.Event()
    process = PROCESSES.Process(target=operations.operate, args=(root, operation, exchange, begun))
    process.start()
    assert begun.wait(50)
    if until is not None:
        process.join(until)
        process.kill()
    process.join(50)
    process.close()


def prepared(root: Path, operation: str) -> None:
    fill(root)
    if operation == "undo":
        writer_of(root).move("Target.md", "deep/down/Moved.md", references=Known(Vault([root])))


def kill(folder: Path, operation: str, rounds: int, *, exchange: bool = True) -> tuple[int, int]:
    """Kills an operation at random moments. Returns how often it was finished, and dropped, by the next start."""
    chance = random.Random(f"{operation} {exchange}")
    prepared(folder / "model/vault", operation)
    before = contents(folder / "model/vault")
    began = time.monotonic()
    after = outcome(folder / "model/vault", operation)
    lasts = 1.2 * (time.monotonic() - began)
    finished = dropped = 0
    for number in range(rounds):
        root = folder / str(number) / "vault"
        prepared(root, operation)
        run(root, operation, chance.uniform(0, lasts), exchange=exchange)
        said = writer_of(root).recover()
        finished += sum("finished" in each for each in said)
        dropped += sum("dropped" in each for each in said)
        now = contents(root)
        assert not [each for each in said if "cannot" in each or "left as" in each], said
        if operation == "write":
            assert now.keys() == before.keys()
            assert all(now[path] in (before[path], after[path]) for path in now)
        else:
            assert now in (before, after), (number, said, now.keys() ^ after.keys())
        if operation != "delete":
            assert not dead_links(root)
        assert writer_of(root).recover() == []
    return finished, dropped


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_killed_operation_is_finished_or_dropped_at_the_next_start(tmp_path: Path, operation: str) -> None:
    kill(tmp_path, operation, 2)


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_operation_of_two_hundred_stays_half_done(tmp_path: Path, operation: str, exchange: bool) -> None:
    finished, dropped = kill(tmp_path, operation, 200, exchange=exchange)
    assert finished + dropped
