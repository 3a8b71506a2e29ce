"""The tasks extension: who may use it, ids, and the three methods."""

import base64
import string
from pathlib import Path
from typing import Any

import pytest

from tests.server import wire
from tests.server.serving import serving
from tests.server.waking.tasking import EXTENSION, TODAY, about, ask, call, get, quick_notes, wait
from tidings.bus.sqlite import SqliteBus
from tidings.server.waking.store import TaskStore, UnknownTask

pytestmark = pytest.mark.anyio
INVALID, MISMATCH, MISSING, UNKNOWN_METHOD = -32602, -32020, -32021, -32601


async def test_the_extension_is_offered_to_the_modern_era_alone() -> None:
    async with serving(quick_notes().asgi()) as port:
        capabilities = (await ask(port, "server/discover")).json["result"]["capabilities"]
        session = await wire.Session.start(port)
    assert capabilities["extensions"][EXTENSION] == {}
    assert "tasks" not in capabilities
    assert EXTENSION not in session.capabilities.get("extensions", {})


async def test_a_legacy_client_has_no_tasks() -> None:
    async with serving(quick_notes().asgi()) as port:
        task = await wait(port, TODAY)
        session = await wire.Session.start(port)
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            answer = await session.request(method, {"taskId": task})
            assert answer.error["code"] == UNKNOWN_METHOD


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_a_request_that_does_not_declare_the_extension_is_refused(method: str) -> None:
    async with serving(quick_notes().asgi()) as port:
        task = await wait(port, TODAY)
        answer = await ask(port, method, name=task, declares=False, taskId=task)
    assert answer.error["code"] == MISSING
    assert answer.error["data"]["requiredCapabilities"]["extensions"] == {EXTENSION: {}}


@pytest.mark.parametrize("method", ["tasks/result", "tasks/list"])
async def test_methods_of_the_older_design_do_not_exist(method: str) -> None:
    async with serving(quick_notes().asgi()) as port:
        assert (await ask(port, method)).error["code"] == UNKNOWN_METHOD


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
@pytest.mark.parametrize("name", ["another", None])
async def test_the_header_has_to_name_the_task(method: str, name: str | None) -> None:
    async with serving(quick_notes().asgi()) as port:
        answer = await ask(port, method, name=name, taskId=await wait(port, TODAY))
    assert answer.status == 400
    assert answer.error["code"] == MISMATCH


async def test_a_header_may_be_encoded() -> None:
    async with serving(quick_notes().asgi()) as port:
        task = await wait(port, TODAY)
        encoded = f"=?base64?{base64.b64encode(task.encode()).decode()}?="
        assert (await ask(port, "tasks/get", name=encoded, taskId=task)).json["result"]["status"] == "working"


async def test_a_new_task_has_the_fields_of_the_extension() -> None:
    async with serving(quick_notes().asgi()) as port:
        created = await call(port, "wait_for_change", uris=[TODAY])
    assert created["resultType"] == "task"
    assert created["status"] == "working"
    assert created["pollIntervalMs"] == 50
    assert created["ttlMs"] > 0
    assert not {"result", "error", "inputRequests", "requestState"} & set(created)


async def test_an_id_is_short_visible_and_shows_nothing_of_the_uri() -> None:
    uri = "note://" + "x" * 2_000
    async with serving(quick_notes().asgi()) as port:
        ids = {await wait(port, uri) for _ in range(20)}
    assert len(ids) == 20
    for each in ids:
        assert each.startswith("wait_for_change.")
        assert len(each) <= 128
        assert set(each) <= set(string.ascii_letters + string.digits + string.punctuation)
        assert "xxxx" not in each


async def test_ten_thousand_ids_are_distinct_short_and_of_one_principal() -> None:
    mcp: Any = quick_notes()
    async with serving(mcp.asgi()):
        store = TaskStore(mcp._live._core)
        made = {task: key for key, task in (store.new_id("wait_for_change", "ada") for _ in range(10_000))}
        assert len(made) == 10_000
        assert max(map(len, made)) <= 128
        task, key = made.popitem()
        assert await store.key_of(task, "ada") == key
        with pytest.raises(UnknownTask):
            await store.key_of(task, "eve")


async def test_an_id_with_one_other_character_is_unknown() -> None:
    async with serving(quick_notes().asgi()) as port:
        task = await wait(port, TODAY)
        for place in range(len(task)):
            other = "A" if task[place] != "A" else "B"
            forged = task[:place] + other + task[place + 1 :]
            assert (await about(port, "tasks/get", forged)).error["code"] == INVALID, place
        for forged in ("x", "", ".", task + "A", task[:-1], task + "!", "A" * 129):
            assert (await ask(port, "tasks/get", name=forged, taskId=forged)).error["code"] in (INVALID, MISMATCH)


async def test_cancelling_twice_is_acknowledged_twice() -> None:
    async with serving(quick_notes().asgi()) as port:
        task = await wait(port, TODAY)
        for _ in range(2):
            answer = (await about(port, "tasks/cancel", task)).json["result"]
            assert answer["resultType"] == "complete"
            assert not {"taskId", "status", "result"} & set(answer)


async def test_a_look_at_a_task_that_waits_does_not_ask_the_bus(tmp_path: Path) -> None:
    bus = SqliteBus(tmp_path / "bus.db")
    async with serving(quick_notes(bus=bus).asgi()) as port:
        task = await wait(port, TODAY)
        asked: list[str] = []
        read = bus.records.get

        async def get_record(key: str) -> object:
            asked.append(key)
            return await read(key)

        bus.records.get = get_record  # type: ignore[method-assign,assignment]
        for _ in range(10):
            assert (await get(port, task))["status"] == "working"
    assert not asked
