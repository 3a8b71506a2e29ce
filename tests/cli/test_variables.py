"""Options from the environment: each has its variable, which goes before the default and after the command line."""

import re
from pathlib import Path
from typing import Any

import click
import pytest
from click.core import ParameterSource
from click.testing import CliRunner

from tests.cli.running import environment
from tidings.cli import vault
from tidings.cli.main import CONTEXT, load, main
from tidings.cli.serving import Configured

COMMANDS = ("vault", "web", "bridge", "mock", "inspect", "tui")  # The commands whose options are also variables
PAGE = Path(__file__).parents[2] / "docs/configuration.md"
SAMPLES: dict[str, tuple[str, str]] = {
    "--allow-private": ("10.0.0.0/8", "192.168.0.0/16"),
    "--catalog": ("mine.json", "yours.json"),
    "--era": ("legacy", "2026-07-28"),
    "--read-memory": ("1G", "2G"),
    "--secrets": ("SITE_TOKEN@example.org", "OTHER@example.org"),
    "--proxy": ("http://a.example:3128", "http://b.example:3128"),
    "--robots": ("respect", "ignore"),
    "--watch-max": ("2d", "3d"),
    "--chunk-tokens": ("500", "600"),
    "--answer-tokens": ("500", "600"),
    "--max-store": ("20M", "30M"),
    "--max-bytes": ("20M", "30M"),
}


def long_name(option: click.Option) -> str:
    return max(option.opts, key=len)


def configured(name: str) -> Configured:
    command = load(name)
    assert isinstance(command, Configured)
    return command


def heard(command: Configured, option: click.Option, args: list[str], env: dict[str, str]) -> tuple[Any, Any]:
    """The value that the command would get for this option, and where it has it from."""
    with CliRunner(env=dict.fromkeys(command.variables) | env).isolation():
        ctx = command.make_context(command.name, list(args), help_option_names=CONTEXT["help_option_names"])
    name = option.name or ""
    return ctx.params[name], ctx.get_parameter_source(name)


EACH = [(name, variable) for name in COMMANDS for variable in configured(name).variables]


@pytest.mark.parametrize(("name", "variable"), EACH)
def test_a_variable_goes_before_the_default_and_after_the_command_line(name: str, variable: str) -> None:
    command = configured(name)
    option = command.variables[variable]
    default, source = heard(command, option, [], {})
    assert source is ParameterSource.DEFAULT
    assert heard(command, option, [], {variable: ""}) == (default, source)
    if option.is_flag:
        text, args = str(not default).lower(), [*option.opts, *option.secondary_opts][-1 if default else 0 :][:1]
    else:
        text, other = SAMPLES.get(long_name(option), ("6", "7"))
        args = [long_name(option), other]
    given, source = heard(command, option, [], {variable: text})
    assert source is ParameterSource.ENVIRONMENT
    assert given != default
    typed, source = heard(command, option, args, {variable: text})
    assert source is ParameterSource.COMMANDLINE
    assert option.is_flag or typed != given


def test_the_page_has_every_variable_and_no_other() -> None:
    documented = set(re.findall(r"`(TIDINGS_[A-Z_]+[A-Z])`", PAGE.read_text("utf-8")))
    shared = {"TIDINGS_LOG_LEVEL", "TIDINGS_LOG_JSON", "TIDINGS_TOKEN", "TIDINGS_BEARER_TOKEN", "TIDINGS_URI"}
    shared |= {"TIDINGS_WEBHOOK_SECRET"}
    of_web_settings = {each for each in configured("web").variables if each not in documented}
    assert documented - shared == {variable for _, variable in EACH} - of_web_settings
    web_page = PAGE.with_name("web.md").read_text("utf-8")
    assert all(f"`{variable}`" in web_page for variable in of_web_settings)


def test_what_is_asked_for_once_has_no_variable() -> None:
    options = {long_name(option) for name in COMMANDS for option in configured(name).variables.values()}
    assert not options & {"--config", "--list", "--help", "--token", "--log-level", "--log-json"}
    assert "--port" not in {long_name(each) for each in configured("vault").variables.values()}


def test_a_value_that_is_none_is_refused_by_the_variable() -> None:
    done = CliRunner(env={"TIDINGS_INSPECT_PORT": "many"}).invoke(main, ["inspect"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: TIDINGS_INSPECT_PORT: 'many' is not a valid port.")
    done = CliRunner(env={"TIDINGS_VAULT_HTTP": "/"}).invoke(main, ["vault", "/nowhere"])
    assert (done.exit_code, "takes HOST:PORT" in done.stderr) == (2, True)


def test_a_variable_that_is_misspelt_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_: vault.VaultOptions) -> None: ...

    monkeypatch.setattr(vault, "serve", nothing)
    done = CliRunner(env=environment(TIDINGS_VAULT_READONLY="1")).invoke(main, ["vault", str(tmp_path)])
    assert done.exit_code == 0
    assert "The variable TIDINGS_VAULT_READONLY is ignored" in done.stderr
    assert "Did you mean TIDINGS_VAULT_READ_ONLY?" in done.stderr


@pytest.mark.parametrize(
    ("name", "variable"),
    [(name, variable) for name, variable in EACH if name != "web" and configured(name).variables[variable].multiple],
)
def test_several_values_in_a_variable_are_parted_by_commas(name: str, variable: str) -> None:
    command = configured(name)
    given, _ = heard(command, command.variables[variable], [], {variable: "Old Notes, *.bak"})
    assert given == ("Old Notes", "*.bak")
