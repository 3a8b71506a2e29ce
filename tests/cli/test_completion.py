"""Completion in a shell: commands, options, servers of the catalog, and what a server has."""

import json
import os
import pty
import select
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.running import PROGRAM, WITHIN, environment, odd, tidings


def completed(words: list[str], incomplete: str, **env: str) -> list[str]:
    """Returns the offers of bash after these words."""
    line = " ".join(["tidings", *map(shlex.quote, words), incomplete])
    run = subprocess.run(
        PROGRAM,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(_TIDINGS_COMPLETE="bash_complete", COMP_LINE=line, **env),
    )
    assert run.stderr == ""
    return [line.partition(",")[2] for line in run.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("shell", "words"), [("bash", "complete -o nosort"), ("zsh", "#compdef tidings"), ("fish", "complete --no-files")]
)
def test_each_shell_gets_its_script(shell: str, words: str) -> None:
    done = tidings("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert words in done.out


@pytest.mark.parametrize(
    ("shell", "place"),
    [
        ("bash", "bash-completion/completions/tidings"),
        ("zsh", "zsh/site-functions/_tidings"),
        ("fish", "fish/completions/tidings.fish"),
    ],
)
def test_it_is_installed_where_the_shell_looks(shell: str, place: str, tmp_path: Path) -> None:
    here = str(tmp_path)
    done = tidings("completion", shell, "--install", HOME=here, XDG_DATA_HOME=here, XDG_CONFIG_HOME=here)
    assert done.code == 0
    assert "_TIDINGS_COMPLETE" in (tmp_path / place).read_text()
    assert str(tmp_path / place) in done.err


def pressed(home: Path, typed: str, until: str) -> str:
    """Returns the screen of a new bash in which this is typed."""
    bin_ = home / "bin"
    bin_.mkdir(exist_ok=True)
    (bin_ / "tidings").write_text(f'#!/bin/sh\nexec {shlex.join(PROGRAM)} "$@"\n')
    (bin_ / "tidings").chmod(0o755)
    env = environment(HOME=str(home), PATH=f"{bin_}:{os.environ['PATH']}", TERM="dumb", PS1="$ ")
    del env["XDG_CONFIG_HOME"], env["XDG_CACHE_HOME"]
    master, slave = pty.openpty()
    process = subprocess.Popen(["bash", "-i"], stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True)
    os.close(slave)
    shown = b""
    try:
        os.write(master, typed.encode())
        ends_at = time.monotonic() + WITHIN
        while until.encode() not in shown and time.monotonic() < ends_at:
            if select.select([master], [], [], 1)[0]:
                shown += os.read(master, 65_536)
    finally:
        process.kill()
        process.wait()
        os.close(master)
    return shown.decode()


def installed(home: Path) -> str:
    env = environment(HOME=str(home))
    del env["XDG_CONFIG_HOME"], env["XDG_CACHE_HOME"]
    command = [*PROGRAM, "completion", "bash", "--install"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=env).stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_after_one_command_a_new_bash_completes(tmp_path: Path) -> None:
    bashrc = tmp_path / ".bashrc"
    bashrc.write_text("alias mine=true")
    said = installed(tmp_path)
    assert f"Added a line to {bashrc}" in said
    once = bashrc.read_text()
    assert once.startswith("alias mine=true\n[ ! -r ")
    assert "Added" not in installed(tmp_path)
    assert bashrc.read_text() == once
    assert "tidings doctor" in pressed(tmp_path, "tidings doc\t", "tidings doctor")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_where_bash_looks_by_itself_nothing_of_the_users_is_changed(tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("BASH_COMPLETION_VERSINFO=(2 11)\n")
    assert "Added" not in installed(tmp_path)
    assert (tmp_path / ".bashrc").read_text() == "BASH_COMPLETION_VERSINFO=(2 11)\n"


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_program_that_bashrc_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    (tmp_path / ".bashrc").write_text(f"BASH_COMPLETION_VERSINFO=(2 11)\nsleep 60 & echo $! >{shlex.quote(str(pid))}\n")
    try:
        assert "Added" not in installed(tmp_path)
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


def test_the_own_shell_is_the_default(tmp_path: Path) -> None:
    assert "complete --no-files" in tidings("completion", SHELL="/usr/bin/fish").out
    assert tidings("completion", SHELL="/usr/bin/tcsh").code == 2
    blocked = tmp_path / "file"
    blocked.touch()
    done = tidings("completion", "bash", "--install", HOME=str(tmp_path), XDG_DATA_HOME=str(blocked))
    assert (done.code, "Cannot write" in done.err) == (2, True)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_script_is_one_that_bash_takes() -> None:
    subprocess.run(["bash", "-n"], input=tidings("completion", "bash").out, text=True, check=True)


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_is_offered_all_of_what_has_a_comma_in_it(tmp_path: Path) -> None:
    script = tmp_path / "tidings.fish"
    script.write_text(tidings("completion", "fish").out)
    (tmp_path / "tidings").write_text("#!/bin/sh\nprintf 'plain,note://a,b\\tOne, and two\\n'\n")
    (tmp_path / "tidings").chmod(0o755)
    run = subprocess.run(
        ["fish", "--no-config", "-c", f"source {script}; complete -C 'tidings read x '"],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(PATH=f"{tmp_path}:{os.environ['PATH']}", HOME=str(tmp_path)),
        check=True,
    )
    assert run.stdout == "note://a,b\tOne, and two\n"


def test_the_script_for_fish_parts_only_what_stands_before_the_first_comma() -> None:
    assert 'string split --max 1 ","' in tidings("completion", "fish").out


def test_targets_and_sessions_are_completed_where_the_inspector_takes_them(tmp_path: Path) -> None:
    (tmp_path / "tidings").mkdir()
    (tmp_path / "tidings/servers.json").write_text('{"mcpServers": {"weather": {"url": "http://127.0.0.1:9/mcp"}}}')
    assert completed(["inspect"], "we", XDG_CONFIG_HOME=str(tmp_path)) == ["weather"]
    assert completed(["mock"], "sess") == ["sess"]  # A file: the shell knows which there are.


def test_commands_and_options_are_completed() -> None:
    assert completed([], "wa") == ["watch"]
    assert completed(["read"], "--out") == ["--output"]
    assert completed(["list", odd()], "re") == ["resources"]


def test_servers_of_the_catalog_are_completed(tmp_path: Path) -> None:
    (tmp_path / "tidings").mkdir()
    servers = {"weather": {"url": "http://127.0.0.1:9/mcp"}, "notes": {"command": "notes"}}
    (tmp_path / "tidings/servers.json").write_text(json.dumps({"mcpServers": servers}))
    assert completed(["list"], "we", XDG_CONFIG_HOME=str(tmp_path)) == ["weather"]


@pytest.mark.parametrize(
    ("words", "incomplete", "names"),
    [
        (["call", odd()], "d", ["draw", "die"]),
        (["read", odd()], "note", ["note://one", "note://two"]),
        (["prompt", odd()], "", ["ask", "talk"]),
        (["call", "http://127.0.0.1:9/mcp"], "", []),
        (["call", odd("silent")], "", []),
        (["call", odd("dies")], "", []),
    ],
)
def test_what_the_server_has_is_completed_quietly(
    words: list[str], incomplete: str, names: list[str], tmp_path: Path
) -> None:
    assert completed(words, incomplete, XDG_CACHE_HOME=str(tmp_path)) == names


def test_names_are_remembered_for_a_while(tmp_path: Path) -> None:
    server = tmp_path / "odd.py"
    shutil.copy(Path(__file__).with_name("odd.py"), server)
    target = odd().replace(str(Path(__file__).with_name("odd.py")), str(server))
    assert completed(["call", target], "ad", XDG_CACHE_HOME=str(tmp_path)) == ["add"]
    server.unlink()
    assert completed(["call", target], "ad", XDG_CACHE_HOME=str(tmp_path)) == ["add"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("note://o", ["//one"]),
        ("bin:", ["//a\\ dot", "//dot"]),
        ("'bin://a", ["bin://a dot"]),
        ('"note://', ["note://one", "note://two"]),
        ("x", []),
    ],
)
def test_bash_is_offered_what_it_puts_in_the_place_of_what_it_takes_for_the_word(
    typed: str, offered: list[str], tmp_path: Path
) -> None:
    program = tmp_path / "tidings"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(PROGRAM)} "$@"\n')
    program.chmod(0o755)
    line = f"tidings read '{odd('spaced')}' {typed}"
    script = f"""{tidings("completion", "bash").out}
        COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)}
        _tidings_completion {program}
        printf '%s\\n' "${{COMPREPLY[@]}}" """
    run = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=60, env=environment(), check=False
    )
    assert run.stderr == ""
    assert sorted(filter(None, run.stdout.splitlines())) == offered
