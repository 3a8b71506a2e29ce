"""One transaction: the connection, what time it is, in whose name it is done, and how much may be kept.

May import: nothing of Tidings.

A clock that stepped back, put right.

What lasts for a time ends at a moment that was reckoned by the clock. If the clock steps back, that moment is further
away than it was ever meant to be: a page would not be looked at for as long as the step, a dead process would keep its
claims. So an end that is too far ahead is brought back to what it was meant to be, counted from now.

May import: `moment`.

How much the store holds, and what goes when it would be more.

The bytes are a hard limit. The number of entries is one for those that nothing holds on to: pinned ones (see `schema`)
do not count. The one that was just put never goes. To make room, in this order:

1. what has expired, and versions of a page beyond `VERSIONS`
2. the entries that arrived first, unless they are pinned
3. raw bytes and pictures of pinned entries
4. pinned entries: those behind the newest of their page first
5. page rows without entries that nobody watches, when there are more than `pages`

May import: `moment`.
"""

import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True)
class StoreBounds:
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
class Transaction:
    """Where and when something is done."""

    connection: sqlite3.Connection
    now: float
    owner: Owner
    bounds: StoreBounds
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


_SETTLE: Final = (
    "UPDATE entries SET expires_at = :now + ttl WHERE expires_at > :now + ttl",
    "UPDATE watches SET next_at = :now + wait WHERE next_at > :now + wait",
    "UPDATE watches SET lease_until = :now + lease WHERE lease_until > :now + lease",
    "UPDATE owners SET alive_until = :now + alive WHERE alive_until > :now + alive",
)


def settle(at: Transaction) -> None:
    """Bring back what is too far ahead."""
    for statement in _SETTLE:
        at.do(statement, now=at.now)


logger = logging.getLogger(__name__)

VERSIONS: Final = 20
"""How many versions of one page are kept."""
ALIASES: Final = 16
"""How many URLs of one page are known."""

_OLD_VERSIONS: Final = """SELECT source_id FROM entries k
    WHERE page_id = (SELECT page_id FROM entries WHERE source_id = ?) AND pinned = 0
    AND (SELECT count(*) FROM entries n WHERE n.page_id = k.page_id AND n.no > k.no) >= ?"""

_FREE: Final = "SELECT source_id, size FROM entries WHERE pinned = 0 AND source_id <> ? ORDER BY no"
_BEHIND: Final = """SELECT source_id, size FROM entries e WHERE source_id <> ?
    AND EXISTS (SELECT 1 FROM entries n WHERE n.page_id = e.page_id AND n.no > e.no) ORDER BY no"""
_ALL: Final = "SELECT source_id, size FROM entries WHERE source_id <> ? ORDER BY no"

_LARGE_PARTS: Final = """SELECT p.id, p.source_id, length(p.data) FROM parts p JOIN entries e USING (source_id)
    WHERE p.kind IN ('raw', 'screenshot') AND p.source_id <> ? ORDER BY e.no, p.kind"""

_IDLE_PAGES: Final = """SELECT page_id FROM pages WHERE page_id NOT IN (SELECT page_id FROM entries)
    AND page_id NOT IN (SELECT page_id FROM watchers) ORDER BY seen LIMIT ?"""


def make_room(at: Transaction, kept: str) -> list[str]:
    """Bring the store within its bounds; `kept` is the source_id that was just put. Gives those that went."""
    gone = expired(at) + at.column(_OLD_VERSIONS, kept, VERSIONS)
    at.remove(gone)
    free = at.column("SELECT source_id FROM entries WHERE pinned = 0 AND source_id <> ? ORDER BY no DESC", kept)
    # Where the one that was put is not pinned, it counts.
    room = at.bounds.entries - at.one("SELECT NOT pinned FROM entries WHERE source_id = ?", kept)
    at.remove(free[room:])
    gone += free[room:][::-1]
    gone += _over_bytes(at, kept)
    _drop_pages(at)
    return list(dict.fromkeys(gone))


def expired(at: Transaction) -> list[str]:
    """The entries whose time is over."""
    return at.column("SELECT source_id FROM entries WHERE pinned = 0 AND expires_at <= ? ORDER BY no", at.now)


def _over_bytes(at: Transaction, kept: str) -> list[str]:
    over: int = at.one("SELECT sum(size) FROM entries") - at.bounds.bytes
    gone: list[str] = []
    over = _take(at, _FREE, kept, over, gone)
    if over > 0:
        if not at.owner.said_it_is_full:
            logger.warning("watched pages alone need more than the %d bytes that the store may hold", at.bounds.bytes)
            at.owner.said_it_is_full = True
        over = _strip(at, kept, over)
    over = _take(at, _BEHIND, kept, over, gone)
    _take(at, _ALL, kept, over, gone)
    return gone


def _take(at: Transaction, query: str, kept: str, over: int, gone: list[str]) -> int:
    """Remove what the query finds until nothing is over; how much still is."""
    for source_id, size in at.do(query, kept).fetchall() if over > 0 else ():
        at.remove([source_id])
        gone.append(source_id)
        over -= size
        if over <= 0:
            break
    return over


def _strip(at: Transaction, kept: str, over: int) -> int:
    """Remove raw bytes and pictures until nothing is over; how much still is."""
    for part, source_id, size in at.do(_LARGE_PARTS, kept).fetchall():
        at.do("DELETE FROM parts WHERE id = ?", part)
        at.do("UPDATE entries SET size = size - ? WHERE source_id = ?", size, source_id)
        over -= size
        if over <= 0:
            break
    return over


def _drop_pages(at: Transaction) -> None:
    over: int = at.one("SELECT count(*) FROM pages") - at.bounds.pages
    if over > 0:
        rows = [(page_id,) for page_id in at.column(_IDLE_PAGES, over)]
        at.do_each("DELETE FROM aliases WHERE page_id = ?", rows)
        at.do_each("DELETE FROM pages WHERE page_id = ?", rows)
