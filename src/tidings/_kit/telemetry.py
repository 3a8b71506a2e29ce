"""Spans and metrics through the OpenTelemetry API. An error of it never reaches the caller, and is logged once.

An instrument is made once for the whole process: until an SDK is set, the API keeps everything that was made.
"""

import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal, NamedTuple

from opentelemetry import context, metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tidings._version import __version__

logger = logging.getLogger(__name__)

Attributes = Mapping[str, str | int | bool]
Trace = Context  # The span to which the next ones belong.

SCOPE: Final = "tidings"
NO_TRACE: Final = Trace()
# The bounds of buckets for durations: from a write into a local stream to the longest request.
# fmt: off
SECONDS: Final = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1, 2.5, 5, 10, 30, 60, 300,
)
# fmt: on


class Metric(NamedTuple):
    """A declared instrument."""

    kind: Literal["counter", "up_down_counter", "histogram"]
    unit: str
    description: str


METRICS: Final = {
    "tidings.subscribers": Metric("up_down_counter", "{subscriber}", "Subscribers at present."),
    "tidings.sessions": Metric("up_down_counter", "{session}", "Sessions of the legacy era at present."),
    "tidings.deliveries": Metric("counter", "{delivery}", "Changes delivered, once for each subscriber."),
    "tidings.merges": Metric("counter", "{change}", "Changes absorbed by a later equal one."),
    "tidings.cutoffs": Metric("counter", "{stream}", "Streams ended because their reader stalled or fell behind."),
    "tidings.delivery.duration": Metric("histogram", "s", "Time to deliver one change to all its subscribers."),
    "tidings.delivery.lag": Metric(
        "histogram", "s", "Time from the publishing of a change in this process until it was written to the streams."
    ),
    "tidings.bus.connected": Metric("up_down_counter", "{bus}", "Buses that can be used now."),
    "tidings.bus.waiting": Metric("up_down_counter", "{change}", "Changes that are not stored yet."),
    "tidings.bus.published": Metric("counter", "{change}", "Changes stored."),
    "tidings.bus.publish.duration": Metric("histogram", "s", "Time from the sending of changes until they are stored."),
    "tidings.bus.outages": Metric("counter", "{outage}", "Times that the bus went out of reach."),
    "tidings.bus.losses": Metric(
        "counter", "{loss}", "Times that the log was lost, so that anything may have changed."
    ),
    "tidings.client.connections": Metric("up_down_counter", "{connection}", "Connections that are open now."),
    "tidings.client.reconnects": Metric("counter", "{attempt}", "Attempts to connect again."),
    "tidings.client.silences": Metric("counter", "{stream}", "Streams given up because nothing arrived on them."),
    "tidings.client.changes": Metric("counter", "{change}", "Changes received."),
    "tidings.client.delivery.lag": Metric(
        "histogram", "s", "Time from the publishing of a change, by the server's clock, until it was received."
    ),
    "tidings.client.rereads": Metric(
        "counter", "{read}", "Reads that keep content current: after a change, or when the content may have changed."
    ),
    "mcp.client.operation.duration": Metric("histogram", "s", "Time from the sending of a request until its answer."),
}

_made: dict[str, Any] = {}  # The tracer, and for each metric the method that records.
_failed: set[str] = set()
_w3c = TraceContextTextMapPropagator()


def safely(what: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the result of a call to OpenTelemetry; None if that failed."""
    try:
        return call(*arguments)
    except Exception:
        if what not in _failed:
            _failed.add(what)
            logger.exception("Telemetry failed on %s; this is logged once", what)
        return None


def measure(name: str, amount: float = 1, attributes: Attributes | None = None) -> None:
    """Adds `amount` to the metric, or records it."""
    record = _made.get(name)
    if record is None:
        record = _made[name] = safely(name, _recorder, name) or _nothing
    safely(name, record, amount, attributes)


def _nothing(amount: float, attributes: Attributes | None) -> None:
    """Takes the place of an instrument that could not be made."""


def _recorder(name: str) -> Callable[..., None]:
    meter, (kind, unit, description) = metrics.get_meter(SCOPE, __version__), METRICS[name]
    match kind:
        case "counter":
            return meter.create_counter(name, unit, description).add
        case "up_down_counter":
            return meter.create_up_down_counter(name, unit, description).add
        case "histogram":
            return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=SECONDS).record


def start_span(name: str, attributes: Attributes, parent: Trace | None = None) -> trace.Span | None:
    """Begins a span, which does not become the current one. End it with `safely`."""
    return safely(name, _start_span, name, attributes, parent)


def _start_span(name: str, attributes: Attributes, parent: Trace | None) -> trace.Span:
    tracer = _made.get(SCOPE)
    if tracer is None:
        tracer = _made[SCOPE] = trace.get_tracer(SCOPE, __version__)
    return tracer.start_span(name, parent, attributes=attributes)


def trace_meta() -> dict[str, str]:
    """Returns `traceparent` and `tracestate` of the current span, for the `_meta` of a message; nothing without one."""
    meta: dict[str, str] = {}
    safely("traceparent", _w3c.inject, meta)
    return meta


def trace_of(meta: Mapping[str, Any]) -> Trace | None:
    """Returns the trace context that the `_meta` of a message names."""
    if not isinstance(meta.get("traceparent"), str):
        return None
    found = safely("traceparent", _w3c.extract, {key: value for key, value in meta.items() if isinstance(value, str)})
    return found if found and trace.get_current_span(found).get_span_context().is_valid else None


current_trace: Final = context.get_current


@contextmanager
def within(found: Trace | None) -> Generator[None]:
    """Makes `found` the current trace context. With None, nothing changes."""
    if found is None:
        yield
        return
    token = context.attach(found)
    try:
        yield
    finally:
        context.detach(token)
