"""How an entry is cut into parts, and put together again.

Texts are kept as bytes, so that a size is what it takes, and so that a page with half a surrogate pair, which is no
text to SQLite, comes out as it went in.

May import: `errors`, `model`, `packets.model`, `extract.model`.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final, cast

from tidings.web.documents.model import LLMPacket, NormalizedContent
from tidings.web.extract.model import FeedEntry
from tidings.web.store.errors import Unreadable
from tidings.web.store.model import StoredVersion

_NORMALIZED: Final = NormalizedContent.__annotations__.keys()


def parts_of(entry: StoredVersion) -> dict[str, bytes]:
    """What is stored of an entry, by the kind of the part."""
    parts = {
        # The content leaves its place, so that the packet's keys keep their order.
        "head": to_json({**entry.packet, "content": ""}),
        "content": _encoded(entry.packet["content"]),
    }
    if entry.raw is not None:
        parts["raw"] = entry.raw
    if entry.screenshot is not None:
        parts["screenshot"] = entry.screenshot
    if entry.entries:
        parts["feed"] = to_json([asdict(item) for item in entry.entries])
    return parts


def packet_of(head: bytes | None, content: bytes | None) -> LLMPacket:
    """The packet that was stored."""
    if head is None:
        raise Unreadable("an entry has lost its text")
    return cast("LLMPacket", {**_object(head), "content": content_text(content)})


def packet_text(head: bytes | None, content: bytes | None) -> str:
    """The packet as JSON."""
    return json.dumps(packet_of(head, content), ensure_ascii=False)


def normalized_text(head: bytes | None, content: bytes | None) -> str:
    """The packet as JSON, without what only a packet has."""
    packet = packet_of(head, content)
    return json.dumps({key: value for key, value in packet.items() if key in _NORMALIZED}, ensure_ascii=False)


def content_text(content: bytes | None) -> str:
    """The markdown."""
    if content is None:
        raise Unreadable("an entry has lost its text")
    return _decoded(content)


def feed_of(feed: bytes | None) -> tuple[FeedEntry, ...]:
    """The entries of a feed."""
    if feed is None:
        return ()
    try:
        return tuple(FeedEntry(**item) for item in json.loads(_decoded(feed)))
    except (TypeError, ValueError) as error:
        raise Unreadable(f"an entry's feed cannot be read ({error})") from error


def to_json(value: Any) -> bytes:
    """As it is stored."""
    return _encoded(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def options_text(options: Mapping[str, Any]) -> str:
    """Options as they are stored: the same are written the same."""
    return json.dumps(options, sort_keys=True, separators=(",", ":"))


def options_of(text: str) -> dict[str, Any]:
    """The options that were stored."""
    return _object(text.encode())


def variant_of(options: Mapping[str, Any]) -> str:
    """What those options call the versions that they lead to; '' if they have no name for it."""
    variant = options.get("variant")
    return clean(variant) or "" if isinstance(variant, str) else ""


def clean(text: str | None) -> str | None:
    """A text that SQLite takes."""
    return text and text.encode(errors="replace").decode()


def microseconds(retrieved_at: str, otherwise: float) -> int:
    """A packet's time as a number to sort by; `otherwise`, in seconds, if it is none."""
    try:
        moment = datetime.fromisoformat(retrieved_at)
    except ValueError:
        return round(otherwise * 1e6)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1e6)


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(_decoded(data))
    except ValueError as error:
        raise Unreadable(f"an entry cannot be read ({error})") from error
    if not isinstance(found, dict):
        raise Unreadable("an entry is not an object")
    return cast("dict[str, Any]", found)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
