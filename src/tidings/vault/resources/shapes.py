"""The format of contents, and content types.

A list is a JSON object: its subject, the number of all items, the number shown, the next page, then the items. The same
index always gives the same text.
"""

import json
import mimetypes
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from tidings.vault.resources.addresses import JSON, VaultAddress
from tidings.vault.view import IndexStatus, standing

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Json = dict[str, Any]


class ResourceTooLarge(ValueError):
    """The content is too large to be sent."""


class RenderedResource(NamedTuple):
    """The content of a resource: a text, or bytes."""

    mime_type: str
    text: str | None
    data: bytes | None = None


def listed(address: VaultAddress, about: Json, total: int, items: Sequence[Json]) -> Json:
    """Returns one page of a list. `items` are those of the page alone."""
    shown = len(items)
    content: Json = {**about, "total": total, "shown": shown}
    end = address.offset + shown
    if shown and end < total:
        content["next"] = address._replace(offset=end).uri
    content["items"] = list(items)
    return content


def caveat(status: IndexStatus) -> Json:
    """Returns a warning for content that may be incomplete."""
    if status.phase == "away":
        return {"away": standing(status)}
    if status.partial:
        done, total = (status.progress.done, status.progress.total) if status.progress else (0, 0)
        return {"partial": {"indexed": done, "of": total}}
    return {}


def written(content: Json) -> str:
    """Returns JSON with one line for each member, and for each item of a list of objects."""
    members: list[str] = []
    for name, value in content.items():
        match value:
            case [{}, *_]:
                text = "[\n  " + ",\n  ".join(map(_compact, value)) + "\n ]"
            case _:
                text = _compact(value)
        members.append(f" {_compact(name)}: {text}")
    return "{\n" + ",\n".join(members) + "\n}"


def iso(nanoseconds: int) -> str:
    """Returns a time as ISO 8601, in UTC."""
    when = _EPOCH + timedelta(microseconds=nanoseconds // 1000)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


MARKDOWN: Final = "text/markdown"

_KNOWN: Final = {
    ".avif": "image/avif",
    ".base": "application/yaml",
    ".canvas": JSON,
    ".flac": "audio/flac",
    ".heic": "image/heic",
    ".m4a": "audio/mp4",
    ".md": MARKDOWN,
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
    ".webm": "video/webm",
    ".webp": "image/webp",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
"""Types that Obsidian knows and not every Python does."""

_TEXTS: Final = frozenset({JSON, "application/javascript", "application/xml", "application/yaml", "image/svg+xml"})


def mime_type(path: str) -> str:
    """Returns the content type of a file, by its name."""
    _, dot, ending = path.rpartition("/")[2].lower().rpartition(".")
    if known := _KNOWN.get(f".{ending}") if dot else None:
        return known
    guessed, packed = mimetypes.guess_type(f"x.{ending}", strict=False) if dot else (None, None)
    return guessed if guessed and not packed else "application/octet-stream"


def is_text(mime_type: str) -> bool:
    """Returns whether a content type is text."""
    return mime_type.startswith("text/") or mime_type in _TEXTS
