"""The wait between two looks at a watched page.

The interval of a page follows its history: half as long after a change, half as long again after a look that found
none, between `least` and `most`. `Cache-Control` and `Expires` can only make the wait longer: nothing new can be there
before. Failures in a row double the wait, from `least` up to `LONGEST_RETRY`; so do looks that find that the page is
gone. An interval that a caller set is kept through all of this. Only `Retry-After` is respected before anything else.
Randomness only ever adds, so that there is never more than one request in an interval.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tidings._kit.text import mail_date

DAY = 86_400.0
LONGEST_RETRY = 3600.0  # seconds between two looks at a page that fails or is gone, unless the site asks for more
LONGEST_RETRY_AFTER = 7 * DAY  # a site that says "in ten years" means no; a watched page is still looked at once a week


@dataclass(frozen=True)
class Intervals:
    """The limits of the wait between two looks, in seconds."""

    first: float = 300.0
    least: float = 60.0
    most: float = DAY
    jitter: float = 0.1  # the largest random addition, a share of the wait: many pages must not come due at once

    def within(self, seconds: float) -> float:
        """Returns the nearest interval that is allowed."""
        return min(max(seconds, self.least), self.most)


class LookInterval(NamedTuple):
    """The interval that the history of a page gives, and the wait until its next look."""

    interval: float
    wait: float


def after_look(
    interval: float | None, *, changed: bool, fresh: float | None, limits: Intervals, fixed: float | None = None
) -> LookInterval:
    """Returns the interval after a look that worked.

    `interval` is the one so far, None at the first look. `fresh` is for how many seconds the site calls its answer
    fresh. `fixed`, the caller's interval, counts in place of what history and site say.
    """
    if fixed is not None:
        asked = limits.within(fixed)
        return LookInterval(asked, asked)
    known = limits.first if interval is None else interval
    following = limits.within(known * (0.5 if changed else 1.0 if interval is None else 1.5))
    return LookInterval(following, limits.within(max(following, fresh or 0.0)))


def after_failure(failures: int, *, retry_after: float | None, limits: Intervals, fixed: float | None = None) -> float:
    """Returns the wait after `failures` failed looks in a row. The interval stays."""
    doubled = min(limits.least * 2.0 ** min(max(failures, 1), 30), max(LONGEST_RETRY, limits.least))
    wait = limits.within(doubled if fixed is None else fixed)
    return max(wait, min(retry_after or 0.0, LONGEST_RETRY_AFTER))


def fresh_for(headers: Mapping[str, str], now: float) -> float | None:
    """Returns for how many seconds from `now` an answer with these headers is fresh; None if they do not say.

    `s-maxage` goes before `max-age`: what a site's own caches hold until then is what everyone gets. Zero says nothing
    about when a page changes, only that it may not be cached.
    """
    parts = (part.partition("=") for part in headers.get("cache-control", "").split(","))
    directives = {name.strip().lower(): argument.strip().strip('"') for name, _, argument in parts}
    if "no-store" in directives or "no-cache" in directives:
        return None
    lifetime = _seconds(directives.get("s-maxage"))
    if lifetime is None:
        lifetime = _seconds(directives.get("max-age"))
    if lifetime is None and (expires := _moment(headers.get("expires"))) is not None:
        lifetime = expires - (_moment(headers.get("date")) or now)
    if lifetime is None:
        return None
    left = lifetime - (_seconds(headers.get("age")) or 0.0)
    return left if left > 0 else None


def _seconds(value: str | None) -> float | None:
    text = (value or "").strip()
    # Only digits, and not too many of them.
    return float(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _moment(value: str | None) -> float | None:
    moment = mail_date(value) if value and len(value) <= 100 else None
    return moment and moment.timestamp()
