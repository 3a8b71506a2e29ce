"""What a `StateFile` writes at once.

May import: `invocations`.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tidings.client.invocations import Invocation

Place = tuple[str, str]
"""A kind and a key."""


class Put(NamedTuple):
    """An invocation to be saved, and whether a subscription keeps it current."""

    invocation: Invocation
    covered: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """What is to be written, all or nothing: the newest for each entry, and the state that belongs to it."""

    subscriptions: frozenset[str] = frozenset()
    cursor: str | None = None
    entries: dict[Place, Put | None] = field(default_factory=dict[Place, Put | None])
    """None removes an entry."""
    cleared: bool = False
    """Everything of before goes first."""

    def then(self, later: "Batch") -> "Batch":
        """Both, as one."""
        if later.cleared:
            return later
        return replace(later, entries=self.entries | later.entries, cleared=self.cleared)

    @property
    def leaves_nothing(self) -> bool:
        """Whether nothing is left to be found once it is written."""
        return self.cleared and not (self.subscriptions or self.cursor is not None or self.entries)
