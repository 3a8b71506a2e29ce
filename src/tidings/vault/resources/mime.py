"""What kind of content a file has, by its name.

May import: nothing of Tidings.
"""

import mimetypes
from typing import Final

MARKDOWN: Final = "text/markdown"
JSON: Final = "application/json"

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
"""What Obsidian knows and not every Python does."""

_TEXTS: Final = frozenset({JSON, "application/javascript", "application/xml", "application/yaml", "image/svg+xml"})


def mime_type(path: str) -> str:
    """The type of a file's content."""
    _, dot, ending = path.rpartition("/")[2].lower().rpartition(".")
    if known := _KNOWN.get(f".{ending}") if dot else None:
        return known
    guessed, packed = mimetypes.guess_type(f"x.{ending}", strict=False) if dot else (None, None)
    return guessed if guessed and not packed else "application/octet-stream"


def is_text(mime_type: str) -> bool:
    """Whether such content is for reading."""
    return mime_type.startswith("text/") or mime_type in _TEXTS
