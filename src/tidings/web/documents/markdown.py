"""Markdown as blocks and headings, each with its exact place.

One pass over the lines, each looked at once, whatever the text: no Markdown is wrong, and what is not a heading, list,
code, table, quote or meta is a paragraph. Between the blocks are only white space and rules (`---`). Blocks do not
nest: code within a list is part of the list. Of more than `MOST` blocks, the last one is all the rest.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from tidings._kit.text import shortened
from tidings.web.documents.model import BlockKind, OutlineItem

MOST = 200_000

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]|$)")
_FENCE = re.compile(r"[ \t]*+(?:[-+*][ \t]++|\d{1,9}[.)][ \t]++)?(`{3,}+|~{3,}+)")
_ITEM = re.compile(r"[ \t]*+(?:[-+*]|(\d{1,9})[.)])(?:[ \t]|$)")
_QUOTE = re.compile(r" {0,3}>")
_META = re.compile(r" {0,3}\[[^\[\]]{1,200}\]:[ \t]*+\S|[ \t]*+<!--")
_LINK = re.compile(r"!?\[([^\[\]]{0,500})\]\([^()\s]{0,2000}\)")
_EMPHASIS = re.compile(r"\\([\\`*_\[\]])|\*{1,3}|`{1,2}")
_INDENTS = ("  ", "\t")  # Those of what belongs to an item above.
_FRONT_MATTER = 200  # The longest front matter, in lines.
_HEADING_LINES = 3  # The longest underlined heading, in lines; more is a paragraph above a rule.


class BlockSpan(NamedTuple):
    """A block: its kind and its place."""

    kind: BlockKind
    start: int
    end: int
    level: int = 0  # 1 to 6 for a heading, otherwise 0.


def blocks_of(content: str) -> list[BlockSpan]:
    """Returns the blocks of `content` in their order."""
    # Lines end at a line feed alone: other line ends that Python knows stay within.
    lines = content.split("\n")
    found: list[BlockSpan] = []
    at = start = 0
    while at < len(lines) and len(found) < MOST:
        if _blank(lines[at]):
            start += len(lines[at]) + 1
            at += 1
            continue
        kind, level, end = _block(lines, at)
        length = sum(map(len, lines[at:end])) + end - at
        if kind is not None:
            found.append(_span(content, start, start + length, kind, level))
        start += length
        at = end
    if not content[start:].isspace() and start < len(content):
        found.append(_span(content, start, len(content), "paragraph", 0))
    return found


def heading_text(block: str) -> str:
    """Returns the text of a heading without markup, on one line."""
    text = block.strip()
    if not text.startswith("#"):
        return _plain(text.rpartition("\n")[0])
    words = text.lstrip("#").split()
    if words and not words[-1].strip("#"):
        words.pop()
    return _plain(" ".join(words))


def _plain(text: str) -> str:
    if "](" in text:
        text = _LINK.sub(r"\1", _LINK.sub(r"\1 ", text))
    return " ".join(_EMPHASIS.sub(r"\1", text).split())


def _blank(line: str) -> bool:
    return not line or line.isspace()


def _span(content: str, start: int, end: int, kind: BlockKind, level: int) -> BlockSpan:
    text = content[start:end]
    # The indent of code and of a list belongs to it; before anything else it is nothing.
    lead = 0 if kind in {"code", "list"} else len(text) - len(text.lstrip())
    return BlockSpan(kind, start + lead, start + len(text.rstrip()), level)


def _block(lines: Sequence[str], at: int) -> tuple[BlockKind | None, int, int]:
    """Returns the kind (None: a rule), the heading's level and the line behind the block that begins at line `at`."""
    line = lines[at]
    kind: BlockKind | None
    if heading := _HEADING.match(line):
        return "heading", len(heading[1]), at + 1
    if end := _front_matter(lines, at):
        kind = "meta"
    elif _is_rule(line):
        kind, end = None, at + 1
    elif _ITEM.match(line):
        kind, end = "list", _behind_list(lines, at)
    elif fence := _fence(line):
        kind, end = "code", _behind_fence(lines, at, fence)
    elif _is_code(line):
        kind, end = "code", _while(lines, at, _is_code)
    elif _QUOTE.match(line):
        kind, end = "quote", _while(lines, at, lambda one: _QUOTE.match(one) is not None)
    elif _is_table(lines, at):
        kind, end = "table", _while(lines, at, lambda one: "|" in one)
    elif _META.match(line):
        kind, end = "meta", _behind_meta(lines, at)
    else:
        return _paragraph(lines, at)
    return kind, 0, end


def _front_matter(lines: Sequence[str], at: int) -> int:
    if at or lines[0].rstrip() != "---":
        return 0
    for end in range(1, min(len(lines), _FRONT_MATTER)):
        text = lines[end].rstrip()
        if text in {"---", "..."}:
            return end + 1 if end > 1 else 0
        if not text:
            break
    return 0


def _is_rule(line: str) -> bool:
    bare = line.strip()
    mark = bare[:1]
    return mark in {"-", "*", "_"} and not _is_code(line) and not bare.strip(mark + " \t") and bare.count(mark) >= 3


