"""Texts from servers as a terminal can show them; times and sizes in words."""

from tidings._kit import text

MARK = "·"  # Replaces a character that a terminal would obey.


def one_line(value: object, limit: int = 500) -> str:
    """Returns a text for a row: without line breaks and control characters, at most `limit` characters."""
    short = str(value)[:limit]
    return text.harmless(short.replace("\r\n", " ").replace("\n", " ").replace("\t", " "), mark=MARK)


def lines_of(value: str) -> list[str]:
    """Returns the lines of a text, each without control characters."""
    return [text.harmless(line.expandtabs(4), mark=MARK) for line in value.replace("\r\n", "\n").split("\n")]


def clock(at: float | None, *, millis: bool = False) -> str:
    """Returns the time of day; empty for None."""
    return "" if at is None else text.clock(at, milliseconds=millis)


def took(seconds: float | None) -> str:
    """Returns a duration; empty for None."""
    return "" if seconds is None else text.duration(seconds)


def size(count: int) -> str:
    """Returns a number of bytes in words."""
    return text.size_text(count, short=True)
