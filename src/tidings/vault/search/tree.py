"""A query as a tree of values."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

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
