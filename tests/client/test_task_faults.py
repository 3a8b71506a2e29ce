"""Tasks whose server breaks off, forgets, lies or dies; and processes that go on with the tasks of others."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.bus.processes import python
from tests.client.bad_servers import MODERN, acknowledge, behaved, count, event, failure, refuse, silence, web
from tests.client.cutting import cable
from tests.client.library import SECONDS, eventually
from tests.client.misbehaving import Asked
from tests.client.states import ask as rows
from tests.client.test_tasks import task_of, text, until_listening
from tests.client.ways import environment
from tests.client.working import NEVER, POLL, TODAY, Workshop, command
from tests.ports import free_port
from tests.server.serving import child, serving
from tests.server.serving import eventually as soon
from tidings.bus.sqlite import SqliteBus
from tidings.client import Backoff, ClientConfig, LiveClient, Timeouts, connect
from tidings.errors import (
    EffectUnknown,
    MalformedMessage,
    NotSupported,
    RequestFailed,
    RequestTimedOut,
    TaskFailed,
    TaskLost,
)

pytestmark = pytest.mark.anyio
QUICK = ClientConfig(backoff=Backoff(delays=(0.02, 0.05)), timeouts=Timeouts(ping=2, ping_interval=1))


# A server that answers as a test says.

CREATED = {
    "resultType": "task",
    "taskId": "t 1",
    "status": "working",
    "createdAt": "2026-11-18T10:00:00Z",
    "lastUpdatedAt": "2026-11-18T10:00:00Z",
    "ttlMs": 60_000,
    "pollIntervalMs": 1,
}
DONE = {"content": [{"type": "text", "text": "done"}]}


def state(status: str = "working", **fields: Any) -> dict[str, Any]:
    """The answer to `tasks/get`."""
    return {**CREATED, "resultType": "complete", "status": status, **fields}


async def unannounced(asked: Asked) -> None:
    """Acknowledges a stream, but not what it knows nothing of."""
    wanted = asked.message["params"]["notifications"]
    await acknowledge(asked, {key: value for key, value in wanted.items() if key != "taskIds"} or {"x": 1})
    await silence(asked)


def peer(get: Any, **more: Any) -> dict[str, Any]:
    """What a server does whose only tool becomes a task."""
    does = behaved(MODERN) | {"subscriptions/listen": unannounced, "tools/call": CREATED, "tasks/get": get}
    return does | {"tasks/cancel": {"resultType": "complete"}, "tasks/update": {"resultType": "complete"}, **more}


def in_turn(*answers: Any) -> Callable[[Asked], Any]:
    """Gives these answers, one after the other, and then the last again and again."""
    left = list(answers)

    async def answer(asked: Asked) -> None:
        now = left.pop(0) if len(left) > 1 else left[0]
        await (now(asked) if callable(now) else asked.result(**now))

    return answer


@asynccontextmanager
async def met(does: dict[str, Any], **options: Any) -> AsyncGenerator[tuple[Any, LiveClient]]:
    async with web(does) as here, connect(here.url, **{"config": QUICK, **options}) as client:
        yield here, client


def named(here: Any, method: str) -> set[str | None]:
    return {
        asked.headers.get("mcp-name")
        for asked in here.asked
        if asked.method == "POST" and asked.message.get("method") == method
    }


async def test_each_request_about_a_task_names_it_in_a_header() -> None:
    question = {
        "method": "elicitation/create",
        "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
    }
    get = in_turn(state(), state("input_required", inputRequests={"q": question}), state())
    with anyio.fail_after(SECONDS):
        async with met(peer(get), answer=lambda _: {}) as (here, client):
            call = client.start_call("tool")
            await soon(lambda: count(here, "tasks/update"))
            call.cancel()
            await asyncio.wait([asyncio.ensure_future(failure(call))])
            assert named(here, "tasks/get") == named(here, "tasks/update") == named(here, "tasks/cancel") == {"t 1"}
            [updated] = [each.message["params"] for each in here.asked if b"tasks/update" in each.body]
            assert updated["inputResponses"] == {"q": {"action": "accept", "content": {}}}


async def test_every_request_declares_the_extension() -> None:
    with anyio.fail_after(SECONDS):
        async with met(peer(state("completed", result=DONE))) as (here, client):
            await client.call_tool("tool")
            await client.read_resource("note://a")
            asked = [each.message["params"]["_meta"] for each in here.asked]
            capabilities = [meta["io.modelcontextprotocol/clientCapabilities"] for meta in asked]
            assert all("io.modelcontextprotocol/tasks" in each["extensions"] for each in capabilities)


async def test_a_server_without_a_stream_of_tasks_is_asked_for_one_once() -> None:
    with anyio.fail_after(SECONDS):
        async with met(peer(in_turn(state(), state(), state("completed", result=DONE)))) as (here, client):
            for _ in range(3):
                assert text(await client.call_tool("tool")) == "done"
            assert sum(b"taskIds" in each.body for each in here.asked) <= 1
            assert count(here, "tools/call") == 3


async def test_polls_follow_the_pace_of_the_server_within_bounds() -> None:
    with anyio.fail_after(SECONDS):
        async with met(peer(state())) as (here, client):  # It asks for a look each millisecond.
            call = client.start_call("tool")
            await task_of(call)
            began = anyio.current_time()
            await eventually(lambda: anyio.current_time() > began + 1)
            assert 2 <= count(here, "tasks/get") <= 14
            call.cancel()
            await failure(call)


@pytest.mark.parametrize(
    ("created", "get", "error"),
    [
        ({**CREATED, "taskId": 7}, state(), MalformedMessage),
        ({**CREATED, "status": "perhaps"}, state(), MalformedMessage),
        (CREATED, {"resultType": "complete"}, MalformedMessage),
        (CREATED, state("resting"), MalformedMessage),
        (CREATED, state("completed"), MalformedMessage),
        (CREATED, state("completed", result={"content": 3}), MalformedMessage),
        (CREATED, state("failed"), TaskFailed),
        (CREATED, state("failed", error={"code": "x", "message": 9}, statusMessage="worn out"), TaskFailed),
        (CREATED, lambda asked: refuse(asked, -32602, "no such task"), TaskLost),
        (CREATED, lambda asked: refuse(asked, -32601, "no"), NotSupported),
        (CREATED, lambda asked: refuse(asked, -31000, "out of order"), RequestFailed),
    ],
)
async def test_bad_answers_have_named_errors(created: Any, get: Any, error: type[Exception]) -> None:
    with anyio.fail_after(SECONDS):
        async with met(peer(get, **{"tools/call": created})) as (here, client):
            assert isinstance(await failure(client.call_tool("tool"), SECONDS), error)
            assert count(here, "tools/call") == 1


async def test_odd_numbers_of_a_server_do_no_harm() -> None:
    odd = {"ttlMs": -5, "pollIntervalMs": 0, "createdAt": "yesterday", "lastUpdatedAt": 3, "statusMessage": ["x"]}
    with anyio.fail_after(SECONDS):
        async with met(peer(state("completed", result=DONE), **{"tools/call": {**CREATED, **odd}})) as (_, client):
            call = client.start_call("tool")
            task = await task_of(call)
            assert (task.ttl, task.poll_interval, task.message) == (None, None, None) or task.over
            assert text(await call) == "done"


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "input_required"])
async def test_a_task_that_is_over_from_the_start_is_looked_at_all_the_same(status: str) -> None:
    created = {**CREATED, "status": status}
    with anyio.fail_after(SECONDS):
        async with met(peer(state("completed", result=DONE), **{"tools/call": created})) as (_, client):
            assert text(await client.call_tool("tool")) == "done"


async def test_a_task_may_ask_for_a_sample() -> None:
    params = {"messages": [{"role": "user", "content": {"type": "text", "text": "2 + 2?"}}], "maxTokens": 9}
    question = {"method": "sampling/createMessage", "params": params}
    answers: list[Any] = []

    async def update(asked: Asked) -> None:
        answers.append(asked.message["params"]["inputResponses"]["q"])
        await asked.result(resultType="complete")

    async def get(asked: Asked) -> None:
        waits = state("input_required", inputRequests={"q": question})
        await asked.result(**(state("completed", result=DONE) if answers else waits))

    with anyio.fail_after(SECONDS):
        async with met(peer(get, **{"tasks/update": update}), answer=lambda asked: f"{asked.message} 4") as (_, client):
            assert text(await client.call_tool("tool")) == "done"
    assert [each["content"]["text"] for each in answers] == ["2 + 2? 4"]


async def test_a_failure_that_may_pass_is_asked_about_again() -> None:
    fails = [
        lambda asked: refuse(asked, -32603, "hiccup"),
        lambda asked: asked.answer(503),
        lambda asked: asked.reset(),
    ]

    async def broken_off(asked: Asked) -> None:
        asked.reset()

    get = in_turn(fails[0], fails[1], broken_off, state(), fails[0], state("completed", result=DONE))
    with anyio.fail_after(SECONDS):
        async with met(peer(get)) as (here, client):
            assert text(await client.call_tool("tool")) == "done"
            assert count(here, "tools/call") == 1


async def test_a_server_that_is_silent_for_longer_than_it_keeps_a_task_has_lost_it() -> None:
    created = {**CREATED, "ttlMs": 300}
    quick = ClientConfig(timeouts=Timeouts(request=0.3, total=0.4, ping=30, ping_interval=30))
    with anyio.fail_after(SECONDS):
        async with met(peer(silence, **{"tools/call": created}), config=quick) as (_, client):
            error = await failure(client.call_tool("tool", timeout=20), SECONDS)
            assert isinstance(error, TaskLost)
            assert "out of reach" in error.message
            assert client.tasks == []


async def test_a_task_that_the_server_knows_for_longer_than_it_said_goes_on() -> None:
    get = in_turn(*[state(ttlMs=10)] * 5, state("completed", result=DONE))
    with anyio.fail_after(SECONDS):
        async with met(peer(get, **{"tools/call": {**CREATED, "ttlMs": 10}})) as (_, client):
            assert text(await client.call_tool("tool")) == "done"


async def test_an_older_statement_does_not_replace_a_newer_one() -> None:
    newer, older = "2026-11-18T10:00:09Z", "2026-11-18T10:00:05Z"

    async def listening(asked: Asked) -> None:
        wanted = asked.message["params"]["notifications"]
        await acknowledge(asked)
        if "taskIds" in wanted:
            told = state(lastUpdatedAt=newer, statusMessage="newer")
            await event(asked, {"method": "notifications/tasks", "params": told})
        await silence(asked)

    get = state(lastUpdatedAt=older, statusMessage="older")
    with anyio.fail_after(SECONDS):
        async with met(peer(get, **{"subscriptions/listen": listening})) as (here, client):
            call = client.start_call("tool")
            task = await task_of(call)
            await eventually(lambda: task.message == "newer")
            looks = count(here, "tasks/get")
            await task.refresh()
            assert count(here, "tasks/get") > looks
            assert task.message == "newer"
            call.cancel()
            await failure(call)


async def test_an_answer_about_another_task_is_not_taken_for_this_one() -> None:
    get = state("completed", result=DONE, taskId="t 2")
    with anyio.fail_after(SECONDS):
        async with met(peer(get)) as (_, client):
            error = await failure(client.call_tool("tool"), SECONDS)
            assert isinstance(error, MalformedMessage)
            assert "'t 2'" in error.message


@pytest.mark.parametrize("stops_for", ["nothing", "a question"])
async def test_a_server_whose_clock_is_set_back_is_heard_all_the_same(stops_for: str) -> None:
    question = {
        "method": "elicitation/create",
        "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
    }
    answers: list[Any] = []
    before = "2026-11-17T10:00:00Z"

    async def update(asked: Asked) -> None:
        answers.append(asked.message["params"]["inputResponses"])
        await asked.result(resultType="complete")

    async def get(asked: Asked) -> None:
        asks = stops_for == "a question" and not answers
        now = state("input_required", inputRequests={"q": question}) if asks else state("completed", result=DONE)
        await asked.result(**{**now, "lastUpdatedAt": before})

    with anyio.fail_after(SECONDS):
        async with met(peer(get, **{"tasks/update": update}), answer=lambda _: {}) as (_, client):
            assert text(await client.call_tool("tool")) == "done"


@pytest.mark.parametrize("status", ["completed", "failed"])
async def test_an_end_that_is_announced_without_its_outcome_is_looked_up(status: str) -> None:
    over = False

    async def listening(asked: Asked) -> None:
        nonlocal over
        await acknowledge(asked)
        if "taskIds" in asked.message["params"]["notifications"]:
            over = True
            await event(asked, {"method": "notifications/tasks", "params": state(status)})
        await silence(asked)

    async def get(asked: Asked) -> None:
        ends = {"completed": {"result": DONE}, "failed": {"error": {"code": 1, "message": "worn out"}}}
        await asked.result(**(state(status, **ends[status]) if over else state()))

    with anyio.fail_after(SECONDS):
        async with met(peer(get, **{"subscriptions/listen": listening})) as (_, client):
            if status == "completed":
                assert text(await client.call_tool("tool")) == "done"
            else:
                assert "worn out" in str(await failure(client.call_tool("tool"), SECONDS))


async def test_a_question_that_the_protocol_does_not_know_ends_the_task() -> None:
    get = state("input_required", inputRequests={"q": {"method": "dance/begin"}})
    with anyio.fail_after(SECONDS):
        async with met(peer(get), answer="ask") as (here, client):
            assert isinstance(await failure(client.call_tool("tool"), SECONDS), MalformedMessage)
            assert count(here, "tasks/cancel") == 1


async def test_a_client_that_answers_nothing_says_so_and_cancels() -> None:
    get = state("input_required", inputRequests={"q": {"method": "roots/list"}})
    with anyio.fail_after(SECONDS):
        async with met(peer(get)) as (here, client):
            error = await failure(client.call_tool("tool"), SECONDS)
            assert isinstance(error, NotSupported)
            assert "answer=" in error.message
            assert count(here, "tasks/cancel") == 1
        async with met(peer(in_turn(get, state("completed", result=DONE))), roots=["/tmp"]) as (here, client):
            assert text(await client.call_tool("tool")) == "done"


async def test_an_answer_is_sent_again_until_it_arrives() -> None:
    async def broken_off(asked: Asked) -> None:
        asked.reset()

    question = state("input_required", inputRequests={"q": {"method": "roots/list"}})
    answered = asyncio.Event()

    async def update(asked: Asked) -> None:
        answered.set()
        await asked.result(resultType="complete")

    async def get(asked: Asked) -> None:
        await asked.result(**(state("completed", result=DONE) if answered.is_set() else question))

    does = peer(get, **{"tasks/update": in_turn(broken_off, lambda asked: asked.answer(503), update)})
    with anyio.fail_after(SECONDS):
        async with met(does, roots=["/tmp"]) as (here, client):
            assert text(await client.call_tool("tool")) == "done"
            assert count(here, "tools/call") == 1


async def test_secrets_in_the_words_of_a_task_are_masked() -> None:
    get = state("failed", error={"code": 1, "message": "token s3cr3t-token is not enough"})
    with anyio.fail_after(SECONDS):
        async with met(peer(get), token="s3cr3t-token") as (_, client):
            error = await failure(client.call_tool("tool"))
            assert "s3cr3t" not in error.message


# Lost connections.


@pytest.mark.parametrize("waking", [POLL, NEVER], ids=["polled", "on a stream"])
async def test_a_task_goes_on_over_lost_connections_and_is_called_once(waking: Any, tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, waking=waking)
    with anyio.fail_after(SECONDS):
        async with (
            serving(workshop.mcp.asgi()) as port,
            cable(f"http://127.0.0.1:{port}/mcp") as cut,
            connect(cut.url, config=QUICK) as client,
        ):
            call = client.start_call("work")
            task = await until_listening(call)
            for _ in range(3):
                await cut.cut()
                await eventually(lambda: not client.connected)
                await cut.mend()
                await eventually(lambda: client.connected)
            await cut.cut()
            workshop.go()
            await cut.mend()
            assert text(await call) == "done"
            assert task.over
    assert workshop.begun == 1


async def test_a_cut_stream_of_tasks_is_followed_by_looks_and_opened_again(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, waking=NEVER)
    with anyio.fail_after(SECONDS):
        async with (
            serving(workshop.mcp.asgi()) as port,
            cable(f"http://127.0.0.1:{port}/mcp") as cut,
            connect(cut.url, config=QUICK) as client,
        ):
            call = client.start_call("work")
            task = await until_listening(call)
            for _ in range(2):
                cut.cut_one(b"taskIds")
                await eventually(lambda: not task.listening)
                assert client.connected
                await eventually(lambda: task.listening)
            cut.cut_one(b"taskIds")
            await eventually(lambda: not task.listening)
            workshop.go()
            assert text(await call) == "done"
    assert workshop.begun == 1


async def test_a_call_whose_answer_was_lost_is_not_repeated() -> None:
    async def broken_off(asked: Asked) -> None:
        asked.reset()

    with anyio.fail_after(SECONDS):
        async with met(peer(state(), **{"tools/call": broken_off})) as (here, client):
            assert isinstance(await failure(client.call_tool("tool"), SECONDS), EffectUnknown)
            assert count(here, "tools/call") == 1


# Lost servers.


@asynccontextmanager
async def apart(folder: Path, bus: str, port: int) -> AsyncGenerator[Any]:
    words = (str(folder), bus, str(POLL.poll), str(port))
    with child("tests.client.working", *words, log=folder / "log") as process:
        yield process


async def test_a_server_that_was_killed_and_kept_nothing_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    port = free_port()
    with anyio.fail_after(60):
        async with apart(tmp_path, "memory:", port) as server:
            client = connect(f"http://127.0.0.1:{port}/mcp", config=ClientConfig(backoff=Backoff((0.1,), tries=100)))
            await client.connect()
            call = client.start_call("work")
            await task_of(call)
            server.send_signal(signal.SIGKILL)
            await server.gone()
        async with apart(tmp_path, "memory:", port):
            assert isinstance(await failure(call, 30), TaskLost)
            assert client.tasks == []
            await client.aclose()


async def test_a_wait_goes_on_at_the_next_process_of_a_server(tmp_path: Path) -> None:
    port, bus = free_port(), f"sqlite:///{tmp_path}/bus.db"
    (tmp_path / "today").write_text("old\n")
    with anyio.fail_after(60):
        async with apart(tmp_path, bus, port) as server:
            client = connect(f"http://127.0.0.1:{port}/mcp", config=ClientConfig(backoff=Backoff((0.1,), tries=100)))
            await client.connect()
            call = client.start_call("wait_for_change", {"uris": [TODAY]})
            await task_of(call)
            server.send_signal(signal.SIGKILL)
            await server.gone()
        (tmp_path / "today").write_text("new\n")
        other = Workshop(tmp_path, bus=SqliteBus(tmp_path / "bus.db"))
        async with other.mcp._live.running():
            await other.mcp.notify.resource_updated(TODAY)
        async with apart(tmp_path, bus, port):
            assert TODAY in text(await call)
            await client.aclose()


async def test_a_server_over_stdio_that_was_killed_is_asked_again_by_its_next_process(tmp_path: Path) -> None:
    words = command(tmp_path, f"sqlite:///{tmp_path}/bus.db")
    workshop = Workshop(tmp_path)
    with anyio.fail_after(60):
        async with connect(words, env=environment(), config=QUICK) as client:
            call = client.start_call("wait_for_change", {"uris": [TODAY], "until": 3})
            await task_of(call)
            assert client.pid is not None
            before = client.pid
            os.kill(before, signal.SIGKILL)
            await eventually(lambda: client.pid not in (None, before))
            assert "No change" in text(await call)
    assert workshop.begun == 0


# Restarts of the client.


async def test_the_next_process_finds_the_task_in_the_state_file(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    with anyio.fail_after(SECONDS):
        async with serving(workshop.mcp.asgi()) as port:
            url, path = f"http://127.0.0.1:{port}/mcp", tmp_path / "state.db"
            async with connect(url, state=path) as client:
                first = await task_of(client.start_call("work", {"steps": 0}))
                with pytest.raises(RequestTimedOut):
                    await client.call_tool("work", timeout=0.3)
                assert len(client.tasks) == 2
            async with connect(url, state=path) as client:
                task = client.task(first.id)
                task.resume()
                await eventually(lambda: task.status == "working")
            ends = [json.loads(content)["ends"] for (content,) in rows(path, "SELECT content FROM kept")]
            assert len(ends) == 2
            assert all(end > time.time() for end in ends)
            async with connect(url, state=path) as client:
                assert {(task.tool, task.status) for task in client.tasks} == {("work", None)}
                task = client.task(first.id)
                assert task.arguments == {"steps": 0}
                assert (await task.refresh()).status == "working"
                workshop.go()
                assert [text(await task) for task in client.tasks] == ["done", "done"]
                assert client.cache.get_tool_call_result("work") is not None
                assert client.tasks == []
            async with connect(url, state=path) as client:
                assert client.tasks == []
    assert workshop.begun == 2


async def test_a_process_that_was_killed_leaves_its_task_to_the_next(tmp_path: Path) -> None:
    workshop, path = Workshop(tmp_path), tmp_path / "state.db"
    with anyio.fail_after(60):
        async with serving(workshop.mcp.asgi()) as port:
            url = f"http://127.0.0.1:{port}/mcp"
            async with python("-m", "tests.client.test_task_faults", url, str(path)) as process:
                assert await process.line() == "working"
                process.process.kill()
                await process.process.wait()
            async with connect(url, state=path) as client:
                [task] = client.tasks
                workshop.go()
                assert text(await task) == "done"
    assert workshop.begun == 1


async def test_tasks_of_another_user_are_not_in_the_list(tmp_path: Path) -> None:
    workshop, path = Workshop(tmp_path), tmp_path / "state.db"
    with anyio.fail_after(SECONDS):
        async with serving(workshop.mcp.asgi()) as port:
            url = f"http://127.0.0.1:{port}/mcp"
            async with connect(url, state=path, token="a") as client:
                await task_of(client.start_call("work"))
            async with connect(url, state=path, token="b") as client:
                assert client.tasks == []
            async with connect(url, state=path, token="a") as client:
                assert len(client.tasks) == 1
                await client.disconnect()  # Content is dropped. A task goes on, so it is not.
            async with connect(url, state=path, token="a") as client:
                assert len(client.tasks) == 1
                await client.tasks[0].cancel()
                assert client.tasks == []


async def test_what_the_server_has_forgotten_is_dropped_from_the_state_file(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    created = {**CREATED, "ttlMs": 200}
    with anyio.fail_after(SECONDS):
        async with web(peer(state(ttlMs=200), **{"tools/call": created})) as here:
            async with connect(here.url, state=path) as client:
                await task_of(client.start_call("tool"))
                assert len(rows(path, "SELECT key FROM kept")) == 1
            ended = anyio.current_time() + 0.3
            await eventually(lambda: anyio.current_time() > ended)
            async with connect(here.url, state=path) as client:
                assert client.tasks == []
            assert rows(path, "SELECT key FROM kept") == []


async def main(url: str, path: str) -> None:
    async with connect(url, state=path) as client:
        call = client.start_call("work")
        await task_of(call)
        sys.stdout.write("working\n")
        sys.stdout.flush()
        await call


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
