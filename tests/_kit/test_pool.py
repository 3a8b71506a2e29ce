"""Child processes that answer one job at a time: killed, late, hungry, idle, left."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from tidings._kit.pool import WorkerFailed, WorkerPool, cores, processes_for
from tidings._kit.worker import LEFT, WorkerLimits

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(os.name == "nt", reason="of POSIX")]

FUNCTION = "tests._kit.answering:answer"
LONG = 60.0
"""Seconds that nothing takes, on however busy a machine."""
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The children find `tests`."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def made(**given: Any) -> WorkerPool[str]:
    limits = given.pop("limits", None) or WorkerLimits(seconds=LONG)
    return WorkerPool(FUNCTION, bytes.decode, limits=limits, **{"count": 1, **given})


@pytest.fixture
async def pool() -> AsyncIterator[WorkerPool[str]]:
    async with made(count=2) as pool:
        yield pool


async def until(condition: Callable[[], object]) -> None:
    with anyio.fail_after(LONG):
        while not condition():  # noqa: ASYNC110 - another process makes it true
            await anyio.sleep(0.01)


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def ended(pid: int) -> None:
    await until(lambda: is_gone(pid))


async def noted(path: Path) -> int:
    """The process id that a job wrote into a file."""
    await until(lambda: path.exists() and path.read_text())
    return int(path.read_text())


async def test_a_job_is_answered_by_another_process_which_stays(pool: WorkerPool[str]) -> None:
    assert pool.pids == frozenset()
    pid = int(await pool.ask(("pid",)))
    assert pid != os.getpid()
    assert int(await pool.ask(("pid",))) == pid
    assert pool.pids == {pid}


async def test_there_are_as_many_jobs_at_once_as_processes(pool: WorkerPool[str]) -> None:
    answers = await asyncio.gather(*(pool.ask(("echo", str(number))) for number in range(6)))
    assert answers == ["0", "1", "2", "3", "4", "5"]
    assert 1 <= len(pool.pids) <= 2


async def test_large_jobs_and_answers_pass_whole(pool: WorkerPool[str]) -> None:
    text = "Wörter und mehr. " * 300_000
    assert await pool.ask(("echo", text)) == text


async def test_whatever_is_printed_stays_out_of_the_answers(pool: WorkerPool[str]) -> None:
    assert await pool.ask(("upper", "a")) == "A"
    assert await pool.ask(("upper", "b")) == "B"


async def test_a_job_that_takes_too_long_is_ended_and_the_next_is_answered() -> None:
    async with made(limits=WorkerLimits(seconds=0.5)) as pool:
        await pool.ask(("echo", "started"))
        before = time.monotonic()
        with pytest.raises(WorkerFailed, match=r"longer than 0\.5 s") as failed:
            await pool.ask(("sleep", 1_000))
        assert failed.value.kind == "timeout"
        assert time.monotonic() - before < 30
        assert pool.pids == frozenset()
        assert await pool.ask(("echo", "on")) == "on"


async def test_a_process_that_does_not_even_take_its_job_is_ended() -> None:
    program = "import sys, time; sys.stdout.buffer.write(bytes(7) + b'\\1!'); sys.stdout.flush(); time.sleep(1_000)"
    async with made(limits=WorkerLimits(seconds=0.2), command=(sys.executable, "-c", program)) as pool:
        with pytest.raises(WorkerFailed, match="longer"):
            await pool.ask(("echo", "x" * 5_000_000))
        assert pool.pids == frozenset()


async def test_a_job_that_waits_too_long_is_told_apart(tmp_path: Path) -> None:
    async with made(wait=0.05) as pool:
        slow = asyncio.create_task(pool.ask(("note", str(tmp_path / "pid"))))
        await noted(tmp_path / "pid")
        with pytest.raises(WorkerFailed, match="busy") as failed:
            await pool.ask(("echo", "a"))
        assert failed.value.kind == "busy"
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow


@pytest.mark.parametrize(
    ("job", "how"),
    [
        (("abort",), "signal 6"),
        (("exit", 3), "exit code 3"),
        (("exit", 0), "exit code 0"),
        (("exit", LEFT), f"exit code {LEFT}"),
        (("raise",), "exit code 1"),
        pytest.param(
            ("write", b"\xff" * 8), "signal 9", marks=pytest.mark.skipif(sys.platform != "linux", reason="/proc")
        ),
        pytest.param(
            ("write", bytes(7) + b"\1?"), "signal 9", marks=pytest.mark.skipif(sys.platform != "linux", reason="/proc")
        ),
    ],
)
async def test_a_crash_is_an_error_and_the_next_job_gets_another_process(job: Any, how: str) -> None:
    async with made() as pool:
        with pytest.raises(WorkerFailed) as failed:
            await pool.ask(job)
        assert (failed.value.kind, str(failed.value)) == ("crash", how)
        assert await pool.ask(("echo", "good")) == "good"


async def test_an_answer_that_cannot_be_decoded_counts_as_a_crash() -> None:
    async with WorkerPool(FUNCTION, int, count=1) as pool:
        with pytest.raises(WorkerFailed) as failed:
            await pool.ask(("echo", "no number"))
        assert failed.value.kind == "crash"
        assert pool.pids == frozenset()
        assert await pool.ask(("echo", "7")) == 7


async def test_a_process_that_was_killed_is_replaced(pool: WorkerPool[str]) -> None:
    pid = int(await pool.ask(("pid",)))
    os.kill(pid, signal.SIGKILL)
    await until(lambda: pid not in pool.pids)  # Its last thread is gone, and so is its end of the pipe.
    assert int(await pool.ask(("pid",))) != pid


@pytest.mark.skipif(sys.platform != "linux", reason="no other system limits the memory of a process")
async def test_a_job_gets_no_more_memory_than_allowed() -> None:
    async with made(limits=WorkerLimits(seconds=LONG, memory=2**30)) as pool:
        assert await pool.ask(("grow", 1000)) == "1000"
        (pid,) = pool.pids
        assert await pool.ask(("grow", 1 << 40)) == "too much"
        # It said that this was its last answer.
        assert pool.pids == frozenset()
        assert int(await pool.ask(("pid",))) != pid


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
async def test_a_process_that_has_grown_is_replaced() -> None:
    async with made(limits=WorkerLimits(seconds=LONG, memory=400 * 2**20)) as pool:
        assert await pool.ask(("echo", "small")) == "small"
        assert len(pool.pids) == 1
        assert await pool.ask(("hold", 220 * 2**20)) == "held"
        assert pool.pids == frozenset()


async def test_a_process_is_replaced_after_so_many_jobs() -> None:
    async with made(limits=WorkerLimits(seconds=LONG, jobs=2)) as pool:
        first = await pool.ask(("pid",))
        assert await pool.ask(("pid",)) == first
        assert pool.pids == frozenset()
        assert await pool.ask(("pid",)) != first


async def test_an_idle_process_ends_and_the_next_job_gets_another() -> None:
    async with made(limits=WorkerLimits(seconds=LONG, idle=0.3)) as pool:
        pid = int(await pool.ask(("pid",)))
        await ended(pid)
        assert int(await pool.ask(("pid",))) != pid


async def test_a_process_is_warmed_up_before_its_first_job() -> None:
    async with made(limits=WorkerLimits(warm_up="tests._kit.answering:warm_up", nice=3)) as pool:
        assert await pool.ask(("warm",)) == "warm"
        assert int(await pool.ask(("nice",))) == os.nice(0) + 3


async def test_a_child_imports_nothing_that_it_does_not_need(pool: WorkerPool[str]) -> None:
    measured = any(name.startswith("COVERAGE_PROCESS") for name in os.environ)  # Which imports sqlite3 itself.
    needless = ("mcp", "pydantic", "anyio", "asyncio", "httpx2", "ssl", *(() if measured else ("sqlite3",)))
    assert await pool.ask(("modules", *needless)) == ""


@pytest.mark.parametrize("how", ["task", "scope"])
async def test_to_cancel_who_waits_ends_the_process(tmp_path: Path, how: str) -> None:
    async with made() as pool:
        if how == "task":
            task = asyncio.create_task(pool.ask(("note", str(tmp_path / "pid"))))
            pid = await noted(tmp_path / "pid")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            async with anyio.create_task_group() as group:
                group.start_soon(pool.ask, ("note", str(tmp_path / "pid")))
                pid = await noted(tmp_path / "pid")
                group.cancel_scope.cancel()
        assert not psutil.pid_exists(pid)
        assert pool.pids == frozenset()
        assert await pool.ask(("echo", "on")) == "on"


async def test_to_leave_ends_every_process_and_fails_what_is_under_way(tmp_path: Path) -> None:
    async with made(count=2) as pool:
        tasks = [asyncio.create_task(pool.ask(("note", str(tmp_path / name)))) for name in "ab"]
        pids = [await noted(tmp_path / name) for name in "ab"]
    assert not any(map(psutil.pid_exists, pids))
    for task in tasks:
        with pytest.raises(WorkerFailed) as failed:
            await task
        assert failed.value.kind == "stopped"


async def test_to_leave_while_a_process_starts_leaves_none_behind() -> None:
    async with made(command=(sys.executable, "-c", "import time; time.sleep(1_000)")) as pool:
        task = asyncio.create_task(pool.ask(("pid",)))
        await until(lambda: pool.pids)
        (pid,) = pool.pids
    with pytest.raises(WorkerFailed) as failed:
        await task
    assert failed.value.kind == "stopped"
    assert not psutil.pid_exists(pid)


async def test_only_who_has_entered_can_ask() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await made().ask(("pid",))


@pytest.mark.parametrize("command", [("no-such-program",), (sys.executable, "-c", "pass")])
async def test_a_process_that_does_not_start_is_an_error(command: tuple[str, ...]) -> None:
    async with made(command=command) as pool:
        for _ in range(2):
            with pytest.raises(WorkerFailed, match="start") as failed:
                await pool.ask(("pid",))
            assert failed.value.kind == "start"


def test_there_are_no_more_processes_than_cores_and_never_more_than_four(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cores() >= 1
    assert processes_for(1) == 1
    assert processes_for(100) == min(4, cores())
    assert 1 <= WorkerPool(FUNCTION, bytes.decode).count <= 4
    assert made(count=7).count == 7
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert processes_for(100) == 0
    assert WorkerPool(FUNCTION, bytes.decode).count == 1


def test_processes_end_when_the_one_that_started_them_is_killed() -> None:
    program = f"""
        import asyncio
        from tidings._kit.pool import WorkerPool
        async def main():
            async with WorkerPool({FUNCTION!r}, bytes.decode, count=1) as pool:
                print(await pool.ask(("pid",)), flush=True)
                await pool.ask(("sleep", 1_000))
        asyncio.run(main())
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
    finally:
        parent.kill()
        parent.communicate()
    child.wait(LONG)
