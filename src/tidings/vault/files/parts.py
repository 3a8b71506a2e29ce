"""Where the parts of a note are: its lines, the section of a heading, a block.

Lines count from 1 and end with a line feed, with or without a carriage return before it. What is not there, or there
more than once, is refused with the nearest that is there: nobody should have to guess.

May import: `model`, `notes`, `paths`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import NamedTuple

from tidings.vault.files.path_rules import shorten
from tidings.vault.files.paths import key
from tidings.vault.text import notes
from tidings.vault.text.model import Block, Heading

NEWLINE = re.compile(r"\r?\n")

_MOST_NAMED = 12
"""How many lines or names a message lists."""


class EditRefused(ValueError):
    """What should be read or changed is not there, or not clearly so. Says why, and what to give instead."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a note, and the lines it spans, both included."""

    text: str
    start_line: int
    end_line: int


class Span(NamedTuple):
    """A section: its heading, where the text under it begins, and where it ends."""

    heading: Heading
    body: int
    end: int


def section(text: str, heading: str) -> Part:
    """The section of a heading, with the heading: `Tasks`, `Project#Tasks` or `## Tasks`.

    Raises:
        EditRefused: There is no such heading, or several.
    """
    span = find_section(text, heading)
    return _part(text, span.heading.start, span.end)


def block(text: str, id: str) -> Part:  # noqa: A002 - what Obsidian calls it
    """The block with an id, without the id.

    Raises:
        EditRefused: There is no such block, or several.
    """
    found = find_block(text, id)
    return _part(text, found.start, found.end)


def lines(text: str, first: int, last: int | None = None) -> Part:
    """Some lines; to the end if `last` is None or beyond it.

    Raises:
        EditRefused: There is no line `first`, or `last` comes before it.
    """
    starts = line_starts(text)
    count = len(starts) - 1
    final = count if last is None else min(last, count)
    if not 1 <= first <= max(count, 1) or (last is not None and last < first):
        raise EditRefused(f"There are no lines {first} to {last or 'the end'}: the note has {_count(count)}.")
    return Part(text[starts[first - 1] : starts[final]], first, max(final, first))


def line_starts(text: str) -> list[int]:
    """Where each line begins, and, as the last item, where the text ends."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    return starts if starts[-1] == len(text) else [*starts, len(text)]


def line_of(text: str, offset: int) -> int:
    """The number of the line that a character is on."""
    return text.count("\n", 0, offset) + 1


def find_section(text: str, heading: str, headings: Sequence[Heading] | None = None) -> Span:
    """The section of a heading; see `section`.

    Raises:
        EditRefused: There is no such heading, or several.
    """
    headings = notes.parse(text, "").headings if headings is None else headings
    found = matching(headings, heading)
    if not found:
        hint = _hint([one.text for one in headings], heading.rpartition("#")[2].strip()) or "The note has no headings."
        raise EditRefused(f"There is no heading {shorten(heading)}. {hint}")
    if len(found) > 1:
        raise EditRefused(
            f"There are {len(found)} headings {shorten(heading)} ({named_lines(headings[at].line for at in found)}). "
            f"Give the headings above it too, such as {_with_parent(headings, found[-1])!r}, or edit by line numbers."
        )
    return span_of(text, headings, found[0])


def span_of(text: str, headings: Sequence[Heading], at: int) -> Span:
    """The section of one of a note's headings."""
    heading = headings[at]
    later = (other.start for other in islice(headings, at + 1, None) if other.level <= heading.level)
    return Span(heading, _heading_end(text, heading), next(later, len(text)))


def matching(headings: Sequence[Heading], wanted: str) -> list[int]:
    """Which of the headings are meant: those written just so, else those that differ in case or signs only."""
    marked = re.match(r"\s*(#{1,6})\s+(\S.*)", wanted)
    level, wanted = (len(marked[1]), marked[2]) if marked else (None, wanted)
    parents = _parents(headings)
    for plain in (str.strip, key, _letters):
        texts = [plain(one.text) for one in headings]
        for path in dict.fromkeys([(wanted,), tuple(wanted.split("#"))]):
            names = [plain(name.strip()) for name in path if name.strip()]
            found = [at for at, text in enumerate(texts) if names and text == names[-1]]
            found = [at for at in found if level in {None, headings[at].level} and _stands(at, names, texts, parents)]
            if found:
                return found
    return []


