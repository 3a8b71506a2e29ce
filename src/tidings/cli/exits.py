"""The end of a command: every outcome becomes an exit code and, if needed, a message on standard error.

Signals become a `KeyboardInterrupt`. A command that handles SIGTERM itself gets SIGHUP as SIGTERM.
"""

import contextlib
import io
import json
import os
import re
import select
import signal
import stat
import sys
import threading
import traceback
from collections.abc import Generator
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from textwrap import indent
from types import FrameType
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn, cast

import click

from tidings._kit.text import harmless, harmless_json
from tidings.cli.terminal import is_terminal
from tidings.errors import EXPLAINED_BY, BadTarget, Category, GaveUp, MalformedMessage, TidingsError

if TYPE_CHECKING:
    import logging

OK: Final = 0
BAD_ANSWER: Final = 1
YOURS: Final = 2
BUG: Final = 70
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141
TERMINATED: Final = 143

EXITS: Final[dict[int, str]] = {  # Each exit code and its meaning
    OK: "success: also for a server, or `tidings web watch`, that Ctrl-C, SIGTERM or SIGHUP stops",
    BAD_ANSWER: "negative result: the tool reported an error, a step of the demo had no effect, the doctor found a "
    "problem, or a benchmark missed its target",
    YOURS: "usage error: wrong options, an unknown name, an invalid target, arguments that break the tool's schema, or "
    "a question that nobody answered",
    3: "connection: the server cannot be reached, or the connection was lost",
    4: "transport: the command did not start, the credentials were refused, or a message was too large",
    5: "timeout: no answer in time",
    6: "protocol: a message broke the MCP specification, or the server does not support the request",
    7: "server error: the server answered with an error, or a task failed, was cancelled or is unknown to the server",
    BUG: "internal error: a bug in Tidings; please report it",
    INTERRUPTED: "interrupted: Ctrl-C before the command was done",
    PIPE_CLOSED: "output closed: the program that read the output went away",
    TERMINATED: "terminated: SIGTERM or SIGHUP before the command was done",
}
_BY_CATEGORY: Final = {
    Category.CONNECTION: 3,
    Category.TRANSPORT: 4,
    Category.TIMEOUT: 5,
    Category.PROTOCOL: 6,
    Category.SERVER: 7,
    Category.CANCELLED: YOURS,  # Nobody could be asked, or the user declined.
}
_BY_CODE: Final = {"bad-target": YOURS, "invalid-uri": YOURS, "effect-unknown": _BY_CATEGORY[Category.CONNECTION]}
"""Exceptions. A call with an unknown effect is one whose connection was lost."""
_NO_OBJECT: Final = re.compile(r"^(?:.* error: )?(.+\.py has no server called .+)", re.MULTILINE)
YOU: Final = "you"
SERVER: Final = "the server"
reader_gone: Final = threading.Event()


def epilog(*codes: int) -> str:
    """Returns the line in `--help` about these exit codes."""
    return "Exit codes: " + "; ".join(f"{code} {EXITS[code].partition(':')[0]}" for code in codes) + "."


ALL: Final = epilog(*EXITS)
FEW: Final = epilog(OK, YOURS, BUG)  # The codes of a command that runs until it is stopped


class Refusal(click.ClickException):
    """The command cannot do its work. The message says why, and what to do."""

    exit_code = YOURS

    def show(self, file: IO[Any] | None = None) -> None:
        if (logger := json_log()) is not None:
            logger.error("%s", self.message)
        else:
            super().show(file)


def json_log() -> "logging.Logger | None":
    """Returns the logger to write to if standard error is JSON; else None."""
    # Not imported here: most commands have no log, and end sooner than it is imported.
    logs = sys.modules.get("tidings.cli.logs")
    return logs.logger if logs is not None and logs.is_json() else None


@dataclass(eq=False)
class OneShotFailed(Exception):
    """Ends a one-shot command, with a message for people, facts for programs and an exit code."""

    message: str
    _: KW_ONLY
    exit_code: int = YOURS
    who: str = YOU
    code: str = "usage"
    payload: Any = None  # The part of the server's answer that is wrong
    help: str | None = None
    data: Any = None


def failed(error: TidingsError, *, is_command: bool = False) -> OneShotFailed:
    """Returns the end of a command that failed. `is_command`: the network cannot be the cause."""
    from tidings.inspector.view.error_report import error_view

    if isinstance(error, GaveUp) and isinstance(error.__cause__, TidingsError):
        error = error.__cause__  # There was only one try, and its error says more.
    if found := _NO_OBJECT.search(error.message):
        error = BadTarget(found[1])
    data: Any = error.data
    answer = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    payload = answer.get("rpc_data")
    if isinstance(payload, dict):  # Without what Tidings servers add to every error, and what was asked for.
        members = cast("dict[str, Any]", payload)
        payload = {key: value for key, value in members.items() if key not in ("code", "retryable", "uri")} or None
    return OneShotFailed(
        in_the_shell(error.message),
        exit_code=exit_code_of(error),
        who=error_view(error, is_command=is_command).who,
        code=error.code,
        help=error.help,
        data=answer or None,
        payload=payload,
    )


