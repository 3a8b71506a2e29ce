"""A query as one SQL statement on `files AS f`.

The condition is exact if SQL can decide it. Regular expressions, case and `line:` need the text itself (see `text.py`);
for them the condition only excludes what cannot match. Words become one expression of the full-text index as far as
possible, which also ranks. Names, property values and tasks are short, so SQL asks Python about each (`vault_test`).
"""

import posixpath
import re
import sqlite3
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final, Literal

from tidings._kit.patterns import TranslatedPattern, translated
from tidings.vault.notes.model import key
from tidings.vault.search import tree
from tidings.vault.search.matching import Deadline, Finder, OutOfTime, SearchTooSlow, fold, parted, unparted
from tidings.vault.search.query import sizes, times
from tidings.vault.search.tree import Query

Value = str | int | float
Sql = tuple[str, tuple[Value, ...]]  # An expression, and the values of its question marks.

_MOST_KNOWN: Final = 10_000
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
_BM25: Final = "bm25(fts, 8.0, 1.0)"  # Lower is better; only in a query on the full-text index itself. Titles weigh 8.
# Rounded, so that no last digit decides what paths should. Words that most files have differ by a millionth.
_ORDER: Final = {"relevance": "round(c.score, 12), f.path", "modified": "f.mtime DESC, f.path", "path": "f.path"}


@dataclass(frozen=True, slots=True)
class Row:
    """The text of a row to search in."""

    column: str
    match_case: bool
    name: Callable[[str], str] | None = None  # Takes the name from a path. In names, terms are found anywhere.
    property: str = ""  # The key of the property whose values these are: any item of a list may match.


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
            folder = fold(text)
            inside = "substr(vault_fold(folder) || '/', 1, ?) = ?"
            folders = f"WITH d AS MATERIALIZED (SELECT DISTINCT folder FROM files) SELECT folder FROM d WHERE {inside}"  # noqa: S608
            return f"f.folder IN ({folders})", (len(folder) + 1, f"{folder}/")


def _compared(operator: str, text: str) -> Sql:
    """Compares numbers with a number, dates with a date or a year to its precision, and otherwise whole texts."""
    date = f"t.text {_A_DATE} AND substr(t.text, 1, ?) {operator} ?", (len(text), text)
    if (number := _number(text)) is not None:
        return f"(t.number {operator} ? OR (t.number IS NULL AND {date[0]}))", (number, *date[1])
    if re.match(r"[0-9]{4}-[0-9]{2}", text):
        return date
    return f"(t.number IS NULL AND t.text <> '' AND vault_fold(t.text) {operator} ?)", (fold(text),)


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

    def __init__(self, connection: sqlite3.Connection, deadline: Deadline, now: datetime) -> None:
        self._deadline = deadline
        self._now = now
        self._tests: list[Callable[[str], bool]] = []
        self._known: dict[tuple[int, str], bool] = {}  # The values of a property are often the same.
        self.slow = 0  # The number of texts on which a regular expression took too long.
        connection.create_function("vault_test", 2, self._test, deterministic=True)
        connection.create_function("vault_fold", 1, fold, deterministic=True)

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
                return _term(query, where)
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
                if row.property and not isinstance(query, tree.Regex) and (number := _number(query.text)) is not None:
                    sql, values = f"(t.number = ? OR (t.number IS NULL AND {sql}))", (number, *values)
            case _:
                raise AssertionError(query)  # The parser lets nothing else in.
        if not row.property:
            return sql, values
        return f"f.id IN (SELECT t.file FROM properties t WHERE t.key = ? AND {sql})", (row.property, *values)  # noqa: S608

    def _property(self, name: str, value: Query | None, *, match_case: bool) -> Sql:
        """Returns a condition on `f`: it has the property, and each term of the value matches some item of a list."""
        there = "f.id IN (SELECT file FROM properties WHERE key = ?)", (key(name),)
        row = Row("t.text", match_case, property=key(name))
        return there if value is None else joined(" AND ", [there, self._row_condition(value, row)])

    def _add(self, term: tree.Word | tree.Phrase | tree.Regex, row: Row) -> int:
        finder, name, deadline = Finder(term, match_case=row.match_case), row.name, self._deadline
        if name is None:
            self._tests.append(lambda text: finder.found(text, deadline))
        elif isinstance(term, tree.Regex):
            self._tests.append(lambda text: finder.found(name(text), deadline))
        else:
            normal = partial(unicodedata.normalize, "NFC") if row.match_case else fold
            wanted = normal(term.text)
            self._tests.append(lambda text: wanted in normal(name(text)))
        return len(self._tests) - 1

    def _test(self, number: int, text: str | None) -> bool:
        if text is None:
            return False
        known = self._known.get((number, text))
        if known is None:
            try:
                known = self._tests[number](text)
            except (SearchTooSlow, OutOfTime):  # An error here would come out of SQLite as one that nobody understands.
                self.slow += 1
                known = False
            if len(self._known) < _MOST_KNOWN:
                self._known[number, text] = known
        return known


