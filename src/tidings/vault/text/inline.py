"""Tags and links within the text of a note, found in one pass over what `markdown.mask` has left of it.

A page is that text with one line end before it, so that every line begins after one. A position in it and `shift`
together are a position in the note.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal
from urllib.parse import unquote

from tidings.vault.text.markdown import DESTINATION, WIKI_LINK
from tidings.vault.text.model import Link, Tag

_NAME = r"[^\0\u2000-\u206f\u2e00-\u2e7f'!\"#$%&()*+,.:;<=>?@^`{|}~\[\]\\\s]+"
_TAG = re.compile(rf"#({_NAME})")
_WIKI, _NAMED = 1, 2
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
    if "[[" in page or "](" in page:
        return _tags_and_links(page, text, shift, line)
    return (_tags(page, shift, line) if "#" in page else []), []


def _tags(page: str, shift: int, line: int) -> list[Tag]:
    tags: list[Tag] = []
    seen, last = 1, -1
    for found in _TAG.finditer(page):
        start = found.start()
        if (name := _tag_name(page, start, found[1], last)) is not None:
            line += page.count("\n", seen, start)
            seen, last = start, found.end()
            tags.append(Tag(name, line, start + 1 + shift, start + 1 + shift + len(name)))
    return tags


def _tags_and_links(  # noqa: C901 - one loop: a call for each thing found would take a third longer
    page: str, text: str, shift: int, line: int
) -> tuple[list[Tag], list[Link]]:
    tags: list[Tag] = []
    links: list[Link] = []
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
                tags.append(Tag(name, line, start + 1 + shift, start + 1 + shift + len(name)))
        elif page[start] == "[":
            brackets.append(start)
            if len(brackets) > _DEEPEST:
                del brackets[0]
        elif brackets:
            opening = brackets.pop()
            if kind is not None and _is_text(page, opening, start):
                if page[opening - 1] != "!":  # No link within another's text: brackets around it are only brackets.
                    brackets.clear()
                if (link := _markdown_link(page, text, opening, found, (line, shift))) is not None:
                    links.append(link)
    links.sort(key=_start)
    return tags, links


def _is_text(page: str, opening: int, closing: int) -> bool:
    """Whether what is between two brackets can be the text of a link: one paragraph, and no footnote."""
    return page[opening + 1] != "^" and _BLANK_LINE.search(page, opening, closing) is None


def _markdown_link(page: str, text: str, opening: int, found: re.Match[str], place: tuple[int, int]) -> Link | None:
    """A link from the bracket at `opening` to the end of what was found on this line, with this shift."""
    angled, bare = found[_NAMED + 1], found[_NAMED + 2]
    target, subpath = _destination(_ESCAPED.sub(r"\1", bare) if angled is None else angled)
    if not target and not subpath:
        return None
    line, shift = place
    closing = found.start()
    embed = page[opening - 1] == "!"
    shown = text[opening + 1 + shift : closing + shift]
    line -= page.count("\n", opening, closing)
    return Link("markdown", embed, target, subpath, shown, line, opening - embed + shift, found.end() + shift)


def _start(link: Link) -> int:
    return link.start


def wiki_link(kind: Literal["wiki", "property"], embed: bool, content: str, place: tuple[int, int, int]) -> Link | None:
    """A link from what stands between its brackets. Within tables, the bar before the text is escaped.

    Args:
        kind: Where it stands.
        embed: Whether it is embedded.
        content: What stands between the brackets.
        place: Its line, start and end.
    """
    if "|" not in content and "#" not in content:
        target = content.strip()
        return Link(kind, embed, target, "", None, *place) if target else None
    path, bar, shown = content.partition("|")
    if bar and path.endswith("\\"):
        path = path[:-1]
    path, mark, rest = path.partition("#")
    target, subpath = path.strip(), f"#{rest.rstrip()}" if mark else ""
    if not target and subpath in ("", "#"):
        return None
    return Link(kind, embed, target, subpath, shown if bar else None, *place)


def _destination(written: str) -> tuple[str, str]:
    """Path and subpath, decoded; two empty texts if it leads out of the vault."""
    if _EXTERNAL.match(written):
        return "", ""
    path, _, rest = written.partition("#")
    if "%" in written:
        path, rest = unquote(path), unquote(rest)
    return path.strip(), f"#{rest}" if rest else ""


def _tag_name(page: str, start: int, name: str, last: int) -> str | None:
    """The tag at `start`, or None if there is none. `last` is where the tag before it ended."""
    before = page[start - 1]
    if not before.isspace():
        if not _may_follow(page, start, last):
            return None
        if before == "_":
            name = name.rstrip("_")
    name = name.rstrip("/")
    return None if not name or (name.isascii() and name.isdigit()) else name


def _may_follow(page: str, start: int, last: int) -> bool:
    """Whether a tag may stand at `start`, right after a character that is no space.

    After another tag, after the marks of emphasis, of a quote or of a cell of a table; after nothing else.
    """
    before = page[start - 1]
    if start == last or (before in "=~" and page[start - 2] == before):
        return True
    if before not in "_*>|":
        return False
    near = max(0, start - _NEAR)  # Only so far back, or a long line would be read again for each of its tags.
    line = page.rfind("\n", near, start) + 1
    if before in "_*":
        return "://" not in page[max(line, page.rfind(" ", near, start), near) : start]
    return line > 0 and (_QUOTE if before == ">" else _TABLE).match(page, line, start) is not None


def tag_names(values: Iterable[Any]) -> Iterator[str]:
    """Those of the values of the property `tags` that are tags, with or without `#`."""
    for value in values:
        if isinstance(value, str):
            name = value.strip().removeprefix("#").rstrip("/")
            if _VALID.fullmatch(name) and not (name.isascii() and name.isdigit()):
                yield name
