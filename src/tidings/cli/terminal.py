"""Output for people: pass what a server sent through `_kit.text.harmless` before; and options that go together."""

import os
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final, TextIO

import click

from tidings._kit.text import harmless, shortened

Given = str | None  # The text of an option that need not be given
Words = tuple[str, ...]
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
_STYLES: Final = {"name": "1", "dim": "2", "heading": "1;4", "good": "32", "bad": "31", "note": "33", "place": "36"}
_BAR: Final = 20


def option(words: str, help_: str, kind: Any = None, **more: Any) -> Decorator:
    """Returns an option: `option("seconds --for=SECONDS", "…")`; without a value and a `kind` it is a flag."""
    names, _, value = words.partition("=")
    if isinstance(kind, click.FloatRange | click.IntRange) and kind.name == type(kind).name:
        # The words that follow "is not a valid".
        kind.name = "whole number" if isinstance(kind, click.IntRange) else "number of seconds, for example 2.5"
    flag = {"is_flag": True} if not value and kind is None else {}
    return click.option(*names.split(), type=kind, metavar=value or None, help=help_, **flag, **more)


def all_of(options: Sequence[Decorator]) -> Decorator:
    """Returns a decorator that adds several options of click to a command, in their order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        return reduce(lambda made, option: option(made), reversed(options), command)

    return decorate


def is_terminal(stream: TextIO) -> bool:
    """Returns whether a stream is a terminal. A closed stream is none."""
    try:
        return stream.isatty()
    except ValueError:
        return False


def colours(stream: TextIO) -> bool:
    """Returns whether to use colour: on a terminal, unless NO_COLOR is set or TERM is "dumb"."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width(stream: TextIO) -> int | None:
    """Returns the characters in a line of the terminal; None if the stream is not a terminal."""
    return max(20, shutil.get_terminal_size((80, 24)).columns) if is_terminal(stream) else None


def styled(text: str, style: str, stream: TextIO | None = None) -> str:
    """Returns `text` in a style of `_STYLES`, if the stream (by default standard output) has colours."""
    if not (text and style and colours(stream or sys.stdout)):
        return text
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def table(rows: Sequence[Sequence[str]], styles: Sequence[str], stream: TextIO, *, indent: str = "") -> bool:
    """Prints rows in columns. On a terminal, cells are shortened to its width; returns whether any was."""
    if not rows:
        return False
    rows = [[cell.replace("\n", "\N{SYMBOL FOR LINE FEED}") for cell in row] for row in rows]
    room, cut = width(stream), False
    widest = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    if room is not None:  # The first column is never cut; the middle ones get at most a third each.
        for column in range(1, len(widest) - 1):
            widest[column] = min(widest[column], max(room // 3, 12))
    lines: list[str] = []
    for row in rows:
        used, cells = len(indent), list[str]()
        for column, cell in enumerate(row):
            last = column == len(row) - 1
            space = widest[column] if not last or room is None else max(room - used, 8)
            text = shortened(cell, space) if column and room is not None else cell
            cut = cut or text != cell
            cells.append(styled(text, styles[column], stream) + ("" if last else " " * (widest[column] - len(text))))
            used += max(widest[column], len(text)) + 2
        lines.append((indent + "  ".join(cells)).rstrip())
    stream.write("\n".join(lines) + "\n")
    return cut


class DrawnLine:
    """A line that is drawn again in its place, for progress. Draws nothing outside a terminal. Thread-safe."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._lock = threading.Lock()
        self._drawn = False
        self.shows: Final = is_terminal(self._stream)

    def draw(self, text: str) -> None:
        self._write(shortened(harmless(text), (width(self._stream) or 80) - 1), drawn=True)

    def clear(self) -> None:
        """Removes what was drawn, so that the next output begins the line."""
        if self._drawn:
            self._write("", drawn=False)

    def _write(self, text: str, *, drawn: bool) -> None:
        if self.shows:
            with self._lock:
                self._stream.write(f"\r\x1b[K{text}")
                self._stream.flush()
                self._drawn = drawn


def bar(part: float) -> str:
    """Returns a progress bar for a part of the whole, from 0 to 1."""
    filled = round(_BAR * min(max(part, 0.0), 1.0))
    return f"[{'#' * filled}{'.' * (_BAR - filled)}]"


async def typed_line(prompt: str) -> str:
    """Returns a line from standard input. Raises `EOFError` at its end, `OSError` if it cannot be watched."""
    import asyncio

    sys.stderr.write(prompt)
    sys.stderr.flush()
    loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()
    typed: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        if not typed.done():
            typed.set_result(os.read(fd, 65536))

    loop.add_reader(fd, read)
    try:
        data = await typed
    finally:
        loop.remove_reader(fd)
    if not data:
        raise EOFError
    return data.decode(errors="replace").rstrip("\r\n")
