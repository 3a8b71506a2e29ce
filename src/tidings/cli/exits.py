"""How a command ends: the exit code of each kind of failure, whose fault it is, and the words for it.

One table (`EXITS`) is what `--help`, the documentation and the code go by.

How a command ends: whatever happens in it becomes an exit code, and words on standard error if people need some.

Signals that ask a process to end are told as exceptions, so that no server that was started is left behind. Whoever
handles SIGTERM in another way has SIGHUP, too, which is passed on as it.
"""

import contextlib
import io
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Generator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn, cast

import click

from tidings.cli.terminal import escaped, harmless, is_terminal
from tidings.errors import HELP_PAGES, Category, GaveUp, MalformedMessage, TidingsError

if TYPE_CHECKING:
    import logging


OK: Final = 0
BAD_ANSWER: Final = 1
YOURS: Final = 2
BUG: Final = 70
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141
TERMINATED: Final = 143

EXITS: Final[dict[int, str]] = {
    OK: "done: also what runs until it is stopped, when it is (Ctrl-C, SIGTERM, SIGHUP)",
    BAD_ANSWER: "done, and the answer is bad: the tool said that it failed, a step of the demo had no effect, "
    "the doctor found something wrong, a benchmark missed its target",
    YOURS: "your mistake: usage, an unknown name, arguments that break the schema, a target that is none, a question "
    "that nobody answered",
    3: "connection: the server cannot be reached, or went away",
    4: "transport: the command did not start, wrong credentials, a message too large",
    5: "timeout: no answer in time",
    6: "protocol: one side said what MCP does not allow, or lacks what was asked for",
    7: "server: it answered, and the answer is no",
    BUG: "this program failed: please report it",
    INTERRUPTED: "interrupted (Ctrl-C) before it was done",
    PIPE_CLOSED: "whoever read the output went away",
    TERMINATED: "ended by SIGTERM or SIGHUP before it was done",
}
"""Each exit code and what it says."""

_BY_CATEGORY: Final = {
    Category.CONNECTION: 3,
    Category.TRANSPORT: 4,
    Category.TIMEOUT: 5,
    Category.PROTOCOL: 6,
    Category.SERVER: 7,
    Category.CANCELLED: YOURS,  # Nobody was there to be asked, or whoever was said no.
}
_BY_CODE: Final = {"bad-target": YOURS, "invalid-uri": YOURS, "effect-unknown": _BY_CATEGORY[Category.CONNECTION]}
"""What is another's than its category says: a call whose effect nobody knows is one whose server went away."""

YOU: Final = "you"
NETWORK: Final = "the network"
SERVER: Final = "the server"


def epilog(*codes: int) -> str:
    """The line in `--help` that says what these exit codes mean."""
    return "Exit codes: " + "; ".join(f"{code} {EXITS[code].partition(':')[0]}" for code in codes) + "."


ALL: Final = epilog(*EXITS)
FEW: Final = epilog(OK, YOURS, BUG)
"""Of a command that runs until it is stopped."""


class Refusal(click.ClickException):
    """The command cannot do what it was asked to. One line says why, and what to do."""

    exit_code = YOURS

    def show(self, file: IO[Any] | None = None) -> None:
        if (logger := json_log()) is not None:
            logger.error("%s", self.message)
        else:
            super().show(file)


def json_log() -> "logging.Logger | None":
    """Where to write, if standard error is one JSON object a line."""
    # Not imported here: most commands have no log, and end sooner than it is imported.
    logs = sys.modules.get("tidings.cli.logs")
    return logs.logger if logs is not None and logs.is_json() else None


