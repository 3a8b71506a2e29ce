"""One transaction: the connection, what time it is, in whose name it is done, and how much may be kept.

May import: nothing of Tidings.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Bounds:
    """How much is kept, and for how many seconds."""

    ttl: float
    entries: int
    bytes: int
    pages: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"a store needs room: {name} has to be more than 0, not {value}")


@dataclass
class Owner:
    """This process among those that share the store: its name, and what it has subscribers to.

    What the file says of the process may get lost: others take it for gone when it sleeps for long, or the file is
    begun anew. Then it is said again.
    """

    name: str
    alive: float
    """For how many seconds a sign of life counts."""
    mine: dict[str, tuple[tuple[Any, ...], str]] = field(default_factory=dict[str, tuple[tuple[Any, ...], str]])
    """By page_id: the row of the page, and the options of the watch."""
    said_it_is_full: bool = False


@dataclass(frozen=True)
class Moment:
    """Where and when something is done."""

    connection: sqlite3.Connection
    now: float
    owner: Owner
    bounds: Bounds
    then: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])
    """What is to be done when all this is committed."""

    def do(self, statement: str, *values: object, **named: object) -> sqlite3.Cursor:
        """Executes a statement, with values for its `?` or for its `:name`."""
        return self.connection.execute(statement, named or values)

    def do_each(self, statement: str, rows: Sequence[Sequence[object] | Mapping[str, object]]) -> None:
        """Execute a statement once for each row of values."""
        self.connection.executemany(statement, rows)

    def one(self, query: str, *values: object, **named: object) -> Any:
        """The one value that a query gives; None if it gives no row."""
        row = self.do(query, *values, **named).fetchone()
        return row[0] if row else None

    def column(self, query: str, *values: object, **named: object) -> list[str]:
        """The texts that a query gives, one in a row."""
        return [text for (text,) in self.do(query, *values, **named)]

    def number(self) -> int:
        """The number of what happens now: higher than all before, whatever the clock says."""
        self.do("UPDATE counters SET no = no + 1")
        return self.one("SELECT no FROM counters")

    def note_listed(self) -> None:
        """Versions came or went."""
        self.do("UPDATE counters SET listed = ?, listed_by = ?", self.number(), self.owner.name)

    def remove(self, source_ids: Sequence[str]) -> None:
        """Delete entries."""
        rows = [(source_id,) for source_id in source_ids]
        self.do_each("DELETE FROM parts WHERE source_id = ?", rows)
        self.do_each("DELETE FROM entries WHERE source_id = ?", rows)
