"""Which words differ in lines that were replaced.

May import: `ends`, `sequences`.
"""

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from tidings.web.store.ends import common_start
from tidings.web.store.sequences import compare

Span = tuple[int, int]
"""From the first character on, to the one after the last."""
Spans = list[tuple[Span, ...] | None]
"""For each line what differs in it; None: it has no counterpart."""

# In scripts without spaces each character is a word.
_TOKEN: Final = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|\s+|."
)
_MOST: Final = 100_000
"""Characters. More are not looked at word by word."""
_LEAST_COMMON: Final = 0.3
"""The share of the characters that has to be the same, for the lines to be called the same, changed."""
_WORK: Final = 300_000
_LONGEST_WORD: Final = 100


def refine(before: list[str], after: list[str]) -> tuple[Spans, Spans]:
    """What differs in lines `before` that were replaced by lines `after`."""
    whole: tuple[Spans, Spans] = [None] * len(before), [None] * len(after)
    if not before or not after:
        return whole
    old, new = "".join(before), "".join(after)
    start = _common_words(old, new)
    end = _common_words(old[start:][::-1], new[start:][::-1])
    middle, new_middle = old[start : len(old) - end], new[start : len(new) - end]
    if len(middle) + len(new_middle) > _MOST:
        return whole
    spans, new_spans = _differing(middle, new_middle)
    kept = len(old) - sum(b - a for a, b in spans)
    if kept < _LEAST_COMMON * max(len(old), len(new)):
        return whole
    return list(_by_line(before, spans, start)), list(_by_line(after, new_spans, start))


def _differing(before: str, after: str) -> tuple[list[Span], list[Span]]:
    tokens, new_tokens = _TOKEN.findall(before), _TOKEN.findall(after)
    ends, new_ends = ([0, *accumulate(map(len, some))] for some in (tokens, new_tokens))
    # One space is as good as another: text that is only wrapped anew has no other words.
    words, new_words = ([" " if token.isspace() else token for token in some] for some in (tokens, new_tokens))
    changes = compare(words, new_words, _WORK).changes
    return (
        [(ends[change.start], ends[change.end]) for change in changes if change.start < change.end],
        [
            (new_ends[change.new_start], new_ends[change.new_end])
            for change in changes
            if change.new_start < change.new_end
        ],
    )


def _by_line(lines: list[str], spans: list[Span], offset: int) -> Iterator[tuple[Span, ...]]:
    """The spans, which count from `offset` on in all lines together, as each line's own."""
    begin = -offset
    waiting = spans[::-1]
    for line in lines:
        stop = begin + len(line)
        mine: list[Span] = []
        while waiting and waiting[-1][0] < stop:
            start, end = waiting.pop()
            mine.append((start - begin, min(end, stop) - begin))
            if end > stop:
                waiting.append((stop, end))
        yield tuple(mine)
        begin = stop


def _common_words(before: str, after: str) -> int:
    """How many characters both begin with, up to the end of a word: one that differs is shown in full."""
    start = common_start(before, after)
    least = max(start - _LONGEST_WORD, 0) if start < max(len(before), len(after)) else start
    while start > least and before[start - 1].isalnum():
        start -= 1
    return start
