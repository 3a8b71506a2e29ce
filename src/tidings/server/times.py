"""When a change happened at its source and when it was published: told with its notification, by the process that
published it. Another replica hears of the change alone, and tells no times.
"""

import time
from collections.abc import Callable
from typing import Final

from tidings.changes import Change

_MOST: Final = 10_000
"""Changes whose times are remembered: those that wait to be published, or for the bus to bring them back."""


class Times:
    """The times of changes on their way through the bus. Each is told once; what is forgotten meanwhile is not told."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._sources: dict[Change, float] = {}
        self._published: dict[Change, dict[str, float]] = {}

    def happened(self, change: Change, at: float) -> None:
        """`change` happened at this time, in seconds since the epoch. Of several that are merged, the first counts."""
        _bound(self._sources)
        self._sources.setdefault(change, at)

    def publishing(self, change: Change) -> None:
        """`change` is given to the bus now."""
        times = {"published": self._clock()}
        if self._sources and (source := self._sources.pop(change, None)) is not None:
            times["source"] = source
        _bound(self._published)
        self._published[change] = times

    def take(self, change: Change) -> dict[str, float] | None:
        """What is known of `change`, which the bus has brought; None if it came from elsewhere."""
        return self._published.pop(change, None)


def _bound(times: dict[Change, float] | dict[Change, dict[str, float]]) -> None:
    if len(times) >= _MOST:
        del times[next(iter(times))]
