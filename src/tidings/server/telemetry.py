"""Spans and metrics through the OpenTelemetry API. The user installs the SDK and the exporter.

Errors of a tracer or a meter never reach a subscriber or a publisher. Each kind of failure is logged once.

| span | attributes |
|---|---|
| `change_notifier.subscribe`, `.unsubscribe` | `client`, `uri` or `feature`, `subscriber_count` |
| `change_notifier.cleanup_client` | `client`, `subscriber_count` |
| `change_notifier.notify_list_changed` | `feature`, `subscriber_count` |
| `change_notifier.notify_resource_updated` | `uri`, `subscriber_count` |

`subscriber_count` is the number of subscribers, in this process, of what the span names: its `uri` or `feature`, in a
notification also through prefixes. Where it names neither, of everything.

| metric | counts |
|---|---|
| `tidings.subscribers` | subscribers at present |
| `tidings.sessions` | old-era sessions at present |
| `tidings.deliveries` | changes delivered to subscribers |
| `tidings.merges` | changes absorbed by a later equal one |
| `tidings.cutoffs` | streams ended because their reader stalled or fell behind |
| `tidings.delivery.duration` | seconds to deliver one change to all its subscribers |
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from opentelemetry import metrics, trace

logger = logging.getLogger(__name__)


class Telemetry:
    """The spans and metrics of one live server."""

    def __init__(self) -> None:
        self._failed: set[str] = set()
        self._tracer = self._safely("tracer", trace.get_tracer, "tidings") or trace.NoOpTracer()
        try:
            self._create(metrics.get_meter("tidings"))
        except Exception:
            logger.exception("This server has no metrics.")
            self._create(metrics.NoOpMeter("tidings"))

    def _create(self, meter: metrics.Meter) -> None:
        self._subscribers = meter.create_up_down_counter("tidings.subscribers", unit="{subscriber}")
        self._sessions = meter.create_up_down_counter("tidings.sessions", unit="{session}")
        self._deliveries = meter.create_counter("tidings.deliveries", unit="{delivery}")
        self._merges = meter.create_counter("tidings.merges", unit="{change}")
        self._cutoffs = meter.create_counter("tidings.cutoffs", unit="{stream}")
        self._duration = meter.create_histogram("tidings.delivery.duration", unit="s")

    def span(self, name: str, **attributes: str | int) -> None:
        """Records something that has just been done."""
        self._safely(name, lambda: self._tracer.start_span(f"change_notifier.{name}", attributes=attributes).end())

    def subscribers(self, change: int) -> None:
        self._safely("subscribers", self._subscribers.add, change)

    def sessions(self, change: int) -> None:
        self._safely("sessions", self._sessions.add, change)

    def merged(self) -> None:
        self._safely("merges", self._merges.add, 1)

    def cut(self) -> None:
        self._safely("cutoffs", self._cutoffs.add, 1)

    def delivery(self, deliver: Callable[[], int], name: str, **attributes: str | int) -> None:
        """Calls `deliver`, which delivers one change and returns the number of its subscribers, and records it."""
        span = self._safely(name, lambda: self._tracer.start_span(f"change_notifier.{name}", attributes=attributes))
        began = time.perf_counter()
        try:
            count = deliver()
            self._safely("deliveries", self._deliveries.add, count)
            self._safely("duration", self._duration.record, time.perf_counter() - began)
            if span is not None:
                self._safely(name, span.set_attribute, "subscriber_count", count)
        finally:
            if span is not None:
                self._safely(name, span.end)

    def _safely(self, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Exception:
            if what not in self._failed:
                self._failed.add(what)
                logger.exception("Telemetry failed on %s; this is logged once", what)
            return None
