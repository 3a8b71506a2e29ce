"""A query as one SQL statement on `files AS f`.

The condition is exact if SQL can decide it. Regular expressions, case, phrases and `line:` need the text itself (see
`text.py`); for them the condition only excludes what cannot match. Words, also parts of words, become one expression of
the full-text index as far as possible. Names, property values and tasks are short, so SQL asks Python about each
(`vault_test`); also about all texts, for a term that is in most of them, or in no word.
"""

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal

from tidings._kit.patterns import translated
from tidings.vault.index.queries import Queries
from tidings.vault.index.words import folded, words_in
from tidings.vault.notes.model import SEARCHED, key
from tidings.vault.search import tree
from tidings.vault.search.matching import Deadline, Finder, OutOfTime, SearchTooSlow, forms_of
from tidings.vault.search.query import sizes, times
from tidings.vault.search.tree import Query

Value = str | int | float
Sql = tuple[str, tuple[Value, ...]]  # An expression, and the values of its question marks.

_NOWHERE: Final = '"\ue000"'  # No text has this word.
_A_DATE: Final = "GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]*'"
_HAS: Final = {
    "task": "SELECT file FROM tasks",
    "todo": "SELECT file FROM tasks WHERE status = ' '",
    "done": "SELECT file FROM tasks WHERE status <> ' '",
    "link": "SELECT file FROM links WHERE NOT embed",
    "embed": "SELECT file FROM links WHERE embed",
    "attachment": "SELECT l.file FROM links l JOIN files a ON a.name = l.name AND a.kind = 'attachment'",
    "tag": "SELECT file FROM tags",
    "property": "SELECT file FROM properties",
    "alias": "SELECT file FROM aliases",
    "heading": "SELECT file FROM headings",
    "block": "SELECT file FROM blocks",
    "problem": "SELECT id FROM files WHERE problem IS NOT NULL",
}
_STATUS = {"task": "", "task-todo": " AND t.status = ' '", "task-done": " AND t.status <> ' '"}
Sort = Literal["relevance", "modified", "path"]
_HAS_TEXT: Final = f"f.kind IN {SEARCHED}"
_MOST_WORDS: Final = 250  # Words with the same part that the full-text index is asked for; reading all texts is faster.
# Lower is better; only in a query on the full-text index itself. Such weights put titles first, and then headings:
# however often a word is in a text, that counts for less.
_BM25: Final = "bm25(fts, 1e6, 1e3, 1.0)"
_IN_TITLE: Final = "SELECT rowid AS id, -100.0 AS score FROM fts WHERE fts MATCH ?"  # Also a part of a word.
_MOST_RANKED: Final = 8  # Terms that are looked for in titles.
# Words that are told apart by the full-text index as they are here. Some Greek letters, for example, are not.
_SIMPLE: Final = re.compile("[0-9a-z\u00e0-\u00f6\u00f8-\u00ff\u0100-\u017e\u0430-\u045f\uac00-\ud7a3]+")
# Rounded, so that no last digit decides what paths should. Words that most files have differ by a millionth.
_ORDER: Final = {"relevance": "round(c.score, 12), f.path", "modified": "f.mtime DESC, f.path", "path": "f.path"}


@dataclass(frozen=True, slots=True)
class Row:
    """The text of a row to search in."""

    column: str
    match_case: bool
    name: Callable[[str], str] | None = None  # Takes the name from a path.
    property: Sql = ("", ())  # The condition for the property whose values these are: any item of a list may match.


def joined(joint: str, conditions: list[Sql]) -> Sql:
    """Joins several conditions into one."""
    return f"({joint.join(sql for sql, _ in conditions)})", tuple(value for _, some in conditions for value in some)


def tagged(name: str) -> Sql:
    """Returns a condition on `tags`: the tag, or one below it. `0` is the character after `/`."""
    tag = key(name)
    return "(key = ? OR (key >= ? AND key < ?))", (tag, f"{tag}/", f"{tag}0")


