"""Lines of pages made paragraphs and headings: by the space between them and the size of their letters.

most letters are of one size: that is the text; larger ones, in short lines, are headings, the largest first
a wider gap, an indented line, or a line that ends early begins a paragraph; hyphens at ends of lines are closed
lines that stand at the top or the bottom of most pages are no part of the text
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tidings.web.extract.pdf_lines import Line, PdfPage

_LARGER = 1.12
"""How much larger than the text a heading is, at least."""
_LEVELS = 4
_LONGEST = 200
"""Characters of a heading."""
_REPEATED = 4
"""Pages from which on lines that repeat are looked for."""
_NUMBER = "0"
"""A line of a number alone is that of its page."""
_DIGITS = re.compile(r"\d+|\b[ivxl]+\b", re.IGNORECASE)
_BULLET = re.compile(r"[•‣▪●◦\u2043∙·\u2013-]\s+|\(?\d{1,3}[.)]\s+|\(?[a-z]\)\s+")
_END = re.compile(r"[.!?:;\u3002\uff01\uff1f\u201d\"')\]]$")


@dataclass(frozen=True)
class Part:
    """A heading (of level 1 and up) or a paragraph (0)."""

    level: int
    text: str


def parts_of(pages: Sequence[PdfPage]) -> list[Part]:
    """Everything that the pages say, in order."""
    repeated = _running(pages)
    kept = [_without(page, repeated) for page in pages]
    levels = _levels([line for lines in kept for line in lines])
    parts: list[Part] = []
    for lines in kept:
        for part in _joined(lines, levels):
            if parts and _goes_on(parts[-1], part):
                parts[-1] = Part(0, _closed(parts[-1].text, part.text))
            else:
                parts.append(part)
    return parts


def _without(page: PdfPage, repeated: frozenset[str]) -> Sequence[Line]:
    lines = page.lines
    while lines and _mask(lines[0]) in repeated:
        lines = lines[1:]
    while lines and _mask(lines[-1]) in repeated:
        lines = lines[:-1]
    return lines or page.lines


def _running(pages: Sequence[PdfPage]) -> frozenset[str]:
    """The lines at the top or the bottom that most pages have, whatever number is in them."""
    if len(pages) < _REPEATED:
        return frozenset()
    counts = Counter(mask for page in pages for mask in {_mask(line) for line in (*page.lines[:2], *page.lines[-2:])})
    return frozenset({_NUMBER, *(mask for mask, count in counts.items() if count * 2 > len(pages))})


def _mask(line: Line) -> str:
    """What makes a line the same as another: its text but for the numbers, and its size (a title is larger)."""
    text = _DIGITS.sub(_NUMBER, line.text)[:_LONGEST]
    return text if text == _NUMBER else f"{text} {line.size}"


def _usual(lines: Sequence[Line]) -> float:
    """The size that most letters have."""
    sizes: Counter[float] = Counter()
    for line in lines:
        sizes[line.size] += len(line.text)
    return sizes.most_common(1)[0][0] if sizes else 0.0


def _levels(lines: Sequence[Line]) -> dict[float, int]:
    """The sizes of headings, the largest of level 1."""
    least = _usual(lines) * _LARGER
    larger = sorted({line.size for line in lines if line.size > least and len(line.text) < _LONGEST}, reverse=True)
    levels: dict[float, int] = {}
    level, before = 0, 0.0
    for size in larger:
        # Sizes that the eye cannot tell apart are one.
        if level == 0 or size < before * 0.95:
            level, before = level + 1, size
        levels[size] = min(level, _LEVELS)
    return levels


def _joined(lines: Sequence[Line], levels: dict[float, int]) -> Iterator[Part]:
    """The lines of a page as headings and paragraphs."""
    held: list[Line] = []
    gap = _gap(lines)
    for line in lines:
        if held and _breaks(held[-1], line, gap, levels):
            yield _part(held, levels)
            held = []
        held.append(line)
    if held:
        yield _part(held, levels)


def _gap(lines: Sequence[Line]) -> float:
    """The distance from line to line that is most common on a page; 0 where that says nothing."""
    steps = Counter(round(step) for before, line in pairwise(lines) if 0 < (step := before.y - line.y) < 200)
    step, count = steps.most_common(1)[0] if steps else (0, 0)
    return float(step) if count > 2 else 0.0


def _breaks(before: Line, line: Line, gap: float, levels: dict[float, int]) -> bool:
    """Whether a line begins something new."""
    if levels.get(before.size, 0) != levels.get(line.size, 0) or _BULLET.match(line.text):
        return True
    step = before.y - line.y
    if step <= 0:  # Another column, or a line that goes on at the same height.
        return bool(step) and _END.search(before.text) is not None
    usual = line.size * 1.2 if levels.get(line.size) or not gap else gap
    if step > usual * 1.35 + 1:
        return True
    return (
        levels.get(line.size) is None and line.x > before.x + line.size * 0.8 and _END.search(before.text) is not None
    )


def _part(lines: Sequence[Line], levels: dict[float, int]) -> Part:
    text = lines[0].text
    for line in lines[1:]:
        text = _closed(text, line.text)
    text = " ".join(text.replace("\N{SOFT HYPHEN}", "").split())
    level = levels.get(lines[0].size, 0)
    return Part(level if len(text) < _LONGEST and any(map(str.isalpha, text)) else 0, text)


def _closed(before: str, after: str) -> str:
    """Two pieces of a text; a word that was parted between them is whole again."""
    if before.endswith("\N{SOFT HYPHEN}"):
        return before[:-1] + after
    if before.endswith("-") and before[-2:-1].isalpha() and after[:1].islower():
        return before[:-1] + after
    return f"{before} {after}"


def _goes_on(before: Part, part: Part) -> bool:
    """Whether a paragraph goes on over the end of its page."""
    return not before.level and not part.level and part.text[:1].islower() and not _END.search(before.text)
