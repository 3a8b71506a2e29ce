"""The log of a command that runs on: lines on standard error, for people or, with `--log-json`, for programs."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final, TextIO

import click

from tidings._kit.text import harmless
from tidings.cli.terminal import DrawnLine, all_of, bar, option

LEVELS: Final = ("debug", "info", "warning", "error")

logger = logging.getLogger("tidings.cli")  # The messages of commands to their user


def _take(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    given: dict[str | None, Any] = ctx.meta.setdefault(__name__, {})
    given[param.name] = value
    if len(given) == len(_OPTIONS) and not ctx.resilient_parsing:
        log_to_stderr(given["log_level"], as_json=given["log_json"])


_SHARED: Final[dict[str, Any]] = {"show_envvar": True, "is_eager": True, "expose_value": False, "callback": _take}
_LEVEL_HELP: Final = "Log messages of this level and above. Default: info for Tidings, warning for other packages."
_LEVEL: Final = click.Choice(LEVELS, case_sensitive=False)
_OPTIONS: Final = (
    option("--log-level", _LEVEL_HELP, _LEVEL, envvar="TIDINGS_LOG_LEVEL", **_SHARED),
    option("--log-json", "Log one JSON object per line.", envvar="TIDINGS_LOG_JSON", **_SHARED),
)
log_options: Final = all_of(_OPTIONS)  # They set up the log before the command begins.


def log_to_stderr(level: str | None = None, *, as_json: bool = False) -> None:
    """Writes the log to standard error from now on, from `level` (None: the default) on, as lines or JSON."""
    handler = logging.StreamHandler(sys.stderr) if as_json else _Terminal()
    pattern = None if level is None else "%(asctime)s %(levelname)s %(name)s: %(message)s"
    handler.setFormatter(_JsonLine() if as_json else _Line(pattern))
    root = logging.getLogger()
    root.handlers = [each for each in root.handlers if not isinstance(each.formatter, _Line | _JsonLine)]
    root.addHandler(handler)
    root.setLevel(logging.WARNING if level is None else level.upper())
    logging.getLogger("tidings").setLevel(logging.INFO if level is None else logging.NOTSET)
    logging.captureWarnings(capture=as_json)


def is_json() -> bool:
    """Returns whether the log is JSON: then nothing else may be written to standard error."""
    return any(isinstance(handler.formatter, _JsonLine) for handler in logging.getLogger().handlers)


class _Line(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return harmless(super().format(record))


class _Terminal(logging.StreamHandler[TextIO]):
    """Draws records with `progress` (done, total) on one line of the terminal."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self._line = DrawnLine(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        progress: tuple[float, float] | None = getattr(record, "progress", None)
        try:
            if progress is not None and self._line.shows:
                self._line.draw(f"{bar(progress[0] / progress[1])} {record.getMessage()}")
                return
            self._line.clear()
        except (OSError, ValueError):  # The terminal is gone, which must not disturb the code that logs.
            self.handleError(record)
        super().emit(record)


class _JsonLine(logging.Formatter):
    """Formats a record as JSON in ASCII, which is JSON in every encoding."""

    def format(self, record: logging.LogRecord) -> str:
        facts = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            facts["traceback"] = self.formatException(record.exc_info)
        return json.dumps(facts)