def _fence(line: str) -> str:
    found = _FENCE.match(line)
    # Backticks behind the fence make it inline code.
    return "" if found is None or (found[1][0] == "`" and "`" in line[found.end() :]) else found[1]


def _behind_fence(lines: Sequence[str], at: int, fence: str) -> int:
    for end in range(at + 1, len(lines)):
        text = lines[end].strip()
        if text.startswith(fence) and not text.strip(fence[0]):
            return end + 1
    return len(lines)


def _is_code(line: str) -> bool:
    return line.startswith(("    ", "\t"))


def _while(lines: Sequence[str], at: int, same: Callable[[str], bool]) -> int:
    end = at + 1
    while end < len(lines) and not _blank(lines[end]) and same(lines[end]):
        end += 1
    return end


def _behind_list(lines: Sequence[str], at: int) -> int:
    """Passes items, what is indented below them, their continuation lines, and blank lines between them."""
    end = at
    after_blank = False
    while end < len(lines):
        line = lines[end]
        if _blank(line):
            after_blank = True
            end += 1
            continue
        item = _ITEM.match(line) is not None and not _is_rule(line)
        if not item and not line.startswith(_INDENTS) and (after_blank or _interrupts(lines, end)):
            return end
        fence = _fence(line)
        end = _behind_fence(lines, end, fence) if fence else end + 1
        after_blank = False
    return end


def _behind_meta(lines: Sequence[str], at: int) -> int:
    """Passes a comment up to its end, or definitions of links that follow each other."""
    if lines[at].lstrip().startswith("<!--"):
        for end in range(at, len(lines)):
            if _blank(lines[end]) or "-->" in lines[end]:
                return end if _blank(lines[end]) else end + 1
        return len(lines)
    return _while(lines, at, lambda one: _META.match(one) is not None)


def _is_table(lines: Sequence[str], at: int) -> bool:
    if "|" not in lines[at] or at + 1 >= len(lines):
        return False
    below = lines[at + 1]
    return "-" in below and "|" in below and not below.strip("|-: \t\r")


def _interrupts(lines: Sequence[str], at: int) -> bool:
    """Returns whether a line ends the paragraph before it without a blank line between them."""
    line = lines[at]
    item = _ITEM.match(line)
    return bool(
        _HEADING.match(line)
        or (_fence(line) and not line.startswith(_INDENTS))
        or _QUOTE.match(line)
        or _is_rule(line)
        # A number at the beginning of a line is a list only if it counts from one.
        or (item is not None and line.strip("-+* \t") and item[1] in {None, "1"})
        or _is_table(lines, at)
    )


def _paragraph(lines: Sequence[str], at: int) -> tuple[BlockKind, int, int]:
    end = at + 1
    while end < len(lines) and not _blank(lines[end]):
        if lines[end][0].isalpha() and "|" not in lines[end]:  # The usual case: nothing begins so.
            end += 1
            continue
        under = lines[end].strip()
        if under[:2] in {"==", "--"} and not under.strip(under[0]) and end - at <= _HEADING_LINES:
            return "heading", 1 if under[0] == "=" else 2, end + 1
        if _interrupts(lines, end):
            break
        end += 1
    return "paragraph", 0, end


_LONGEST = 300  # Characters of a heading that are kept.
_LONGEST_PATH = 160  # Characters of the headings above a place that are shown.

Path = tuple[str, ...]  # Headings from the outermost to the innermost.


def shown(path: Path) -> str:
    """Returns a path as text: `Like > This`."""
    return " > ".join(path)


def outline_of(content: str, blocks: Iterable[BlockSpan]) -> list[OutlineItem]:
    """Returns every heading that has a text, with those above it."""
    return [
        OutlineItem(level=block.level, text=text, path=shown(path))
        for block, text, path in _headings(content, blocks)
        if text
    ]


class Sections:
    """The sections of a content: what stands below each heading. `above` are the headings before the first one."""

    def __init__(self, content: str, blocks: Iterable[BlockSpan], above: Path = ()) -> None:
        found = list(_headings(content, blocks))
        self.starts = [0, *(block.start for block, _, _ in found)]
        self.paths: list[Path] = [above, *(path for _, _, path in found)]

    def at(self, place: int) -> int:
        """Returns the number of the section of a place; 0 is what comes before the first heading."""
        return bisect_right(self.starts, place, lo=1) - 1

    def headings(self, place: int) -> str:
        """Returns the headings above a place, its own included: `Like > This`."""
        return shortened(shown(self.paths[self.at(place)]), _LONGEST_PATH)


def common(paths: Sequence[Path]) -> Path:
    """Returns the headings that all paths begin with."""
    same = takewhile(lambda level: len(set(level)) == 1, zip(*paths, strict=False))
    return tuple(level[0] for level in same)


def _headings(content: str, blocks: Iterable[BlockSpan]) -> Iterator[tuple[BlockSpan, str, Path]]:
    above: list[tuple[int, str]] = []
    for block in blocks:
        if block.kind == "heading":
            while above and above[-1][0] >= block.level:
                above.pop()
            text = shortened(heading_text(content[block.start : block.end]), _LONGEST + 1)
            if text:
                above.append((block.level, text))
            yield block, text, tuple(one for _, one in above)
