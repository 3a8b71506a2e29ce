"""How far a call is: one line on a terminal, lines elsewhere if they were asked for, JSON Lines with `--json`."""

import json
from types import TracebackType
from typing import Self

import click

from tidings.cli.drawn_line import DrawnLine
from tidings.cli.oneshot import Asked
from tidings.cli.terminal import harmless


class Progress:
    """Shows what the server tells of a call's progress; the line on a terminal is gone when this is left."""

    def __init__(self, asked: Asked, *, lines: bool) -> None:
        self._events = lines and asked.as_json
        self._lines = lines and not asked.as_json
        self._line = None if lines else DrawnLine()

    def told(self, progress: float, total: float | None, message: str | None) -> None:
        """The server told how far it is."""
        if self._events:
            event = {"progress": progress, "total": total, "message": message}
            click.echo(json.dumps({key: value for key, value in event.items() if value is not None}))
            return
        far = f"{progress:g}" if not total else f"{progress:g}/{total:g} ({100 * progress / total:.0f} %)"
        text = " ".join(f"{far} {message or ''}".split())
        if self._lines:
            click.echo(harmless(text), err=True)
        elif self._line is not None:
            self._line.draw(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._line is not None:
            self._line.clear()
