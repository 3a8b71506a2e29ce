"""The command as people meet it: its help, its version, and what it says to a slip of the finger."""

import platform
import subprocess
import sys
from importlib.metadata import entry_points, version

import pytest
from click.testing import CliRunner, Result

import tidings
from tidings.cli.main import COMMANDS, load, main


def tidings_command(*args: str) -> Result:
    return CliRunner().invoke(main, args, prog_name="tidings")


def test_the_installed_command_is_this_one() -> None:
    (script,) = entry_points(group="console_scripts", name="tidings")
    assert script.load() is main


def test_version_says_the_version() -> None:
    result = tidings_command("--version")
    assert (result.exit_code, result.output) == (0, f"tidings {tidings.__version__}\n")


def test_version_with_verbose_says_for_a_bug_report_what_is_used() -> None:
    result = tidings_command("--version", "--verbose")
    lines = dict(line.split(" ", 1) for line in result.output.splitlines())
    assert (result.exit_code, lines["tidings"]) == (0, tidings.__version__)
    assert lines["python"] == platform.python_version()
    assert lines["mcp"] == version("mcp")
    assert {"system", "nats-py", "wordllama"} <= lines.keys()


def test_verbose_without_version_is_a_mistake() -> None:
    result = tidings_command("--verbose", "ping")
    assert (result.exit_code, "--verbose belongs to --version" in result.output) == (2, True)


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_names_every_command_and_what_it_is_for(option: str) -> None:
    result = tidings_command(option)
    assert result.exit_code == 0
    for name, purpose in COMMANDS.items():
        assert f"  {name}  " in result.output
        assert purpose in " ".join(result.output.split())


def test_the_command_alone_shows_its_help() -> None:
    assert "Usage: tidings [OPTIONS] COMMAND" in tidings_command().output


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_found_and_its_help_begins_as_in_the_list(name: str) -> None:
    command = load(name)
    assert command.get_short_help_str(limit=200) == COMMANDS[name]
    assert tidings_command(name, "-h").exit_code == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["bnech"], "Error: No such command 'bnech'. Did you mean 'bench'?"),
        (["frobnicate"], "Error: No such command 'frobnicate'."),
        (["--vesion"], "Error: No such option '--vesion'. Did you mean '--version'?"),
        (["--frobnicate"], "Error: No such option '--frobnicate'."),
        (["bench", "--frobnicate"], "Error: No such option '--frobnicate'."),
    ],
)
def test_an_unknown_command_or_option_is_named_with_what_comes_close(args: list[str], message: str) -> None:
    result = tidings_command(*args)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == message
    assert "Try 'tidings" in result.stderr


def test_help_imports_none_of_what_is_slow_to_import() -> None:
    program = (
        "import sys\n"
        "from tidings.cli.main import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = set(run.stderr.split())
    assert "Use a server:" in run.stdout
    assert not modules & {"mcp", "pydantic", "starlette", "anyio", "asyncio", "uvicorn", "opentelemetry"}
    assert {name for name in modules if name.startswith("tidings.")} == {
        "tidings.cli",
        "tidings.cli.main",
        "tidings._kit",
        "tidings._kit.lazy",
        "tidings._version",
    }
    # About 150 with click on Python 3.11 to 3.13; whoever doubles it has imported something large by mistake.
    assert len(modules) < 300
