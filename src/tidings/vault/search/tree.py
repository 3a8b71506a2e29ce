"""A query as a tree of values. `str()` of a tree is a query that parses to an equal tree."""

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

SPECIAL = r'"()[]:-#/\<>'
"""The characters of a word that a backslash makes ordinary."""

Scope = Literal["file", "path", "content", "line", "block", "section", "task", "task-todo", "task-done"]
FactName = Literal["modified", "size", "has", "kind", "in"]


@dataclass(frozen=True, slots=True)
class Word:
    """A word, or the beginning of one."""

    text: str

    def __str__(self) -> str:
        escaped = re.sub(r'[\\"():\]]', r"\\\g<0>", self.text)
        return f"\\{escaped}" if escaped[0] in "-#/[<>" else escaped


@dataclass(frozen=True, slots=True)
class Phrase:
    """Whole words that follow each other. An empty phrase is found in any text."""

    text: str

    def __str__(self) -> str:
        return '"' + re.sub(r'[\\"]', r"\\\g<0>", self.text) + '"'


@dataclass(frozen=True, slots=True)
class Regex:
    """A regular expression, as written between the slashes."""

    pattern: str
    dotall: bool = False

    def __str__(self) -> str:
        return f"/{self.pattern}/{'s' if self.dotall else ''}"


@dataclass(frozen=True, slots=True)
class TagTerm:
    """A tag or one below it, without `#`."""

    name: str

    def __str__(self) -> str:
        return f"tag:{quoted('#' + self.name)}"


@dataclass(frozen=True, slots=True)
class And:
    """All parts match."""

    parts: "tuple[Query, ...]"

    def __str__(self) -> str:
        return " ".join(f"({part})" if isinstance(part, Or) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part matches."""

    parts: "tuple[Query, ...]"

    def __str__(self) -> str:
        return " OR ".join(map(str, self.parts))


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not match."""

    part: "Query"

    def __str__(self) -> str:
        return f"-{_grouped(self.part)}"


@dataclass(frozen=True, slots=True)
class Within:
    """All of `part` in one place: the name of the file, one line, one task."""

    scope: Scope
    part: "Query"

    def __str__(self) -> str:
        return f"{self.scope}:{_grouped(self.part)}"


@dataclass(frozen=True, slots=True)
class Case:
    """`part` with case and accents, or without them."""

    match: bool
    part: "Query"

    def __str__(self) -> str:
        return f"{'match' if self.match else 'ignore'}-case:{_grouped(self.part)}"


@dataclass(frozen=True, slots=True)
class Compared:
    """The value of a property, compared with a number or with the beginning of a date or a text."""

    operator: str
    text: str

    def __str__(self) -> str:
        return f"{self.operator}{quoted(self.text)}"


@dataclass(frozen=True, slots=True)
class Empty:
    """A property without a value."""

    def __str__(self) -> str:
        return "null"


@dataclass(frozen=True, slots=True)
class Property:
    """A property that exists, with a matching value if one is given."""

    key: str
    value: "Query | None" = None

    def __str__(self) -> str:
        key = quoted(self.key)
        return f"[{key}]" if self.value is None else f"[{key}:{self.value}]"


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that the file system or the index knows about a file."""

    name: FactName
    text: str

    def __str__(self) -> str:
        return f"{self.name}:{quoted(self.text)}"


Query: TypeAlias = Word | Phrase | Regex | TagTerm | And | Or | Not | Within | Case | Compared | Empty | Property | Fact


def quoted(text: str) -> str:
    """Returns a text as an operator's argument, quoted if needed."""
    return text if re.fullmatch(r"[<>]?=?#?[\w/.+-]+", text) else str(Phrase(text))


def depth(query: Query) -> int:
    """Returns the depth of the tree."""
    match query:
        case And(parts) | Or(parts):
            return 1 + max(map(depth, parts))
        case Not(part) | Within(_, part) | Case(_, part) | Property(_, Not() | And() | Or() | Case() as part):
            return 1 + depth(part)
        case _:
            return 1


def _grouped(query: Query) -> str:
    return f"({query})" if isinstance(query, And | Or | Within | Case | Not) else str(query)
