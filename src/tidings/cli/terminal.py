"""What is shown to people: tables, colour and width on a terminal; plain text where the output goes elsewhere.

What a server says may hold anything: before it reaches a terminal, characters that would steer it are made visible.

One line at the end of a terminal that is drawn again and again: how far something is.
"""

import os
import re
import shutil
import sys
import threading
from collections.abc import Iterable, Sequence
from typing import Final, TextIO

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_STYLES: Final = {"name": "1", "dim": "2", "heading": "1;4", "good": "32", "bad": "31", "note": "33", "place": "36"}


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at this."""
    try:
        return stream.isatty()
    except ValueError:  # It is closed.
        return False


def colours(stream: TextIO) -> bool:
    """Whether colour is wanted there: on a terminal, unless NO_COLOR is set or the terminal is a dumb one."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width(stream: TextIO) -> int | None:
    """Characters in a line of the terminal; None where there is no end to it."""
    return max(20, shutil.get_terminal_size((80, 24)).columns) if is_terminal(stream) else None


def styled(text: str, style: str, stream: TextIO | None = None) -> str:
    """`text` in a style, if there are colours."""
    if not (text and style and colours(stream or sys.stdout)):
        return text
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def harmless(text: str) -> str:
    """`text` with the characters that steer a terminal, or reorder what is read, made visible."""
    return _CONTROL.sub(_visible, text)


def escaped(document: str) -> str:
    """A JSON document without the same characters: written as JSON lets them be."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    if found[0] == "\r":
        return ""
    if code < 0x20:
        return chr(0x2400 + code)
    return "\N{SYMBOL FOR DELETE}" if code == 0x7F else f"<U+{code:04X}>"


def one_line(text: str) -> str:
    """The first paragraph of a text, as one line."""
    return " ".join(harmless(text).strip().split("\n\n")[0].split())


def shortened(text: str, room: int) -> str:
    """`text` in at most so many characters; what was cut shows by its last."""
    return text if len(text) <= room else text[: max(room - 1, 0)] + "…"


def table(rows: Sequence[Sequence[str]], styles: Sequence[str], stream: TextIO, *, indent: str = "") -> bool:
    """Print rows in columns. On a terminal the last column is cut to what fits.

    Returns:
        Whether something was cut.
    """
    if not rows:
        return False
    rows = [[cell.replace("\n", "\N{SYMBOL FOR LINE FEED}") for cell in row] for row in rows]  # A row is a line.
    room, cut = width(stream), False
    widest = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    if room is not None:  # The first column is what people came for; the others share the rest.
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


def listed(names: Iterable[str], longest: int = 12) -> str:
    """Some names in a sentence; what is left out is counted."""
    all_names = list(names)
    shown = ", ".join(all_names[:longest])
    return shown if len(all_names) <= longest else f"{shown} and {len(all_names) - longest} more"


def size_text(size: int) -> str:
    """So many bytes, in words."""
    if size < 10_000:
        return "1 byte" if size == 1 else f"{size:,} bytes"
    return f"{size / 1000:,.0f} KB" if size < 10**7 else f"{size / 10**6:,.0f} MB"


_BAR: Final = 20


class DrawnLine:
    """A line on standard error. Where that is no terminal, nothing is drawn. May be used by several threads."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._lock = threading.Lock()
        self._drawn = False
        self.shows: Final = is_terminal(self._stream)
        """Whether somebody can see it."""

    def draw(self, text: str) -> None:
        """Show this in the place of what was shown before."""
        self._write(shortened(harmless(text), (width(self._stream) or 80) - 1), drawn=True)

    def clear(self) -> None:
        """Show nothing any more; whatever is written next begins the line."""
        if self._drawn:
            self._write("", drawn=False)

    def _write(self, text: str, *, drawn: bool) -> None:
        if self.shows:
            with self._lock:
                self._stream.write(f"\r\x1b[K{text}")
                self._stream.flush()
                self._drawn = drawn


def bar(part: float) -> str:
    """A part of the whole, between 0 and 1, to be seen at a glance."""
    filled = round(_BAR * min(max(part, 0.0), 1.0))
    return f"[{'#' * filled}{'.' * (_BAR - filled)}]"
