"""Text for people: one line, shortened, harmless to a terminal; sizes, durations, counts and lists in words."""

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

# Control characters apart from tab and line feed, direction changes, and lone surrogates, which cannot be encoded.
_STEERING: Final = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_INVISIBLE: Final = r"\u200b-\u200f\u2060-\u2065\ufeff\ufff9-\ufffb"
_CONTROLS: Final = re.compile(f"[{_STEERING}]")
_CONTROLS_AND_INVISIBLE: Final = re.compile(f"[{_STEERING}{_INVISIBLE}]")


def shortened(text: str, limit: int) -> str:
    """Returns `text` in at most `limit` characters. The last one is "…" if anything was cut."""
    return text if len(text) <= limit else text[: max(limit - 1, 0)] + "…"


def one_line(text: str, limit: int | None = None) -> str:
    """Returns `text` with whitespace as single spaces, in at most `limit` characters, at a cost bounded by it."""
    if limit is None:
        return " ".join(text.split())
    seen = text[: 4 * limit]
    line = " ".join(seen.split())
    return shortened(line if len(seen) == len(text) else line + "…", limit)


def quoted(text: str, limit: int = 120) -> str:
    """Returns `text` in quotation marks for a message: shortened, and escaped where it cannot be printed."""
    short = shortened(text, limit)
    return repr(short) if short.isprintable() else ascii(short)


def harmless(text: str, *, mark: str | None = None) -> str:
    r"""Returns `text` with the characters that control a terminal or change the reading direction made visible.

    Tabs and line feeds stay. Without `mark`, a carriage return is dropped, other control characters become their
    Unicode picture ("␛"), and the rest become "<U+202E>". A `mark` of one character replaces each of them, and each
    zero-width character too, so that the text keeps its width, as a table needs it.
    """

    def picture(found: re.Match[str]) -> str:
        code = ord(found[0])
        if code < 0x20:
            return "" if code == 0x0D else chr(0x2400 + code)
        return "\N{SYMBOL FOR DELETE}" if code == 0x7F else f"<U+{code:04X}>"

    return _CONTROLS.sub(picture, text) if mark is None else _CONTROLS_AND_INVISIBLE.sub(lambda _: mark, text)


def harmless_json(document: str) -> str:
    r"""Returns a JSON document with the same characters as `\uXXXX`, which leaves its meaning as it is."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def applied(text: str, changes: Iterable[tuple[int, int, str]]) -> str:
    """Returns the text with changes, which are in order: the start and the end of a span, and its replacement."""
    pieces: list[str] = []
    last = 0
    for start, end, replacement in changes:
        pieces += (text[last:start], replacement)
        last = end
    return "".join((*pieces, text[last:]))


def expanded(text: str, macros: Mapping[str, str]) -> str:
    """Returns a text with each `{{NAME}}` replaced by the macro of that name, which may have others in it."""
    while "{{" in text:
        text = re.sub(r"\{\{(\w+)\}\}", lambda found: macros[found[1]], text)
    return text


def counted(count: int, one: str, many: str | None = None) -> str:
    """Returns a number with its noun: "1 question", "12,480 messages"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(names: Iterable[str], most: int | None = 12, *, none: str = "") -> str:
    """Returns names as "a, b and 3 more"; all of them if `most` is None, and `none` if there are none."""
    every = list(names)
    if most is None or len(every) <= most:
        return ", ".join(every) or none
    return f"{', '.join(every[:most])} and {len(every) - most:,} more"


def joined(words: Sequence[str], last: str = "and") -> str:
    """Returns words as a phrase: "a", "a and b", "a, b and c"."""
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else "".join(words)


def size_text(count: int, *, short: bool = False) -> str:
    """Returns a number of bytes in decimal units: "9,999 bytes", "10 KB"; or, if `short`, "999 B", "1.0 KB"."""
    if short:
        if count < 1000:
            return f"{count} B"
        return f"{count / 1000:.1f} KB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"
    if count < 10_000:
        return counted(count, "byte")
    return f"{count / 1000:,.0f} KB" if count < 10**7 else f"{count / 10**6:,.0f} MB"


def duration(seconds: float) -> str:
    """Returns a duration to the precision that matters: "24 ms", "1.5 s", "2 min 5 s", "3 h 10 min"."""
    if seconds < 0.9995:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"


def rough_duration(seconds: float) -> str:
    """Returns a duration in one unit, rounded down: "2 ms", "3 s", "5 min", "2 h", "3 days"."""
    if seconds < 1:
        return f"{max(round(seconds * 1000), 0)} ms"
    for limit, unit, name in ((60, 1, "s"), (3600, 60, "min"), (2 * 86400, 3600, "h")):
        if seconds < limit:
            return f"{int(seconds / unit)} {name}"
    return f"{int(seconds / 86400)} days"


def clock(at: float, *, milliseconds: bool = False) -> str:
    """Returns the local time of day of a Unix time: "14:03:59"; "--:--:--" if no calendar has it."""
    try:
        moment = datetime.fromtimestamp(at)  # noqa: DTZ006 - people read their own clock
    except (OSError, OverflowError, ValueError):
        return "--:--:--"
    return moment.strftime("%H:%M:%S") + (f".{moment.microsecond // 1000:03d}" if milliseconds else "")


def iso(at: float, *, milliseconds: bool = False) -> str:
    """Returns a time in seconds since the epoch as ISO 8601, in UTC."""
    text = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds" if milliseconds else "seconds")
    return text.replace("+00:00", "Z")


def mail_date(text: str) -> datetime | None:
    """Returns the time of a date as mail and HTTP write it, in UTC if it names no zone; None if it is not a date."""
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - takes longer than all of this file

    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def is_ip(text: str) -> bool:
    """Returns whether `text` is an IPv4 or IPv6 address, without brackets and port."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
