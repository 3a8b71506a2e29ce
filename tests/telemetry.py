"""An exporter in memory for everything that Tidings measures and traces within one test."""

from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tidings._kit import telemetry

Points = dict[str, dict[tuple[tuple[str, Any], ...], Any]]


@dataclass
class Collector:
    """What was exported so far."""

    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader
    tracer: trace.Tracer
    """For the spans of the program that uses Tidings."""

    @property
    def spans(self) -> list[tuple[str, dict[str, Any]]]:
        return [(span.name, dict(span.attributes or {})) for span in self.exporter.get_finished_spans()]

    def scopes(self) -> list[Any]:
        data = self.reader.get_metrics_data()
        return [scope for resource in (data.resource_metrics if data else ()) for scope in resource.scope_metrics]

    def points(self) -> Points:
        """For each metric and each set of attributes its value; for a histogram, how often it was recorded."""
        return {
            metric.name: {
                tuple(sorted(point.attributes.items())): point.count if hasattr(point, "count") else point.value
                for point in metric.data.data_points
            }
            for scope in self.scopes()
            for metric in scope.metrics
        }

    def values(self, **attributes: Any) -> dict[str, Any]:
        """The values of all metrics, of which each has these attributes and no others."""
        key = tuple((name.replace("__", "."), value) for name, value in sorted(attributes.items()))
        found: dict[str, Any] = {}
        for name, points in self.points().items():
            ((about, found[name]),) = points.items()
            assert about == key
        return found


def collect(monkeypatch: pytest.MonkeyPatch) -> Collector:
    """Gives Tidings a tracer and a meter of its own, until the test ends."""
    exporter, reader, tracers = InMemorySpanExporter(), InMemoryMetricReader(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    provide(monkeypatch, tracers.get_tracer, MeterProvider(metric_readers=[reader]).get_meter)
    return Collector(exporter, reader, tracers.get_tracer("program"))


def provide(monkeypatch: pytest.MonkeyPatch, get_tracer: Any, get_meter: Any) -> None:
    monkeypatch.setattr(trace, "get_tracer", get_tracer)
    monkeypatch.setattr(metrics, "get_meter", get_meter)
    monkeypatch.setattr(telemetry, "_made", {})
    monkeypatch.setattr(telemetry, "_failed", set())
