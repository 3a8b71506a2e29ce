"""Pages and their versions in the database: put, found, listed.

A page row outlives its versions.
"""

import re
from dataclasses import dataclass
from typing import Final

from tidings.web.store import rows
from tidings.web.store.model import (
    EntryTooLarge,
    PageFacts,
    PartKind,
    PutOutcome,
    StoreCursorInvalid,
    StoredPage,
    StoredVersion,
    Summary,
    Version,
    VersionPart,
)
from tidings.web.store.transaction import ALIASES, StoreBounds, Transaction, expired, make_room

_NOTE: Final = """INSERT OR REPLACE INTO pages
    (page_id, canonical_url, url, content_hash, checked_at, etag, last_modified, options, variant, seen, untold,
    changed, changed_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, '')"""

_LAST_HASH: Final = "SELECT content_hash FROM entries WHERE page_id = ? AND variant = ? ORDER BY no DESC LIMIT 1"

_FIND: Final = """SELECT page_id, canonical_url, url, content_hash, checked_at, etag, last_modified, options,
    EXISTS (SELECT 1 FROM watchers w WHERE w.page_id = p.page_id), untold
    FROM pages p WHERE page_id IN (SELECT :wanted UNION ALL SELECT page_id FROM aliases WHERE url = :wanted)"""

_VERSIONS: Final = """SELECT source_id, retrieved_at, content_hash, title, size, options FROM entries
    WHERE page_id = ? AND (expires_at > ? OR pinned) ORDER BY no DESC"""

_MADE: Final[dict[PartKind, tuple[str, ...]]] = {
    "packet": ("head", "content"),
    "normalized": ("head", "content"),
    "content": ("content",),
    "screenshot": ("screenshot",),
    "raw": ("raw",),
}
"""The stored parts that a part is made of."""

