"""`tidings tui` as a person runs it: in a terminal, against a real server that it starts, until q."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.inspector.tui.terminal import PATIENCE, TIDINGS, Terminal
from tidings._kit.lazy import install_command

WEATHER = Path(__file__).with_name("weather.py")
LEAVES_THE_OTHER_SCREEN = b"\x1b[?1049l"
SHOWS_THE_CURSOR = b"\x1b[?25h"


@pytest.fixture
def number(tmp_path: Path) -> Path:
    return tmp_path / "pid"


@pytest.fixture
def terminal(tmp_path: Path, number: Path) -> Iterator[Terminal]:
    server = shlex.join([sys.executable, str(WEATHER), str(number)])
    home = {name: str(tmp_path) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")}
    opened = Terminal(*TIDINGS, "tui", server, env=home)
    yield opened
    opened.close()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until_gone(pid: int) -> None:
    end = time.monotonic() + PATIENCE
    while is_alive(pid):
        assert time.monotonic() < end, f"{pid} still runs"
        os.sched_yield()


def test_it_shows_a_server_and_q_ends_both(terminal: Terminal, number: Path) -> None:
    terminal.wait_for("connected, answered")
    terminal.type("2")
    terminal.wait_for("Make Oslo warm")
    terminal.type("q")

    assert terminal.wait() == 0
    assert LEAVES_THE_OTHER_SCREEN in terminal.raw
    assert SHOWS_THE_CURSOR in terminal.raw.rpartition(LEAVES_THE_OTHER_SCREEN)[0] + terminal.raw[-200:]
    assert "Traceback" not in terminal.text
    wait_until_gone(int(number.read_text()))


def test_a_killed_server_is_shown_and_comes_back(terminal: Terminal, number: Path) -> None:
    terminal.wait_for("connected, answered")
    first = int(number.read_text())
    before = len(terminal.raw)
    os.kill(first, 9)
    # Both may be written before anything is read here: what counts is that one comes after the other.
    terminal.wait_for("lost", "connected, answered", since=before)
    assert int(number.read_text()) != first
    terminal.type("q")
    assert terminal.wait() == 0


def test_the_terminal_is_as_it_was_afterwards(terminal: Terminal) -> None:
    terminal.wait_for("Tidings")
    terminal.type("q")
    modes = list(terminal.modes)
    while terminal.read(0.05) and terminal.settings() != modes:
        pass
    assert terminal.settings() == modes
    assert terminal.wait() == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nonesuch"], "'nonesuch' is not a known server or program."),
        (["ftp://host/mcp"], "which MCP does not use"),
        ([""], "The target is empty"),
    ],
)
def test_a_target_that_is_none_is_one_sentence_before_anything_is_drawn(
    words: list[str], said: str, tmp_path: Path
) -> None:
    ended = subprocess.run(
        [*TIDINGS, "tui", *words],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "HOME": str(tmp_path)},
        check=False,
    )
    assert ended.returncode == 2
    assert said in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert ended.stdout == ""


def test_without_a_terminal_it_names_the_commands_for_scripts(tmp_path: Path) -> None:
    ended = subprocess.run(
        [*TIDINGS, "tui"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60,
        env={**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}, check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "tidings list" in ended.stderr


def test_without_textual_it_says_how_to_install_it() -> None:
    program = (
        "import sys, importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'textual' else real(name, *rest)\n"
        "from tidings.cli.main import main; main(['tui'])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert install_command("inspector") in ended.stderr


def test_other_commands_do_without_it() -> None:
    program = (
        "import sys; from tidings.cli.main import load; load('list'); load('vault'); print('textual' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.strip() == "False"


@pytest.mark.parametrize("ignored", [False, True])
def test_it_ends_when_its_terminal_is_gone(ignored: bool, tmp_path: Path, number: Path) -> None:
    server = shlex.join([sys.executable, str(WEATHER), str(number)])
    home = {name: str(tmp_path) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")}
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    )
    words = (sys.executable, "-c", ignoring, *TIDINGS) if ignored else TIDINGS
    opened = Terminal(*words, "tui", server, env=home)
    opened.wait_for("connected, answered")
    os.close(opened._fd)  # The window is closed.
    end = time.monotonic() + PATIENCE
    while os.waitpid(opened.pid, os.WNOHANG)[0] == 0:
        assert time.monotonic() < end, "it lives on"
        time.sleep(0.05)
    wait_until_gone(int(number.read_text()))


def test_a_terminal_that_cannot_draw_is_told_so() -> None:
    opened = Terminal(*TIDINGS, "tui", env={"TERM": "dumb"})
    opened.wait_for("TERM is dumb")
    assert opened.wait() == 2
    opened.close()
