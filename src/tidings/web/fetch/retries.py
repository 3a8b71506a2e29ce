"""When to ask again: which answers are worth it, and how long to wait before."""

import random
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

RETRIED = frozenset({408, 425, 429, 502, 503, 504})
"""Statuses that may be others in a moment."""

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 8.0


def pause(attempt: int, asked_for: float | None = None, chance: Callable[[], float] = random.random) -> float:
    """Seconds before the next attempt, after `attempt` (from 0) went wrong: longer each time, never quite the same.

    What the server asked for comes first. The pauses of many clients spread, as each takes a part of it by chance.
    """
    longest = min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE)
    spread = longest / 2 + chance() * longest / 2
    return spread if asked_for is None else asked_for + chance() * _FIRST_PAUSE


def retry_after(value: str | None, now: datetime) -> float | None:
    """The seconds that a `Retry-After` header asks to wait, from a number or a date; None if it says neither."""
    text = (value or "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:10])
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - now).total_seconds())
