"""As much of a text as an answer has room for: cut at the end of a paragraph, or of a line, or of a word."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from tidings.web.packets.tokens import estimate

WIDEST: Final = 6
"""More characters than this are in no token, on average, of any text that people write."""

_SLACK: Final = 0.3
"""How much of the room may be left empty for a better place to cut."""


class Fit(NamedTuple):
    """A part of a text: from `start` up to `end`, of `total` characters."""

    text: str
    start: int
    end: int
    total: int

    @property
    def left(self) -> int:
        """How many characters follow."""
        return self.total - self.end


def fit(text: str, room: int, start: int = 0, *, measure: Callable[[str], int] = estimate) -> Fit:
    """The beginning of `text` from `start` on, as much as `room` tokens hold; at least one character."""
    total = len(text)
    start = min(max(start, 0), total)
    end = min(total, start + room * WIDEST)
    if measure(text[start:end]) > room:
        least, most = start, end
        while most - least > 1:
            middle = (least + most) // 2
            least, most = (middle, most) if measure(text[start:middle]) <= room else (least, middle)
        end = least
    if end < total:
        end = _better(text, start, end)
    return Fit(text[start:end], start, end, total)


def past_end(start: int, total: int) -> str:
    """What is said to who goes on where nothing is left; empty otherwise."""
    return f"(There is nothing from there on: the whole text has {total:,} characters.)" if start >= total > 0 else ""


def _better(text: str, start: int, end: int) -> int:
    """A place to cut, not far before `end`."""
    earliest = int(end - (end - start) * _SLACK)
    for mark in ("\n\n", "\n", ". ", " "):
        place = text.rfind(mark, earliest, end)
        if place > start:
            return place + len(mark)
    return max(end, start + 1)


def shares(sizes: Sequence[int], room: int) -> list[int]:
    """How the room is shared among several texts of these sizes: what a short one does not need is the others'."""
    given = [0] * len(sizes)
    left = room
    for place, number in enumerate(sorted(range(len(sizes)), key=lambda each: sizes[each])):
        given[number] = min(sizes[number], left // (len(sizes) - place))
        left -= given[number]
    return given
