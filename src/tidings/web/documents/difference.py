"""The difference of two versions of a page, or of two states of a feed, for people and models to read.

`diff` gives a unified diff, each place with the headings above it. Within a replaced line the words that differ are
marked. It is bounded in time and in size: where something is left out, the text and `left_out` say how much. Without a
limit, and only then, applying it to `before` gives `after`, to the last character.

`diff_feeds` compares entry by entry. Entries that fall out at the end of a feed in the course of time are only counted.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from typing import Final

from tidings._kit import diff as lines_diff
from tidings._kit.diff import DiffLine, Hunk, Replaced, Spans
from tidings.web.documents.markdown import Sections, blocks_of
from tidings.web.extract.model import FeedEntry

MAX_CHARS: Final = 20_000  # The default length of the text of a difference.

# Beyond this many lines between the first and the last that changed, all of them count as replaced.
_MAX_LINES: Final = 600_000
_MAX_LINE: Final = 600  # Characters of a line that are shown, if there is a limit.
_HEAD: Final = 40  # Characters of the first line of a hunk, besides the headings.
# No other character than a newline ends a line.
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_FIELDS: Final = ("title", "url", "published_at", "updated_at", "author", "summary")
_MAX_VALUE: Final = 300  # Characters of a title or a summary that are shown.


@dataclass(frozen=True)
class LeftOut:
    """The parts of a difference that are not shown."""

    places: int  # Hunks that are missing altogether.
    added: int
    removed: int  # Lines, in these and in hunks that are not shown in full.
    characters: int  # Of lines that are not shown in full.


@dataclass(frozen=True)
class PageDiff:
    """The difference of two texts."""

    added: int
    removed: int  # In lines; those that are left out count.
    hunks: tuple[Hunk, ...]
    places: int  # The number of hunks; fewer may be shown.
    left_out: LeftOut | None = None
    exact: bool = True  # False: so much changed that unchanged lines may be shown as removed and added.

    @property
    def text(self) -> str:
        """A unified diff, with lines in brackets at the end for everything that is left out or inexact."""
        return "".join(hunk.text for hunk in self.hunks) + "".join(f"[{note}]\n" for note in self._notes())

    def _notes(self) -> Iterator[str]:
        if self.left_out and (self.left_out.places or self.left_out.added or self.left_out.removed):
            yield (
                f"Left out for lack of room: {self.left_out.places} of {self.places} places; in all, "
                f"{self.left_out.added:,} added and {self.left_out.removed:,} removed lines. "
                "Read both versions to see everything."
            )
        if self.left_out and self.left_out.characters:
            yield f"{self.left_out.characters:,} characters of long lines are left out."
        if not self.exact:
            yield "So much changed that unchanged lines may be shown as removed and added."


def diff(before: str, after: str, *, context: int = 3, max_chars: int | None = MAX_CHARS) -> PageDiff:
    """Returns the difference of two texts, in about `max_chars` characters; None: without a limit."""
    if before == after:
        return PageDiff(0, 0, (), 0)
    start, end = lines_diff.common_lines(before, after)
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    removed, added = _count(old), _count(new)
    huge = removed + added > _MAX_LINES
    # Of too many lines, no more are looked at than could be shown.
    most = max_chars if huge else None
    lead, rest = _last_lines(before[:start], context), _lines(before[len(before) - end :], context)
    old_lines, new_lines = [*lead, *_lines(old, most), *rest], [*lead, *_lines(new, most), *rest]
    if huge:
        everything = Replaced(len(lead), len(old_lines) - len(rest), len(lead), len(new_lines) - len(rest))
        changes, exact = lines_diff.Differing([everything], exact=False)
    else:
        changes, exact = lines_diff.differing(old_lines, new_lines)
    if most is None:
        removed = sum(change.end - change.start for change in changes)
        added = sum(change.new_end - change.new_start for change in changes)
    gone = sum(len(line) + 1 for change in changes for line in old_lines[change.start : change.end])
    come = sum(len(line) + 1 for change in changes for line in new_lines[change.new_start : change.new_end])
    room = DiffRoom(max_chars, come, gone)
    above = before.count("\n", 0, start) - len(lead)
    groups = list(lines_diff.grouped(changes, context))
    sections = Sections(after, blocks_of(after))
    places = list(accumulate(map(len, new_lines), initial=start - sum(map(len, lead))))  # of the lines in `after`
    first_lines = (min(group[0].new_start, len(new_lines) - 1) for group in groups)
    headings = [sections.headings(places[line + 1] - 1) for line in first_lines]
    hunks = tuple(_hunks(old_lines, new_lines, groups, room, headings=headings, above=above, context=context))
    if most is not None:  # Not all lines of the one hunk were looked at.
        around = len(lead) + len(rest)
        hunks = tuple(_counted(hunk, removed + around, added + around) for hunk in hunks)
    return PageDiff(added, removed, hunks, len(groups), _left_out(hunks, len(groups), added, removed), exact)


class DiffRoom:
    """Room for `limit` characters; None: for everything.

    Added lines are what people look for. So where not all that was `added` and `removed` (in characters) fits, removed
    lines get about half of the room, or what the added ones leave.
    """

    def __init__(self, limit: int | None, added: int = 0, removed: int = 0) -> None:
        self.limited = limit is not None
        self.left: float = math.inf if limit is None else limit
        self._for_removed = self.left
        if limit is not None and added + removed > limit:
            self._for_removed -= min(added + limit // 5, limit // 2)

    def fitting(self, lines: Iterator[DiffLine]) -> Iterator[DiffLine]:
        """Yields lines as they are shown, as long as there is room."""
        for line in lines:
            shown = _shortened(line) if self.limited else line
            size = len(shown.text) + 1
            if size > (min(self.left, self._for_removed) if line.sign == "-" else self.left):
                return
            self.left -= size
            if line.sign == "-":
                self._for_removed -= size
            yield shown

    @property
    def full(self) -> bool:
        """True if nothing more fits."""
        return self.left <= _HEAD


def _hunks(
    old: list[str],
    new: list[str],
    groups: list[list[Replaced]],
    room: DiffRoom,
    *,
    headings: Sequence[str],
    above: int,
    context: int,
) -> Iterator[Hunk]:

    def words(gone: Sequence[str], come: Sequence[str]) -> tuple[Spans, Spans]:
        # Called at the beginning of each change: once the room is full there, nothing more is shown or compared.
        if room.full:
            room.left -= _HEAD
            return lines_diff.no_words(gone, come)
        return lines_diff.changed_words(gone, come)

    for group, heading in zip(groups, headings, strict=True):
        if room.full:
            return
        room.left -= _HEAD + len(heading)
        hunk = lines_diff.make_hunk(
            old, new, group, context=context, above=above, heading=heading, words=words, keep=room.fitting
        )
        if all(line.sign == " " for line in hunk.lines):
            return
        yield hunk


def _counted(hunk: Hunk, count: int, new_count: int) -> Hunk:
    missing = hunk.left_out + count + new_count - hunk.count - hunk.new_count
    return replace(hunk, count=count, new_count=new_count, left_out=missing)


def _left_out(hunks: tuple[Hunk, ...], places: int, added: int, removed: int) -> LeftOut | None:
    lines = [line for hunk in hunks for line in hunk.lines]
    missing = LeftOut(
        places=places - len(hunks),
        added=added - sum(line.sign == "+" for line in lines),
        removed=removed - sum(line.sign == "-" for line in lines),
        characters=sum(line.left_out for line in lines),
    )
    # Of a hunk, lines around a change may be left out, too, which are neither added nor removed.
    return missing if any(vars(missing).values()) or any(hunk.left_out for hunk in hunks) else None


def _shortened(line: DiffLine) -> DiffLine:
    """Returns a line with the part in sight that changed."""
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
    return replace(line, text=f"{lead}{line.text[start:end]}{rest}{ending}", words=words, left_out=size - _MAX_LINE)


def _lines(text: str, most: int | None) -> list[str]:
    """Returns the lines of a text with their newlines; no more than `most`."""
    return [found[0] for found in islice(_LINE.finditer(text), most)] if most is not None else _LINE.findall(text)


def _last_lines(text: str, most: int) -> list[str]:
    """Returns the last lines of a text that ends with a newline, or is empty."""
    begin = len(text)
    for _ in range(most):
        begin = text.rfind("\n", 0, max(begin - 1, 0)) + 1
    return _LINE.findall(text, begin)


def _count(text: str) -> int:
    return text.count("\n") + (text != "" and not text.endswith("\n"))


@dataclass(frozen=True)
class EntryChange:
    """An entry that differs from before."""

    before: FeedEntry
    after: FeedEntry
    fields: tuple[str, ...]  # The fields that differ.


@dataclass(frozen=True)
class FeedDiff:
    """The difference of two states of a feed, in the order of the feed."""

    added: tuple[FeedEntry, ...]
    removed: tuple[FeedEntry, ...]  # Removed from among others that are still there.
    changed: tuple[EntryChange, ...]
    fallen_out: int = 0  # The number of entries that are gone because they were the last, and newer ones came.

    @property
    def same(self) -> bool:
        """True if there is nothing new; entries that fell out do not count."""
        return not (self.added or self.removed or self.changed)

    def text(self, max_chars: int | None = MAX_CHARS) -> str:
        """Returns the changes in about `max_chars` characters; what is left out is counted."""
        paragraphs = list(_paragraphs(self))
        ends = accumulate(map(len, paragraphs))
        fitting = sum(max_chars is None or end <= max_chars for end in ends)
        shown = paragraphs[:fitting]
        if fitting < len(paragraphs):
            shown.append(f"[{len(paragraphs) - fitting} more of {len(paragraphs)} changes are left out]\n")
        if self.fallen_out:
            shown.append(f"[{self.fallen_out} old entries fell out at the end of the feed]\n")
        return "".join(shown)


def diff_feeds(before: Sequence[FeedEntry], after: Sequence[FeedEntry]) -> FeedDiff:
    """Returns the difference of two states. An entry is identified by its id, else its URL, else its title."""
    old, new = _keyed(before), _keyed(after)
    gone = [key for key in old if key not in new]
    # Old entries behind the last one that is still there fell out, if newer ones came.
    behind = next((count for count, key in enumerate(reversed(old)) if key in new), 0)
    fallen = behind if any(key not in old for key in new) else 0
    changed = [
        EntryChange(old[key], entry, tuple(each for each in _FIELDS if getattr(old[key], each) != getattr(entry, each)))
        for key, entry in new.items()
        if key in old
    ]
    return FeedDiff(
        added=tuple(entry for key, entry in new.items() if key not in old),
        removed=tuple(old[key] for key in gone[: len(gone) - fallen]),
        changed=tuple(change for change in changed if change.fields),
        fallen_out=fallen,
    )


def _keyed(entries: Sequence[FeedEntry]) -> dict[tuple[str, int], FeedEntry]:
    keyed: dict[tuple[str, int], FeedEntry] = {}
    count: Counter[str] = Counter()
    for entry in entries:
        name = entry.id or entry.url or entry.title
        count[name] += 1  # The ids of some feeds are not unique.
        keyed[name, count[name]] = entry
    return keyed


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
