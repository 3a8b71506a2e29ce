"""How far a call is: one line on a terminal, lines elsewhere if they were asked for, JSON Lines with `--json`."""

import json
import sys
from types import TracebackType
from typing import Self

import click

from tidings.cli.oneshot import Asked
from tidings.cli.terminal import harmless, is_terminal, shortened, width


class Progress:
    """Shows what the server tells of a call's progress; the line on a terminal is gone when this is left."""

    def __init__(self, asked: Asked, *, lines: bool) -> None:
        self._events = lines and asked.as_json
        self._lines = lines and not asked.as_json
        self._one_line = not lines and is_terminal(sys.stderr)
        self._drawn = False

    def told(self, progress: float, total: float | None, message: str | None) -> None:
        """The server told how far it is."""
        if self._events:
            event = {"progress": progress, "total": total, "message": message}
            click.echo(json.dumps({key: value for key, value in event.items() if value is not None}))
            return
        far = f"{progress:g}" if not total else f"{progress:g}/{total:g} ({100 * progress / total:.0f} %)"
        text = harmless(" ".join(f"{far} {message or ''}".split()))
        if self._lines:
            click.echo(text, err=True)
        elif self._one_line:
            sys.stderr.write(f"\r\x1b[K{shortened(text, (width(sys.stderr) or 80) - 1)}")
            sys.stderr.flush()
            self._drawn = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
