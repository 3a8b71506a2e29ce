"""`HttpHealth`: what HTTP answers say about a connection, and the legacy era's stream of notifications.

In the legacy era, notifications arrive on a stream of their own, which the SDK opens, and opens again when it ends. If
it cannot, it does not say so. That is noticed here, from the HTTP answers and from streams that never open.

A connection can be dead without either end being told: only the keep-alives that do not come show that
(`StreamSilence`). A Tidings server states their interval. That of any other is learned from two keep-alives in a row. A
stream without any has `Timeouts.silence`. The time in which this process itself stood still does not count.
"""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from tidings._kit.backoff import retry_after
from tidings._kit.telemetry import measure
from tidings.client.config import Timeouts
from tidings.client.failures import AWAY
from tidings.client.queue import QueueEntry
from tidings.errors import ConnectionLost, SessionExpired

if TYPE_CHECKING:
    from tidings.client.link import Link

_STREAM_AWAY: Final = 60.0  # Seconds within which the stream of notifications must be open again after it ended.
_MOST_FAILURES: Final = 2  # To open the first stream of notifications. Then the SDK gives up, and does not say so.
_LONGEST_WAIT: Final = 3600.0  # Seconds. A server that asks to wait for longer is asked again sooner.
LISTEN: Final = "subscriptions/listen"  # The modern request whose answer is a stream of changes.
_TELLING: Final = (401, 403, 429, *AWAY)  # Statuses that explain a failure best: a later status does not replace them.
_OVERDUE: Final = 1.25  # After so many intervals, nobody vouches for what the stream has announced.
_LOST: Final = 2.5  # After so many, the stream is lost.
_LEAST_INTERVAL: Final = 2.0  # Seconds. Keep-alives that come more often are delayed by a busy machine.
_LONGEST_INTERVAL: Final = 3600.0  # Seconds. A server that states a longer one would not be watched.
_STANDSTILL: Final = 1.0  # Seconds. A timer that fires later than that shows that this process stood still.
_EARLY: Final = 0.01  # Seconds by which a timer may fire too early.
_BUSY_PAUSE: Final = 1.0  # Seconds until a server is looked at again that is busy with a request.


