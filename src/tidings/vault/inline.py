"""Tags and links within the text of a note, found in one pass over what `markdown.mask` has left of it.

A page is that text with one line end before it, so that every line begins after one. A position in it and `shift`
together are a position in the note.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal
from urllib.parse import unquote

from tidings.vault.markdown import DESTINATION, WIKI_LINK
from tidings.vault.model import Link, Tag

_NAME = r"[^\0\u2000-\u206f\u2e00-\u2e7f'!\"#$%&()*+,.:;<=>?@^`{|}~\[\]\\\s]+"
_TAG = re.compile(rf"#({_NAME})")
_WIKI_OR_TAG = re.compile(rf"{WIKI_LINK}|#({_NAME})")
_ANY = re.compile(rf"{WIKI_LINK}|#({_NAME})|{DESTINATION}|\[|\]")
_VALID = re.compile(_NAME)
_EXTERNAL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:|//")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_BLANK_LINE = re.compile(r"\n[ \t>]*\r?\n")
_QUOTE = re.compile(r"[ \t>]*+\Z")
_TABLE = re.compile(r"[ \t>]*+\|")
_NEAR = 1000
_DEEPEST = 16
"""As many open brackets are remembered. More are no links that anyone wrote, and would take long."""


def find_inline(page: str, text: str, shift: int, line: int) -> tuple[list[Tag], list[Link]]:
    """The tags and the links, in their order."""
    if "](" in page:
        return _Full(page, text, shift, line).find()
    if "[[" in page:
        return _wiki_and_tags(page, text, shift, line)
    return (_tags(page, shift, line) if "#" in page else []), []


def _tags(page: str, shift: int, line: int) -> list[Tag]:
    tags: list[Tag] = []
    seen, last = 1, -1
    for found in _TAG.finditer(page):
        start = found.start()
        if (page[start - 1].isspace() or may_follow(page, start, last)) and (name := _tag_name(found[1])):
            line += page.count("\n", seen, start)
            seen = start
            last = found.end()
            tags.append(Tag(name, line, start + 1 + shift, start + 1 + shift + len(name)))
    return tags


def _wiki_and_tags(page: str, text: str, shift: int, line: int) -> tuple[list[Tag], list[Link]]:
    tags: list[Tag] = []
    links: list[Link] = []
    seen, last = 1, -1
    for found in _WIKI_OR_TAG.finditer(page):
        start = found.start()
        line += page.count("\n", seen, start)
        seen = start
        if found.lastindex == 1:
            embed = page[start - 1] == "!"
            link = wiki_link("wiki", embed, found[1], line, start - embed + shift, found.end() + shift)
            if link is not None:
                links.append(link)
        elif (page[start - 1].isspace() or may_follow(page, start, last)) and (name := _tag_name(found[2])):
            last = found.end()
            tags.append(Tag(name, line, start + 1 + shift, start + 1 + shift + len(name)))
    return tags, links


class _Full:
    """With links of Markdown: their text may hold brackets, and images."""

    def __init__(self, page: str, text: str, shift: int, line: int) -> None:
        self._page, self._text, self._shift = page, text, shift
        self._line, self._seen = line, 1
        self._open: list[int] = []
        self._tags: list[Tag] = []
        self._links: list[Link] = []

    def find(self) -> tuple[list[Tag], list[Link]]:
        page, shift, last = self._page, self._shift, -1
        for found in _ANY.finditer(page):
            start, kind = found.start(), found.lastindex
            if kind == 1:
                embed = page[start - 1] == "!"
                link = wiki_link(
                    "wiki", embed, found[1], self._line_of(start), start - embed + shift, found.end() + shift
                )
                if link is not None:
                    self._links.append(link)
            elif kind == 2:
                if (page[start - 1].isspace() or may_follow(page, start, last)) and (name := _tag_name(found[2])):
                    last = found.end()
                    self._tags.append(Tag(name, self._line_of(start), start + 1 + shift, start + 1 + shift + len(name)))
            elif found[0] == "[":
                self._open.append(start)
                if len(self._open) > _DEEPEST:
                    del self._open[0]
            elif self._open:
                opening = self._open.pop()
                if kind is not None:
                    self._markdown(opening, start, found.end(), found[3], found[4])
        self._links.sort(key=_start)
        return self._tags, self._links

    def _markdown(self, opening: int, closing: int, end: int, angled: str | None, bare: str | None) -> None:
        """A link from the bracket at `opening`, whose text ends at `closing`."""
        embed = self._page[opening - 1] == "!"
        if _BLANK_LINE.search(self._page, opening, closing) or self._page.startswith("^", opening + 1):
            return
        if not embed:  # No link within another's text: the brackets around this one are only brackets.
            self._open.clear()
        target, subpath = split_destination(angled if bare is None else _ESCAPED.sub(r"\1", bare))
        if not target and not subpath:
            return
        shift = self._shift
        shown = self._text[opening + 1 + shift : closing + shift]
        line = self._line_of(closing) - self._page.count("\n", opening, closing)
        self._links.append(Link("markdown", embed, target, subpath, shown, line, opening - embed + shift, end + shift))

    def _line_of(self, position: int) -> int:
        self._line += self._page.count("\n", self._seen, position)
        self._seen = position
        return self._line


def _start(link: Link) -> int:
    return link.start


def wiki_link(
    kind: Literal["wiki", "property"], embed: bool, content: str, line: int, start: int, end: int
) -> Link | None:
    """A link from what stands between its brackets. Within tables, the bar before the text is escaped."""
    path, bar, shown = content.partition("|")
    if bar and path.endswith("\\"):
        path = path[:-1]
    path, mark, rest = path.partition("#")
    target, subpath = path.strip(), (mark + rest).rstrip()
    if not target and subpath in ("", "#"):
        return None
    return Link(kind, embed, target, subpath, shown if bar else None, line, start, end)


def split_destination(destination: str | None) -> tuple[str, str]:
    """Path and subpath, decoded; two empty texts if it leads out of the vault."""
    if not destination or _EXTERNAL.match(destination):
        return "", ""
    path, mark, rest = destination.partition("#")
    return unquote(path).strip(), mark + unquote(rest) if rest else ""


def may_follow(page: str, start: int, last: int) -> bool:
    """Whether a tag may stand right after the character before `start`, which is no space.

    After another tag, after the marks of emphasis, of a quote or of a cell of a table; after no other character.
    """
    before = page[start - 1]
    if start == last or (before in "=~" and page[start - 2] == before):
        return True
    if before not in "_*>|":
        return False
    near = max(0, start - _NEAR)  # Only so far back, or a long line would be read again for each of its tags.
    line = page.rfind("\n", near, start) + 1
    if before in "_*":
        return "://" not in page[max(line, page.rfind(" ", near, start)) : start]
    return line > 0 and (_QUOTE if before == ">" else _TABLE).match(page, line, start) is not None


def _tag_name(name: str) -> str:
    """Without what is no part of it; empty if it is none: a tag of digits alone is a number."""
    name = name.rstrip("/") if name.endswith("/") else name
    return "" if name.isascii() and name.isdigit() else name


def tag_names(values: Iterable[Any]) -> Iterator[str]:
    """The tags that the property `tags` holds: with or without `#`, one a value or several in a text."""
    for value in values:
        if isinstance(value, str):
            for word in re.split(r"[,\s]+", value):
                name = word.removeprefix("#")
                if _VALID.fullmatch(name) and (name := _tag_name(name)):
                    yield name
