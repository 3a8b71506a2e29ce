"""Tools that run as tasks."""

import threading
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import AcceptedElicitation, Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, InputRequiredResult, ListToolsResult, TextContent, Tool
from pydantic import BaseModel

from tests.conformance.asking import NAME, ask, filled_in, form
from tests.server import wire
from tests.server.serving import eventually, serving
from tests.server.waking.tasking import (
    DECLARED,
    EXTENSION,
    QUICK,
    about,
    accepted,
    answer,
    call,
    call_with,
    get,
    quick_notes,
    reaches,
    start,
    text,
)
from tidings import LiveServer
from tidings.bus.sqlite import SqliteBus
from tidings.errors import BusUnavailable
from tidings.server import Limits, Waking, attach
from tidings.server.adapters import McpServerAdapter
from tidings.server.exact_calls import ExactServer

pytestmark = pytest.mark.anyio
INVALID, MISSING, INTERNAL = -32602, -32021, -32603


class Consent(BaseModel):
    ok: bool


class Jobs:
    """Tools that run as tasks, and what a test can do with them."""

    def __init__(self, **options: Any) -> None:
        self.mcp = mcp = quick_notes(**options)
        self.go = anyio.Event()
        self.asking = anyio.CancelScope()
        self.begun = self.cancelled = 0
        self.thread_goes = threading.Event()
        self._add_work(mcp)
        self._add_ends(mcp)
        self._add_questions(mcp)

    def _add_work(self, mcp: LiveServer[Any]) -> None:
        @mcp.tool(task=True)
        async def work(result: str = "done") -> str:
            """Waits for the test."""
            self.begun += 1
            try:
                await self.go.wait()
            except BaseException:
                self.cancelled += 1
                raise
            return result

        @mcp.tool(task=True)
        def in_thread() -> str:
            self.begun += 1
            self.thread_goes.wait(30)
            return "from a thread"

    def _add_ends(self, mcp: LiveServer[Any]) -> None:
        @mcp.tool(task=True)
        async def fails(how: str) -> str:
            if how == "tool":
                raise ToolError("no luck")
            if how == "protocol":
                raise MCPError(-31999, "out of order", {"part": 7})
            raise RuntimeError("secret")

        @mcp.tool(task="required")
        async def only_as_task() -> str:
            return "as a task"

        @mcp.tool(task=True)
        async def counts(ctx: Context, most: int, message: str | None = None) -> str:
            for number in range(most):
                await ctx.report_progress(number + 1, most, message)
            await self.go.wait()
            return "counted"

        @mcp.tool(task=True)
        async def says(size: int) -> str:
            return "x" * size

    @property
    def memory(self) -> int:
        """Bytes that all clients hold."""
        return self.mcp._live._core.budget.used["memory"]

    def _add_questions(self, mcp: LiveServer[Any]) -> None:
        @mcp.tool(task=True)
        async def asks(ctx: Context, times: int = 1) -> str:
            answers = [await ctx.elicit(f"Question {number}?", Consent) for number in range(times)]
            return " ".join(
                str(each.data.ok) if isinstance(each, AcceptedElicitation) else each.action for each in answers
            )

        @mcp.tool(task=True)
        async def asks_at_once(ctx: Context) -> str:
            async with anyio.create_task_group() as tasks:
                for number in range(2):
                    tasks.start_soon(ctx.elicit, f"Question {number}?", Consent)
            return "both"

        @mcp.tool(task=True)
        async def asks_in_vain(ctx: Context) -> str:
            with self.asking:
                await ctx.elicit("Anybody?", Consent)
            await self.go.wait()
            return "nobody"

        @mcp.tool(task=True)
        async def asks_too_much(ctx: Context) -> str:
            try:
                await ctx.elicit("?" * 600_000, Consent)
            except MCPError as error:
                return error.message
            return "asked"

        @mcp.tool(task=True)
        async def asks_first(ctx: Context) -> str | InputRequiredResult:
            self.begun += 1
            if (name := filled_in(ctx, "user_name", "name")) is None:
                return ask({"user_name": form("Who?", NAME)}, "asked")
            return f"for {name} {ctx.request_state}"


@asynccontextmanager
async def jobs(**options: Any) -> AsyncGenerator[tuple[Jobs, int]]:
    made = Jobs(**options)
    async with serving(made.mcp.asgi()) as port:
        try:
            yield made, port
        finally:
            made.thread_goes.set()
            made.go.set()


