"""One transaction of the store: its time, its owner, its bounds; and what all its operations share.

Texts of pages are kept as bytes: so a size is what a text takes on the disk, and half a surrogate pair comes out as it
went in. In other values, such characters are replaced.
"""

import json
import logging
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from tidings._kit.sqlite_errors import DatabaseUnreadable

logger = logging.getLogger(__name__)

VERSIONS: Final = 20  # versions of one page that are kept

_SETTLE: Final = (
    "UPDATE entries SET expires_at = :now + ttl WHERE expires_at > :now + ttl",
    "UPDATE watches SET next_at = :now + wait WHERE next_at > :now + wait",
    "UPDATE watches SET lease_until = :now + lease WHERE lease_until > :now + lease",
    "UPDATE owners SET alive_until = :now + alive WHERE alive_until > :now + alive",
)

_OLD_VERSIONS: Final = """SELECT source_id FROM entries k
    WHERE page_id = (SELECT page_id FROM entries WHERE source_id = ?) AND pinned = 0
    AND (SELECT count(*) FROM entries n WHERE n.page_id = k.page_id AND n.no > k.no) >= ?"""

_FIRST_TO_GO: Final = """SELECT source_id, size, pinned FROM entries e WHERE source_id <> ? ORDER BY pinned,
    NOT EXISTS (SELECT 1 FROM entries n WHERE n.page_id = e.page_id AND n.no > e.no), no"""

_IDLE_PAGES: Final = """SELECT page_id FROM pages WHERE page_id NOT IN (SELECT page_id FROM entries)
    AND page_id NOT IN (SELECT page_id FROM watchers) ORDER BY seen LIMIT ?"""


@dataclass
class Owner:
    """This process among those that share the store: its name, what it keeps, and what it has subscribers to.

    What the file says of the process may get lost: others take it for gone when it sleeps for long, or the file is
    begun anew. Then it is written again.
    """

    name: str
    alive: float  # seconds for which a heartbeat counts
    ttl: float  # seconds for which a version is kept
    entries: int  # how many versions, bytes and pages are kept
    bytes: int
    pages: int
    mine: dict[str, tuple[tuple[Any, ...], str]] = field(default_factory=dict[str, tuple[tuple[Any, ...], str]])
    """By page_id: the row of the page, and the options of the watch."""
    warned_of_size: bool = False


@dataclass(frozen=True)
class Transaction:
    """An open transaction."""

    connection: sqlite3.Connection
    now: float
    owner: Owner

    def do(self, statement: str, *values: object, **named: object) -> sqlite3.Cursor:
        """Executes a statement, with values for its `?` or for its `:name`; it knows `:now` and `:me`, this process."""
        known = {"now": self.now, "me": self.owner.name} | {name: _clean(value) for name, value in named.items()}
        return self.connection.execute(statement, tuple(map(_clean, values)) or known)

    def insert(self, table: str, **values: object) -> None:
        """Inserts a row, or replaces the one with the same key."""
        names = ", ".join(values)
        self.do(f"INSERT OR REPLACE INTO {table} ({names}) VALUES (:{names.replace(', ', ', :')})", **values)  # noqa: S608 - constants

    def one(self, query: str, *values: object, **named: object) -> Any:
        """Returns the first value of a query; None if there is no row."""
        row = self.do(query, *values, **named).fetchone()
        return row[0] if row else None

    def column(self, query: str, *values: object, **named: object) -> list[str]:
        return [text for (text,) in self.do(query, *values, **named)]

    def number(self) -> int:
        """Returns the next number of the counter: higher than all before, whatever the clock says."""
        self.do("UPDATE counters SET no = no + 1")
        return self.one("SELECT no FROM counters")

    def remove(self, source_ids: Sequence[str]) -> None:
        rows = [(source_id,) for source_id in source_ids]
        self.connection.executemany("DELETE FROM parts WHERE source_id = ?", rows)
        self.connection.executemany("DELETE FROM entries WHERE source_id = ?", rows)

    def settle(self) -> None:
        """Counts again from now what a clock that stepped back has put too far ahead."""
        for statement in _SETTLE:
            self.do(statement)

    def expired(self) -> list[str]:
        return self.column("SELECT source_id FROM entries WHERE pinned = 0 AND expires_at <= :now ORDER BY no")

    def make_room(self, kept: str) -> list[str]:
        """Brings the store within its bounds, and returns the source_ids that went; `kept` was just put, and stays.

        What has expired goes first, and versions beyond `VERSIONS`; then entries in the order of arrival; then, if the
        bytes are still too many, pinned ones, those behind the newest of their page first. Unused pages go last.
        """
        gone = self.expired() + self.column(_OLD_VERSIONS, kept, VERSIONS)
        self.remove(gone)
        free = self.column("SELECT source_id FROM entries WHERE pinned = 0 AND source_id <> ? ORDER BY no DESC", kept)
        # The one that was put counts, unless it is pinned.
        room = self.owner.entries - self.one("SELECT NOT pinned FROM entries WHERE source_id = ?", kept)
        self.remove(free[room:])
        gone += free[room:][::-1]
        gone += self._over_bytes(kept)
        over: int = self.one("SELECT count(*) FROM pages") - self.owner.pages
        if over > 0:
            self.do(f"DELETE FROM pages WHERE page_id IN ({_IDLE_PAGES})", over)  # noqa: S608 - a constant
        return list(dict.fromkeys(gone))

    def _over_bytes(self, kept: str) -> list[str]:
        """Removes entries until the bytes fit, and returns the source_ids that went."""
        over: int = self.one("SELECT sum(size) FROM entries") - self.owner.bytes
        gone: list[str] = []
        for source_id, size, pinned in self.do(_FIRST_TO_GO, kept).fetchall() if over > 0 else ():
            if pinned and not self.owner.warned_of_size:
                logger.warning(
                    "watched pages alone need more than the %d bytes that the store may hold", self.owner.bytes
                )
                self.owner.warned_of_size = True
            gone.append(source_id)
            over -= size
            if over <= 0:
                break
        self.remove(gone)
        return gone


def _clean(value: object) -> object:
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def to_bytes(value: Any) -> bytes:
    """Returns a text as bytes; anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def options_text(options: Mapping[str, Any]) -> str:
    """Returns options as they are stored: equal options give equal texts."""
    return json.dumps(options, sort_keys=True, separators=(",", ":"))


def object_of(text: str | bytes) -> dict[str, Any]:
    """Returns the options or the packet that was stored."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise DatabaseUnreadable(f"a version cannot be read ({error})") from error
    if not isinstance(found, dict):
        raise DatabaseUnreadable("a version is not an object")
    return cast("dict[str, Any]", found)


def variant_of(options: Mapping[str, Any]) -> str:
    """Returns the variant that options name; '' if they name none."""
    variant = options.get("variant")
    return variant.encode(errors="replace").decode() if isinstance(variant, str) else ""
