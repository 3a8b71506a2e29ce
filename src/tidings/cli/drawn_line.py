"""One line at the end of a terminal that is drawn again and again: how far something is."""

import sys
import threading
from typing import Final, TextIO

from tidings.cli.terminal import harmless, is_terminal, shortened, width

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
