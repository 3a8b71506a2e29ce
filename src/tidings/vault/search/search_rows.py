"""Conditions on what the index keeps in rows: tags, tasks, properties, names, dates. SQL decides them exactly.

Names of files, values of properties and tasks are short, so SQL asks Python about each of them (`vault_test`).
"""

import re
import sqlite3
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tidings.vault.files.paths import key
from tidings.vault.search import query_facts
from tidings.vault.search.matching import Deadline, Finder, OutOfTime, TooSlow, fold
from tidings.vault.search.query_tree import (
    And,
    Case,
    Compared,
    Empty,
    FactName,
    Not,
    Or,
    Phrase,
    Query,
    Regex,
    Tag,
    Word,
)

Value = str | int | float
Sql = tuple[str, tuple[Value, ...]]
"""An expression, and the values of its question marks."""

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


@dataclass(frozen=True, slots=True)
class Row:
    """Which text of a row terms are sought in, and how."""

    column: str
    match_case: bool
    name: Callable[[str], str] | None = None
    """What of a path is its name. In names, terms are found anywhere."""


class Rows:
    """The conditions of one search on a connection, and what SQL asks meanwhile."""

    def __init__(self, connection: sqlite3.Connection, deadline: Deadline) -> None:
        self._deadline = deadline
        self._tests: list[Callable[[str], bool]] = []
        self._known: dict[tuple[int, str], bool] = {}  # The values of a property are often the same.
        self.slow = 0
        """How many texts a regular expression was given up on."""
        connection.create_function("vault_test", 2, self._test, deterministic=True)
        connection.create_function("vault_fold", 1, fold, deterministic=True)

    def condition(self, query: Query, row: Row) -> Sql:
        """A condition on one row."""
        match query:
            case And(parts):
                return joined(" AND ", [self.condition(part, row) for part in parts])
            case Or(parts):
                return joined(" OR ", [self.condition(part, row) for part in parts])
            case Not(part):
                sql, values = self.condition(part, row)
                return f"NOT {sql}", values
            case Case(match, part):
                return self.condition(part, Row(row.column, match, row.name))
            case Tag(name):
                sql, values = tagged(name)
                return f"EXISTS (SELECT 1 FROM tags WHERE file = t.file AND line = t.line AND {sql})", values  # noqa: S608
            case Word() | Phrase() | Regex():
                return f"vault_test(?, {row.column})", (self._add(query, row),)
            case _:
                raise AssertionError(query)  # The parser lets nothing else in.

    def property(self, name: str, value: Query | None, *, match_case: bool) -> Sql:
        """A condition on `f`: it has the property, and for each term of the value some item of a list that has it."""
        there = "f.id IN (SELECT file FROM properties WHERE key = ?)", (key(name),)
        return there if value is None else joined(" AND ", [there, self._value(name, value, match_case)])

    def _value(self, name: str, value: Query, match_case: bool) -> Sql:
        match value:
            case And(parts):
                return joined(" AND ", [self._value(name, part, match_case) for part in parts])
            case Or(parts):
                return joined(" OR ", [self._value(name, part, match_case) for part in parts])
            case Not(part):
                sql, values = self._value(name, part, match_case)
                return f"NOT {sql}", values
            case Case(match, part):
                return self._value(name, part, match)
            case Empty():
                sql, values = "ifnull(t.text, '') = ''", ()
            case Compared(operator, text):
                sql, values = _compared(operator, text)
            case _:
                sql, values = self.condition(value, Row("t.text", match_case))
                if isinstance(value, Word | Phrase) and (number := _number(value.text)) is not None:
                    sql, values = f"(t.number = ? OR (t.number IS NULL AND {sql}))", (number, *values)
        return f"f.id IN (SELECT t.file FROM properties t WHERE t.key = ? AND {sql})", (key(name), *values)  # noqa: S608

    def _add(self, term: Word | Phrase | Regex, row: Row) -> int:
        finder, name, deadline = Finder(term, match_case=row.match_case), row.name, self._deadline
        if name is None:
            self._tests.append(lambda text: finder.found(text, deadline))
        elif isinstance(term, Regex):
            self._tests.append(lambda text: finder.found(name(text), deadline))
        else:
            normal = _normal if row.match_case else fold
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
            except (TooSlow, OutOfTime):  # An error here would come out of SQLite as one that nobody understands.
                self.slow += 1
                known = False
            if len(self._known) < _MOST_KNOWN:
                self._known[number, text] = known
        return known


def joined(joint: str, conditions: list[Sql]) -> Sql:
    """One condition of several."""
    return f"({joint.join(sql for sql, _ in conditions)})", tuple(value for _, some in conditions for value in some)


def tagged(name: str) -> Sql:
    """A condition on `tags`: the tag, or one below it. `0` is the character after `/`."""
    tag = key(name)
    return "(key = ? OR (key >= ? AND key < ?))", (tag, f"{tag}/", f"{tag}0")


def fact(name: FactName, text: str, now: datetime) -> Sql:
    """A condition on `f`."""
    match name:
        case "modified":
            start, end = query_facts.times(text, now)
            bounds: list[Sql] = [("f.mtime >= ?", (_nanoseconds(start),))] if start else []
            bounds += [("f.mtime < ?", (_nanoseconds(end),))] if end else []
            return joined(" AND ", bounds)
        case "size":
            operator, size = query_facts.sizes(text)
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
    """With a number, numbers are compared; with a date or a year, as much of dates as it says; else whole texts."""
    date = f"t.text {_A_DATE} AND substr(t.text, 1, ?) {operator} ?", (len(text), text)
    if (number := _number(text)) is not None:
        sql = f"(t.number {operator} ? OR (t.number IS NULL AND {date[0]}))"
        return sql, (number, *date[1])
    if re.match(r"[0-9]{4}-[0-9]{2}", text):
        return date
    return f"(t.number IS NULL AND t.text <> '' AND vault_fold(t.text) {operator} ?)", (fold(text),)


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"[+-]?[0-9]{1,300}(\.[0-9]{1,300})?", text) else None


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * 10**9


def _normal(text: str) -> str:
    return unicodedata.normalize("NFC", text)