def stated_interval(header: bytes | None) -> float | None:
    """Returns the seconds between keep-alives that a server states; None if it does not."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        return None
    return seconds if 0 < seconds <= _LONGEST_INTERVAL else None


@dataclass(eq=False, repr=False)
class StreamSilence:
    """Watches one stream until `stop` is called. `heard_again` is called when it is overdue no more."""

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
        # A server may do one thing at a time: one that works on a request may be silent for longer.
        elif self.is_busy() and silent < max(2 * limit, self.timeouts.request):
            self._wait_until(now + _BUSY_PAUSE)
        else:
            self.lost(silent)


class HttpHealth:
    """Gets the outcome of each exchange with the web server. Of signing in, only the outcome is reported."""

    def __init__(
        self, owner: "Link", *, has_stream: bool, is_busy: Callable[[], bool], heard_again: Callable[[], None]
    ) -> None:
        self._owner, self._is_busy, self._heard_again = owner, is_busy, heard_again
        self._silences: list[StreamSilence] = []  # Of the streams that carry changes.
        self._waiting: asyncio.TimerHandle | None = None
        self._signing_in = 0
        self.status: int | None = None  # The last HTTP status, or an earlier one that explains more.
        self.first_status: int | None = None  # The status of the first answer.
        self.retry_after: float | None = None  # The seconds that the server asks to wait.
        self.broken: Exception | None = None  # The error that ended an exchange.
        self.stream_opened = asyncio.Event()  # Set when the stream of notifications is open; without HTTP, at once.
        self.begins_at_once = False  # The server begins its stream before the first notification.
        self.deaf = False  # The server offers no stream of notifications.
        self._failures = 0  # To open the first stream of notifications.
        self.stream_ended = False  # The stream of notifications has ended, and is not open again yet.
        # Called when the stream of notifications was opened anew: what was sent meanwhile is lost.
        self.on_stream_again: Callable[[], None] = lambda: None
        if has_stream:
            self.stream_opened.set()

    @property
    def somebody_signs_in(self) -> bool:
        """True if somebody may be signing in. Messages wait for that, so their silence means nothing."""
        return self._signing_in > 0

    @property
    def is_overdue(self) -> bool:
        """True if a stream of changes has been silent for longer than a live one would be."""
        return any(silence.is_overdue for silence in self._silences)

    def close(self) -> None:
        self._stop_waiting()
        for silence in self._silences:
            silence.stop()

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()

    def asked_to_wait(self, status: int, header: str | None) -> None:
        if status in (429, 503):
            wait = retry_after(header, datetime.now(UTC))
            self.retry_after = None if wait is None else min(wait, _LONGEST_WAIT)
        elif status < 400:
            self.retry_after = None

    def responded(self, call: QueueEntry | None, method: str, status: int, *, has_session: bool) -> None:
        """Notes an answer. `has_session`: the request named a session."""
        if self.status not in _TELLING:
            self.status = status
        if self.first_status is None:
            self.first_status = status
        if call is not None:
            call.http_status = status
        if method == "POST" and not has_session and self._owner.is_open and not self.stream_opened.is_set():
            self.deaf = True  # In the legacy era, a server without sessions has no stream.
            self.stream_opened.set()
        elif method == "GET" and status >= 300 and not self.stream_opened.is_set():
            # The right answer is 405, but one with 404 right after the handshake has no stream either.
            if status < 500 and status != 429:
                self.deaf = True
                self.stream_opened.set()
            else:
                self._not_opened(f"does not open its stream of notifications (HTTP {status}).")
        elif status == 404 and has_session:
            if call is not None:
                call.may_have_arrived = False
            name = self._owner.name
            self._owner.lose(SessionExpired(f"{name} no longer knows this session.", server=name))
        elif method == "GET" and status >= 400:
            self._lose(f"offers no stream any more (HTTP {status}).")

    def failed(self, call: QueueEntry | None, method: str, error: Exception, *, sent: bool) -> None:
        """Notes that there is no complete answer. `sent` is false if the request certainly did not reach the server."""
        if call is not None and not sent:
            call.may_have_arrived = False
        self.broken = error
        if method == "GET":
            how = f"is away: {type(error).__name__}"
            self._lose(how) if self.stream_opened.is_set() or not sent else self._not_opened(how)

    def stuck(self, seconds: float) -> None:
        self._lose(f"did not accept a message within {seconds:g} s.")

    def _lose(self, how: str) -> None:
        self._owner.lose(ConnectionLost(f"{self._owner.name} {how}", server=self._owner.name))

    def _not_opened(self, how: str) -> None:
        """Notes that the stream of notifications was not opened. The SDK tries once more, and then silently no more."""
        self._failures += 1
        if self._failures >= _MOST_FAILURES:
            self._lose(how)

    def signing_in(self, call: QueueEntry | None, *, busy: bool) -> None:
        """Notes that the `auth` object signs in, which may involve a person, or has done so."""
        self._signing_in += 1 if busy else -1
        if call is not None:
            call.hold() if busy else call.release()
        self._owner.stop_clock(is_so=self.somebody_signs_in)

    def held_back(self, call: QueueEntry | None, *, is_so: bool) -> None:
        """Notes that a request waits for an `auth` object, or does so no more."""
        if call is not None:
            call.held_back = is_so

    @contextmanager
    def stream_asked(self, method: str, interval: float | None) -> Generator[None]:
        """Watches a request for the stream of notifications. With an `interval`, the server begins each at once."""
        silence = None
        if method == "GET" and interval is not None:
            self.begins_at_once, silence = True, self._watch(interval)
        try:
            yield
        finally:
            self._unwatch(silence)

    def _watch(self, interval: float | None) -> StreamSilence:
        timeouts, heard_again = self._owner.config.timeouts, self._heard_again
        silence = StreamSilence(
            interval, self._silent, timeouts=timeouts, is_busy=self._is_busy, heard_again=heard_again
        )
        self._silences.append(silence)
        return silence

    def _unwatch(self, silence: StreamSilence | None) -> None:
        if silence is not None:
            silence.stop()
            self._silences.remove(silence)

    def stream_open(self, call: QueueEntry | None, method: str, interval: float | None) -> StreamSilence | None:
        """Notes that a stream of events has begun. If it carries changes, returns what watches it."""
        if method == "GET":
            self.stream_ended = False
            self._stop_waiting()
            if self.stream_opened.is_set():
                self.on_stream_again()
            self.stream_opened.set()
        elif call is None or call.method != LISTEN:
            return None
        return self._watch(interval)

    def _silent(self, seconds: float) -> None:
        measure("tidings.client.silences")
        self._lose(f"has sent nothing for {seconds:.0f} s on a stream of changes, not even a keep-alive.")

    def stream_over(self, method: str, silence: StreamSilence | None) -> None:
        """Notes that the stream of events has ended, in good order."""
        self._unwatch(silence)
        # A client that has given up waiting for the first stream reads again and again instead.
        if method == "GET" and not (self._owner.over or self.deaf):
            self.stream_ended = True
            self._stop_waiting()
            # After that, the SDK has silently given up opening it again.
            gone = "ended its stream of notifications for good."
            self._waiting = asyncio.get_running_loop().call_later(_STREAM_AWAY, self._lose, gone)
