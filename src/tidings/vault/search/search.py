"""Running a search: a query, and the files that match it, with the lines that show why.

SQL decides and ranks, see `sql.py`. After `timeout`, what was found is returned, with a `problem`.
"""

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from tidings.vault.files.paths import Vault
from tidings.vault.index.index import Index
from tidings.vault.index.queries import Queries
from tidings.vault.index.read_file import UTF16, Missed, kind_of, read_bytes, read_file, text_of
from tidings.vault.index.scan import FolderWalk, VaultAway
from tidings.vault.notes.model import SEARCHED, IndexEntry
from tidings.vault.search import query as tree
from tidings.vault.search.query import Query, parse_query
from tidings.vault.search.sql import Sort, Translator, selection
from tidings.vault.search.text import Candidate, Deadline, LineMatch, OutOfTime, forms_of, matching_lines

_GRACE: Final = 2.0  # Seconds after the deadline in which SQL may end. It needs few of them, on however busy a machine.
_STEPS: Final = 5_000  # SQLite's virtual machine steps between two looks at the clock: a fraction of a millisecond.

_SECONDS: Final = 15.0  # Of reading. A vault that takes longer has so many notes that a part of the index is of use.
_MOST_CHARACTERS: Final = 60_000_000  # Of texts in memory.
_MOST_PARSED: Final = 2_000  # Files whose tags, tasks … are needed. Parsing more takes as long as the index.
# The letters outside ASCII whose lower case contains ASCII, by that.
_ODD: Final = {"i": "\u0130".encode(), "k": "\u212a".encode()}
_SIGMA: Final = str.maketrans("\u03c2", "\u03c3")  # It differs at the end of a word, and in the middle.

May = Callable[[str, bytes], bool]  # Returns whether a note with this title and content, in lower case, may match.
_STRUCTURE: Final = ("section", "task", "task-todo", "task-done")


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
            beyond = not found and (offset or limit <= 0)
            counted = connection.execute(f"{sql} LIMIT 1", values).fetchall() if beyond else found
            total = counted[0][-1] if counted else 0
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
    problems: list[str] = []
    if translator.late:
        cure = "Add a word, a tag or in:Folder."
        problems.append(f"The search was ended after {timeout:g} s, before all was looked at. {cure}")
    if translator.slow:
        cure = "Repetitions within repetitions, as in (a+)+, are slow: write the regular expression without."
        given_up = f"The regular expression was given up on {translator.slow} texts, where it took too long."
        problems.append(f"{given_up} {cure}")
    return SearchPage(total, not problems, tuple(hits), " ".join(problems) or None)


def cold_search(
    vault: Vault, text: str, *, limit: int, offset: int, sort: Sort, hidden: Callable[[str], bool] | None
) -> SearchPage | None:
    """Searches the disk, while the first index is built. Returns None if that is no better than an incomplete index.

    Files that cannot match are left out by a look at their texts. The others go into an index in memory, which is
    searched like any other, so that both answers are the same. It has no list of words: to make one takes longer than
    to read texts.
    """
    query = parse_query(text)
    entries = _entries(vault, query, text)
    if entries is None:
        return None
    with closing(Index(vault, memory=True)) as index:
        index.apply(entries)
        return search(index.queries, query, limit=limit, offset=offset, sort=sort, hidden=hidden)


def _entries(vault: Vault, query: Query, text: str) -> list[IndexEntry] | None:
    """Returns the files that may match; None if there are too many."""
    may, deadline = _may(query), time.monotonic() + _SECONDS
    parsed = any(  # Whether more of a note counts than its name and its text.
        isinstance(each, tree.TagTerm | tree.Property)
        or (isinstance(each, tree.Within) and each.scope in _STRUCTURE)
        or (isinstance(each, tree.Fact) and each.name == "has")
        for each in tree.inside(query)
    )
    # A text with one of these may have ASCII letters of the query in lower case that its bytes do not have.
    odd = [letter for ascii_letter, letter in _ODD.items() if ascii_letter in text.lower()]
    entries: list[IndexEntry] = []
    size = 0
    try:
        walk, roots = FolderWalk(vault), {mount: str(mount.root) for mount in vault.mounts}
        for path in walk.paths():
            if time.monotonic() > deadline:
                return None
            mount, inner = vault.split(path)
            kind = kind_of(path)
            is_text = kind in SEARCHED
            data = read_bytes(roots[mount], inner) if is_text else b""
            name = path.rpartition("/")[2]
            title = name.rpartition(".")[0] if is_text else name
            is_odd = data.startswith(UTF16) or any(map(data.__contains__, odd))
            if kind == "note" and not is_odd and not may(title.lower(), data.lower()):
                continue  # Most notes need not be decoded, nor looked at any further.
            if (seen := walk.file(path)) is None:
                continue
            body = text_of(kind, data)
            if not (parsed and is_text):
                entries.append(IndexEntry(path, seen.kind, seen.stamp, None, body, title, 0, "{}", None, {}, ""))
            elif not isinstance(read := read_file(seen), Missed):
                entries.append(read)
            size += len(body)
            if size > _MOST_CHARACTERS or (parsed and len(entries) > _MOST_PARSED):
                return None
    except VaultAway:
        return None
    return entries


def _may(query: Query) -> May:
    """Returns a test that every matching note passes, and many others do not."""
    match query:
        case tree.And(parts) | tree.Or(parts):
            tests, holds = list(map(_may, parts)), all if isinstance(query, tree.And) else any
            return lambda title, data: holds(may(title, data) for may in tests)
        case tree.Case(_, part):
            return _may(part)
        case tree.Within(scope, part) if scope not in {"file", "path"}:
            return _may(part)
        case tree.Word(text) | tree.Phrase(text) if text.isascii():
            lower, written = text.lower(), text.lower().encode()
            return lambda title, data: written in data or lower in title
        case tree.Word(text) | tree.Phrase(text):
            forms = forms_of(text.lower().translate(_SIGMA))

            def found(title: str, data: bytes) -> bool:
                texts = (part.lower().translate(_SIGMA) for part in (data.decode(errors="replace"), title))
                return any(form in part for part in texts for form in forms)

            return found
        case _:
            return lambda title, data: True
