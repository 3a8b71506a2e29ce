r"""The search language: Obsidian's, with a few additions (see `docs/vault.md`). Turns a text into a tree.

Only notes and canvases are found, unless the query has `file:`, `path:` or `kind:`. A backslash takes the special
meaning from a character: `\-a`, `\[a`, `a\:b`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias, cast, get_args

from tidings._kit.patterns import BadPattern, compiled
from tidings._kit.suggest import closest

Scope = Literal["file", "path", "content", "line", "block", "section", "task", "task-todo", "task-done"]
FactName = Literal["modified", "size", "has", "kind", "in"]


@dataclass(frozen=True, slots=True)
class Word:
    """Characters without a space. They are found anywhere, also within a word."""

    text: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """Characters in quotation marks. None are found in any text; in the value of a property, they are all of it."""

    text: str


@dataclass(frozen=True, slots=True)
class Regex:
    """A regular expression, as written between the slashes."""

    pattern: str
    dotall: bool = False


@dataclass(frozen=True, slots=True)
class TagTerm:
    """A tag or one below it, without `#`."""

    name: str


@dataclass(frozen=True, slots=True)
class And:
    """All parts match."""

    parts: "tuple[Query, ...]"


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part matches."""

    parts: "tuple[Query, ...]"


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not match."""

    part: "Query"


@dataclass(frozen=True, slots=True)
class Within:
    """All of `part` in one place: the name of the file, one line, one task."""

    scope: Scope
    part: "Query"


@dataclass(frozen=True, slots=True)
class Case:
    """`part` with upper and lower case as written, or in any case."""

    match: bool
    part: "Query"


@dataclass(frozen=True, slots=True)
class Compared:
    """The value of a property, compared with a number or with the beginning of a date or a text."""

    operator: str
    text: str


@dataclass(frozen=True, slots=True)
class Empty:
    """A property without a value."""


@dataclass(frozen=True, slots=True)
class Property:
    """A property that exists, with a matching value if one is given."""

    key: "str | Query"  # Its name, or a query for names: a group of them, or a regular expression.
    value: "Query | None" = None


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that the file system or the index knows about a file."""

    name: FactName
    text: str


Query: TypeAlias = Word | Phrase | Regex | TagTerm | And | Or | Not | Within | Case | Compared | Empty | Property | Fact


def inside(query: Query) -> Iterator[Query]:
    """Yields a query and the queries in it, except for those of a property's name and value."""
    yield query
    match query:
        case And(parts) | Or(parts):
            for part in parts:
                yield from inside(part)
        case Not(part) | Case(_, part) | Within(_, part):
            yield from inside(part)
        case _:
            pass


_ESCAPED = re.compile(r'\\(["()\[\]:\-#/\\<>])')  # The characters of a word that a backslash makes ordinary.
_WORD = re.compile(rf'(?:{_ESCAPED.pattern}|[^\s()"])*')
_WORD_IN_BRACKETS = re.compile(rf'(?:{_ESCAPED.pattern}|[^\s()"\]])*')
_KEY = re.compile(r'[^\]:"\[]*')
_SPACE = re.compile(r"\s*")
_KEYWORD = re.compile(r'(OR|AND|NOT)(?=[\s()\]"]|\Z)')
_STRING = re.compile(r'"((?:\\.|[^"\\])*)"', re.DOTALL)


class BadQuery(ValueError):
    """A query that cannot be parsed. `position` counts from 1."""

    def __init__(self, position: int, cause: str, cure: str) -> None:
        super().__init__(f"{cause}; {cure}")
        self.position = position
        self.cause = cause
        self.cure = cure


HAS = ("task", "todo", "done", "link", "embed", "attachment", "tag", "property", "alias", "heading", "block", "problem")
KINDS = ("note", "canvas", "base", "attachment")

_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1), "m": timedelta(days=30)}
_UNITS["y"] = timedelta(days=365)
_BYTES = {"": 1, "b": 1, "k": 10**3, "kb": 10**3, "m": 10**6, "mb": 10**6, "g": 10**9, "gb": 10**9}


