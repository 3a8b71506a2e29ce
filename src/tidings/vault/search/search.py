"""Running a search: a query, and the files that match it, with the lines that show why.

SQL decides what it can, and ranks. Texts are read only if they are needed for the decision, in the order of the result,
and for the hits that are shown.

A search ends after `timeout`. It then returns what it found, and `problem` says that the answer is incomplete.
"""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from tidings.vault.search.matching import Deadline, OutOfTime, SearchTooSlow
from tidings.vault.search.query import parse_query
from tidings.vault.search.sql import Condition, Sort, Sql, Translator, selection
from tidings.vault.search.text import Candidate, Judge, LineMatch, matching_lines
from tidings.vault.search.tree import And, Query

_COUNTED: Final = 1_000_000  # The number of characters that are read only for the total, once the page is full.
_STEPS: Final = 5_000
"""The number of SQLite's virtual machine steps between two looks at the clock: a fraction of a millisecond."""


class SearchHit(NamedTuple):
    """A file that was found."""

    path: str
    title: str
    score: float  # Higher is better; 0 without words in the query, or in another order.
    matches: tuple[LineMatch, ...]  # Some of the matching lines; none if only the name or a property matches.
    lines: int  # The number of matching lines, counted up to 200 for each term.


class SearchPage(NamedTuple):
    """One page of the result."""

    total: int
    exact: bool  # False if there are at least `total` hits.
    hits: tuple[SearchHit, ...]
    problem: str | None  # The reason why the answer is incomplete, and what to do.


@dataclass(frozen=True, slots=True)
class _Asked:
    query: Query
    limit: int
    offset: int
    sort: Sort
    hidden: bool


def search(
    connection: sqlite3.Connection,
    query: Query | str,
    *,
    limit: int = 20,
    offset: int = 0,
    sort: Sort = "relevance",
    matches: int = 3,
    context: int = 160,
    hidden: Callable[[str], bool] | None = None,
    timeout: float = 2.0,
    now: datetime | None = None,
) -> SearchPage:
    """Searches the index behind a connection, in the thread that may use it. Raises `BadQuery`.

    Args:
        connection: Its progress handler is used during the search.
        query: See `query` for the language.
        limit: Return at most this many hits, after the first `offset`.
        offset: Skip this many.
        sort: Equal hits are in the order of their paths.
        matches: Show at most this many lines of a file, and `context` characters of each.
        context: See `matches`.
        hidden: Returns whether a path is excluded from searches by the app's settings.
        timeout: In seconds.
        now: The time from which `modified:7d` counts back, with the time zone of days.
    """
    tree = parse_query(query) if isinstance(query, str) else query
    deadline = Deadline(timeout)
    if hidden is not None:
        connection.create_function("vault_hidden", 1, hidden, deterministic=True)
    connection.set_progress_handler(deadline.passed, _STEPS)
    try:
        asked = _Asked(tree, limit, offset, sort, hidden is not None)
        run = _SearchRun(connection, asked, deadline, now or datetime.now(UTC).astimezone())
        run.find()
        hits = tuple(run.hit(candidate, score, matches, context) for candidate, score in run.page)
    finally:
        connection.set_progress_handler(None, 0)
    return SearchPage(run.total, run.exact, hits, run.problem(timeout))


class _SearchRun:
    def __init__(self, connection: sqlite3.Connection, asked: _Asked, deadline: Deadline, now: datetime) -> None:
        self.page: list[tuple[Candidate, float]] = []
        self.total = 0
        self.exact = True
        self._rows = 0
        self._late = False
        self._given_up: list[str] = []
        self._connection = connection
        self._asked = asked
        self._deadline = deadline
        self._translator = Translator(connection, deadline, now)

    def find(self) -> None:
        condition = self._translator.condition(self._asked.query)
        try:
            self._deadline.left()
            if condition.exact:
                self._by_sql(condition)
            else:
                self._by_text(condition)
        except OutOfTime:
            self._late = True
        except sqlite3.OperationalError:
            if not self._deadline.passed():
                raise
            self._late = True
        if self._late or self._given_up or self._translator.rows.slow:
            self.exact = False

    def hit(self, candidate: Candidate, score: float, most: int, context: int) -> SearchHit:
        """Returns what is shown of a file; without lines if there is no time for them."""
        query, lines, count = self._asked.query, (), 0
        try:
            lines, count = matching_lines(query, candidate, self._deadline, most=most, context=context)
        except sqlite3.OperationalError:
            if not self._deadline.passed():
                raise
        return SearchHit(candidate.path, candidate.title, score, lines, count)

    def problem(self, timeout: float) -> str | None:
        cure = "Repetitions within repetitions, as in (a+)+, are slow: write the regular expression without."
        slow = len(self._given_up) + self._translator.rows.slow
        first = f" ({self._given_up[0]} is the first)" if self._given_up else ""
        given_up = f"The regular expression was given up on {slow} texts, where it took too long{first}. {cure}"
        late = f"The search was ended after {timeout:g} s, before all was looked at. Add a word, a tag or in:Folder."
        return " ".join([late] * self._late + [given_up] * bool(slow)) or None

    def _by_sql(self, condition: Condition) -> None:
        asked = self._asked
        self.page = list(self._candidates(condition, [], ("LIMIT ? OFFSET ?", (asked.limit, asked.offset))))
        if not self.page and (asked.offset or asked.limit <= 0):
            next(self._candidates(condition, [], ("LIMIT 1", ())), None)
        self.total = self._rows

    def _by_text(self, condition: Condition) -> None:
        asked = self._asked
        judge = Judge(self._translator, self._deadline)
        parts = asked.query.parts if isinstance(asked.query, And) else (asked.query,)
        # What SQL decides of the parts holds for all candidates.
        tests = [judge.test(part) for part in parts if not self._translator.condition(part).exact]
        read = 0
        for candidate, score in self._candidates(condition, judge.asked):
            self._deadline.left()
            full = len(self.page) >= asked.limit
            if full and read > _COUNTED:
                self.exact = False
                return
            try:
                if all(test(candidate) for test in tests):
                    self.total += 1
                    if not full and self.total > asked.offset:
                        self.page.append((candidate, score))
            except SearchTooSlow:
                self._given_up.append(candidate.path)
            read += len(candidate.body) if full else 0

    def _candidates(
        self, condition: Condition, questions: list[Condition], page: Sql = ("", ())
    ) -> Iterator[tuple[Candidate, float]]:
        asked = self._asked
        sql, values = selection(asked.query, condition, questions, sort=asked.sort, hidden=asked.hidden, page=page)
        for id_, path, title, score, rows, *answers in self._connection.execute(sql, values):
            self._rows = rows
            yield Candidate(self._connection, id_, path, title, answers), -score or 0.0  # not -0.0
