"""What a live server tells of itself, as an exporter receives it, and that its failures stay with it."""

import json
import logging
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry.trace import format_trace_id

from tests.server.doubles import Reader
from tests.telemetry import Collector, collect, provide
from tidings.bus.memory import MemoryBus
from tidings.bus.sqlite import SqliteBus
from tidings.changes import TIMES_KEY, ResourceUpdated, ToolsListChanged
from tidings.server import LiveServer
from tidings.server.config import Coalesce, Limits
from tidings.server.core import Core, record_delivery
from tidings.server.notify import Times
from tidings.server.policy import SubscriptionPolicy
from tidings.server.subscriber import FRAME_END, Frame

pytestmark = pytest.mark.anyio

A = ResourceUpdated("note://a")
COUNT = "tidings.subscriber_count"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Collector:
    return collect(monkeypatch)


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
    editor = {"tidings.client": "editor 2.1"}
    assert collector.spans == [
        ("change_notifier.subscribe", {**editor, "mcp.resource.uri": "note://a", COUNT: 1}),
        ("change_notifier.subscribe", {**editor, "tidings.feature": "tools", COUNT: 1}),
        ("change_notifier.subscribe", {**editor, "mcp.resource.uri": "note://*", COUNT: 1}),
        ("change_notifier.unsubscribe", {**editor, "mcp.resource.uri": "note://a", COUNT: 0}),
        ("change_notifier.cleanup_client", {**editor, COUNT: 0}),
    ]


async def test_a_change_is_told_of_with_how_many_heard_of_it(collector: Collector) -> None:
    core = started()
    for name in ("note://a", "note://*", "note://b"):
        joined(core, Reader(name, features=["tools"]))
    collector.exporter.clear()
    await core.publish(A)
    await core.publish(ToolsListChanged())
    assert collector.spans == [
        ("change_notifier.notify_resource_updated", {"mcp.resource.uri": "note://a", COUNT: 2}),
        ("change_notifier.notify_list_changed", {"tidings.feature": "tools", COUNT: 3}),
    ]


async def test_subscribers_and_deliveries_are_counted_and_timed(collector: Collector) -> None:
    core = started()
    readers = [joined(core, Reader("note://a")) for _ in range(3)]
    core.leave(readers.pop())
    for _ in range(2):
        await core.publish(A)
    assert collector.values() == {
        "tidings.subscribers": 2,
        "tidings.deliveries": 4,
        "tidings.delivery.duration": 2,
        "tidings.delivery.lag": 2,
    }


async def test_the_lag_counts_from_the_first_of_the_merged_changes(collector: Collector) -> None:
    now = 1000.0
    core = started()
    core.times = Times(lambda: now)
    joined(core, Reader("note://a"))
    core.times.publishing(A)
    now += 1e12
    await core.publish(A)
    [metric] = [metric for scope in collector.scopes() for metric in scope.metrics if metric.name.endswith(".lag")]
    assert metric.data.data_points[0].sum > 1e9


async def test_only_what_this_process_published_and_somebody_got_has_a_lag(collector: Collector) -> None:
    core = started()
    joined(core, Reader("note://a"))
    await core.publish(ResourceUpdated("note://nobody"))
    await core.bus.publish(A)  # As if another process had: this one has noted no time.
    assert collector.values()["tidings.deliveries"] == 1
    assert "tidings.delivery.lag" not in collector.values()


async def test_merges_and_cut_offs_are_counted(collector: Collector) -> None:
    core = started()
    reader = Reader("note://a")
    core.join(reader)
    for _ in range(3):
        await core.publish(A)
    reader.open()
    reader.cut("it must go")
    measured = collector.values()
    assert measured["tidings.merges"] == 2
    assert measured["tidings.cutoffs"] == 1


# The trace of a publisher


def server(**options: Any) -> tuple[LiveServer[None], Core]:
    mcp: LiveServer[None] = LiveServer("traced", **options)
    return mcp, mcp._live._core


