"""Reading files with processes that do nothing else: the same comes of it, whatever happens to them."""

import io
import os
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tidings.vault.files.paths import Vault
from tidings.vault.index import scan, worker
from tidings.vault.index.read_file import Job, Missed, ReadLimits, ReadTask, read_file
from tidings.vault.index.scan import read_all, walk
from tidings.vault.index.workers import COMMAND, IndexPool, processes_for
from tidings.vault.notes.model import IndexEntry, Stamp

LIMITS = ReadLimits()


@pytest.fixture
def jobs(tmp_path: Path) -> list[Job]:
    for number in range(20):
        (tmp_path / f"{number}.md").write_text(f"---\nn: {number}\n---\n#tag{number} [[{number + 1}]]")
    vault = Vault([tmp_path])
    return [Job(*seen, str(tmp_path.resolve()), seen.path) for seen in sorted(walk(vault))]


@pytest.fixture
def here(jobs: list[Job]) -> list[IndexEntry | Missed]:
    return [read_file(job, LIMITS) for job in jobs]


def chunks(jobs: list[Job]) -> Iterator[list[Job]]:
    return ([job] for job in jobs)


def plain(items: list[IndexEntry | Missed]) -> list[object]:
    """What was read, in order. A stamp also says how long ago the file was changed when it was read."""
    return sorted(
        (item._replace(stamp=Stamp(0, 0, 0, 0)) if isinstance(item, IndexEntry) else item for item in items), key=repr
    )


def test_what_processes_read_is_what_is_read_here(jobs: list[Job], here: list[IndexEntry | Missed]) -> None:
    with IndexPool(LIMITS, count=2) as workers:
        answers = [item for answer in workers.read(chunks(jobs)) for item in answer]
    assert plain(answers) == plain(here)


@pytest.mark.parametrize(
    "command",
    [
        ("/no/such/program",),
        ("true",),
        ("sh", "-c", "echo no answer"),
        ("sh", "-c", "head -c 1 >/dev/null; echo dies >&2; exit 1"),
        ("sh", "-c", r"printf '(lp0\n.'"),  # An empty list, pickled.
    ],
)
def test_what_a_process_does_not_answer_is_read_here(
    jobs: list[Job], here: list[IndexEntry | Missed], command: tuple[str, ...]
) -> None:
    with IndexPool(LIMITS, count=2, command=command) as workers:
        answers = [item for answer in workers.read(chunks(jobs)) for item in answer]
    assert plain(answers) == plain(here)


def test_where_there_can_be_no_processes_files_are_read_here(
    jobs: list[Job], here: list[IndexEntry | Missed], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with IndexPool(LIMITS, count=processes_for(len(jobs))) as workers:
        answers = [item for answer in workers.read(chunks(jobs)) for item in answer]
    assert plain(answers) == plain(here)


def test_leaving_early_ends_the_processes(jobs: list[Job]) -> None:
    before = set(psutil.Process().children())
    with IndexPool(LIMITS, count=2) as workers:
        answers = workers.read(chunks(jobs * 10))
        next(answers)
        assert len(set(psutil.Process().children()) - before) == 2
    assert set(psutil.Process().children()) <= before


def test_a_process_that_hangs_is_ended_too(tmp_path: Path, jobs: list[Job]) -> None:
    program = f"""
import os, time
from tidings.vault.index import worker
try:
    os.mkdir({str(tmp_path / "one")!r})
except FileExistsError:
    worker.main()
else:
    time.sleep(60)
"""
    with IndexPool(LIMITS, count=2, command=(sys.executable, "-c", program)) as workers:
        assert len(next(workers.read(chunks(jobs)))) == 1


def test_much_is_read_by_processes_that_are_gone_when_reading_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: list[Job]
) -> None:
    monkeypatch.setattr(scan, "MANY_FILES", len(jobs) - 1)
    vault = Vault([tmp_path])
    before = set(psutil.Process().children())
    batches = read_all(vault, list(walk(vault)))
    batch = next(batches)
    batches.close()
    assert {entry.path for entry in batch.entries} == {job.path for job in jobs}
    assert set(psutil.Process().children()) <= before


