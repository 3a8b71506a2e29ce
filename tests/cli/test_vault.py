"""`tidings vault` as people and clients meet it: what it prints, what it refuses, and that it serves."""

import importlib.util
import json
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from click.testing import CliRunner, Result

import tidings
from tidings._kit.lazy import ROOT, install_command
from tidings.cli import client_config, vault
from tidings.cli.main import main

pytestmark = pytest.mark.anyio


def nothing(*_: Any) -> None:
    pass


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "My Notes"
    folder.mkdir()
    (folder / "A.md").write_text("hello\n")
    return folder


def tidings_vault(*args: object) -> Result:
    return CliRunner().invoke(main, ["vault", *map(str, args)], prog_name="tidings", env={"TIDINGS_TOKEN": None})


def refused(*args: object) -> str:
    """The one line that it says."""
    result = tidings_vault(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    return line


# Snippets


def test_a_snippet_is_all_that_is_printed_and_what_to_do_with_it_is_said_beside(notes: Path) -> None:
    result = tidings_vault(notes, "--config", "claude-desktop")
    assert result.exit_code == 0
    server = json.loads(result.stdout)["mcpServers"]["my-notes"]
    assert Path(server["command"]).is_absolute()
    assert server["args"] == ["vault", str(notes)]
    assert "claude_desktop_config.json" in result.stderr


def test_a_snippet_has_every_option_and_no_path_that_depends_on_where_it_is_used(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(notes.parent)
    options = ["--read-only", "--exclude", "*.tmp", "--exclude", "Private", "--bus", "memory:", "--cache", "cache"]
    result = tidings_vault("My Notes", *options, "--config", "vscode")
    server = json.loads(result.stdout)["servers"]["my-notes"]
    expected = ["vault", str(notes), *options[:-1], str(notes.parent / "cache")]
    assert server == {"type": "stdio", "command": server["command"], "args": expected}
    waking = tidings_vault(notes, "--channel", "--hints", "--config", "vscode")
    assert json.loads(waking.stdout)["servers"]["my-notes"]["args"] == ["vault", str(notes), "--hints", "--channel"]


def test_a_snippet_for_claude_code_is_a_command_that_starts_this_one(notes: Path) -> None:
    words = shlex.split(tidings_vault(notes, "--config", "claude-code").stdout)
    start = words.index("--") + 1
    assert subprocess.run([words[start], "--version"], capture_output=True, check=True).stdout.startswith(b"tidings ")
    assert words[start + 1 :] == ["vault", str(notes)]


def test_a_snippet_for_a_server_that_runs_has_its_address_and_token(notes: Path) -> None:
    result = tidings_vault("--http", notes, "--token", "s3cret", "--config", "cursor")
    assert json.loads(result.stdout)["mcpServers"]["my-notes"] == {
        "url": "http://127.0.0.1:8000/mcp",
        "headers": {"Authorization": "Bearer s3cret"},
    }
    assert "keep it secret" in result.stderr


def test_a_folder_below_home_is_found_where_no_shell_looks_for_it(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(notes.parent))
    printed = tidings_vault(f"~/{notes.name}", "--config", "claude-desktop").stdout
    assert str(notes) in json.loads(printed)["mcpServers"]["my-notes"]["args"]
    assert "There is no folder" in tidings_vault("~nobody/Notes").stderr


def test_a_snippet_that_would_not_work_is_refused(notes: Path) -> None:
    assert "Omit --http" in refused(notes, "--http", "--config", "claude-desktop")
    assert "There is no folder" in refused(notes / "nope", "--config", "cursor")
    (notes / "Work").mkdir()
    assert "one lies within the other" in refused(notes, notes / "Work", "--config", "cursor")
    assert "is a file" in refused(notes, "--cache", notes / "A.md", "--config", "cursor")
    assert "lies in the vault" in refused(notes, "--cache", notes / "cache", "--config", "cursor")
    assert "There is no bus" in refused(notes, "--bus", "kafka://host", "--config", "cursor")


def test_a_snippet_is_not_printed_while_a_package_is_missing(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", nothing)
    assert "needs more packages" in refused(notes, "--config", "cursor")


def test_a_program_in_a_cache_is_named_by_what_brings_it_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/srv/.cache/uv/archive-v0/Xy1/bin/python")
    assert client_config.program("vault")[1:] == ["--from", f"{ROOT}[vault]", "tidings"]


def test_a_program_that_is_not_installed_as_a_command_is_run_as_a_module(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert client_config.program("vault") == [sys.executable, "-m", "tidings"]


def test_its_help_imports_none_of_what_is_slow_to_import() -> None:
    program = (
        "import sys\n"
        "from tidings.cli.main import main\n"
        "main(['vault', '--help'], standalone_mode=False)\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "PATH is the folder of the vault" in run.stdout
    modules = set(run.stderr.split())
    assert not modules & {"mcp", "pydantic", "starlette", "anyio", "asyncio", "uvicorn", "tidings.vault"}


# Refusals


def test_it_asks_which_vault() -> None:
    result = tidings_vault()
    assert result.exit_code == 2
    assert "PATH is missing. Give the folder of the vault, for example: tidings vault ~/Notes" in result.stderr
    assert "PATH is missing" in tidings_vault("").stderr


def test_what_follows_http_is_an_address_or_a_folder(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[vault.VaultOptions] = []
    monkeypatch.setattr(vault, "serve", ran.append)
    for given in (["localhost", notes], ["9000", notes], [":9000", notes], [notes]):
        assert tidings_vault("--http", *given).exit_code == 0
    assert [(options.paths, options.http and options.http.url) for options in ran] == [
        ((notes,), "http://localhost:8000/mcp"),
        ((notes,), "http://127.0.0.1:9000/mcp"),
        ((notes,), "http://127.0.0.1:9000/mcp"),
        ((notes,), "http://127.0.0.1:8000/mcp"),
    ]
    assert "TIDINGS_TOKEN" in refused(notes, "--http", "0.0.0.0")
    for word in ("foo", "localhost:abc"):
        assert refused(notes, "--http", word) == (
            f"Error: --http takes HOST:PORT, for example 127.0.0.1:8000; '{word}' is neither an address nor a folder."
        )


def test_options_that_people_expect_are_explained(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "for example --http 127.0.0.1:9000." in refused(notes, "--port", "9000")
    assert "--token needs --http" in refused(notes, "--token", "s3cret")
    monkeypatch.setattr(vault, "serve", nothing)
    assert CliRunner().invoke(main, ["vault", str(notes)], env={"TIDINGS_TOKEN": "s3cret"}).exit_code == 0


def test_a_folder_that_may_have_been_meant_is_named(notes: Path) -> None:
    said = refused(notes.parent / "my nots")
    assert said == f"Error: There is no folder '{notes.parent / 'my nots'}'. Did you mean '{notes}'?"
    assert "Did you mean" not in refused(notes.parent / "nowhere" / "my nots")


def test_what_cannot_be_served_is_one_line(notes: Path) -> None:
    assert refused(notes / "nope").startswith("Error: There is no folder")
    assert refused(notes / "A.md").endswith("is a file. Give the folder of the vault.")
    assert "given twice" in refused(notes, notes)
    assert "Error: A bus needs a URL" in refused(notes, "--bus", "nonsense")
    assert "There is no bus" in refused(notes, "--bus", "kafka://host")
    assert "names nothing" in refused(notes, "--exclude", "")


def test_what_cannot_be_listened_at_is_one_line(notes: Path) -> None:
    assert "TIDINGS_TOKEN" in refused(notes, "--http", "0.0.0.0:8000")
    assert "99999 is not a valid port" in refused(notes, "--http", "99999")
    assert "visible ASCII" in refused(notes, "--http", "--token", "a b")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "is in use" in refused(notes, "--http", taken.getsockname()[1], "--cache", notes.parent / "cache")


def test_a_channel_over_http_is_refused(notes: Path) -> None:
    said = "Error: --channel needs a client that starts the server itself. Omit --http, or omit --channel."
    assert refused(notes, "--http", "--channel") == said


def test_a_missing_package_is_named_with_how_to_get_it(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def without(name: str) -> Any:
        return None if name in ("watchfiles", "yaml") else find(name)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    said = refused(notes)
    how = install_command("vault")
    assert said == f"Error: The vault server needs more packages (watchfiles, yaml): {how}"


def test_a_missing_package_is_named_to_a_program_too() -> None:
    program = "import sys; sys.modules['yaml'] = None\nfrom tidings.vault import VaultServer"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.stderr.endswith(
        f"ImportError: The vault server needs more packages (yaml): {install_command('vault')}\n"
    )


# Serving


def test_whoever_starts_it_in_a_terminal_is_told_how_to_use_it(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []

    def run(server: Any, http: Any, *_: Any) -> None:
        ran.append((server.read_only, http))

    monkeypatch.setattr(vault, "run", run)
    result = CliRunner().invoke(main, ["vault", str(notes), "--read-only"])
    assert result.stderr == "'My Notes' has no .obsidian folder: serving it as a plain folder of notes.\n"
    (notes / ".obsidian").mkdir()

    def isatty(_: Any) -> bool:
        return True

    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", isatty, raising=False)
    result = CliRunner().invoke(main, ["vault", str(notes)])
    assert result.stderr.startswith(
        "Serving My Notes over stdio (press Ctrl-C to stop).\nIt expects MCP messages on standard input"
    )
    assert max(map(len, result.stderr.splitlines())) <= 80
    assert ".obsidian" not in result.stderr
    assert "--config claude-desktop" in result.stderr
    assert (result.stdout, ran) == ("", [(True, None), (False, None)])


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_a_client_starts_it_and_talks_to_it(notes: Path, era: str) -> None:
    command = [*client_config.program("vault"), "vault", str(notes), "--cache", str(notes.parent / "cache")]
    with anyio.fail_after(40):
        async with tidings.connect(command, era=era) as client:
            called = await client.call_tool("read", {"paths": ["A"]})
    assert called.result is not None
    (content,) = called.result.content
    assert content.type == "text"
    assert content.text.endswith(" ===\n\nhello")


@contextmanager
def started(*args: object) -> Generator[tuple["subprocess.Popen[str]", str]]:
    """The command in a process of its own, and the URL it says."""
    program = [*client_config.program("vault"), "vault", *map(str, args)]
    with subprocess.Popen(program, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            found = re.search(r"at (http://\S+)", first)
            assert found is not None, first
            yield process, found[1]
        finally:
            process.kill()


async def test_it_serves_over_http_says_so_and_ends_when_it_is_asked_to(notes: Path) -> None:
    with started(notes, "--http", "0", "--cache", notes.parent / "cache") as (process, url), anyio.fail_after(40):
        async with tidings.connect(url) as client:
            called = await client.call_tool("search", {"query": "hello"})
            assert called.result is not None
            assert not called.result.is_error
        async with httpx2.AsyncClient() as http:
            answer = await http.get(url.removesuffix("mcp"))
            assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
            assert answer.text == "This is an MCP server. Its endpoint for MCP clients is /mcp.\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stderr is not None
        # Not `communicate()`: it would miss what was read ahead.
        out, err = (
            await anyio.to_thread.run_sync(process.stdout.read),
            await anyio.to_thread.run_sync(process.stderr.read),
        )
        assert (await anyio.to_thread.run_sync(process.wait), out) == (0, "")
    assert "--config claude-code" in err
    assert re.search(r"^Indexed 1 note in \d+\.\d s; (watching|polling)$", err, re.MULTILINE)
    assert "Traceback" not in err


async def test_over_http_only_those_with_the_token_come_in(notes: Path) -> None:
    with (
        started(notes, "--http", "0", "--token", "s3cret", "--cache", notes.parent / "cache") as (_, url),
        anyio.fail_after(40),
    ):
        async with httpx2.AsyncClient() as http:
            for headers in ({}, {"Authorization": "Bearer other"}):
                answer = await http.post(url, json={}, headers=headers)
                assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        async with tidings.connect(url, token="s3cret") as client:
            assert (await client.call_tool("info", {})).success


def test_a_bus_that_is_out_of_reach_is_said_without_a_traceback(notes: Path) -> None:
    for http in ([], ["--http", "0"]):
        program = [
            *client_config.program("vault"),
            "vault",
            str(notes),
            "--bus",
            "nats://127.0.0.1:1?timeout=0.2",
            *http,
        ]
        run = subprocess.run(
            [*program, "--cache", str(notes.parent / "cache")],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (run.returncode, run.stdout) == (2, "")
        assert "nothing listens there" in run.stderr
        assert "Traceback" not in run.stderr