def find_block(text: str, id: str) -> Block:  # noqa: A002 - what Obsidian calls it
    """The block with an id; `^` in front of it may be left out.

    Raises:
        EditRefused: There is no such block, or several.
    """
    wanted = key(id.strip().lstrip("#^"))
    blocks = notes.parse(text, "").blocks
    found = [one for one in blocks if key(one.id) == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        where = named_lines(one.line for one in found)
        raise EditRefused(f"There are {len(found)} blocks {shorten(id)} ({where}). Give them ids of their own first.")
    hint = _hint([f"^{one.id}" for one in blocks], wanted) or "The note has none."
    raise EditRefused(f"There is no block {shorten(id)}. {hint}")


def named_lines(numbers: Iterable[int]) -> str:
    """Line numbers for a message."""
    shown = list(map(str, numbers))
    more = f", and {len(shown) - _MOST_NAMED} more" if len(shown) > _MOST_NAMED else ""
    return f"line{'s' if len(shown) > 1 else ''} {', '.join(shown[:_MOST_NAMED])}{more}"


def _part(text: str, start: int, end: int) -> Part:
    first = line_of(text, start)
    ended = text.endswith("\n", start, end)  # A line ending belongs to the line it ends.
    return Part(text[start:end], first, max(line_of(text, end) - ended, first))


def _heading_end(text: str, heading: Heading) -> int:
    """Where the text under a heading begins. One without `#` is underlined, and takes two lines."""
    end = _line_end(text, heading.start)
    return end if text[heading.start : end].lstrip(" ").startswith("#") else _line_end(text, end)


def _line_end(text: str, start: int) -> int:
    return text.find("\n", start) + 1 or len(text)


def _stands(at: int, names: Sequence[str], texts: Sequence[str], parents: Sequence[int | None]) -> bool:
    """Whether headings with the other names stand above the one that has the last, in this order."""
    above = parents[at]
    for name in reversed(names[:-1]):
        while above is not None and texts[above] != name:
            above = parents[above]
        if above is None:
            return False
        above = parents[above]
    return True


def _parents(headings: Sequence[Heading]) -> list[int | None]:
    """For each heading, the one whose section it is in."""
    parents: list[int | None] = []
    open_: list[int] = []
    for at, heading in enumerate(headings):
        while open_ and headings[open_[-1]].level >= heading.level:
            open_.pop()
        parents.append(open_[-1] if open_ else None)
        open_.append(at)
    return parents


def _with_parent(headings: Sequence[Heading], at: int) -> str:
    parent = _parents(headings)[at]
    return (
        f"{headings[parent].text}#{headings[at].text}"
        if parent is not None
        else f"{'#' * headings[at].level} {headings[at].text}"
    )


def _letters(text: str) -> str:
    """What is left of a heading in a link: Obsidian drops most signs there."""
    return re.sub(r"\W+", " ", key(text)).strip()


def _hint(names: Sequence[str], wanted: str) -> str:
    """The names for a message that come near to one that is not there, the nearest first; else the first of all."""
    distinct = list(dict.fromkeys(names))
    keys = {key(name[:120]): name for name in distinct[:500]}
    if near := [shorten(keys[one]) for one in get_close_matches(key(wanted[:120]), keys, n=3, cutoff=0.6)]:
        return f"Did you mean {' or '.join(near)}?"
    more = ", …" if len(distinct) > _MOST_NAMED else ""
    return f"There are: {', '.join(map(shorten, distinct[:_MOST_NAMED]))}{more}." if distinct else ""


def _count(lines: int) -> str:
    return "1 line" if lines == 1 else f"{lines} lines"