def times(text: str, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Returns the start (inclusive) and the end (exclusive) of `modified:`. Days are in the time zone of `now`."""
    found = re.fullmatch(r"(<=|>=|<|>|)(.+)", text, re.DOTALL)
    operator, value = found.groups() if found else ("", "")
    if span := re.fullmatch(r"([0-9]{1,4})([hdwmy])", value):
        if operator:
            cure = f"leave out {operator}, or put a - in front for what is older"
            raise ValueError(f"{value} is the time until now; {cure}")
        return now - int(span[1]) * _UNITS[span[2]], None
    start, end = _period(value, now)
    return {"": (start, end), "<": (None, start), "<=": (None, end), ">": (end, None), ">=": (start, None)}[operator]


def sizes(text: str) -> tuple[str, int]:
    """Returns the operator and the number of bytes of `size:`."""
    found = re.fullmatch(r"(<=|>=|<|>)([0-9]{1,12}(?:\.[0-9]{1,6})?)([a-z]*)", text.casefold())
    if found is None or found[3] not in _BYTES:
        raise ValueError(f"{text} is not a size; write >10kb, <2mb or >=500")
    return found[1], int(float(found[2]) * _BYTES[found[3]])


def one_of(text: str, names: tuple[str, ...]) -> str:
    """Returns the known name, which may be written in the plural."""
    if found := next((known for known in names if text.casefold() in {known, f"{known}s"}), None):
        return found
    raise ValueError(f"{text} is not known here; write one of {', '.join(names)}")


def _period(value: str, now: datetime) -> tuple[datetime, datetime]:
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if value in ("today", "yesterday"):
        start = today - timedelta(days=value == "yesterday")
        return start, start + timedelta(days=1)
    found = re.fullmatch(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?", value)
    if found is None:
        forms = "2024-05-01, 2024-05, 2024, today, yesterday or 7d (h, d, w, m, y)"
        raise ValueError(f"{value} is not a date; write {forms}")
    year, month, day = (int(part) if part else None for part in found.groups())
    try:
        start = today.replace(year=year or 0, month=month or 1, day=day or 1)
        if day is not None:
            return start, start + timedelta(days=1)
        # So many days later the next month or year has begun, and the one after it has not.
        if month is not None:
            return start, (start + timedelta(days=31)).replace(day=1)
        return start, (start + timedelta(days=366)).replace(month=1, day=1)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"there is no day {value}; check the month and the day") from error


_SCOPES = get_args(Scope)
_FACTS = get_args(FactName)
_OPERATORS = (*_SCOPES, *_FACTS, "tag", "match-case", "ignore-case")
_OTHER_NAMES = {"title": "file", "name": "file", "filename": "file", "folder": "in", "type": "kind", "date": "modified"}
_MOST_CHARACTERS = 10_000
_MOST_TERMS = 100
_MOST_NESTED = 20
_MOST_OPEN = 60  # of texts: more than a tree so nested can need when it is written out

_OPERATOR = re.compile(r"([A-Za-z][A-Za-z-]*):")
_VALUE = re.compile(r'"[^"]{1,40}"|\([^()]{1,40}\)|[^\s()\[\]"]{1,40}(?=[\s)]|\Z)')
_REGEX = re.compile(r"/((?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+)/([a-z]*)")
_LINK = re.compile(r"\[\[.*?\]\]", re.DOTALL)  # Stands for its characters, so that a link needs no quotes.


def parse_query(text: str) -> Query:
    """Parses a query. Raises `BadQuery` if it is empty or cannot be understood."""
    if not text.strip():
        raise BadQuery(1, "The query is empty", 'write a word, or "" for all files')
    if len(text) > _MOST_CHARACTERS:
        raise BadQuery(_MOST_CHARACTERS, f"The query has more than {_MOST_CHARACTERS:,} characters", "search for less")
    if stray := re.search("[\ud800-\udfff\0]", text):
        raise BadQuery(stray.start() + 1, f"The character at {stray.start() + 1} cannot be part of a text", "remove it")
    parser = _QueryParser(text)
    query = parser.alternatives()
    if parser.at < len(text):  # All but this is a term.
        raise parser.bad("The parenthesis at {} closes nothing", "remove it, or put it in quotation marks")
    if _depth(query) > _MOST_NESTED:
        raise BadQuery(1, f"The query is nested more than {_MOST_NESTED} deep", "ask for less at once")
    return query


class _QueryParser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.inside = ""  # The operator with the argument that is being read; `[` in the brackets of a property.
        self.open = 0
        self.terms = 0

    def bad(self, cause: str, cure: str, at: int | None = None) -> BadQuery:
        """Returns an error at a position, which replaces `{}` in the cause."""
        position = (self.at if at is None else at) + 1
        return BadQuery(position, cause.replace("{}", str(position)), cure)

    def take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found[0] if found else ""

    def peek(self, *keywords: str) -> bool:
        found = _KEYWORD.match(self.text, self.at)
        return found is not None and found[1] in keywords

    def keyword(self, keyword: str) -> bool:
        if not self.peek(keyword):
            return False
        self.at += len(keyword)
        return True

    def ended(self) -> bool:
        """Skips spaces, and returns whether the current part ends here."""
        self.take(_SPACE)
        return self.at == len(self.text) or self.text[self.at] in (")]" if self.inside == "[" else ")")

    def string(self) -> str:
        found = _STRING.match(self.text, self.at)
        if found is None:
            cure = r"add one at the end, or write \" for the character itself"
            raise self.bad("The quotation mark at {} is never closed", cure)
        self.at = found.end()
        return re.sub(r'\\(["\\])', r"\1", found[1])

    def word(self) -> str:
        return _ESCAPED.sub(r"\1", self.take(_WORD_IN_BRACKETS if self.inside == "[" else _WORD))

    def value(self) -> str:
        return self.string() if self.text.startswith('"', self.at) else self.word()

    def key(self) -> str:
        return self.string() if self.text.startswith('"', self.at) else self.take(_KEY)

    def alternatives(self) -> Query:
        """Parses `a b OR c`: terms side by side bind more closely."""
        parts = [self.conjunction()]
        while self.keyword("OR"):
            parts.append(self.conjunction())
        return _flat(Or, parts)

    def conjunction(self) -> Query:
        parts: list[Query] = []
        while not self.ended() and not self.peek("OR"):
            if self.keyword("AND"):
                if not parts or self.ended() or self.peek("OR"):
                    cure = 'write a term there, or "AND" for the word'
                    raise self.bad("The AND before {} has nothing on one side", cure)
                continue
            parts.append(self.unit())
        if not parts:
            where = "OR" if self.peek("OR") or self.text[: self.at].rstrip().endswith("OR") else "parenthesis"
            cure = f'write a term there, or "{where}" for the text'
            raise self.bad(f"There is nothing to search for at {{}}, beside the {where}", cure)
        return _flat(And, parts)

    def unit(self) -> Query:
        self.open += 1
        if self.open > _MOST_OPEN:
            raise self.bad("At {} too much is nested", "ask for less at once")
        query = self._negated() if self.text[self.at] == "-" or self.peek("NOT") else self._positive()
        self.open -= 1
        return query

    def _negated(self) -> Query:
        start = self.at
        if not self.keyword("NOT"):
            self.at += 1
        elif self.ended():
            raise self.bad("The NOT at {} has nothing after it", 'write a term there, or "NOT" for the word', start)
        if self.at == len(self.text) or self.text[self.at].isspace() or self.text[self.at] == ")":
            cure = r"write it directly before a term, or \- for the character"
            raise self.bad("The minus at {} has nothing after it", cure, start)
        if self.peek("OR", "AND"):
            raise self.bad("There is OR or AND at {} where a term must be", "put it in quotation marks")
        return Not(self.unit())

    def _positive(self) -> Query:  # noqa: PLR0911 - one for each kind of term
        if self.text[self.at] == "(":
            start, self.at = self.at, self.at + 1
            query = self.alternatives()
            self._close(")", "parenthesis", "add one at the end, or put it in quotation marks", start)
            return query
        self.terms += 1
        if self.terms > _MOST_TERMS:
            raise self.bad(f"The query has more than {_MOST_TERMS} terms", "search for less at once")
        match self.text[self.at]:
            case _ if self.inside == "tag":
                return self._tag(self.at)
            case '"':
                return Phrase(self.string())
            case "/":
                return self._regex()
            case "[" if link := _LINK.match(self.text, self.at):
                self.at = link.end()
                return Phrase(link[0])
            case "[" if not self.text.startswith("[[", self.at):
                return self._property()
            case _ if found := self._compared() or self._operator():
                return found
            case _:
                word = self.word()
                return Empty() if self.inside == "[" and word == "null" else Word(word)

    def _close(self, closer: str, what: str, cure: str, start: int) -> None:
        if not self.text.startswith(closer, self.at):
            raise self.bad(f"The {what} at {{}} is never closed", cure, start)
        self.at += 1

    def _regex(self) -> Regex:
        start = self.at
        found = _REGEX.match(self.text, start)
        if found is None:
            cure = r"add a slash at its end, or write \/ for the character itself"
            raise self.bad("The slash at {} begins a regular expression that is never closed", cure)
        self.at = found.end()
        if set(found[2]) - set("gimsuvy"):
            cure = "leave them out, or put the text in quotation marks if it is a path"
            raise self.bad("The letters after the regular expression at {} mean nothing", cure, start)
        dotall = "s" in found[2]
        try:
            compiled(found[1], ignore_case=True, multiline=True, dotall=dotall)
        except BadPattern as problem:
            cure = r"correct it, or write \/ if you search for a slash"
            raise self.bad(f"The regular expression at {{}} cannot be run: {problem}", cure, start) from problem
        return Regex(found[1], dotall)

    def _operator(self) -> Query | None:
        found, start = _OPERATOR.match(self.text, self.at), self.at
        if found is None:
            return None
        name = found[1].lower()
        after = self.text[found.end() : found.end() + 1]
        if name not in _OPERATORS:
            if found[1] != name or not after or after.isspace() or after in ":/)":
                return None  # `Note:`, `https://…`, `std::vector`
            raise self._unknown(name)
        self.at = found.end()
        if not after or after.isspace() or after in ")]":
            cure = rf"write it directly after, or {name}\: for the text"
            raise self.bad(f"The {name}: at {{}} has nothing after it", cure, start)
        if name in _FACTS:
            return self._fact(cast("FactName", name), start)
        if name == "tag":
            return self._tag(start)
        if name in {"match-case", "ignore-case"}:
            return Case(name == "match-case", self._argument(self.inside))
        self._refuse_inside(name, start)
        return Within(cast("Scope", name), self._argument(name))

    def _unknown(self, name: str) -> BadQuery:
        near = [_OTHER_NAMES[name]] if name in _OTHER_NAMES else closest(name, _OPERATORS, cutoff=0.65)
        cures = [f"{each}:" for each in near]
        if not self.inside:
            value = _VALUE.match(self.text, self.at + len(name) + 1)
            cures.append(f"[{name}:{value[0] if value else '…'}] if it is a property")
        cures.append(rf"{name}\: if the text itself is searched for")
        return self.bad(f"There is no operator {name}: (at {{}})", f"write {', or '.join(cures)}")

    def _argument(self, inside: str) -> Query:
        if self.peek("OR", "AND"):
            raise self.bad("There is OR or AND at {} where a term must be", "put it in quotation marks")
        outer, self.inside = self.inside, inside
        query = self.unit()
        self.inside = outer
        return query

    def _tag(self, start: int) -> Query:
        if self.inside in {"file", "path", "["}:
            self._refuse_inside("tag", start)
        if self.text[self.at] == "(":
            return self._argument("tag")
        name = (self.value()).removeprefix("#").strip("/")
        if not name.strip():
            raise self.bad("The tag: at {} names no tag", "write tag:#name", start)
        return TagTerm(name)

    def _fact(self, name: FactName, start: int) -> Fact:
        self._refuse_inside(name, start)
        text = self.value()
        try:
            match name:
                case "modified":
                    times(text, datetime.now(UTC))
                case "size":
                    sizes(text)
                case "has":
                    text = one_of(text, HAS)
                case "kind":
                    text = one_of(text, KINDS)
                case "in":
                    text = text.strip("/")
        except ValueError as problem:
            cause, _, cure = str(problem).partition("; ")
            raise self.bad(f"After {name}: at {{}}, {cause}", cure, start) from problem
        return Fact(name, text)

    def _property(self) -> Query:
        start = self.at
        self._refuse_inside("[property]", start)
        self.at += 1
        self.inside = "["
        group = self.text[self.at : self.at + 1] in {"(", "/"}
        key = self._positive() if group else self.key().strip()
        value = None
        if key and self.text.startswith(":", self.at):
            self.at += 1
            value = self.alternatives()
        self.inside = ""
        if not key:
            raise self.bad("The brackets at {} name no property", r"write [key], or \[ for the character itself", start)
        self._close("]", "bracket", r"write [key] or [key:value], or \[ for the character itself", start)
        return Property(key, value)

    def _compared(self) -> Compared | None:
        start, found = self.at, re.compile("[<>]=?").match(self.text, self.at)
        if self.inside != "[" or found is None:
            return None
        self.at = found.end()
        if text := self.value():
            return Compared(found[0], text)
        cure = "write a number or a date directly after it"
        raise self.bad(f"The {found[0]} at {{}} compares with nothing", cure, start)

    def _refuse_inside(self, name: str, start: int) -> None:
        if self.inside:
            outer = "the brackets of a property" if self.inside == "[" else f"{self.inside}:"
            raise self.bad(f"{name.removesuffix(':')} (at {{}}) cannot stand inside {outer}", "write it beside", start)


def _flat(kind: type[And] | type[Or], parts: list[Query]) -> Query:
    flat = tuple(each for part in parts for each in (part.parts if isinstance(part, kind) else (part,)))
    return flat[0] if len(flat) == 1 else kind(flat)


def _depth(query: Query) -> int:
    match query:
        case And(parts) | Or(parts):
            return 1 + max(map(_depth, parts))
        case Not(part) | Within(_, part) | Case(_, part):
            return 1 + _depth(part)
        case Property(_, Not() | And() | Or() | Case() as part):
            return 1 + _depth(part)
        case _:
            return 1