async def question(port: int, task: str) -> str:
    """Waits for a question; returns its key."""
    [key] = (await reaches(port, task, "input_required"))["inputRequests"]
    return key


# Who gets a task


async def test_a_tool_runs_as_a_task_for_requests_that_declare_the_extension() -> None:
    async with jobs() as (made, port):
        created = await call(port, "work", result="42")
        assert created["resultType"] == "task"
        assert created["status"] == "working"
        assert created["taskId"].startswith("work.")
        assert not {"result", "error", "inputRequests", "requestState", "content"} & set(created)
        assert (await get(port, created["taskId"]))["status"] == "working"
        made.go.set()
        done = await reaches(port, created["taskId"], "completed")
        assert text(done["result"]) == "42"
        assert done["result"]["isError"] is False
        assert done == await get(port, created["taskId"])


async def test_other_requests_wait_for_the_result() -> None:
    async with jobs() as (made, port):
        made.go.set()
        plain = await call(port, "work", declares=False)
        assert (plain["resultType"], text(plain)) == ("complete", "done")
        session = await wire.Session.start(port)
        legacy = (await session.request("tools/call", {"name": "work", "arguments": {}})).json["result"]
        assert text(legacy) == "done"
        assert "resultType" not in legacy


async def test_a_tool_that_requires_tasks_refuses_other_requests() -> None:
    async with jobs() as (_, port):
        params = {"name": "only_as_task", "arguments": {}}
        plain = await call_with(port, "only_as_task", {"x": 1})
        session = await wire.Session.start(port)
        legacy = await session.request("tools/call", params)
        for refused in (plain, legacy):
            assert refused.error["code"] == MISSING
            assert refused.error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        assert text((await reaches(port, await start(port, "only_as_task"), "completed"))["result"]) == "as a task"


async def test_a_tool_may_run_in_a_thread() -> None:
    async with jobs() as (made, port):
        task = await start(port, "in_thread")
        made.thread_goes.set()
        assert text((await reaches(port, task, "completed"))["result"]) == "from a thread"


async def test_a_call_of_the_wrong_shape_is_refused_and_makes_no_task() -> None:
    async with jobs() as (_, port):
        assert (await call_with(port, "work", arguments=5)).error["code"] == INVALID


async def test_a_server_without_waking_runs_its_tools_plainly() -> None:
    mcp = LiveServer("plain", waking=None)

    @mcp.tool(task=True)
    def work() -> str:
        return "done"

    with pytest.raises(ValueError, match="waking is None"):
        mcp.tool(task="required")(work)
    async with serving(mcp.asgi()) as port:
        assert text(await call(port, "work")) == "done"


def test_a_wrong_option_is_refused_where_it_is_given() -> None:
    with pytest.raises(ValueError, match="'required'"):
        LiveServer("plain").add_tool(lambda: None, name="any", task="always")  # type: ignore[arg-type]


async def test_a_tool_that_is_added_again_without_the_option_is_no_task() -> None:
    async with jobs() as (made, port):
        made.mcp.remove_tool("says")
        made.mcp.add_tool(lambda: "plain", name="says")
        assert text(await call(port, "says")) == "plain"


# How a task ends


@pytest.mark.parametrize(("how", "said"), [("tool", "no luck"), ("crash", "Error executing tool fails")])
async def test_a_tool_that_fails_completes_with_an_error_for_the_model(how: str, said: str) -> None:
    async with jobs() as (_, port):
        done = await reaches(port, await start(port, "fails", how=how), "completed", "failed")
        assert done["status"] == "completed"
        assert done["result"]["isError"] is True
        assert said in text(done["result"])
        assert "secret" not in text(done["result"])


async def test_an_error_of_the_protocol_fails_the_task() -> None:
    async with jobs() as (_, port):
        done = await reaches(port, await start(port, "fails", how="protocol"), "completed", "failed")
        assert done["status"] == "failed"
        assert done["error"] == {"code": -31999, "message": "out of order", "data": {"part": 7}}
        assert "result" not in done


async def test_a_result_that_is_too_large_fails_the_task_with_the_limit() -> None:
    async with jobs() as (_, port):
        fits = await reaches(port, await start(port, "says", size=200_000), "completed", "failed")
        assert len(text(fits["result"])) == 200_000
        done = await reaches(port, await start(port, "says", size=600_000), "completed", "failed")
        assert done["status"] == "failed"
        assert "at most 524 KB" in done["error"]["message"]
        assert done["error"]["data"]["limit"] == "result"


