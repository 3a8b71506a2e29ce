"""Texts from servers as a terminal can show them; and one line of styled words, some of them clickable."""

from collections.abc import Iterable
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from tidings._kit import text as texts
from tidings.inspector.tui.theme import ColorScheme, colors_of

MARK = "·"  # Replaces a character that a terminal would obey.


def one_line(value: object, limit: int = 500) -> str:
    """Returns a text for a row: without line breaks and control characters, at most `limit` characters."""
    short = str(value)[:limit]
    return texts.harmless(short.replace("\r\n", " ").replace("\n", " ").replace("\t", " "), mark=MARK)


def lines_of(value: str) -> list[str]:
    """Returns the lines of a text, each without control characters."""
    return [texts.harmless(line.expandtabs(4), mark=MARK) for line in value.replace("\r\n", "\n").split("\n")]


def clock(at: float | None, *, millis: bool = False) -> str:
    """Returns the time of day; empty for None."""
    return "" if at is None else texts.clock(at, milliseconds=millis)


def took(seconds: float | None) -> str:
    """Returns a duration; empty for None."""
    return "" if seconds is None else texts.duration(seconds)


def size(count: int) -> str:
    """Returns a number of bytes in words."""
    return texts.size_text(count, short=True)


Line = list[tuple[str, str]]  # Words, each with the name of its style.
Drawn = list[tuple[Line, Line]]  # The lines of a row, each with a left and a right part.


def width_of(line: Iterable[tuple[str, ...]]) -> int:
    """Returns the number of columns of words."""
    return sum(cell_len(text) for text, *_ in line)


def row(colors: ColorScheme, ground: str, width: int, left: Line, right: Line | None = None) -> Strip:
    """Returns one line of exactly `width` columns: `left` cut as needed, `right` at its end if both fit."""
    right = right if right and width_of(right) + 1 <= width - 8 else []
    reserved = width_of(right) + 1 if right else 0
    room = width - reserved
    segments: list[Segment] = []
    for text, ink in left:
        cells = cell_len(text)
        shown = text if cells <= room else _cut(text, room)
        if shown:
            segments.append(Segment(shown, colors[ground] + colors[ink]))
        room -= cells
        if room < 0:
            break
    if gap := max(0, room) + reserved - width_of(right):
        segments.append(Segment(" " * gap, colors[ground]))
    segments += [Segment(text, colors[ground] + colors[ink]) for text, ink in right if text]
    return Strip(segments, width)


def _cut(text: str, room: int) -> str:
    """Returns the part of a text that fits in `room` columns: of a word, such as a URI, its ends, which tell most."""
    if room <= 0:
        return ""
    sentence = " " in text.strip() and "://" not in text.split(maxsplit=1)[0]
    scheme = text.find("://") + 3
    head = scheme if 2 < scheme <= room * 2 // 5 else room - 1 - room * 3 // 5
    tail = 0 if room < 8 or sentence or len(text) > 1000 else room - 1 - head
    return set_cell_size(text, room - 1 - tail) + "…" + (set_cell_size(text[::-1], tail)[::-1] if tail else "")


class BarPart(NamedTuple):
    """Words in a color of the scheme; with an action they can be clicked."""

    text: str
    ink: str = "soft"
    action: str = ""


def choice(label: str, action: str, *, on: bool) -> BarPart:
    """Returns one of several parts to choose from; `on` marks the chosen one."""
    return BarPart(label, "b-accent on chosen" if on else "soft", action)


Parts = tuple[list[BarPart], list[BarPart]]  # The parts on the left, and on the right.


class Bar(Widget):
    """A line of parts on the left and on the right."""

    def __init__(self, ground: str = "pane", id: str | None = None) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self._ground = f"on {ground}"
        self._ways: list[Parts] = [([], [])]

    def show(self, left: list[BarPart], right: list[BarPart] | None = None, *shorter: Parts) -> None:
        """Shows these parts, or the first of the `shorter` ones that fit. Draws nothing if they are unchanged."""
        ways = [(left, right or []), *shorter]
        if ways != self._ways:
            self._ways = ways
            self.refresh()

    def fits(self, way: Parts) -> bool:
        left, right = way
        return width_of(left) + 1 + (width_of(right) + 2 if right else 0) <= self.size.width

    @property
    def _shown(self) -> Parts:
        return next((way for way in self._ways if self.fits(way)), self._ways[-1])

    def render_line(self, y: int) -> Strip:
        left, right = ([(part.text, part.ink) for part in parts] for parts in self._shown)
        return row(colors_of(self), self._ground, self.size.width, [(" ", "soft"), *left], [*right, (" ", "soft")])

    async def on_click(self, event: events.Click) -> None:
        left, right = self._shown
        for parts, start in ((right, self.size.width - width_of(right) - 1), (left, 1)):
            at = start
            for part in parts:
                end = at + cell_len(part.text)
                if at <= event.x < end:
                    if part.action:
                        await (self.parent or self).run_action(part.action)  # type: ignore[union-attr]
                    return
                at = end
