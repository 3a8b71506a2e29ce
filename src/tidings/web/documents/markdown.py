"""Markdown cut into its blocks, each with its exact place.

    blocks_of(content) -> list[Span]        content[span.start:span.end] is the block, as it stands

One pass over the lines, each looked at once, whatever the text: no markdown is wrong, and what is no heading, list,
code, table, quote or meta is a paragraph. Between the blocks are only white space and rules (`---`). Blocks do not
nest: code within a list is part of the list. Of more than `MOST` blocks, the last one is all the rest.

The headings of a content: the outline, and which headings a place stands below.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tidings.web.documents.model import BlockKind, OutlineItem

MOST = 200_000

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]|$)")
_FENCE = re.compile(r"[ \t]*+(?:[-+*][ \t]++|\d{1,9}[.)][ \t]++)?(`{3,}+|~{3,}+)")
_ITEM = re.compile(r"[ \t]*+(?:[-+*]|(\d{1,9})[.)])(?:[ \t]|$)")
_QUOTE = re.compile(r" {0,3}>")
_META = re.compile(r" {0,3}\[[^\[\]]{1,200}\]:[ \t]*+\S|[ \t]*+<!--")
_LINK = re.compile(r"!?\[([^\[\]]{0,500})\]\([^()\s]{0,2000}\)")
_EMPHASIS = re.compile(r"\\([\\`*_\[\]])|\*{1,3}|`{1,2}")
_FRONT_MATTER = 200
"""Lines that front matter has at most."""
_HEADING_LINES = 3
"""Lines that a heading with a line below it has at most; more is a paragraph above a rule."""


class BlockSpan(NamedTuple):
    """A block: what it is and where it stands."""

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    """Of a heading, 1 to 6."""


def blocks_of(content: str) -> list[BlockSpan]:
    """The blocks of `content`, in their order."""
    # Lines end at a line feed alone: what else Python takes for a line end stays within.
    lines = content.split("\n")
    spans: list[BlockSpan] = []
    at = start = 0
    while at < len(lines) and len(spans) < MOST:
        if _blank(lines[at]):
            start += len(lines[at]) + 1
            at += 1
            continue
        kind, level, end = _block(lines, at)
        length = sum(map(len, lines[at:end])) + end - at
        if kind is not None:
            spans.append(_span(content, start, start + length, kind, level))
        start += length
        at = end
    if not content[start:].isspace() and start < len(content):
        spans.append(_span(content, start, len(content), "paragraph", 0))
    return spans


def heading_text(block: str) -> str:
    """What a heading says, without its marks, on one line."""
    text = block.strip()
    if not text.startswith("#"):
        return _plain(text.rpartition("\n")[0])
    words = text.lstrip("#").split()
    if words and not words[-1].strip("#"):
        words.pop()
    return _plain(" ".join(words))


def _plain(text: str) -> str:
    """Words without their markup; links and images by their label."""
    if "](" in text:
        text = _LINK.sub(r"\1", _LINK.sub(r"\1 ", text))
    return " ".join(_EMPHASIS.sub(r"\1", text).split())


def _blank(line: str) -> bool:
    return not line or line.isspace()


def _indented(line: str) -> bool:
    return line.startswith(("  ", "\t"))


def _span(content: str, start: int, end: int, kind: BlockKind, level: int) -> BlockSpan:
    text = content[start:end]
    # The indent of code and of a list belongs to it; before anything else it is nothing.
    lead = 0 if kind in {"code", "list"} else len(text) - len(text.lstrip())
    return BlockSpan(kind, start + lead, start + len(text.rstrip()), level)


def _block(lines: Sequence[str], at: int) -> tuple[BlockKind | None, int, int]:
    """The kind (None: a rule), the heading's level and the line behind the block that begins at line `at`."""
    if level := _level(lines[at]):
        return "heading", level, at + 1
    for kind, behind in _BLOCKS:
        if end := behind(lines, at):
            return kind, 0, end
    return _paragraph(lines, at)


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


def _level(line: str) -> int:
    found = _HEADING.match(line)
    return len(found[1]) if found else 0


def _is_rule(line: str) -> bool:
    bare = line.strip()
    mark = bare[:1]
    if mark not in {"-", "*", "_"} or _is_code(line):
        return False
    return not bare.strip(mark + " \t") and bare.count(mark) >= 3


def _fence(line: str) -> str:
    found = _FENCE.match(line)
    if found is None:
        return ""
    # Backticks behind the fence make it inline code.
    return "" if found[1][0] == "`" and "`" in line[found.end() :] else found[1]


def _behind_fence(lines: Sequence[str], at: int, fence: str) -> int:
    for end in range(at + 1, len(lines)):
        text = lines[end].strip()
        if text.startswith(fence) and not text.strip(fence[0]):
            return end + 1
    return len(lines)


def _rule(lines: Sequence[str], at: int) -> int:
    return at + 1 if _is_rule(lines[at]) else 0


def _code(lines: Sequence[str], at: int) -> int:
    line = lines[at]
    if _ITEM.match(line):
        return 0
    if fence := _fence(line):
        return _behind_fence(lines, at, fence)
    return _while(lines, at, _is_code) if _is_code(line) else 0


def _is_code(line: str) -> bool:
    return line.startswith(("    ", "\t"))


