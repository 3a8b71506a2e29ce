"""Finding words, phrases and regular expressions in a text.

A word or a phrase is found wherever its characters are, as in Obsidian, in lower case unless case matters. The two
ways to write an accent in Unicode count as the same.
"""

import time
import unicodedata
from collections.abc import Iterator
from typing import Final

from tidings._kit.patterns import compiled
from tidings.vault.search.tree import Phrase, Regex, Word

_PATIENCE: Final = 0.25  # Seconds for one regular expression in one text.


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

    def passed(self, grace: float = 0.0) -> bool:
        return time.monotonic() >= self._end + grace


class Finder:
    """Finds one term in texts."""

    def __init__(self, term: Word | Phrase | Regex, *, match_case: bool = False) -> None:
        self._term = term
        self._match_case = match_case
        self._forms = () if isinstance(term, Regex) else forms_of(term.text if match_case else term.text.lower())

    def found(self, text: str, deadline: Deadline) -> bool:
        """Returns whether a text contains the term. Raises `SearchTooSlow` for it, and `OutOfTime` at the deadline."""
        if isinstance(self._term, Regex):
            return next(self.spans(text, deadline), None) is not None
        text = text if self._match_case else text.lower()
        return any(form in text for form in self._forms)

    def is_whole(self, text: str) -> bool:
        """Returns whether a text is the term, and nothing more."""
        return (text if self._match_case else text.lower()) in self._forms

    def spans(self, text: str, deadline: Deadline) -> Iterator[tuple[int, int]]:
        """Yields the places of the term. Raises as `found` does."""
        if isinstance(self._term, Regex):
            yield from self._expressed(self._term, text, deadline)
            return
        lower = text if self._match_case else text.lower()
        # `İ` alone becomes two characters.
        places = None if len(lower) == len(text) else [n for n, each in enumerate(text) for _ in each.lower()]
        for form in self._forms:
            at = lower.find(form)
            while form and at >= 0:
                end = at + len(form)
                yield (places[at], places[end - 1] + 1) if places else (at, end)
                at = lower.find(form, end)

    def _expressed(self, term: Regex, text: str, deadline: Deadline) -> Iterator[tuple[int, int]]:
        pattern = compiled(term.pattern, ignore_case=not self._match_case, multiline=True, dotall=term.dotall)
        patience = min(_PATIENCE, deadline.left())
        try:
            for each in pattern.finditer(text, timeout=patience, concurrent=True):
                yield each.span()
        except TimeoutError as slow:
            raise SearchTooSlow from slow


def forms_of(text: str) -> tuple[str, ...]:
    """Returns a text as it is, and in the other ways to write its accents."""
    if text.isascii():
        return (text,)
    return tuple(dict.fromkeys((text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text))))
