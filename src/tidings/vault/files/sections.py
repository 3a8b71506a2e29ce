"""Adding to a note, and changing what stands under one of its headings, without disturbing what is around it.

The blank lines after a heading and before the next one are the note's own: they stay as they are found. Where a
section had no text yet, they are set as the note's other sections have them.

May import: `model`, `notes`, `parts`.
"""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from tidings.vault.files.parts import NEWLINE, EditRefused, find_section, matching, span_of
from tidings.vault.text import notes
from tidings.vault.text.model import Heading

Mode = Literal["replace", "append", "prepend"]


class Change(NamedTuple):
    """A stretch of a text, and what takes its place."""

    start: int
    end: int
    text: str


def own_newline(text: str) -> str:
    r"""The line ending that a text has most; `\n` if it has none."""
    windows = text.count("\r\n")
    return "\r\n" if 2 * windows > text.count("\n") else "\n"


def with_newlines(text: str, newline: str) -> str:
    """A text with all its line endings replaced."""
    return NEWLINE.sub(newline, text)


def append(text: str, content: str) -> str:
    """The text with lines added at its end. What was empty then ends with a line ending, as the lines of a note do."""
    if not text:
        return content if not content or content.endswith("\n") else content + own_newline(content)
    newline = own_newline(text)
    content = with_newlines(content, newline).removesuffix(newline)
    ended = text.endswith("\n")
    return text + content + newline if ended else text + newline + content


def prepend(text: str, content: str) -> str:
    """The text with lines added at its beginning, after the properties."""
    return _apply(text, _added(text, (notes.parse(text, "").body_start, len(text)), content, "prepend"))


def section_change(text: str, heading: str, content: str, mode: Mode, *, create: bool = False) -> Change:
    """What changes when the text under a heading is replaced or added to; see `edits.ReplaceSection`.

    Raises:
        EditRefused: There is no such heading (and none is to be created), or there are several.
    """
    if mode not in {"replace", "append", "prepend"}:
        raise EditRefused(f"There is no mode {mode!r}. Give 'replace', 'append' or 'prepend'.")
    headings = notes.parse(text, "").headings
    if create and not matching(headings, heading):
        return _new_section(text, headings, heading, content)
    span = find_section(text, heading, headings)
    content = _without_heading(content, span.heading)
    return _added(text, (span.body, span.end), content, mode, _habits(text, headings))


class _Habits(NamedTuple):
    blank_after: bool
    blank_before: bool


_LOOKED_AT = 40
"""How many headings tell a note's habits."""
_USUAL = _Habits(blank_after=False, blank_before=True)


def _added(text: str, stretch: tuple[int, int], content: str, mode: Mode, habits: _Habits = _USUAL) -> Change:
    """What changes in a stretch of whole lines when its text, the blank lines around it aside, is changed."""
    newline = own_newline(text)
    start, end = stretch
    lead, core, tail = _around(text[start:end])
    content = _trimmed(with_newlines(content, newline), mode, newline)
    if not core:
        return _filled(text, stretch, content.strip("\r\n"), habits)
    inner = start + len(lead)
    outer = end - len(tail)
    if mode == "append":
        return Change(outer, outer, newline + content if content else "")
    if mode == "prepend":
        return Change(inner, inner, content + newline if content else "")
    if content:
        return Change(inner, outer, content)
    return Change(start if tail else before_ending(text, start), outer + _ending(tail), "")


def _filled(text: str, stretch: tuple[int, int], content: str, habits: _Habits) -> Change:
    """Text where there were only blank lines, or nothing."""
    newline = own_newline(text)
    start, end = stretch
    blank = text[start:end]
    if not content:
        return Change(start, start, "")
    after = newline if start and habits.blank_after else ""
    if end < len(text):
        # Another heading follows: what was between the two headings stays between the text and the next.
        blank = blank or (newline if habits.blank_before else "")
        return Change(start, end, after + content + newline + blank)
    if blank:
        return Change(end, end, content + newline if blank.endswith("\n") else newline + content)
    if start and not text.endswith("\n", 0, start):
        return Change(end, end, newline + after + content)
    return Change(end, end, after + content + newline)


