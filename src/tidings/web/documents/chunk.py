"""A content in chunks that each fit a budget of tokens. Joined in their order, they are the content.

`headings_first` keeps a section together where it fits; `balanced` gives as few chunks as needed, of about the same
size. A heading never ends a chunk if anything follows it. What is too heavy is cut: into lines, sentences, words.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from math import ceil
from typing import Literal, NamedTuple

from tidings.web.documents.budget import estimate, weigh
from tidings.web.documents.markdown import BlockSpan, Sections, blocks_of, common, shown
from tidings.web.documents.model import Chunk

_SENTENCE_END = re.compile(r"[.!?…]['\")\]]{0,3}\s|[\u3002\uff01\uff1f]|\n")
_SPACE = re.compile(r"\s")
_EDGE = re.compile(r"[^\w\s]")
_JOINING = frozenset("\u200d\ufe0e\ufe0f")
_CHARACTERS_A_TOKEN = 4

Strategy = Literal["headings_first", "balanced"]

SMALLEST = 16  # The smallest budget in tokens: with fewer, single characters of some scripts would not fit.
# The share of the budget that must be filled before a section that is too long for a chunk begins a new one.
_WORTH_A_CHUNK = 0.25
_NEAR = 0.8  # The share of a balanced chunk behind which a heading may begin the next one.


class ChunkPiece(NamedTuple):
    """`content[start:end]`, and its weight in tokens."""

    start: int
    end: int
    weight: float
    level: int = 0  # The level of a heading; 0 if it is not a heading.


def pieces_of(content: str, heaviest: float, blocks: list[BlockSpan] | None = None) -> list[ChunkPiece]:
    """Returns the pieces of `content`, none heavier than `heaviest` unless it is a single character."""
    spans = blocks_of(content) if blocks is None else blocks
    pieces: list[ChunkPiece] = []
    # A block begins with its line, so that its indent stays with it; what is before the first belongs to it.
    starts = [0, *(content.rfind("\n", 0, span.start) + 1 for span in spans[1:]), len(content)]
    for number, (first, end) in enumerate(pairwise(starts)):
        start, level = first, spans[number].level if spans else 0
        weight = weigh(content[start:end])
        if start < end and weight <= heaviest:
            pieces.append(ChunkPiece(start, end, weight, level))
            continue
        while start < end:
            behind = content.find("\n", start, end) + 1 or end
            # Blank lines stay with the line above them.
            while behind < end and content[behind] == "\n" and behind - start < heaviest:
                behind += 1
            weight = weigh(content[start:behind])
            if weight <= heaviest:
                pieces.append(ChunkPiece(start, behind, weight, level))
            else:
                pieces.extend(_cut(content, start, behind, heaviest, level))
            start, level = behind, 0
    return pieces


def _cut(content: str, start: int, end: int, heaviest: float, level: int) -> Iterator[ChunkPiece]:
    """Cuts a line that is too heavy: as much at a time as fits, up to the last good place."""
    while start < end:
        size = min(end - start, max(1, int(heaviest * _CHARACTERS_A_TOKEN)))
        weight = weigh(content[start : start + size])
        while size > 1 and (weight > heaviest or start + size < end):
            fitting = size if weight <= heaviest else max(1, int(size * 0.9 * heaviest / weight))
            size = _best_cut(content, start, start + fitting, end) - start
            weight = weigh(content[start : start + size])
            if weight <= heaviest:
                break
        yield ChunkPiece(start, start + size, weight, level)
        start, level = start + size, 0


def _best_cut(content: str, start: int, most: int, end: int) -> int:
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
    while place > start + 1 and most - place < 16:
        one = content[place]
        if one not in _JOINING and not unicodedata.combining(one) and not "\udc00" <= one <= "\udfff":
            break  # It does not continue a character.
        place -= 1
    return place


def chunk(
    source_id: str,
    content: str,
    *,
    max_tokens: int = 4000,
    margin_ratio: float = 0.10,
    strategy: Strategy = "headings_first",
) -> list[Chunk]:
    """Returns the chunks of `content`, none over `max_tokens` less the margin. Raises `ValueError` for too few."""
    budget = int(max_tokens * (1 - margin_ratio))
    if budget < SMALLEST:
        raise ValueError(f"Less the margin, {budget} tokens are left for a chunk. Give a max_tokens of 20 or more.")
    if not content:
        return []
    blocks = blocks_of(content)
    sections = Sections(content, blocks)
    chunks: list[Chunk] = []
    for number, (start, end) in enumerate(pairwise([0, *_ends(content, budget, strategy, blocks)])):
        text = content[start:end]
        first = sections.at(start + len(text) - len(text.lstrip()))
        last = sections.at(start + len(text.rstrip()) - 1)
        path = shown(common(sections.paths[first : max(first, last) + 1]))
        name, size = f"{source_id}:c{number}", estimate(text)
        chunks.append(
            Chunk(chunk_id=name, headings_path=path, text=text, est_tokens=size, start_char=start, end_char=end)
        )
    return chunks


def _ends(content: str, budget: int, strategy: Strategy, blocks: list[BlockSpan]) -> Iterator[int]:
    """Yields where each chunk ends."""
    heaviest: float = budget
    if strategy == "balanced":
        total = weigh(content)
        if total <= budget:
            yield len(content)
            return
        # Small pieces leave a choice of places to cut.
        heaviest = min(budget, max(SMALLEST, total / ceil(total / budget) / 4))
    pieces = pieces_of(content, heaviest, blocks)
    before = [0.0, *accumulate(piece.weight for piece in pieces)]
    first = 0
    while first < len(pieces):
        at = (_evenly if strategy == "balanced" else _in_sections)(pieces, before, first, budget)
        last = at
        while last > first and pieces[last - 1].level and at < len(pieces):
            last -= 1
        last = at if last == first else last  # There are only headings.
        # Joined, pieces can weigh a little more than separately.
        while last > first + 1 and estimate(content[pieces[first].start : pieces[last - 1].end]) > budget:
            last -= 1
        yield pieces[last - 1].end
        first = last


def _in_sections(pieces: Sequence[ChunkPiece], before: Sequence[float], first: int, budget: int) -> int:
    """Returns the number of the piece before which to end the chunk that begins with `first`."""
    at = first
    while at < len(pieces):
        piece, behind = pieces[at], at + 1
        # A heading stands for its section, as far as that may fit.
        while piece.level and behind < len(pieces) and before[behind] - before[at] <= budget:
            if 0 < pieces[behind].level <= piece.level:
                break
            behind += 1
        load, whole = before[at] - before[first], before[behind] - before[at]
        worth = load >= _WORTH_A_CHUNK * budget or load + piece.weight > budget
        if load + whole <= budget:
            at = behind
        elif at == first or (whole > budget and not worth):
            at += 1  # The section is too long for a chunk: it is entered.
        else:
            break
    return at


def _evenly(pieces: Sequence[ChunkPiece], before: Sequence[float], first: int, budget: int) -> int:
    """Returns the same for chunks of about the same size."""
    rest = before[-1] - before[first]
    target = rest / max(1, ceil(rest / budget))
    for at in range(first + 1, len(pieces)):
        piece, load = pieces[at], before[at] - before[first]
        near = piece.level > 0 and load >= _NEAR * target
        if load and (load + piece.weight > budget or load + piece.weight / 2 > target or near):
            return at
    return len(pieces)
