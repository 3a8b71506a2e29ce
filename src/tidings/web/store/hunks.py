"""How changes become places to read: with lines around them, under their heading, within the room there is.

May import: `diff_model`, `headings`, `refining`, `sequences`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tidings.web.store.diff_model import Hunk, Line
from tidings.web.store.headings import Headings
from tidings.web.store.refining import refine
from tidings.web.store.sequences import Change

_MAX_LINE: Final = 600
"""How much is shown of one line, if there is a limit."""
_HEAD: Final = 40
"""What the first line of a hunk takes, beside the headings."""


class Room:
    """Room for `limit` characters; None: for everything.

    What was added is what people look for. So where there is not room for all that was `added` and `removed`, in
    characters, the latter takes about half of it, or what the former leaves.
    """

    def __init__(self, limit: int | None, added: int = 0, removed: int = 0) -> None:
        self.limited = limit is not None
        self._left: float = math.inf if limit is None else limit
        self._for_removed = self._left
        if limit is not None and added + removed > limit:
            self._for_removed -= min(added + limit // 5, limit // 2)

    def take(self, line: Line) -> Line | None:
        """The line, as it is shown; None if there is no room for it."""
        shown = _shortened(line) if self.limited else line
        size = len(shown.text) + 1
        if size > (min(self._left, self._for_removed) if line.sign == "-" else self._left):
            return None
        self.spend(size)
        if line.sign == "-":
            self._for_removed -= size
        return shown

    def spend(self, size: int) -> None:
        """Use some of it."""
        self._left -= size

    @property
    def full(self) -> bool:
        """Whether nothing more goes in."""
        return self._left <= _HEAD


@dataclass(frozen=True)
class Window:
    """The lines that are looked at, and what is around them."""

    old: list[str]
    new: list[str]
    first: int
    """How many lines stand above, on both sides."""
    headings: Headings
    """Of the new text."""
    context: int

    def hunks(self, changes: list[Change], room: Room) -> Iterator[Hunk]:
        """The places of these changes, as many as there is room for."""
        for group in groups(changes, 2 * self.context):
            hunk = None if room.full else self._hunk(group, room)
            if hunk is None:
                return
            yield hunk

    def _hunk(self, group: list[Change], room: Room) -> Hunk | None:
        start, new_start = (max(0, place - self.context) for place in (group[0].start, group[0].new_start))
        end = min(len(self.old), group[-1].end + self.context)
        new_end = min(len(self.new), group[-1].new_end + self.context)
        heading = self.headings.above(self.first + group[0].new_start)
        room.spend(_HEAD + len(heading))
        lines = tuple(self._lines(group, start, end, room))
        if all(line.sign == " " for line in lines):
            return None
        all_lines = end - start + sum(change.new_end - change.new_start for change in group)
        return Hunk(
            start=self.first + start + 1,
            count=end - start,
            new_start=self.first + new_start + 1,
            new_count=new_end - new_start,
            heading=heading,
            lines=lines,
            left_out=all_lines - len(lines),
        )

    def _lines(self, group: list[Change], start: int, end: int, room: Room) -> Iterator[Line]:
        place = start
        for change in group:
            if room.full:
                return
            yield from _taken(room, (Line(" ", line) for line in self.old[place : change.start]))
            gone, come = self.old[change.start : change.end], self.new[change.new_start : change.new_end]
            words, new_words = refine(gone, come)
            yield from _taken(room, (Line("-", *line) for line in zip(gone, words, strict=True)))
            yield from _taken(room, (Line("+", *line) for line in zip(come, new_words, strict=True)))
            place = change.end
        yield from _taken(room, (Line(" ", line) for line in self.old[place:end]))


def groups(changes: list[Change], distance: int) -> Iterator[list[Change]]:
    """Changes that have no more than `distance` lines between them."""
    group = changes[:1]
    for last, change in pairwise(changes):
        if change.start - last.end > distance:
            yield group
            group = []
        group.append(change)
    yield group


def _taken(room: Room, lines: Iterator[Line]) -> Iterator[Line]:
    for line in lines:
        taken = room.take(line)
        if taken is None:
            return
        yield taken


def _shortened(line: Line) -> Line:
    """A line with the part of it in sight that changed."""
    size = len(line.text)
    if size <= _MAX_LINE:
        return line
    first = line.words[0][0] if line.words else 0
    start = max(0, min(first - _MAX_LINE // 4, size - _MAX_LINE))
    end = start + _MAX_LINE
    lead = f"[{start:,} characters] " if start else ""
    rest = f" [{size - end:,} characters]" if end < size else ""
    ending = "\n" if rest and line.text.endswith("\n") else ""
    moved = len(lead) - start
    inside = [(max(one, start), min(other, end)) for one, other in line.words or () if one < end and other > start]
    words = None if line.words is None else tuple((one + moved, other + moved) for one, other in inside)
    return Line(line.sign, f"{lead}{line.text[start:end]}{rest}{ending}", words, size - _MAX_LINE)
