"""How much the store holds, and what goes when it would be more.

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
from typing import Final

from tidings.web.store.moment import Moment

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


def make_room(at: Moment, kept: str) -> list[str]:
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


def expired(at: Moment) -> list[str]:
    """The entries whose time is over."""
    return at.column("SELECT source_id FROM entries WHERE pinned = 0 AND expires_at <= ? ORDER BY no", at.now)


def _over_bytes(at: Moment, kept: str) -> list[str]:
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


def _take(at: Moment, query: str, kept: str, over: int, gone: list[str]) -> int:
    """Remove what the query finds until nothing is over; how much still is."""
    for source_id, size in at.do(query, kept).fetchall() if over > 0 else ():
        at.remove([source_id])
        gone.append(source_id)
        over -= size
        if over <= 0:
            break
    return over


def _strip(at: Moment, kept: str, over: int) -> int:
    """Remove raw bytes and pictures until nothing is over; how much still is."""
    for part, source_id, size in at.do(_LARGE_PARTS, kept).fetchall():
        at.do("DELETE FROM parts WHERE id = ?", part)
        at.do("UPDATE entries SET size = size - ? WHERE source_id = ?", size, source_id)
        over -= size
        if over <= 0:
            break
    return over


def _drop_pages(at: Moment) -> None:
    over: int = at.one("SELECT count(*) FROM pages") - at.bounds.pages
    if over > 0:
        rows = [(page_id,) for page_id in at.column(_IDLE_PAGES, over)]
        at.do_each("DELETE FROM aliases WHERE page_id = ?", rows)
        at.do_each("DELETE FROM pages WHERE page_id = ?", rows)
