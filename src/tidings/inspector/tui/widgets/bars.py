"""One line of styled words, some of them clickable: the facts, the tabs, the head of a list, the numbers."""

from collections.abc import Iterable
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from tidings.inspector.tui.theme import colors_of

Span = tuple[str, Style]  # Words in one style.

Line = list[Span]


def width_of(spans: Iterable[Span]) -> int:
    """Returns the number of columns."""
    return sum(cell_len(text) for text, _ in spans)


def fit(spans: Iterable[Span], width: int) -> Line:
    """Cuts `spans` to `width` columns, with an ellipsis."""
    fitted: Line = []
    left = width
    for text, style in spans:
        cells = cell_len(text)
        if cells <= left:
            fitted.append((text, style))
            left -= cells
            continue
        if left > 0:
            fitted.append((set_cell_size(text, left - 1) + "…", style))
        break
    return fitted


def crop(spans: Iterable[Span], start: int, width: int) -> Line:
    """Returns the columns from `start` on, at most `width`."""
    strip = Strip([Segment(text, style) for text, style in spans]).crop(start, start + width)
    return [(segment.text, segment.style or Style.null()) for segment in strip]


def row(width: int, left: Line, right: Line | None = None, ground: Style | None = None) -> Strip:
    """Returns one line of exactly `width` columns: `left` cut as needed, `right` at its end if both fit."""
    right = right or []
    reserved = width_of(right) + 1 if right else 0
    if reserved and reserved > width - 8:
        right, reserved = [], 0
    left = fit(left, width - reserved)
    gap = width - width_of(left) - width_of(right)
    spans = [*left, (" " * max(0, gap), Style.null()), *right]
    segments = [Segment(text, (ground + style) if ground else style) for text, style in spans if text]
    return Strip(segments, width)


def wrap(text: str, width: int) -> list[str]:
    """Breaks a paragraph, at spaces if possible."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        current = ""
        for given in paragraph.split(" "):
            word = given
            while cell_len(word) > width > 0:
                if current:
                    lines.append(current)
                    current = ""
                lines.append(word[:width])
                word = word[width:]
            joined = f"{current} {word}" if current else word
            if cell_len(joined) > width and current:
                lines.append(current)
                current = word
            else:
                current = joined
        lines.append(current)
    return lines


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

    DEFAULT_CSS = """
    Bar { height: 1; width: 1fr; background: $t-pane; }
    """

    def __init__(self, ground: str = "pane", id: str | None = None) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self._ground = ground
        self._ways: list[Parts] = [([], [])]

    def show(self, left: list[BarPart], right: list[BarPart] | None = None, *shorter: Parts) -> None:
        """Shows these parts; if they do not fit, the first of the `shorter` ones that do.

        Draws nothing if they are unchanged.
        """
        ways = [(left, right or []), *shorter]
        if ways != self._ways:
            self._ways = ways
            self.refresh()

    @property
    def text(self) -> str:
        return "".join(part.text for parts in self._ways[0] for part in parts)

    def fits(self, way: Parts) -> bool:
        return room_for(way) <= self.size.width

    @property
    def _shown(self) -> Parts:
        return next((way for way in self._ways if self.fits(way)), self._ways[-1])

    def render_line(self, y: int) -> Strip:
        colors = colors_of(self)
        left, right = ([(part.text, colors[part.ink]) for part in parts] for parts in self._shown)
        ground = Style(bgcolor=getattr(colors, self._ground))
        if y:
            return row(self.size.width, [], None, ground)
        return row(self.size.width, [(" ", colors["soft"]), *left], [*right, (" ", colors["soft"])], ground)

    async def on_click(self, event: events.Click) -> None:
        part = self._part_at(event.x)
        if part is not None and part.action:
            await (self.parent or self).run_action(part.action)  # type: ignore[union-attr]

    def _part_at(self, x: int) -> BarPart | None:
        left, right = self._shown
        begin = self.size.width - cells(right) - 1
        for parts, start in ((right, begin), (left, 1)):
            at = start
            for part in parts:
                end = at + cell_len(part.text)
                if at <= x < end:
                    return part
                at = end
        return None


def cells(parts: list[BarPart]) -> int:
    """Returns the number of columns."""
    return sum(cell_len(part.text) for part in parts)


def room_for(way: Parts) -> int:
    """Returns the number of columns of a line, with its margins."""
    left, right = way
    return cells(left) + 1 + (cells(right) + 2 if right else 0)