def in_the_shell(message: str) -> str:
    """Returns the message of an error with advice for the command line instead of that for programs."""
    from tidings.inspector.view.error_report import CURES

    for advice, here in CURES["in_the_shell"].items():
        message = message.replace(advice, here)
    return message


def exit_code_of(error: TidingsError) -> int:
    """Returns the exit code of an error of the tree."""
    return _BY_CODE.get(error.code, _BY_CATEGORY[error.category])


def malformed(message: str, payload: Any) -> OneShotFailed:
    """Returns the end of a command whose server broke the protocol by sending `payload`."""
    return OneShotFailed(
        f"{message.partition(' This is a fault')[0]} This is a fault of the server: please report it to its authors.",
        exit_code=_BY_CATEGORY[Category.PROTOCOL],
        who=SERVER,
        code=MalformedMessage.code,
        payload=payload,
        help=EXPLAINED_BY + MalformedMessage.code,
    )


def invalid_answer(method: str, reason: str, payload: Any) -> OneShotFailed:
    """Returns the end of a command that got an answer which breaks the protocol."""
    return malformed(f"The server's answer to {method} is invalid: {reason}.", payload)


def words(end: OneShotFailed) -> str:
    """Returns a failure as text: its origin, the message, the payload and the help page."""
    origin = "" if end.who == YOU else f" ({end.who.removeprefix('the ')})"
    lines = [f"Error{origin}: {end.message}"]
    if end.payload is not None:
        lines += ["The server sent:", indent(payload_text(end.payload), "  ", lambda _: True)]
    if end.help is not None:
        lines.append(f"Help: {end.help}")
    return "\n".join(lines)


def payload_text(payload: Any, longest: int = 4_000) -> str:
    """Returns a payload for people, cut if it is too long."""
    text = payload if isinstance(payload, str) else json.dumps(payload, indent=2, ensure_ascii=False)
    if len(text) <= longest:
        return text
    return f"{text[:longest]}\n… ({len(text) - longest:,} more characters; --verbose shows every message)"


@contextlib.contextmanager
def ending(*, as_json: bool = False) -> Generator[None]:
    """Turns every outcome of the block into an exit code and, if needed, a message on standard error."""
    with _signals_raised() as terminated:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # A character that the encoding lacks is written as an escape.
                stream.reconfigure(errors="backslashreplace")
        try:
            yield
            sys.stdout.flush()
        except (TidingsError, OneShotFailed) as error:
            _end(failed(error) if isinstance(error, TidingsError) else error, as_json=as_json)
        except BrokenPipeError:
            # What is left in the buffer goes nowhere: writing it at the end would fail again.
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(PIPE_CLOSED)
        except (KeyboardInterrupt, click.Abort):
            if terminated:
                sys.exit(PIPE_CLOSED if reader_gone.is_set() else TERMINATED)
            if sys.stderr.isatty():
                click.echo("\nInterrupted.", err=True)
            sys.exit(INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except Exception as error:  # noqa: BLE001 - users get a message, not a traceback
            from tidings.cli.logs import logger

            logger.debug("This program failed", exc_info=error)
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(last.filename).name}:{last.lineno}"
            cure = "This is a bug in Tidings: please report it, with the command."
            text = f"{type(error).__name__}: {error} (at {where}). {cure}"
            _end(OneShotFailed(text, exit_code=BUG, who="this program", code="unforeseen"), as_json=as_json)


def end_with_reader(*, printing: bool = True) -> None:
    """Ends this command, as SIGTERM would, when nobody reads its output, a pipe or a socket, any more."""
    mode = os.fstat(fd := sys.stdout.fileno()).st_mode
    if sys.platform == "win32" or not printing or not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return
    polled = select.poll()
    polled.register(fd, select.POLLHUP)  # macOS tells of it only on demand.

    def wait() -> None:
        polled.poll()
        reader_gone.set()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def _end(end: OneShotFailed, *, as_json: bool) -> NoReturn:
    """Writes a failure to standard error: as text, as one JSON document with `--json`, or in the format of the log."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    if as_json:
        facts = {"code": end.code, "exit": end.exit_code, "who": end.who, "message": end.message}
        more = {"help": end.help, "data": end.data, "payload": end.payload}
        error = facts | {key: value for key, value in more.items() if value is not None}
        text = json.dumps({"error": error}, ensure_ascii=False)
        click.echo(harmless_json(text) if is_terminal(sys.stderr) else text, err=True)
    elif (logger := json_log()) is not None:
        logger.error("%s", words(end))
    else:
        click.echo(harmless(words(end)) if is_terminal(sys.stderr) else words(end), err=True)
    sys.exit(end.exit_code)


@contextlib.contextmanager
def _signals_raised() -> Generator[list[int]]:
    """Makes SIGTERM and SIGHUP, unless it is ignored, do what Ctrl-C does. Yields the list of those that came."""
    terminated: list[int] = []
    if threading.current_thread() is not threading.main_thread() or sys.platform == "win32":
        yield terminated
        return

    def terminate(number: int, frame: FrameType | None) -> None:
        terminated.append(number)
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # As in a shell's background job.
            signal.default_int_handler(number, frame)
        signal.raise_signal(signal.SIGINT)

    def pass_on(*_: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, terminate)}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, pass_on)
    try:
        yield terminated
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
