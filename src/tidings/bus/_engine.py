"""What a bus knows of the server behind it: whether it answers, since when, and how many changes wait for it.

Each change of that is logged once. The metrics go through the OpenTelemetry API alone: the user brings the SDK and the
exporter. Nothing that a meter raises reaches a publisher; each kind of failure is logged once. All of them have the
attribute `bus`: "redis" or "nats".

| metric | counts |
|---|---|
| `tidings.bus.connected` | buses whose server answers now |
| `tidings.bus.waiting` | changes that are not yet stored |
| `tidings.bus.published` | changes stored |
| `tidings.bus.publish.duration` | seconds until those who published were answered |
| `tidings.bus.outages` | times that the server went out of reach |
| `tidings.bus.losses` | times that listeners were told that anything may have changed |
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from opentelemetry import metrics

from tidings.bus import BusState

logger = logging.getLogger(__name__)


class Engine:
    """The server behind a bus of a `kind`, found at `place`: a text for people, without secrets."""

    def __init__(self, kind: str, place: str, *, clock: Callable[[], float] = time.time) -> None:
        self.place = place
        self._clock = clock
        self._kind = kind
        self._state = BusState(connected=False, since=clock(), waiting=0, reason="it was not entered yet")
        self._failed: set[str] = set()
        self._attributes = {"bus": kind}
        try:
            self._create(metrics.get_meter("tidings"))
        except Exception:
            logger.exception("this bus is not metered")
            self._create(metrics.NoOpMeter("tidings"))

    def _create(self, meter: metrics.Meter) -> None:
        self._connected = meter.create_up_down_counter("tidings.bus.connected", unit="{bus}")
        self._waiting = meter.create_up_down_counter("tidings.bus.waiting", unit="{change}")
        self._published = meter.create_counter("tidings.bus.published", unit="{change}")
        self._duration = meter.create_histogram("tidings.bus.publish.duration", unit="s")
        self._outages = meter.create_counter("tidings.bus.outages", unit="{outage}")
        self._losses = meter.create_counter("tidings.bus.losses", unit="{loss}")

    @property
    def state(self) -> BusState:
        return self._state

    @property
    def connected(self) -> bool:
        return self._state.connected

    @property
    def reason(self) -> str:
        """Why it is away."""
        return self._state.reason

    def entered(self) -> None:
        """It answers for the first time, which is no news to anybody."""
        self._set(connected=True)

    def back(self) -> None:
        """It answers."""
        if not self.connected:
            away = self._clock() - self._state.since
            logger.warning("the bus at %s is back after %.1f s, and changes go out again", self.place, away)
            self._set(connected=True)

    def away(self, reason: str) -> None:
        """It does not answer, or not as it should."""
        if self.connected:
            logger.warning("the bus at %s is out of reach, and changes wait: %s", self.place, reason)
            self._add("outages", self._outages, 1)
        self._set(connected=False, reason=reason)

    def left(self, lost: int) -> None:
        """Nobody uses it any more; `lost` changes never reached it."""
        if lost:
            logger.error("%d changes could not be published before the bus at %s was left", lost, self.place)
        self.waiting(0)
        self._set(connected=False, reason="it was left")

    def waiting(self, count: int) -> None:
        """So many changes are not yet stored."""
        if count != self._state.waiting:
            self._add("waiting", self._waiting, count - self._state.waiting)
            state = self._state
            self._state = BusState(state.connected, state.since, count, state.reason)

    def stored(self, count: int, seconds: float) -> None:
        """So many changes were stored, which took so long."""
        self._add("published", self._published, count)
        self._safely("duration", self._duration.record, seconds, self._attributes)

    def lost(self, place: object) -> None:
        """What happened in between cannot be said; listeners are told at `place`."""
        logger.warning("the bus at %s cannot say what changed before %s: anything may have", self.place, place)
        self._add("losses", self._losses, 1)

    def _set(self, *, connected: bool, reason: str = "") -> None:
        before = self._state
        if connected != before.connected:
            self._add("connected", self._connected, 1 if connected else -1)
        since = before.since if connected == before.connected else self._clock()
        self._state = BusState(connected, since, before.waiting, reason)

    def _add(self, what: str, counter: metrics.Counter | metrics.UpDownCounter, amount: int) -> None:
        self._safely(what, counter.add, amount, self._attributes)

    def _safely(self, what: str, call: Callable[..., Any], *arguments: Any) -> None:
        try:
            call(*arguments)
        except Exception:
            if what not in self._failed:
                self._failed.add(what)
                logger.exception("telemetry failed on %s; this is said once", what)
