"""How a command ends: whatever happens in it becomes an exit code, and words on standard error if people need some.

Signals that ask a process to end are told as exceptions, so that no server that was started is left behind. Whoever
handles SIGTERM in another way has SIGHUP, too, which is passed on as it.
"""

import contextlib
import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Generator
from pathlib import Path
from typing import NoReturn

import click

from tidings.cli import exits
from tidings.cli.exits import Failed, failed, report
from tidings.errors import TidingsError


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
        except Failed as end:
            _end(end, as_json=as_json)
        except BrokenPipeError:
            _nobody_reads()
            sys.exit(exits.PIPE_CLOSED)
        except (KeyboardInterrupt, click.Abort):
            _goodbye()
            sys.exit(exits.INTERRUPTED)
        except Terminated:
            sys.exit(exits.TERMINATED)
        except Exception as error:  # noqa: BLE001 - a trace is nothing for whoever only called a tool
            _end(_unforeseen(error), as_json=as_json)


def _take_any_text() -> None:
    """Half a character, or one that the terminal's encoding lacks, is written as an escape; in JSON, it stays JSON."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _unforeseen(error: Exception) -> Failed:
    if isinstance(error, click.ClickException | click.exceptions.Exit):
        raise error
    from tidings.cli.logs import logger

    logger.debug("This program failed", exc_info=error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}:{last.lineno}"
    return Failed(
        f"{type(error).__name__}: {error} (at {where}). Please report it, with the command.",
        exit_code=exits.BUG,
        who="this program",
        code="unforeseen",
    )


def _end(end: Failed, *, as_json: bool) -> NoReturn:
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
