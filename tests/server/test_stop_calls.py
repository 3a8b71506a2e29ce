"""The stop while requests are under way: whatever their handlers do, the process ends, and the callers are told."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED

import tidings
from tests.bus.processes import Peer
from tests.forking import command
from tests.server import wire
from tests.server.doubles import turns
from tests.server.programs import SEND_BUFFER
from tests.server.serving import PROMPT, ROOT, child, eventually, notes, serving, serving_apart
from tests.server.wire import Era, Session, both_eras, subscribe
from tidings.client import ClientConfig
from tidings.errors import EffectUnknown, LimitReached
from tidings.server.http_exchange import error_data
from tidings.server.stop import CALLS, CANCELLED, BrokenOff, RunningCalls, Share, StopBudget

pytestmark = pytest.mark.anyio

SLOW = ["sleeps", "waits", "stubborn", "in_executor", "in_group"]
TERM, INT = signal.SIGTERM, signal.SIGINT


async def answer(era: Era, port: int, tool: str, mark: Path) -> wire.Response:
    params: dict[str, Any] = {"name": tool, "arguments": {"mark": str(mark)}}
    if era == "legacy":
        return await (await Session.start(port)).request("tools/call", params)
    body = wire.message("tools/call", {**params, "_meta": wire.modern_meta()}, 1)
    return await wire.once(port, wire.http("POST", wire.modern_headers("tools/call", tool), body))


def is_told(error: dict[str, Any]) -> bool:
    return error["code"] == CONNECTION_CLOSED and "is stopping" in error["message"]


# Over HTTP


@pytest.mark.parametrize(
    ("program", "number", "era", "tool"),
    [
        *(("run", INT, "modern", tool) for tool in SLOW),
        *(("uvicorn", TERM, "legacy", tool) for tool in SLOW),
        ("run", TERM, "legacy", "sleeps"),
        ("uvicorn", INT, "modern", "sleeps"),
        ("mounted", TERM, "legacy", "sleeps"),
        ("routes", TERM, "modern", "waits"),
    ],
)
async def test_a_signal_ends_a_process_whose_tool_takes_a_minute(
    program: str, number: signal.Signals, era: Era, tool: str, tmp_path: Path
) -> None:
    async with serving_apart(program, tmp_path / "log") as (server, port):
        asking = asyncio.ensure_future(answer(era, port, tool, tmp_path / "mark"))
        await eventually((tmp_path / "mark").exists)
        server.send_signal(number)
        seconds, code = await server.gone()
        log = (tmp_path / "log").read_text()
        assert is_told((await asking).error), log
    assert seconds < PROMPT, log
    assert code == (0 if number == INT else -TERM)
    assert tool in log
    assert "Traceback" not in log
    assert "ERROR" not in log
    if program == "run" and number == INT:
        assert log.splitlines()[-2:] == ["behind run()", "at the exit"]


async def test_several_tools_and_a_second_signal_hold_up_no_stop(tmp_path: Path) -> None:
    async with serving_apart("uvicorn", tmp_path / "log") as (server, port):
        marks = {tool: tmp_path / tool for tool in SLOW}
        asking = [asyncio.ensure_future(answer("modern", port, tool, mark)) for tool, mark in marks.items()]
        listening = await subscribe("modern", port, ["note://a"])
        await eventually(lambda: all(mark.exists() for mark in marks.values()))
        server.send_signal(TERM)
        server.send_signal(TERM)
        seconds, code = await server.gone()
        assert all([is_told((await each).error) for each in asking])
        assert await listening.over() == "result"
    assert seconds < PROMPT, (tmp_path / "log").read_text()
    assert code == -TERM


@pytest.mark.parametrize("tool", SLOW)
@pytest.mark.parametrize("program", ["run", "uvicorn", "mounted"])
async def test_a_second_interrupt_does_not_wait_for_a_tool_either(program: str, tool: str, tmp_path: Path) -> None:
    """The web server then ends without shutting the application down."""
    async with serving_apart(program, tmp_path / "log") as (server, port):
        asking = asyncio.ensure_future(answer("modern", port, tool, tmp_path / "mark"))
        await eventually((tmp_path / "mark").exists)
        server.send_signal(INT)
        await eventually(lambda: "Shutting down" in (tmp_path / "log").read_text())
        server.send_signal(INT)
        seconds, _ = await server.gone()
        asking.cancel()
    assert seconds < PROMPT, (tmp_path / "log").read_text()


async def test_over_the_sse_transport_a_running_tool_holds_up_no_stop(tmp_path: Path) -> None:
    async with (
        serving_apart("sse", tmp_path / "log") as (server, port),
        tidings.connect(f"http://127.0.0.1:{port}/sse") as client,
    ):
        calling = asyncio.ensure_future(client.call_tool("sleeps", {"mark": str(tmp_path / "mark")}))
        await eventually((tmp_path / "mark").exists)
        server.send_signal(INT)
        seconds, code = await server.gone()
        with pytest.raises(EffectUnknown):
            await calling
    assert (seconds < PROMPT, code) == (True, 0), (tmp_path / "log").read_text()


@both_eras
async def test_a_client_repeats_what_a_stop_broke_off_only_if_that_is_harmless(era: Era, tmp_path: Path) -> None:
    async with serving_apart("run", tmp_path / "log") as (server, port):
        url, config = f"http://127.0.0.1:{port}/mcp", ClientConfig(concurrency=2)
        async with tidings.connect(url, era="legacy" if era == "legacy" else "auto", config=config) as client:
            marks = {name: tmp_path / name for name in ("harmful", "harmless")}
            harmful, harmless = (
                client.start_call("only_once", {"mark": str(mark)}, idempotent=name == "harmless")
                for name, mark in marks.items()
            )
            await eventually(lambda: all(mark.exists() for mark in marks.values()))
            server.send_signal(TERM)
            await server.gone()
            with child("tests.server.programs", "run", str(port), log=tmp_path / "next"), anyio.fail_after(30):
                with pytest.raises(EffectUnknown):
                    await harmful
                result: Any = (await harmless).result
                assert result.content[0].text == "again"


# What is no call


HALF = wire.http("POST", wire.modern_headers("tools/call", "waits"), b"{" * 1000)[:-500]
HALF_LISTEN = wire.http("POST", wire.modern_headers("subscriptions/listen"), b"{" * 1000)[:-500]


@pytest.mark.parametrize("request_", [HALF, HALF_LISTEN])
async def test_a_body_that_never_arrives_holds_up_no_stop(request_: bytes, tmp_path: Path) -> None:
    async with serving_apart("uvicorn", tmp_path / "log") as (server, port):
        asking = asyncio.ensure_future((await wire.Connection.open(port)).exchange(request_))
        await wire.call_tool(port, "waiting")  # The server has read what came before.
        server.send_signal(TERM)
        seconds, code = await server.gone()
        assert is_sent_away(await asking)
    log = (tmp_path / "log").read_text()
    assert (seconds < PROMPT, code, "ERROR" in log) == (True, -TERM, False), log


def is_sent_away(response: wire.Response) -> bool:
    return response.status == 503 and response.headers["retry-after"] == "1" and b"is stopping" in response.body


@pytest.mark.parametrize(
    ("program", "route", "method", "numbers"),
    [
        ("run", "sleeps", "GET", [INT]),
        ("run", "streams", "GET", [TERM]),
        ("uvicorn", "waits", "GET", [TERM]),
        ("uvicorn", "sleeps", "POST", [TERM]),
        ("uvicorn", "streams", "GET", [TERM]),
        ("uvicorn", "sleeps", "GET", [INT, INT]),
        ("mounted", "sleeps", "GET", [TERM]),
        ("sse", "waits", "GET", [TERM]),
    ],
)
async def test_a_slow_route_of_the_program_holds_up_no_stop(
    program: str, route: str, method: str, numbers: list[signal.Signals], tmp_path: Path
) -> None:
    mark, log = tmp_path / "mark", tmp_path / "log"
    async with serving_apart(program, log) as (server, port):
        asking = asyncio.ensure_future(wire.once(port, wire.http(method, {}, path=f"/{route}?mark={mark}")))
        await eventually(mark.exists)
        server.send_signal(numbers[0])
        for number in numbers[1:]:
            await eventually(lambda: "Shutting down" in log.read_text())
            server.send_signal(number)
        seconds, code = await server.gone()
        if route == "streams":
            with pytest.raises(AssertionError, match="broke within a response"):
                await asking
        else:
            assert is_sent_away(await asking)
    assert (seconds < PROMPT, code) == (True, 0 if INT in numbers else -TERM), log.read_text()
    if len(numbers) == 1:
        assert "ERROR" not in log.read_text()


async def test_an_answer_that_is_not_read_holds_up_no_stop(tmp_path: Path) -> None:
    async with serving_apart("uvicorn", tmp_path / "log") as (server, port):
        stalled = await wire.Connection.open(port, receive_buffer=SEND_BUFFER)
        stalled.stall()
        params = {"name": "says_much", "arguments": {"mark": str(tmp_path / "mark")}, "_meta": wire.modern_meta()}
        request = wire.http(
            "POST", wire.modern_headers("tools/call", "says_much"), wire.message("tools/call", params, 1)
        )
        asking = asyncio.ensure_future(stalled.exchange(request))
        await eventually((tmp_path / "mark").exists)
        server.send_signal(TERM)
        seconds, code = await server.gone()
        stalled.resume()
        with pytest.raises((ConnectionError, AssertionError), match="broke"):
            await asking
    assert (seconds < PROMPT, code) == (True, -TERM), (tmp_path / "log").read_text()


async def test_a_stop_breaks_off_no_request_of_another_app_in_the_same_program(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    async with serving_apart("mounted", tmp_path / "log") as (server, port):
        asking = asyncio.ensure_future(wire.once(port, wire.http("GET", {}, path=f"/slow?mark={mark}")))
        called = asyncio.ensure_future(answer("modern", port, "waits", tmp_path / "called"))
        await eventually(lambda: mark.exists() and (tmp_path / "called").exists())
        server.send_signal(TERM)
        assert is_told((await called).error)
        assert (await asking).body == b"from another app"
        await server.gone()


async def test_a_stop_without_a_signal_does_not_wait_for_a_thread_either() -> None:
    """As from web servers whose signals go to another process. They only say that the application is to shut down."""
    mcp, begun, enough = notes(), threading.Event(), threading.Event()

    @mcp.tool()
    def stuck() -> None:
        begun.set()
        enough.wait(60)

    try:
        with anyio.fail_after(PROMPT):
            async with serving(mcp.asgi()) as port:
                session = await Session.start(port)
                connection = await wire.Connection.open(port)
                body = wire.message("tools/call", {"name": "stuck"}, 1)
                await connection.stream(wire.http("POST", {**wire.JSON, **session.headers}, body))
                await eventually(begun.is_set)
                connection.close()  # The web server has nothing to wait for.
    finally:
        enough.set()


# Over standard input and output


@asynccontextmanager
async def over_stdio(program: str, log: Path) -> AsyncGenerator[Peer]:
    with log.open("wb") as errors:
        process = await anyio.open_process(
            command("-m", "tests.server.programs", program, "0"), cwd=ROOT, stdin=subprocess.PIPE, stderr=errors
        )
        try:
            yield Peer(process)
        finally:
            with anyio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await process.aclose()


async def call(peer: Peer, tool: str, mark: Path) -> None:
    params = {"name": tool, "arguments": {"mark": str(mark)}, "_meta": wire.modern_meta()}
    await peer.write_line(wire.message("tools/call", params, tool).decode())


@pytest.mark.parametrize(
    ("program", "end", "tool"),
    [
        *(("stdio", None, tool) for tool in SLOW),
        *(("stdio", TERM, tool) for tool in SLOW),
        ("stdio", INT, "sleeps"),
        ("attached", None, "sleeps"),
        ("attached", TERM, "in_executor"),
    ],
)
async def test_over_stdio_a_tool_that_takes_a_minute_holds_up_no_stop(
    program: str, end: signal.Signals | None, tool: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    async with over_stdio(program, log) as peer:
        await call(peer, tool, tmp_path / "mark")
        await eventually((tmp_path / "mark").exists)
        if end is None:
            assert peer.process.stdin is not None
            await peer.process.stdin.aclose()
        else:
            peer.process.send_signal(end)
        with anyio.fail_after(PROMPT):
            assert await peer.process.wait() == 0
        [said] = [json.loads(line) for line in await peer.rest()]
        assert said["id"] == tool
        assert is_told(said["error"])
    assert "Traceback" not in log.read_text()
    if program == "stdio":
        assert log.read_text().splitlines()[-2:] == ["behind run()", "at the exit"]


@pytest.mark.parametrize("tool", ["sleeps", "waits", "stubborn"])
@pytest.mark.parametrize("program", ["stdio", "attached"])
async def test_a_client_that_dies_during_its_call_ends_the_process_without_an_error(
    program: str, tool: str, tmp_path: Path
) -> None:
    mark, words = tmp_path / "mark", ["-m", "tests.server.programs", program, "0"]
    params = {"name": tool, "arguments": {"mark": str(mark)}, "_meta": wire.modern_meta()}
    # Started directly: no other process may hold the far end of its output.
    with subprocess.Popen(  # noqa: ASYNC220 - an asynchronous one does not close its output
        [sys.executable, *words], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(wire.message("tools/call", params, tool) + b"\n")
        process.stdin.flush()
        await eventually(mark.exists)
        process.stdout.close()
        process.stdin.close()
        assert await anyio.to_thread.run_sync(process.wait, PROMPT) == 0
        assert b"Traceback" not in process.stderr.read()


async def test_a_lifespan_that_fails_is_not_taken_for_a_client_that_died(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with over_stdio("failing", log) as peer:
        with anyio.fail_after(PROMPT):
            assert await peer.process.wait() == 1
    assert "BrokenPipeError: of the lifespan" in log.read_text()


# One request


class Plenty(StopBudget):
    """The time of a stop, which is plenty for some parts, and nothing for the others."""

    def __init__(self, *parts: Share) -> None:
        super().__init__(time.monotonic)
        self._parts = parts

    def left(self, share: Share) -> float:
        return 60.0 if share in self._parts else 0.0


async def run(calls: RunningCalls, handler: Any) -> Any:
    ctx: Any = SimpleNamespace(method="tools/call", params={"name": "mine"}, request=None)
    return await calls.run(ctx, handler)


async def test_a_request_that_ends_in_time_is_answered_and_one_that_comes_later_is_told_to_come_back() -> None:
    calls, enough = RunningCalls(BrokenOff()), asyncio.Event()

    async def handler(ctx: Any) -> Any:
        await enough.wait()
        return {"done": ctx.params["name"]}

    with anyio.fail_after(20):
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(run(calls, handler))
            await turns()
            ending = tasks.create_task(calls.end(Plenty(CALLS)))
            await turns()
            enough.set()
            await ending
        assert running.result() == {"done": "mine"}
        with pytest.raises(LimitReached) as refusal:
            calls.check()
        assert error_data(refusal.value) == {
            "code": "limit-reached",
            "retryable": True,
            "limit": "stopping",
            "scope": "server",
        }
        calls.begin()
        calls.check()
        assert await run(calls, handler) == {"done": "mine"}


async def test_a_stop_waits_for_what_a_cancelled_handler_cleans_up() -> None:
    calls, cleaned = RunningCalls(BrokenOff()), asyncio.Event()

    async def handler(_: Any) -> Any:
        try:
            await asyncio.sleep(60)
        finally:
            with anyio.CancelScope(shield=True):
                await turns()
                cleaned.set()

    with anyio.fail_after(20):
        running = asyncio.ensure_future(run(calls, handler))
        await turns()
        await calls.end(Plenty(CANCELLED))
        assert cleaned.is_set()
        with pytest.raises(MCPError, match="is stopping"):
            await running


async def test_a_caller_that_is_cancelled_leaves_when_its_handler_has_ended() -> None:
    calls, ended = RunningCalls(BrokenOff()), asyncio.Event()

    async def handler(_: Any) -> Any:
        try:
            await asyncio.sleep(60)
        finally:
            with anyio.CancelScope(shield=True):
                await turns()
                ended.set()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, calls, handler)
            await turns()
            tasks.cancel_scope.cancel()
        assert ended.is_set()


async def test_what_a_handler_raises_is_raised_as_it_is() -> None:
    async def handler(_: Any) -> Any:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await run(RunningCalls(BrokenOff()), handler)
