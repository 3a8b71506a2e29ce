"""Orders to models in text that no reader sees: taken out of the content, a note in their place.

    without_orders(markdown, concealed) -> Kept     what is left, what was taken out and why

What is hidden is content as a rule: tabs, answers that unfold, the rest behind "more". So it stays, unless it speaks to
a model. All hidden parts are read as one text, as a model would: an order in pieces is an order. A short part goes as a
whole; of a long one, the lines with the order and those beside them.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from tidings.web.packets.injection import CLEAR, MOST, SUSPICIOUS, TOO_MANY, Looked, named, unlinked, words_of
from tidings.web.packets.model import Unsafe

NOTE = "[hidden text left out]"
_WHOLE = 1_000
"""Characters up to which a hidden part goes as a whole."""
_MARKERS = re.compile(r"(?:[ \t]{0,20}(?:>|[-*+]|\d{1,9}[.)])[ ])*+")
_FENCE = re.compile(r"\s*(?:`{3}|~{3})")

Place = tuple[int, int]


class Kept(NamedTuple):
    """A content without hidden orders."""

    markdown: str
    found: list[Unsafe]
    words: set[str]
    """Of the orders, to know them again."""


def without_orders(markdown: str, concealed: Iterable[Place]) -> Kept:
    """`markdown`, of which the places given are hidden, without what speaks to models in them."""
    places = list(_in_order(concealed, len(markdown)))
    if not places:
        return Kept(markdown, [], set())
    parts = [markdown[start:end] for start, end in places]
    looked = Looked(unlinked("\n".join(parts)))
    if next(looked.alarming(SUSPICIOUS), None) is None and not looked.too_many:
        return Kept(markdown, [], set())
    if looked.too_many:
        # No tab is made of commands.
        cuts = [(start + _markers(part), end) for (start, end), part in zip(places, parts, strict=True)]
        return Kept(_without(markdown, cuts), [named(TOO_MANY, "hidden text")], set())
    # A tab of an article on models may be hidden and shown by turns.
    about = Looked(markdown).about is not None
    looked.about = (-1, -1) if about else None
    clusters = list(looked.alarming(CLEAR if about else SUSPICIOUS))
    lines = _Lines(looked.text, parts)
    touched: dict[int, set[int]] = {}
    found: list[Unsafe] = []
    for cluster in clusters:
        first, last = cluster[0].start, max(hit.end for hit in cluster)
        for line in range(lines.at(first), lines.at(last - 1) + 1):
            touched.setdefault(lines.part(line), set()).add(line)
        found.append(named(looked.told(cluster, lines.around(first, last)), "hidden text"))
    cuts = [cut for part, those in touched.items() for cut in _cuts(places[part], parts[part], lines.own(part, those))]
    return Kept(_without(markdown, sorted(cuts)), found[:MOST], {one for hits in clusters for one in words_of(hits)})


class _Lines:
    """Which line of all hidden text belongs to which part. Looking at a text changes letters, and no ends of lines."""

    def __init__(self, text: str, parts: Sequence[str]) -> None:
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self._length = len(text)
        self._first = [0, *accumulate(part.count("\n") + 1 for part in parts)]

    def at(self, place: int) -> int:
        return bisect_right(self._starts, place) - 1

    def part(self, line: int) -> int:
        return bisect_right(self._first, line) - 1

    def own(self, part: int, lines: Iterable[int]) -> set[int]:
        """The lines, counted from the beginning of their part."""
        return {line - self._first[part] for line in lines}

    def around(self, first: int, last: int) -> Place:
        """Where the parts begin and end that these places are in."""
        end = self._first[self.part(self.at(last - 1)) + 1]
        return (
            self._starts[self._first[self.part(self.at(first))]],
            self._starts[end] if end < len(self._starts) else self._length,
        )


def _in_order(concealed: Iterable[Place], most: int) -> Iterator[Place]:
    """The places that are some, without what they have in common."""
    at = 0
    for start, end in sorted(concealed):
        if max(start, at) < min(end, most):
            yield max(start, at), min(end, most)
            at = end


def _cuts(place: Place, part: str, lines: set[int]) -> Iterator[Place]:
    """What goes of a part that has orders in these lines."""
    start, end = place
    if len(part) <= _WHOLE:
        yield start + _markers(part), end
        return
    goes = {near for line in lines for near in (line - 1, line, line + 1)}
    at, since = start, -1
    for number, line in enumerate(part.split("\n")):
        # A fence stays, or all that follows would be code.
        if number in goes and not _FENCE.match(line):
            since = at + _markers(line) if since < 0 else since
        elif since >= 0:
            yield since, at - 1
            since = -1
        at += len(line) + 1
    if since >= 0:
        yield since, end


def _markers(line: str) -> int:
    """How long the marks of a list or a quote are at the beginning of a line; they stay."""
    found = _MARKERS.match(line)
    return found.end() if found else 0


def _without(markdown: str, cuts: Sequence[Place]) -> str:
    kept: list[str] = []
    at = 0
    for start, end in cuts:
        kept += (markdown[at:start], NOTE)
        at = end
    return "".join([*kept, markdown[at:]])
