"""Requests: in their turn, within their time, to be cancelled while they wait and while they run."""

import asyncio
import itertools
from typing import Any

import anyio
import pytest
from mcp.server.mcpserver import Context, MCPServer

from tests.client.library import ERAS, SECONDS, Library, connected, eventually, hear, on_the_web
from tidings.client import Backoff, ClientConfig, LiveClient, Status, Timeouts, connect
from tidings.client.events import RequestChanged, ToolCallResultChanged
from tidings.errors import Disconnected, RequestCancelled, RequestTimedOut

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]


def calls(client: LiveClient, count: int) -> list[asyncio.Task[Any]]:
    return [asyncio.create_task(client.call_tool("t1", {"number": number})) for number in range(count)]


def numbers(entries: Any) -> list[int]:
    return [entry.params["arguments"]["number"] for entry in entries if entry.method == "tools/call"]


@ERAS
async def test_one_request_runs_at_a_time_in_the_order_of_asking(era: str) -> None:
    library = Library()
    gate = library.gates["t1"] = anyio.Event()
    async with connected(library, era) as client:
        changes = hear(client, RequestChanged)
        running = calls(client, 5)
        await eventually(lambda: library.running["t1"])
        status = client.queue.status()
        assert (status.pending, status.in_progress) == (4, 1)
        assert numbers(client.queue) == [0, 1, 2, 3, 4]
        gate.set()
        with anyio.fail_after(SECONDS):
            await asyncio.gather(*running)
        assert library.most_running["t1"] == 1
        assert numbers(client.queue.history())[:5] == [4, 3, 2, 1, 0]
        assert numbers(client.queue.history(2)) == [4, 3]
        ended = [event.entry for event in changes if event.entry.over]
        assert numbers(dict.fromkeys(ended)) == [0, 1, 2, 3, 4]
        assert {entry.status for entry in ended} == {Status.COMPLETED}


@ERAS
async def test_as_many_run_at_once_as_are_allowed(era: str) -> None:
    library = Library()
    gate = library.gates["t1"] = anyio.Event()
    async with connected(library, era, config=ClientConfig(concurrency=3)) as client:
        running = calls(client, 5)
        await eventually(lambda: library.running["t1"] == 3)
        assert client.queue.status().pending == 2
        gate.set()
        with anyio.fail_after(SECONDS):
            await asyncio.gather(*running)
        assert library.most_running["t1"] == 3


@ERAS
async def test_the_history_is_as_long_as_it_may_be_and_the_status_counts_all(era: str) -> None:
    library = Library()
    async with connected(library, era, config=ClientConfig(history=3)) as client:
        before = client.queue.status()
        library.gates["t2"] = anyio.Event()
        with anyio.fail_after(SECONDS):
            for number in range(5):
                await client.call_tool("t1", {"number": number})
            with pytest.raises(RequestTimedOut):
                await client.call_tool("t2", {"number": 5}, timeout=0.01)
        after = client.queue.status()
        assert numbers(client.queue.history()) == [5, 4, 3]
        assert (after.completed - before.completed, after.failed, after.cancelled) == (5, 1, 0)
        entry, *_ = client.queue.history()
        assert entry.status is Status.ERROR
        assert isinstance(entry.error, RequestTimedOut)
        assert entry.created_at <= entry.started_at <= entry.completed_at
        assert client.queue.history()[1].result.content[0].text == "t1"


@pytest.mark.parametrize("transport", ["memory", "http"])
@ERAS
async def test_what_waits_and_what_runs_can_be_cancelled_and_the_server_learns_of_it(era: str, transport: str) -> None:
    library = Library()
    library.gates["t1"] = anyio.Event()
    async with on_the_web(library) as url, connect(url if transport == "http" else library.server, era=era) as client:
        told = hear(client, ToolCallResultChanged)
        first, second, third = calls(client, 3)
        await eventually(lambda: library.running["t1"])
        running, waiting, _ = client.queue
        assert client.queue.cancel(waiting.id)
        with anyio.fail_after(SECONDS), pytest.raises(RequestCancelled):
            await second
        assert library.cancelled == []
        assert client.queue.cancel(running.id)
        with anyio.fail_after(SECONDS), pytest.raises(RequestCancelled):
            await first
        await eventually(lambda: library.cancelled == ["t1"])
        await eventually(lambda: library.running["t1"] == 1)  # The third one's turn.
        third.cancel()
        await eventually(lambda: library.cancelled == ["t1", "t1"])
        assert not client.queue.cancel(running.id)
        assert client.queue.status().cancelled == 3
        assert [event.call.success for event in told] == [False, False]
        assert client.cache.get_tool_call_result("t1") is told[1].call
        with anyio.fail_after(SECONDS):
            assert (await client.read_resource("note://1")).text


