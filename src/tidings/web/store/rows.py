"""Converts versions of pages to the values of rows, and back.

Texts are kept as bytes. So a size is what a text takes on the disk, and a page with half a surrogate pair, which SQLite
does not take as text, comes out as it went in.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast

from tidings._kit.sqlite_errors import DatabaseUnreadable
from tidings.web.documents.model import LLMPacket
from tidings.web.extract.model import FeedEntry
from tidings.web.store.model import StoredVersion


def parts_of(entry: StoredVersion) -> dict[str, bytes]:
    """Returns what is stored of a version, by the kind of the part."""
    parts = {
        # The content leaves its place, so that the packet's keys keep their order.
        "head": _to_json({**entry.packet, "content": ""}),
        "content": _encoded(entry.packet["content"]),
    }
    if entry.raw is not None:
        parts["raw"] = entry.raw
    if entry.screenshot is not None:
        parts["screenshot"] = entry.screenshot
    if entry.entries:
        parts["feed"] = _to_json([asdict(item) for item in entry.entries])
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


def _to_json(value: Any) -> bytes:
    return _encoded(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
