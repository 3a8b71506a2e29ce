"""Pauses between attempts: a table of delays, spread at random, and the pause that a server asks for."""

import random
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from numbers import Real
from typing import Final

from tidings._kit.text import mail_date

_FIRST_JITTER: Final = 0.2


@dataclass(frozen=True, slots=True)
class Backoff:
    """The delays in seconds before attempts: `delays[0]`, then `delays[1]`, and so on. The last one repeats.

    Each delay is shortened or lengthened at random by up to the fraction `jitter`, or by at most a fifth before the
    first connection. A client that was never connected gives up after `tries` further attempts. A client that lost its
    connection gives up after `lost_tries` attempts in a row. None means that it never gives up.
    """

    delays: Sequence[float] = (1.0, 2.0, 4.0, 8.0, 15.0)
    jitter: float = 1.0
    tries: int | None = 3
    lost_tries: int | None = None

    def __post_init__(self) -> None:
        if not self.delays or any(not is_number(delay) or delay < 0 for delay in self.delays):
            raise ValueError(f"Backoff needs one or more delays in seconds, none negative, not {self.delays!r}")
        if not is_number(self.jitter) or not 0 <= self.jitter <= 1:
            raise ValueError(f"Backoff needs 0 <= jitter <= 1, not {self.jitter!r}")
        for name, tries in (("tries", self.tries), ("lost_tries", self.lost_tries)):
            if tries is not None and (isinstance(tries, bool) or tries < 0):
                raise ValueError(f"Backoff needs {name} >= 0, or None for no end, not {tries!r}")

    def delay(self, attempt: int) -> float:
        """Returns the seconds before an attempt, without jitter. The first attempt has the number 0."""
        return self.delays[min(max(attempt, 0), len(self.delays) - 1)]

    def pause(self, attempt: int, chance: Callable[[], float] = random.random, *, first: bool = False) -> float:
        """Returns the seconds before an attempt, with jitter. `first`: there has been no connection yet."""
        jitter = min(self.jitter, _FIRST_JITTER) if first else self.jitter
        return jittered(self.delay(attempt), below=jitter, above=jitter, chance=chance)


@dataclass
class Pauses:
    """The pauses of one loop that tries again and again: longer each time, the last delay repeated, until `reset`."""

    delays: Sequence[float]
    _: KW_ONLY
    below: float = 0.0  # The share of a delay by which a pause may be shorter
    failures: int = field(default=0, init=False)

    def next(self) -> float:
        """Counts a failure, and returns the seconds to wait after it."""
        delay = self.delays[min(self.failures, len(self.delays) - 1)]
        self.failures += 1
        return jittered(delay, below=self.below)

    def reset(self) -> None:
        self.failures = 0


def doubling(first: float, longest: float) -> tuple[float, ...]:
    """Returns the delays `first`, twice that, and so on, the last being `longest`."""
    if not 0 < first <= longest:
        raise ValueError(f"doubling() needs 0 < first <= longest, not {first!r} and {longest!r}")
    delays: list[float] = []
    while first < longest:
        delays.append(first)
        first *= 2
    return (*delays, longest)


def jittered(
    seconds: float, *, below: float = 0.0, above: float = 0.0, chance: Callable[[], float] = random.random
) -> float:
    """Returns a random time from `seconds` less `below` of it to `seconds` plus `above` of it."""
    return seconds * (1 - below) + chance() * seconds * (below + above)


def retry_after(value: str | None, now: datetime) -> float | None:
    """Returns the seconds that a `Retry-After` header asks to wait, from a number or a date; None if it has neither."""
    text = (value or "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:10])
    when = mail_date(text)
    return None if when is None else max(0.0, (when - now).total_seconds())


def is_number(value: object) -> bool:
    """Returns whether a setting is a number; True and False are not."""
    return not isinstance(value, bool) and isinstance(value, Real)
