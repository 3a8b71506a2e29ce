"""`tidings demo` from beginning to end, with real processes; and that nothing is left of it."""

import asyncio
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from tests.demo.showing import COMMAND, are_gone, environment, shown, until
from tidings._kit.lazy import install_command
from tidings.cli import demo as demo_command
from tidings.cli.main import main
from tidings.demo.sample import StageFailed
from tidings.demo.show import show
from tidings.inspector.http.gate import Key


def test_where_nobody_can_type_each_step_is_done_seen_and_timed_and_nothing_is_left(tmp_path: Path) -> None:
    with shown(tmp_path) as demo:
        demo.expect(r"^http://127\.0\.0\.1:\d+/#token=\S{40,}$")
        demo.expect(r"There is no terminal, so the tour runs by itself")
        demo.expect(r"1 Edit a note: fresh in .* 2 lines added, 1 removed")
        demo.expect(r"file saved → notified \(.*\) → received \(.*\) → fresh copy \(.*\)")
        demo.expect(r"2 Wake an agent: the agent says: “New in Flour: Two sacks of rye are left, not five”")
        demo.expect(r"file saved → agent continues \(.*\)")
        demo.expect(r"3 Ask a tool: search answered in .*: \d+ notes")
        processes = demo.processes()
        demo.expect(r"4 Change a web page: fresh in .* 4 lines added, 4 removed")
        demo.expect(r"\+ The ferry was here")
        demo.expect(r"vault +is lost; reconnecting")
        demo.expect(r"vault +is connected again")
        demo.expect(r"5 Kill the server: everything is back after .* with what was written meanwhile")
        demo.expect(r"tidings install vault ~/Notes")
        assert demo.process.wait(30) == 0
        assert processes
        assert are_gone(processes)
        assert demo.left() == []


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGINT, marks=pytest.mark.thorough),
        pytest.param(signal.SIGHUP, marks=pytest.mark.thorough),
    ],
)
def test_a_signal_ends_all_of_it(tmp_path: Path, number: int) -> None:
    with shown(tmp_path, "--for", "600") as demo:
        demo.expect(r"vault +Shop/Orders\.md +fresh in")  # All is up.
        processes = demo.processes()
        assert len(processes) >= 2
        demo.process.send_signal(number)
        assert demo.process.wait(30) == 0
        until(lambda: are_gone(processes))
        assert demo.left() == []


def test_a_signal_while_it_starts_ends_all_of_it(tmp_path: Path) -> None:
    with shown(tmp_path, "--for", "600") as demo:
        demo.expect(r"6  Use it")  # The servers were started, and do not listen yet.
        processes = demo.processes()
        demo.process.send_signal(signal.SIGTERM)
        assert demo.process.wait(30) == 0
        until(lambda: are_gone(processes))
        assert demo.left() == []


def test_nothing_of_it_outlives_it_even_if_it_is_killed(tmp_path: Path) -> None:
    with shown(tmp_path, "--for", "600") as demo:
        demo.expect(r"vault +Shop/Orders\.md +fresh in")
        processes = demo.processes()
        demo.process.kill()
        until(lambda: are_gone(processes))
        assert demo.left() == []


@pytest.mark.thorough
def test_what_is_done_by_hand_counts_and_a_killed_server_comes_back_with_what_it_missed(tmp_path: Path) -> None:
    with shown(tmp_path, "--for", "600") as demo:
        demo.expect(r"vault +Shop/Orders\.md +fresh in")
        demo.plan.write_text(demo.plan.read_text() + "Something else entirely.\n")
        demo.expect(r"1 Edit a note: fresh in")
        demo.expect(r"\+ Something else entirely\.")
        before = demo.vault
        before.kill()
        demo.expect(r"5 Kill the server: everything is back after")
        demo.expect(r"\+ - \[ \] Written while the server was away \(1\)")
        assert demo.vault.pid != before.pid
        assert "Written while the server was away (1)" in demo.plan.read_text()
        # The wait of the agent has outlived the server.
        flour = demo.plan.parents[1] / "Shop/Flour.md"
        flour.write_text(flour.read_text().replace("# Flour\n", "# Flour\n\nBuy *more* of it.\n"))
        demo.expect(r"2 Wake an agent: the agent says: “New in Flour: Buy \*more\* of it\.”")