async def test_a_tool_that_takes_too_long_is_broken_off() -> None:
    async with jobs(waking=Waking(longest_task=0.1, poll=0.05)) as (made, port):
        done = await reaches(port, await start(port, "work"), "failed")
        assert "took longer than 100 ms" in done["error"]["message"]
        await eventually(lambda: made.cancelled)


async def test_a_result_is_kept_for_a_while_after_the_end() -> None:
    async with jobs(waking=Waking(keep=0.3, poll=0.05)) as (made, port):
        created = await call(port, "work")
        assert created["ttlMs"] > 40_000_000
        made.go.set()
        done = await reaches(port, created["taskId"], "completed")
        assert done["ttlMs"] < 10_000
        with anyio.fail_after(20):
            while (gone := await about(port, "tasks/get", created["taskId"])).status == 200:  # noqa: ASYNC110
                await anyio.sleep(0.05)
        assert gone.error["code"] == INVALID


# Cancelling


async def test_a_task_that_is_cancelled_ends_its_tool_and_stays_cancelled() -> None:
    async with jobs() as (made, port):
        task = await start(port, "work")
        for _ in range(2):
            acknowledged = (await about(port, "tasks/cancel", task)).json["result"]
            assert acknowledged["resultType"] == "complete"
            assert not {"taskId", "status", "result", "error", "inputRequests"} & set(acknowledged)
        await eventually(lambda: made.cancelled)
        made.go.set()
        assert (await get(port, task))["status"] == "cancelled"


async def test_a_tool_in_a_thread_is_left_behind() -> None:
    async with jobs() as (made, port):
        task = await start(port, "in_thread")
        await eventually(lambda: made.begun)
        await about(port, "tasks/cancel", task)
        assert (await get(port, task))["status"] == "cancelled"
        made.thread_goes.set()
        assert (await get(port, task))["status"] == "cancelled"


async def test_a_task_that_is_over_is_not_cancelled() -> None:
    async with jobs() as (_, port):
        task = await start(port, "says", size=3)
        done = await reaches(port, task, "completed")
        assert (await about(port, "tasks/cancel", task)).json["result"]["resultType"] == "complete"
        assert await get(port, task) == done


async def test_a_client_that_leaves_before_the_answer_ends_the_tool() -> None:
    async with jobs() as (made, port):

        @made.mcp.tool(task=True)
        async def undecided():  # type: ignore[no-untyped-def]  # Without a type it may ask first.
            return await work_on(made)

        async def work_on(made: Jobs) -> str:
            made.begun += 1
            try:
                await made.go.wait()
            finally:
                made.cancelled += 1
            return "done"

        connection = await wire.Connection.open(port)
        params = {"name": "undecided", "arguments": {}, "_meta": wire.modern_meta(**DECLARED)}
        request = wire.http(
            "POST", wire.modern_headers("tools/call", "undecided"), wire.message("tools/call", params, 1)
        )
        connection._transport.write(request)
        await eventually(lambda: made.begun)
        connection.abort()
        await eventually(lambda: made.cancelled)


# Progress


async def test_progress_becomes_the_status_message() -> None:
    async with jobs() as (made, port):
        named, numbered = [await start(port, "counts", most=3, message=each) for each in ("Reading\nfiles", None)]
        seen: dict[str, str] = {}
        with anyio.fail_after(20):
            while len(seen) < 2:
                for task in (named, numbered):
                    if message := (await get(port, task)).get("statusMessage"):
                        seen[task] = message
        assert seen == {named: "Reading files", numbered: "3 of 3"}
        made.go.set()
        assert "statusMessage" not in await reaches(port, named, "completed")


async def test_much_progress_costs_few_writes(tmp_path: Path) -> None:
    bus = SqliteBus(tmp_path / "bus.db")
    async with jobs(bus=bus) as (made, port):
        writes = 0
        put = bus.records.put

        async def counted(key: str, *arguments: Any, **options: Any) -> Any:
            nonlocal writes
            writes += key.startswith("task/")
            return await put(key, *arguments, **options)

        bus.records.put = counted  # type: ignore[method-assign]
        task = await start(port, "counts", most=5_000)
        with anyio.fail_after(20):
            while (await get(port, task)).get("statusMessage") != "5000 of 5000":
                pass
        assert writes < 20
        made.go.set()


# Questions