def fact(name: tree.FactName, text: str, now: datetime) -> Sql:
    """Returns a condition on `f`."""
    match name:
        case "modified":
            bounds = zip((">=", "<"), times(text, now), strict=True)
            return joined(
                " AND ", [(f"f.mtime {sign} ?", (int(time.timestamp()) * 10**9,)) for sign, time in bounds if time]
            )
        case "size":
            operator, size = sizes(text)
            return f"f.size {operator} ?", (size,)
        case "has":
            return f"f.id IN ({_HAS[text]})", ()
        case "kind":
            return "f.kind = ?", (text,)
        case "in":
            folder = key(text)
            inside = "substr(vault_fold(folder) || '/', 1, ?) = ?"
            folders = f"WITH d AS MATERIALIZED (SELECT DISTINCT folder FROM files) SELECT folder FROM d WHERE {inside}"  # noqa: S608
            return f"f.folder IN ({folders})", (len(folder) + 1, f"{folder}/")


def _compared(operator: str, text: str) -> Sql:
    """Compares numbers with a number, dates with a date or a year to its precision, and otherwise whole texts."""
    date = f"t.text {_A_DATE} AND substr(t.text, 1, ?) {operator} ?", (len(text), text)
    if (number := _number(text)) is not None:
        if len(text) != len("2026"):
            return f"t.number {operator} ?", (number,)
        return f"(t.number {operator} ? OR (t.number IS NULL AND {date[0]}))", (number, *date[1])
    if re.match(r"[0-9]{4}-[0-9]{2}", text):
        return date
    return f"(t.number IS NULL AND t.text <> '' AND vault_fold(t.text) {operator} ?)", (key(text),)


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"[+-]?[0-9]{1,300}(\.[0-9]{1,300})?", text) else None


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition for a file: `sql`, and `match` in the full-text index. Either may be empty."""

    sql: str = ""
    values: tuple[Value, ...] = ()
    match: str = ""
    exact: bool = True  # True if every file that fulfils it matches the query.

    def whole(self) -> Sql:
        parts: list[Sql] = [(self.sql, self.values)] if self.sql else []
        if self.match:
            parts.append(("f.id IN (SELECT rowid FROM fts WHERE fts MATCH ?)", (self.match,)))
        return joined(" AND ", parts) if parts else ("1", ())


@dataclass(frozen=True, slots=True)
class Where:
    """The context of a part of the query."""

    body: bool = False  # Only the text, not the title.
    match_case: bool = False
    loose: bool = False  # The part applies to a section of a file: what is missing there may be elsewhere in the file.


class Translator:
    """Translates one query for a connection, and answers the questions of SQL to Python."""

    def __init__(self, queries: Queries, deadline: Deadline, now: datetime) -> None:
        self._vocabulary = queries.vocabulary
        self._deadline = deadline
        self._now = now
        self._tests: list[Callable[[str], bool]] = []
        self.slow = 0  # The number of texts on which a regular expression took too long.
        queries.connection.create_function("vault_test", 2, self._test, deterministic=True)
        queries.connection.create_function("vault_fold", 1, key, deterministic=True)

    def condition(self, query: Query, where: Where = Where()) -> Condition:  # noqa: B008 - it is frozen
        match query:
            case tree.And(parts) | tree.Or(parts):
                combined = _all if isinstance(query, tree.And) else _any
                return combined([self.condition(part, where) for part in parts])
            case tree.Not(part):
                condition = self.condition(part, where)
                sql, values = condition.whole()
                exact = condition.exact and not where.loose
                return Condition(f"NOT {sql}", values) if exact else Condition(exact=False)
            case tree.Case(match, part):
                return self.condition(part, replace(where, match_case=match))
            case tree.Within():
                return self._within(query, where)
            case tree.Word() | tree.Phrase() | tree.Regex():
                return self._term(query, where)
            case tree.TagTerm(name):
                sql, values = tagged(name)
                sql = f"f.id IN (SELECT file FROM tags WHERE {sql})"  # noqa: S608
            case tree.Property(name, value):
                sql, values = self._property(name, value, match_case=where.match_case)
            case tree.Fact(name, text):
                sql, values = fact(name, text, self._now)
            case _:
                raise AssertionError(query)  # The parser lets nothing else in.
        return Condition(sql, values, exact=not where.loose)

    def ranks(self, query: Query) -> Sql:
        """Returns a statement for the scores of files: by whole words, and by titles with a part of one."""
        texts = ranking(query)
        whole = " OR ".join(
            dict.fromkeys(f"({_column(_phrase(words_in(folded(text))), each)})" for text, each in texts)
        )
        titles = [self._form(text.lower(), Where()).match for text, each in texts[:_MOST_RANKED] if not each.body]
        scored = f"SELECT rowid AS id, {_BM25} AS score FROM fts WHERE fts MATCH ?"  # noqa: S608
        matches = ([whole] if whole else []) + [f"title : ({match})" for match in titles if match]
        return " UNION ALL ".join([scored, *[_IN_TITLE] * len(matches)][: len(matches)]), tuple(matches)

    def _term(self, term: tree.Word | tree.Phrase | tree.Regex, where: Where) -> Condition:
        if isinstance(term, tree.Regex):
            literal = translated(term.pattern).literal
            return replace(self._form(literal.lower(), where), exact=False) if literal else Condition(exact=False)
        if not term.text:
            return Condition()
        known = [self._form(form, where) for form in forms_of(term.text.lower())]
        # In lower case, a sigma at the end of a part of a word differs from the one within the word.
        if not all(each.match for each in known) or (where.match_case and "Σ" in term.text):
            return self._scanned(term, where)
        found = _any(known)
        return replace(found, exact=found.exact and not where.match_case)

    def _form(self, text: str, where: Where) -> Condition:
        """Returns the condition that the full-text index has for a text; an empty one if reading is faster."""
        spaced = folded(text)
        words = [word for word in words_in(spaced) if any(map(str.isalnum, word))]
        if not words:
            return Condition(exact=False)
        first, *others = words
        starts, ends = spaced.startswith(first), spaced.endswith((first, *others)[-1])
        if starts:  # It may be the end of a longer word.
            words = self._vocabulary.having(first, "contains" if ends and not others else "ends", _MOST_WORDS)
            if words is None:
                return Condition(exact=False)
        else:
            words = [first]
        star = "*" if ends and (others or not starts) else ""
        match = " OR ".join(_phrase([word, *others]) + star for word in words) or _NOWHERE
        exact = text == first and (_SIMPLE.fullmatch(first) is not None or len(first) == 1)
        return Condition(match=_column(match, where), exact=exact)

    def _scanned(self, term: tree.Word | tree.Phrase, where: Where) -> Condition:
        """Reads all texts: for characters that are in no word, and for parts that most texts have."""
        finder, deadline = Finder(term, match_case=where.match_case), self._deadline
        self._tests.append(lambda text: finder.found(text, deadline))
        number = len(self._tests) - 1
        sql = "vault_test(?, (SELECT body FROM texts WHERE id = f.id))"
        sql, values = (sql, (number,)) if where.body else (f"(vault_test(?, f.title) OR {sql})", (number, number))
        return Condition(f"({_HAS_TEXT} AND {sql})", values)

    def _within(self, query: tree.Within, where: Where) -> Condition:
        scope, part = query.scope, query.part
        if scope in {"file", "path"}:
            name = posixpath.basename if scope == "file" else str
            return Condition(*self._row_condition(part, Row("f.path", where.match_case, name)))
        inner = self.condition(part, replace(where, body=True, loose=scope != "content"))
        if scope == "content":
            return inner
        if scope not in _STATUS:
            return replace(inner, exact=inner.exact and isinstance(part, tree.Word))
        sql, values = self._row_condition(part, Row("t.text", where.match_case))
        tasks = f"f.id IN (SELECT t.file FROM tasks t WHERE {sql}{_STATUS[scope]})"  # noqa: S608
        return replace(_all([inner, Condition(tasks, values)]), exact=True)

    def _row_condition(self, query: Query, row: Row) -> Sql:
        match query:
            case tree.And(parts) | tree.Or(parts):
                joint = " AND " if isinstance(query, tree.And) else " OR "
                return joined(joint, [self._row_condition(part, row) for part in parts])
            case tree.Not(part):
                sql, values = self._row_condition(part, row)
                return f"NOT {sql}", values
            case tree.Case(match, part):
                return self._row_condition(part, replace(row, match_case=match))
            case tree.TagTerm(name):
                sql, values = tagged(name)
                return f"EXISTS (SELECT 1 FROM tags WHERE file = t.file AND line = t.line AND {sql})", values  # noqa: S608
            case tree.Empty():
                sql, values = "ifnull(t.text, '') = ''", ()
            case tree.Compared(operator, text):
                sql, values = _compared(operator, text)
            case tree.Word() | tree.Phrase() | tree.Regex():
                sql, values = f"vault_test(?, {row.column})", (self._add(query, row),)
                if (
                    row.property[0]
                    and not isinstance(query, tree.Regex)
                    and (number := _number(query.text)) is not None
                ):
                    sql, values = f"(t.number = ? OR (t.number IS NULL AND {sql}))", (number, *values)
            case _:
                raise AssertionError(query)  # The parser lets nothing else in.
        if not row.property[0]:
            return sql, values
        return _with_property(joined(" AND ", [row.property, (sql, values)]))

    def _property(self, name: str | Query, value: Query | None, *, match_case: bool) -> Sql:
        """Returns a condition on `f`: it has the property, and each term of the value matches some item of a list."""
        named = self._named(tree.Phrase(name) if isinstance(name, str) else name)
        there = _with_property(named)
        row = Row("t.text", match_case, property=named)
        return there if value is None else joined(" AND ", [there, self._row_condition(value, row)])

    def _named(self, query: Query) -> Sql:
        """Returns a condition for the name of a property, which is as a whole what a word of the query is."""
        match query:
            case tree.And(parts) | tree.Or(parts):
                return joined(" AND " if isinstance(query, tree.And) else " OR ", list(map(self._named, parts)))
            case tree.Not(part):
                sql, values = self._named(part)
                return f"NOT {sql}", values
            case tree.Regex():
                return "vault_test(?, t.key)", (self._add(query, Row("t.key", match_case=False)),)
            case tree.Word(text) | tree.Phrase(text):
                return "t.key = ?", (key(text),)
            case _:
                return "0", ()  # No property has such a name.

    def _add(self, term: tree.Word | tree.Phrase | tree.Regex, row: Row) -> int:
        finder, name, deadline = Finder(term, match_case=row.match_case), row.name, self._deadline
        if row.property[0] and isinstance(term, tree.Phrase):
            self._tests.append(finder.is_whole)
        else:
            self._tests.append(lambda text: finder.found(name(text) if name else text, deadline))
        return len(self._tests) - 1

    def _test(self, number: int, text: str | None) -> bool:
        if text is None:
            return False
        try:
            return self._tests[number](text)
        except (SearchTooSlow, OutOfTime):  # An error here would come out of SQLite as one that nobody understands.
            self.slow += 1
            return False


def ranking(query: Query, where: Where = Where()) -> list[tuple[str, Where]]:  # noqa: B008
    """Returns the texts by which files are ranked: each word or phrase of the query that must not be missing."""
    match query:
        case tree.And(parts) | tree.Or(parts):
            return [text for part in parts for text in ranking(part, where)]
        case tree.Case(_, part):
            return ranking(part, where)
        case tree.Within(scope, part) if scope not in {"file", "path"}:
            return ranking(part, replace(where, body=True))
        case tree.Word(text) | tree.Phrase(text) if words_in(folded(text)):
            return [(text, where)]
        case _:
            return []


def _all(conditions: list[Condition]) -> Condition:
    sql = [(each.sql, each.values) for each in conditions if each.sql]
    match = [each.match for each in conditions if each.match]
    return Condition(
        *(joined(" AND ", sql) if sql else ("", ())), _match(" AND ", match), all(each.exact for each in conditions)
    )


def _any(conditions: list[Condition]) -> Condition:
    exact = all(each.exact for each in conditions)
    only_match = [each.match for each in conditions if each.match and not each.sql]
    others = [each for each in conditions if not each.match or each.sql]
    if not others:
        return Condition(match=_match(" OR ", only_match), exact=exact)
    if only_match:
        others.append(Condition(match=_match(" OR ", only_match)))
    return Condition(*joined(" OR ", [each.whole() for each in others]), exact=exact)


def _with_property(condition: Sql) -> Sql:
    return f"f.id IN (SELECT t.file FROM properties t WHERE {condition[0]})", condition[1]  # noqa: S608


def _phrase(words: list[str]) -> str:
    return f'"{" ".join(words)}"'


def _match(joint: str, parts: list[str]) -> str:
    return joint.join(f"({part})" for part in parts) if len(parts) > 1 else "".join(parts)


def _column(expression: str, where: Where) -> str:
    return f"body : ({expression})" if where.body else expression


def selection(
    query: Query, condition: Condition, asked: list[Condition], ranks: Sql, *, sort: Sort, hidden: bool, page: Sql
) -> Sql:
    """Returns the statement for rows of id, path, kind, title, score, total, and the answers to `asked`.

    `ranks` selects the scores of files, of which a file may have several.
    """
    ranks = ranks if sort == "relevance" else ("", ())
    score = "ifnull(r.score, 0.0)" if ranks[0] else "0.0"
    summed = "r AS MATERIALIZED (SELECT id, sum(score) AS score FROM s GROUP BY id),"
    summed = f"s AS MATERIALIZED ({ranks[0]}), {summed}" if ranks[0] else ""
    answers = [each.whole() for each in asked]
    # The candidates are found once, before they are counted and ordered: SQLite would evaluate each condition twice.
    found = _joined(
        f"c AS MATERIALIZED (SELECT f.id AS id, {score} AS score",
        *((f", {sql} AS a{n}", values) for n, (sql, values) in enumerate(answers)),
        _source(condition, hidden=hidden, ranked=bool(summed), everywhere=_everywhere(query)),
        (")", ()),
    )
    columns = "".join(f", c.a{n}" for n in range(len(answers)))
    shown = (
        f"SELECT f.id, f.path, f.kind, f.title, c.score, (SELECT count(*) FROM c){columns} "  # noqa: S608
        "FROM c JOIN files f ON f.id = c.id"
    )
    return _joined("WITH", (summed, ranks[1]), found, (f"{shown} ORDER BY {_ORDER[sort]}", ()), page)


def _everywhere(query: Query) -> bool:
    """Returns whether a query is about all files, and not only about those with a text."""
    about = (each.scope if isinstance(each, tree.Within) else getattr(each, "name", "") for each in tree.inside(query))
    return not {"file", "path", "kind"}.isdisjoint(about)


def _source(condition: Condition, *, hidden: bool, ranked: bool, everywhere: bool) -> Sql:
    source = "FROM fts JOIN files f ON f.id = fts.rowid" if condition.match else "FROM files f"
    terms: list[Sql] = [("fts MATCH ?", (condition.match,))] if condition.match else []
    terms += [(_HAS_TEXT, ())] if not everywhere and not condition.match else []
    terms += [(condition.sql, condition.values)] if condition.sql else []
    terms += [("NOT vault_hidden(f.path)", ())] if hidden else []
    where = [(f"{'AND' if n else 'WHERE'} {sql}", values) for n, (sql, values) in enumerate(terms)]
    return _joined(source, ("LEFT JOIN r ON r.id = f.id" if ranked else "", ()), *where)


def _joined(start: str, *parts: Sql) -> Sql:
    return " ".join([start, *(sql for sql, _ in parts)]), tuple(value for _, some in parts for value in some)
