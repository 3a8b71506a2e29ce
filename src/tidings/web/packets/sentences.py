"""A content as the units that a summary picks from: sentences, items of lists, rows of tables, pieces of code.

Each is a slice of the content, so that what is picked is what the page says, word for word.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidings.web.packets.blocks import Span
from tidings.web.packets.model import BlockKind
from tidings.web.packets.sections import Sections

# Only the first mark of a run begins a match: a line of dots is looked at once.
_END = re.compile(
    r"(?<![.!?…])[.!?…]++['\"”’»)\]*_]{0,4}+\s++|[\u3002\uff01\uff1f]++[”」』\uff09]{0,2}+\s*+"  # noqa: RUF001
)
_WORD_BEFORE = re.compile(r"[^\W\d_][\w.]{0,12}$")
_SHORTENED = frozenset(
    (
        *("mr", "mrs", "ms", "dr", "prof", "st", "no", "vs", "etc", "e.g", "i.e", "cf", "fig", "al", "jr", "sr", "inc"),
        *(
            "ltd",
            "co",
            "dept",
            "approx",
            "est",
            "vol",
            "pp",
            "ca",
            "bzw",
            "z.b",
            "usw",
            "d.h",
            "ggf",
            "nr",
            "abs",
            "art",
        ),
        *("mme", "ex", "sra", "dra", "av", "núm", "pág", "gen", "rev", "hon", "u.s"),
        *("jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec"),
    )
)
_ITEM = re.compile(r"[ \t]*+(?:[-+*]|\d{1,9}[.)])[ \t]")
_LONGEST, _PART = 1_200, 600
"""Characters of a sentence before it is cut, and of the parts that it is cut into."""


class Sentence(NamedTuple):
    """`content[start:end]`."""

    start: int
    end: int
    kind: BlockKind
    section: int
    block: int
    """The number of the block that it is in."""
    rank: int
    """Its place within the block, from 0."""


def sentences_of(content: str, blocks: Sequence[Span], sections: Sections) -> Iterator[Sentence]:
    """All units of `content` in their order. Headings and meta are none."""
    for number, block in enumerate(blocks):
        if block.kind in {"heading", "meta"}:
            continue
        section = sections.at(block.start)
        for rank, (start, end) in enumerate(_units(content, block)):
            yield Sentence(start, end, block.kind, section, number, rank)


def _units(content: str, block: Span) -> Iterator[tuple[int, int]]:
    if block.kind in {"paragraph", "quote"}:
        yield from _sentences(content, block.start, block.end)
    elif block.kind == "list":
        yield from _items(content, block)
    elif block.kind == "table":
        for start, end in _lines(content, block):
            if content[start:end].strip("|-: \t"):
                yield start, end
    else:
        yield block.start, block.end


def _lines(content: str, block: Span) -> Iterator[tuple[int, int]]:
    start = block.start
    while start < block.end:
        end = content.find("\n", start, block.end)
        end = block.end if end < 0 else end
        yield start, end
        start = end + 1


def _items(content: str, block: Span) -> Iterator[tuple[int, int]]:
    """Each item with what is indented below it."""
    first = block.start
    for start, _ in _lines(content, block):
        if start > first and _ITEM.match(content, start, block.end):
            yield from _trimmed(content, first, start)
            first = start
    yield from _trimmed(content, first, block.end)


def _sentences(content: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for found in _END.finditer(content, start, end):
        if found.end() < end and not _goes_on(content, found):
            yield from _trimmed(content, start, found.end())
            start = found.end()
    yield from _trimmed(content, start, end)


def _goes_on(content: str, end: re.Match[str]) -> bool:
    """Whether a full stop is none: in a link, of a shortened word, of initials, or before a small letter."""
    near = max(0, end.start() - 300)
    if content.rfind("[", near, end.start()) > content.rfind("]", near, end.start()):
        return True  # within the words of a link
    if end[0][0] != ".":
        return False
    word = _WORD_BEFORE.search(content, max(0, end.start() - 14), end.start())
    shortened = word is not None and (len(word[0]) == 1 or word[0].lower() in _SHORTENED)
    return shortened or content[end.end()].islower()


def _trimmed(content: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Without the space around; what is too long to be picked is cut between words."""
    while start < end and content[start].isspace():
        start += 1
    while end > start and content[end - 1].isspace():
        end -= 1
    while end - start > _LONGEST:
        cut = max(content.rfind(" ", start, start + _PART), content.rfind("\n", start, start + _PART))
        cut = cut if cut > start else start + _PART
        yield start, cut
        start = cut
        while start < end and content[start].isspace():
            start += 1
    if start < end:
        yield start, end
