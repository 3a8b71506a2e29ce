"""A child process in a group of its own."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from tidings._kit.process import end_group, explain_start, signal_group
from tidings._kit.program import Program

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="there are no process groups")]

STUBBORN = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); "
LEAVES_A_CHILD = (
    "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE); "
    "child.stdout.readline(); print(child.pid, flush=True); sys.stdin.read()"
)
SLEEPS = "import time; print('up', flush=True); time.sleep(60)"


async def start(code: str, grace: float = 5.0) -> Program:
    return await Program.start([sys.executable, "-c", code], os.environ, grace=grace)


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def gone(pid: int) -> None:
    with anyio.fail_after(20):
        while runs(pid):  # noqa: ASYNC110 - the end of a foreign child cannot be awaited
            await asyncio.sleep(0.01)


async def test_a_program_that_ends_with_its_input_ends_in_good_order() -> None:
    program = await start("import sys; sys.stdout.write(sys.stdin.read().upper()); sys.exit(3)")
    program.stdin.write(b"hello")
    await program.stdin.drain()
    assert program.returncode is None
    assert os.getpgid(program.pid) == program.pid
    with anyio.fail_after(30):
        await program.stop()
    assert program.exited.is_set()
    assert program.returncode == 3
    assert await program.stdout.read() == b"HELLO"


async def test_a_program_that_goes_on_without_input_is_asked_to_end() -> None:
    program = await start(SLEEPS, grace=0.5)
    await program.stdout.readline()
    with anyio.fail_after(30):
        await program.stop()
    assert program.returncode == -signal.SIGTERM


async def test_a_program_that_does_not_listen_is_killed() -> None:
    program = await start(STUBBORN + "time.sleep(60)", grace=0.2)
    await program.stdout.readline()
    with anyio.fail_after(30):
        await program.stop()
    assert program.returncode == -signal.SIGKILL


@pytest.mark.parametrize("child", [SLEEPS, STUBBORN + "time.sleep(60)"], ids=["listens", "does not listen"])
async def test_a_child_that_is_left_behind_is_ended(child: str) -> None:
    program = await start(LEAVES_A_CHILD.format(child=child), grace=0.5)
    pid = int(await program.stdout.readline())
    assert runs(pid)
    with anyio.fail_after(30):
        await program.stop()
    assert program.returncode == 0
    await gone(pid)


async def test_a_stop_that_is_cancelled_kills_at_once() -> None:
    program = await start(LEAVES_A_CHILD.format(child=SLEEPS) + "; import time; time.sleep(60)", grace=20)
    pid = int(await program.stdout.readline())
    stopping = asyncio.create_task(program.stop())
    await anyio.wait_all_tasks_blocked()
    stopping.cancel()
    with anyio.fail_after(15), pytest.raises(asyncio.CancelledError):
        await stopping
    await gone(program.pid)
    await gone(pid)


def test_a_group_can_be_ended_without_an_event_loop() -> None:
    code = LEAVES_A_CHILD.format(child=STUBBORN + "time.sleep(60)")
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdin
        assert process.stdout
        pid = int(process.stdout.readline())
        process.stdin.close()
        process.wait(30)
    assert signal_group(process.pid, 0)
    end_group(process.pid, grace=0.2)
    anyio.run(gone, pid)
    assert not signal_group(2**22 + 1, 0)


async def explained(tmp_path: Path, program: str, cwd: str | None = None, env: dict[str, str] | None = None) -> str:
    environ = dict(os.environ) if env is None else env
    try:
        started = await Program.start([program], environ, cwd or str(tmp_path))
    except (OSError, ValueError) as error:
        return explain_start(program, cwd or str(tmp_path), environ, error)
    await started.stop()
    raise AssertionError("it could be started")


async def test_it_is_explained_why_a_program_cannot_start(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("hello")
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    nothing = tmp_path / "nothing"
    nothing.write_bytes(b"\0\1\2")
    nothing.chmod(0o755)

    assert "there is no directory" in await explained(tmp_path, "x", str(tmp_path / "missing"))
    assert "A URL is given as a string" in await explained(tmp_path, "https://example.org")
    assert "one text for each word: ['python', 'x.py']" in await explained(tmp_path, "python x.py")
    assert f"looked for in {tmp_path}" in await explained(tmp_path, "./missing")
    assert "Check the path." in await explained(tmp_path, "/no/such/file")
    assert "the first line of" in await explained(tmp_path, "./script")
    assert "is a directory. Name the program in it." in await explained(tmp_path, "./folder")
    assert "Make it executable" in await explained(tmp_path, "./text")
    assert "is not a program" in await explained(tmp_path, "./nothing")
    assert "embedded null byte. Correct the command" in await explained(tmp_path, "a\0b")


async def test_a_misspelt_program_is_recognised_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "weather-server").touch()
    env = {"PATH": f"/no/such/folder{os.pathsep}{tmp_path}"}
    text = await explained(tmp_path, "weather-sever", env=env)
    assert text == (
        "there is no program 'weather-sever'. Did you mean weather-server? Is it installed, and on the PATH of this "
        "process? A full path finds it in any case."
    )
    assert "Did you mean" not in await explained(tmp_path, "something-else", env=env)


def test_other_errors_are_passed_on() -> None:
    assert explain_start("x", None, {}, OSError(errno.EMFILE, "Too many open files")) == (
        "Too many open files. Try the same command in a terminal."
    )