async def test_a_question_waits_for_its_answer_and_each_has_a_key_of_its_own() -> None:
    async with jobs() as (_, port):
        task = await start(port, "asks", times=2)
        first = await question(port, task)
        asked = (await get(port, task))["inputRequests"][first]
        assert asked["method"] == "elicitation/create"
        assert asked["params"]["message"] == "Question 0?"
        assert asked["params"]["requestedSchema"]["properties"]["ok"]["type"] == "boolean"
        acknowledged = (await answer(port, task, **{first: accepted(ok=True)})).json["result"]
        assert acknowledged["resultType"] == "complete"
        assert not {"taskId", "status", "inputRequests"} & set(acknowledged)
        with anyio.fail_after(20):
            while (second := await question(port, task)) == first:
                pass
        await answer(port, task, **{first: accepted(ok=False), "unknown": 5})  # Neither is asked.
        await answer(port, task, **{second: {"action": "decline"}})
        assert text((await reaches(port, task, "completed"))["result"]) == "True decline"


async def test_questions_that_are_asked_at_once_are_answered_one_by_one() -> None:
    async with jobs() as (_, port):
        task = await start(port, "asks_at_once")
        first, second = (await reaches(port, task, "input_required"))["inputRequests"]
        await answer(port, task, **{second: accepted(ok=True)})
        assert list((await get(port, task))["inputRequests"]) == [first]
        await answer(port, task, **{first: accepted(ok=True)})
        assert text((await reaches(port, task, "completed"))["result"]) == "both"


async def test_an_answer_of_the_wrong_shape_is_refused_and_the_question_stays() -> None:
    async with jobs() as (_, port):
        task = await start(port, "asks")
        key = await question(port, task)
        for wrong in (5, {}, {"action": "dance"}, accepted(ok="x" * 600_000)):
            assert (await answer(port, task, **{key: wrong})).error["code"] == INVALID
        assert await question(port, task) == key
        await answer(port, task, **{key: accepted(ok=True)})
        assert text((await reaches(port, task, "completed"))["result"]) == "True"


async def test_a_question_that_the_tool_gives_up_is_no_longer_asked() -> None:
    async with jobs() as (made, port):
        task = await start(port, "asks_in_vain")
        await reaches(port, task, "input_required")
        made.asking.cancel()
        assert "inputRequests" not in await reaches(port, task, "working")
        made.go.set()
        assert text((await reaches(port, task, "completed"))["result"]) == "nobody"


async def test_a_question_that_is_too_large_fails_where_it_is_asked() -> None:
    async with jobs() as (_, port):
        done = await reaches(port, await start(port, "asks_too_much"), "completed")
        assert "at most 524288 bytes" in text(done["result"])


async def test_a_client_that_answers_no_questions_is_not_asked() -> None:
    async with jobs() as (_, port):
        meta = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {EXTENSION: {}}}}
        task = (await call_with(port, "asks", meta)).json["result"]["taskId"]
        done = await reaches(port, task, "failed")
        assert done["error"]["code"] == MISSING
        assert done["error"]["data"] == {"requiredCapabilities": {"elicitation": {"form": {}}}}


async def test_a_task_that_waits_for_an_answer_can_be_cancelled() -> None:
    async with jobs() as (_, port):
        task = await start(port, "asks")
        key = await question(port, task)
        await about(port, "tasks/cancel", task)
        assert (await answer(port, task, **{key: accepted(ok=True)})).status == 200
        found = await get(port, task)
        assert found["status"] == "cancelled"
        assert "inputRequests" not in found


async def test_rounds_before_the_work_belong_to_the_call() -> None:
    async with jobs() as (made, port):
        asked = await call(port, "asks_first")
        assert asked["resultType"] == "input_required"
        assert "taskId" not in asked
        answers = {"user_name": accepted(name="Ada")}
        created = (
            await call_with(port, "asks_first", inputResponses=answers, requestState=asked["requestState"])
        ).json["result"]
        assert created["resultType"] == "task"
        assert not {"requestState", "inputRequests"} & set(created)
        done = await reaches(port, created["taskId"], "completed")
        assert text(done["result"]) == "for Ada asked"
        assert made.begun == 2


async def test_a_first_round_that_takes_long_is_a_question_of_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(McpServerAdapter, "may_ask", lambda *_: False)
    async with jobs() as (made, port):
        task = await start(port, "asks_first")
        key = await question(port, task)
        assert key.startswith("user_name")
        await answer(port, task, **{key: accepted(name="Ada")})
        assert text((await reaches(port, task, "completed"))["result"]) == "for Ada asked"
        assert made.begun == 2


# Limits


