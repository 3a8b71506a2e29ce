"""Calls that were started: their state, their progress, what they ask, and how they end; and who caused a question."""

import asyncio
import gc
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import mcp_types as types
import pytest
from mcp.server.mcpserver import Context, MCPServer

from tests import forking
from tests.client.asking import Person
from tests.client.curious import Curious, asked
from tests.client.library import ERAS, SECONDS, Library, connected, eventually, hear
from tests.client.ways import environment
from tests.server.serving import serving
from tidings.client import ClientConfig, LiveClient, StartedCall, Status, Timeouts, connect
from tidings.client.events import PendingAdded, StateChanged, ToolCallResultChanged
from tidings.errors import ConnectionLost, Disconnected, NotConnected, RequestCancelled

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

BOTH = ClientConfig(concurrency=2)


class Nosy(MCPServer):
    """A server of the legacy era whose tools and prompts ask while they run, once `ask` allows it."""

    def __init__(self) -> None:
        super().__init__("nosy")
        self.ask = {"deploy": anyio.Event(), "backup": anyio.Event()}
        self.tool()(self.deploy)
        self.tool()(self.backup)
        self.tool()(self.walk)
        self.prompt()(self.plan)
        self.resource("plan://{day}")(self.day)

    async def deploy(self, ctx: Context) -> str:
        await self.ask["deploy"].wait()
        return (await ctx.elicit("Deploy?", Person)).action

    async def backup(self, ctx: Context) -> str:
        await self.ask["backup"].wait()
        return (await ctx.elicit("Back up?", Person)).action

    async def plan(self, ctx: Context) -> str:
        return (await ctx.elicit("Whose plan?", Person)).action

    async def day(self, day: str, ctx: Context) -> str:
        return (await ctx.elicit(f"Whose {day}?", Person)).action

    async def walk(self, ctx: Context) -> str:
        for step in range(3):
            await ctx.report_progress(step + 1, 3, f"step {step + 1}")
        return "there"


@asynccontextmanager
async def nosy(transport: str, **options: Any) -> AsyncGenerator[tuple[Nosy, LiveClient]]:
    server = Nosy()
    async with AsyncExitStack() as stack:
        target: Any = server
        if transport != "memory":
            app = server.streamable_http_app() if transport == "http" else server.sse_app()
            port = await stack.enter_async_context(serving(app))
            target = f"http://127.0.0.1:{port}/{'mcp' if transport == 'http' else 'sse'}"
        client = await stack.enter_async_context(connect(target, era="legacy", answer="ask", **options))
        yield server, client


async def ended(call: StartedCall) -> Any:
    with anyio.fail_after(SECONDS):
        return await call


@ERAS
async def test_a_call_is_started_at_once_and_awaited_later(era: str) -> None:
    library = Library()
    gate = library.gates["t1"] = anyio.Event()
    async with connected(library, era) as client:
        first, second = client.start_call("t1"), client.start_call("t2", {"a": 1})
        assert [first.id, second.id] == [entry.id for entry in client.queue]
        assert (second.state, second.progress, second.questions) == ("waiting", None, [])
        await eventually(lambda: library.running["t1"])
        assert (first.state, second.state) == ("sent", "waiting")
        gate.set()
        call = await ended(second)
        assert call is client.cache.get_tool_call_result("t2")
        assert (first.state, second.state) == (Status.COMPLETED, Status.COMPLETED)
        assert await ended(first) is await ended(first)
        assert not first.cancel()


@ERAS
async def test_arguments_that_cannot_be_sent_are_refused_at_once(era: str) -> None:
    async with connected(Library(), era) as client:
        with pytest.raises(ValueError, match="cannot be sent as JSON"):
            client.start_call("t1", {"a": object()})
        assert [entry for entry in client.queue if not entry.aside] == []


@ERAS
async def test_a_started_call_is_cancelled(era: str) -> None:
    library = Library()
    library.gates["t1"] = anyio.Event()
    async with connected(library, era) as client:
        running, waiting = client.start_call("t1"), client.start_call("t2")
        await eventually(lambda: library.running["t1"])
        assert waiting.cancel()
        assert running.cancel()
        for call in (running, waiting):
            with pytest.raises(RequestCancelled):
                await ended(call)
            assert call.state is Status.CANCELLED
        await eventually(lambda: library.cancelled == ["t1"])
        assert library.asked["t2"] == 0


@ERAS
async def test_a_task_that_is_cancelled_cancels_the_call_that_it_awaits(era: str) -> None:
    library = Library()
    library.gates["t1"] = anyio.Event()
    async with connected(library, era) as client:
        call = client.start_call("t1")
        other = asyncio.create_task(ended(call))
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:

                async def cancel() -> None:
                    await eventually(lambda: library.running["t1"])
                    scope.cancel()

                tasks.start_soon(cancel)
                await call
        assert scope.cancelled_caught
        assert call.state is Status.CANCELLED
        with pytest.raises(RequestCancelled, match="A task that awaited"):
            await other
        await eventually(lambda: library.cancelled == ["t1"])  # The server was told.


