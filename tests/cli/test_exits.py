"""Exit codes: pinned, documented in one table, and one for each kind of error."""

import signal
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tidings.cli.exits import EXITS, OneShotFailed, ending, exit_code_of, failed, payload_text, words
from tidings.cli.main import main
from tidings.errors import ConnectFailed, GaveUp, RequestFailed, RequestTimedOut, leaves

DOCS = Path(__file__).parents[2] / "docs/cli.md"


def test_the_codes_are_a_promise() -> None:
    assert {error.code: exit_code_of(error("x")) for error in leaves()} == {
        "connect-failed": 3,
        "connection-lost": 3,
        "session-expired": 3,
        "not-connected": 3,
        "gave-up": 3,
        "bad-target": 2,
        "command-failed": 4,
        "not-authorized": 4,
        "sign-in-needed": 4,
        "message-too-large": 4,
        "bus-unavailable": 4,
        "bus-mismatch": 4,
        "state-unusable": 4,
        "connect-timed-out": 5,
        "request-timed-out": 5,
        "answer-timed-out": 5,
        "unsupported-version": 6,
        "malformed-message": 6,
        "invalid-uri": 2,
        "not-supported": 6,
        "request-failed": 7,
        "resource-not-found": 7,
        "event-not-found": 7,
        "callback-failed": 7,
        "not-subscribable": 7,
        "source-unavailable": 7,
        "limit-reached": 7,
        "effect-unknown": 3,
        "task-failed": 7,
        "task-cancelled": 7,
        "task-lost": 7,
        "request-cancelled": 2,
        "disconnected": 2,
    }
    assert sorted(EXITS) == [0, 1, 2, 3, 4, 5, 6, 7, 70, 130, 141, 143]


def test_the_documentation_has_the_same_table() -> None:
    text = DOCS.read_text("utf-8")
    for code, meaning in EXITS.items():
        assert f"| {code} | {meaning} |" in text


@pytest.mark.parametrize("name", ["list", "call", "read", "prompt", "watch", "ping", "info", "load"])
def test_the_help_of_each_command_has_them(name: str) -> None:
    said = " ".join(CliRunner().invoke(main, [name, "--help"]).output.split())
    assert "Exit codes: 0 success; 1 negative result; 2 usage error; 3 connection;" in said


def test_a_last_try_that_failed_is_told_by_its_cause() -> None:
    error = GaveUp("Gave up")
    error.__cause__ = ConnectFailed("Nothing answers")
    assert failed(error).message == "Nothing answers"


def test_advice_for_programs_becomes_advice_for_the_shell() -> None:
    told = failed(RequestFailed("It cannot ask: connect with era='legacy'."))
    assert told.message == "It cannot ask: try --era legacy."
    late = failed(RequestTimedOut("Give it longer with timeout=... or Timeouts(request=...), or cancel earlier."))
    assert late.message == "Give it longer with --timeout."


def test_a_huge_payload_is_cut_and_says_so() -> None:
    assert "1,000 more characters" in payload_text("x" * 5_000)
    assert "The server sent:\n  x" in words(OneShotFailed("m", payload="x"))


def test_what_nobody_foresaw_is_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end, ending():
        raise ZeroDivisionError("oh")
    assert end.value.code == 70
    said = capsys.readouterr().err
    assert "Error (this program): ZeroDivisionError: oh (at test_exits.py:" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_to_be_ended_before_it_is_done_is_143(number: int) -> None:
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as end, ending():
        signal.raise_signal(number)
    assert end.value.code == 143
    assert signal.getsignal(number) == before


def test_a_hangup_that_is_to_be_ignored_is() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ending():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("error", [KeyboardInterrupt, click.Abort])
def test_to_be_interrupted_is_130_in_every_command(error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: str) -> None:
        raise error

    monkeypatch.setattr("tidings.cli.main.load", interrupted)
    done = CliRunner().invoke(main, ["vault"])
    assert (done.exit_code, done.output) == (130, "")