async def test_a_client_runs_a_bounded_number_of_tasks_at_once() -> None:
    async with jobs(waking=Waking(running_per_client=2, poll=0.05)) as (made, port):
        tasks = [await start(port, "work") for _ in range(2)]
        refused = await call_with(port, "work")
        assert refused.error["data"]["limit"] == "running_per_client"
        assert refused.error["data"]["max"] == 2
        with wire.coming_from("127.0.0.2"):
            await start(port, "work")
        await about(port, "tasks/cancel", tasks[0])
        await eventually(lambda: made.cancelled)
        await start(port, "work")


async def test_a_client_that_has_many_results_has_them_for_a_shorter_time_and_then_gets_no_more() -> None:
    limits = Limits(memory=20_000_000, streams=10, streams_per_client=1)  # So each client may hold 2 MB.
    async with jobs(limits=limits) as (made, port):
        ttls: list[int] = []
        for _ in range(4):  # Each has its text twice: as text, and as structured content.
            done = await reaches(port, await start(port, "says", size=220_000), "completed", "failed")
            ttls.append(done["ttlMs"])
        assert ttls[0] > 80_000_000
        assert ttls[-1] < 700_000
        full = await reaches(port, await start(port, "says", size=220_000), "completed", "failed")
        assert full["error"]["data"]["limit"] == "memory"
        with wire.coming_from("127.0.0.2"):
            await reaches(port, await start(port, "says", size=220_000), "completed")
        await made.mcp.aclose()
    assert made.memory == 0


async def test_a_call_for_which_there_is_no_room_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.server.waking.running._RUN_BYTES", 10**12)
    async with jobs() as (made, port):
        refused = await call_with(port, "work")
        assert refused.error["data"]["limit"] == "memory"
        assert made.memory == 0


# Buses, restarts and replicas


async def test_a_result_survives_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/bus.db"
    async with jobs(bus=url) as (_, port):
        task = await start(port, "says", size=5)
        done = await reaches(port, task, "completed")
    async with jobs(bus=url) as (_, port):
        assert await get(port, task) == done


async def test_a_stop_fails_the_tasks_that_run_and_says_so(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/bus.db"
    async with jobs(bus=url) as (made, port):
        tasks = [await start(port, tool) for tool in ("work", "in_thread", "asks")]
        await made.mcp.aclose()
        assert made.cancelled
    async with jobs(bus=url) as (_, port):
        for task in tasks:
            found = await get(port, task)
            assert found["status"] == "failed"
            assert "server was stopped" in found["error"]["message"]


async def test_a_task_ends_before_the_lifespan_that_its_tool_uses() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None]:
        yield
        seen.append("the lifespan ends")

    mcp = LiveServer("with a lifespan", lifespan=lifespan, waking=QUICK)

    @mcp.tool(task=True)
    async def work() -> str:
        try:
            await anyio.sleep_forever()
        finally:
            seen.append("the tool ends")

    async with serving(mcp.asgi()) as port:
        await start(port, "work")
    assert seen == ["the tool ends", "the lifespan ends"]


@asynccontextmanager
async def replicas(folder: Path, count: int = 2) -> AsyncGenerator[list[tuple[Jobs, int]]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(jobs(bus=f"sqlite:///{folder}/bus.db")) for _ in range(count)]


