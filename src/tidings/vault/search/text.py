"""Finding the terms of a query in a text, its places (`line:`, `block:`, `section:`, `task:`) and matching lines.

A word or a phrase is found wherever its characters are, as in Obsidian, in lower case unless case matters. The two
ways to write an accent in Unicode count as the same.
"""

import re
import sqlite3
import time
import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from typing import NamedTuple

from tidings._kit.patterns import compiled
from tidings.vault.notes.model import SEARCHED, key
from tidings.vault.search.query import And, Case, Not, Or, Phrase, Query, Regex, Scope, TagTerm, Within, Word

_FENCE = re.compile(r"[ >]*(`{3,}|~{3,})")
_ITEM = re.compile(r"[ \t>]*(?:[-*+]|[0-9]{1,9}[.)])[ \t]")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
# Regular expressions that match nothing beyond a line: what one finds in a line, it finds there in the whole text.
_IN_LINE = re.compile(
    r"(?:[^\\\[(\0-\x1f]|\\[dwbS.\\/|+*?(){}\[\]^$-]|\((?!\?)|\[(?!\^)(?:[^\\\]\0-\x1f]|\\[dwS.\\/-])+\])*"
)
_MOST_SPANS = 200  # that are looked at, of one term in one file
_PATIENCE = 0.25  # Seconds for one regular expression in one text.


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
        return (text if self._match_case else text.lower()) in self._forms

    def spans(self, text: str, deadline: Deadline) -> Iterator[tuple[int, int]]:
        """Yields the places of the term. Raises as `found` does."""
        if isinstance(self._term, Regex):
            how = {"ignore_case": not self._match_case, "multiline": True, "dotall": self._term.dotall}
            patience = min(_PATIENCE, deadline.left())
            try:
                for each in compiled(self._term.pattern, **how).finditer(text, timeout=patience, concurrent=True):
                    yield each.span()
            except TimeoutError as slow:
                raise SearchTooSlow from slow
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


def forms_of(text: str) -> tuple[str, ...]:
    """Returns a text as it is, and in the other ways to write its accents."""
    if text.isascii():
        return (text,)
    return tuple(dict.fromkeys((text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text))))


class Occurrence(NamedTuple):
    """A part of a file: its start, its text, and its lines."""

    start: int
    text: str
    first: int
    last: int


@dataclass(eq=False)
class Candidate:
    """A file that may match. Its text is read when it is needed."""

    connection: sqlite3.Connection
    id: int
    kind: str = "note"

    @cached_property
    def body(self) -> str:
        ask = "SELECT body FROM texts WHERE id = ?"
        row = self.connection.execute(ask, (self.id,)).fetchone() if self.kind in SEARCHED else None
        return row[0] if row else ""

    @cached_property
    def tags(self) -> list[tuple[str, int]]:
        return self.connection.execute("SELECT key, line FROM tags WHERE file = ?", (self.id,)).fetchall()

    @cached_property
    def starts(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer("\n", self.body))]

    def line_of(self, offset: int) -> int:
        return bisect_right(self.starts, offset)

    def places(self, scope: Scope, anchors: Sequence[int] | None = None) -> Iterator[Occurrence]:
        """Yields the lines, blocks, sections or tasks of the file; only those with one of the `anchors` lines."""
        if self.kind not in SEARCHED:
            return
        match scope:
            case "line":
                lines = range(1, len(self.starts) + 1) if anchors is None else anchors
                yield from (self._place(line, line) for line in lines)
                return
            case "section":
                rows = self.connection.execute("SELECT line FROM headings WHERE file = ? ORDER BY line", (self.id,))
                firsts = sorted({1, *(line for (line,) in rows)})
            case "block":
                firsts = _blocks(self.body)
            case _:
                sql = "SELECT line, status, text FROM tasks WHERE file = ?"
                for line, status, text in self.connection.execute(sql, (self.id,)):
                    if scope == "task" or (status == " ") == (scope == "task-todo"):
                        place = self._place(line, line)
                        yield place._replace(start=place.start + max(0, place.text.find(text)), text=text)
                return
        for first, after in pairwise([*firsts, len(self.starts) + 1]):
            if anchors is None or bisect_left(anchors, first) < bisect_left(anchors, after):
                yield self._place(first, after - 1)

    def _place(self, first: int, last: int) -> Occurrence:
        start = self.starts[first - 1]
        end = self.starts[last] if last < len(self.starts) else len(self.body)
        return Occurrence(start, self.body[start:end], first, last)


def place_finder(
    scope: Scope, query: Query, deadline: Deadline, *, match_case: bool
) -> Callable[[Candidate], Iterator[Occurrence]]:
    """Returns a function that finds the parts of a file in which the query holds."""
    test = place_test(query, deadline, match_case=match_case)
    anchor = _anchor(query)
    finder = Finder(anchor) if anchor else None

    def places(candidate: Candidate) -> Iterator[Occurrence]:
        anchors = None
        if finder:
            spans = finder.spans(candidate.body, deadline)
            anchors = sorted({candidate.line_of(start) for start, _ in spans})
        return (place for place in candidate.places(scope, anchors) if test(candidate, place))

    return places


