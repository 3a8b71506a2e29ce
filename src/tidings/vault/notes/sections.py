"""Parts of a note: its lines, the section of a heading, a block; found, and changed without disturbing the rest.

Lines count from 1 and end with a line feed, with or without a carriage return before it. A part that does not exist, or
exists more than once, is refused with a suggestion. Blank lines stay; new ones are as at the note's other headings.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple

from tidings._kit.suggest import did_you_mean, there_are
from tidings._kit.text import applied, listed, quoted
from tidings.vault.notes import parse
from tidings.vault.notes.model import Heading, NoteBlock, TextChange, key

NEWLINE = re.compile(r"\r?\n")
_MARKED_HEADING = re.compile(r"\s*(#{1,6})\s+(\S.*)")
_BLANK_AFTER = re.compile(r"^ {0,3}#{1,6}[ \t].*\n[ \t]*\r?\n[ \t]*[^#\s]", re.MULTILINE)
_NO_BLANK_BEFORE = re.compile(r"^[ \t]*\S.*\n {0,3}#{1,6}[ \t]", re.MULTILINE)

Mode = Literal["replace", "append", "prepend"]


class EditRefused(ValueError):
    """The part to read or change does not exist, or is ambiguous. Says why, and what to give instead."""


@dataclass(frozen=True, slots=True)
class NotePart:
    """A part of a note, and its first and last line."""

    text: str
    start_line: int
    end_line: int


class TextSpan(NamedTuple):
    """A section: its heading, the beginning of the text under it, and its end."""

    heading: Heading
    body: int
    end: int


class _BlankLines(NamedTuple):
    """The style of a note: whether its headings have blank lines after and before them."""

    after: bool = False
    before: bool = True


def section(text: str, heading: str) -> NotePart:
    """Returns the section of a heading, with the heading: `Tasks`, `Project#Tasks` or `## Tasks`."""
    span = find_section(text, heading, parse.parse(text, "").headings)
    return _part(text, span.heading.start, span.end)


def block(text: str, id: str) -> NotePart:  # noqa: A002 - Obsidian's word
    """Returns the block with an id, without the id."""
    found = find_block(text, id)
    return _part(text, found.start, found.end)


def line_starts(text: str) -> list[int]:
    """Returns the beginning of each line and, as the last item, the end of the text."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    return starts if starts[-1] == len(text) else [*starts, len(text)]


def line_of(text: str, offset: int) -> int:
    """Returns the number of the line of a character."""
    return text.count("\n", 0, offset) + 1


def find_section(text: str, heading: str, headings: Sequence[Heading]) -> TextSpan:
    """Returns the section of one of the note's headings; see `section`."""
    found = matching(headings, heading)
    if not found:
        hint = _hint([one.text for one in headings], heading.rpartition("#")[2].strip()) or " The note has no headings."
        raise EditRefused(f"There is no heading {quoted(heading)}.{hint}")
    if len(found) > 1:
        last, above = headings[found[-1]], _above(headings)[found[-1]]
        such = f"{headings[above[-1]].text}#{last.text}" if above else f"{'#' * last.level} {last.text}"
        where = named_lines(headings[at].line for at in found)
        cure = f"Give the headings above it too, such as {such!r}, or edit by line numbers."
        if len(matching(headings, such)) > 1:  # They are alike in that, too.
            cure = "Name its lines instead: read the note, and edit with `lines`."
        raise EditRefused(f"There are {len(found)} headings {quoted(heading)} ({where}). {cure}")
    meant = headings[found[0]]
    later = (other.start for other in islice(headings, found[0] + 1, None) if other.level <= meant.level)
    body = text.find("\n", meant.start) + 1 or len(text)
    if not text[meant.start : body].lstrip(" ").startswith("#"):  # It is underlined.
        body = text.find("\n", body) + 1 or len(text)
    return TextSpan(meant, body, next(later, len(text)))


