"""A query as one SQL statement on `files AS f`.

Words, also parts of words, become one expression of the full-text index as far as possible. For what needs the text
itself, SQL asks Python (`vault_test`): regular expressions, case, phrases, `line:` (see `text.py`), names, property
values and tasks; terms that are in most texts, or in no word. The full-text index excludes what cannot match before.
"""

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal

from tidings._kit.patterns import translated
from tidings.vault.index.queries import Queries
from tidings.vault.index.read_file import folded, words_in
from tidings.vault.notes.model import SEARCHED, key
from tidings.vault.search import query as tree
from tidings.vault.search.query import Query, sizes, times
from tidings.vault.search.text import Candidate, Deadline, Finder, OutOfTime, SearchTooSlow, forms_of, place_finder

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
    name: Callable[[str], str] = str  # Takes the name from a path.
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
            ends = zip((">=", "<"), times(text, now), strict=True)
            bounds: list[Sql] = [(f"f.mtime {sign} ?", (int(end.timestamp()) * 10**9,)) for sign, end in ends if end]
            return joined(" AND ", bounds)
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

    def whole(self) -> Sql:
        parts: list[Sql] = []
        if self.match:  # First: it is quicker than a question to Python.
            parts.append(("f.id IN (SELECT rowid FROM fts WHERE fts MATCH ?)", (self.match,)))
        parts += [(self.sql, self.values)] if self.sql else []
        return joined(" AND ", parts) if parts else ("1", ())


@dataclass(frozen=True, slots=True)
class Where:
    """The context of a part of the query."""

    body: bool = False  # Only the text, not the title.
    match_case: bool = False
    loose: bool = False  # The part is for a place in the file: the condition only excludes what cannot match.


@dataclass
class Translator:
    """Translates one query, and answers the questions of SQL to Python."""

    queries: Queries
    deadline: Deadline
    now: datetime
    slow: int = 0  # The number of texts on which a regular expression took too long.
    late: bool = False  # The time for the search was over.
    _tests: list[Callable[[Any], bool]] = field(default_factory=list[Callable[[Any], bool]])

    def __post_init__(self) -> None:
        self.queries.connection.create_function("vault_test", 2, self._test, deterministic=True)
        self.queries.connection.create_function("vault_fold", 1, key, deterministic=True)

    def condition(self, query: Query, where: Where = Where()) -> Condition:  # noqa: B008 - it is frozen
        match query:
            case tree.And(parts) | tree.Or(parts):
                combined = _all if isinstance(query, tree.And) else _any
                return combined([self.condition(part, where) for part in parts])
            case tree.Not(part):
                sql, values = self.condition(part, where).whole()
                return Condition() if where.loose else Condition(f"NOT {sql}", values)
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
                sql, values = fact(name, text, self.now)
            case _:
                raise AssertionError(query)  # The parser lets nothing else in.
        return Condition(sql, values)

    def ranks(self, query: Query) -> Sql:
        """Returns a statement for the scores of files: by whole words, and by titles with a part of one."""
        texts = ranking(query)
        phrases = (f"({_column(_phrase(words_in(folded(text))), each)})" for text, each in texts)
        whole = " OR ".join(dict.fromkeys(phrases))
        titles = [self._form(text.lower(), Where())[0] for text, each in texts[:_MOST_RANKED] if not each.body]
        scored = f"SELECT rowid AS id, {_BM25} AS score FROM fts WHERE fts MATCH ?"  # noqa: S608
        matches = ([whole] if whole else []) + [f"title : ({match})" for match in titles if match]
        return " UNION ALL ".join([scored, *[_IN_TITLE] * len(matches)][: len(matches)]), tuple(matches)

    def _term(self, term: tree.Word | tree.Phrase | tree.Regex, where: Where) -> Condition:
        text = (translated(term.pattern).literal or "") if isinstance(term, tree.Regex) else term.text
        if not text and not isinstance(term, tree.Regex):
            return Condition()
        known = [self._form(form, where) for form in forms_of(text.lower())]
        # In lower case, a sigma at the end of a part of a word differs from the one within the word.
        readable = all(match for match, _ in known) and not (where.match_case and "Σ" in text)
        found = Condition(match=_match(" OR ", [match for match, _ in known]) if readable else "")
        is_exact = readable and not where.match_case and all(exact for _, exact in known)
        if where.loose or (is_exact and not isinstance(term, tree.Regex)):
            return found
        finder = Finder(term, match_case=where.match_case)
        number = self._ask(lambda text: finder.found(text, self.deadline))
        sql = "vault_test(?, (SELECT body FROM texts WHERE id = f.id))"
        sql, values = (sql, (number,)) if where.body else (f"(vault_test(?, f.title) OR {sql})", (number, number))
        return replace(found, sql=f"({_HAS_TEXT} AND {sql})", values=values)

    def _form(self, text: str, where: Where) -> tuple[str, bool]:
        """Returns an expression for a text, and whether it is exact. The expression is empty if reading is faster."""
        spaced = folded(text)
        words = [word for word in words_in(spaced) if any(map(str.isalnum, word))]
        if not words:
            return "", False
        first, *others = words
        starts, ends = spaced.startswith(first), spaced.endswith((first, *others)[-1])
        if starts:  # It may be the end of a longer word.
            side = "contains" if ends and not others else "ends"
            words = self.queries.vocabulary.having(first, side, _MOST_WORDS)
            if words is None:
                return "", False
        else:
            words = [first]
        star = "*" if ends and (others or not starts) else ""
        match = " OR ".join(_phrase([word, *others]) + star for word in words) or _NOWHERE
        exact = text == first and (_SIMPLE.fullmatch(first) is not None or len(first) == 1)
        return _column(match, where), exact

    def _within(self, query: tree.Within, where: Where) -> Condition:
        scope, part = query.scope, query.part
        if scope in {"file", "path"}:
            name = posixpath.basename if scope == "file" else str
            return Condition(*self._row_condition(part, Row("f.path", where.match_case, name)))
        if scope == "content" or (isinstance(part, tree.Word) and scope not in _STATUS):  # A word is in one line.
            return self.condition(part, replace(where, body=True))
        inner = self.condition(part, replace(where, body=True, loose=True))
        if scope not in _STATUS:
            places = place_finder(scope, part, self.deadline, match_case=where.match_case)
            number = self._ask(lambda id_: next(places(Candidate(self.queries.connection, id_)), None) is not None)
            return _all([inner, Condition(f"({_HAS_TEXT} AND vault_test(?, f.id))", (number,))])
        sql, values = self._row_condition(part, Row("t.text", where.match_case))
        tasks = f"f.id IN (SELECT t.file FROM tasks t WHERE {sql}{_STATUS[scope]})"  # noqa: S608
        return _all([inner, Condition(tasks, values)])

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
                number = None if isinstance(query, tree.Regex) else _number(query.text)
                if row.property[0] and number is not None:
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
        """Adds the question whether the text of a row has a term."""
        finder = Finder(term, match_case=row.match_case)
        if row.property[0] and isinstance(term, tree.Phrase):
            return self._ask(finder.is_whole)
        return self._ask(lambda text: finder.found(row.name(text), self.deadline))

    def _ask(self, test: Callable[[Any], bool]) -> int:
        """Returns the number by which SQL asks a question."""
        self._tests.append(test)
        return len(self._tests) - 1

    def _test(self, number: int, about: str | int | None) -> bool | None:
        """Returns an answer. None, for which SQL leaves the file out, also if it is negated: there is no time."""
        if about is None:
            return False
        try:
            return self._tests[number](about)
        except SearchTooSlow:
            self.slow += 1
        except OutOfTime:
            self.late = True
        return None


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
    # Questions to Python take longest, and come last.
    sql = sorted(((each.sql, each.values) for each in conditions if each.sql), key=lambda sql: "vault_test" in sql[0])
    match = [each.match for each in conditions if each.match]
    return Condition(*(joined(" AND ", sql) if sql else ("", ())), _match(" AND ", match))


