"""Token estimates for any language without a tokeniser, and as much of a text as fits.

Words, digits, marks and line ends are counted and weighed. The weights are those with which English, source code, and
Chinese, Japanese and Korean come nearest to the average of two common byte-pair vocabularies, for English and code
usually within a few per cent. For other scripts the estimate lies between the two.
"""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

# A word begins at a capital: names of code are cut there by tokenisers too.
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_LONG, _COMMON = re.compile(r"[a-z]{8,}"), 7
_CAPITALS, _INITIALS = re.compile(r"[A-Z]{3,}"), 2
_DIGITS = re.compile(r"[0-9]{1,3}")
_BEFORE_DIGITS = re.compile(r" (?=[0-9])")
_MARK = re.compile(r"[!-/:-@\[-`{-~]")
_LINE_END = re.compile(r"\n+[ \t]*+|[ \t]{2,}+|[\x00-\x08\x0b-\x1f\x7f]")
_OTHER = re.compile(r"[^\x00-\x7f]")

# Tokens of a character, by the first character of its range.
_SCRIPTS: tuple[tuple[int, float], ...] = (
    (0x80, 0.7), (0xC0, 0.8), (0x250, 1.0),  # signs, Latin letters with accents, rare letters
    (0x370, 0.7), (0x400, 0.42), (0x530, 1.25),  # Greek, Cyrillic, Armenian
    (0x590, 0.63), (0x900, 0.86),  # Hebrew and Arabic, the scripts of India and South-East Asia
    (0x10A0, 1.25), (0x1100, 1.2), (0x1E00, 0.8),  # Georgian, rare scripts, Latin again
    (0x2000, 0.7), (0x2C00, 1.2),  # punctuation and symbols, rare scripts
    (0x3000, 1.0), (0x3040, 0.92), (0x3100, 1.2), (0x3400, 0.98),  # punctuation of East Asia, Kana, rare scripts, Han
    (0xA000, 1.2), (0xAC00, 1.02), (0xD7B0, 1.2), (0xF900, 0.98),  # rare scripts, Hangul, rare scripts, Han
    (0xFB00, 1.0), (0xFF00, 1.0), (0x10000, 2.8),  # forms, full width, emoji and what is rare
)  # fmt: skip
_STARTS = [start for start, _ in _SCRIPTS]

WIDEST: Final = 6  # No text that people write has more characters in a token, on average.

_SLACK: Final = 0.3  # The share of the room that may be left empty for a better place to cut.


def estimate(text: str) -> int:
    """Returns the estimated number of tokens of `text`; 0 only if it is empty."""
    return math.ceil(weigh(text))


def weigh(text: str) -> float:
    """Returns the estimate before it is rounded up."""
    weight = (
        0.95 * len(_WORD.findall(text))
        + 0.26 * _beyond(_LONG, _COMMON, text)
        + 0.6 * _beyond(_CAPITALS, _INITIALS, text)
        + 1.25 * len(_DIGITS.findall(text))
        + 1.3 * len(_BEFORE_DIGITS.findall(text))
        + 0.5 * len(_MARK.findall(text))
        + 1.5 * len(_LINE_END.findall(text))
    )
    if not text.isascii():
        for character, count in Counter(_OTHER.findall(text)).items():
            weight += _SCRIPTS[bisect_right(_STARTS, ord(character)) - 1][1] * count
    # A text of single spaces is at least a token.
    return weight or min(len(text), 1.0)


def _beyond(pattern: re.Pattern[str], free: int, text: str) -> int:
    """Returns how many letters of the words that `pattern` finds are beyond the first `free`."""
    found = pattern.findall(text)
    return sum(map(len, found)) - free * len(found)


class Fit(NamedTuple):
    """A part of a text: from `start` up to `end`, of `total` characters."""

    text: str
    start: int
    end: int
    total: int

    @property
    def left(self) -> int:
        """The number of characters that follow."""
        return self.total - self.end


def fit(text: str, room: int, start: int = 0) -> Fit:
    """Returns as much of `text` from `start` on as `room` tokens hold; at least one character."""
    total = len(text)
    start = min(max(start, 0), total)
    end = min(total, start + room * WIDEST)
    if estimate(text[start:end]) > room:
        least, most = start, end
        while most - least > 1:
            middle = (least + most) // 2
            least, most = (middle, most) if estimate(text[start:middle]) <= room else (least, middle)
        end = least
    if end < total:
        earliest = int(end - (end - start) * _SLACK)
        places = ((text.rfind(mark, earliest, end), mark) for mark in ("\n\n", "\n", ". ", " "))
        end = next((place + len(mark) for place, mark in places if place > start), max(end, start + 1))
    return Fit(text[start:end], start, end, total)


def past_end(start: int, total: int) -> str:
    """Returns a message for a caller that goes on behind the end; empty otherwise."""
    return f"(There is nothing from there on: the whole text has {total:,} characters.)" if start >= total > 0 else ""


def shares(sizes: Sequence[int], room: int) -> list[int]:
    """Divides the room among texts of these sizes: what a short one does not need goes to the others."""
    given = [0] * len(sizes)
    left = room
    for place, number in enumerate(sorted(range(len(sizes)), key=lambda each: sizes[each])):
        given[number] = min(sizes[number], left // (len(sizes) - place))
        left -= given[number]
    return given