def matching(headings: Sequence[Heading], wanted: str) -> list[int]:
    """Returns the positions of the headings that are meant: exact ones, else those that differ in case or signs."""
    marked = _MARKED_HEADING.match(wanted)
    level, wanted = (len(marked[1]), marked[2]) if marked else (None, wanted)
    above = _above(headings)
    for plain in (str.strip, key, _as_in_links):
        texts = [plain(one.text) for one in headings]
        for path in dict.fromkeys([(wanted,), tuple(wanted.split("#"))]):
            names = [plain(name.strip()) for name in path if name.strip()]
            found = [at for at, text in enumerate(texts) if names and text == names[-1]]
            found = [at for at in found if level in {None, headings[at].level}]
            if found := [at for at in found if _in_order(names[:-1], (texts[each] for each in above[at]))]:
                return found
    return []


def find_block(text: str, id: str) -> NoteBlock:  # noqa: A002 - Obsidian's word
    """Returns the block with an id, with or without `^`."""
    wanted = key(id.strip().lstrip("#^"))
    blocks = parse.parse(text, "").blocks
    found = [one for one in blocks if key(one.id) == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        where = named_lines(one.line for one in found)
        raise EditRefused(f"There are {len(found)} blocks {quoted(id)} ({where}). Give each its own id first.")
    hint = _hint([f"^{one.id}" for one in blocks], wanted) or " The note has none."
    raise EditRefused(f"There is no block {quoted(id)}.{hint}")


def named_lines(numbers: Iterable[int]) -> str:
    """Returns line numbers for a message."""
    shown = list(map(str, numbers))
    return f"line{'s' if len(shown) > 1 else ''} {listed(shown)}"


def _part(text: str, start: int, end: int) -> NotePart:
    first = line_of(text, start)
    ended = text.endswith("\n", start, end)  # A line ending belongs to the line it ends.
    return NotePart(text[start:end], first, max(line_of(text, end) - ended, first))


def _in_order(names: Sequence[str], titles: Iterator[str]) -> bool:
    """Returns whether all names are among the titles, in this order."""
    return all(name in titles for name in names)


def _above(headings: Sequence[Heading]) -> list[list[int]]:
    """Returns for each heading those that it is below, from the top."""
    above: list[list[int]] = []
    for at, heading in enumerate(headings):
        path = [*above[-1], at - 1] if above else []
        above.append([each for each in path if headings[each].level < heading.level])
    return above


def _as_in_links(text: str) -> str:
    return re.sub(r"\W+", " ", key(text)).strip()


def _hint(names: Iterable[str], wanted: str) -> str:
    """Returns a sentence with the closest names, or else with the first ones; empty if there are none."""
    distinct = list(dict.fromkeys(names))
    near = did_you_mean(wanted, distinct, most=3, key=key, among=500, show=quoted)
    return near or (there_are(map(quoted, distinct)) if distinct else "")


def own_newline(text: str) -> str:
    r"""Returns the most frequent line ending; `\n` if there is none."""
    return "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"


def with_newlines(text: str, newline: str) -> str:
    """Returns a text with all its line endings replaced."""
    return NEWLINE.sub(newline, text)


def append(text: str, content: str) -> str:
    """Returns the text with lines added at its end. An empty one gets a line ending, as notes have."""
    if not text:
        return content if not content or content.endswith("\n") else content + own_newline(content)
    newline = own_newline(text)
    content = with_newlines(content, newline).removesuffix(newline)
    return text + content + newline if text.endswith("\n") else text + newline + content


def prepend(text: str, content: str) -> str:
    """Returns the text with lines added at its beginning, after the properties."""
    span = parse.parse(text, "").body_start, len(text)
    return applied(text, [_added(text, span, content, "prepend", _BlankLines())])


def section_change(text: str, heading: str, content: str, mode: Mode, *, create: bool = False) -> TextChange:
    """Returns the change that replaces the text under a heading, or adds to it; see `edits.ReplaceSection`."""
    headings = parse.parse(text, "").headings
    if create and not matching(headings, heading):
        return _new_section(text, headings, heading, content)
    span = find_section(text, heading, headings)
    return _added(text, span[1:], _without_heading(content, span.heading), mode, _blank_lines(text))


def _added(text: str, span: tuple[int, int], content: str, mode: Mode, blanks: _BlankLines) -> TextChange:
    """Returns the change of the text in a span of whole lines; the blank lines around it stay."""
    newline, (start, end) = own_newline(text), span
    lead, core, tail = _around(text[start:end])
    inner, outer = start + len(lead), end - len(tail)
    content = with_newlines(content, newline)
    if not core:
        return _filled(text, span, content.strip("\r\n"), blanks)
    # Without the line endings at its ends, except where they separate the content from the text beside it.
    if mode == "append":
        content = content.rstrip("\r\n")
        return TextChange(outer, outer, newline + content if content else "")
    if mode == "prepend":
        content = content.lstrip("\r\n").removesuffix(newline)
        return TextChange(inner, inner, content + newline if content else "")
    if content := content.strip("\r\n"):
        return TextChange(inner, outer, content)
    ending = NEWLINE.match(tail)
    return TextChange(start if tail else before_ending(text, start), outer + (ending.end() if ending else 0), "")


def _filled(text: str, span: tuple[int, int], content: str, blanks: _BlankLines) -> TextChange:
    """Returns the change that puts text where there were only blank lines, or nothing."""
    newline, (start, end) = own_newline(text), span
    blank = text[start:end]
    after = newline if start and blanks.after else ""
    if not content:
        return TextChange(start, start, "")
    if end < len(text):  # Another heading follows: the blank lines stay, before that heading.
        return TextChange(start, end, after + content + newline + (blank or (newline if blanks.before else "")))
    if blank:
        return TextChange(end, end, content + newline if blank.endswith("\n") else newline + content)
    if start and not text.endswith("\n", 0, start):
        return TextChange(end, end, newline + after + content)
    return TextChange(end, end, after + content + newline)


def _new_section(text: str, headings: Sequence[Heading], heading: str, content: str) -> TextChange:
    marked = _MARKED_HEADING.match(heading)
    *parents, name = [part.strip() for part in (marked[2] if marked else heading).split("#")]
    if not name or NEWLINE.search(name):
        raise EditRefused(f"{heading!r} cannot be a heading. Give one line of text.")
    if parents:
        parent = find_section(text, "#".join(parents), headings)
        level, span = min(parent.heading.level + 1, 6), parent[1:]
    else:
        levels = {heading.level for heading in headings}
        level, span = min(levels - {1} if 1 in levels else levels, default=2), (0, len(text))
    level = len(marked[1]) if marked else level
    newline, blanks = own_newline(text), _blank_lines(text)
    content = with_newlines(_without_heading(content, Heading(level, name, 0, 0)), newline).strip("\r\n")
    lines = [f"{'#' * level} {name}", *([""] if blanks.after else []), *([content] if content else [])]
    before = newline if blanks.before and text[: span[1]].strip() else ""
    return _added(text, span, before + newline.join(lines), "append", blanks._replace(after=False))


def _blank_lines(text: str) -> _BlankLines:
    return _BlankLines(_BLANK_AFTER.search(text) is not None, _NO_BLANK_BEFORE.search(text) is None)


def _without_heading(content: str, heading: Heading) -> str:
    """The content alone: who read a section with its heading writes it back with it."""
    first, *rest = NEWLINE.split(content.lstrip(), maxsplit=1)
    match = re.fullmatch(r"(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*", first)
    same = match and len(match[1]) == heading.level and match[2].strip() == heading.text.strip()
    return "".join(rest) if same else content


def _around(body: str) -> tuple[str, str, str]:
    """Splits lines into the blank ones before the text, the text without its last line ending, and the rest."""
    lead = body[: body.rfind("\n", 0, len(body) - len(body.lstrip(" \t\r\n"))) + 1]
    rest = body[len(lead) :]
    # Spaces at the end of a line of text belong to it: two of them are a line break.
    core = len(rest.rstrip(" \t\r\n"))
    core = core and len(rest) - len(rest[core:].lstrip(" \t"))
    return lead, rest[:core], rest[core:]


def before_ending(text: str, start: int) -> int:
    """Returns the beginning of the line ending before a position."""
    return start - (2 if text.endswith("\r\n", 0, start) else min(start, 1))
