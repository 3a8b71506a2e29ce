"""How many tokens a text will be, for any language, without a tokeniser.

    estimate(text) -> int

Words, digits, marks and line ends are counted and weighed; the weights are those with which English, source code, and
Chinese, Japanese and Korean come nearest to what two common byte-pair vocabularies (of 100,000 and 200,000 entries)
give on average: for English and code within a few per cent as a rule. For other scripts the two differ from each other
by more than that; the estimate lies between them.
"""

import math
import re
from bisect import bisect_right
from collections import Counter

# A word begins at a capital: names of code are cut there by tokenisers too.
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_LONG, _COMMON = re.compile(r"[a-z]{8,}"), 7
_CAPITALS, _INITIALS = re.compile(r"[A-Z]{3,}"), 2
_DIGITS = re.compile(r"[0-9]{1,3}")
_BEFORE_DIGITS = re.compile(r" (?=[0-9])")
_MARK = re.compile(r"[!-/:-@\[-`{-~]")
_LINE_END = re.compile(r"\n+[ \t]*+|[ \t]{2,}+|[\x00-\x08\x0b-\x1f\x7f]")
_OTHER = re.compile(r"[^\x00-\x7f]")

_SCRIPTS: tuple[tuple[int, float], ...] = (
    (0x80, 0.7),  # signs
    (0xC0, 0.8),  # Latin letters with accents
    (0x250, 1.0),
    (0x370, 0.7),  # Greek
    (0x400, 0.42),  # Cyrillic
    (0x530, 1.25),  # Armenian
    (0x590, 0.63),  # Hebrew, Arabic
    (0x900, 0.86),  # the scripts of India and South-East Asia
    (0x10A0, 1.25),  # Georgian
    (0x1100, 1.2),
    (0x1E00, 0.8),  # Latin again
    (0x2000, 0.7),  # punctuation and symbols
    (0x2C00, 1.2),
    (0x3000, 1.0),  # punctuation of East Asia
    (0x3040, 0.92),  # Kana
    (0x3100, 1.2),
    (0x3400, 0.98),  # Han
    (0xA000, 1.2),
    (0xAC00, 1.02),  # Hangul
    (0xD7B0, 1.2),
    (0xF900, 0.98),  # Han
    (0xFB00, 1.0),
    (0xFF00, 1.0),  # full width
    (0x10000, 2.8),  # emoji and what is rare
)
"""From this character on, so many tokens each."""
_STARTS = [start for start, _ in _SCRIPTS]


def estimate(text: str) -> int:
    """About how many tokens `text` is; 0 only for nothing."""
    return math.ceil(weigh(text))


def weigh(text: str) -> float:
    """The estimate before it is rounded up."""
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
        weight += sum(_of(character) * count for character, count in Counter(_OTHER.findall(text)).items())
    # A text of single spaces is a token at least.
    return weight or min(len(text), 1.0)


def _beyond(pattern: re.Pattern[str], free: int, text: str) -> int:
    """How many letters of the words that `pattern` finds are beyond the first `free`."""
    found = pattern.findall(text)
    return sum(map(len, found)) - free * len(found)


def _of(character: str) -> float:
    return _SCRIPTS[bisect_right(_STARTS, ord(character)) - 1][1]
