"""Changes to the text of a note, as values, and what becomes of the text: pure functions, no files.

Whatever an edit does not name stays as it is, character for character. What is inserted takes on the note's own line
endings; a note ends with a line ending, or not, as it did before. Several edits are all made or none. Each sees the
result of those before it, except for line numbers: they always count the lines of the text as it was read, so that
nobody has to reckon; lines that an earlier edit of the same call has changed can then no longer be named.

May import: `property_edits`, `parts`, `sections`, `diffs`.

How two versions of a text differ, for people and agents to read: never long, never slow.

May import: nothing of Tidings.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches, unified_diff
from itertools import islice
from typing import Any

from tidings.vault.files.paths import shorten
from tidings.vault.notes.property_edits import remove_property, set_property
from tidings.vault.notes.sections import (
    NEWLINE,
    EditRefused,
    Mode,
    NotePart,
    TextChange,
    append,
    before_ending,
    block,
    find_block,
    line_of,
    line_starts,
    lines,
    named_lines,
    own_newline,
    prepend,
    section,
    section_change,
    with_newlines,
)

_LINES = 120
"""How many lines of a diff are shown."""
_WIDTH = 400
"""How many characters of a line are shown."""
_COMPARED = 1_500
"""How many lines of each side are compared one by one: beyond that it takes longer than anyone waits."""


def diff(before: str, after: str, path: str) -> str:
    """A unified diff; empty if both are the same. Says so where it leaves something out."""
    old, new = _split(before), _split(after)
    if before == after:
        return ""
    if old == new:
        return f"Only the line endings of {path} differ."
    start = _common(iter(old), iter(new), min(len(old), len(new)))
    end = _common(reversed(old), reversed(new), min(len(old), len(new)) - start)
    from_, skipped = max(start - 3, 0), max(end - 3, 0)
    old, new = old[from_ : len(old) - skipped], new[from_ : len(new) - skipped]
    if max(len(old), len(new)) > _COMPARED:
        return f"{path} differs from line {start + 1} on: {len(old)} lines there, {len(new)} here; too many to show."
    found = unified_diff(old, new, path, path, lineterm="")
    shown = [_shift(line, from_) for line in found]
    more = [f"… {len(shown) - _LINES} more lines"] if len(shown) > _LINES else []
    return "\n".join([*(line[:_WIDTH] for line in islice(shown, _LINES)), *more])


def _split(text: str) -> list[str]:
    lines = re.split(r"\r?\n", text)
    if lines[-1]:
        lines[-1] += "  (no line ending)"  # Else a missing one could not be seen.
        return lines
    return lines[:-1]


def _common(one: Iterator[str], other: Iterator[str], most: int) -> int:
    count = 0
    for left, right in islice(zip(one, other, strict=False), most):
        if left != right:
            break
        count += 1
    return count


def _shift(line: str, by: int) -> str:
    """A header of a hunk counts from the beginning of the text, not of what was compared."""
    match = re.fullmatch(r"@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@", line)
    if not match:
        return line
    return f"@@ -{int(match[1]) + by}{match[2] or ''} +{int(match[3]) + by}{match[4] or ''} @@"


__all__ = [
    "Edit",
    "EditRefused",
    "InsertAt",
    "NotePart",
    "RemoveProperty",
    "ReplaceBlock",
    "ReplaceLines",
    "ReplaceSection",
    "ReplaceText",
    "SetProperty",
    "append",
    "apply_edits",
    "block",
    "diff",
    "lines",
    "prepend",
    "section",
]


@dataclass(frozen=True, slots=True)
class ReplaceText:
    """Replaces a text that occurs once, or everywhere."""

    find: str
    replace: str
    all: bool = False


@dataclass(frozen=True, slots=True)
class ReplaceSection:
    """Replaces what stands under a heading, its sub-sections included, or adds to its end or its beginning.

    The heading itself stays, and so do the blank lines around the text. A `content` that begins with the heading once
    more is taken without it.
    """

    heading: str
    """`Tasks`, `Project#Tasks` or `## Tasks`."""
    content: str
    mode: Mode = "replace"
    create: bool = False
    """Whether to add the heading if there is none."""


@dataclass(frozen=True, slots=True)
class ReplaceBlock:
    """Replaces the text of a block; its id stays."""

    id: str
    content: str


@dataclass(frozen=True, slots=True)
class SetProperty:
    """Gives a property a value, whether or not it is there."""

    key: str
    value: Any


@dataclass(frozen=True, slots=True)
class RemoveProperty:
    """Removes a property, if it is there."""

    key: str


@dataclass(frozen=True, slots=True)
class ReplaceLines:
    """Replaces some lines, both included; an empty `content` removes them."""

    first: int
    last: int
    content: str


@dataclass(frozen=True, slots=True)
class InsertAt:
    """Inserts lines before a line; after the last with a number one higher."""

    line: int
    content: str


Edit = ReplaceText | ReplaceSection | ReplaceBlock | SetProperty | RemoveProperty | ReplaceLines | InsertAt


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """The text with all the edits made.

    Raises:
        EditRefused: One of them cannot be made.
    """
    places = _Places(text, edits)
    now = text
    for at, edit in enumerate(edits):
        try:
            changes = (
                places.changes(at, edit, now) if isinstance(edit, ReplaceLines | InsertAt) else _changes(now, edit)
            )
        except EditRefused as refusal:
            if len(edits) == 1:
                raise
            raise EditRefused(f"Edit {at + 1} of {len(edits)}: {refusal} None of the edits was made.") from refusal
        now = _applied(now, changes)
        places.move(changes)
    return now


def _applied(text: str, changes: Sequence[TextChange]) -> str:
    pieces: list[str] = []
    last = 0
    for change in changes:
        pieces += (text[last : change.start], change.text)
        last = change.end
    return "".join((*pieces, text[last:]))


def _changes(
    text: str, edit: ReplaceText | ReplaceSection | ReplaceBlock | SetProperty | RemoveProperty
) -> list[TextChange]:
    match edit:
        case ReplaceText():
            return _replace_text(text, edit)
        case ReplaceSection():
            return [section_change(text, edit.heading, edit.content, edit.mode, create=edit.create)]
        case ReplaceBlock():
            return [_replace_block(text, edit)]
        case SetProperty():
            return _difference(text, _property(lambda: set_property(text, edit.key, edit.value)))
        case RemoveProperty():
            return _difference(text, _property(lambda: remove_property(text, edit.key)))


def _property(change: Callable[[], str]) -> str:
    try:
        return change()
    except ValueError as error:
        raise EditRefused(str(error)) from error


def _replace_text(text: str, edit: ReplaceText) -> list[TextChange]:
    if not edit.find:
        raise EditRefused("The text to find is empty. Give the text to replace, or use append to add to the note.")
    # A line ending in the text to find means any: nobody sees which one a note has.
    wanted = r"\r?\n".join(map(re.escape, NEWLINE.split(edit.find)))
    found = list(re.finditer(wanted, text))
    if not found:
        raise EditRefused(f"The text {shorten(edit.find)} does not occur. {_similar(text, edit.find)}")
    if len(found) > 1 and not edit.all:
        where = named_lines(line_of(text, match.start()) for match in found[:50])
        raise EditRefused(
            f"The text occurs {len(found)} times ({where}). Give more of what surrounds it, or set all=true."
        )
    new = with_newlines(edit.replace, own_newline(text))
    return [TextChange(match.start(), match.end(), new) for match in found]


def _similar(text: str, find: str) -> str:
    first = max(NEWLINE.split(find[:10_000]), key=len).strip()
    candidates = {line.strip()[:120]: number for number, line in enumerate(NEWLINE.split(text, 2_000)[:2_000], 1)}
    near = get_close_matches(first[:120], candidates, n=1, cutoff=0.6)
    return f"The nearest is line {candidates[near[0]]}: {shorten(near[0])}." if near else "Read the note again."


def _replace_block(text: str, edit: ReplaceBlock) -> TextChange:
    found = find_block(text, edit.id)
    content = re.sub(rf"\s\^{re.escape(found.id)}\s*\Z", "", edit.content, flags=re.IGNORECASE).strip("\r\n")
    if not content.strip():
        raise EditRefused("A block cannot be empty. Give its new text, or replace the text and its id to remove both.")
    content = with_newlines(content, own_newline(text))
    if found.start == found.end:
        return TextChange(found.start, found.end, content + " ")
    mark = _MARK.match(text, found.start, found.end)
    whole = "\n" in text[found.end : text.find(f"^{found.id}", found.end)]  # With its id on a line of its own.
    if mark and not whole and not _MARK.match(content):
        content = mark[0] + content
    return TextChange(found.start, found.end, content)


_MARK = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[^\n]\][ \t]+)?|#{1,6}[ \t]+|>[ \t]*)")
"""What makes a line an item, a task, a heading or a quote: who gives the text of one alone means it to stay one."""


def _difference(before: str, after: str) -> list[TextChange]:
    """The one stretch in which two texts differ."""
    if before == after:
        return []
    start = _common_indent(len(before), len(after), lambda a, b: before[a:b] == after[a:b])
    most = min(len(before), len(after)) - start
    end = _common_indent(most, most, lambda a, b: before[-b or None : -a or None] == after[-b or None : -a or None])
    return [TextChange(start, len(before) - end, after[start : len(after) - end])]


def _common_indent(one: int, other: int, same: Callable[[int, int], bool]) -> int:
    """How many characters are the same, of texts of these lengths: found by halving, for a note may be long."""
    low, high = 0, min(one, other)
    while low < high:
        middle = (low + high + 1) // 2
        if same(low, middle):
            low = middle
        else:
            high = middle - 1
    return low


class _Places:
    """Where the lines that edits name have gone while the edits before them were made."""

    def __init__(self, text: str, edits: Sequence[Edit]) -> None:
        self._ranges: dict[int, tuple[int, int] | None] = {}
        self._starts = line_starts(text) if any(isinstance(edit, ReplaceLines | InsertAt) for edit in edits) else [0]
        self._count = len(self._starts) - 1
        for at, edit in enumerate(edits):
            if isinstance(edit, ReplaceLines) and 1 <= edit.first <= edit.last <= self._count:
                self._ranges[at] = self._starts[edit.first - 1], self._starts[edit.last]
            elif isinstance(edit, InsertAt) and 1 <= edit.line <= self._count + 1:
                self._ranges[at] = self._starts[edit.line - 1], self._starts[edit.line - 1]

    def changes(self, at: int, edit: ReplaceLines | InsertAt, now: str) -> list[TextChange]:
        if at not in self._ranges:
            raise EditRefused(f"There is no {_named(edit)}: the note had {self._count} lines when it was read.")
        place = self._ranges.pop(at)
        if place is None:
            raise EditRefused(
                f"An edit before this one has changed {_named(edit)}. Leave it to one of them, or edit by text."
            )
        start, end = place
        newline = own_newline(now)
        content = with_newlines(edit.content, newline)
        if isinstance(edit, ReplaceLines) and not content:
            return [TextChange(_without_ending(now, start, end), end, "")]
        content = content.removesuffix(newline)
        if isinstance(edit, ReplaceLines):
            ending = re.search(r"\r?\n\Z", now[max(end - 2, start) : end])
            return [TextChange(start, end, content + (ending[0] if ending else ""))]
        if start == len(now) and now and not now.endswith("\n"):
            return [TextChange(start, end, newline + content)]
        return [TextChange(start, end, content + newline)]

    def move(self, changes: Sequence[TextChange]) -> None:
        """Changes were made, all of them counted in the text before."""
        for at, place in self._ranges.items():
            self._ranges[at] = _moved(place, changes) if place is not None else None


def _moved(place: tuple[int, int], changes: Sequence[TextChange]) -> tuple[int, int] | None:
    start, end = place
    shift = 0
    for change in changes:
        if change.end <= start:
            shift += len(change.text) - (change.end - change.start)
        elif change.start < end:
            return None
    return start + shift, end + shift


def _without_ending(text: str, start: int, end: int) -> int:
    """Where to begin removing lines: if the last had no ending, the one before it then has none either."""
    if end < len(text) or text.endswith("\n"):
        return start
    return before_ending(text, start)


def _named(edit: ReplaceLines | InsertAt) -> str:
    if isinstance(edit, InsertAt):
        return f"line {edit.line}"
    return f"line {edit.first}" if edit.first == edit.last else f"range of lines {edit.first} to {edit.last}"
