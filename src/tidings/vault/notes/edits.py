"""Edits of a note as values, applied to its text; and the bounded diff that shows them.

Everything that an edit does not name stays as it is. Inserted text gets the note's line endings. Several edits are all
made or none. Each sees the result of those before it, except for line numbers, which count as the text was read.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tidings._kit.diff import common_end, common_start, unified
from tidings._kit.suggest import closest
from tidings._kit.text import applied, quoted
from tidings.vault.notes import sections
from tidings.vault.notes.model import LARGEST_TEXT, TextChange
from tidings.vault.notes.property_edits import remove_property, set_property
from tidings.vault.notes.sections import NEWLINE, EditRefused, own_newline, with_newlines

_MOST_LINES = 120  # Lines of a diff that are shown.
_WIDTH = 400  # Characters of a line that are shown.
_MOST_PLACES = 100_000  # Places that one edit may change.
_MOST_COMPARED = 1_500  # Lines of each side that are compared one by one.
# The mark of an item, a task, a heading or a quote. New text without a mark keeps the old one.
_MARK = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[^\n]\][ \t]+)?|#{1,6}[ \t]+|>[ \t]*)")


def diff(before: str, after: str, path: str) -> str:
    """Returns a unified diff; empty if both are the same. Says so where it leaves something out."""
    old, new = _split(before), _split(after)
    if before == after:
        return ""
    if old == new:
        return f"Only the line endings of {path} differ."
    start = common_start(old, new)
    end = common_end(old, new, min(len(old), len(new)) - start)
    from_, skipped = max(start - 3, 0), max(end - 3, 0)
    old, new = old[from_ : len(old) - skipped], new[from_ : len(new) - skipped]
    if max(len(old), len(new)) > _MOST_COMPARED:
        return f"{path} differs from line {start + 1} on: {len(old)} lines before, {len(new)} now; too many to show."
    shown = [f"--- {path}", f"+++ {path}", *unified(old, new, above=from_)]
    more = [f"… {len(shown) - _MOST_LINES} more lines"] if len(shown) > _MOST_LINES else []
    return "\n".join([*(line[:_WIDTH] for line in shown[:_MOST_LINES]), *more])


def _split(text: str) -> list[str]:
    *lines, last = NEWLINE.split(text)
    return [*lines, f"{last}  (no line ending)"] if last else lines  # A missing one would not be visible.


@dataclass(frozen=True, slots=True)
class ReplaceText:
    """Replaces a text that occurs once, or everywhere."""

    find: str
    replace: str
    all: bool = False

    def changes(self, text: str) -> list[TextChange]:
        if not self.find:
            raise EditRefused("The text to find is empty. Give the text to replace, or use append to add to the note.")
        # A line ending in the text to find matches any: callers do not see which one a note has.
        pattern = r"\r?\n".join(map(re.escape, NEWLINE.split(self.find)))
        found = [match.span() for match in islice(re.finditer(pattern, text), _MOST_PLACES + 1)]
        if not found:
            first = max(NEWLINE.split(self.find[:10_000]), key=len).strip()
            lines = {line.strip()[:120]: number for number, line in enumerate(NEWLINE.split(text, 2_000)[:2_000], 1)}
            near = closest(first, lines, key=lambda line: line[:120])
            hint = f"The nearest is line {lines[near[0]]}: {quoted(near[0])}." if near else "Read the note again."
            raise EditRefused(f"The text {quoted(self.find)} does not occur. {hint}")
        if len(found) > _MOST_PLACES:
            raise EditRefused(f"The text occurs more than {_MOST_PLACES:,} times. Give more of what surrounds it.")
        if len(found) > 1 and not self.all:
            where = sections.named_lines(sections.line_of(text, start) for start, _ in found[:50])
            cure = "Give more of what surrounds it, or set all=true."
            raise EditRefused(f"The text occurs {len(found)} times ({where}). {cure}")
        new = with_newlines(self.replace, own_newline(text))
        return [TextChange(start, end, new) for start, end in found]


@dataclass(frozen=True, slots=True)
class ReplaceSection:
    """Replaces the text under a heading, sub-sections included, or adds to its end or beginning. The heading stays."""

    heading: str  # `Tasks`, `Project#Tasks` or `## Tasks`.
    content: str
    mode: sections.Mode = "replace"
    create: bool = False  # Add the heading if it does not exist.

    def changes(self, text: str) -> list[TextChange]:
        return [sections.section_change(text, self.heading, self.content, self.mode, create=self.create)]


@dataclass(frozen=True, slots=True)
class ReplaceBlock:
    """Replaces the text of a block; its id stays."""

    id: str
    content: str

    def changes(self, text: str) -> list[TextChange]:
        found = sections.find_block(text, self.id)
        content = re.sub(rf"\s\^{re.escape(found.id)}\s*\Z", "", self.content, flags=re.IGNORECASE).strip("\r\n")
        if not content.strip():
            cure = "Give its new text, or replace the text and its id to remove both."
            raise EditRefused(f"A block cannot be empty. {cure}")
        content = with_newlines(content, own_newline(text))
        mark = _MARK.match(text, found.start, found.end)
        whole = "\n" in text[found.end : text.find(f"^{found.id}", found.end)]  # Its id is on a separate line.
        if found.start == found.end:
            content += " "
        elif mark and not whole and not _MARK.match(content):
            content = mark[0] + content
        return [TextChange(found.start, found.end, content)]


@dataclass(frozen=True, slots=True)
class SetProperty:
    """Sets a property, new or not; None removes it, if it exists."""

    key: str
    value: Any

    def changes(self, text: str) -> list[TextChange]:
        try:
            after = remove_property(text, self.key) if self.value is None else set_property(text, self.key, self.value)
        except ValueError as error:
            raise EditRefused(str(error)) from error
        start = common_start(text, after)
        end = common_end(text, after, min(len(text), len(after)) - start)
        return [TextChange(start, len(text) - end, after[start : len(after) - end])] if text != after else []


@dataclass(frozen=True, slots=True)
class ReplaceLines:
    """Replaces some lines, both included; an empty `content` removes them."""

    first: int
    last: int
    content: str

    def place(self, starts: Sequence[int]) -> tuple[int, int]:
        """Returns where its lines are in the text that was read, by the `line_starts` of that text."""
        if 1 <= self.first <= self.last < len(starts):
            return starts[self.first - 1], starts[self.last]
        raise EditRefused(f"There is no {self}: the note had {len(starts) - 1} lines when it was read.")

    def change(self, text: str, start: int, end: int) -> TextChange:
        newline = own_newline(text)
        content = with_newlines(self.content, newline)
        if not content:
            # If the last line had no ending, the one before it has none then, either.
            last = end == len(text) and not text.endswith("\n")
            return TextChange(sections.before_ending(text, start) if last else start, end, "")
        ending = re.search(r"\r?\n\Z", text[max(end - 2, start) : end])
        return TextChange(start, end, content.removesuffix(newline) + (ending[0] if ending else ""))

    def __str__(self) -> str:
        return f"line {self.first}" if self.first == self.last else f"range of lines {self.first} to {self.last}"


Edit = ReplaceText | ReplaceSection | ReplaceBlock | SetProperty | ReplaceLines


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """Returns the text with all the edits made, or raises `EditRefused`."""
    now, done = text, list[list[TextChange]]()
    starts = sections.line_starts(text) if any(isinstance(edit, ReplaceLines) for edit in edits) else []
    for at, edit in enumerate(edits):
        try:
            done.append(_changes(now, edit, starts, done))
        except EditRefused as refusal:
            if len(edits) == 1:
                raise
            raise EditRefused(f"Edit {at + 1} of {len(edits)}: {refusal} None of the edits was made.") from refusal
        now = applied(now, done[-1])
    return now


def _changes(text: str, edit: Edit, starts: Sequence[int], done: Sequence[Sequence[TextChange]]) -> list[TextChange]:
    """Returns the changes of an edit, after those before it. `starts` are the lines of the text that was read."""
    if isinstance(edit, ReplaceLines):
        start, end = edit.place(starts)
        for earlier in done:
            if any(change.end > start and change.start < end for change in earlier):
                cure = "Leave it to one of them, or edit by text."
                raise EditRefused(f"An edit before this one has changed {edit}. {cure}")
            shift = sum(len(each.text) - (each.end - each.start) for each in earlier if each.end <= start)
            start, end = start + shift, end + shift
        changes = [edit.change(text, start, end)]
    else:
        changes = edit.changes(text)
    size = len(text) + sum(len(change.text) - (change.end - change.start) for change in changes)
    if size > max(LARGEST_TEXT, len(text)):  # Before such a text is made.
        raise EditRefused(
            f"The text would have {size:,} characters, and {LARGEST_TEXT:,} are allowed. Write several notes."
        )
    return changes