def _list(lines: Sequence[str], at: int) -> int:
    return _behind_list(lines, at) if _ITEM.match(lines[at]) else 0


def _quote(lines: Sequence[str], at: int) -> int:
    return _while(lines, at, _is_quote) if _is_quote(lines[at]) else 0


def _is_quote(line: str) -> bool:
    return _QUOTE.match(line) is not None


def _table(lines: Sequence[str], at: int) -> int:
    return _while(lines, at, lambda one: "|" in one) if _is_table(lines, at) else 0


def _while(lines: Sequence[str], at: int, same: Callable[[str], bool]) -> int:
    end = at + 1
    while end < len(lines) and not _blank(lines[end]) and same(lines[end]):
        end += 1
    return end


def _behind_list(lines: Sequence[str], at: int) -> int:
    """Items, what is indented below them, and their lazily broken lines; blank lines between them too."""
    end = at
    after_blank = False
    while end < len(lines):
        line = lines[end]
        if _blank(line):
            after_blank = True
            end += 1
            continue
        item = _ITEM.match(line) is not None and not _is_rule(line)
        if not item and not _indented(line) and (after_blank or _interrupts(lines, end)):
            return end
        fence = _fence(line)
        end = _behind_fence(lines, end, fence) if fence else end + 1
        after_blank = False
    return end


def _meta(lines: Sequence[str], at: int) -> int:
    """A comment ends where it says so; definitions of links follow each other."""
    if not _META.match(lines[at]):
        return 0
    if lines[at].lstrip().startswith("<!--"):
        end = at
        while end < len(lines) and not _blank(lines[end]):
            end += 1
            if "-->" in lines[end - 1]:
                break
        return end
    return _while(lines, at, lambda one: _META.match(one) is not None)


def _is_table(lines: Sequence[str], at: int) -> bool:
    if "|" not in lines[at] or at + 1 >= len(lines):
        return False
    below = lines[at + 1]
    return "-" in below and "|" in below and not below.strip("|-: \t\r")


def _interrupts(lines: Sequence[str], at: int) -> bool:
    """Whether a line ends the paragraph before it without a blank line between them."""
    line = lines[at]
    item = _ITEM.match(line)
    return bool(
        _level(line)
        or (_fence(line) and not _indented(line))
        or _QUOTE.match(line)
        or _is_rule(line)
        # A number at the beginning of a line is a list only if it counts from one.
        or (item is not None and line.strip("-+* \t") and item[1] in {None, "1"})
        or _is_table(lines, at)
    )


def _paragraph(lines: Sequence[str], at: int) -> tuple[BlockKind, int, int]:
    end = at + 1
    while end < len(lines) and not _blank(lines[end]):
        under = lines[end].strip()
        if under[:2] in {"==", "--"} and not under.strip(under[0]) and end - at <= _HEADING_LINES:
            return "heading", 1 if under[0] == "=" else 2, end + 1
        if _interrupts(lines, end):
            break
        end += 1
    return "paragraph", 0, end


_BLOCKS: tuple[tuple[BlockKind | None, Callable[[Sequence[str], int], int]], ...] = (
    ("meta", _front_matter),
    (None, _rule),
    ("code", _code),
    ("list", _list),
    ("quote", _quote),
    ("table", _table),
    ("meta", _meta),
)
"""In this order: what tells the line behind such a block, or 0 if none begins here."""


_LONGEST = 300
"""Characters of a heading that are given."""

Path = tuple[str, ...]
"""Headings from the outermost to the innermost."""


def shown(path: Path) -> str:
    """A path as it is read: `Like > This`."""
    return " > ".join(path)


def outline_of(content: str, blocks: Sequence[BlockSpan]) -> list[OutlineItem]:
    """Every heading that says something, with those above it."""
    return [
        OutlineItem(level=block.level, text=text, path=shown(path))
        for block, text, path in _walk(content, blocks)
        if text
    ]


class Sections:
    """Where each section begins. A section is what stands below one heading, up to the next one of any level."""

    def __init__(self, content: str, blocks: Sequence[BlockSpan], above: Path = ()) -> None:
        """`above` are the headings of what comes before the first heading."""
        found = list(_walk(content, blocks))
        self.starts = [0, *(block.start for block, _, _ in found)]
        self.paths: list[Path] = [above, *(path for _, _, path in found)]

    def at(self, place: int) -> int:
        """The number of the section that `place` is in; 0 is what comes before the first heading."""
        return bisect_right(self.starts, place, lo=1) - 1


def common(paths: Sequence[Path]) -> Path:
    """The headings that all of `paths` begin with."""
    if not paths:
        return ()
    # The smallest and the largest differ the earliest.
    first, last = min(paths), max(paths)
    same = 0
    while same < len(first) and first[same] == last[same]:
        same += 1
    return first[:same]


def _walk(content: str, blocks: Sequence[BlockSpan]) -> Iterator[tuple[BlockSpan, str, Path]]:
    above: list[tuple[int, str]] = []
    for block in blocks:
        if block.kind == "heading":
            while above and above[-1][0] >= block.level:
                above.pop()
            text = heading_text(content[block.start : block.end])
            text = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
            if text:
                above.append((block.level, text))
            yield block, text, tuple(one for _, one in above)