def _anchor(query: Query) -> Word | Regex | None:
    """Returns a term that every matching part contains in a line, so that only the lines with it are looked at."""
    match query:
        case Word():
            return query
        case Regex(pattern, dotall) if not dotall and _IN_LINE.fullmatch(pattern):
            return query
        case Case(_, part):
            return _anchor(part)
        case And(parts):
            return next((anchor for part in parts if (anchor := _anchor(part))), None)
        case _:
            return None


def place_test(query: Query, deadline: Deadline, *, match_case: bool) -> Callable[[Candidate, Occurrence], bool]:
    """Returns a test for a part of a file."""
    match query:
        case And(parts) | Or(parts):
            tests = [place_test(part, deadline, match_case=match_case) for part in parts]
            holds = all if isinstance(query, And) else any
            return lambda candidate, place: holds(test(candidate, place) for test in tests)
        case Not(part):
            test = place_test(part, deadline, match_case=match_case)
            return lambda candidate, place: not test(candidate, place)
        case Case(match, part):
            return place_test(part, deadline, match_case=match)
        case Word() | Phrase() | Regex():
            finder = Finder(query, match_case=match_case)
            return lambda _, place: finder.found(place.text, deadline)
        case TagTerm(name):
            return lambda candidate, place: any(tag_lines(candidate, name, place))
        case _:
            raise AssertionError(query)  # The parser lets nothing else in.


def tag_lines(candidate: Candidate, name: str, place: Occurrence) -> Iterator[int]:
    """Yields the lines of a part of a file with a tag, or one below it."""
    tag = key(name)
    for one, line in candidate.tags:
        if place.first <= line <= place.last and (one == tag or one.startswith(f"{tag}/")):
            yield line


def _blocks(text: str) -> list[int]:
    """Yields the first line of each block: paragraphs, headings, list items, whole code blocks."""
    firsts = [1]
    fence: str | None = None
    alone = False  # What comes next begins a block.
    for number, line in enumerate(text.split("\n"), 1):
        found = _FENCE.match(line)
        if fence is not None:
            if found and found[1].startswith(fence):
                fence, alone = None, True
            continue
        heading = _HEADING.match(line)
        if alone or found or heading or _ITEM.match(line):
            firsts.append(number)
        fence = found[1] if found else None
        alone = not line.strip() or heading is not None
    return list(dict.fromkeys(firsts))


class LineMatch(NamedTuple):
    """A matching line."""

    line: int
    text: str  # The line, or the part around the match, between `…`.


_Mark = tuple[int, int]  # The identity of the query's term, and the start of what it matches.


def matching_lines(
    query: Query, candidate: Candidate, deadline: Deadline, *, most: int, context: int
) -> tuple[tuple[LineMatch, ...], int]:
    """Returns some lines, in their order, and the number of all. Those with the most terms are chosen."""
    lines: dict[int, list[_Mark]] = defaultdict(list)
    with suppress(SearchTooSlow, OutOfTime):  # The lines found by then will do.
        whole = Occurrence(0, candidate.body, 1, len(candidate.starts))
        for mark in _marks(query, candidate, whole, deadline, match_case=False):
            lines[candidate.line_of(mark[1])].append(mark)
    best = sorted(lines, key=lambda line: (-len({term for term, _ in lines[line]}), line))[:most]
    shown = [
        LineMatch(line, _shortened(candidate, line, min(start for _, start in lines[line]), context))
        for line in sorted(best)
    ]
    return tuple(shown), len(lines)


def _marks(
    query: Query, candidate: Candidate, place: Occurrence, deadline: Deadline, *, match_case: bool
) -> Iterator[_Mark]:
    match query:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _marks(part, candidate, place, deadline, match_case=match_case)
        case Case(_, part) | Within("content", part):
            match = query.match if isinstance(query, Case) else match_case
            yield from _marks(part, candidate, place, deadline, match_case=match)
        case Within(scope, part) if scope not in {"file", "path"}:
            found = place_finder(scope, part, deadline, match_case=match_case)
            for inner in islice(found(candidate), _MOST_SPANS):
                marks = list(_marks(part, candidate, inner, deadline, match_case=match_case))
                yield from marks or [(id(query), inner.start)]
        case Word() | Phrase() | Regex():
            deadline.left()
            spans = Finder(query, match_case=match_case).spans(place.text, deadline)
            yield from ((id(query), place.start + start) for start, end in islice(spans, _MOST_SPANS) if end > start)
        case TagTerm(name):
            yield from ((id(query), candidate.starts[line - 1]) for line in tag_lines(candidate, name, place))
        case _:
            return


def _shortened(candidate: Candidate, line: int, at: int, context: int) -> str:
    start = candidate.starts[line - 1]
    end = candidate.starts[line] - 1 if line < len(candidate.starts) else len(candidate.body)
    first = max(start, at - context // 3) if end - start > context else start
    last = min(end, first + context)
    text = candidate.body[first:last]
    if first > start:
        head, space, tail = text.partition(" ")
        text = "…" + (tail if space and len(head) < at - first else text)
    if last < end:
        head, space, tail = text.rpartition(" ")
        text = (head if space and len(tail) < context // 3 else text) + "…"
    return text.strip()
