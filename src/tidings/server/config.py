"""The settings of a live server, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any


@dataclass(frozen=True, slots=True)
class Coalesce:
    """How changes that follow each other quickly are merged, for each resource and each list by itself.

    The first change goes out at once. What follows within `window` seconds is held back and merged. It goes out when
    `window` seconds have passed without another change, or `max_wait` seconds after the first that was held back,
    whichever is earlier. A window of 0 turns merging off.
    """

    window: float = 0.01
    max_wait: float = 0.1

    def __post_init__(self) -> None:
        _check_numbers(self)
        if not 0 <= self.window <= self.max_wait < float("inf"):
            default = fields(self)[1].default
            hint = f" (max_wait is {default} unless given: pass a longer one too)" if self.max_wait == default else ""
            raise ValueError(
                f"Coalesce needs 0 <= window <= max_wait (seconds), "
                f"not window={self.window}, max_wait={self.max_wait}{hint}"
            )


CoalesceSetting = Coalesce | Mapping[str, Coalesce]
"""One rule for all, or one for each URI pattern (a URI, a prefix ending in `*`, a template): the first match wins."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one server process takes on, and how long it waits for readers."""

    streams: int = 20_000
    """Subscribers at once: listen streams and old-era sessions together."""

    streams_per_client: int = 2_000
    """Listen streams at once for one client: a signed-in principal, else a network address or a connection."""

    subscriptions: int = 10_000
    """URIs and prefixes for one stream or one old-era session."""

    backlog: int = 4_096
    """Distinct changes that may wait for one subscriber. Only prefixes can exceed it: other filters are bounded by
    their own length."""

    write_deadline: float = 30.0
    """Seconds for which a reader may take nothing before its stream is cut off."""

    liveness: float = 60.0
    """Seconds for which an old-era session without an open stream counts as a subscriber, and after which a network
    peer that acknowledges nothing is given up."""

    def __post_init__(self) -> None:
        _check_numbers(self)
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise ValueError(f"Limits needs {field.name} > 0, not {value}")


def _check_numbers(settings: Any) -> None:
    for field in fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError(
                f"{type(settings).__name__} needs a number for {field.name}, not {type(value).__name__} {value!r}"
            )
