"""From a note's text to a `Note`: tags, links, headings, blocks, tasks and properties, by Obsidian's rules.

`parse` never raises, and takes time in proportion to the text. A `page` is the masked text (see `markdown.mask`) with a
line feed before it, so that every line begins after one. A position in it plus `shift` is a position in the note.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, Literal, cast
from urllib.parse import unquote

from tidings.vault.notes.markdown import DESTINATION, LABEL, REFERENCE, WIKI_LINK, find_blocks, mask
from tidings.vault.notes.model import Heading, Note, NoteLink, NoteTag, NoteTask
from tidings.vault.notes.properties import Frontmatter, load, split

_NAME = r"[^\0\u2000-\u206f\u2e00-\u2e7f'!\"#$%&()*+,.:;<=>?@^`{|}~\[\]\\\s]+"
_WIKI, _NAMED = 1, 2
_ANY = re.compile(rf"{WIKI_LINK}|#({_NAME})|{DESTINATION}|\[|\]")
_DEFINITION = re.compile(rf"{LABEL}{REFERENCE}", re.MULTILINE)
# A definition cannot continue a paragraph: the line above it is empty, a heading, a rule, or the end of code.
_ENDS_PARAGRAPH = re.compile(r"[ \t>]*+(?:\r?\Z|\0|#{1,6}(?:[ \t]|\Z)|=++[ \t]*\r?\Z|(?:[-*_][ \t]*){3,}\r?\Z)")
_VALID = re.compile(_NAME)
_EXTERNAL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:|//")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_BLANK_LINE = re.compile(r"\n[ \t>]*\r?\n")
_QUOTE = re.compile(r"[ \t>]*+\Z")
_TABLE = re.compile(r"[ \t>]*+\|")
_NEAR = 1000
_DEEPEST = 16  # Open brackets that are remembered. Nobody writes more, and they would take long.
_LINE = re.compile(
    r"\n(?: {0,3}(#{1,6})(?=[ \t\r\n]|\Z)[^\n]*"
    r"|[ \t>]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)++\[([^\n])\](?=[ \t\r\n]|\Z)[^\n]*"
    r"| {0,3}(=+|-+)[ \t]*\r?(?=\n|\Z))"
)
_CLOSING_MARKS = re.compile(r"(?:^|[ \t])#+$")
_NO_TITLE = re.compile(r"\s*(?:$|[>|#\0]|[-*+][ \t]|\d{1,9}[.)][ \t]|[-=*_]+\s*$)| {4}|\t")
_COMMA = re.compile(",")
_COMMA_OR_SPACE = re.compile(r"[,\s]+")
_ESCAPE = re.compile(r"\\([\"\\/])")
_TAGS_KEY = re.compile(r"[{,\n][ \t]*[\"']?tags[\"']?[ \t]*:", re.IGNORECASE)
_WHOLE_LINK = re.compile(rf"\s*{WIKI_LINK}\s*")
_LINKS = re.compile(WIKI_LINK)


def _tags_and_links(  # noqa: C901 - one loop: a call for each find would take a third longer
    page: str, text: str, shift: int, line: int
) -> tuple[list[NoteTag], list[NoteLink]]:
    tags: list[NoteTag] = []
    links: list[NoteLink] = []
    brackets: list[int] = []
    seen, last = 1, -1
    for found in _ANY.finditer(page):
        start, kind = found.start(), found.lastindex
        line += page.count("\n", seen, start)
        seen = start
        if kind == _WIKI:
            embed = page[start - 1] == "!"
            place = (line, start - embed + shift, found.end() + shift)
            if (link := wiki_link("wiki", embed, found[_WIKI], place)) is not None:
                links.append(link)
        elif kind == _NAMED:
            if (name := _tag_name(page, start, found[_NAMED], last)) is not None:
                last = found.end()
                tags.append(NoteTag(name, line, start + 1 + shift, start + 1 + shift + len(name)))
        elif page[start] == "[":
            brackets.append(start)
            if len(brackets) > _DEEPEST:
                del brackets[0]
        elif brackets:
            opening = brackets.pop()
            # The text of a link is one paragraph, and no footnote.
            if kind is not None and page[opening + 1] != "^" and not _BLANK_LINE.search(page, opening, start):
                if page[opening - 1] != "!":  # Links do not nest: brackets around this one are only brackets.
                    brackets.clear()
                if (link := _markdown_link(page, text, opening, found, (line, shift))) is not None:
                    links.append(link)
    links.sort(key=lambda link: link.start)
    return tags, links


def _markdown_link(page: str, text: str, opening: int, found: re.Match[str], place: tuple[int, int]) -> NoteLink | None:
    """Returns the link from the bracket at `opening` to the end of `found`. `place` is its line and the shift."""
    if (leads := _destination(found[_NAMED + 1], found[_NAMED + 2])) is None:
        return None
    line, shift = place
    closing = found.start()
    embed = page[opening - 1] == "!"
    shown = text[opening + 1 + shift : closing + shift]
    line -= page.count("\n", opening, closing)
    return NoteLink("markdown", embed, *leads, shown, line, opening - embed + shift, found.end() + shift)


def _destination(angled: str | None, bare: str) -> tuple[str, str] | None:
    """Returns the target and the subpath of a Markdown destination; None if it leads out of the vault or nowhere."""
    written = _ESCAPED.sub(r"\1", bare if angled is None else angled)
    if _EXTERNAL.match(written):
        return None
    target, _, rest = written.partition("#")
    target = target.strip()
    if "%" in written:
        target, rest = unquote(target), unquote(rest)
    subpath = f"#{rest}" if rest else ""
    return (target, subpath) if target or subpath else None


def _definitions(page: str, body: str, shift: int, line: int) -> Iterator[NoteLink]:
    """Yields the destinations that links such as `[text][label]` share: `[label]: Note.md`."""
    seen = end = 0
    for found in _DEFINITION.finditer(body):
        begin, opening = found.start(), found.start(2) - 1
        if page[opening + 1] != "[" or not found[2].strip() or _BLANK_LINE.search(found[2]):
            continue  # It is code, or text.
        above = page[page.rfind("\n", 0, begin) + 1 : begin]
        if not found[1] and (not end or body[end:begin].strip()) and not _ENDS_PARAGRAPH.match(above):
            continue
        line += body.count("\n", seen, opening)
        seen, end = opening, found.end()
        if (leads := _destination(found[3], found[4])) is not None:
            yield NoteLink("reference", False, *leads, found[2], line, opening + shift + 1, end + shift + 1)


def wiki_link(
    kind: Literal["wiki", "property"], embed: bool, content: str, place: tuple[int, int, int]
) -> NoteLink | None:
    """Returns the link with this text between its brackets, if any. `place` is its line, start and end."""
    path, bar, shown = content.partition("|")
    if bar and path.endswith("\\"):
        path = path[:-1]
    path, mark, rest = path.partition("#")
    target, subpath = path.strip(), f"#{rest.rstrip()}" if mark else ""
    if not target and subpath in ("", "#"):
        return None
    return NoteLink(kind, embed, target, subpath, shown if bar else None, *place)


def _tag_name(page: str, start: int, name: str, last: int) -> str | None:
    """Returns the tag at `start`, or None if there is none. `last` is the end of the tag before it.

    It may follow a space, a tag, emphasis, a quote's mark or a table cell's.
    """
    before = page[start - 1]
    if not before.isspace() and start != last and not (before in "=~" and page[start - 2] == before):
        near = max(0, start - _NEAR)  # Bounded, or a long line would be read again for each of its tags.
        line = page.rfind("\n", near, start) + 1
        if before in "_*":
            follows = "://" not in page[max(line, page.rfind(" ", near, start), near) : start]
        else:
            mark = {">": _QUOTE, "|": _TABLE}.get(before)
            follows = mark is not None and line > 0 and mark.match(page, line, start) is not None
        if not follows:
            return None
    name = (name.rstrip("_") if before == "_" else name).rstrip("/")
    return None if not name or (name.isascii() and name.isdigit()) else name


def parse(text: str, name: str) -> Note:
    """Parses a note's text, with or without a byte order mark. `name` is the file's name or path."""
    block = split(text)
    properties, problem = load(block) if block.kind else ({}, None)
    start = block.body_start
    body = text[start:]
    masked, code = mask(body)
    page = "\n" + masked
    first_line = text.count("\n", 0, start) + 1
    shift = start - 1

    tags, links = list[NoteTag](), list[NoteLink]()
    if "#" in page or "[" in page:
        tags, links = _tags_and_links(page, text, shift, first_line)
        if "]:" in page and (defined := list(_definitions(page, body, shift, first_line))):
            starts = [each.start for each in defined]
            inner = [bisect_right(starts, tag.start) - 1 for tag in tags]
            tags = [tag for tag, at in zip(tags, inner, strict=True) if at < 0 or tag.start >= defined[at].end]
            links = sorted([*links, *defined], key=lambda link: link.start)
    headings, tasks = _lines(page, text, shift, first_line)
    blocks = find_blocks(page, code, shift, first_line) if "^" in page else []
    title = name.rpartition("/")[2]
    aliases: tuple[str, ...] = ()
    if properties:
        tags = [*_property_tags(properties, text, block), *tags]
        values = _listed(properties, "aliases", _COMMA)
        names = (str(value).strip() for value in values if isinstance(value, str | int | float))
        aliases = tuple(filter(None, names))
        if "[[" in block.text:
            links = [*_property_links(properties, text, block), *links]
    title = title[:-3] if title[-3:].lower() == ".md" else title
    some = tuple(tags), aliases, tuple(headings), tuple(blocks), tuple(links), tuple(tasks)
    return Note(title, properties, start, *some, len(body.split()), problem)


def _lines(page: str, text: str, shift: int, line: int) -> tuple[list[Heading], list[NoteTask]]:
    headings: list[Heading] = []
    tasks: list[NoteTask] = []
    seen = 1
    for found in _LINE.finditer(page):
        begin, end = found.start() + 1, found.end()
        line += page.count("\n", seen, begin)
        seen = begin
        kind = found.lastindex
        if kind == 1:
            title = text[found.end(1) + shift : end + shift].strip()
            headings.append(Heading(len(found[1]), _CLOSING_MARKS.sub("", title).rstrip(), line, begin + shift))
        elif kind == 2:
            box = found.end(2)
            tasks.append(NoteTask(line, text[box - 1 + shift], text[box + 1 + shift : end + shift].strip()))
        elif (above := page.rfind("\n", 0, begin - 1)) >= 0 and not _NO_TITLE.match(page, above + 1, begin - 1):
            title = text[above + 1 + shift : begin - 1 + shift].strip()
            headings.append(Heading(1 if found[3][0] == "=" else 2, title, line - 1, above + 1 + shift))
    return headings, tasks


def _listed(properties: dict[str, Any], name: str, separator: re.Pattern[str]) -> list[Any]:
    """Returns a property as a list, whatever the case of its name. A text may contain several values."""
    value = properties.get(name) or next((value for key, value in properties.items() if key.lower() == name), None)
    if isinstance(value, str):
        return separator.split(value)
    return cast("list[Any]", value) if isinstance(value, list) else []


def _property_tags(properties: dict[str, Any], text: str, block: Frontmatter) -> list[NoteTag]:
    texts = [value for value in _listed(properties, "tags", _COMMA_OR_SPACE) if isinstance(value, str)]
    names = [text.strip().removeprefix("#").rstrip("/") for text in texts]
    if not names:
        return []
    key = _TAGS_KEY.search(text, block.start - 1, block.end)
    position = key.end() if key else block.start
    line = text.count("\n", 0, position) + 1
    tags: list[NoteTag] = []
    for name in names:
        if not _VALID.fullmatch(name) or (name.isascii() and name.isdigit()):
            continue
        found, end = _find_name(text, name, position, block.end), position
        if found >= 0:  # Else it is written with escapes: its position is not known exactly.
            line += text.count("\n", position, found)
            end = found + len(name)
        tags.append(NoteTag(name, line, max(found, position), end))
        position = end
    return tags


def _find_name(text: str, name: str, start: int, end: int) -> int:
    """Returns the position of `name` as a separate word, or -1."""
    found = text.find(name, start, end)
    while found >= 0 and any(each.isalnum() or each in "_/-" for each in (text[found - 1], text[found + len(name)])):
        found = text.find(name, found + 1, end)
    return found


def _property_links(properties: dict[str, Any], text: str, block: Frontmatter) -> Iterator[NoteLink]:
    """Yields the properties that are a link and nothing else, with their positions."""
    wanted = {value.strip() for value in _texts(properties) if _WHOLE_LINK.fullmatch(value)}
    line, seen = 1, 0
    for found in _LINKS.finditer(text, block.start, block.end):
        written = found[0]
        if written in wanted or _unescaped(written, text[found.start() - 1]) in wanted:
            line += text.count("\n", seen, found.start())
            seen = found.start()
            content = _unescaped(found[1], text[seen - 1])
            if (link := wiki_link("property", False, content, (line, seen, found.end()))) is not None:
                yield link


def _unescaped(written: str, quote: str) -> str:
    if quote == "'":
        return written.replace("''", "'")
    return _ESCAPE.sub(r"\1", written) if quote == '"' else written


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value):
            yield from _texts(inner)
