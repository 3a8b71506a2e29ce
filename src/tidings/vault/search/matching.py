"""Finding words, phrases and regular expressions in a text as the full-text index does; correcting misspelled words.

The index splits a text into runs of letters and digits, ignores case, and removes accents from Latin letters. `Finder`
does the same, so that it can answer for one line of a note. It also supports what the index does not: characters that
are not letters (`C++`), case-sensitive terms, and words in scripts without spaces, which are found anywhere.

A correction is looked for only among words with the same first letter, and only for a moment.
"""

import re
import sqlite3
import time
import unicodedata
from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

from tidings._kit.patterns import compiled
from tidings.vault.search.query import parse_query
from tidings.vault.search.tree import Phrase, Regex, Word

MARKS = "\u0300-\u036f"
_PARTING = r"[\W_]+"  # what a space of a phrase stands for
_MARK = re.compile(f"[{MARKS}]")
# What is found by another letter than its own in small: accents, and the few letters with more than one small form.
_FOLDED = re.compile(f"[\u00b5\u00c0-\u024f\u03c2\u03d0-\u03f5\u1e00-\u1eff\u1f00-\u1fff\u2126\u212a\u212b{MARKS}]")
# Thai, Lao, Tibetan, Myanmar, Khmer, Tai; kana and Han with their extensions.
_SPACELESS = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u2e80-\u2fff\u3005-\u30ff\u31f0-\u31ff"
    "\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_UNPARTED = re.compile(f"[{_SPACELESS}]")
_PATIENCE = 0.25  # seconds for one regular expression in one text
_SLICE = 200_000  # characters that are looked through in one go
_SECONDS: Final = 0.2
_STEPS: Final = 1_000  # The number of SQLite's virtual machine steps between two looks at the clock.
_LONGER: Final = 2  # The largest difference in length of the two words.
_VOCABULARY: Final = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.words USING fts5vocab(main, fts, row)"
_NEAR: Final = "SELECT term FROM temp.words WHERE term >= ? AND term < ? AND length(term) BETWEEN ? AND ?"


class OutOfTime(Exception):
    """The time for the search is over."""


class SearchTooSlow(Exception):
    """A regular expression took too long on one text."""


class Deadline:
    """The time that is left for a search."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Returns the seconds that are left. Raises `OutOfTime` if there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise OutOfTime
        return left

    def passed(self) -> bool:
        return time.monotonic() >= self._end


class Finder:
    """Finds one term in texts."""

    def __init__(self, term: Word | Phrase | Regex, *, match_case: bool = False) -> None:
        self._term = term
        self._match_case = match_case
        if not isinstance(term, Regex):
            self._exact, self._plain, self._folding = _patterns(term)

    def spans(self, text: str, deadline: Deadline) -> Iterator[tuple[int, int]]:
        """Returns the places of the term. Raises `SearchTooSlow` for this text, and `OutOfTime` at the deadline."""
        if isinstance(self._term, Regex):
            return self._expressed(self._term, text, deadline)
        if self._match_case:
            return self._sliced(self._exact, text, deadline)
        if text.isascii() or not _FOLDED.search(text):
            return self._sliced(self._plain, text.lower(), deadline)
        return self._sliced(self._folding, text, deadline)

    def found(self, text: str, deadline: Deadline) -> bool:
        """Returns whether a text contains the term. Raises as `spans` does."""
        if not isinstance(self._term, Regex) and not self._match_case:
            # Most texts have what they have without accents, and are not looked through for any.
            if next(self._sliced(self._plain, text.lower(), deadline), None):
                return True
            if text.isascii() or not _FOLDED.search(text):
                return False
        return next(self.spans(text, deadline), None) is not None

    def _expressed(self, term: Regex, text: str, deadline: Deadline) -> Iterator[tuple[int, int]]:
        pattern = compiled(term.pattern, ignore_case=not self._match_case, multiline=True, dotall=term.dotall)
        patience = min(_PATIENCE, deadline.left())
        try:
            for each in pattern.finditer(text, timeout=patience, concurrent=True):
                yield each.span()
        except TimeoutError as slow:
            raise SearchTooSlow from slow

    def _sliced(self, pattern: "re.Pattern[str]", text: str, deadline: Deadline) -> Iterator[tuple[int, int]]:
        """Searches a long text line by line, so that other threads get their turn. A phrase may span lines."""
        start = 0
        while start <= len(text):
            cut = -1 if isinstance(self._term, Phrase) else text.find("\n", start + _SLICE)
            end = len(text) if cut < 0 else cut
            yield from (each.span() for each in pattern.finditer(text, start, end))
            start = end + 1
            if start <= len(text):
                deadline.left()


def fold(text: str) -> str:
    """Returns a text without case and accents, for comparison."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", _MARK.sub("", unicodedata.normalize("NFD", text))).casefold()