def _new_section(text: str, headings: Sequence[Heading], heading: str, content: str) -> Change:
    marked = re.match(r"\s*(#{1,6})\s+(\S.*)", heading)
    *parents, name = [part.strip() for part in (marked[2] if marked else heading).split("#")]
    if not name or NEWLINE.search(name):
        raise EditRefused(f"{heading!r} cannot be a heading. Give one line of text.")
    newline = own_newline(text)
    if parents:
        parent = find_section(text, "#".join(parents), headings)
        level, start, end = min(parent.heading.level + 1, 6), parent.body, parent.end
    else:
        level, start, end = _top_level(headings), 0, len(text)
    level = len(marked[1]) if marked else level
    made = f"{'#' * level} {name}"
    content = _trimmed(
        with_newlines(_without_heading(content, Heading(level, name, 0, 0)), newline), "replace", newline
    )
    habits = _habits(text, headings)
    lines = [made, *([""] if habits.blank_after else []), *([content] if content else [])]
    before = newline if habits.blank_before and text[:end].strip() else ""
    return _added(text, (start, end), before + newline.join(lines), "append", habits._replace(blank_after=False))


def _top_level(headings: Sequence[Heading]) -> int:
    levels = {heading.level for heading in headings}
    return min(levels - {1}, default=2) if 1 in levels else min(levels, default=2)


def _habits(text: str, headings: Sequence[Heading]) -> _Habits:
    """Whether the note has blank lines after its headings, and before them: as most of them have."""
    after = before = 0
    for at, heading in enumerate(headings[:_LOOKED_AT]):
        end = headings[at + 1].start if at + 1 < len(headings) else len(text)
        lead, core, _ = _around(text[span_of(text, headings, at).body : end])
        after += (1 if lead else -1) if core else 0
        before += (1 if _blank_before(text, heading.start) else -1) if heading.start else 0
    return _Habits(after > 0, before >= 0)


def _blank_before(text: str, start: int) -> bool:
    return bool(re.search(r"\n[ \t]*\r?\n\Z", text[max(start - 200, 0) : start]))


def _without_heading(content: str, heading: Heading) -> str:
    """The content alone: who read a section with its heading writes it back with it."""
    lines = NEWLINE.split(content.lstrip(), maxsplit=1)
    match = re.fullmatch(r"(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*", lines[0])
    if match and len(match[1]) == heading.level and match[2].strip() == heading.text.strip():
        return lines[1] if len(lines) > 1 else ""
    return content


def _trimmed(content: str, mode: Mode, newline: str) -> str:
    """The content without the line endings at its ends, except where they set it apart from the text beside it."""
    if mode == "append":
        return content.rstrip("\r\n")
    if mode == "prepend":
        return content.lstrip("\r\n").removesuffix(newline)
    return content.strip("\r\n")


def _around(body: str) -> tuple[str, str, str]:
    """Lines as the blank ones before the text, the text without its last line ending, and the rest."""
    lead = re.match(r"(?:[ \t]*\r?\n)*", body)
    rest = body[lead.end() if lead else 0 :]
    core = rest.rstrip(" \t\r\n")
    # Spaces at the end of a line of text belong to it: two of them are a line break.
    spaces = re.match(r"[ \t]*", rest[len(core) :]) if core else None
    core += spaces[0] if spaces else ""
    return (lead[0] if lead else ""), core, rest[len(core) :]


def before_ending(text: str, start: int) -> int:
    """Where the line ending before a place begins."""
    return start - (2 if text.endswith("\r\n", 0, start) else min(start, 1))


def _ending(tail: str) -> int:
    match = NEWLINE.match(tail)
    return match.end() if match else 0


def _apply(text: str, change: Change) -> str:
    return text[: change.start] + change.text + text[change.end :]
