"""The one statement of SQL that a search is: which files fulfil a condition, in which order, and how many they are."""

from typing import Final, Literal

from tidings.vault.search.query_tree import Query
from tidings.vault.search.search_rows import Sql
from tidings.vault.search.search_sql import Condition, ranking

Sort = Literal["relevance", "modified", "path"]

_TITLE_WEIGHT: Final = 8.0
_BM25: Final = f"bm25(fts, {_TITLE_WEIGHT}, 1.0)"
"""Lower is better. It can only be asked for where the full-text index itself is looked through."""
# Rounded, so that no last digit decides what paths should. Words that most files have differ by a millionth.
_ORDER: Final = {"relevance": "round(c.score, 12), f.path", "modified": "f.mtime DESC, f.path", "path": "f.path"}


def selection(
    query: Query, condition: Condition, asked: list[Condition], *, sort: Sort, hidden: bool, page: Sql
) -> Sql:
    """Rows of id, path, title, score, the number of all rows, and what was asked.

    The candidates are found once, before they are counted and ordered: SQLite would ask each condition twice.
    """
    ranks, score = _ranks(query, condition) if sort == "relevance" else (("", ()), "0.0")
    answers = [each.whole() for each in asked]
    found = _joined(
        f"c AS MATERIALIZED (SELECT f.id AS id, {score} AS score",
        *((f", {sql} AS a{n}", values) for n, (sql, values) in enumerate(answers)),
        _source(condition, hidden=hidden, ranked=bool(ranks[0])),
        (")", ()),
    )
    columns = "".join(f", c.a{n}" for n in range(len(answers)))
    shown = (
        f"SELECT f.id, f.path, f.title, c.score, (SELECT count(*) FROM c){columns} "  # noqa: S608
        "FROM c JOIN files f ON f.id = c.id"
    )
    return _joined("WITH", ranks, found, (f"{shown} ORDER BY {_ORDER[sort]}", ()), page)


def _ranks(query: Query, condition: Condition) -> tuple[Sql, str]:
    """What must be found beforehand for the score, and the column that it is then."""
    if condition.match:
        return ("", ()), _BM25
    match = " OR ".join(f"({each})" for each in ranking(query))
    if not match:
        return ("", ()), "0.0"
    ranks = f"r AS MATERIALIZED (SELECT rowid AS id, {_BM25} AS score FROM fts WHERE fts MATCH ?),"  # noqa: S608
    return (ranks, (match,)), "ifnull(r.score, 0.0)"


def _source(condition: Condition, *, hidden: bool, ranked: bool) -> Sql:
    source = "FROM fts JOIN files f ON f.id = fts.rowid" if condition.match else "FROM files f"
    terms: list[Sql] = [("fts MATCH ?", (condition.match,))] if condition.match else []
    terms += [(condition.sql, condition.values)] if condition.sql else []
    terms += [("NOT vault_hidden(f.path)", ())] if hidden else []
    where = [(f"{'AND' if n else 'WHERE'} {sql}", values) for n, (sql, values) in enumerate(terms)]
    return _joined(source, ("LEFT JOIN r ON r.id = f.id" if ranked else "", ()), *where)


def _joined(start: str, *parts: Sql) -> Sql:
    return " ".join([start, *(sql for sql, _ in parts)]), tuple(value for _, some in parts for value in some)
