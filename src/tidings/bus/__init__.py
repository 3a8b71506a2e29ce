"""The bus: carries changes between processes.

A bus is a *compacted log*: it keeps the newest entry for each distinct change, numbered by one rising version. The
versions of replaced entries are gone, so gaps between versions are normal and mean nothing. The log has an *epoch*,
which changes when the log is lost. Within an epoch it has *terms*, which show whether it was replaced by an older copy
of itself (`tidings.bus.shared.Terms`). Epoch, version and term together form a `Cursor`.

Every bus keeps these promises, and `tests/bus/test_contract.py` tests them on each bus:
- A change for which `publish` returned a cursor reaches every listener in every process, unless an equal change with a
  higher version reaches it instead.
- A listener gets changes in the order of their versions, on the event loop on which the bus was entered. An exception
  that it raises is logged, and affects no other listener.
- When the bus no longer knows what changed (the log was lost, or cut while this process was away), each listener is
  called once with `None` instead of a change: anything may have changed.
- `since(cursor)` returns the newest entry for each distinct change after `cursor`, in order of version. It returns None
  if it cannot know: the epoch is another one, or the version is no longer covered, lies in the future, or was lost when
  the log was replaced by an older copy.

A bus also keeps `Records`: small values by key, such as legacy sessions. Your own bus need not have them: sessions then
stay on the replica that opened them. `tidings.bus.streams` builds bounded event streams and leases on the records.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from tidings.changes import Change, Cursor

__all__ = ["Bus", "BusState", "Entry", "History", "Listener", "Records", "StoredRecord"]

Entry = tuple[Cursor, Change]
"""A change and its place in the log."""

Listener = Callable[[Cursor, Change | None], None]
"""Called with each change and its cursor; `None` instead of a change means that anything may have changed."""


@dataclass(frozen=True, slots=True)
class History:
    """The number of past changes that a bus keeps: at most `entries` distinct ones, none older than `age` seconds."""

    entries: int = 65_536
    age: float = 86_400.0

    def __post_init__(self) -> None:
        if self.entries < 1:
            raise ValueError(f"History keeps at least 1 entry, not {self.entries}")
        if not self.age > 0:
            raise ValueError(f"The age of a history is more than 0 seconds, not {self.age}")


@dataclass(frozen=True, slots=True)
class BusState:
    """The state of the server or file behind a bus. Every bus except `MemoryBus` has it as `state`."""

    connected: bool
    since: float  # In seconds since 1970
    waiting: int  # Changes that are not yet stored
    reason: str = ""  # The reason why it is out of reach


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A value that a bus keeps under a key."""

    value: bytes
    revision: int
    """Greater than 0, and different after every write of this key, even if it was deleted or expired meanwhile."""


class Records(Protocol):
    """Small values by key, as durable as the log and shared by everyone who uses the same bus.

    A key has at most 200 visible ASCII characters, a value at most 512 KiB. Each method raises `BusUnavailable` if the
    bus is not entered, or cannot be reached in time. A write may then have happened or not.
    """

    async def get(self, key: str) -> StoredRecord | None:
        """Returns the record. Returns None if there is no record, or it has expired."""

    async def put(self, key: str, value: bytes, *, seconds: float, revision: int | None = None) -> StoredRecord | None:
        """Stores `value` for `seconds`, and returns the record.

        With a `revision`, it stores only if the record still has this revision (0: if there is no record). Otherwise it
        stores nothing and returns None.
        """

    async def delete(self, key: str) -> None:
        """Deletes the record, if there is one."""


class Bus(Protocol):
    """A compacted log of changes, shared by all of its users.

    Enter it with `async with` before use. The same object may be entered several times: it closes after the last exit.
    """

    @property
    def head(self) -> Cursor:
        """The newest cursor in the log that this process knows."""
        ...

    async def publish(self, change: Change) -> Cursor:
        """Appends `change`, in place of an earlier equal one, and returns its cursor.

        Raises:
            BusUnavailable: The change is not in the log: it could not be stored, or the bus is not entered. A bus with
                a broker may keep the change and store it when the broker is back: the error says so.
            BusMismatch: This bus cannot use its engine, or the log that it found there.
        """
        ...

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener` for every change after `head`. Returns a function that ends the subscription."""
        ...

    async def since(self, cursor: Cursor) -> Sequence[Entry] | None:
        """Returns the changes after `cursor`, or None if this bus cannot know."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...