def test_a_file_over_the_limit_is_not_worth_a_process_and_a_large_one_is_never_read_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small.md").write_text("small")
    (tmp_path / "large.md").write_text("#large\n" * 200_000)
    with (tmp_path / "huge.md").open("wb") as file:
        file.truncate(ReadLimits().size + 1)
    read_here: list[str] = []

    def read(job: Job, limits: ReadLimits) -> IndexEntry | Missed:
        read_here.append(job.path)
        return read_file(job, limits)

    monkeypatch.setattr(scan, "read_file", read)
    vault = Vault([tmp_path])
    (batch,) = read_all(vault, list(walk(vault)))
    found = {entry.path: entry for entry in batch.entries}
    assert sorted(read_here) == ["huge.md", "small.md"]
    assert found["large.md"].hash
    assert "larger than" in (found["huge.md"].problem or "")


def test_while_processes_start_small_files_are_read_here(jobs: list[Job], here: list[IndexEntry | Missed]) -> None:
    large = jobs[7].stamp.size + 1
    jobs[3] = jobs[3]._replace(stamp=jobs[3].stamp._replace(size=large))
    with IndexPool(
        LIMITS, count=1, command=(sys.executable, "-c", "import time; time.sleep(60)"), small=large - 1
    ) as workers:
        read = workers.read(chunks(jobs))
        # The process that never answers has taken the first.
        assert plain([item for _ in jobs[4:] for item in next(read)]) == plain(here[4:])


def test_reading_stops_while_a_process_is_busy(jobs: list[Job]) -> None:
    with IndexPool(LIMITS, count=1, command=(sys.executable, "-c", "import time; time.sleep(60)")) as workers:
        asked = iter([False, False, True])
        assert list(workers.read(chunks(jobs), lambda: next(asked))) == []


def test_a_process_answers_each_task(jobs: list[Job], here: list[IndexEntry | Missed]) -> None:
    target = io.BytesIO()
    worker.work([ReadTask(LIMITS, jobs[:10]), ReadTask(LIMITS, jobs[10:])], target)
    target.seek(0)
    assert plain([*pickle.load(target), *pickle.load(target)]) == plain(here)


def test_a_process_keeps_what_is_printed_out_of_its_answers(jobs: list[Job]) -> None:
    program = """
import os
from tidings.vault.index import worker
def read(job, limits):
    print("printed", flush=True)
    os.write(1, b"written")
    return job.path
worker.read_file = read
worker.main()
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        pickle.dump(ReadTask(LIMITS, jobs[:1]), process.stdin)
        process.stdin.flush()
        assert pickle.load(process.stdout) == [jobs[0].path]
        process.stdin.close()
        assert process.stderr.read().split() == [b"printed", b"written"]
        assert process.stdout.read() == b""


def test_nothing_is_imported_from_the_current_folder(
    tmp_path: Path, jobs: list[Job], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("yaml", "json", "tidings", "pickle"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the current folder')")
    monkeypatch.chdir(tmp_path)
    with IndexPool(LIMITS, count=1) as workers:
        answers = list(workers.read([jobs]))
    assert len(answers[0]) == len(jobs)
    assert caplog.records == []


def test_processes_end_when_the_one_that_started_them_is_killed() -> None:
    program = """
        import os, signal, subprocess
        from tidings.vault.index.workers import COMMAND, Workers
        from tidings.vault.index.read_file import Limits
        workers = Workers(Limits(), count=2).__enter__()
        print(*(process.pid for process in workers._processes), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    started = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False, timeout=30
    )
    numbers = [int(number) for number in started.stdout.split()]
    assert len(numbers) == 2
    for number in numbers:
        with suppress(psutil.NoSuchProcess):
            psutil.Process(number).wait(20)


def test_a_process_in_the_midst_of_a_file_ends_when_the_one_that_started_it_is_killed() -> None:
    busy = """
import os, sys
from tidings.vault.index import worker
def read(job, limits):
    print(os.getpid(), file=sys.stderr, flush=True)
    while True:
        pass
worker.read_file = read
worker.main()
"""
    program = f"""
import sys
from tidings.vault.index.read_file import Limits
from tidings.vault.index.workers import Workers
with Workers(Limits(), count=1, command=(sys.executable, "-c", {busy!r})) as workers:
    list(workers.read([[None]]))
"""
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) as process:
        assert process.stderr
        number = int(process.stderr.readline())
        process.kill()
        with suppress(psutil.NoSuchProcess):
            psutil.Process(number).wait(20)


def test_an_interrupt_is_for_the_process_that_started_the_others(jobs: list[Job]) -> None:
    process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    task = pickle.dumps(ReadTask(LIMITS, jobs[:1]))
    try:
        # Its first answer shows that it has begun, and so does what an interrupt does to it.
        for _ in range(2):
            process.stdin.write(task)
            process.stdin.flush()
            assert len(pickle.load(process.stdout)) == 1
            os.kill(process.pid, 2)
        process.stdin.close()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
