"""Which blocks of a page are its content? Found by aligning the words of the page with those of the known content.

Runs of words that occur once in both are the fixed points, long runs first; what lies between two of them is aligned in
the same way, and in the end word by word. Order matters, so a menu that repeats the words of a heading is not content.
What is left of both, as the page has another order or all of it twice, is matched by runs of words, each used once.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from difflib import SequenceMatcher

from benchmarks.parts.web_truth import words

_RUNS = (8, 4, 2)
_MOVED = (8, 4)
_MOST = 4_000_000
"""Pairs of words that are compared one by one; more is left unaligned."""


def labels(blocks: Sequence[str], content: str) -> list[float | None]:
    """For each block, the share of its words that are content; None for a block without words."""
    text: list[str] = []
    owner: list[int] = []
    for number, block in enumerate(blocks):
        of = words(block)
        text += of
        owner += [number] * len(of)
    matched = _Alignment(text, words(content)).matched
    hits, sizes = [0] * len(blocks), [0] * len(blocks)
    for place, number in enumerate(owner):
        sizes[number] += 1
        hits[number] += matched[place]
    return [hit / size if size else None for hit, size in zip(hits, sizes, strict=True)]


class _Alignment:
    def __init__(self, text: list[str], content: list[str]) -> None:
        self.text, self.content = text, content
        self.matched = [False] * len(text)
        self.used = [False] * len(content)
        spans = [(0, len(text), 0, len(content))]
        while spans:
            span = spans.pop()
            if span[0] < span[1] and span[2] < span[3]:
                spans += self._align(*span)
        for size in _MOVED:
            self._moved(size)

    def _align(self, low: int, high: int, start: int, end: int) -> list[tuple[int, int, int, int]]:
        """Match what is certain within a span; returns the spans between."""
        for size in _RUNS:
            chain = _rising(self._pairs(low, high, start, end, size))
            if chain:
                return self._match(chain, low, high, start, end)
        if (high - low) * (end - start) <= _MOST:
            matcher = SequenceMatcher(None, self.text[low:high], self.content[start:end], autojunk=False)
            for run in matcher.get_matching_blocks():
                self.matched[low + run.a : low + run.a + run.size] = [True] * run.size
                self.used[start + run.b : start + run.b + run.size] = [True] * run.size
        return []

    def _pairs(self, low: int, high: int, start: int, end: int, size: int) -> list[tuple[int, int]]:
        mine = _once(self.text, low, high, size)
        theirs = _once(self.content, start, end, size)
        return sorted((place, theirs[run]) for run, place in mine.items() if run in theirs)

    def _match(
        self, chain: list[tuple[int, int]], low: int, high: int, start: int, end: int
    ) -> list[tuple[int, int, int, int]]:
        spans: list[tuple[int, int, int, int]] = []
        at, beside = low, start
        for fixed, beyond in chain:
            if fixed < at or beyond < beside:
                continue
            place, there = fixed, beyond
            while place > at and there > beside and self.text[place - 1] == self.content[there - 1]:
                place, there = place - 1, there - 1
            spans.append((at, place, beside, there))
            while place < high and there < end and self.text[place] == self.content[there]:
                self.matched[place] = self.used[there] = True
                place, there = place + 1, there + 1
            at, beside = place, there
        return [*spans, (at, high, beside, end)]

    def _moved(self, size: int) -> None:
        """Match runs of so many words that stand in another order, the longest of equal ones."""
        places: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for there in range(len(self.content) - size + 1):
            if not any(self.used[there : there + size]):
                places[tuple(self.content[there : there + size])].append(there)
        place = 0
        while place <= len(self.text) - size:
            free = [
                (self._together(place, there), -there)
                for there in places.get(tuple(self.text[place : place + size]), ())
            ]
            long, there = max(free, default=(0, 0))
            if long >= size:
                self.matched[place : place + long] = self.used[-there : long - there] = [True] * long
            place += max(long, 1)

    def _together(self, place: int, there: int) -> int:
        """The number of words from here that are equal and that nothing has been matched with."""
        start = place
        while place < len(self.text) and there < len(self.content) and self.text[place] == self.content[there]:
            if self.matched[place] or self.used[there]:
                break
            place, there = place + 1, there + 1
        return place - start


def _once(text: list[str], low: int, high: int, size: int) -> dict[tuple[str, ...], int]:
    """The runs of words that occur exactly once, and where."""
    found: dict[tuple[str, ...], int] = {}
    for place in range(low, high - size + 1):
        run = tuple(text[place : place + size])
        found[run] = -1 if run in found else place
    return {run: place for run, place in found.items() if place >= 0}


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest chain of pairs in which both places rise."""
    tails: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, there) in enumerate(pairs):
        at = bisect_left(tails, there)
        tails[at : at + 1] = [there]
        last[at : at + 1] = [number]
        before.append(last[at - 1] if at else -1)
    chain: list[tuple[int, int]] = []
    number = last[-1] if last else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]
