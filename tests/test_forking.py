"""A forked program is run as Python runs it."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.forking import PIPE, Forked, run

TELLING = """
import os, sys
print(__name__, *sys.argv[1:], os.getcwd(), os.environ["WHO"], sys.stdin.read())
print(any(name.split(".")[0] == "tidings" for name in sys.modules), file=sys.stderr)
sys.exit(5)
"""


def test_it_has_its_words_folder_environment_and_input_and_nothing_of_ours(tmp_path: Path) -> None:
    program = tmp_path / "telling.py"
    program.write_text(TELLING)
    ended = run(str(program), "one", "two", given="given", cwd=tmp_path, env={"WHO": "Ada"})
    assert ended.stdout == f"__main__ one two {tmp_path} Ada given\n"
    assert (ended.stderr, ended.returncode) == ("False\n", 5)


def test_an_error_ends_it_with_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text("import nothing_of_the_kind")
    ended = run("-m", "failing", cwd=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.endswith("No module named 'nothing_of_the_kind'\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_reaches_it_and_is_told_as_its_end(number: signal.Signals, tmp_path: Path) -> None:
    program = tmp_path / "waiting.py"
    program.write_text("import os, signal; print(os.getpid(), flush=True); signal.pause()")
    process = Forked(str(program), stdout=PIPE)
    try:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(number)
        assert process.wait(20) == -number
        process.send_signal(number)  # It is gone, and nobody else gets it.
    finally:
        process.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
