"""The examples that go on until they are told to end."""

import signal
import subprocess
import sys

import pytest

from tests.examples.programs import EXAMPLES


def test_both_eras_shows_each_change_heard_by_both_clients() -> None:
    run = subprocess.run(
        [sys.executable, EXAMPLES / "both_eras.py", "2"], capture_output=True, text=True, timeout=60, check=True
    )
    assert run.stderr == ""
    changes = [line for line in run.stdout.splitlines() if "change " in line]
    assert len(changes) == 2
    assert all("modern era after" in line and "legacy era after" in line for line in changes)


def test_both_eras_ends_quietly_on_ctrl_c() -> None:
    with subprocess.Popen(
        [sys.executable, EXAMPLES / "both_eras.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        try:
            assert run.stdout is not None
            assert any("change   1" in line for line in run.stdout)
            run.send_signal(signal.SIGINT)
            _, errors = run.communicate(timeout=10)
        finally:
            run.kill()
    assert errors == ""


INTERRUPTED = """
import os, runpy, signal, sys, threading
path, seconds = sys.argv.pop(1), float(sys.argv.pop(1))
runpy.run_path(path)  # Imports all that it needs.
threading.Timer(seconds, os.kill, [os.getpid(), signal.SIGINT]).start()
runpy.run_path(path, run_name="__main__")
"""


@pytest.mark.parametrize(
    "seconds", [0.05, 0.3, *(pytest.param(each, marks=pytest.mark.thorough) for each in (0.02, 0.1, 0.15, 0.2, 0.5))]
)
def test_both_eras_ends_quietly_on_ctrl_c_while_it_starts(seconds: float) -> None:
    program = [sys.executable, "-c", INTERRUPTED, EXAMPLES / "both_eras.py", str(seconds)]
    run = subprocess.run(program, capture_output=True, text=True, timeout=30, check=False)
    assert run.stderr == ""
    assert len(run.stdout.splitlines()) < 10  # It did not go on.