async def test_a_call_whose_task_never_began_leaves_the_queue() -> None:
    async with connected(Library()) as client:
        call = client.start_call("t1")
        (task,) = [each for each in asyncio.all_tasks() if each.get_name() == "tidings call of t1"]
        task.cancel()  # As the end of an event loop does.
        with pytest.raises(RequestCancelled):
            await ended(call)
        assert call.state is Status.CANCELLED
        assert (await ended(client.start_call("t2"))).success


@ERAS
async def test_a_call_fails_when_its_client_is_closed(era: str) -> None:
    library = Library()
    library.gates["t1"] = anyio.Event()
    async with connected(library, era) as client:
        running, waiting = client.start_call("t1"), client.start_call("t2")
        await eventually(lambda: library.running["t1"])
    for call in (running, waiting):
        assert call.state is Status.CANCELLED
        with pytest.raises(Disconnected, match=r"disconnected before tools/call was done"):
            await call
    late = client.start_call("t1")
    with pytest.raises(NotConnected):
        await late
    assert late.state is Status.ERROR


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_calls_that_nobody_awaits_leave_nothing_behind(era: str, caplog: pytest.LogCaptureFixture) -> None:
    library = Library()
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    with caplog.at_level(logging.ERROR):
        async with connected(library, era, config=ClientConfig(timeouts=Timeouts(request=5))) as client:
            made = hear(client, ToolCallResultChanged)
            before = asyncio.all_tasks()
            client.start_call("t1")
            client.start_call("t2", timeout=0.001)
            gc.collect()
            await eventually(lambda: len(made) == 2)
            await eventually(lambda: asyncio.all_tasks() <= before)
            library.gates["t3"] = anyio.Event()
            client.start_call("t3")
            client.start_call("t4")
        assert not [task for task in asyncio.all_tasks() if "tidings call" in task.get_name()]
        gc.collect()
        await anyio.lowlevel.checkpoint()
    assert complaints == []
    assert caplog.records == []


@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_progress_is_followed_to_the_end(transport: str) -> None:
    async with nosy(transport) as (_, client):
        call = client.start_call("walk")
        with anyio.fail_after(SECONDS):
            steps = [made.message async for made in call.follow()]
        assert steps == sorted(set(steps))
        assert steps[-1:] == ["step 3"]
        assert call.progress is not None
        assert (call.progress.progress, call.progress.total, call.progress.entry.id) == (3, 3, call.id)
        assert [made async for made in call.follow()] == [call.progress]
        assert (await ended(call)).success


@ERAS
@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_a_question_names_the_call_that_caused_it(era: str, transport: str) -> None:
    async with asked(era, transport, answer="ask", config=BOTH) as client:
        calls = {name: client.start_call(name) for name in ("greet", "capital")}
        await eventually(lambda: len(client.pending) == 2)
        for question in client.pending:
            assert question.call is not None
            call = calls[question.call.name]
            assert (question.call.id, question.call.method) == (call.id, "tools/call")
            assert (call.state, call.questions) == ("asking", [question])
        for question in client.pending:
            client.pending.resolve(question.id, {"name": "Ada"} if question.kind == "elicitation" else "Paris")
        for call in calls.values():
            await ended(call)
            (question,) = call.questions
            assert question.outcome is not None
            assert call.state is Status.COMPLETED


async def test_reads_and_prompts_cause_questions_too() -> None:
    async with connected(Curious(), answer=lambda _: {"name": "Ada"}) as client:
        added = hear(client, PendingAdded)
        await client.read_resource("note://1")
        await client.get_prompt("p1")
        await client.subscribe("note://2", refresh=True)
        await eventually(lambda: len(added) == 3)
        causes = [event.request.call for event in added]
        assert [(each.method, each.name) for each in causes] == [
            ("resources/read", "note://1"),
            ("prompts/get", "p1"),
            ("resources/read", "note://2"),
        ]


async def test_in_the_old_era_the_stream_tells_the_cause() -> None:
    async with nosy("http", config=ClientConfig(concurrency=4)) as (server, client):
        deploy, backup = client.start_call("deploy"), client.start_call("backup")
        prompt = asyncio.create_task(client.get_prompt("plan"))
        read = asyncio.create_task(client.read_resource("plan://monday"))
        await eventually(lambda: len(client.pending) == 2)
        server.ask["backup"].set()
        await eventually(lambda: backup.state == "asking")
        assert deploy.state == "sent"
        server.ask["deploy"].set()
        await eventually(lambda: len(client.pending) == 4)
        names = {question.message: question.call and question.call.name for question in client.pending}
        assert names == {
            "Deploy?": "deploy",
            "Back up?": "backup",
            "Whose plan?": "plan",
            "Whose monday?": "plan://monday",
        }
        for question in client.pending:
            client.pending.decline(question.id)
        with anyio.fail_after(SECONDS):
            await asyncio.gather(deploy, backup, prompt, read)


