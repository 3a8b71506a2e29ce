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

The types of a difference: lines, the places where they stand, and what is not shown.

May import: `refining`.

Which headings of a markdown text a line stands under.

May import: nothing of Tidings.

How changes become places to read: with lines around them, under their heading, within the room there is.

May import: `diff_model`, `headings`, `refining`, `sequences`.

What changed from one state of a feed to the next, entry by entry.

A feed is a window on what was published: entries at its end fall out of it in the course of time, which is no news.
They are counted, not listed.

May import: `extract.model`.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from tidings.web.extract.model import FeedEntry
from tidings.web.store.ends import common_lines
from tidings.web.store.refining import Span, refine
from tidings.web.store.sequences import Change, Changes, compare

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
class PageDiff:
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


_HEADING: Final = re.compile(r"^ {0,3}(?:(#{1,6})[ \t]+([^\n]*)|(`{3,}|~{3,}))", re.MULTILINE)
_LONGEST: Final = 160
"""How much is shown of a line of headings."""


class Headings:
    """The headings of `text`, outside of code. They are looked for only as far down as somebody asks."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found = _HEADING.finditer(text)
        self._next = next(self._found, None)
        self._line = 0
        self._counted = 0
        self._fence = ""
        self._open: list[tuple[int, str]] = []

    def above(self, line: int) -> str:
        """The headings that `line` stands under, its own included: `Like > This`.

        Lines count from 0. Each question has to be about a line that is not above that of the question before.
        """
        while self._next is not None and self._at(self._next.start()) <= line:
            self._pass(self._next)
            self._next = next(self._found, None)
        path = " > ".join(title for _, title in self._open if title)
        return path if len(path) <= _LONGEST else f"{path[: _LONGEST - 1]}…"

    def _at(self, place: int) -> int:
        self._line += self._text.count("\n", self._counted, place)
        self._counted = place
        return self._line

    def _pass(self, match: re.Match[str]) -> None:
        hashes, title, mark = match.groups()
        if mark:
            if not self._fence:
                self._fence = mark
            elif mark.startswith(self._fence):
                self._fence = ""
        elif not self._fence:
            while self._open and self._open[-1][0] >= len(hashes):
                self._open.pop()
            self._open.append((len(hashes), title.strip(" \t#")))


_MAX_LINE: Final = 600
"""How much is shown of one line, if there is a limit."""
_HEAD: Final = 40
"""What the first line of a hunk takes, beside the headings."""


class DiffRoom:
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

    def hunks(self, changes: list[Change], room: DiffRoom) -> Iterator[Hunk]:
        """The places of these changes, as many as there is room for."""
        for group in groups(changes, 2 * self.context):
            hunk = None if room.full else self._hunk(group, room)
            if hunk is None:
                return
            yield hunk

    def _hunk(self, group: list[Change], room: DiffRoom) -> Hunk | None:
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

    def _lines(self, group: list[Change], start: int, end: int, room: DiffRoom) -> Iterator[Line]:
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


def _taken(room: DiffRoom, lines: Iterator[Line]) -> Iterator[Line]:
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


__all__ = ["MAX_CHARS", "Hunk", "LeftOut", "Line", "PageDiff", "diff"]

MAX_CHARS: Final = 20_000
"""How long the text of a diff is, if nobody says otherwise."""

_MAX_LINES: Final = 600_000
"""Beyond this many lines between the first and the last that changed, all of them count as replaced."""
# No other character than a newline ends a line.
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")


def diff(before: str, after: str, *, context: int = 3, max_chars: int | None = MAX_CHARS) -> PageDiff:
    """What changed from `before` to `after`, in a text of about `max_chars` characters; None: without a limit."""
    if before == after:
        return PageDiff(0, 0, (), 0)
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
    hunks = tuple(window.hunks(changes, DiffRoom(max_chars, come, gone)))
    if most is not None:
        hunks = _counted(hunks, removed + len(lead) + len(rest), added + len(lead) + len(rest))
    places = sum(1 for _ in groups(changes, 2 * context))
    return PageDiff(added, removed, hunks, places, _left_out(hunks, places, added, removed), exact)


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


"""How long the text of a diff is, if nobody says otherwise."""
_FIELDS: Final = ("title", "url", "published_at", "updated_at", "author", "summary")
_MAX_VALUE: Final = 300
"""How much is shown of a title or a summary."""

_Key = tuple[str, int]


@dataclass(frozen=True)
class EntryChange:
    """An entry that says something else than before."""

    before: FeedEntry
    after: FeedEntry
    fields: tuple[str, ...]
    """In what it differs."""


@dataclass(frozen=True)
class FeedDiff:
    """The difference of two states of a feed, in the order of the feed."""

    added: tuple[FeedEntry, ...]
    removed: tuple[FeedEntry, ...]
    """Taken out from among others that are still there."""
    changed: tuple[EntryChange, ...]
    fallen_out: int = 0
    """How many are gone because they were the last, and newer ones came."""

    @property
    def same(self) -> bool:
        """Whether there is nothing new; entries that fell out are not."""
        return not (self.added or self.removed or self.changed)

    def text(self, max_chars: int | None = MAX_CHARS) -> str:
        """For people and models to read, in about so many characters; what is left out is counted."""
        paragraphs = [*_paragraphs(self)]
        shown: list[str] = []
        room = max_chars
        for paragraph in paragraphs:
            if room is not None and len(paragraph) > room:
                shown.append(f"[{len(paragraphs) - len(shown)} more of {len(paragraphs)} changes are left out]\n")
                break
            shown.append(paragraph)
            room = None if room is None else room - len(paragraph)
        if self.fallen_out:
            shown.append(f"[{self.fallen_out} old entries fell out at the end of the feed]\n")
        return "".join(shown)


def diff_feeds(before: Sequence[FeedEntry], after: Sequence[FeedEntry]) -> FeedDiff:
    """What changed from `before` to `after`. An entry is known by its id, else by its URL, else by its title."""
    old, new = _keyed(before), _keyed(after)
    gone = [key for key in old if key not in new]
    fallen = _at_the_end(list(old), new) if any(key not in old for key in new) else 0
    changed = (_compared(old[key], entry) for key, entry in new.items() if key in old)
    return FeedDiff(
        added=tuple(entry for key, entry in new.items() if key not in old),
        removed=tuple(old[key] for key in gone[: len(gone) - fallen]),
        changed=tuple(change for change in changed if change.fields),
        fallen_out=fallen,
    )


def _keyed(entries: Sequence[FeedEntry]) -> dict[_Key, FeedEntry]:
    keyed: dict[_Key, FeedEntry] = {}
    count: dict[str, int] = {}
    for entry in entries:
        name = entry.id or entry.url or entry.title
        # Feeds are not always right in calling an id unique.
        count[name] = count.get(name, 0) + 1
        keyed[name, count[name]] = entry
    return keyed


def _at_the_end(old: list[_Key], new: dict[_Key, FeedEntry]) -> int:
    """How many of the old ones are gone behind the last that is still there; none if no old one is."""
    for count, key in enumerate(reversed(old)):
        if key in new:
            return count
    return 0


def _compared(before: FeedEntry, after: FeedEntry) -> EntryChange:
    return EntryChange(
        before, after, tuple(field for field in _FIELDS if getattr(before, field) != getattr(after, field))
    )


def _paragraphs(diff: FeedDiff) -> Iterator[str]:
    for entry in diff.added:
        yield f"+ {_named(entry)}\n" + (f"  {_short(entry.summary)}\n" if entry.summary else "")
    for change in diff.changed:
        lines = [f"~ {_named(change.after)}"]
        for field in change.fields:
            before, after = (_short(getattr(entry, field) or "") for entry in (change.before, change.after))
            lines += [f"  - {field}: {before}", f"  + {field}: {after}"]
        yield "\n".join(lines) + "\n"
    for entry in diff.removed:
        yield f"- {_named(entry)}\n"


def _named(entry: FeedEntry) -> str:
    when = f" ({entry.published_at})" if entry.published_at else ""
    return f"{_short(entry.title or entry.id)}{when} {_short(entry.url)}".rstrip()


def _short(value: str) -> str:
    line = " ".join(value[: 4 * _MAX_VALUE].split())
    missing = len(value) - _MAX_VALUE
    return line if len(line) <= _MAX_VALUE else f"{line[:_MAX_VALUE]} [{missing:,} characters]"
