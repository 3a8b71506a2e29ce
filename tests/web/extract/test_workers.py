"""Extraction in processes that can be killed."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import psutil
import pytest

from tidings.web.extract.dispatch import Extracted, ExtractionFailed, ExtractOptions, Unsupported
from tidings.web.extract.html.selectors import BadSelector
from tidings.web.extract.pool import ExtractionPool
from tidings.web.extract.process import COMMAND, Worker

pytestmark = pytest.mark.anyio

URL = "https://harbour.example/"
PAGE = b"<p>Hello there"
LONG = 60.0
"""Seconds that nothing takes, on however busy a machine."""


@pytest.fixture
async def workers() -> AsyncIterator[ExtractionPool]:
    async with ExtractionPool(count=2, timeout=LONG) as workers:
        yield workers


async def hello(workers: ExtractionPool) -> Extracted:
    found = await workers.extract(PAGE, "text/html", URL)
    assert found.text == "Hello there"
    return found


async def ended(workers: ExtractionPool) -> None:
    """Until all processes that there are have ended by themselves."""
    with anyio.fail_after(LONG):
        for worker in tuple(workers._all):
            await worker._process.wait()


class Watch:
    """Tells when so many jobs have been given to processes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, method: str, number: int = 1) -> None:
        self.pids: list[int] = []
        self._reached = anyio.Event()
        original = getattr(Worker, method)

        async def watched(worker: Worker, *arguments: object) -> object:
            self.pids.append(worker.pid)
            if len(self.pids) == number:
                self._reached.set()
            return await original(worker, *arguments)

        monkeypatch.setattr(Worker, method, watched)

    async def reached(self) -> None:
        with anyio.fail_after(LONG):
            await self._reached.wait()


def stand_in(tmp_path: Path, answer: str) -> tuple[str, ...]:
    """A worker that does something else with each job. It has `body`, `say`, `os`, `sys` and `time`."""
    program = f"""
        import os, pickle, sys, time
        from tidings.web.extract.dispatch import Extracted
        from tidings.web.extract.frames import framed, read_frame, written_answer
        target = sys.stdout.buffer
        def say(content):
            target.write(framed(content))
            target.flush()
        def found(text):
            say(written_answer(Extracted("a", "b", text, text), last=False))
        say(b"ready")
        while True:
            body = pickle.loads(read_frame(sys.stdin.buffer))[0]
            {answer}
    """
    file = tmp_path / "stand_in.py"
    file.write_text(textwrap.dedent(program))
    return (sys.executable, "-P", str(file))


async def test_a_page_is_read_in_another_process_which_stays_warm(workers: ExtractionPool) -> None:
    assert workers.pids == frozenset()
    await hello(workers)
    (pid,) = workers.pids
    assert pid != os.getpid()
    await hello(workers)
    assert workers.pids == {pid}


async def test_as_many_pages_at_once_as_there_are_processes(workers: ExtractionPool) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(hello, workers)
    assert 1 <= len(workers.pids) <= 2


async def test_errors_come_as_what_they_are(workers: ExtractionPool) -> None:
    with pytest.raises(Unsupported, match="video/mp4"):
        await workers.extract(b"", "video/mp4", URL)
    with pytest.raises(BadSelector, match="a:b"):
        await workers.extract(PAGE, "text/html", URL, ExtractOptions(remove_selectors=("a:b",)))
    with pytest.raises(ExtractionFailed, match="entities"):
        await workers.extract(b"<!DOCTYPE a [<!ENTITY a '&b;'>]><a/>", "text/xml", URL)
    assert len(workers.pids) == 1


async def test_what_is_large_passes_whole(workers: ExtractionPool) -> None:
    line = "Wörter und mehr. " * 50 + "\n"
    found = await workers.extract((line * 1_500).encode(), "text/plain", URL)
    assert found.text == (line * 1_500).rstrip()


async def test_a_job_that_takes_too_long_is_ended_and_the_next_is_read(tmp_path: Path) -> None:
    command = stand_in(tmp_path, "time.sleep(1_000) if body == b'slow' else found(body.decode())")
    async with ExtractionPool(count=1, timeout=0.2, command=command) as workers:
        with pytest.raises(ExtractionFailed, match=r"longer than 0\.2 s") as refused:
            await workers.extract(b"slow", "text/html", URL)
        assert refused.value.kind == "timeout"
        assert workers.pids == frozenset()
    async with ExtractionPool(count=1, timeout=LONG, command=command) as workers:
        assert (await workers.extract(b"quick", "text/html", URL)).text == "quick"


