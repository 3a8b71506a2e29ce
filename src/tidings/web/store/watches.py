"""Watches in the database: who watches which page, when it is due, and who looks at it.

A process claims a page for some seconds (a lease). Others leave it alone until it is given back, the time is over, or
the process is gone. A process is gone when its last heartbeat is older than it promised.

The public functions are operations of `Store`, each within one transaction.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from tidings.web.store.model import StoredWatch
from tidings.web.store.transaction import Transaction, object_of, options_text, variant_of

EXPLICIT: Final = ""  # the owner of a watch that outlives every process

_GIVEN_BACK: Final = "leased_by = NULL, next_at = min(next_at, lease_until - lease)"
"""Makes a page as due as when it was claimed. A claimed page is due when the claim ends, or earlier if hastened."""

_FORGET: Final = (
    "DELETE FROM watchers WHERE owner <> '' AND owner NOT IN (SELECT owner FROM owners)",
    "DELETE FROM watches WHERE page_id NOT IN (SELECT page_id FROM watchers)",
    f"UPDATE watches SET {_GIVEN_BACK} WHERE leased_by > '' AND leased_by NOT IN (SELECT owner FROM owners)",  # noqa: S608
)

_PAGE: Final = """SELECT page_id, address, url, content_hash, checked_at, etag, last_modified, options,
    variant, seen FROM pages WHERE page_id = ? AND url IS NOT NULL"""
_PAGE_AGAIN: Final = """INSERT OR IGNORE INTO pages (page_id, address, url, content_hash, checked_at, etag,
    last_modified, options, variant, seen, changed, changed_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, '')"""


def beat(at: Transaction) -> None:
    """Notes that this process lives, and forgets processes that are gone. Needed a few times in `alive` seconds."""
    at.settle()
    known = at.one("SELECT 1 FROM owners WHERE owner = :me")
    at.do("INSERT OR REPLACE INTO owners VALUES (:me, :now + :alive, :alive)", alive=at.owner.alive)
    if not known:
        for page_id, (page, options) in at.owner.mine.items():
            at.do(_PAGE_AGAIN, *page)
            _watch(at, page_id, at.owner.name, options, at.now)
    forget(at)


def forget(at: Transaction) -> None:
    """Removes processes that are gone, with what they watched and claimed; never this one, which lives."""
    at.do("DELETE FROM owners WHERE alive_until <= :now AND owner <> :me")
    for statement in _FORGET:
        at.do(statement)


def leave(at: Transaction) -> None:
    """Removes this process."""
    at.do("DELETE FROM owners WHERE owner = :me")
    forget(at)


def begin(
    at: Transaction,
    page_id: str,
    *,
    explicit: bool,
    options: Mapping[str, Any] | None = None,
    next_at: float | None = None,
) -> StoredWatch | None:
    """Watches a page until this process ends or, if `explicit`, until `end`.

    Without `next_at` it is due as before, or now if nobody watched it. Returns None if the page is not known, or cannot
    be fetched.
    """
    page = at.do(_PAGE, page_id).fetchone()
    if page is None:
        return None
    beat(at)
    owner = EXPLICIT if explicit else at.owner.name
    text = options_text(options or {})
    _watch(at, page_id, owner, text, at.now if next_at is None else next_at)
    if next_at is not None:
        hasten(at, page_id, next_at)
    at.do("UPDATE pages SET seen = ? WHERE page_id = ?", at.number(), page_id)
    if not explicit:
        at.owner.mine[page_id] = page, text
    return find(at, page_id)


def _watch(at: Transaction, page_id: str, owner: str, options: str, next_at: float) -> None:
    fetched_with = object_of(options).get("fetch")
    variant = variant_of(cast("dict[str, Any]", fetched_with)) if isinstance(fetched_with, dict) else ""
    at.do("INSERT OR REPLACE INTO watchers VALUES (?, ?, ?, ?, ?)", page_id, owner, options, variant, at.number())
    wait = max(next_at - at.now, 0.0)
    at.do("INSERT OR IGNORE INTO watches VALUES (?, ?, ?, 0, '{}', NULL, 0, 0)", page_id, next_at, wait)


def hasten(at: Transaction, page_id: str, next_at: float | None = None) -> bool:
    """Makes a page due now, or at `next_at`, if that is earlier; even if a look is in progress. False if unwatched."""
    due = at.now if next_at is None else next_at
    how = "UPDATE watches SET next_at = :due, wait = :wait WHERE page_id = :page_id AND next_at > :due"
    at.do(how, due=due, wait=max(due - at.now, 0.0), page_id=page_id)
    return find(at, page_id) is not None


def end(at: Transaction, page_id: str, *, explicit: bool) -> bool:
    """Ends what `begin` began. Returns whether the page is still watched by anyone."""
    owner = EXPLICIT if explicit else at.owner.name
    at.do("DELETE FROM watchers WHERE page_id = ? AND owner = ?", page_id, owner)
    forget(at)
    if not explicit:
        at.owner.mine.pop(page_id, None)
    return find(at, page_id) is not None


def find(at: Transaction, page_id: str) -> StoredWatch | None:
    """Returns the watch of a page."""
    row = at.do("SELECT * FROM watched WHERE page_id = ?", page_id).fetchone()
    return _read(row) if row else None


def every(at: Transaction, explicit: bool = False) -> list[StoredWatch]:
    """Returns all watches, or the explicit ones, in the order in which they are due."""
    found = at.do("SELECT * FROM watched WHERE explicit OR NOT ? ORDER BY next_at, page_id", explicit)
    return [_read(row) for row in found]


def due(at: Transaction, limit: int, lease: float) -> list[StoredWatch]:
    """Claims pages that are due: no other process gets them for `lease` seconds. Also counts as a heartbeat."""
    beat(at)
    found = at.do(
        """SELECT * FROM watched WHERE page_id IN (
            SELECT page_id FROM watches WHERE next_at <= :now AND (leased_by IS NULL OR lease_until <= :now)
            ORDER BY next_at, page_id LIMIT :most) ORDER BY next_at, page_id""",
        most=limit,
    ).fetchall()
    at.connection.executemany(
        """UPDATE watches SET leased_by = :owner, lease_until = :until, lease = :lease, next_at = :until, wait = :lease
           WHERE page_id = :page_id""",
        [{"owner": at.owner.name, "until": at.now + lease, "lease": lease, "page_id": row[0]} for row in found],
    )
    return [_read(row) for row in found]


def next_due(at: Transaction) -> float | None:
    """Returns when a page can be claimed: it is due, and no claim lasts longer than that."""
    return at.one(
        "SELECT min(CASE WHEN leased_by IS NULL THEN next_at ELSE max(next_at, lease_until) END) FROM watches"
    )


def reschedule(
    at: Transaction, page_id: str, next_at: float, *, failures: int = 0, state: Mapping[str, Any] | None = None
) -> bool:
    """Gives a claimed page back, due at `next_at`. Returns False if the claim was lost or the watch has ended.

    A page that was hastened since stays so: the look may have begun before the change.
    """
    changed = at.do(
        """UPDATE watches SET next_at = iif(next_at < lease_until, min(next_at, :next_at), :next_at),
           wait = iif(next_at < lease_until, min(wait, :wait), :wait), failures = :failures,
           state = ifnull(:state, state), leased_by = NULL WHERE page_id = :page_id AND leased_by = :me""",
        next_at=next_at,
        wait=max(next_at - at.now, 0.0),
        failures=failures,
        state=None if state is None else options_text(state),
        page_id=page_id,
    )
    return changed.rowcount > 0


def release(at: Transaction, page_id: str) -> None:
    """Gives a claimed page back, as due as before."""
    statement = f"UPDATE watches SET {_GIVEN_BACK} WHERE page_id = :page_id AND leased_by = :me"  # noqa: S608 - constant
    at.do(statement, page_id=page_id)


def _read(row: tuple[Any, ...]) -> StoredWatch:
    page_id, url, address, explicit, subscribers, options, next_at, failures, state = row
    options, state = object_of(options), object_of(state)
    return StoredWatch(page_id, url, address, bool(explicit), subscribers, options, next_at, failures, state)
