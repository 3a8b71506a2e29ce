"""When a watched page is looked at again. Arithmetic alone: no clock, no network.

The interval of a page follows its history: half as long after a change, half as long again after a look that found
none, between `least` and `most`. What the site says of it (`Cache-Control`, `Expires`) can only make the wait longer:
before that moment nothing new can be there. A failure doubles the wait, each one more, and `Retry-After` is kept.
Chance only ever adds, so that there is never more than one request in an interval.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

DAY = 86_400.0
LONGEST_RETRY_AFTER = 7 * DAY
"""A site that says "in ten years" means no; what is watched is still looked at, once a week."""


@dataclass(frozen=True)
class Intervals:
    """The limits of the wait between two looks, in seconds."""

    first: float = 300.0
    least: float = 60.0
    most: float = DAY
    jitter: float = 0.1
    """How much longer the wait may be by chance, as a part of it, so that many pages do not come due at once."""

    def __post_init__(self) -> None:
        if not 0 < self.least <= self.most:
            raise ValueError("the shortest interval must be more than nothing, and no longer than the longest")
        if not 0 <= self.jitter <= 1:
            raise ValueError("the jitter must be between 0 and 1")

    def within(self, seconds: float) -> float:
        """The nearest interval that is allowed."""
        return min(max(seconds, self.least), self.most)


@dataclass(frozen=True)
class Pace:
    """How a page is looked at: the interval that its history gives, and the wait until the next look."""

    interval: float
    wait: float


def after_look(
    interval: float | None, *, changed: bool, fresh: float | None, limits: Intervals, fixed: float | None = None
) -> Pace:
    """The pace after a look that worked.

    Args:
        interval: The one so far; None if this was the first look.
        changed: Whether it found a change.
        fresh: For how long the site says that nothing will be new; None if it does not say.
        limits: What is allowed.
        fixed: An interval that somebody asked for, in place of what history and site say.
    """
    if fixed is not None:
        asked = limits.within(fixed)
        return Pace(asked, asked)
    known = limits.first if interval is None else interval
    following = limits.within(known * (0.5 if changed else 1.0 if interval is None else 1.5))
    return Pace(following, limits.within(max(following, fresh or 0.0)))


def after_failure(interval: float | None, *, failures: int, retry_after: float | None, limits: Intervals) -> Pace:
    """The pace after `failures` looks in a row that did not work; the interval stays what it was."""
    known = limits.within(limits.first if interval is None else interval)
    doubled = limits.within(known * 2.0 ** min(max(failures, 1), 30))
    return Pace(known, max(doubled, min(retry_after or 0.0, LONGEST_RETRY_AFTER)))


def with_chance(wait: float, limits: Intervals, random: Callable[[], float]) -> float:
    """The wait, and a little more."""
    return wait * (1.0 + limits.jitter * random())


def fresh_for(headers: Mapping[str, str], now: float) -> float | None:
    """For how many seconds from `now` (since 1970) an answer with these headers is fresh; None if they do not say.

    `s-maxage` goes before `max-age`: what a site's own caches hold until then is what everybody gets. Zero says
    nothing about when a page changes, only that it may not be kept.
    """
    said = _directives(headers.get("cache-control", ""))
    if "no-store" in said or "no-cache" in said:
        return None
    lifetime = _seconds(said.get("s-maxage"))
    if lifetime is None:
        lifetime = _seconds(said.get("max-age"))
    if lifetime is None and (expires := _moment(headers.get("expires"))) is not None:
        lifetime = expires - (_moment(headers.get("date")) or now)
    if lifetime is None:
        return None
    left = lifetime - (_seconds(headers.get("age")) or 0.0)
    return left if left > 0 else None


def _directives(value: str) -> dict[str, str]:
    parts = (part.partition("=") for part in value.split(","))
    return {name.strip().lower(): argument.strip().strip('"') for name, _, argument in parts}


def _seconds(value: str | None) -> float | None:
    text = (value or "").strip()
    # Digits alone, and not too many of them: a number that nothing can hold is no number of seconds.
    return float(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _moment(value: str | None) -> float | None:
    if not value or len(value) > 100:
        return None
    try:
        moment = parsedate_to_datetime(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
