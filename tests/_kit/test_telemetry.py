"""Metrics and spans as an exporter receives them, the trace in a message, and failures that reach nobody."""

import itertools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, trace

from tests.telemetry import collect, provide
from tidings import __version__
from tidings._kit.telemetry import METRICS, SECONDS, measure, start_span, trace_meta, trace_of, within

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
DOCS = Path(__file__).parents[2] / "docs"


def test_each_metric_has_a_unit_a_description_and_fitting_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = collect(monkeypatch)
    for name in METRICS:
        measure(name, 0.002)

    [scope] = collector.scopes()
    assert (scope.scope.name, scope.scope.version) == ("tidings", __version__)
    found = {metric.name: metric for metric in scope.metrics}
    assert found.keys() == METRICS.keys()
    for name, (kind, unit, description) in METRICS.items():
        assert (found[name].unit, found[name].description) == (unit, description)
        [point] = found[name].data.data_points
        assert ("bucket_counts" in dir(point)) is (unit == "s") is (kind == "histogram")
        if kind == "histogram":
            assert point.explicit_bounds == SECONDS
        else:
            assert found[name].data.is_monotonic is (kind != "up_down_counter")


def test_buckets_tell_durations_apart_from_fifty_microseconds_to_half_a_minute() -> None:
    assert SECONDS[0] == 0.00005
    assert list(SECONDS) == sorted(set(SECONDS))
    assert {0.001, 0.0025, 0.005, 30} < set(SECONDS)
    assert all(above <= 3 * below for below, above in itertools.pairwise(SECONDS) if above <= 30)


def test_the_documentation_lists_exactly_the_metrics_that_there_are() -> None:
    rows = re.findall(r"^\| `((?:tidings|mcp)\.[\w.]+)` \| (\w[\w -]*) \| `([^`]+)` \|", page(), re.MULTILINE)
    kinds = {"up_down_counter": "up-down counter"}
    assert {name: (kind, unit) for name, kind, unit in rows} == {
        name: (kinds.get(kind, kind), unit) for name, (kind, unit, _) in METRICS.items()
    }


def page() -> str:
    return (DOCS / "production.md").read_text("utf-8")


class Broken:
    """Raises whatever is done with it."""

    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError("on purpose")


@pytest.mark.parametrize("provider", [lambda *_: Broken(), lambda *_: 1 / 0], ids=["instrument", "provider"])
def test_a_failure_reaches_nobody_and_is_logged_once_for_each_kind(
    provider: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    provide(monkeypatch, provider, provider)
    for _ in range(3):
        measure("tidings.merges")
        measure("tidings.deliveries", 2)
        assert start_span("change_notifier.subscribe", {}) is None
    logged = [record.getMessage() for record in caplog.records]
    kinds = ["tidings.merges", "tidings.deliveries", "change_notifier.subscribe"]
    assert logged == [f"Telemetry failed on {kind}; this is logged once" for kind in kinds]


def test_a_trace_goes_into_a_message_and_comes_out_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = collect(monkeypatch)
    assert trace_meta() == {}
    with collector.tracer.start_as_current_span("program") as span, within(baggage.set_baggage("user", "ann")):
        meta = trace_meta()
    assert meta.keys() == {"traceparent"}, "baggage is for the publisher's own servers"
    with within(trace_of({"other": {}, **meta, "tracestate": "vendor=1"})):
        assert trace.get_current_span().get_span_context().span_id == span.get_span_context().span_id
        assert trace_meta() == {**meta, "tracestate": "vendor=1"}
    assert trace_meta() == {}


@pytest.mark.parametrize(
    "parent", [None, 7, ["00"], {}, "", "nonsense", PARENT.replace("4bf92f", "xyzxyz"), PARENT[:-1]]
)
def test_a_message_with_no_valid_trace_changes_nothing(
    parent: object, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    collector = collect(monkeypatch)
    with collector.tracer.start_as_current_span("program"):
        before = trace_meta()
        with within(trace_of({"traceparent": parent, "tracestate": 7})):
            assert trace_meta() == before
    assert not caplog.records


def test_what_needs_no_telemetry_does_not_import_it() -> None:
    code = "import sys, tidings, tidings.cli.oneshot, tidings.cli.wire_client; print('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"
