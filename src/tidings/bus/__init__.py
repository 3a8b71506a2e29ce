"""How changes travel between processes.

A bus is a *compacted log*: it keeps the newest entry for each distinct change, under one rising version. Versions of
entries that were replaced are gone, so a hole between two versions is normal and says nothing. The log has an
*epoch*, which changes when the log was lost. `version` and `epoch` together are a `Cursor`.

What every bus promises, and `tests/bus/test_contract.py` tries on each:
- What `publish` returned a cursor for is delivered to every listener in every process, or replaced by an equal change
  with a higher version that is.
- A listener hears of changes in the order of their versions, on the event loop on which the bus was entered. What it
  raises is logged and reaches nobody else.
- When the bus can no longer say what happened in between (the log was lost, or cut while this process was away), each
  listener is called once with `None` instead of a change: anything may have changed.
- `since(cursor)` gives the newest entry for each distinct change after `cursor`, in order of version, or None if it
  cannot know: another epoch, a version that is no longer covered, or one from the future.

May import: `changes`, `errors`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from tidings.changes import Change, Cursor

__all__ = ["Bus", "BusState", "Entry", "History", "Listener"]

Entry = tuple[Cursor, Change]
"""A change and its place in the log."""

Listener = Callable[[Cursor, Change | None], None]
"""Hears of each change with its cursor; `None` instead of a change means that anything may have changed."""


@dataclass(frozen=True, slots=True)
class History:
    """How much of the past a bus keeps: at most `entries` distinct changes, none older than `age` seconds."""

    entries: int = 65_536
    age: float = 86_400.0

    def __post_init__(self) -> None:
        if self.entries < 1:
            raise ValueError(f"History keeps at least 1 entry, not {self.entries}")
        if not self.age > 0:
            raise ValueError(f"The age of a history is more than 0 seconds, not {self.age}")


@dataclass(frozen=True, slots=True)
class BusState:
    """How it stands with the server behind a bus: what `NatsBus.state` and `RedisBus.state` tell."""

    connected: bool
    since: float
    """In seconds since 1970."""
    waiting: int
    """Changes that are not yet stored."""
    reason: str = ""
    """Why it is away."""


class Bus(Protocol):
    """A compacted log of changes, shared by everyone who uses the same one.

    Enter it before use. Several may enter the same object: it is left when all of them have left.
    """

    @property
    def head(self) -> Cursor:
        """The newest place in the log that this process knows of."""
        ...

    async def publish(self, change: Change) -> Cursor:
        """Append `change`, in place of an earlier equal one, and say where it stands.

        Raises:
            BusUnavailable: The change could not be stored, or the bus is not entered; it is not in the log. A bus with
                a broker may keep it and store it when the broker is back: its error says so.
            BusMismatch: What holds the log is not of the shape that this bus needs.
        """
        ...

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` for every change after `head`. The result ends that, and may be called twice."""
        ...

    async def since(self, cursor: Cursor) -> Sequence[Entry] | None:
        """What changed after `cursor`, or None if this bus cannot know."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
