"""Spans and metrics, through the OpenTelemetry API alone: the user brings the SDK and the exporter.

Nothing that a tracer or a meter raises reaches a subscriber or a publisher. Each kind of failure is logged once.

| span | attributes |
|---|---|
| `change_notifier.subscribe`, `.unsubscribe` | `client`, `uri` or `feature`, `subscriber_count` |
| `change_notifier.cleanup_client` | `client`, `subscriber_count` |
| `change_notifier.notify_list_changed` | `feature`, `subscriber_count` |
| `change_notifier.notify_resource_updated` | `uri`, `subscriber_count` |

| metric | counts |
|---|---|
| `tidings.subscribers` | who is subscribed now |
| `tidings.deliveries` | changes handed to subscribers |
| `tidings.merges` | changes absorbed by a later equal one |
| `tidings.cutoffs` | streams ended because their reader stalled or fell behind |
| `tidings.delivery.duration` | seconds to hand one change to all who asked for it |
"""

import logging
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from opentelemetry import metrics, trace

logger = logging.getLogger(__name__)


class Telemetry:
    """What a live server tells of itself."""

    def __init__(self) -> None:
        self._failed: set[str] = set()
        self._tracer = self._safely("tracer", trace.get_tracer, "tidings") or trace.NoOpTracer()
        try:
            self._create(metrics.get_meter("tidings"))
        except Exception:
            logger.exception("this server is not metered")
            self._create(metrics.NoOpMeter("tidings"))

    def _create(self, meter: metrics.Meter) -> None:
        self._subscribers = meter.create_up_down_counter("tidings.subscribers", unit="{subscriber}")
        self._deliveries = meter.create_counter("tidings.deliveries", unit="{delivery}")
        self._merges = meter.create_counter("tidings.merges", unit="{change}")
        self._cutoffs = meter.create_counter("tidings.cutoffs", unit="{stream}")
        self._duration = meter.create_histogram("tidings.delivery.duration", unit="s")

    def span(self, name: str, **attributes: str | int) -> None:
        """Tell of something that has just been done."""
        self._safely(name, lambda: self._tracer.start_span(f"change_notifier.{name}", attributes=attributes).end())

    def joined(self) -> None:
        self._safely("subscribers", self._subscribers.add, 1)

    def left(self) -> None:
        self._safely("subscribers", self._subscribers.add, -1)

    def merged(self) -> None:
        self._safely("merges", self._merges.add, 1)

    def cut(self) -> None:
        self._safely("cutoffs", self._cutoffs.add, 1)

    @contextmanager
    def delivering(self, name: str, **attributes: str | int) -> Generator[Callable[[int], None]]:
        """A span around handing one change to its subscribers; call what it yields with their number."""
        span = self._safely(name, lambda: self._tracer.start_span(f"change_notifier.{name}", attributes=attributes))
        began = time.perf_counter()

        def delivered(count: int) -> None:
            self._safely("deliveries", self._deliveries.add, count)
            self._safely("duration", self._duration.record, time.perf_counter() - began)
            if span is not None:
                self._safely(name, span.set_attribute, "subscriber_count", count)

        try:
            yield delivered
        finally:
            if span is not None:
                self._safely(name, span.end)

    def _safely(self, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Exception:
            if what not in self._failed:
                self._failed.add(what)
                logger.exception("telemetry failed on %s; this is said once", what)
            return None
