"""The difference of two versions of a page, or of two states of a feed, for people and models to read.

`diff` gives a unified diff, each place with the headings above it. Where something is left out, the text says how much.
Without a limit, and only then, applying it to `before` gives `after`, to the last character.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from typing import Final

from tidings._kit import diff as lines_diff
from tidings._kit.diff import DiffLine, Hunk, Spans
from tidings.web.documents.markdown import Sections, blocks_of
from tidings.web.extract.model import FeedEntry

MAX_CHARS: Final = 20_000  # The default length of the text of a difference.

_MAX_LINES: Final = 300_000  # Lines of each text, from the first that differs on, that are compared.
_MAX_LINE: Final = 600  # Characters of a line that are shown, if there is a limit.
_HEAD: Final = 40  # Characters of the first line of a hunk, besides the headings.
# No other character than a newline ends a line.
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_FIELDS: Final = ("title", "url", "published_at", "updated_at", "author", "summary")
_MAX_VALUE: Final = 300  # Characters of a title or a summary that are shown.


@dataclass(frozen=True)
class PageDiff:
    """The difference of two texts: the lines that differ, and a unified diff, which may show fewer.

    The text ends with lines in brackets for everything that is left out or inexact.
    """

    added: int
    removed: int
    text: str


def diff(before: str, after: str, *, context: int = 3, max_chars: int | None = MAX_CHARS) -> PageDiff:
    """Returns the difference of two texts, in about `max_chars` characters; None: without a limit."""
    if before == after:
        return PageDiff(0, 0, "")
    start, end = lines_diff.common_lines(before, after)
    begin = start  # Of the lines above, which end with a newline.
    for _ in range(context):
        begin = before.rfind("\n", 0, max(begin - 1, 0)) + 1
    lead, rest = _lines(before[begin:start]), _lines(before[len(before) - end :], context)
    old, new = (_lines(text[start : len(text) - end], _MAX_LINES) for text in (before, after))
    uncompared = sum(len(text) - start - end - sum(map(len, known)) for text, known in ((before, old), (after, new)))
    old, new = [*lead, *old, *rest], [*lead, *new, *rest]
    changes, exact = lines_diff.differing(old, new)
    gone = [line for change in changes for line in old[change.start : change.end]]
    come = [line for change in changes for line in new[change.new_start : change.new_end]]
    room = _Room(max_chars, sum(map(len, come)) + len(come), sum(map(len, gone)) + len(gone))
    sections = Sections(after, blocks_of(after))
    places = list(accumulate(map(len, new), initial=start - sum(map(len, lead))))  # of the lines in `after`
    above = before.count("\n", 0, start) - len(lead)
    groups = list(lines_diff.grouped(changes, context))
    hunks: list[Hunk] = []
    for group in groups:
        heading = sections.headings(places[min(group[0].new_start, len(new) - 1) + 1] - 1)
        room.left -= _HEAD + len(heading)
        hunk = lines_diff.make_hunk(
            old, new, group, context=context, above=above, heading=heading, words=_words_of_long, keep=room.fitting
        )
        if all(line.sign == " " for line in hunk.lines):
            break
        hunks.append(hunk)
    shown = Counter(line.sign for hunk in hunks for line in hunk.lines)
    notes: list[str] = []
    if any(hunk.left_out for hunk in hunks) or len(hunks) < len(groups):
        notes.append(
            f"Left out for lack of room: {len(groups) - len(hunks)} of {len(groups)} places; in all, "
            f"{len(come) - shown['+']:,} added and {len(gone) - shown['-']:,} removed lines. "
            "Read both versions to see everything."
        )
    if characters := sum(line.left_out for hunk in hunks for line in hunk.lines):
        notes.append(f"{characters:,} characters of long lines are left out.")
    if not exact:
        notes.append("So much changed that unchanged lines may be shown as removed and added.")
    if uncompared:
        notes.append(f"The last {uncompared:,} characters were not compared. Read both versions to see everything.")
    text = "".join([*(hunk.text for hunk in hunks), *(f"[{note}]\n" for note in notes)])
    return PageDiff(len(come), len(gone), text)


class _Room:
    """Room for `limit` characters; None: for everything.

    Added lines are what people look for. So where not all that was `added` and `removed` (in characters) fits, removed
    lines get about half of the room, or what the added ones leave.
    """

    def __init__(self, limit: int | None, added: int, removed: int) -> None:
        self._limited = limit is not None
        self.left = self._for_removed = math.inf if limit is None else limit
        if limit is not None and added + removed > limit:
            self._for_removed -= min(added + limit // 5, limit // 2)

    def fitting(self, lines: Iterator[DiffLine]) -> Iterator[DiffLine]:
        """Yields lines as they are shown, as long as there is room."""
        for line in lines:
            shown = _shortened(line) if self._limited else line
            size = len(shown.text) + 1
            if size > (min(self.left, self._for_removed) if line.sign == "-" else self.left):
                return
            self.left -= size
            if line.sign == "-":
                self._for_removed -= size
            yield shown


def _words_of_long(gone: Sequence[str], come: Sequence[str]) -> tuple[Spans, Spans]:
    """Marks the words that differ where `_shortened` needs them."""
    long = any(len(line) > _MAX_LINE for line in (*gone, *come))
    return (lines_diff.changed_words if long else lines_diff.no_words)(gone, come)


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
    return replace(line, text=f"{lead}{line.text[start:end]}{rest}{ending}", left_out=size - _MAX_LINE)


def _lines(text: str, most: int | None = None) -> list[str]:
    """Returns the lines of a text with their newlines; no more than `most`."""
    return [found[0] for found in islice(_LINE.finditer(text), most)]


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
        paragraphs = [
            f"+ {_named(one)}\n" + (f"  {_short(one.summary)}\n" if one.summary else "") for one in self.added
        ]
        for change in self.changed:
            lines = [f"~ {_named(change.after)}\n"]
            for field in change.fields:
                before, after = (_short(getattr(entry, field) or "") for entry in (change.before, change.after))
                lines.append(f"  - {field}: {before}\n  + {field}: {after}\n")
            paragraphs.append("".join(lines))
        paragraphs += (f"- {_named(entry)}\n" for entry in self.removed)
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


def _named(entry: FeedEntry) -> str:
    when = f" ({entry.published_at})" if entry.published_at else ""
    return f"{_short(entry.title or entry.id)}{when} {_short(entry.url)}".rstrip()


def _short(value: str) -> str:
    line = " ".join(value[: 4 * _MAX_VALUE].split())
    missing = len(value) - _MAX_VALUE
    return line if len(line) <= _MAX_VALUE else f"{line[:_MAX_VALUE]} [{missing:,} characters]"
