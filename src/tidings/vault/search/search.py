"""Running a search: a query, and the files that match it, with the lines that show why.

SQL decides what it can, and ranks. Texts are read only if they are needed for the decision, in the order of the result,
and for the hits that are shown. After `timeout`, what was found is returned, with a `problem`.
"""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

from tidings.vault.index.queries import Queries
from tidings.vault.search.matching import Deadline, OutOfTime, SearchTooSlow
from tidings.vault.search.query import parse_query
from tidings.vault.search.sql import Condition, Sort, Sql, Translator, selection
from tidings.vault.search.text import Candidate, Judge, LineMatch, matching_lines
from tidings.vault.search.tree import And, Query

_COUNTED: Final = 1_000_000  # The number of characters that are read only for the total, once the page is full.
_STEPS: Final = 5_000  # SQLite's virtual machine steps between two looks at the clock: a fraction of a millisecond.


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


def search(
    queries: Queries,
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
    """Searches the index, in the thread that may use it. Raises `BadQuery`.

    The connection's progress handler is used during the search. At most `limit` hits are returned, after the first
    `offset`; equal ones are in the order of their paths. At most `matches` lines of a file are shown, and `context`
    characters of each. `hidden` returns whether a path is excluded by the app's settings; `timeout` is in seconds;
    `now` is the time from which `modified:7d` counts back, with the time zone of days.
    """
    query = parse_query(query) if isinstance(query, str) else query
    connection = queries.connection
    now = now or datetime.now(UTC).astimezone()
    queries.vocabulary.refresh(connection)  # Before the time counts: the first search of a large vault takes a while.
    deadline = Deadline(timeout)
    if hidden is not None:
        connection.create_function("vault_hidden", 1, hidden, deterministic=True)
    connection.set_progress_handler(deadline.passed, _STEPS)
    try:
        translator = Translator(queries, deadline, now)
        run = _SearchRun(
            connection, query, deadline, translator, limit=limit, offset=offset, sort=sort, hidden=hidden is not None
        )
        run.find()
        hits = tuple(run.hit(candidate, score, matches, context) for candidate, score in run.page)
    finally:
        connection.set_progress_handler(None, 0)
    return SearchPage(run.total, run.exact, hits, run.problem(timeout))


@dataclass
class _SearchRun:
    connection: sqlite3.Connection
    query: Query
    deadline: Deadline
    translator: Translator
    _: KW_ONLY
    limit: int
    offset: int
    sort: Sort
    hidden: bool
    page: list[tuple[Candidate, float]] = field(default_factory=list[tuple[Candidate, float]])
    total: int = 0
    exact: bool = True
    late: bool = False
    given_up: list[str] = field(default_factory=list[str])
    rows: int = 0  # The number of files that fulfil the condition.

    def find(self) -> None:
        try:
            self.deadline.left()
            condition = self.translator.condition(self.query)
            if condition.exact:
                self._by_sql(condition)
            else:
                self._by_text(condition)
        except OutOfTime:
            self.late = True
        except sqlite3.OperationalError:
            if not self.deadline.passed():
                raise
            self.late = True
        if self.late or self.given_up or self.translator.slow:
            self.exact = False

    def hit(self, candidate: Candidate, score: float, most: int, context: int) -> SearchHit:
        """Returns what is shown of a file; without lines if there is no time for them."""
        lines, count = (), 0
        try:
            lines, count = matching_lines(self.query, candidate, self.deadline, most=most, context=context)
        except sqlite3.OperationalError:
            if not self.deadline.passed():
                raise
        return SearchHit(candidate.path, candidate.title, score, lines, count)

    def problem(self, timeout: float) -> str | None:
        cure = "Repetitions within repetitions, as in (a+)+, are slow: write the regular expression without."
        slow = len(self.given_up) + self.translator.slow
        first = f" ({self.given_up[0]} is the first)" if self.given_up else ""
        given_up = f"The regular expression was given up on {slow} texts, where it took too long{first}. {cure}"
        late = f"The search was ended after {timeout:g} s, before all was looked at. Add a word, a tag or in:Folder."
        return " ".join([late] * self.late + [given_up] * bool(slow)) or None

    def _by_sql(self, condition: Condition) -> None:
        self.page = list(self._candidates(condition, [], ("LIMIT ? OFFSET ?", (self.limit, self.offset))))
        if not self.page and (self.offset or self.limit <= 0):
            next(self._candidates(condition, [], ("LIMIT 1", ())), None)
        self.total = self.rows

    def _by_text(self, condition: Condition) -> None:
        judge = Judge(self.translator, self.deadline)
        parts = self.query.parts if isinstance(self.query, And) else (self.query,)
        # What SQL decides of the parts holds for all candidates.
        tests = [judge.test(part) for part in parts if not self.translator.condition(part).exact]
        read = 0
        for candidate, score in self._candidates(condition, judge.asked):
            self.deadline.left()
            full = len(self.page) >= self.limit
            if full and read > _COUNTED:
                self.exact = False
                return
            try:
                if all(test(candidate) for test in tests):
                    self.total += 1
                    if not full and self.total > self.offset:
                        self.page.append((candidate, score))
            except SearchTooSlow:
                self.given_up.append(candidate.path)
            read += len(candidate.body) if full else 0

    def _candidates(
        self, condition: Condition, questions: list[Condition], page: Sql = ("", ())
    ) -> Iterator[tuple[Candidate, float]]:
        ranks = self.translator.ranks(self.query)
        sql, values = selection(self.query, condition, questions, ranks, sort=self.sort, hidden=self.hidden, page=page)
        for id_, path, kind, title, score, rows, *answers in self.connection.execute(sql, values):
            self.rows = rows
            yield Candidate(self.connection, id_, path, kind, title, answers), -score or 0.0  # not -0.0
