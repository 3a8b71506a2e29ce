"""The child's side of a pool: frames, limits, and its end."""

import io
import os
import pickle
import subprocess
import sys
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from tidings._kit import worker
from tidings._kit.worker import (
    LARGEST,
    LEFT,
    LastAnswer,
    WorkerLimits,
    framed,
    read_answer,
    read_frame,
    work,
    worker_command,
)

ROOT = Path(__file__).parents[2]
FUNCTION = "tests._kit.answering:answer"


def test_a_frame_is_read_as_it_was_written() -> None:
    source = io.BytesIO(framed(b"one") + framed(b""))
    assert (read_frame(source), read_frame(source)) == (b"one", b"")
    with pytest.raises(EOFError):
        read_frame(source)


@pytest.mark.parametrize("part", [b"", b"\0" * 7, framed(b"one")[:-1]])
def test_a_part_of_a_frame_is_an_end(part: bytes) -> None:
    with pytest.raises(EOFError):
        read_frame(io.BytesIO(part))


def test_a_frame_that_is_too_large_is_refused_before_it_is_read() -> None:
    with pytest.raises(ValueError, match="frame of"):
        read_frame(io.BytesIO((LARGEST + 1).to_bytes(8, "big")))


@pytest.mark.parametrize("last", [True, False])
def test_an_answer_says_whether_it_is_the_last(last: bool) -> None:
    assert read_answer(read_frame(io.BytesIO(framed(bytes([last]) + b"yes")))) == (b"yes", last)


@pytest.mark.parametrize("frame", [b"", b"\2yes", b"yes"])
def test_anything_else_is_no_answer(frame: bytes) -> None:
    with pytest.raises(ValueError, match="not an answer"):
        read_answer(frame)


def answers(jobs: list[Any], limits: WorkerLimits | None = None) -> tuple[list[tuple[bytes, bool]], int]:
    """The answers of a worker in this process, and its exit code."""
    waiting: SimpleQueue[Any] = SimpleQueue()
    for job in jobs:
        waiting.put(job)
    target = io.BytesIO()
    code = work(waiting, target, lambda job: job, limits)
    target.seek(0)
    assert read_frame(target) == b"ready"
    found: list[tuple[bytes, bool]] = []
    while target.tell() < len(target.getvalue()):
        found.append(read_answer(read_frame(target)))
    return found, code


def test_work_ends_after_so_many_jobs() -> None:
    limits = WorkerLimits(seconds=60, jobs=2)
    assert answers([b"a", b"b", b"c"], limits) == ([(b"a", False), (b"b", True)], 0)


def test_work_ends_when_it_was_idle() -> None:
    assert answers([b"a"], WorkerLimits(idle=0.01)) == ([(b"a", False)], LEFT)


def test_work_ends_with_a_last_answer() -> None:
    assert answers([LastAnswer(b"a"), b"b"]) == ([(b"a", True)], 0)


def started(limits: WorkerLimits, **more: Any) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = worker_command(FUNCTION, limits)
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, **more)


@pytest.mark.skipif(os.name == "nt", reason="of POSIX")
def test_an_interrupt_is_for_the_process_that_started_it() -> None:
    with started(WorkerLimits(collect=False)) as process:
        assert process.stdin
        assert process.stdout
        assert read_frame(process.stdout) == b"ready"
        os.kill(process.pid, 2)
        process.stdin.write(framed(pickle.dumps(("echo", "still here"))))
        process.stdin.flush()
        assert read_answer(read_frame(process.stdout)) == (b"still here", False)
        process.stdin.close()
        assert process.wait(30) == 0


@pytest.mark.skipif(os.name == "nt", reason="of POSIX")
def test_a_process_in_the_midst_of_a_job_ends_with_its_input() -> None:
    with started(WorkerLimits()) as process:
        assert process.stdin
        assert process.stdout
        assert read_frame(process.stdout) == b"ready"
        process.stdin.write(framed(pickle.dumps(("sleep", 1_000))))
        process.stdin.close()
        assert process.wait(30) == 0


@pytest.mark.skipif(os.name == "nt", reason="of POSIX")
def test_a_process_that_nobody_ends_ends_itself() -> None:
    program = "import sys; from tidings._kit import worker; worker._GRACE = 0.1; worker.main(sys.argv[1:])"
    command = [sys.executable, "-c", program, *worker_command(FUNCTION, WorkerLimits(seconds=0.1))[-2:]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin
        assert process.stdout
        assert read_frame(process.stdout) == b"ready"
        process.stdin.write(framed(pickle.dumps(("sleep", 1_000))))
        process.stdin.flush()
        assert process.wait(30) == 1


def test_the_command_takes_nothing_from_the_current_folder(tmp_path: Path) -> None:
    for name in ("json", "tidings", "pickle"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the current folder')")
    with started(WorkerLimits(), cwd=tmp_path) as process:
        assert process.stdin
        assert process.stdout
        assert read_frame(process.stdout) == b"ready"
        process.stdin.close()


def test_the_memory_limit_ends_growth_only_where_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not worker._has_grown(None)
    assert worker._has_grown(1) == (sys.platform == "linux")
    assert not worker._has_grown(1 << 50)
    monkeypatch.setattr("builtins.open", lambda *_: (_ for _ in ()).throw(OSError()))
    assert not worker._has_grown(1)
