"""A query as a condition of SQL on `files AS f`: exact where SQL can decide, else one that nothing it seeks can fail.

What needs the text itself (regular expressions, capitals, `line:`) is left to `search_text`; the condition then only
keeps what is worth reading. Words become one expression of the full-text index as far as possible, which also ranks.
"""

import re
import sqlite3
import unicodedata
from dataclasses import dataclass, replace
from datetime import datetime

from tidings.vault.search.matching import Deadline, parted, unparted
from tidings.vault.search.query_tree import And, Case, Fact, Not, Or, Phrase, Property, Query, Regex, Tag, Within, Word
from tidings.vault.search.search_rows import Row, Rows, Sql, Value, fact, joined, tagged
from tidings.vault.text.regexes import Pattern, translated

_STATUS = {"task": "", "task-todo": " AND t.status = ' '", "task-done": " AND t.status <> ' '"}


@dataclass(frozen=True, slots=True)
class Condition:
    """What a file must fulfil: `sql`, and `match` in the full-text index (either may be empty)."""

    sql: str = ""
    values: tuple[Value, ...] = ()
    match: str = ""
    exact: bool = True
    """Whether whatever fulfils it is sought."""

    def whole(self) -> Sql:
        """All of it as one expression."""
        parts: list[Sql] = [(self.sql, self.values)] if self.sql else []
        if self.match:
            parts.append(("f.id IN (SELECT rowid FROM fts WHERE fts MATCH ?)", (self.match,)))
        return joined(" AND ", parts) if parts else ("1", ())


@dataclass(frozen=True, slots=True)
class Where:
    """What a part of the query is about."""

    body: bool = False
    """The text alone, not the title."""
    match_case: bool = False
    loose: bool = False
    """It is to hold for a part of a file: what does not stand there may well stand in the file."""


class Translator:
    """Translates for one search on a connection."""

    def __init__(self, connection: sqlite3.Connection, deadline: Deadline, now: datetime) -> None:
        self.rows = Rows(connection, deadline)
        self._now = now

    def condition(self, query: Query, where: Where = Where()) -> Condition:  # noqa: B008 - it is frozen
        """The condition of a query, or of a part of one."""
        match query:
            case And(parts) | Or(parts):
                combined = _all if isinstance(query, And) else _any
                return combined([self.condition(part, where) for part in parts])
            case Not(part):
                return _none(self.condition(part, where), loose=where.loose)
            case Case(match, part):
                return self.condition(part, replace(where, match_case=match))
            case Within():
                return self._within(query, where)
            case Word() | Phrase() | Regex():
                return _term(query, where)
            case _:
                return Condition(*self._known(query, where), exact=not where.loose)

    def _within(self, query: Within, where: Where) -> Condition:
        scope, part = query.scope, query.part
        if scope in {"file", "path"}:
            return Condition(
                *self.rows.condition(part, Row("f.path", where.match_case, _leaf if scope == "file" else str))
            )
        inner = self.condition(part, replace(where, body=True, loose=scope != "content"))
        if scope == "content":
            return inner
        if scope not in _STATUS:
            return replace(inner, exact=inner.exact and isinstance(part, Word))
        sql, values = self.rows.condition(part, Row("t.text", where.match_case))
        tasks = f"f.id IN (SELECT t.file FROM tasks t WHERE {sql}{_STATUS[scope]})"  # noqa: S608
        return replace(_all([inner, Condition(tasks, values)]), exact=True)

    def _known(self, query: Query, where: Where) -> Sql:
        match query:
            case Tag(name):
                sql, values = tagged(name)
                return f"f.id IN (SELECT file FROM tags WHERE {sql})", values  # noqa: S608
            case Property(name, value):
                return self.rows.property(name, value, match_case=where.match_case)
            case Fact(name, text):
                return fact(name, text, self._now)
            case _:
                raise AssertionError(query)  # The parser lets nothing else in.


def ranking(query: Query, where: Where = Where()) -> list[str]:  # noqa: B008
    """What of the full-text index makes a file worth more: each word that is sought."""
    match query:
        case And(parts) | Or(parts):
            return [match for part in parts for match in ranking(part, where)]
        case Case(_, part):
            return ranking(part, where)
        case Within(scope, part) if scope not in {"file", "path"}:
            return ranking(part, replace(where, body=True))
        case Word() | Phrase() | Regex():
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


def _none(condition: Condition, *, loose: bool) -> Condition:
    if loose or not condition.exact:
        return Condition(exact=False)
    sql, values = condition.whole()
    return Condition(f"NOT {sql}", values)


def _match(joint: str, parts: list[str]) -> str:
    return joint.join(f"({part})" for part in parts) if len(parts) > 1 else "".join(parts)


def _term(term: Word | Phrase | Regex, where: Where) -> Condition:
    if isinstance(term, Regex):
        return _narrowed(translated(term.pattern), where)
    text = unicodedata.normalize("NFC", term.text)
    whole = isinstance(term, Phrase)
    words = text.split()
    if not words:
        return Condition()
    if any(unparted(c) or not (c.isascii() or c.isalnum()) for word in words for c in word) or not re.search(
        r"[^\W_]", text
    ):
        return _scanned(text, where, whole=whole)
    simple = all(word.isalnum() for word in words)
    star = "" if (whole and simple) or not text.rstrip()[-1].isalnum() else "*"
    return Condition(match=_quoted(text, where) + star, exact=simple and not where.match_case)


def _narrowed(pattern: Pattern, where: Where) -> Condition:
    if pattern.words or not pattern.literal:
        return Condition(match=_match(" AND ", [_quoted(word, where) for word in pattern.words]), exact=False)
    like = re.sub(r"[%_\\]", r"\\\g<0>", pattern.literal)
    columns = ["body"] if where.body else ["body", "title"]
    sql = " OR ".join(f"{column} LIKE '%' || ? || '%' ESCAPE '\\'" for column in columns)
    return Condition(f"f.id IN (SELECT rowid FROM fts WHERE {sql})", (like,) * len(columns), exact=False)  # noqa: S608


def _scanned(text: str, where: Where, *, whole: bool) -> Condition:
    """What the full-text index has no words for is looked for in the texts, by SQLite."""
    runs = re.findall(r"\S+", "".join(c if _caseless(c) else " " for c in text))
    if not runs:
        return Condition(exact=False)
    longest = max(runs, key=len)
    ends = whole and parted(text.rstrip()[-1])
    exact = longest == text.strip() and not parted(longest[0]) and not ends
    sql, values = "instr(body, ?)", (longest,)
    if not where.body:
        sql, values = f"{sql} OR instr(vault_fold(title), ?)", (longest, longest)
    return Condition(f"f.id IN (SELECT rowid FROM fts WHERE {sql})", values, exact=exact)  # noqa: S608


def _caseless(character: str) -> bool:
    base = unicodedata.normalize("NFD", character)[0]
    return not base.isascii() or not base.isalpha() if character.lower() == character.upper() else False


def _quoted(text: str, where: Where) -> str:
    escaped = text.replace('"', '""')
    return f'body : "{escaped}"' if where.body else f'"{escaped}"'


def _leaf(path: str) -> str:
    return path.rpartition("/")[2]