async def test_a_job_that_waits_too_long_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Watch(monkeypatch, "ask")
    command = stand_in(tmp_path, "time.sleep(1_000)")
    async with (
        ExtractionPool(count=1, timeout=LONG, wait=0.05, command=command) as workers,
        anyio.create_task_group() as group,
    ):
        group.start_soon(workers.extract, b"slow", "text/html", URL)
        await asked.reached()
        with pytest.raises(ExtractionFailed, match="busy") as refused:
            await workers.extract(PAGE, "text/html", URL)
        assert refused.value.kind == "busy"
        group.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("answer", "how"),
    [
        ("os.abort()", "signal 6"),
        ("os._exit(3)", "exit code 3"),
        ("os._exit(0)", "exit code 0"),
        ("say(b'no answer')", "signal 9"),
        ("(target.write(b'\\xff' * 8), target.flush())", "signal 9"),
    ],
)
async def test_a_crash_is_an_error_and_the_next_job_gets_another_process(tmp_path: Path, answer: str, how: str) -> None:
    command = stand_in(tmp_path, f"({answer}) if body == b'bad' else found(body.decode())")
    async with ExtractionPool(count=1, timeout=LONG, command=command) as workers:
        with pytest.raises(ExtractionFailed, match=how) as refused:
            await workers.extract(b"bad", "text/html", URL)
        assert refused.value.kind == "crash"
        assert (await workers.extract(b"good", "text/html", URL)).text == "good"


async def test_a_process_that_somebody_killed_is_replaced(workers: ExtractionPool) -> None:
    await hello(workers)
    (pid,) = workers.pids
    os.kill(pid, signal.SIGKILL)
    await ended(workers)
    await hello(workers)
    assert pid not in workers.pids


@pytest.mark.skipif(sys.platform != "linux", reason="no other system limits the memory of a process")
async def test_a_job_that_takes_too_much_memory_is_ended(tmp_path: Path) -> None:
    program = tmp_path / "hungry.py"
    program.write_text(
        textwrap.dedent("""
            import sys
            from tidings.web.extract.dispatch import worker
            worker.extract = lambda *_: bytearray(1 << 40)
            worker.main(sys.argv[1:])
        """)
    )
    async with ExtractionPool(count=1, timeout=LONG, command=(sys.executable, "-P", str(program))) as workers:
        with pytest.raises(ExtractionFailed, match="memory") as refused:
            await workers.extract(b"hungry", "text/html", URL)
        assert refused.value.kind == "memory"
        assert workers.pids == frozenset()


async def test_a_process_is_replaced_after_so_many_jobs() -> None:
    async with ExtractionPool(count=1, timeout=LONG, jobs=2) as workers:
        await hello(workers)
        first = workers.pids
        await hello(workers)
        assert workers.pids == frozenset()
        await hello(workers)
        assert workers.pids != first


async def test_an_idle_process_ends_and_the_next_job_gets_another() -> None:
    async with ExtractionPool(count=1, timeout=LONG, idle=0.5) as workers:
        await hello(workers)
        await ended(workers)
        await hello(workers)


async def test_to_leave_in_the_moment_of_a_job_is_no_crash(tmp_path: Path) -> None:
    """It answers once, and leaves as an idle one does when the second job comes; the next one answers."""
    once = tmp_path / "once"
    once.touch()
    leave = f"(os.remove({str(once)!r}), os._exit(75))"
    command = stand_in(
        tmp_path, f"{leave} if body == b'two' and os.path.exists({str(once)!r}) else found(body.decode())"
    )
    async with ExtractionPool(count=1, timeout=LONG, command=command) as workers:
        assert (await workers.extract(b"one", "text/html", URL)).text == "one"
        assert (await workers.extract(b"two", "text/html", URL)).text == "two"


async def test_one_after_the_other_that_leaves_is_a_crash(tmp_path: Path) -> None:
    async with ExtractionPool(count=1, timeout=LONG, command=stand_in(tmp_path, "os._exit(75)")) as workers:
        with pytest.raises(ExtractionFailed, match="exit code 75"):
            await workers.extract(PAGE, "text/html", URL)


async def test_cancelling_who_waits_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Watch(monkeypatch, "ask")
    async with ExtractionPool(count=1, timeout=LONG, command=stand_in(tmp_path, "time.sleep(1_000)")) as workers:
        async with anyio.create_task_group() as group:
            group.start_soon(workers.extract, b"slow", "text/html", URL)
            await asked.reached()
            group.cancel_scope.cancel()
        assert workers.pids == frozenset()
        assert not psutil.pid_exists(asked.pids[0])


