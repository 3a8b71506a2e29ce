"""Lines made of styled words, for widgets that draw line by line."""

from collections.abc import Iterable

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

Span = tuple[str, Style]
"""Words in one style."""

Line = list[Span]


def width_of(spans: Iterable[Span]) -> int:
    """How many columns they take."""
    return sum(cell_len(text) for text, _ in spans)


def fit(spans: Iterable[Span], width: int) -> Line:
    """As much of `spans` as goes into `width` columns; what is cut off is shown by an ellipsis."""
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
    """The columns from `start` on, `width` at most."""
    strip = Strip([Segment(text, style) for text, style in spans]).crop(start, start + width)
    return [(segment.text, segment.style or Style.null()) for segment in strip]


def row(width: int, left: Line, right: Line | None = None, ground: Style | None = None) -> Strip:
    """One line of exactly `width` columns: `left` cut as needed, `right` at its end if there is room for both."""
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
    """A paragraph broken at spaces where possible."""
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
