"""From a note's text to what the index wants to know of it: tags, links, headings, blocks, tasks and properties.

The rules are Obsidian's. `parse` never raises and takes time in proportion to the text, whatever the text. It is made
to be quick with what most notes are: what a note has no character of is not looked for.
"""

import re
from collections.abc import Iterator
from typing import Any, cast

from tidings.vault.text.blocks import find_blocks
from tidings.vault.text.inline import find_inline, tag_names, wiki_link
from tidings.vault.text.markdown import WIKI_LINK, mask
from tidings.vault.text.model import Heading, Link, Note, Tag, Task
from tidings.vault.text.properties import Frontmatter, load, split

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


def parse(text: str, name: str) -> Note:
    """All that can be found in a note's text.

    Args:
        text: The text, with or without a byte order mark.
        name: The name of the file, with or without `.md`; or its path.
    """
    block = split(text)
    properties, problem = load(block) if block.kind else ({}, None)
    start = block.body_start
    body = text[start:]
    masked, code = mask(body)
    page = "\n" + masked
    first_line = text.count("\n", 0, start) + 1
    shift = start - 1

    tags, links = find_inline(page, text, shift, first_line)
    headings, tasks = _lines(page, text, shift, first_line)
    blocks = find_blocks(page, code, shift, first_line) if "^" in page else []
    aliases: tuple[str, ...] = ()
    if properties:
        tags = [*_property_tags(properties, text, block), *tags]
        aliases = tuple(_aliases(properties))
        if "[[" in block.text:
            links = [*_property_links(properties, text, block), *links]
    return Note(
        title=_title(name),
        properties=properties,
        body_start=start,
        tags=tuple(tags),
        aliases=aliases,
        headings=tuple(headings),
        blocks=tuple(blocks),
        links=tuple(links),
        tasks=tuple(tasks),
        words=len(body.split()),
        problem=problem,
    )


def _title(name: str) -> str:
    name = name.rpartition("/")[2]
    return name[:-3] if name[-3:].lower() == ".md" else name


def _lines(page: str, text: str, shift: int, line: int) -> tuple[list[Heading], list[Task]]:
    headings: list[Heading] = []
    tasks: list[Task] = []
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
            tasks.append(Task(text[box - 1 + shift], text[box + 1 + shift : end + shift].strip(), line))
        elif (above := page.rfind("\n", 0, begin - 1)) >= 0 and not _NO_TITLE.match(page, above + 1, begin - 1):
            title = text[above + 1 + shift : begin - 1 + shift].strip()
            headings.append(Heading(1 if found[3][0] == "=" else 2, title, line - 1, above + 1 + shift))
    return headings, tasks


def _listed(properties: dict[str, Any], name: str, separator: re.Pattern[str]) -> list[Any]:
    """The property of that name, whichever its case, as a list: a text may hold several."""
    value = properties.get(name)
    if value is None:
        value = next((value for key, value in properties.items() if key.lower() == name), None)
    if isinstance(value, str):
        return separator.split(value)
    return cast("list[Any]", value) if isinstance(value, list) else []


def _aliases(properties: dict[str, Any]) -> Iterator[str]:
    for value in _listed(properties, "aliases", _COMMA):
        if isinstance(value, str | int | float) and (alias := str(value).strip()):
            yield alias


def _property_tags(properties: dict[str, Any], text: str, block: Frontmatter) -> list[Tag]:
    values = _listed(properties, "tags", _COMMA_OR_SPACE)
    if not values:
        return []
    key = _TAGS_KEY.search(text, block.start - 1, block.end)
    position = key.end() if key else block.start
    line = text.count("\n", 0, position) + 1
    tags: list[Tag] = []
    for name in tag_names(values):
        found = _find_name(text, name, position, block.end)
        if found < 0:  # Written with escapes: it stands somewhere here.
            tags.append(Tag(name, line, position, position))
            continue
        line += text.count("\n", position, found)
        position = found + len(name)
        tags.append(Tag(name, line, found, position))
    return tags


def _find_name(text: str, name: str, start: int, end: int) -> int:
    """Where `name` stands as a word of its own."""
    found = text.find(name, start, end)
    while found >= 0:
        if not any(around.isalnum() or around in "_/-" for around in (text[found - 1], text[found + len(name)])):
            break
        found = text.find(name, found + 1, end)
    return found


def _property_links(properties: dict[str, Any], text: str, block: Frontmatter) -> Iterator[Link]:
    """The texts that are a link and nothing else, where they are written."""
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
    """What a text in these quotes says."""
    if quote == "'":
        return written.replace("''", "'")
    if quote == '"' and "\\" in written:
        return _ESCAPE.sub(r"\1", written)
    return written


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if "[[" in value:
            yield value
    elif isinstance(value, dict):
        for inner in cast("dict[str, Any]", value).values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _texts(inner)