def _any(conditions: list[Condition]) -> Condition:
    only_match = [each.match for each in conditions if each.match and not each.sql]
    others = [each for each in conditions if not each.match or each.sql]
    if not others:
        return Condition(match=_match(" OR ", only_match))
    if only_match:
        others.insert(0, Condition(match=_match(" OR ", only_match)))
    return Condition(*joined(" OR ", [each.whole() for each in others]))


def _with_property(condition: Sql) -> Sql:
    return f"f.id IN (SELECT t.file FROM properties t WHERE {condition[0]})", condition[1]  # noqa: S608


def _phrase(words: list[str]) -> str:
    return f'"{" ".join(words)}"'


def _match(joint: str, parts: list[str]) -> str:
    return joint.join(f"({part})" for part in parts) if len(parts) > 1 else "".join(parts)


def _column(expression: str, where: Where) -> str:
    return f"body : ({expression})" if where.body else expression


def selection(query: Query, translator: Translator, *, sort: Sort, hidden: bool) -> Sql:
    """Returns the statement for rows of id, path, kind, title, score and total."""
    condition = translator.condition(query)
    ranks, matches = translator.ranks(query) if sort == "relevance" else ("", ())
    # The query is about all files, and not only about those with a text.
    about = (each.scope if isinstance(each, tree.Within) else getattr(each, "name", "") for each in tree.inside(query))
    everywhere = not {"file", "path", "kind"}.isdisjoint(about)
    terms: list[Sql] = [("fts MATCH ?", (condition.match,))] if condition.match else []
    terms += [(_HAS_TEXT, ())] if not everywhere and not condition.match else []
    terms += [("NOT vault_hidden(f.path)", ())] if hidden else []
    terms += [(condition.sql, condition.values)] if condition.sql else []
    # A file may have several scores.
    summed = "r AS MATERIALIZED (SELECT id, sum(score) AS score FROM s GROUP BY id),"
    score, scores = ("ifnull(r.score, 0.0)", "LEFT JOIN r ON r.id = f.id") if ranks else ("0.0", "")
    # The candidates are found once, before they are counted and ordered: SQLite would evaluate each condition twice.
    parts = (
        f"WITH s AS MATERIALIZED ({ranks}), {summed}" if ranks else "WITH",
        f"c AS MATERIALIZED (SELECT f.id AS id, {score} AS score",
        "FROM fts JOIN files f ON f.id = fts.rowid" if condition.match else "FROM files f",
        scores,
        f"{'WHERE' if terms else ''} {' AND '.join(sql for sql, _ in terms)})",
        "SELECT f.id, f.path, f.kind, f.title, c.score, (SELECT count(*) FROM c) FROM c JOIN files f ON f.id = c.id",
        f"ORDER BY {_ORDER[sort]}",
    )
    return " ".join(parts), (*matches, *(value for _, values in terms for value in values))
