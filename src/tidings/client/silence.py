"""`StreamSilence`: notices that a stream of changes is silent for longer than a live one would be.

A connection can be dead without either end being told: a proxy has forgotten it, or the server's process is stopped.
Only the keep-alives that do not come show that. A Tidings server states their interval with each stream. That of any
other server is learned from two keep-alives in a row. A stream without any has `Timeouts.silence`.

The time in which this process itself stood still does not count: what was sent meanwhile is about to arrive.
"""

import asyncio
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Final

from tidings.client.config import Timeouts

# Makes what watches a stream, from the stated interval and the function to call when it is lost.
WatchStream = Callable[[float | None, Callable[[float], None]], "StreamSilence"]

_OVERDUE: Final = 1.25  # After so many intervals, nobody vouches for what the stream has announced.
_LOST: Final = 2.5  # After so many, the stream is lost.
_LEAST_INTERVAL: Final = 2.0  # Seconds. Keep-alives that come more often are delayed by a busy machine.
_LONGEST_INTERVAL: Final = 3600.0  # Seconds. A server that states a longer one would not be watched.
_STANDSTILL: Final = 1.0  # Seconds. A timer that fires later than that shows that this process stood still.
_EARLY: Final = 0.01  # Seconds by which a timer may fire too early.
_BUSY_PAUSE: Final = 1.0  # Seconds until a server is looked at again that is busy with a request.


def stated_interval(header: str | None) -> float | None:
    """Returns the seconds between keep-alives that a server states; None if it does not."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return seconds if 0 < seconds <= _LONGEST_INTERVAL else None


@dataclass(eq=False, repr=False)
class StreamSilence:
    """Watches one stream until `stop` is called. `heard_again` is called when it is overdue no more.

    A server that `is_busy` with a request may be silent for twice the limit, or for the time of a request if that is
    more: many servers do one thing at a time.
    """

    interval: float | None
    lost: Callable[[float], None]
    _: KW_ONLY
    timeouts: Timeouts
    is_busy: Callable[[], bool]
    heard_again: Callable[[], None]

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._learns = self.interval is None
        self._was_keep_alive = False
        self._last = self._loop.time()
        self._stood_still = False
        self.is_overdue = False
        self._timer = self._loop.call_at(self._last + self._after(_OVERDUE), self._look)

    def _after(self, intervals: float) -> float:
        return self.timeouts.silence if self.interval is None else max(self.interval, _LEAST_INTERVAL) * intervals

    def heard(self, data: bytes) -> None:
        """Takes note of what has arrived. Anything shows that the stream lives."""
        now, is_keep_alive = self._loop.time(), data.startswith(b":")
        if self._learns and is_keep_alive and self._was_keep_alive:
            self.interval = min(max(self.interval or 0.0, now - self._last), _LONGEST_INTERVAL)
        self._last, self._was_keep_alive, self._stood_still = now, is_keep_alive, False
        if self._timer.when() > now + self._after(_LOST):
            self._wait_until(now + self._after(_OVERDUE))
        if self.is_overdue:
            self.is_overdue = False
            self.heard_again()

    def stop(self) -> None:
        self._timer.cancel()

    def _wait_until(self, when: float) -> None:
        self._timer.cancel()
        self._timer = self._loop.call_at(when, self._look)

    def _look(self) -> None:
        now, limit = self._loop.time(), self._after(_LOST)
        silent = now - self._last + _EARLY
        self.is_overdue = silent >= self._after(_OVERDUE)
        if not self.is_overdue:
            self._wait_until(self._last + self._after(_OVERDUE))
        elif now > self._timer.when() + _STANDSTILL and not self._stood_still:
            self._stood_still = True
            self._wait_until(now + _STANDSTILL)
        elif silent < limit:
            self._wait_until(self._last + limit)
        elif self.is_busy() and silent < max(2 * limit, self.timeouts.request):
            self._wait_until(now + _BUSY_PAUSE)
        else:
            self.lost(silent)
