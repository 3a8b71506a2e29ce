"""What changed from one version of a page to the next, for people and models to read.

    diff(before, after).text

is a unified diff, line by line, each place with the heading that it stands under. Within a replaced line the words
that differ are known, too. It is pure, and bounded in time and in size: where something is left out, the text and
`left_out` say how much. Without a limit, and only then, applying it to `before` gives `after`, to the last character.

    ends.py        what both have in common at their ends is set aside
    sequences.py   the lines that differ
    refining.py    the words that differ in them
    hunks.py       what is shown, with lines around it and headings (headings.py) above it

May import: the files above, `diff_model`.
"""

import re
from dataclasses import replace
from typing import Final

from tidings.web.store.diff_model import Diff, Hunk, LeftOut, Line
from tidings.web.store.ends import common_lines
from tidings.web.store.headings import Headings
from tidings.web.store.hunks import Room, Window, groups
from tidings.web.store.sequences import Change, Changes, compare

__all__ = ["MAX_CHARS", "Diff", "Hunk", "LeftOut", "Line", "diff"]

MAX_CHARS: Final = 20_000
"""How long the text of a diff is, if nobody says otherwise."""

_MAX_LINES: Final = 600_000
"""Beyond this many lines between the first and the last that changed, all of them count as replaced."""
# No other character than a newline ends a line.
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")


def diff(before: str, after: str, *, context: int = 3, max_chars: int | None = MAX_CHARS) -> Diff:
    """What changed from `before` to `after`, in a text of about `max_chars` characters; None: without a limit."""
    if before == after:
        return Diff(0, 0, (), 0)
    start, end = common_lines(before, after)
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    removed, added = _count(old), _count(new)
    huge = removed + added > _MAX_LINES
    # Of too many lines, no more are looked at than could be shown.
    most = max_chars if huge else None
    lead, rest = _last_lines(before[:start], context), _first_lines(before[len(before) - end :], context)
    window = Window(
        [*lead, *_lines(old, most), *rest],
        [*lead, *_lines(new, most), *rest],
        before.count("\n", 0, start) - len(lead),
        Headings(after),
        context,
    )
    changes, exact = _all(window, len(lead), len(rest)) if huge else compare(window.old, window.new)
    if most is None:
        removed = sum(change.end - change.start for change in changes)
        added = sum(change.new_end - change.new_start for change in changes)
    gone = sum(len(line) + 1 for change in changes for line in window.old[change.start : change.end])
    come = sum(len(line) + 1 for change in changes for line in window.new[change.new_start : change.new_end])
    hunks = tuple(window.hunks(changes, Room(max_chars, come, gone)))
    if most is not None:
        hunks = _counted(hunks, removed + len(lead) + len(rest), added + len(lead) + len(rest))
    places = sum(1 for _ in groups(changes, 2 * context))
    return Diff(added, removed, hunks, places, _left_out(hunks, places, added, removed), exact)


def _counted(hunks: tuple[Hunk, ...], count: int, new_count: int) -> tuple[Hunk, ...]:
    """The one hunk of lines that were not all looked at, with those counted."""
    return tuple(
        replace(
            hunk,
            count=count,
            new_count=new_count,
            left_out=hunk.left_out + count - hunk.count + new_count - hunk.new_count,
        )
        for hunk in hunks
    )


def _all(window: Window, lead: int, rest: int) -> Changes:
    """Everything is replaced, but for the lines around it."""
    return Changes([Change(lead, len(window.old) - rest, lead, len(window.new) - rest)], exact=False)


def _left_out(hunks: tuple[Hunk, ...], places: int, added: int, removed: int) -> LeftOut | None:
    lines = [line for hunk in hunks for line in hunk.lines]
    missing = LeftOut(
        places=places - len(hunks),
        added=added - sum(line.sign == "+" for line in lines),
        removed=removed - sum(line.sign == "-" for line in lines),
        characters=sum(line.left_out for line in lines),
    )
    return missing if any(vars(missing).values()) else None


def _lines(text: str, most: int | None) -> list[str]:
    """The lines of `text`, with their newlines; no more than `most`."""
    return _LINE.findall(text) if most is None else _first_lines(text, most)


def _first_lines(text: str, most: int) -> list[str]:
    end = 0
    for _ in range(most):
        found = text.find("\n", end)
        if found < 0:
            end = len(text)
            break
        end = found + 1
    return _LINE.findall(text, 0, end)


def _last_lines(text: str, most: int) -> list[str]:
    """The last lines of a text that ends with a newline, or is empty."""
    begin = len(text)
    for _ in range(most):
        begin = text.rfind("\n", 0, max(begin - 1, 0)) + 1
    return _LINE.findall(text, begin)


def _count(text: str) -> int:
    return text.count("\n") + (text != "" and not text.endswith("\n"))