async def test_a_notification_carries_the_trace_of_its_publisher_to_all_subscribers(collector: Collector) -> None:
    mcp, core = server()
    frames: list[Frame] = []
    async with mcp._live.running():
        core.hub.deliver = lambda frame: frames.append(frame) or 1
        with collector.tracer.start_as_current_span("program") as span:
            await mcp.notify.resource_updated("note://a")
        await mcp.notify.tools_changed()
    traced, untraced = frames
    trace_id = format_trace_id(span.get_span_context().trace_id)
    for message in (traced.legacy, traced.modern + b"1" + FRAME_END):
        meta = json.loads(message.removeprefix(b"data: "))["params"]["_meta"]
        assert meta["traceparent"].split("-")[1] == trace_id
        assert meta[TIMES_KEY].keys() == {"published"}
        assert "baggage" not in meta
    assert traced.params()["_meta"]["traceparent"].split("-")[1] == trace_id
    assert "traceparent" not in untraced.params()["_meta"]


async def test_what_is_published_soon_has_the_trace_of_its_own_caller(collector: Collector) -> None:
    mcp, core = server()
    frames: dict[str, Frame] = {}
    done = anyio.Event()

    def deliver(frame: Frame) -> int:
        frames[frame.change.uri] = frame
        if len(frames) == 3:
            done.set()
        return 1

    async with mcp._live.running():
        core.hub.deliver = deliver
        spans: dict[str, Any] = {}
        for name in ("note://a", "note://b"):
            with collector.tracer.start_as_current_span(name) as spans[name]:
                mcp.notify.soon(ResourceUpdated(name))
        mcp.notify.soon(ResourceUpdated("note://c"))
        with anyio.fail_after(5):
            await done.wait()
    for name, span in spans.items():
        sent = frames[name].params()["_meta"]["traceparent"].split("-")[1]
        assert sent == format_trace_id(span.get_span_context().trace_id)
    assert "traceparent" not in frames["note://c"].params()["_meta"]


async def test_the_span_of_a_notification_belongs_to_the_trace_of_its_publisher(
    collector: Collector, tmp_path: Path
) -> None:
    mcp, core = server(bus=SqliteBus(tmp_path / "bus.db"), coalesce=Coalesce(window=0, max_wait=0))
    delivered = anyio.Event()
    async with mcp._live.running():
        core.hub.deliver = lambda frame: delivered.set() or 1 if frame.change == A else 0
        with collector.tracer.start_as_current_span("program") as span:
            await mcp.notify.resource_updated("note://a")
        with anyio.fail_after(5):
            await delivered.wait()
    finished = {each.name: each for each in collector.exporter.get_finished_spans()}
    notified = finished["change_notifier.notify_resource_updated"]
    assert notified.parent is not None
    assert notified.parent.span_id == span.get_span_context().span_id


# Failures


class Broken:
    """Raises whatever is done with it, and counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def _raise(self, *_: object, **__: object) -> None:
        self.calls += 1
        raise RuntimeError("the exporter is broken")

    def _made(self, *_: object, **__: object) -> "Broken":
        return self

    start_span = set_attribute = end = add = record = _raise
    create_counter = create_up_down_counter = create_histogram = _made


async def test_a_broken_tracer_and_meter_reach_nobody_and_are_logged_once_each(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Broken()
    provide(monkeypatch, broken._made, broken._made)
    core = started()

    async def live() -> Reader:
        reader = Reader("note://a")
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
    # Five kinds of spans and six metrics.
    assert len(logged) == 11


async def test_a_span_that_breaks_halfway_reaches_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    class HalfBroken(Broken):
        def start_span(self, *_: object, **__: object) -> Any:
            return Broken()

    provide(monkeypatch, lambda *_: HalfBroken(), HalfBroken()._made)
    core = started()
    reader = joined(core, Reader("note://a"))
    await core.publish(A)
    assert reader.written == [A]


def test_a_failure_while_a_change_is_handed_out_ends_its_span(collector: Collector) -> None:
    def fail() -> int:
        raise LookupError

    with pytest.raises(LookupError):
        record_delivery(fail, A, None)
    assert collector.spans == [("change_notifier.notify_resource_updated", {"mcp.resource.uri": "note://a"})]


async def test_without_an_sdk_nothing_is_told_and_everything_works() -> None:
    core = started()
    reader = joined(core, Reader("note://a"))
    await core.publish(A)
    assert reader.written == [A]
