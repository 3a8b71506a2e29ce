"""The log of commands that run on: its level, its lines, and that everybody follows it."""

import json
import logging
import warnings
from collections.abc import Callable, Generator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.cli.running import WEATHER, tidings
from tidings.cli.exits import OneShotFailed, Refusal
from tidings.cli.logs import LEVELS, log_options, logger
from tidings.cli.main import load, main

RUN_ON = ("vault", "web", "mock", "inspect", "demo", "watch")


def logged(*args: str, work: Callable[[], object] = lambda: None, **env: str) -> Result:
    """Returns the output of a command with the options of the log that does this work."""

    @click.command()
    @log_options
    def command() -> None:
        work()

    return CliRunner().invoke(command, args, env={"TIDINGS_LOG_LEVEL": None, "TIDINGS_LOG_JSON": None, **env})


@pytest.fixture(autouse=True)
def _uvicorn_as_at_the_start() -> Generator[None]:
    """A server that another test ran in this process may have set the loggers of uvicorn."""
    loggers = [logging.getLogger(name) for name in ("uvicorn", "uvicorn.error", "uvicorn.access")]
    before = [(each.handlers, each.propagate, each.level) for each in loggers]
    for each in loggers:
        each.handlers, each.propagate = [], True
        each.setLevel(logging.NOTSET)
    yield
    for each, (handlers, propagates, level) in zip(loggers, before, strict=True):
        each.handlers, each.propagate = handlers, propagates
        each.setLevel(level)


def speak() -> None:
    for name in ("tidings.vault", "mcp.server", "uvicorn.error"):
        for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
            logging.getLogger(name).log(level, "%s by %s", logging.getLevelName(level), name)


@pytest.mark.parametrize("name", RUN_ON)
def test_each_command_that_runs_on_has_the_options(name: str) -> None:
    options = {option for each in load(name).params for option in each.opts}
    assert {"--log-level", "--log-json"} <= options


def test_unless_it_is_asked_for_tidings_informs_and_everybody_warns_in_plain_lines() -> None:
    done = logged(work=speak)
    told = ["INFO by tidings.vault", "WARNING by tidings.vault", "ERROR by tidings.vault"]
    told += [f"{level} by {name}" for name in ("mcp.server", "uvicorn.error") for level in ("WARNING", "ERROR")]
    assert (done.stdout, done.stderr.splitlines()) == ("", told)


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_goes_for_all_parts(level: str) -> None:
    done = logged("--log-json", "--log-level", level, work=speak)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    expected = LEVELS[LEVELS.index(level) :]
    assert [(line["logger"], line["level"]) for line in lines] == [
        (name, each) for name in ("tidings.vault", "mcp.server", "uvicorn.error") for each in expected
    ]


def test_with_a_level_a_line_says_whose_it_is() -> None:
    assert (
        logged("--log-level", "ERROR", work=speak)
        .stderr.splitlines()[0]
        .endswith(" ERROR tidings.vault: ERROR by tidings.vault")
    )


def test_a_line_cannot_steer_a_terminal() -> None:
    assert "\x1b" not in logged(work=lambda: logger.info("\x1b[2J")).stderr


def test_how_far_something_is_is_a_line_where_nobody_looks() -> None:
    said = logged(work=lambda: logger.info("%s of %s", 1, 2, extra={"progress": (1, 2)})).stderr
    assert said == "1 of 2\n"


def test_an_object_has_the_time_and_the_traceback_if_there_is_one() -> None:
    def fail() -> None:
        logger.error("It failed: %s", "ü\x1b", exc_info=ValueError("höh"))

    (line,) = logged("--log-json", work=fail).stderr.splitlines()
    facts = json.loads(line)
    assert facts["time"].endswith("+00:00")
    assert (facts["level"], facts["logger"], facts["message"]) == ("error", "tidings.cli", "It failed: ü\x1b")
    assert facts["traceback"] == "ValueError: höh"
    assert line.isascii()


def test_the_environment_says_it_too_and_an_option_goes_before_it() -> None:
    env = {"TIDINGS_LOG_JSON": "1", "TIDINGS_LOG_LEVEL": "error"}
    assert all(json.loads(line)["level"] == "error" for line in logged(work=speak, **env).stderr.splitlines())
    lines = logged("--log-level", "debug", work=speak, **env).stderr.splitlines()
    assert json.loads(lines[0])["level"] == "debug"


@pytest.mark.parametrize(("args", "env"), [(["--log-level", "loud"], {}), ([], {"TIDINGS_LOG_LEVEL": "loud"})])
def test_a_level_that_is_none_is_refused_with_those_that_there_are(args: list[str], env: dict[str, str]) -> None:
    done = logged(*args, work=speak, **env)
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].endswith("'loud' is not one of 'debug', 'info', 'warning', 'error'.")


def test_refusals_and_warnings_are_objects_as_well() -> None:
    def refuse() -> None:
        warnings.warn("old", UserWarning, stacklevel=1)
        raise Refusal("There is none.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warnings, "filters", [("always", None, UserWarning, None, 0)])
        done = logged("--log-json", work=refuse)
    old, refused = map(json.loads, done.stderr.splitlines())
    assert (done.exit_code, old["logger"], refused["level"]) == (2, "py.warnings", "error")
    assert refused["message"] == "There is none."


def test_what_nobody_foresaw_is_one_line_and_a_trace_where_debug_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("tidings.cli.vault.serve", fail)
    done = CliRunner().invoke(main, ["vault", str(tmp_path)])
    assert (done.exit_code, "Traceback" in done.stderr) == (70, False)
    assert done.stderr.startswith("Error (this program): ZeroDivisionError: oh (at test_logs.py:")
    assert "Traceback" in CliRunner().invoke(main, ["vault", str(tmp_path), "--log-level", "debug"]).stderr


def test_a_failure_of_a_watch_is_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OneShotFailed("It is away.", exit_code=3, who="the network")

    monkeypatch.setattr("tidings.cli.oneshot._taken", fail)
    done = CliRunner().invoke(main, ["watch", "http://127.0.0.1:9/mcp", "x://y", "--log-json"])
    (line,) = done.stderr.splitlines()
    assert (done.exit_code, json.loads(line)["message"]) == (3, "Error (network): It is away.")


def test_a_watch_tells_in_its_log_what_happens_and_prints_the_content_alone() -> None:
    done = tidings("watch", WEATHER, "weather://oslo", "--count", "1", "--log-json", "--log-level", "debug")
    assert (done.code, done.out) == (0, "rain\n")
    assert all(set(json.loads(line)) >= {"time", "level", "logger", "message"} for line in done.err.splitlines())
    assert done.err
