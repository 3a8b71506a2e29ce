"""Converts versions of pages to the values of rows, and back.

Texts are kept as bytes. So a size is what a text takes on the disk, and a page with half a surrogate pair, which SQLite
does not take as text, comes out as it went in.
"""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final, cast

from tidings._kit.sqlite_errors import DatabaseUnreadable
from tidings.web.documents.model import LLMPacket, page_id
from tidings.web.extract.model import FeedEntry
from tidings.web.store.model import StoredVersion


def parts_of(entry: StoredVersion) -> dict[str, bytes]:
    """Returns what is stored of a version, by the kind of the part."""
    parts = {
        # The content leaves its place, so that the packet's keys keep their order.
        "head": _to_json({**entry.packet, "content": ""}),
        "content": encoded(entry.packet["content"]),
    }
    if entry.raw is not None:
        parts["raw"] = entry.raw
    if entry.screenshot is not None:
        parts["screenshot"] = entry.screenshot
    if entry.entries:
        parts["feed"] = _to_json([asdict(item) for item in entry.entries])
    if entry.memory:
        parts["memory"] = encoded(entry.memory)
    return parts


def packet_of(head: bytes | None, content: bytes | None) -> LLMPacket:
    """Returns the packet that was stored."""
    if head is None:
        raise DatabaseUnreadable("a version has lost its text")
    return cast("LLMPacket", {**object_of(head), "content": content_text(content)})


def content_text(content: bytes | None) -> str:
    """Returns the Markdown."""
    if content is None:
        raise DatabaseUnreadable("a version has lost its text")
    return content.decode("utf-8", "surrogatepass")


def feed_of(feed: bytes | None) -> tuple[FeedEntry, ...]:
    """Returns the entries of a feed."""
    if feed is None:
        return ()
    try:
        return tuple(FeedEntry(**item) for item in json.loads(feed))
    except (TypeError, ValueError) as error:
        raise DatabaseUnreadable(f"the feed of a version cannot be read ({error})") from error


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
    return clean(variant) or "" if isinstance(variant, str) else ""


def clean(text: str | None) -> str | None:
    """Replaces characters that SQLite does not take."""
    return text and text.encode(errors="replace").decode()


def packet_text(packet: Mapping[str, Any]) -> str:
    """Returns a packet as it is read."""
    return json.dumps(packet, ensure_ascii=False)


def encoded(text: str) -> bytes:
    """Returns a text as bytes."""
    return text.encode("utf-8", "surrogatepass")


def _to_json(value: Any) -> bytes:
    return encoded(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


_ASKED: Final = """SELECT page_id, json_extract(options, '$.url') AS url FROM entries WHERE url IS NOT NULL
    UNION SELECT page_id, json_extract(options, '$.fetch.url') AS url FROM watchers WHERE url IS NOT NULL
    UNION SELECT page_id, coalesce(json_extract(options, '$.url'), url) FROM pages WHERE url IS NOT NULL"""
# The facts of a page are those of the URL that it was fetched by last.
_MOVED: Final = (
    """INSERT OR REPLACE INTO pages SELECT :new, :url, :url, iif(:last, content_hash, ''), checked_at,
        iif(:last, etag, NULL), iif(:last, last_modified, NULL), iif(:last, options, :options),
        iif(:last, variant, ''), seen, changed, changed_by, iif(:last, untold, 0) FROM pages WHERE page_id = :old""",
    "UPDATE entries SET page_id = :new, address = :url WHERE page_id = :old AND json_extract(options, '$.url') = :url",
    """UPDATE watchers SET page_id = :new WHERE page_id = :old
        AND coalesce(json_extract(options, '$.fetch.url'), :url) = :url""",
    """INSERT OR IGNORE INTO watches SELECT :new, next_at, wait, failures, state, NULL, 0, 0 FROM watches
        WHERE page_id = :old""",
)
_SETTLED: Final = (
    "DELETE FROM pages WHERE page_id NOT LIKE '+%' AND url IS NOT NULL",
    *(
        f"UPDATE OR REPLACE {table} SET page_id = substr(page_id, 2) WHERE page_id LIKE '+%'"  # noqa: S608 - constants
        for table in ("pages", "entries", "watchers", "watches")
    ),
    "DELETE FROM entries WHERE page_id NOT IN (SELECT page_id FROM pages)",
    "DELETE FROM parts WHERE source_id NOT IN (SELECT source_id FROM entries)",
    "DELETE FROM watchers WHERE page_id NOT IN (SELECT page_id FROM pages)",
    "DELETE FROM watches WHERE page_id NOT IN (SELECT page_id FROM watchers)",
)


def by_requested_url(connection: sqlite3.Connection) -> None:
    """Gives each URL that was asked for a page of its own, and notes the sizes of packets.

    Up to version 2 a page was identified by the URL that it claimed for itself, so that several URLs shared a row.
    """
    do = connection.execute
    pages = do("SELECT page_id, url, options FROM pages WHERE url IS NOT NULL").fetchall()
    last = {old: object_of(options).get("url", url) for old, url, options in pages}
    for old, url in do(_ASKED).fetchall():
        if old in last:
            # The new id of one page may be the old id of another: the mark keeps them apart until all are moved.
            values = {"old": old, "new": f"+{page_id(url)}", "url": url, "last": url == last[old]}
            for statement in _MOVED:
                do(statement, {**values, "options": options_text({"url": url})})
    for statement in _SETTLED:
        do(statement)
    texts = "SELECT data FROM parts WHERE source_id = ? AND kind IN ('head', 'content') ORDER BY kind DESC"
    for (source_id,) in do("SELECT source_id FROM entries").fetchall():
        (head,), (content,) = do(texts, (source_id,)).fetchall()
        size = len(encoded(packet_text(packet_of(head, content))))
        do("UPDATE entries SET packet_size = ? WHERE source_id = ?", (size, source_id))
