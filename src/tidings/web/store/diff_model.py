"""The types of a difference: lines, the places where they stand, and what is not shown.

May import: `refining`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tidings.web.store.refining import Span

_NO_NEWLINE: Final = "\\ No newline at end of file\n"


@dataclass(frozen=True)
class Line:
    """A line of a hunk."""

    sign: str
    """' ' as it was, '-' removed, '+' added."""
    text: str
    """With its newline, if it has one."""
    words: tuple[Span, ...] | None = None
    """Where the words stand that its counterpart does not have; none: it differs in spaces alone, or is only wrapped
    anew; None: it has no counterpart, all of it is new, or gone."""
    left_out: int = 0
    """How many characters of it are not shown."""


@dataclass(frozen=True)
class Hunk:
    """One place that changed, with some lines around it. Lines count from 1."""

    start: int
    count: int
    new_start: int
    new_count: int
    heading: str
    """The headings it stands under, `Like > This`; '' above the first."""
    lines: tuple[Line, ...]
    left_out: int = 0
    """How many lines of it are not shown."""

    @property
    def text(self) -> str:
        """As a unified diff has it."""
        places = f"-{_range(self.start, self.count)} +{_range(self.new_start, self.new_count)}"
        head = f"@@ {places} @@ {self.heading}".rstrip() + "\n"
        rest = f"[{self.left_out:,} more lines of this place are left out]\n" if self.left_out else ""
        return head + "".join(map(_rendered, self.lines)) + rest


@dataclass(frozen=True)
class LeftOut:
    """What a diff does not show."""

    places: int
    """Hunks that are missing altogether."""
    added: int
    removed: int
    """Lines, in these and in hunks that are not shown in full."""
    characters: int
    """Of lines that are not shown in full."""


@dataclass(frozen=True)
class Diff:
    """The difference of two texts."""

    added: int
    removed: int
    """In lines; those that are left out count."""
    hunks: tuple[Hunk, ...]
    places: int
    """How many hunks there are; fewer may be shown."""
    left_out: LeftOut | None = None
    exact: bool = True
    """False: so much changed that lines which stayed may be shown as removed and added."""

    @property
    def same(self) -> bool:
        """Whether nothing changed."""
        return not self.places

    @property
    def text(self) -> str:
        """A unified diff, with a last line in brackets for everything that is not as it should be."""
        return "".join(hunk.text for hunk in self.hunks) + "".join(f"[{note}]\n" for note in self._notes())

    def _notes(self) -> Iterator[str]:
        if self.left_out and (self.left_out.places or self.left_out.added or self.left_out.removed):
            yield (
                f"Left out for want of room: {self.left_out.places} of {self.places} places; in all, "
                f"{self.left_out.added:,} added and {self.left_out.removed:,} removed lines. "
                "Read both versions to see everything."
            )
        if self.left_out and self.left_out.characters:
            yield f"{self.left_out.characters:,} characters of long lines are left out."
        if not self.exact:
            yield "So much changed that lines which stayed may be shown as removed and added."


def _range(start: int, count: int) -> str:
    # A place without lines is named by the line above it.
    return f"{start if count else start - 1},{count}"


def _rendered(line: Line) -> str:
    return f"{line.sign}{line.text}" if line.text.endswith("\n") else f"{line.sign}{line.text}\n{_NO_NEWLINE}"
