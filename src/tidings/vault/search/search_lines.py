"""The lines of a file that show why it was found, shortened around what was sought."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from tidings.vault.search.matching import Deadline, Finder, OutOfTime, TooSlow
from tidings.vault.search.query_tree import And, Case, Or, Phrase, Query, Regex, Tag, Within, Word
from tidings.vault.search.search_text import Candidate, Place, place_finder, tag_lines

_MOST_SPANS = 200  # that are looked at, of one term in one file


class Match(NamedTuple):
    """A line that matches."""

    line: int
    text: str
    """The line, or what stands around the match, between `…`."""


class _Mark(NamedTuple):
    term: int
    """Which of the query's terms, by its identity."""
    start: int


def matching_lines(
    query: Query, candidate: Candidate, deadline: Deadline, *, most: int, context: int
) -> tuple[tuple[Match, ...], int]:
    """Some lines, and how many there are. Those with the most terms are chosen, and are given in their order."""
    marks: list[_Mark] = []
    with suppress(TooSlow, OutOfTime):  # The lines found by then will do.
        marks.extend(_marks(query, candidate, candidate.whole, deadline, match_case=False))
    lines: dict[int, list[_Mark]] = defaultdict(list)
    for mark in marks:
        lines[candidate.line_of(mark.start)].append(mark)
    best = sorted(lines, key=lambda line: (-len({mark.term for mark in lines[line]}), line))[:most]
    shown = (
        Match(line, _shortened(candidate, line, min(mark.start for mark in lines[line]), context))
        for line in sorted(best)
    )
    return tuple(shown), len(lines)


def _marks(
    query: Query, candidate: Candidate, place: Place, deadline: Deadline, *, match_case: bool
) -> Iterator[_Mark]:
    match query:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _marks(part, candidate, place, deadline, match_case=match_case)
        case Case(match, part):
            yield from _marks(part, candidate, place, deadline, match_case=match)
        case Within("content", part):
            yield from _marks(part, candidate, place, deadline, match_case=match_case)
        case Within(scope, part) if scope not in {"file", "path"}:
            found = place_finder(scope, part, deadline, match_case=match_case)
            for inner in islice(found(candidate), _MOST_SPANS):
                marks = list(_marks(part, candidate, inner, deadline, match_case=match_case))
                yield from marks or [_Mark(id(query), inner.start)]
        case Word() | Phrase() | Regex():
            deadline.left()
            spans = Finder(query, match_case=match_case).spans(place.text, deadline)
            yield from (
                _Mark(id(query), place.start + start) for start, end in islice(spans, _MOST_SPANS) if end > start
            )
        case Tag(name):
            lines = (line for line in tag_lines(candidate, name) if place.first <= line <= place.last)
            yield from (_Mark(id(query), candidate.starts[line - 1]) for line in lines)
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
