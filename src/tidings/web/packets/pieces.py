"""A content cut into pieces that a chunk may begin or end at, each with its weight in tokens.

A piece is a block with the blank lines behind it. One that is too heavy is cut into its lines; a line that still is,
between sentences; failing that between words, and only what has no words at all anywhere. Joined, the pieces are the
content.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from tidings.web.packets.blocks import Span, blocks_of
from tidings.web.packets.tokens import weigh

_SENTENCE_END = re.compile(r"[.!?…]['\")\]]{0,3}\s|[\u3002\uff01\uff1f]|\n")
_SPACE = re.compile(r"\s")
_EDGE = re.compile(r"[^\w\s]")
_JOINING = frozenset("\u200d\ufe0e\ufe0f")
_CHARACTERS_A_TOKEN = 4


class Piece(NamedTuple):
    """`content[start:end]`, and what it weighs."""

    start: int
    end: int
    weight: float
    level: int = 0
    """Of the heading that it is; 0 if it is none."""


def pieces_of(content: str, heaviest: float, blocks: list[Span] | None = None) -> list[Piece]:
    """The pieces of `content`, none heavier than `heaviest` unless it is a single character."""
    spans = blocks_of(content) if blocks is None else blocks
    pieces: list[Piece] = []
    # A block begins with its line, so that its indent stays with it; what is before the first belongs to that.
    starts = [0, *(content.rfind("\n", 0, span.start) + 1 for span in spans[1:])]
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else len(content)
        level = spans[number].level if spans else 0
        pieces.extend(_whole_or_lines(content, start, end, heaviest, level))
    return pieces


def _whole_or_lines(content: str, start: int, end: int, heaviest: float, level: int) -> Iterator[Piece]:
    weight = weigh(content[start:end])
    if weight <= heaviest:
        if end > start:
            yield Piece(start, end, weight, level)
        return
    while start < end:
        behind = content.find("\n", start, end) + 1 or end
        # Blank lines stay with the line above them.
        while behind < end and content[behind] == "\n" and behind - start < heaviest:
            behind += 1
        weight = weigh(content[start:behind])
        if weight <= heaviest:
            yield Piece(start, behind, weight, level)
        else:
            yield from _cut(content, start, behind, heaviest, level)
        start, level = behind, 0


def _cut(content: str, start: int, end: int, heaviest: float, level: int) -> Iterator[Piece]:
    """One line that is too heavy: as much of it at a time as fits, to the last good place to part it."""
    while start < end:
        size = min(end - start, max(1, int(heaviest * _CHARACTERS_A_TOKEN)))
        weight = weigh(content[start : start + size])
        while size > 1 and (weight > heaviest or start + size < end):
            fitting = size if weight <= heaviest else max(1, int(size * 0.9 * heaviest / weight))
            size = _parting(content, start, start + fitting, end) - start
            weight = weigh(content[start : start + size])
            if weight <= heaviest:
                break
        yield Piece(start, start + size, weight, level)
        start, level = start + size, 0


def _parting(content: str, start: int, most: int, end: int) -> int:
    """The best place to part `content` behind `start` and not behind `most`."""
    if most >= end:
        return end
    half = start + (most - start) // 2
    for pattern in (_SENTENCE_END, _SPACE, _EDGE):
        last = 0
        for found in pattern.finditer(content, half, most):
            last = found.end()
        if last > start:
            return last
    place = most
    while place > start + 1 and most - place < 16 and _belongs_to_what_is_before(content[place]):
        place -= 1
    return place


def _belongs_to_what_is_before(character: str) -> bool:
    return character in _JOINING or unicodedata.combining(character) > 0 or "\udc00" <= character <= "\udfff"
