"""Tool calls that the server runs as tasks: followed to their end, on three transports."""

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import ElicitResult, TextContent

from tests.client.library import SECONDS, eventually, hear
from tests.client.working import NEVER, TODAY, Workshop, joined
from tests.server.serving import serving
from tidings.client import (
    ClientConfig,
    LiveClient,
    RemoteTask,
    StartedCall,
    Status,
    Timeouts,
    ToolCall,
    connect,
    refusal,
)
from tidings.client.events import PendingAdded, ProgressMade, RequestChanged, TaskChanged
from tidings.errors import (
    Disconnected,
    NotSupported,
    RequestCancelled,
    RequestTimedOut,
    TaskCancelled,
    TaskFailed,
    TaskLost,
)

pytestmark = pytest.mark.anyio
TRANSPORTS = pytest.mark.parametrize("transport", ["memory", "http", "stdio"])


def text(call: ToolCall) -> str:
    assert call.result is not None
    [part] = call.result.content
    assert isinstance(part, TextContent)
    return part.text


async def task_of(call: StartedCall) -> RemoteTask:
    await eventually(lambda: call.task is not None)
    assert call.task is not None
    return call.task


# How it goes.


@TRANSPORTS
async def test_a_call_that_becomes_a_task_returns_its_result_as_any_other(transport: str, tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    workshop.go()
    with anyio.fail_after(SECONDS):
        async with joined(workshop, transport) as client:
            assert text(await client.call_tool("work")) == "done"
            assert text(await client.call_tool("plain")) == "plain"
            assert client.tasks == []
            assert client.cache.get_tool_call_result("work") is not None
    assert workshop.begun == 1


@TRANSPORTS
async def test_a_started_call_shows_its_task(transport: str, tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    with anyio.fail_after(SECONDS):
        async with joined(workshop, transport) as client:
            told = hear(client, TaskChanged)
            call = client.start_call("work", {"steps": 1})
            task = await task_of(call)
            assert client.tasks == [task]
            assert client.task(task.id) is task
            assert (task.tool, task.arguments, task.status, task.call) == ("work", {"steps": 1}, "working", call)
            assert call.state == "working"
            assert task.poll_interval == 0.05
            assert task.ttl is not None
            assert task.created_at is not None
            assert task.created_at.tzinfo is not None
            await eventually(lambda: "step 1" in (task.message or ""))
            (tmp_path / "next 1").touch()
            workshop.go()
            assert text(await call) == "done"
            assert (task.status, task.over, call.state) == ("completed", True, Status.COMPLETED)
            assert {event.task for event in told} == {task}


async def test_status_messages_are_progress_of_the_call(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    heard: list[tuple[float, float | None, str | None]] = []
    with anyio.fail_after(SECONDS):
        async with joined(workshop) as client:
            events = hear(client, ProgressMade)
            async with asyncio.TaskGroup() as group:
                call = group.create_task(
                    client.call_tool("work", {"steps": 2}, on_progress=lambda *progress: heard.append(progress))
                )
                for step in (1, 2):
                    await eventually(lambda step=step: any(f"step {step}" in str(each[2]) for each in heard))
                    (tmp_path / f"next {step}").touch()
                workshop.go()
            assert text(call.result()) == "done"
            assert [each[0] for each in heard] == list(range(1, len(heard) + 1))
            assert [event.message for event in events] == [each[2] for each in heard]


async def test_other_calls_have_their_turn_while_a_task_runs(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    with anyio.fail_after(SECONDS):
        async with joined(workshop) as client:  # One request at a time.
            calls = [client.start_call("work") for _ in range(3)]
            assert text(await client.call_tool("plain")) == "plain"
            assert len({(await task_of(call)).id for call in calls}) == 3
            assert client.queue.status().in_progress == 3
            workshop.go()
            assert [text(await call) for call in calls] == ["done"] * 3
            assert client.queue.status().in_progress == 0
    assert workshop.begun == 3


async def test_looks_at_a_task_are_neither_announced_nor_remembered(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    with anyio.fail_after(SECONDS):
        async with joined(workshop) as client:
            told = hear(client, RequestChanged)
            call = client.start_call("work")
            task = await task_of(call)
            for _ in range(5):
                await task.refresh()
            workshop.go()
            await call
            assert all(event.entry.method != "tasks/get" for event in told)
            assert all(entry.method != "tasks/get" for entry in client.queue.history())


async def test_a_result_is_checked_against_the_schema_of_its_tool(tmp_path: Path) -> None:
    with anyio.fail_after(SECONDS):
        async with joined(Workshop(tmp_path)) as client:
            result = (await client.call_tool("weigh")).result
            assert result is not None
            assert result.structured_content == {"kilograms": 3.5}


@pytest.mark.parametrize("how", ["ends", "is left by the caller", "is left by another"])
async def test_the_task_of_a_call_can_be_awaited_elsewhere_until_it(tmp_path: Path, how: str) -> None:
    workshop = Workshop(tmp_path)
    with anyio.fail_after(SECONDS):
        async with joined(workshop) as client:
            caller = asyncio.ensure_future(client.call_tool("work"))
            await eventually(lambda: client.tasks)
            [task] = client.tasks
            other = asyncio.ensure_future(task.resume()._result())
            await asyncio.sleep(0)
            if how == "ends":
                workshop.go()
                assert (await caller) is (await other)
                assert text(await other) == "done"
                return
            left, kept = (caller, other) if how == "is left by the caller" else (other, caller)
            left.cancel()
            await asyncio.wait((caller, other))
            assert left.cancelled()
            with pytest.raises(RequestCancelled):
                await kept
            assert client.queue.status().in_progress == 0
            assert client.tasks == []


async def test_without_tasks_the_server_answers_when_the_tool_has_ended(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    with anyio.fail_after(SECONDS):
        async with joined(workshop, config=ClientConfig(tasks=False)) as client:
            call = client.start_call("work")
            await eventually(lambda: workshop.begun)
            assert (call.task, call.state, client.tasks) == (None, "sent", [])
            workshop.go()
            assert text(await call) == "done"
            assert call.task is None


async def test_a_legacy_client_gets_plain_results(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    workshop.go()
    with anyio.fail_after(SECONDS):
        async with joined(workshop, era="legacy") as client:
            assert text(await client.call_tool("work")) == "done"
            with pytest.raises(NotSupported):
                await client.task("work.x").refresh()


# Time.


async def test_a_task_outlives_the_limits_of_requests(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    config = ClientConfig(timeouts=Timeouts(request=0.3, total=0.5))
    with anyio.fail_after(SECONDS):
        async with joined(workshop, config=config) as client:
            call = client.start_call("work")
            task = await task_of(call)
            began = anyio.current_time()
            await eventually(lambda: anyio.current_time() > began + 1)
            assert (call.state, task.status) == ("working", "working")
            workshop.go()
            assert text(await call) == "done"


async def test_at_the_end_of_a_timeout_the_task_goes_on_and_can_be_resumed(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    with anyio.fail_after(SECONDS):
        async with joined(workshop) as client:
            with pytest.raises(RequestTimedOut, match="goes on") as caught:
                await client.call_tool("work", timeout=0.5)
            [task] = client.tasks
            assert caught.value.data == {"task_id": task.id}
            assert not workshop.ended
            resumed = task.resume()
            assert task.resume() is resumed
            workshop.go()
            assert text(await resumed) == "done"
            assert client.tasks == []
    assert workshop.begun == 1


async def test_news_start_the_timeout_anew(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    with anyio.fail_after(SECONDS):
        async with joined(workshop) as client:
            call = client.start_call("work", {"steps": 4}, timeout=1)
            began = anyio.current_time()
            for step in range(1, 5):
                await eventually(lambda step=step: anyio.current_time() > began + step * 0.4)
                (tmp_path / f"next {step}").touch()
            workshop.go()
            assert text(await call) == "done"


# Ends.


@TRANSPORTS
async def test_a_task_that_fails_raises_the_error_of_the_server(transport: str, tmp_path: Path) -> None:
    with anyio.fail_after(SECONDS):
        async with joined(Workshop(tmp_path), transport) as client:
            with pytest.raises(TaskFailed, match="out of order") as caught:
                await client.call_tool("fail", {"how": "protocol"})
            assert caught.value.data["rpc_code"] == -31999
            assert caught.value.data["rpc_data"] == {"part": 7}
            assert client.tasks == []
            result = (await client.call_tool("fail", {"how": "tool"})).result
            assert result is not None
            assert result.is_error


@TRANSPORTS
async def test_who_cancels_a_call_cancels_its_task(transport: str, tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    with anyio.fail_after(SECONDS):
        async with joined(workshop, transport) as client:
            call = client.start_call("work")
            await task_of(call)
            await eventually(lambda: workshop.begun)
            assert call.cancel()
            with pytest.raises(RequestCancelled):
                await call
            assert client.tasks == []
            await eventually(lambda: workshop.ended)


async def test_a_caller_that_is_cancelled_cancels_the_task(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    with anyio.fail_after(SECONDS):
        async with joined(workshop) as client:
            calling = asyncio.create_task(client.call_tool("work"))
            await eventually(lambda: workshop.begun and client.tasks)
            calling.cancel()
            await asyncio.wait([calling])
            assert calling.cancelled()
            await eventually(lambda: workshop.ended)
            assert client.tasks == []


async def test_a_task_that_somebody_else_cancels_says_so(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    with anyio.fail_after(SECONDS):
        async with joined(workshop) as client, connect(workshop.mcp) as other:
            call = client.start_call("work")
            task = await task_of(call)
            await eventually(lambda: workshop.begun)
            await other.task(task.id).cancel()
            with pytest.raises(TaskCancelled):
                await call
            await task.cancel()  # Once more, as hosts do.
            assert client.tasks == []


async def test_an_unknown_id_has_an_unknown_outcome(tmp_path: Path) -> None:
    with anyio.fail_after(SECONDS):
        async with joined(Workshop(tmp_path)) as client:
            for attempt in (client.task("work.nothing"), client.task("wörk").refresh(), client.task("x").cancel()):
                with pytest.raises(TaskLost, match="unknown") as caught:
                    await attempt
                assert caught.value.data["task_id"] in ("work.nothing", "wörk", "x")
            assert client.tasks == []
            for bad in ("", None, 7):
                with pytest.raises(ValueError, match="id of a task"):
                    client.task(bad)  # type: ignore[arg-type]


async def test_a_client_that_is_closed_leaves_the_task_to_the_server(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    with anyio.fail_after(SECONDS):
        async with serving(workshop.mcp.asgi()) as port:
            url = f"http://127.0.0.1:{port}/mcp"
            async with connect(url) as client:
                call = client.start_call("work")
                task = await task_of(call)
            with pytest.raises(Disconnected):
                await call
            assert not workshop.ended
            workshop.go()
            async with connect(url) as other:
                done = await other.task(task.id)
                assert text(done) == "done"
                assert done.tool_name == ""


# Questions.


@TRANSPORTS
async def test_a_question_of_a_task_waits_for_a_person(transport: str, tmp_path: Path) -> None:
    with anyio.fail_after(SECONDS):
        async with joined(Workshop(tmp_path), transport, answer="ask") as client:
            call = client.start_call("ask", timeout=1)
            await eventually(lambda: len(client.pending))
            [question] = client.pending
            assert (question.message, question.call, call.state) == ("Which colour?", call.entry, "asking")
            assert call.task is not None
            assert (call.task.status, call.task.questions) == ("input_required", [question])
            began = anyio.current_time()
            await eventually(lambda: anyio.current_time() > began + 1.2)  # A person's time does not count.
            client.pending.resolve(question.id, {"colour": "blue"})
            assert text(await call) == "blue"


async def test_each_question_is_asked_once_and_answered_by_itself(tmp_path: Path) -> None:
    with anyio.fail_after(SECONDS):
        async with joined(Workshop(tmp_path), answer="ask") as client:
            asked = hear(client, PendingAdded)
            call = client.start_call("ask_twice")
            await eventually(lambda: len(client.pending) == 2)
            task = await task_of(call)
            first, second = sorted(client.pending, key=lambda question: question.message)
            client.pending.resolve(second.id, {"colour": "red"})
            await eventually(lambda: task.state is not None and len(task.state.asked) == 1)
            for _ in range(3):
                await task.refresh()
            client.pending.resolve(first.id, {"colour": "blue"})
            assert text(await call) == "blue red"
            assert len(asked) == 2


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_no_is_an_answer(action: Any, tmp_path: Path) -> None:
    with anyio.fail_after(SECONDS):
        async with joined(Workshop(tmp_path), answer=lambda _: ElicitResult(action=action)) as client:
            assert text(await client.call_tool("ask")) == action


async def test_a_question_that_is_refused_cancels_the_task(tmp_path: Path) -> None:
    with anyio.fail_after(SECONDS):
        async with joined(Workshop(tmp_path), answer=lambda _: refusal("not now")) as client:
            call = client.start_call("ask")
            task = await task_of(call)
            with pytest.raises(RequestCancelled, match="not now"):
                await call
            assert client.tasks == []
            assert (await client.task(task.id).refresh()).status == "cancelled"


async def test_a_question_that_another_client_answers_is_taken_back(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    with anyio.fail_after(SECONDS):
        async with (
            joined(workshop, answer="ask") as client,
            connect(workshop.mcp, answer=lambda _: {"colour": "green"}) as other,
        ):
            call = client.start_call("ask")
            await eventually(lambda: len(client.pending))
            task = await task_of(call)
            assert text(await other.task(task.id)) == "green"
            assert text(await call) == "green"
            assert len(client.pending) == 0


# The stream.


async def until_listening(call: StartedCall) -> RemoteTask:
    task = await task_of(call)
    await eventually(lambda: task.listening)
    return task


@TRANSPORTS
async def test_a_stream_tells_of_the_end_long_before_the_next_look(transport: str, tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, waking=NEVER)
    with anyio.fail_after(SECONDS):
        async with joined(workshop, transport) as client:
            call = client.start_call("work")
            await until_listening(call)
            workshop.go()
            assert text(await call) == "done"


async def test_many_tasks_share_a_stream(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, waking=NEVER)
    with anyio.fail_after(SECONDS):
        async with joined(workshop, "http", config=ClientConfig(concurrency=20)) as client:
            calls = [client.start_call("work") for _ in range(20)]
            for call in calls:
                await until_listening(call)
            late = client.start_call("work")
            await until_listening(late)
            workshop.go()
            assert {text(await call) for call in (*calls, late)} == {"done"}


async def test_waiting_for_a_change_wakes_the_client(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, waking=NEVER)
    (tmp_path / "today").write_text("old\n")
    with anyio.fail_after(SECONDS):
        async with joined(workshop, "http") as client:
            call = client.start_call("wait_for_change", {"uris": [TODAY]})
            await until_listening(call)
            (tmp_path / "today").write_text("new\n")
            await workshop.mcp.notify.resource_updated(TODAY)
            assert TODAY in text(await call)


async def test_the_lives_of_many_clients_end_in_good_order(tmp_path: Path) -> None:
    """A client that is closed in any moment of a task leaves nothing behind."""
    workshop = Workshop(tmp_path)
    with anyio.fail_after(SECONDS):
        async with serving(workshop.mcp.asgi()) as port:
            for turns in range(0, 60, 3):
                client: LiveClient = connect(f"http://127.0.0.1:{port}/mcp")
                async with client:
                    client.start_call("work")
                    for _ in range(turns):
                        await asyncio.sleep(0)
                assert all("tidings" not in task.get_name() for task in asyncio.all_tasks())
