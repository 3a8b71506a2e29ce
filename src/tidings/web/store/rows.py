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


WATCHES_OF_2: Final = """CREATE TEMP TABLE kept AS
    SELECT coalesce(json_extract(w.options, '$.fetch.url'), p.url) AS url, json_remove(w.options, '$.since') AS options,
    w.variant FROM watchers w JOIN pages p USING (page_id) WHERE owner = '' AND p.url IS NOT NULL"""


def begin_watches_again(connection: sqlite3.Connection) -> None:
    """Puts what `WATCHES_OF_2` took out of a store of version 2 into the new tables.

    Up to that version a page was identified by the URL that it claimed for itself. All else there can be fetched again.
    """
    do = connection.execute
    for number, (url, options, variant) in enumerate(do("SELECT url, options, variant FROM kept").fetchall()):
        page, asked = page_id(url), options_text({"url": url})
        do(
            "INSERT OR IGNORE INTO pages VALUES (?, ?, ?, '', 0, NULL, NULL, ?, '', ?, 0, '', 0)",
            (page, url, url, asked, number),
        )
        do("INSERT OR IGNORE INTO watchers VALUES (?, '', ?, ?, 0)", (page, options, variant))
        do("INSERT OR IGNORE INTO watches VALUES (?, 0, 0, 0, '{}', NULL, 0, 0)", (page,))
    do("DROP TABLE kept")
