"""Child processes that answer many jobs for a thread; what they cannot do is done here."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tidings._kit.pool import _AHEAD, BulkPool
from tidings._kit.worker import WorkerLimits

pytestmark = pytest.mark.skipif(os.name == "nt", reason="of POSIX")

Job = tuple[str, Any]
ROOT = Path(__file__).parents[2]
JOBS: list[Job] = [("upper", f"job {number}") for number in range(60)]
ANSWERS = sorted(text.upper() for _, text in JOBS)
STUCK = (sys.executable, "-c", "import time; time.sleep(1_000)")


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def here(job: Job) -> str:
    return f"{job[1]} here"


def made(**given: Any) -> BulkPool[Job, str]:
    return BulkPool("tests._kit.answering:answer", bytes.decode, here, **{"count": 2, **given})


def test_every_job_is_answered_once() -> None:
    with made(limits=WorkerLimits(nice=1, collect=False)) as pool:
        assert sorted(pool.read(JOBS)) == ANSWERS


def test_only_some_answers_wait_to_be_taken() -> None:
    with made(count=1) as pool:
        answers = pool.read(JOBS)
        first = next(answers)
        while pool._done.qsize() < _AHEAD:
            time.sleep(0.01)
        time.sleep(0.1)
        assert pool._done.qsize() == _AHEAD
        assert sorted([first, *answers]) == ANSWERS


@pytest.mark.parametrize(
    "command",
    [
        ("/no/such/program",),
        ("true",),
        ("sh", "-c", "echo something else"),
        ("sh", "-c", "head -c 1 >/dev/null; exit 1"),
    ],
)
def test_what_a_process_does_not_answer_is_done_here(command: tuple[str, ...]) -> None:
    with made(command=command) as pool:
        assert sorted(pool.read(JOBS)) == sorted(map(here, JOBS))


def test_a_process_that_ends_under_a_job_costs_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    jobs: list[Job] = [*JOBS[:30], ("exit", 1), *JOBS[30:]]
    with made(count=1) as pool:
        found = list(pool.read(jobs))
    assert len(found) == len(jobs)
    assert "1 here" in found
    assert found[:30] == [text.upper() for _, text in JOBS[:30]]
    assert "ended before its time" in caplog.text


def test_an_answer_that_cannot_be_decoded_is_done_here() -> None:
    with BulkPool("tests._kit.answering:answer", int, lambda _: -1, count=1) as pool:
        assert sorted(pool.read([("echo", "7"), ("echo", "no number")])) == [-1, 7]


def test_where_there_can_be_no_processes_everything_is_done_here() -> None:
    with made(count=0) as pool:
        assert list(pool.read(JOBS)) == list(map(here, JOBS))


def test_small_jobs_are_done_here_while_the_processes_start() -> None:
    with made(count=1, command=STUCK, small=lambda job: job[1] != "job 3") as pool:
        answers = pool.read(JOBS)
        # The process that never answers has taken the first two.
        assert [next(answers) for _ in JOBS[4:]] == [here(job) for job in reversed(JOBS[4:])]


def test_reading_stops_while_a_process_is_busy() -> None:
    with made(count=1, command=STUCK) as pool:
        asked = iter([False, False, True])
        assert list(pool.read(JOBS, lambda: next(asked))) == []


def test_to_leave_early_ends_the_processes_and_does_nothing_more_here() -> None:
    with made(limits=WorkerLimits()) as pool:
        answers = pool.read([*JOBS, *(("sleep", 1_000) for _ in range(4))])
        next(answers)
        pids = {process.pid for process in pool._processes}
        assert len(pids) == 2
    assert not any(map(psutil.pid_exists, pids))