_ENTRY: Final = """INSERT INTO entries (no, source_id, page_id, canonical_url, title, site_name, retrieved,
    retrieved_at, content_type, content_hash, raw_hash, raw_type, options, variant, size, expires_at, ttl)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""

_SUMMARY: Final = """SELECT retrieved, no, source_id, page_id, canonical_url, title, site_name, retrieved_at,
    content_type,
    (SELECT sum(length(data)) FROM parts p WHERE p.source_id = k.source_id AND kind IN ('head', 'content')),
    (SELECT length(data) FROM parts p WHERE p.source_id = k.source_id AND kind = 'content'),
    EXISTS (SELECT 1 FROM parts p WHERE p.source_id = k.source_id AND kind = 'raw'),
    EXISTS (SELECT 1 FROM parts p WHERE p.source_id = k.source_id AND kind = 'screenshot')
    FROM entries k WHERE (retrieved, no) < (?, ?) AND (expires_at > ? OR pinned)
    ORDER BY retrieved DESC, no DESC LIMIT ?"""

_CURSOR: Final = re.compile(r"(-?\d{1,18})\.(\d{1,18})", re.ASCII)


def note(at: Transaction, entry: StoredVersion, facts: PageFacts) -> bool:
    """Keeps the facts that a fetch gives about the page. Returns whether its content changed, in the same variant."""
    content_hash, variant = entry.packet["hashes"]["content_hash"], rows.variant_of(facts.options)
    known, last, url, unannounced = at.do(
        "SELECT content_hash, variant, url, untold FROM pages WHERE page_id = ?", entry.page_id
    ).fetchone() or ("", "", None, 0)
    if last != variant:
        # Another variant differs for that reason alone. The last content of this one may be among the entries.
        known = at.one(_LAST_HASH, entry.page_id, variant) or ""
    number = at.number()
    differs = known not in {"", content_hash}
    canonical_url = rows.clean(entry.packet["canonical_url"])
    at.do(
        _NOTE,
        entry.page_id,
        canonical_url,
        # A page that was fetched once can be fetched, even if its bytes were given later.
        rows.clean(facts.url) or url,
        content_hash,
        at.now if facts.checked_at is None else facts.checked_at,
        rows.clean(facts.etag),
        rows.clean(facts.last_modified),
        rows.options_text(facts.options),
        variant,
        number,
        1 if differs else unannounced,
    )
    if facts.url is not None:
        urls = {canonical_url, facts.url, *facts.aliases}
        aliases = [(rows.clean(url), entry.page_id, number) for url in urls]
        at.do_each("INSERT OR REPLACE INTO aliases VALUES (?, ?, ?)", aliases)
        at.do(
            """DELETE FROM aliases WHERE page_id = :page_id AND url NOT IN (
                SELECT url FROM aliases WHERE page_id = :page_id ORDER BY no DESC, url LIMIT :most)""",
            page_id=entry.page_id,
            most=ALIASES,
        )
    return differs


def find(at: Transaction, url_or_page_id: str) -> StoredPage | None:
    """Returns the page with that id, or the one that the URL leads to."""
    row = at.do(_FIND, wanted=rows.clean(url_or_page_id)).fetchone()
    if row is None:
        return None
    page_id, canonical_url, url, content_hash, checked_at, etag, last_modified, options, watched, unannounced = row
    return StoredPage(
        page_id=page_id,
        canonical_url=canonical_url,
        url=url,
        versions=tuple(
            Version(*row, options=rows.options_of(last)) for *row, last in at.do(_VERSIONS, page_id, at.now)
        ),
        content_hash=content_hash,
        checked_at=checked_at,
        etag=etag,
        last_modified=last_modified,
        options=rows.options_of(options),
        watched=bool(watched),
        unannounced=bool(unannounced),
    )


def page_ids(at: Transaction, prefix: str, limit: int) -> list[str]:
    """Returns the page_ids that begin with `prefix`, last seen first."""
    return at.column(
        "SELECT page_id FROM pages WHERE substr(page_id, 1, length(:prefix)) = :prefix ORDER BY seen DESC LIMIT :most",
        prefix=rows.clean(prefix),
        most=limit,
    )


def checked(
    at: Transaction,
    page_id: str,
    etag: str | None,
    last_modified: str | None,
    when: float,
    *,
    of: StoredPage | None = None,
) -> bool:
    """Notes that the page still has its content: its newest version lives on for as long as a new one."""
    now = at.do("SELECT content_hash, variant FROM pages WHERE page_id = ?", rows.clean(page_id)).fetchone()
    if of is not None and now != (of.content_hash, rows.variant_of(of.options)):
        return False
    at.do(
        "UPDATE pages SET etag = ?, last_modified = ?, checked_at = ? WHERE page_id = ?",
        rows.clean(etag),
        rows.clean(last_modified),
        when,
        rows.clean(page_id),
    )
    newest = at.one(
        """SELECT no FROM entries WHERE page_id = :page_id AND (expires_at > :now OR pinned)
           AND no = (SELECT max(no) FROM entries WHERE page_id = :page_id)""",
        page_id=rows.clean(page_id),
        now=at.now,
    )
    at.do("UPDATE entries SET expires_at = ? + ttl WHERE no = ?", at.now, newest)
    return newest is not None


def announced(at: Transaction, page_id: str, content_hash: str) -> None:
    """Notes that subscribers were notified of this content, if the page still has it."""
    known = rows.clean(page_id), content_hash
    at.do("UPDATE pages SET untold = 0 WHERE page_id = ? AND content_hash = ?", *known)


@dataclass(frozen=True)
class Prepared:
    """A version ready to be written. Made outside the transaction, which keeps others waiting."""

    entry: StoredVersion
    facts: PageFacts
    parts: dict[str, bytes]
    left_out: tuple[PartKind, ...]

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return sum(map(len, self.parts.values()))


def prepare(entry: StoredVersion, facts: PageFacts, bounds: StoreBounds) -> Prepared:
    """Cuts a version into parts, without those that can never fit.

    Raises `EntryTooLarge` if its text alone does not fit.
    """
    parts = rows.parts_of(entry)
    size = sum(map(len, parts.values()))
    left_out: list[PartKind] = []
    kinds: tuple[PartKind, ...] = ("raw", "screenshot")
    for kind in kinds:
        if size > bounds.bytes and kind in parts:
            size -= len(parts.pop(kind))
            left_out.append(kind)
    if size > bounds.bytes:
        raise EntryTooLarge(
            f"The page {entry.packet['canonical_url']} takes {size:,} bytes, and the whole store may hold "
            f"{bounds.bytes:,}. Let the store hold more, or fetch less of the page."
        )
    return Prepared(entry, facts, parts, tuple(left_out))


def put(at: Transaction, new: Prepared) -> PutOutcome:
    """Makes the version the newest of its page, and makes room for it."""
    packet = new.entry.packet
    source_id = packet["source_id"]
    existed = _find(at, source_id) is not None
    previous: str | None = at.one(
        """SELECT source_id FROM entries WHERE page_id = ? AND variant = ? AND content_hash <> ?
           AND (expires_at > ? OR pinned) ORDER BY no DESC LIMIT 1""",
        new.entry.page_id,
        rows.variant_of(new.facts.options),
        packet["hashes"]["content_hash"],
        at.now,
    )
    changed = note(at, new.entry, new.facts)
    parts = {**_spared(at, new), **new.parts}
    at.remove([source_id])
    _insert(at, new, parts)
    gone = make_room(at, source_id)
    return PutOutcome(
        new=not existed,
        changed=changed,
        previous=previous if previous not in gone else None,
        gone=tuple(gone),
        left_out=new.left_out,
    )


def _spared(at: Transaction, new: Prepared) -> dict[str, bytes]:
    """Returns raw bytes and screenshot of the same version from an earlier put, if this one does not have them."""
    packet, spared = new.entry.packet, dict[str, bytes]()
    room = at.bounds.bytes - new.size
    found = at.do(
        """SELECT kind, data FROM parts JOIN entries USING (source_id) WHERE source_id = ?
           AND (kind = 'screenshot' OR kind = 'raw' AND raw_hash = ?)""",
        packet["source_id"],
        packet["hashes"]["raw_hash"],
    )
    for kind, data in found:
        if kind not in new.parts and kind not in new.left_out and len(data) <= room:
            spared[kind] = data
            room -= len(data)
    return spared


def _insert(at: Transaction, new: Prepared, parts: dict[str, bytes]) -> None:
    packet = new.entry.packet
    metadata = packet["metadata"]
    raw_type = new.entry.raw_type or packet["content_type"]
    at.do(
        _ENTRY,
        at.number(),
        packet["source_id"],
        new.entry.page_id,
        rows.clean(packet["canonical_url"]),
        rows.clean(metadata.get("title")),
        rows.clean(metadata.get("site_name")),
        rows.microseconds(packet["retrieved_at"], at.now),
        packet["retrieved_at"],
        rows.clean(packet["content_type"]),
        packet["hashes"]["content_hash"],
        packet["hashes"]["raw_hash"],
        rows.clean(raw_type) if "raw" in parts else None,
        rows.options_text(new.facts.options),
        rows.variant_of(new.facts.options),
        sum(map(len, parts.values())),
        at.now + at.bounds.ttl,
        at.bounds.ttl,
    )
    at.do_each(
        "INSERT INTO parts (source_id, kind, data) VALUES (?, ?, ?)",
        [(packet["source_id"], kind, data) for kind, data in parts.items()],
    )


def get(at: Transaction, source_id: str) -> StoredVersion | None:
    """Returns a version with all its parts."""
    found = _find(at, source_id)
    if found is None:
        return None
    page_id, raw_type, _, size = found
    parts: dict[str, bytes] = dict(at.do("SELECT kind, data FROM parts WHERE source_id = ?", source_id).fetchall())
    return StoredVersion(
        packet=rows.packet_of(parts.get("head"), parts.get("content")),
        page_id=page_id,
        size=size,
        raw=parts.get("raw"),
        raw_type=raw_type if "raw" in parts else None,
        screenshot=parts.get("screenshot"),
        entries=rows.feed_of(parts.get("feed")),
    )


def part(at: Transaction, source_id: str, kind: PartKind) -> VersionPart | None:
    """Returns one part of a version; None if either does not exist."""
    found = _find(at, source_id)
    if found is None:
        return None
    _, raw_type, retrieved_at, _ = found
    data = [at.one("SELECT data FROM parts WHERE source_id = ? AND kind = ?", source_id, name) for name in _MADE[kind]]
    match kind:
        case "packet":
            return VersionPart(kind, rows.packet_text(*data), "application/json", retrieved_at)
        case "normalized":
            return VersionPart(kind, rows.normalized_text(*data), "application/json", retrieved_at)
        case "content":
            return VersionPart(kind, rows.content_text(*data), "text/markdown", retrieved_at)
        case "screenshot":
            return VersionPart(kind, data[0], "image/png", retrieved_at) if data[0] is not None else None
        case "raw":
            mime_type = raw_type or "application/octet-stream"
            return VersionPart(kind, data[0], mime_type, retrieved_at) if data[0] is not None else None


def listing(at: Transaction, after: str | None, limit: int) -> tuple[list[Summary], str | None]:
    """Returns versions after the cursor, newest first, and the cursor of those that follow."""
    position = (2**62, 0)
    if after is not None:
        match = _CURSOR.fullmatch(after)
        if match is None:
            raise StoreCursorInvalid("This is not a cursor of a list of pages. Begin the list without one.")
        position = int(match[1]), int(match[2])
    found = at.do(_SUMMARY, *position, at.now, limit + 1).fetchall()
    shown = found[:limit]
    following = f"{shown[-1][0]}.{shown[-1][1]}" if shown and len(found) > limit else None
    return [Summary(*row[2:-2], has_raw=bool(row[-2]), has_screenshot=bool(row[-1])) for row in shown], following


def source_ids(at: Transaction, prefix: str, limit: int) -> list[str]:
    """Returns the source_ids that begin with `prefix`, newest first."""
    return at.column(
        """SELECT source_id FROM entries WHERE substr(source_id, 1, length(:prefix)) = :prefix
           AND (expires_at > :now OR pinned) ORDER BY retrieved DESC, no DESC LIMIT :most""",
        prefix=rows.clean(prefix),
        now=at.now,
        most=limit,
    )


def prune(at: Transaction) -> tuple[str, ...]:
    """Removes what has expired."""
    gone = expired(at)
    at.remove(gone)
    return tuple(gone)


def next_expiry(at: Transaction) -> float | None:
    """Returns when the next version expires that is not pinned."""
    return at.one("SELECT min(expires_at) FROM entries WHERE pinned = 0")


def _find(at: Transaction, source_id: str) -> tuple[str, str | None, str, int] | None:
    return at.do(
        "SELECT page_id, raw_type, retrieved_at, size FROM entries WHERE source_id = ? AND (expires_at > ? OR pinned)",
        rows.clean(source_id),
        at.now,
    ).fetchone()
