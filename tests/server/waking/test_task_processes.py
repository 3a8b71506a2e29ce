"""Processes that run tasks, and are stopped or killed."""

import json
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.bus.processes import Peer, python
from tests.server import wire
from tests.server.serving import PROMPT, eventually, serving_apart
from tests.server.waking.tasking import DECLARED, about, follow, get, reaches, start, text

pytestmark = pytest.mark.anyio
SLOW = ["sleeps", "waits", "stubborn", "in_executor", "in_group"]
TERM, INT, KILL = signal.SIGTERM, signal.SIGINT, signal.SIGKILL


@pytest.mark.parametrize("number", [TERM, INT], ids=lambda number: number.name)
async def test_a_stop_waits_for_no_task_and_records_that_it_broke_them_off(
    number: signal.Signals, tmp_path: Path
) -> None:
    bus = f"sqlite:///{tmp_path}/bus.db"
    async with serving_apart("tasks", tmp_path / "log", bus) as (server, port):
        tasks = [await start(port, tool, mark=str(tmp_path / tool)) for tool in SLOW]
        stream = await follow(port, *tasks)
        await stream.next()
        await eventually(lambda: all((tmp_path / tool).exists() for tool in SLOW))
        server.send_signal(number)
        assert {(await stream.next())["params"]["status"] for _ in tasks} == {"failed"}
        assert await stream.over() == "result"
        seconds, _ = await server.gone()
    log = (tmp_path / "log").read_text()
    assert seconds < PROMPT, log
    assert "Traceback" not in log
    assert "ERROR" not in log
    async with serving_apart("tasks", tmp_path / "log", bus) as (_, port):
        for task in tasks:
            found = await get(port, task)
            assert found["status"] == "failed"
            assert "server was stopped" in found["error"]["message"]


async def test_a_second_interrupt_does_not_wait_for_tasks_either(tmp_path: Path) -> None:
    async with serving_apart("tasks", tmp_path / "log", f"sqlite:///{tmp_path}/bus.db") as (server, port):
        for tool in SLOW:
            await start(port, tool, mark=str(tmp_path / tool))
        await eventually(lambda: all((tmp_path / tool).exists() for tool in SLOW))
        server.send_signal(INT)
        server.send_signal(INT)
        seconds, _ = await server.gone()
    assert seconds < PROMPT, (tmp_path / "log").read_text()


@pytest.mark.thorough
async def test_a_task_whose_process_was_killed_fails_on_every_replica_in_bounded_time(tmp_path: Path) -> None:
    bus = f"sqlite:///{tmp_path}/bus.db"
    async with (
        serving_apart("tasks", tmp_path / "other", bus) as (_, there),
        serving_apart("tasks", tmp_path / "log", bus) as (server, here),
    ):
        task = await start(here, "waits", mark=str(tmp_path / "mark"))
        stream = await follow(there, task)
        await stream.next()
        await eventually((tmp_path / "mark").exists)
        server.send_signal(KILL)
        await server.gone()
        assert (await get(there, task))["status"] == "working"
        told = await stream.next(within=40)
        assert told["params"]["status"] == "failed"
        assert "process that ran this task has ended" in told["params"]["error"]["message"]
        assert (await get(there, task))["error"] == told["params"]["error"]


async def request(peer: Peer, method: str, **params: Any) -> dict[str, Any]:
    message = {
        "jsonrpc": "2.0",
        "id": method,
        "method": method,
        "params": {**params, "_meta": wire.modern_meta(**DECLARED)},
    }
    await peer.write_line(json.dumps(message))
    return json.loads(await peer.line())


async def test_over_stdio_the_next_process_knows_the_tasks_of_the_last(tmp_path: Path) -> None:
    arguments = ("-m", "tests.server.programs", "tasks", "0", f"sqlite:///{tmp_path}/bus.db")
    async with python(*arguments) as peer:
        quick = (await request(peer, "tools/call", name="touch", arguments={"uri": "note://a"}))["result"]["taskId"]
        slow_arguments = {"mark": str(tmp_path / "mark")}
        slow = (await request(peer, "tools/call", name="sleeps", arguments=slow_arguments))["result"]["taskId"]
        acknowledged = await request(peer, "subscriptions/listen", notifications={"taskIds": [quick, slow]})
        assert acknowledged["params"]["notifications"] == {"taskIds": [quick, slow]}
        told = json.loads(await peer.line())
        assert told["method"] == "notifications/tasks"
        assert told["params"]["_meta"] == {wire.SUBSCRIPTION_ID: "subscriptions/listen"}
        assert (told["params"]["taskId"], told["params"]["status"]) == (quick, "completed")
        await eventually((tmp_path / "mark").exists)
        peer.process.send_signal(TERM)
        with anyio.fail_after(PROMPT):
            await peer.process.wait()
    async with python(*arguments) as peer:
        done = (await request(peer, "tasks/get", taskId=quick))["result"]
        assert text(done["result"]) == "1"
        broken_off = (await request(peer, "tasks/get", taskId=slow))["result"]
        assert broken_off["status"] == "failed"
        assert "server was stopped" in broken_off["error"]["message"]
        assert "error" in await request(peer, "tasks/get", taskId=slow[:-1])


async def test_a_task_outlives_the_stream_on_which_it_was_asked_for(tmp_path: Path) -> None:
    async with serving_apart("tasks", tmp_path / "log", f"sqlite:///{tmp_path}/bus.db") as (_, port):
        task = await start(port, "waits", mark=str(tmp_path / "mark"))
        await wire.close_all()
        await eventually((tmp_path / "mark").exists)
        assert (await get(port, task))["status"] == "working"
        await about(port, "tasks/cancel", task)
        await reaches(port, task, "cancelled")