class OneShotFailed(Exception):
    """A command ends here: with a message for people, facts for programs, and an exit code."""

    def __init__(
        self,
        message: str,
        *,
        exit_code: int = YOURS,
        who: str = YOU,
        code: str = "usage",
        payload: Any = None,
        help_page: str | None = None,
        data: Any = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.who = who
        self.code = code
        self.payload = payload
        """What the server sent that is wrong."""
        self.help_page = help_page
        self.data = data


def failed(error: TidingsError, *, is_command: bool = False) -> OneShotFailed:
    """The end of a command that an error of the tree means.

    Args:
        error: What went wrong.
        is_command: Whether the server is a command: there is no network between then.
    """
    from tidings.inspector.view.error_report import error_data

    if isinstance(error, GaveUp) and isinstance(error.__cause__, TidingsError):
        error = error.__cause__  # There is but one try: what went wrong says more.
    data: Any = error.data
    answer = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    return OneShotFailed(
        _in_the_shell(error.message),
        exit_code=exit_code_of(error),
        who=error_data(error, is_command=is_command).get("who", SERVER),
        code=error.code,
        help_page=error.help_page,
        data=answer or None,
        payload=_payload(answer.get("rpc_data")),
    )


def _payload(data: Any) -> Any:
    """What a server sent with its error, apart from what a server of ours calls it."""
    if not isinstance(data, dict):
        return data
    return {
        key: value for key, value in cast("dict[str, Any]", data).items() if key not in ("code", "retryable")
    } or None


_HERE: Final = {
    "connect with era='legacy'": "try --era legacy",
    "timeout=... or Timeouts(request=...), or cancel earlier": "--timeout",
    "Timeouts(connect=...)": "--timeout",
    "Timeouts(request=...)": "--timeout",
    "Timeouts(total=...)": "--timeout",
    "Pass others: token=..., headers=... or auth=...": "Give others, with --token or --header.",
    "Give a cwd= that exists": "Give a --cwd that exists",
    "its env= or its cwd=": "its --env or its --cwd",
    "Leave era out": "Leave --era out",
    ", or raise ClientConfig.max_message": "",
}
"""What errors advise programs to do, and what that is on a command line."""


def _in_the_shell(message: str) -> str:
    for there, here in _HERE.items():
        message = message.replace(there, here)
    return message


def exit_code_of(error: TidingsError) -> int:
    """The exit code of an error of the tree."""
    return _BY_CODE.get(error.code, _BY_CATEGORY[error.category])


def malformed(message: str, payload: Any) -> OneShotFailed:
    """The end of a command that got what the protocol does not allow; `payload` is what it got."""
    return OneShotFailed(
        f"{message.partition(' This is a fault')[0]} This is a fault of the server: tell its authors.",
        exit_code=_BY_CATEGORY[Category.PROTOCOL],
        who=SERVER,
        code=MalformedMessage.code,
        payload=payload,
        help_page=HELP_PAGES + MalformedMessage.code,
    )


def report(end: OneShotFailed, *, as_json: bool) -> None:
    """Say on standard error what went wrong: in words, as one JSON document with `--json`, or as the log has it."""
    if as_json:
        text = json.dumps({"error": as_facts(end)}, ensure_ascii=False)
        click.echo(escaped(text) if is_terminal(sys.stderr) else text, err=True)
    elif (logger := json_log()) is not None:
        logger.error("%s", words(end))
    else:
        click.echo(harmless(words(end)) if is_terminal(sys.stderr) else words(end), err=True)


def as_facts(end: OneShotFailed) -> dict[str, Any]:
    """A failure as programs read it."""
    facts = {
        "code": end.code,
        "exit": end.exit_code,
        "who": end.who,
        "message": end.message,
        "help": end.help_page,
        "data": end.data,
        "payload": end.payload,
    }
    return {key: value for key, value in facts.items() if value is not None}


def words(end: OneShotFailed) -> str:
    """A failure as people read it: whose fault, what, the payload, where to read on."""
    lines = [f"Error{_fault(end.who)}: {end.message}"]
    if end.payload is not None:
        lines += ["What the server sent:", _indented(payload_text(end.payload))]
    if end.help_page is not None:
        lines.append(f"More about it: {end.help_page}")
    return "\n".join(lines)


def _fault(who: str) -> str:
    """Whose it is, if it is not that of whoever reads it."""
    return {YOU: "", NETWORK: " (the network's)", SERVER: " (the server's)"}.get(who, f" ({who})")


def payload_text(payload: Any, longest: int = 4_000) -> str:
    """What the server sent, to be looked at; a huge one is cut, and says so."""
    text = payload if isinstance(payload, str) else json.dumps(payload, indent=2, ensure_ascii=False)
    if len(text) <= longest:
        return text
    return f"{text[:longest]}\n… ({len(text) - longest:,} characters more; --verbose shows every message)"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


class Terminated(BaseException):
    """Somebody asked this process to end."""


@contextlib.contextmanager
def ending(*, as_json: bool = False) -> Generator[None]:
    """Whatever happens within becomes an exit code, and words on standard error if people need some."""
    with _asked_to_end():
        _take_any_text()
        try:
            yield
            sys.stdout.flush()
        except TidingsError as error:
            _end(failed(error), as_json=as_json)
        except OneShotFailed as end:
            _end(end, as_json=as_json)
        except BrokenPipeError:
            _nobody_reads()
            sys.exit(PIPE_CLOSED)
        except (KeyboardInterrupt, click.Abort):
            _goodbye()
            sys.exit(INTERRUPTED)
        except Terminated:
            sys.exit(TERMINATED)
        except Exception as error:  # noqa: BLE001 - a trace is nothing for whoever only called a tool
            _end(_unforeseen(error), as_json=as_json)


def _take_any_text() -> None:
    """Half a character, or one that the terminal's encoding lacks, is written as an escape; in JSON, it stays JSON."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _unforeseen(error: Exception) -> OneShotFailed:
    if isinstance(error, click.ClickException | click.exceptions.Exit):
        raise error
    from tidings.cli.logs import logger

    logger.debug("This program failed", exc_info=error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}:{last.lineno}"
    return OneShotFailed(
        f"{type(error).__name__}: {error} (at {where}). Please report it, with the command.",
        exit_code=BUG,
        who="this program",
        code="unforeseen",
    )


def _end(end: OneShotFailed, *, as_json: bool) -> NoReturn:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    report(end, as_json=as_json)
    sys.exit(end.exit_code)


def _goodbye() -> None:
    if sys.stderr.isatty():
        click.echo("\nInterrupted.", err=True)


def _nobody_reads() -> None:
    """What is left in the buffer goes nowhere: writing it at the end would fail, and say so."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def _asked_to_end() -> Generator[None]:
    """SIGTERM and SIGHUP end the process in good order, unless SIGHUP is to be ignored: so `nohup` has it."""
    if threading.current_thread() is not threading.main_thread() or sys.platform == "win32":
        yield
        return

    def raise_it(*_: object) -> NoReturn:
        raise Terminated

    def pass_on(*_: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, raise_it)}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, pass_on)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