async def test_a_process_that_does_not_even_listen_is_ended() -> None:
    program = "import sys, time; sys.stdout.buffer.write(bytes(7) + b'\\1!'); sys.stdout.flush(); time.sleep(1_000)"
    async with ExtractionPool(count=1, timeout=0.2, command=(sys.executable, "-c", program)) as workers:
        with pytest.raises(ExtractionFailed, match="longer"):
            await workers.extract(b"x" * 5_000_000, "text/html", URL)
        assert workers.pids == frozenset()


async def test_leaving_ends_every_process_and_fails_what_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Watch(monkeypatch, "ask", 2)
    errors: list[ExtractionFailed] = []

    async def slow(workers: ExtractionPool) -> None:
        try:
            await workers.extract(b"slow", "text/html", URL)
        except ExtractionFailed as error:
            errors.append(error)

    async with anyio.create_task_group() as group:
        async with ExtractionPool(count=2, timeout=LONG, command=stand_in(tmp_path, "time.sleep(1_000)")) as workers:
            for _ in range(2):
                group.start_soon(slow, workers)
            await asked.reached()
        assert not any(map(psutil.pid_exists, asked.pids))
    assert [error.kind for error in errors] == ["stopped", "stopped"]


async def test_leaving_while_a_process_starts_leaves_none_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = Watch(monkeypatch, "_frame")
    errors: list[str] = []

    async def ask(workers: ExtractionPool) -> None:
        try:
            await hello(workers)
        except ExtractionFailed as error:
            errors.append(error.kind)

    async with anyio.create_task_group() as group, ExtractionPool(count=1, timeout=LONG) as workers:
        group.start_soon(ask, workers)
        await begun.reached()
    assert errors == ["stopped"]
    assert not psutil.pid_exists(begun.pids[0])


async def test_only_who_has_entered_can_ask() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await ExtractionPool().extract(PAGE, "text/html", URL)


@pytest.mark.parametrize("command", [("no-such-program",), (sys.executable, "-c", "pass")])
async def test_a_process_that_does_not_start_is_an_error(command: tuple[str, ...]) -> None:
    async with ExtractionPool(count=1, command=command) as workers:
        for _ in range(2):
            with pytest.raises(ExtractionFailed, match="start") as refused:
                await workers.extract(PAGE, "text/html", URL)
            assert refused.value.kind == "crash"


async def test_cancelling_a_start_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = Watch(monkeypatch, "_frame")
    command = (sys.executable, "-c", "import time; time.sleep(1_000)")
    async with ExtractionPool(count=1, command=command) as workers, anyio.create_task_group() as group:
        group.start_soon(workers.extract, PAGE, "text/html", URL)
        await begun.reached()
        group.cancel_scope.cancel()
    assert not psutil.pid_exists(begun.pids[0])


async def test_there_are_no_more_processes_than_cores_and_never_more_than_four() -> None:
    assert 1 <= ExtractionPool().count <= 4
    assert ExtractionPool(count=7).count == 7


def test_processes_end_when_the_server_is_killed() -> None:
    """Its end is the end of their input, in the midst of a job too."""
    program = """
        import anyio
        from tidings.web.extract.pool import Workers
        async def main():
            async with Workers(count=1) as workers:
                await workers.extract(b"<p>x", "text/html", "")
                print(*workers.pids, flush=True)
                await anyio.sleep_forever()
        anyio.run(main)
    """
    server = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        worker = psutil.Process(int(server.stdout.readline()))
    finally:
        server.kill()
        server.communicate()
    worker.wait(LONG)


def test_a_worker_imports_nothing_that_it_does_not_need() -> None:
    heavy = "{'mcp', 'pydantic', 'anyio', 'asyncio', 'httpx2', 'httpcore2', 'ssl', 'sqlite3', 'pypdfium2', 'h2'}"
    program = (
        f"import sys, tidings.web.extract.worker; print({heavy} & {{name.partition('.')[0] for name in sys.modules}})"
    )
    # Whoever measures coverage imports things of its own.
    bare = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    command = [sys.executable, "-P", "-c", program]
    printed = subprocess.run(command, env=bare, capture_output=True, text=True, check=True)
    assert printed.stdout == "set()\n"


def test_a_worker_that_nobody_ends_ends_itself() -> None:
    """Caught in C, with a server that has forgotten it: `seconds` and a grace are all it gets."""
    program = """
        import io, re, sys
        from queue import SimpleQueue
        from tidings.web.extract.dispatch import worker
        worker._GRACE = 0.0
        worker.answered = lambda job: re.match("(a+)+b", "a" * 60)
        jobs = SimpleQueue()
        jobs.put(None)
        worker.work(jobs, io.BytesIO(), memory=1 << 40, seconds=0.2, count=1, idle=1)
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], timeout=LONG, check=False)
    assert ended.returncode == 1


def test_the_command_takes_nothing_from_the_current_folder() -> None:
    assert "-P" in COMMAND
