"""Running a search: a query, and the files that match it, with the lines that show why.

SQL decides and ranks, see `sql.py`. After `timeout`, what was found is returned, with a `problem`.
"""

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from tidings.vault.index.queries import Queries
from tidings.vault.search.matching import Deadline, OutOfTime
from tidings.vault.search.query import parse_query
from tidings.vault.search.sql import Sort, Translator, selection
from tidings.vault.search.text import Candidate, LineMatch, matching_lines
from tidings.vault.search.tree import Query

_GRACE: Final = 2.0  # Seconds after the deadline in which SQL may end. It needs few of them, on however busy a machine.
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
    queries.vocabulary.refresh(connection)  # Before the time counts: the first search of a large vault takes a while.
    deadline = Deadline(timeout)
    if hidden is not None:
        connection.create_function("vault_hidden", 1, hidden, deterministic=True)
    # Questions to Python are no longer answered at the deadline, so that SQL ends soon, with what was found by then.
    connection.set_progress_handler(lambda: deadline.passed(_GRACE), _STEPS)
    translator = Translator(queries, deadline, now or datetime.now(UTC).astimezone())
    found: list[tuple[Any, ...]] = []
    total = 0
    try:
        try:
            deadline.left()
            sql, values = selection(query, translator, sort=sort, hidden=hidden is not None)
            found = connection.execute(f"{sql} LIMIT ? OFFSET ?", (*values, limit, offset)).fetchall()
            total = _total(found)
            if not found and (offset or limit <= 0):
                total = _total(connection.execute(f"{sql} LIMIT 1", values).fetchall())
        except (OutOfTime, sqlite3.OperationalError) as error:
            if not isinstance(error, OutOfTime) and not deadline.passed():
                raise
            translator.late = True
        hits: list[SearchHit] = []
        for id_, path, kind, title, score, _ in found:
            lines, count = (), 0
            try:
                candidate = Candidate(connection, id_, kind)
                lines, count = matching_lines(query, candidate, deadline, most=matches, context=context)
            except sqlite3.OperationalError:  # There is no time for lines.
                if not deadline.passed():
                    raise
            hits.append(SearchHit(path, title, -score or 0.0, lines, count))  # not -0.0
    finally:
        connection.set_progress_handler(None, 0)
    is_exact = not (translator.late or translator.slow)
    return SearchPage(total, is_exact, tuple(hits), None if is_exact else _problem(translator, timeout))


def _total(rows: list[tuple[Any, ...]]) -> int:
    return rows[0][-1] if rows else 0


def _problem(translator: Translator, timeout: float) -> str:
    cure = "Repetitions within repetitions, as in (a+)+, are slow: write the regular expression without."
    given_up = f"The regular expression was given up on {translator.slow} texts, where it took too long. {cure}"
    late = f"The search was ended after {timeout:g} s, before all was looked at. Add a word, a tag or in:Folder."
    return " ".join([late] * translator.late + [given_up] * bool(translator.slow))