@ERAS
async def test_a_request_that_takes_too_long_fails_alone(era: str) -> None:
    library = Library()
    library.gates["note://1"] = anyio.Event()
    config = ClientConfig(timeouts=Timeouts(request=0.05))
    async with connected(library, era, config=config) as client:
        with anyio.fail_after(SECONDS):
            with pytest.raises(RequestTimedOut, match="the connection stays open") as late:
                await client.read_resource("note://1")
            assert late.value.method == "resources/read"
            assert late.value.elapsed >= 0.05
            await eventually(lambda: library.cancelled == ["note://1"])
            with pytest.raises(RequestTimedOut):
                await client.read_resource("note://1", timeout=0.01)
            assert (await client.read_resource("note://2", timeout=SECONDS)).text
        assert client.connected


@ERAS
async def test_a_timeout_names_the_limit_that_was_reached(era: str) -> None:
    library = Library()
    library.gates["note://1"] = anyio.Event()
    config = ClientConfig(timeouts=Timeouts(request=60, total=0.1))
    async with connected(library, era, config=config) as client:
        with anyio.fail_after(SECONDS):
            with pytest.raises(RequestTimedOut) as late:
                await client.read_resource("note://1")
            assert "within 0.1 s in all" in late.value.message
            assert "Timeouts(total=...)" in late.value.message
            assert "60" not in late.value.message
            assert "request=" not in late.value.message
            with pytest.raises(RequestTimedOut) as late:
                await client.read_resource("note://1", timeout=0.01)
            assert "within 0.01 s;" in late.value.message
            assert "Timeouts(request=...)" in late.value.message


async def test_a_timeout_names_the_limit_that_was_reached_in_spite_of_progress() -> None:
    mcp = MCPServer("steps")

    @mcp.tool()
    async def walk(ctx: Context) -> None:
        for step in itertools.count():
            await ctx.report_progress(step)
            await anyio.sleep(0.02)

    config = ClientConfig(timeouts=Timeouts(request=0.2, total=0.5))
    async with connect(mcp, config=config) as client:
        with anyio.fail_after(SECONDS), pytest.raises(RequestTimedOut, match=r"within 0\.5 s in all"):
            await client.call_tool("walk")


async def test_a_request_that_waits_for_a_connection_names_the_limit_that_was_reached() -> None:
    library = Library()
    config = ClientConfig(timeouts=Timeouts(total=0.2), backoff=Backoff(delays=(60,), tries=None))
    async with on_the_web(library) as url:
        client = connect(url, config=config)
        await client.connect()
    try:
        with anyio.fail_after(SECONDS):
            await eventually(lambda: not client.connected)
            with pytest.raises(RequestTimedOut, match=r"no connection came back.*Timeouts\(total=\.\.\.\)"):
                await client.read_resource("note://1")
    finally:
        await client.aclose()


@pytest.mark.parametrize(
    ("template", "params", "message"),
    [
        ("w://{city}", {"town": "oslo"}, "has no variable 'town'.*city"),
        ("w://{city}", {}, "needs a value for 'city'"),
        ("w://{country}/{+path}", {"country": "no"}, "needs a value for 'path'"),
        ("w://{city}{?day}", {"city": "oslo", "dya": "1"}, "has no variable 'dya'.*'day'"),
    ],
)
async def test_a_template_is_not_read_with_other_variables_than_its_own(
    template: str, params: dict[str, str], message: str
) -> None:
    library = Library()
    library.templates.append(template)
    async with connected(library) as client:
        with pytest.raises(ValueError, match=message):
            await client.read_resource_from_template(template, params)
        assert not any(uri.startswith("w://") for uri in library.asked)


async def test_a_template_is_read_without_the_variables_of_its_query() -> None:
    library = Library()
    library.templates.append("w://{city}{?day}")
    async with connected(library) as client:
        filled = await client.read_resource_from_template("w://{city}{?day}", {"city": "oslo"})
        assert filled.expanded_uri == "w://oslo"


@ERAS
async def test_everything_that_waits_or_runs_is_rejected_by_a_disconnect(era: str) -> None:
    library = Library()
    library.gates["t1"] = anyio.Event()
    async with connected(library, era) as client:
        library.gates["tools/list"] = anyio.Event()
        asked = [*calls(client, 3), asyncio.create_task(client.list_tools())]
        await eventually(lambda: library.running["t1"] and library.running["tools/list"])
        with anyio.fail_after(SECONDS):
            await client.disconnect()
            outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [Disconnected] * 4
        assert client.queue.status().pending == client.queue.status().in_progress == 0
        assert len(client.cache) == 0
