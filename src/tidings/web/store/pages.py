"""Pages and their versions in the database: put, found, listed. A page row outlives its versions.

The public functions are operations of `Store`, each within one transaction.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final, cast

from tidings._kit.sqlite_errors import DatabaseUnreadable
from tidings.web.documents.model import LLMPacket, version_hash
from tidings.web.documents.model import page_id as page_id_of
from tidings.web.documents.normalise import without_hashes
from tidings.web.extract.model import FeedEntry
from tidings.web.store.model import PageFacts, PartKind, PutOutcome, StoredPage, StoredVersion, StoreError, Version
from tidings.web.store.transaction import Owner, Transaction, object_of, options_text, to_bytes, variant_of

_FIND: Final = """SELECT page_id, address, url, content_hash, checked_at, etag, last_modified, options,
    EXISTS (SELECT 1 FROM watchers w WHERE w.page_id = p.page_id), untold
    FROM pages p WHERE page_id IN (?, ?)"""

_FIND_PART: Final = _FIND.replace("page_id IN (?, ?)", "url = ? ORDER BY seen DESC LIMIT 1")

_VERSION: Final = "source_id, page_id, address, title, retrieved_at, content_hash, packet_size, options"
_VERSIONS: Final = f"""SELECT {_VERSION} FROM entries
    WHERE page_id = ? AND (expires_at > ? OR pinned) ORDER BY no DESC"""  # noqa: S608 - constants

_LISTED: Final = f"""SELECT {_VERSION}, retrieved, no FROM entries
    WHERE (retrieved, no) < (?, ?) AND (expires_at > ? OR pinned)
    ORDER BY retrieved DESC, no DESC LIMIT ?"""  # noqa: S608 - constants

_BEGIN: Final = f"{10**18 - 1}.0"  # later than any version
_CURSOR: Final = re.compile(r"(-?\d{1,18})\.(\d{1,18})", re.ASCII)


def _note(at: Transaction, entry: StoredVersion, facts: PageFacts) -> bool:
    """Keeps the facts that a fetch gives about the page. Returns whether its content changed, in the same variant."""
    content_hash, variant = version_hash(entry.packet), variant_of(facts.options)
    known, last, url, unannounced = at.do(
        "SELECT content_hash, variant, url, untold FROM pages WHERE page_id = ?", entry.page_id
    ).fetchone() or ("", "", None, 0)
    if last != variant:
        # Another variant differs for that reason alone. The last content of this one may be among the entries.
        newest = "SELECT content_hash FROM entries WHERE page_id = ? AND variant = ? ORDER BY no DESC LIMIT 1"
        known = at.one(newest, entry.page_id, variant) or ""
    number = at.number()
    differs = known not in {"", content_hash}
    at.insert(
        "pages",
        page_id=entry.page_id,
        address=facts.address or entry.packet["original_url"],
        # A page that was fetched once can be fetched, even if its bytes were given later.
        url=facts.url or url,
        content_hash=content_hash,
        checked_at=at.now,
        etag=facts.etag,
        last_modified=facts.last_modified,
        options=options_text(facts.options),
        variant=variant,
        seen=number,
        untold=1 if differs else unannounced,
        changed=0,
        changed_by="",
    )
    return differs


def page_of(at: Transaction, url_or_page_id: str) -> StoredPage | None:
    """Returns the page with that id, or the one that was asked for by this URL; else the last part of one."""
    wanted = url_or_page_id or ""
    row = at.do(_FIND, wanted, page_id_of(wanted)).fetchone() or at.do(_FIND_PART, wanted).fetchone()
    if row is None:
        return None
    *plain, options, watched, unannounced = row
    versions = tuple(map(_version, at.do(_VERSIONS, plain[0], at.now)))
    options = object_of(options)
    return StoredPage(*plain, versions=versions, options=options, watched=bool(watched), unannounced=bool(unannounced))


def page_ids(at: Transaction, prefix: str = "", limit: int = 101) -> list[str]:
    """Returns the page_ids that begin with `prefix`, last seen first."""
    ids = "SELECT page_id FROM pages WHERE instr(page_id, :prefix) = 1 ORDER BY seen DESC LIMIT :most"
    return at.column(ids, prefix=prefix, most=limit)


def checked(
    at: Transaction, page_id: str, *, etag: str | None, last_modified: str | None, of: StoredPage | None = None
) -> bool:
    """Notes that a page still has its content. Its newest version lives on as long as a new one; False if it is gone.

    `of` is the page when the site was asked. If another content was put since, nothing is written.
    """
    now = at.do("SELECT content_hash, variant FROM pages WHERE page_id = ?", page_id).fetchone()
    if of is not None and now != (of.content_hash, variant_of(of.options)):
        return False
    what = "UPDATE pages SET etag = ?, last_modified = ?, checked_at = ? WHERE page_id = ?"
    at.do(what, etag, last_modified, at.now, page_id)
    newest = """UPDATE entries SET expires_at = :now + ttl WHERE (expires_at > :now OR pinned)
        AND no = (SELECT max(no) FROM entries WHERE page_id = :page_id)"""
    return at.do(newest, page_id=page_id).rowcount > 0


def announced(at: Transaction, page_id: str, content_hash: str) -> None:
    """Notes that subscribers need not be notified of this content any more, by this process or another."""
    at.do("UPDATE pages SET untold = 0 WHERE page_id = ? AND content_hash = ?", page_id, content_hash)


def prepare(entry: StoredVersion, owner: Owner) -> dict[str, bytes]:
    """Cuts a version into parts, without those that never fit. Raises `StoreError` if its text does not."""
    parts = {
        # The content leaves its place, so that the packet's keys keep their order.
        "head": to_bytes({**entry.packet, "content": ""}),
        "content": to_bytes(entry.packet["content"]),
        "raw": entry.raw,
        "screenshot": entry.screenshot,
        "feed": to_bytes([asdict(item) for item in entry.entries]) if entry.entries else None,
        "memory": to_bytes(entry.memory) if entry.memory else None,
    }
    parts = {kind: data for kind, data in parts.items() if data is not None}
    size = sum(map(len, parts.values()))
    for kind in ("raw", "screenshot"):
        if size > owner.bytes and kind in parts:
            size -= len(parts.pop(kind))
    if size > owner.bytes:
        raise StoreError(
            f"The page {entry.packet['original_url']} takes {size:,} bytes, and the whole store may hold "
            f"{owner.bytes:,}. Let the store hold more, or fetch less of the page."
        )
    return parts


def put(at: Transaction, entry: StoredVersion, facts: PageFacts, prepared: dict[str, bytes]) -> PutOutcome:
    """Makes the version the newest of its page, and makes room for it."""
    packet, metadata, source_id = entry.packet, entry.packet["metadata"], entry.packet["source_id"]
    existed = _find(at, source_id) is not None
    changed = _note(at, entry, facts)
    parts = {**_spared(at, entry, prepared), **prepared}
    at.remove([source_id])
    at.insert(
        "entries",
        no=at.number(),
        source_id=source_id,
        page_id=entry.page_id,
        address=facts.address or packet["original_url"],
        title=metadata.get("title"),
        site_name=metadata.get("site_name"),
        retrieved=round(datetime.fromisoformat(packet["retrieved_at"]).timestamp() * 1e6),
        retrieved_at=packet["retrieved_at"],
        content_type=packet["content_type"],
        content_hash=version_hash(packet),
        raw_hash=packet["hashes"]["raw_hash"],
        raw_type=entry.raw_type or packet["content_type"] if "raw" in parts else None,
        options=options_text(facts.options),
        variant=variant_of(facts.options),
        size=sum(map(len, parts.values())),
        expires_at=at.now + at.owner.ttl,
        ttl=at.owner.ttl,
        packet_size=len(to_bytes(_packet_text(packet))),
    )
    stored = [(source_id, kind, data) for kind, data in parts.items()]
    at.connection.executemany("INSERT INTO parts (source_id, kind, data) VALUES (?, ?, ?)", stored)
    return PutOutcome(new=not existed, changed=changed, gone=tuple(at.make_room(source_id)))


def _spared(at: Transaction, entry: StoredVersion, parts: dict[str, bytes]) -> dict[str, bytes]:
    """Returns raw bytes and screenshot of the same version from an earlier put, if this one comes without them."""
    spared = dict[str, bytes]()
    room = at.owner.bytes - sum(map(len, parts.values()))
    found = at.do(
        """SELECT kind, data FROM parts JOIN entries USING (source_id) WHERE source_id = ?
           AND (kind = 'screenshot' OR kind = 'raw' AND raw_hash = ?)""",
        entry.packet["source_id"],
        entry.packet["hashes"]["raw_hash"],
    )
    given = {"raw": entry.raw, "screenshot": entry.screenshot}
    for kind, data in found:
        if given[kind] is None and len(data) <= room:
            spared[kind] = data
            room -= len(data)
    return spared


def get(at: Transaction, source_id: str) -> StoredVersion | None:
    """Returns a version with all its parts; None if it expired, was evicted, or never existed."""
    found = _find(at, source_id)
    if found is None:
        return None
    page_id, raw_type, size = found
    parts: dict[str, bytes] = dict(at.do("SELECT kind, data FROM parts WHERE source_id = ?", source_id).fetchall())
    try:
        entries = tuple(FeedEntry(**item) for item in json.loads(parts.get("feed", b"[]")))
    except (TypeError, ValueError) as error:
        raise DatabaseUnreadable(f"the feed of a version cannot be read ({error})") from error
    return StoredVersion(
        packet=_packet_of(parts),
        page_id=page_id,
        size=size,
        raw=parts.get("raw"),
        raw_type=raw_type if "raw" in parts else None,
        screenshot=parts.get("screenshot"),
        entries=entries,
        memory=parts.get("memory", b"").decode("utf-8", "replace"),
    )


def _packet_of(parts: Mapping[str, bytes]) -> LLMPacket:
    if not {"head", "content"} <= parts.keys():
        raise DatabaseUnreadable("a version has lost its text")
    content = parts["content"].decode("utf-8", "surrogatepass")
    return cast("LLMPacket", {**object_of(parts["head"]), "content": content})


def part(at: Transaction, source_id: str, kind: PartKind) -> tuple[str | bytes, str] | None:
    """Returns a part of a version (bytes for `screenshot` and `raw`) and its MIME type; None if there is none."""
    found = _find(at, source_id)
    if found is None:
        return None
    if kind in ("screenshot", "raw"):
        data = at.one("SELECT data FROM parts WHERE source_id = ? AND kind = ?", source_id, kind)
        mime_type = "image/png" if kind == "screenshot" else found[1] or "application/octet-stream"
        return None if data is None else (data, mime_type)
    texts = "SELECT kind, data FROM parts WHERE source_id = ? AND kind IN ('head', 'content')"
    packet = _packet_of(dict(at.do(texts, source_id).fetchall()))
    if kind == "content":
        return packet["content"], "text/markdown"
    return _packet_text(packet if kind == "packet" else without_hashes(packet)), "application/json"


def _packet_text(packet: Mapping[str, Any]) -> str:
    return json.dumps(packet, ensure_ascii=False)


def listing(at: Transaction, after: str | None = None, limit: int = 50) -> tuple[list[Version], str | None]:
    """Returns versions, newest first, and the cursor of those that follow. Raises `ValueError`."""
    match = _CURSOR.fullmatch(_BEGIN if after is None else after)
    if match is None:
        raise ValueError("This is not a cursor of a list of pages. Begin the list without one.")
    found = at.do(_LISTED, int(match[1]), int(match[2]), at.now, limit + 1).fetchall()
    shown = found[:limit]
    following = f"{shown[-1][-2]}.{shown[-1][-1]}" if shown and len(found) > limit else None
    return [_version(row[:-2]) for row in shown], following


def _version(row: Sequence[Any]) -> Version:
    *plain, options = row
    return Version(*plain, options=object_of(options))


def source_ids(at: Transaction, prefix: str = "", limit: int = 101) -> list[str]:
    """Returns the source_ids that begin with `prefix`, newest first."""
    ids = "SELECT source_id FROM entries WHERE instr(source_id, :prefix) = 1 AND (expires_at > :now OR pinned)"
    return at.column(f"{ids} ORDER BY retrieved DESC, no DESC LIMIT :most", prefix=prefix, most=limit)


def next_expiry(at: Transaction) -> float | None:
    """Returns when there will be something to prune, as far as is known now."""
    return at.one("SELECT min(expires_at) FROM entries WHERE pinned = 0")


def _find(at: Transaction, source_id: str) -> tuple[str, str | None, int] | None:
    kept = "SELECT page_id, raw_type, size FROM entries WHERE source_id = :id AND (expires_at > :now OR pinned)"
    return at.do(kept, id=source_id).fetchone()