def ranking(query: Query, where: Where = Where()) -> list[str]:  # noqa: B008
    """Returns the expression of the full-text index that ranks files: each word of the query."""
    match query:
        case tree.And(parts) | tree.Or(parts):
            return [match for part in parts for match in ranking(part, where)]
        case tree.Case(_, part):
            return ranking(part, where)
        case tree.Within(scope, part) if scope not in {"file", "path"}:
            return ranking(part, replace(where, body=True))
        case tree.Word() | tree.Phrase() | tree.Regex():
            match = _term(query, where).match
            return [match] if match else []
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


def _match(joint: str, parts: list[str]) -> str:
    return joint.join(f"({part})" for part in parts) if len(parts) > 1 else "".join(parts)


def _term(term: tree.Word | tree.Phrase | tree.Regex, where: Where) -> Condition:
    if isinstance(term, tree.Regex):
        return _narrowed(translated(term.pattern), where)
    text = unicodedata.normalize("NFC", term.text)
    whole = isinstance(term, tree.Phrase)
    words = text.split()
    if not words:
        return Condition()
    strange = any(unparted(c) or not (c.isascii() or c.isalnum()) for word in words for c in word)
    if strange or not re.search(r"[^\W_]", text):
        return _scanned(text, where, whole=whole)
    simple = all(word.isalnum() for word in words)
    star = "" if (whole and simple) or not text.rstrip()[-1].isalnum() else "*"
    return Condition(match=_quoted(text, where) + star, exact=simple and not where.match_case)


def _narrowed(pattern: TranslatedPattern, where: Where) -> Condition:
    if pattern.words or not pattern.literal:
        return Condition(match=_match(" AND ", [_quoted(word, where) for word in pattern.words]), exact=False)
    like = re.sub(r"[%_\\]", r"\\\g<0>", pattern.literal)
    columns = ["body"] if where.body else ["body", "title"]
    sql = " OR ".join(f"{column} LIKE '%' || ? || '%' ESCAPE '\\'" for column in columns)
    return Condition(f"f.id IN (SELECT rowid FROM fts WHERE {sql})", (like,) * len(columns), exact=False)  # noqa: S608


def _scanned(text: str, where: Where, *, whole: bool) -> Condition:
    """Searches the texts themselves, for characters that the full-text index does not have."""

    def caseless(character: str) -> bool:
        base = unicodedata.normalize("NFD", character)[0]
        return character.lower() == character.upper() and not (base.isascii() and base.isalpha())

    runs = re.findall(r"\S+", "".join(c if caseless(c) else " " for c in text))
    if not runs:
        return Condition(exact=False)
    longest = max(runs, key=len)
    ends = whole and parted(text.rstrip()[-1])
    exact = longest == text.strip() and not parted(longest[0]) and not ends
    sql, values = "instr(body, ?)", (longest,)
    if not where.body:
        sql, values = f"{sql} OR instr(vault_fold(title), ?)", (longest, longest)
    return Condition(f"f.id IN (SELECT rowid FROM fts WHERE {sql})", values, exact=exact)  # noqa: S608


def _quoted(text: str, where: Where) -> str:
    escaped = text.replace('"', '""')
    return f'body : "{escaped}"' if where.body else f'"{escaped}"'


def selection(
    query: Query, condition: Condition, asked: list[Condition], *, sort: Sort, hidden: bool, page: Sql
) -> Sql:
    """Returns the statement for rows of id, path, title, score, total, and the answers to `asked`."""
    ranks, score = ("", ()), "0.0"
    if sort == "relevance" and condition.match:
        score = _BM25
    elif sort == "relevance" and (match := " OR ".join(f"({each})" for each in ranking(query))):
        table = f"r AS MATERIALIZED (SELECT rowid AS id, {_BM25} AS score FROM fts WHERE fts MATCH ?),"  # noqa: S608
        ranks, score = (table, (match,)), "ifnull(r.score, 0.0)"
    answers = [each.whole() for each in asked]
    # The candidates are found once, before they are counted and ordered: SQLite would evaluate each condition twice.
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


def _source(condition: Condition, *, hidden: bool, ranked: bool) -> Sql:
    source = "FROM fts JOIN files f ON f.id = fts.rowid" if condition.match else "FROM files f"
    terms: list[Sql] = [("fts MATCH ?", (condition.match,))] if condition.match else []
    terms += [(condition.sql, condition.values)] if condition.sql else []
    terms += [("NOT vault_hidden(f.path)", ())] if hidden else []
    where = [(f"{'AND' if n else 'WHERE'} {sql}", values) for n, (sql, values) in enumerate(terms)]
    return _joined(source, ("LEFT JOIN r ON r.id = f.id" if ranked else "", ()), *where)


def _joined(start: str, *parts: Sql) -> Sql:
    return " ".join([start, *(sql for sql, _ in parts)]), tuple(value for _, some in parts for value in some)
