"""Times, sizes and counts in words; texts from servers made harmless."""

import json
import re
from datetime import datetime
from typing import Final

_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\ufff9-\ufffb]"
)
"""What would move the cursor, turn the direction of the text, hide in it, or cannot be written at all."""

MARK: Final = "·"


def one_line(text: object, limit: int = 500) -> str:
    """A text from outside, for a row: no line breaks, nothing that a terminal obeys, not longer than anyone reads."""
    short = str(text)[:limit]
    return _UNSAFE.sub(MARK, short.replace("\r\n", " ").replace("\n", " ").replace("\t", " "))


def lines_of(text: str) -> list[str]:
    """A text from outside as lines, each harmless to a terminal."""
    return [_UNSAFE.sub(MARK, line.expandtabs(4)) for line in text.replace("\r\n", "\n").split("\n")]


def compact(value: object) -> str:
    """A value from outside as JSON in one line, however strange it is."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return "nested too deeply to be shown"


def clock(at: float | None, *, millis: bool = False) -> str:
    """The time of day."""
    if at is None:
        return ""
    try:
        moment = datetime.fromtimestamp(at)  # noqa: DTZ006 - people read their own clock
    except (OSError, OverflowError, ValueError):  # A time that no clock shows: it came from outside.
        return "--:--:--"
    return moment.strftime("%H:%M:%S") + (f".{moment.microsecond // 1000:03d}" if millis else "")


def took(seconds: float | None) -> str:
    """A duration, to the precision that matters."""
    if seconds is None:
        return ""
    if seconds < 0.9995:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"


def size(count: int) -> str:
    """A number of bytes."""
    if count < 1000:
        return f"{count} B"
    if count < 1_000_000:
        return f"{count / 1000:.1f} KB"
    return f"{count / 1_000_000:.1f} MB"


def counted(count: int, one: str, many: str | None = None) -> str:
    """A number with its noun: `1 question`, `12,480 messages`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