async def test_where_the_stream_tells_nothing_only_a_call_that_runs_alone_is_named() -> None:
    async with nosy("sse", config=BOTH) as (server, client):
        server.ask["deploy"].set()
        alone = client.start_call("deploy")
        await eventually(lambda: alone.state == "asking")
        client.pending.decline(alone.questions[0].id)
        await ended(alone)

        both = [client.start_call("backup"), client.start_call("deploy")]
        await eventually(lambda: len(client.pending))
        (question,) = client.pending
        assert question.call is None
        assert [call.state for call in both] == ["sent", "sent"]
        client.pending.decline(question.id)
        await ended(both[1])

        # The server may go on with what was given up, and ask for it while something else runs.
        both[0].cancel()
        with pytest.raises(RequestCancelled):
            await ended(both[0])
        later = client.start_call("deploy")
        await eventually(lambda: len(client.pending))
        assert [each.call for each in client.pending] == [None]
        for question in client.pending:
            client.pending.decline(question.id)
        await ended(later)


async def test_roots_that_a_server_asks_for_at_any_time_name_no_call() -> None:
    library = Library()
    async with connected(library, "legacy", answer="ask") as client:
        added = hear(client, PendingAdded)
        gate = library.gates["t1"] = anyio.Event()
        call = client.start_call("t1")
        await eventually(lambda: library.running["t1"])
        client.on(PendingAdded, lambda event: client.pending.resolve(event.request.id, []))
        with anyio.fail_after(SECONDS):
            await library.session.send_request(types.ListRootsRequest(), types.ListRootsResult)
        assert [event.request.call for event in added] == [None]
        gate.set()
        await ended(call)


@ERAS
async def test_over_stdio_a_call_that_runs_alone_is_named(era: str) -> None:
    command = forking.command("-m", "tests.client.peers", "live")
    async with connect(command, env=environment(), era=era, answer="ask") as client:
        await client.list_tools()
        call = client.start_call("greet")
        await eventually(lambda: call.state == "asking")
        (question,) = client.pending
        assert question.call is call.entry
        client.pending.resolve(question.id, {"name": "Ada"})
        assert "Ada, 30" in str((await ended(call)).result)


async def test_a_question_of_another_client_names_no_call_of_this_one() -> None:
    """A tool, called in this process, uses a client of its own."""
    outer: MCPServer = MCPServer("outer")
    inner: list[PendingAdded] = []

    @outer.tool()
    async def relay() -> str:
        async with nosy("sse") as (server, client):
            server.ask["deploy"].set()
            client.on(PendingAdded, inner.append)
            client.on(PendingAdded, lambda event: client.pending.decline(event.request.id))
            return str((await client.call_tool("deploy")).result)

    async with connect(outer, answer="ask") as client:
        assert "decline" in str((await ended(client.start_call("relay"))).result)
        assert [event.request.call.name for event in inner if event.request.call] == ["deploy"]
        assert client.queue.history(1)[0].questions == []


async def test_a_call_that_waits_for_a_connection_says_so() -> None:
    async with nosy("http") as (_, client):
        call = client.start_call("deploy", idempotent=True)
        await eventually(lambda: call.entry.http_status)
        assert call.state == "sent"
        connection = client._wiring.connection
        assert connection.link is not None
        connection.open_link = lambda _: anyio.sleep_forever()  # type: ignore[assignment, return-value]
        connection.link.lose(ConnectionLost("A cable was cut."))
        await eventually(lambda: call.state == "waiting")
        assert call.cancel()
        with pytest.raises(RequestCancelled):
            await ended(call)


async def test_a_call_that_waits_for_a_sign_in_has_not_been_sent() -> None:
    class Slow(httpx2.Auth):
        gate: anyio.Event | None = None

        async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
            if self.gate is not None:
                await self.gate.wait()
            yield request

    auth = Slow()
    async with (
        serving(Nosy().streamable_http_app()) as port,
        connect(f"http://127.0.0.1:{port}/mcp", era="legacy", auth=auth) as client,
    ):
        auth.gate = anyio.Event()
        call = client.start_call("walk")
        await eventually(lambda: call.entry.held_back)
        assert (call.entry.is_sent, call.state) == (True, "waiting")
        auth.gate.set()
        assert (await ended(call)).success


async def test_a_client_is_closed_when_its_calls_have_ended() -> None:
    closing = anyio.Event()

    async def answer(_: Any) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await closing.wait()
                for _turn in range(50):
                    await asyncio.sleep(0)

    async with connected(Curious(), answer=answer) as client:
        client.on(StateChanged, lambda _: closing.set())
        call = client.start_call("t1")
        await eventually(lambda: call.state == "asking")
    assert call.state is Status.CANCELLED
    assert isinstance(call.questions[0].outcome, RequestCancelled)
