"""What a client measures, as an exporter receives it, and that a read belongs to the trace of the change it follows."""

from typing import Any

import anyio
import mcp.shared._otel
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, CallToolResult, TextContent
from opentelemetry import trace

from tests.client.library import ERAS, SECONDS, Library, connected, eventually, hear, on_the_web
from tests.telemetry import Collector, collect
from tidings import ResourceUpdated, connect
from tidings._kit.tasks import Wakeup
from tidings.client import Backoff, ClientConfig
from tidings.client.events import ResourceContentChanged, StateChanged
from tidings.client.watching import Refresher
from tidings.errors import RequestFailed, RequestTimedOut

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

ONE, TWO = "note://1", "note://2"
UPDATED = (("mcp.method.name", "notifications/resources/updated"),)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Collector:
    collector = collect(monkeypatch)
    monkeypatch.setattr(mcp.shared._otel, "_tracer", collector.tracer)  # That of requests.
    return collector


class TracedLibrary(Library):
    """Remembers the trace of each read, and of each look at its prompts."""

    def __init__(self) -> None:
        super().__init__()
        self.traces: list[int] = []

    async def _read(self, ctx: Any, params: Any) -> Any:
        self.traces.append(trace.get_current_span().get_span_context().trace_id)
        return await super()._read(ctx, params)

    async def _list_prompts(self, ctx: Any, params: Any) -> Any:
        self.traces.append(trace.get_current_span().get_span_context().trace_id)
        return await super()._list_prompts(ctx, params)

    async def call_tool(self, ctx: Any, params: Any) -> Any:
        await super().call_tool(ctx, params)
        return CallToolResult(content=[TextContent(text="no")], is_error=True)


async def test_requests_are_timed_by_method_and_outcome(collector: Collector) -> None:
    library = TracedLibrary()
    library.broken[TWO] = MCPError(INTERNAL_ERROR, "on purpose")
    library.gates["note://3"] = anyio.Event()
    async with connected(library) as client:
        await client.read_resource(ONE)
        await client.call_tool("t1")
        with pytest.raises(RequestFailed):
            await client.read_resource(TWO)
        with pytest.raises(RequestTimedOut):
            await client.read_resource("note://3", timeout=0.01)
    points = collector.points()["mcp.client.operation.duration"]
    read = ("mcp.method.name", "resources/read")
    failed = (("error.type", "-32603"), read, ("rpc.response.status_code", "-32603"))
    wanted = {
        (read,): 1,
        (("error.type", "tool_error"), ("gen_ai.tool.name", "t1"), ("mcp.method.name", "tools/call")): 1,
        failed: 1,
        (("error.type", "request-timed-out"), read): 1,
    }
    assert points | wanted == points


async def test_changes_their_lag_and_the_reads_that_follow_are_counted(collector: Collector) -> None:
    library = Library()
    async with connected(library) as client:
        contents = hear(client, ResourceContentChanged)
        await client.subscribe(ONE, refresh=True)
        await eventually(lambda: len(contents) == 1)
        await library.write(ONE, "b")
        await eventually(lambda: len(contents) == 2)
        points = collector.points()
        assert points["tidings.client.changes"] == {UPDATED: 1}
        assert points["tidings.client.delivery.lag"] == {UPDATED: 1}
        assert points["tidings.client.rereads"] == {(): 2}


async def test_a_change_without_times_counts_and_has_no_lag(collector: Collector) -> None:
    library = Library()
    async with connected(library) as client:
        updates = hear(client, ResourceUpdated)
        await client.subscribe(ONE)
        await library.live._core.bus.publish(ResourceUpdated(ONE))  # type: ignore[union-attr] # As another process does.
        await eventually(lambda: updates)
    assert collector.points()["tidings.client.changes"] == {UPDATED: 1}
    assert "tidings.client.delivery.lag" not in collector.points()


async def test_connections_and_attempts_to_get_one_back_are_counted(collector: Collector) -> None:
    config = ClientConfig(backoff=Backoff(delays=(0.01,)))

    def counted() -> tuple[Any, Any]:
        points = collector.points()
        return tuple(points.get(f"tidings.client.{name}", {}).get((), 0) for name in ("connections", "reconnects"))

    async with on_the_web(Library()) as url, connect(url, config=config) as client:
        assert counted() == (1, 0)
        states = hear(client, StateChanged)
        assert client._connection.link is not None
        client._connection.link.lose(RequestFailed("on purpose"))
        await eventually(lambda: states)
        assert counted()[0] == 0 or states[-1].new.value == "connected"
        with anyio.fail_after(SECONDS):
            while not client.connected:
                await client.reconnect()
        assert counted() == (1, 1)
    assert counted()[0] == 0


# The trace of a change


@ERAS
async def test_a_read_belongs_to_the_trace_of_the_change_that_it_follows(era: str, collector: Collector) -> None:
    library = TracedLibrary()
    async with on_the_web(library) as url, connect(url, era=era) as client:
        contents = hear(client, ResourceContentChanged)
        await client.subscribe([ONE, TWO], refresh=True)
        await eventually(lambda: len(contents) == 2)
        for number, uri in enumerate((ONE, TWO), 1):
            with collector.tracer.start_as_current_span("program") as span:
                await library.write(uri, "b")
            await eventually(lambda number=number: len(contents) == 2 + number)
            assert library.traces[-1] == span.get_span_context().trace_id
        await library.write(ONE, "c")
        await eventually(lambda: len(contents) == 5)
        assert library.traces[-1] not in library.traces[:-1]


@ERAS
async def test_a_list_is_loaded_again_in_the_trace_of_its_change(era: str, collector: Collector) -> None:
    library = TracedLibrary()
    library.prompts = ["p1"]
    async with on_the_web(library) as url, connect(url, era=era) as client:
        await client.wait_fresh()
        library.prompts = ["p2"]
        with collector.tracer.start_as_current_span("program") as span:
            await library.notify.prompts_changed()
        await eventually(lambda: [prompt.name for prompt in client.prompts] == ["p2"])
        assert library.traces[-1] == span.get_span_context().trace_id


async def test_reads_that_wait_for_each_other_keep_their_own_traces(collector: Collector) -> None:
    read: dict[str, int] = {}

    async def remember(uri: str) -> None:
        read[uri] = trace.get_current_span().get_span_context().trace_id

    refresher = Refresher(remember, failed=lambda *_: None, wakeup=Wakeup(), at_once=1)
    spans: dict[str, trace.Span] = {}
    for uri in (ONE, TWO):
        with collector.tracer.start_as_current_span("program") as spans[uri]:
            refresher.want(uri)
    refresher.want("note://3")
    await eventually(lambda: len(read) == 3)
    assert read == {uri: span.get_span_context().trace_id for uri, span in spans.items()} | {"note://3": 0}


async def test_the_handler_of_an_event_runs_in_the_trace_of_the_change(collector: Collector) -> None:
    library, heard = Library(), list[int]()
    async with connected(library) as client:
        client.on(ResourceUpdated, lambda _: heard.append(trace.get_current_span().get_span_context().trace_id))
        await client.subscribe(ONE)
        with collector.tracer.start_as_current_span("program") as span:
            await library.write(ONE, "b")
        await library.write(ONE, "c")
        await eventually(lambda: len(heard) == 2)
    assert heard == [span.get_span_context().trace_id, 0]