async def test_any_replica_answers_for_a_task(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [(made, here), (_, there)]:
        task = await start(here, "work", result="far")
        assert (await get(there, task))["status"] == "working"
        made.go.set()
        done = await reaches(there, task, "completed")
        assert text(done["result"]) == "far"
        assert done == await get(here, task)


async def test_an_answer_and_a_cancellation_may_arrive_at_another_replica(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [(made, here), (_, there)]:
        asks, works = await start(here, "asks_at_once"), await start(here, "work")
        first, second = (await reaches(there, asks, "input_required"))["inputRequests"]
        await answer(there, asks, **{first: accepted(ok=True)})
        assert list((await get(here, asks))["inputRequests"]) == [second]
        await answer(here, asks, **{second: accepted(ok=True)})
        assert text((await reaches(there, asks, "completed"))["result"]) == "both"
        await about(there, "tasks/cancel", works)
        await eventually(lambda: made.cancelled)
        await reaches(here, works, "cancelled")


async def test_tasks_on_several_replicas_end_the_same_everywhere_whoever_asks(tmp_path: Path) -> None:
    async with replicas(tmp_path, 3) as all_:
        ports = [port for _, port in all_]
        kinds = [
            ("asks_at_once", {}),
            ("asks", {"times": 2}),
            ("says", {"size": 9}),
            ("fails", {"how": "protocol"}),
            ("work", {}),
        ]

        async def play(number: int) -> None:
            choose = Random(number)
            tool, arguments = choose.choice(kinds)
            task = await start(choose.choice(ports), tool, **arguments)
            cancels = tool == "work" or choose.random() < 0.2
            while (found := await get(choose.choice(ports), task))["status"] in ("working", "input_required"):
                if asked := found.get("inputRequests"):
                    await answer(choose.choice(ports), task, **{choose.choice(list(asked)): accepted(ok=True)})
                if cancels:
                    await about(choose.choice(ports), "tasks/cancel", task)
            assert [await reaches(port, task, found["status"]) for port in ports] == [found] * 3

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for number in range(40):
                    tasks.start_soon(play, number)
        for made, _ in all_:
            waking = made.mcp._live._waking
            assert waking is not None
            await eventually(lambda: not waking.running._runs and not waking.store._watched)  # noqa: B023


async def test_a_task_whose_process_is_gone_fails(tmp_path: Path) -> None:
    bus = SqliteBus(tmp_path / "bus.db")
    leases: list[str] = []
    put = bus.records.put

    async def noted(key: str, *arguments: Any, **options: Any) -> Any:
        if key.startswith("runner/"):
            leases.append(key)
        return await put(key, *arguments, **options)

    bus.records.put = noted  # type: ignore[method-assign]
    async with jobs(bus=bus) as (made, here), jobs(bus=f"sqlite:///{tmp_path}/bus.db") as (_, there):
        task = await start(here, "work")
        await bus.records.delete(leases[0])
        found = await get(there, task)
        assert found["status"] == "failed"
        assert "process that ran this task has ended" in found["error"]["message"]
        await eventually(lambda: made.cancelled)  # It had lost its lease, but was still there.
        assert await get(here, task) == found


async def test_without_a_bus_no_task_is_promised(tmp_path: Path) -> None:
    bus = SqliteBus(tmp_path / "bus.db")
    async with jobs(bus=bus) as (made, port):
        put = bus.records.put

        async def away(*_: Any, **__: Any) -> Any:
            raise BusUnavailable("The bus is away.")

        bus.records.put = away  # type: ignore[method-assign]
        assert "error" in (await call_with(port, "work")).json
        await eventually(lambda: made.cancelled == made.begun)
        await eventually(lambda: not made.memory)  # Nothing is kept of it.
        bus.records.put = put  # type: ignore[method-assign]
        made.go.set()
        await reaches(port, await start(port, "work"), "completed")


# Other servers


async def test_an_exact_server_has_tasks_too() -> None:
    mcp = ExactServer("exact", waking=QUICK)

    @mcp.tool(task=True)
    async def work(size: int) -> str:
        return "x" * size

    async with serving(mcp.asgi()) as port:
        assert text((await reaches(port, await start(port, "work", size=3), "completed"))["result"]) == "xxx"
        wrong = await reaches(port, await start(port, "work", siz=3), "completed")
        assert wrong["result"]["isError"] is True
        assert "There is no argument 'siz'" in text(wrong["result"])


def an_mcp_server() -> Any:
    mcp: MCPServer[Any] = MCPServer("theirs")

    @mcp.tool()
    async def work() -> str:
        return "done"

    return mcp


def a_lowlevel_server() -> Any:
    async def list_tools(_: Any, __: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="work", input_schema={"type": "object"})])

    async def call_tool(_: Any, __: Any) -> CallToolResult:
        return CallToolResult(content=[TextContent(text="done")])

    return Server("theirs", on_list_tools=list_tools, on_call_tool=call_tool)


def a_fastmcp_server() -> Any:
    mcp = pytest.importorskip("fastmcp").FastMCP("theirs")

    @mcp.tool
    async def work() -> str:
        return "done"

    return mcp


@pytest.mark.parametrize("make", [an_mcp_server, a_lowlevel_server, a_fastmcp_server])
async def test_an_attached_server_names_the_tools_that_run_as_tasks(make: Any) -> None:
    server = make()
    live = attach(server, waking=QUICK)
    live.task("work")
    app = server.http_app() if hasattr(server, "http_app") else server.streamable_http_app()
    async with serving(app) as port:
        assert text((await reaches(port, await start(port, "work"), "completed"))["result"]) == "done"
        live.task("work", "required")
        assert (await call_with(port, "work", {"x": 1})).error["code"] == MISSING
        live.task("work", False)
        assert text(await call(port, "work")) == "done"