def test_in_a_terminal_it_waits_and_ticks_off_what_is_done_by_hand(tmp_path: Path) -> None:
    with shown(tmp_path, typed=True) as demo:
        demo.expect(r"Open the URL above in a browser \(it works once\), and take these steps\. Ctrl-C ends the demo\.")
        demo.expect(r"1  Edit a note +edit and save \S+Launch plan\.md")
        demo.expect(r"2  Wake an agent +edit and save \S+Flour\.md: the agent says here what is new")
        demo.expect(r"vault +Shop/Orders\.md +fresh in")
        demo.plan.write_text(demo.plan.read_text() + "One more line.\n")
        demo.expect(r"✓ 1 Edit a note: fresh in")
        demo.process.send_signal(signal.SIGINT)
        assert demo.process.wait(30) == 0
        assert demo.left() == []


def test_it_ends_when_its_time_is_over(tmp_path: Path) -> None:
    with shown(tmp_path, "--for", "0.5") as demo:
        assert demo.process.wait(30) == 0
        assert demo.left() == []


def test_a_reader_who_goes_away_ends_it(tmp_path: Path) -> None:
    command = subprocess.list2cmdline([*COMMAND, "--for", "600"])
    run = subprocess.run(
        ["/bin/sh", "-c", f"{command} | head -n 1"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in run.stderr
    until(lambda: not any(str(tmp_path) in " ".join(_words(each)) for each in psutil.process_iter()))
    until(lambda: list((tmp_path / "tmp").iterdir()) == [])


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


# What it refuses.


def test_a_port_that_is_in_use_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(main, ["demo", "--port", str(port)])
    assert result.exit_code == 2
    assert f"Port {port} of 127.0.0.1 is in use. Choose another with --port" in result.output


def test_missing_packages_are_told_with_the_command_that_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        demo_command, "not_installed", lambda names: [name for name in names if name in ("lxml", "watchfiles")]
    )
    result = CliRunner().invoke(main, ["demo"])
    assert result.exit_code == 2
    assert f"The demo needs more packages (watchfiles, lxml): {install_command('vault,web')}" in result.output


def test_without_a_folder_to_write_to_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    told = pytest.raises(StageFailed, match=r"temporary folder: Permission denied\. Set TMPDIR to a folder")
    with socket.create_server(("127.0.0.1", 0)) as listening, told:
        asyncio.run(show(listening=listening, key=Key(1), say=lambda _: None))


# What nobody foresaw.


@pytest.fixture
def nobody_types(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The command ends as it does, but for the process; what it writes is below `tmp_path`."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(demo_command.os, "_exit", sys.exit)


async def _break(*_: object, **__: object) -> None:
    raise LookupError("nobody foresaw this")


@pytest.mark.usefixtures("nobody_types")
@pytest.mark.parametrize(
    "what",
    [
        "tidings.demo.servers.ServerProcess.run",  # A task of the demo.
        "tidings.demo.show.Serving.run",  # The page.
        "tidings.inspector.session.Session.__aenter__",  # The session, without which there is no tour.
    ],
)
def test_what_nobody_foresaw_is_no_mistake_of_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str
) -> None:
    monkeypatch.setattr(what, _break)
    result = CliRunner().invoke(main, ["demo", "--no-browser", "--port", "0"])
    assert result.exit_code == 70
    assert "nobody foresaw this" in result.stderr
    assert "please report it" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("nobody_types")
def test_what_can_happen_is_told_and_is_no_fault_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> None:
        raise StageFailed("The vault server could not be started.")

    monkeypatch.setattr("tidings.demo.servers.ServerProcess.run", never)
    result = CliRunner().invoke(main, ["demo", "--no-browser", "--port", "0"])
    assert result.exit_code == 2
    assert result.stderr == "Error: The vault server could not be started.\n"


def test_a_page_that_was_not_built_is_told_and_the_terminal_goes_on() -> None:
    assert "make ui" in demo_command._welcome(built=False, automatic=False, on_screen=False)
    assert "opens in your browser" in demo_command._welcome(built=True, automatic=False, on_screen=True)