def unparted(text: str) -> bool:
    """Returns whether a text contains a script that does not separate words by spaces."""
    return _UNPARTED.search(text) is not None


@lru_cache(maxsize=1)
def _latin() -> dict[str, str]:
    """Maps each plain letter to the letters that differ from it only by accents and case."""
    letters: dict[str, list[str]] = {}
    for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00), 0x212A, 0x212B):
        base = unicodedata.normalize("NFD", chr(code))[0].lower()
        if base.isascii() and base.isalpha():
            letters.setdefault(base, [base]).append(chr(code))
    return {base: f"[{''.join(same)}]" for base, same in letters.items()}


def _bare(text: str) -> str:
    bases = ((unicodedata.normalize("NFD", character)[0].lower(), character) for character in text)
    return "".join(base if base.isascii() else character.lower() for base, character in bases)


def _variant(word: str) -> str:
    """Returns a pattern for a word with any accents."""
    return "".join((_latin().get(c) or re.escape(c)) + (f"[{MARKS}]*+" if c.isalnum() else "") for c in word)


@lru_cache(maxsize=256)
def _patterns(term: Word | Phrase) -> "tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]":
    """Returns the patterns for a case-sensitive search, for a folded text, and for any text."""
    text = unicodedata.normalize("NFC", term.text)
    bare = _bare(text)
    if isinstance(term, Word):
        exact, plain = _literal([text]), _literal([bare])
        folding = _begin([bare]) + _variant(bare)
    else:
        words, bares = text.split(), _bare(text).split()
        exact, plain = _literal(words) + _end(words), _literal(bares) + _end(bares)
        folding = _begin(bares) + _PARTING.join(map(_variant, bares)) + _end(bares)
    return re.compile(exact), re.compile(plain), re.compile(folding, re.IGNORECASE)


def _literal(words: list[str]) -> str:
    # The character before is checked after the first word, so that the engine can skip to the word.
    first, *others = map(re.escape, words) if words else [""]
    before = rf"(?<![^\W_]{first})(?<![{MARKS}]{first})" if _begin(words) else ""
    return _PARTING.join([first + before, *others])


def _begin(words: list[str]) -> str:
    return rf"(?<![^\W_])(?<![{MARKS}])" if words and parted(words[0][0]) else ""


def _end(words: list[str]) -> str:
    return rf"(?![^\W_{MARKS}])" if words and parted(words[-1][-1]) else ""


def parted(character: str) -> bool:
    """Returns whether a character is part of a word that has a beginning and an end."""
    return character.isalnum() and not unparted(character)


def meant_instead(connection: sqlite3.Connection, query: str) -> str | None:
    """Returns a word to search for instead of a query of one word; None if none is close."""
    match parse_query(query):
        case Word(text) if text.isalnum():
            letters = unicodedata.normalize("NFD", text.casefold())
            word = "".join(letter for letter in letters if not unicodedata.combining(letter))
        case _:
            return None
    lengths = (len(word) - _LONGER, len(word) + _LONGER)
    # A view of the index's words, which belongs to this read-only connection alone.
    only: int = connection.execute("PRAGMA query_only").fetchone()[0]
    connection.execute("PRAGMA query_only = 0")
    try:
        connection.execute(_VOCABULARY)
    finally:
        connection.execute(f"PRAGMA query_only = {only}")
    connection.set_progress_handler(Deadline(_SECONDS).passed, _STEPS)
    try:
        known = [term for (term,) in connection.execute(_NEAR, (word[:1], word[:1] + "\U0010ffff", *lengths))]
    except sqlite3.OperationalError:
        return None
    finally:
        connection.set_progress_handler(None, 0)
    return next(iter(get_close_matches(word, known, n=1, cutoff=0.75)), None)
