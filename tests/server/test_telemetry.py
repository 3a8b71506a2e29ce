"""What a live server tells of itself, as an exporter receives it, and that its failures stay with it."""

import logging
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.server.doubles import Reader
from tidings.bus.memory import MemoryBus
from tidings.changes import ResourceUpdated, ToolsListChanged
from tidings.server.config import Limits
from tidings.server.core import Core
from tidings.server.policy import SubscriptionPolicy
from tidings.server.telemetry import Telemetry

pytestmark = pytest.mark.anyio

A = ResourceUpdated("note://a")


@dataclass
class Collector:
    """What was exported so far."""

    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader

    @property
    def spans(self) -> list[tuple[str, dict[str, Any]]]:
        return [(span.name, dict(span.attributes or {})) for span in self.exporter.get_finished_spans()]

    def metrics(self) -> dict[str, Any]:
        data = self.reader.get_metrics_data()
        return {
            metric.name: point.count if hasattr(point, "count") else point.value
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
        }


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Collector:
    collector = Collector(InMemorySpanExporter(), InMemoryMetricReader())
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(collector.exporter))
    meters = MeterProvider(metric_readers=[collector.reader])
    monkeypatch.setattr(trace, "get_tracer", tracers.get_tracer)
    monkeypatch.setattr(metrics, "get_meter", meters.get_meter)
    return collector


def started() -> Core:
    core = Core(MemoryBus(), SubscriptionPolicy(limits=Limits()))
    core.start()
    return core


def joined(core: Core, reader: Reader) -> Reader:
    core.join(reader)
    reader.open()
    return reader


async def test_a_subscriber_is_told_of_from_its_coming_to_its_going(collector: Collector) -> None:
    core = started()
    reader = joined(core, Reader("note://a", features=["tools"], client="editor 2.1"))
    await core.subscribe(reader, "note://*")
    core.unsubscribe(reader, "note://a")
    core.leave(reader)
    core.leave(reader)
    editor = {"client": "editor 2.1"}
    assert collector.spans == [
        ("change_notifier.subscribe", {**editor, "uri": "note://a", "subscriber_count": 1}),
        ("change_notifier.subscribe", {**editor, "feature": "tools", "subscriber_count": 1}),
        ("change_notifier.subscribe", {**editor, "uri": "note://*", "subscriber_count": 1}),
        ("change_notifier.unsubscribe", {**editor, "uri": "note://a", "subscriber_count": 0}),
        ("change_notifier.cleanup_client", {**editor, "subscriber_count": 0}),
    ]


async def test_a_change_is_told_of_with_how_many_heard_of_it(collector: Collector) -> None:
    core = started()
    for name in ("note://a", "note://*", "note://b"):
        joined(core, Reader(name, features=["tools"]))
    collector.exporter.clear()
    await core.publish(A)
    await core.publish(ToolsListChanged())
    assert collector.spans == [
        ("change_notifier.notify_resource_updated", {"uri": "note://a", "subscriber_count": 2}),
        ("change_notifier.notify_list_changed", {"feature": "tools", "subscriber_count": 3}),
    ]


async def test_subscribers_and_deliveries_are_counted_and_timed(collector: Collector) -> None:
    core = started()
    readers = [joined(core, Reader("note://a")) for _ in range(3)]
    core.leave(readers.pop())
    for _ in range(2):
        await core.publish(A)
    assert collector.metrics() == {
        "tidings.subscribers": 2,
        "tidings.deliveries": 4,
        "tidings.delivery.duration": 2,
    }


async def test_merges_and_cut_offs_are_counted(collector: Collector) -> None:
    core = started()
    reader = Reader("note://a", telemetry=core.telemetry)
    core.join(reader)
    for _ in range(3):
        await core.publish(A)
    reader.open()
    reader.cut("it must go")
    measured = collector.metrics()
    assert measured["tidings.merges"] == 2
    assert measured["tidings.cutoffs"] == 1


class Broken:
    """Raises whatever is done with it, and counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def _raise(self, *_: object, **__: object) -> None:
        self.calls += 1
        raise RuntimeError("the exporter is broken")

    start_span = set_attribute = end = add = record = _raise


async def test_a_broken_tracer_and_meter_reach_nobody_and_are_logged_once_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    core = started()
    broken: Any = Broken()
    telemetry = core.telemetry
    telemetry._tracer = telemetry._subscribers = telemetry._deliveries = broken
    telemetry._merges = telemetry._cutoffs = telemetry._duration = broken

    async def live() -> Reader:
        reader = Reader("note://a", telemetry=telemetry)
        core.join(reader)
        for change in (A, A, ToolsListChanged()):
            await core.publish(change)
        reader.open()
        await core.subscribe(reader, "note://b")
        core.unsubscribe(reader, "note://b")
        reader.cut("it must go")
        core.leave(reader)
        return reader

    with anyio.fail_after(5):
        for _ in range(3):
            reader = await live()
            assert reader.written == [A]
            assert reader.events == ["cut"]
    logged = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert broken.calls > len(logged)
    assert sorted(logged) == sorted(set(logged))
    assert all("the exporter is broken" in (record.exc_text or "") for record in caplog.records if record.exc_info)
    # Five kinds of spans and five metrics.
    assert len(logged) == 10


async def test_a_span_that_breaks_halfway_reaches_nobody() -> None:
    class HalfBroken:
        def start_span(self, *_: object, **__: object) -> Any:
            return Broken()

    core = started()
    reader = joined(core, Reader("note://a"))
    core.telemetry._tracer = HalfBroken()  # type: ignore[assignment]
    await core.publish(A)
    assert reader.written == [A]


def test_a_failure_while_a_change_is_handed_out_ends_its_span(collector: Collector) -> None:
    def fail() -> int:
        raise LookupError

    with pytest.raises(LookupError):
        Telemetry().delivery(fail, "notify_resource_updated", uri="note://a")
    assert collector.spans == [("change_notifier.notify_resource_updated", {"uri": "note://a"})]


async def test_without_an_sdk_nothing_is_told_and_everything_works() -> None:
    core = started()
    reader = joined(core, Reader("note://a"))
    await core.publish(A)
    assert reader.written == [A]
