"""`subscriptions/listen` with `taskIds`: streams that are told of the changes of tasks."""

from pathlib import Path

import pytest

from tests.server import wire
from tests.server.serving import eventually
from tests.server.waking.tasking import (
    DECLARED,
    EXTENSION,
    TODAY,
    about,
    accepted,
    answer,
    follow,
    get,
    reaches,
    start,
    wait,
)
from tests.server.waking.test_running import jobs, replicas
from tests.server.wire import Json

pytestmark = pytest.mark.anyio
INVALID, MISSING = -32602, -32021


async def told(stream: wire.Connection) -> Json:
    """The next state of a task, without the envelope of the notification."""
    frame = await stream.next()
    assert frame["method"] == "notifications/tasks"
    assert frame["params"]["_meta"] == {wire.SUBSCRIPTION_ID: "mine"}
    return {name: value for name, value in frame["params"].items() if name != "_meta"}


async def said(port: int, task: str) -> Json:
    """What `tasks/get` says, without the envelope of the answer."""
    return {name: value for name, value in (await get(port, task)).items() if name not in ("_meta", "resultType")}


async def acknowledged(stream: wire.Connection) -> Json:
    frame = await stream.next()
    assert frame["method"] == wire.ACKNOWLEDGED
    return frame["params"]["notifications"]


async def test_a_stream_is_told_what_a_look_at_the_task_would_say() -> None:
    async with jobs() as (made, port):
        task = await start(port, "work")
        stream = await follow(port, task)
        assert await acknowledged(stream) == {"taskIds": [task]}
        made.go.set()
        state = await told(stream)
        assert state["status"] == "completed"
        assert state == await said(port, task)


async def test_only_tasks_that_exist_and_are_the_callers_are_acknowledged() -> None:
    async with jobs() as (_, port):
        first, second = [await start(port, "work") for _ in range(2)]
        forged = first[:-1] + ("A" if first[-1] != "A" else "B")
        stream = await follow(port, first, forged, "x", "", "y" * 500, second, first)
        assert await acknowledged(stream) == {"taskIds": [first, second]}
        nothing = await follow(port, "x")
        assert await acknowledged(nothing) == {"taskIds": []}


async def test_tasks_and_resources_share_a_stream() -> None:
    async with jobs() as (made, port):
        task = await start(port, "work")
        stream = await wire.listen(port, {"taskIds": [task], "resourceSubscriptions": [TODAY]}, "mine", **DECLARED)
        assert await acknowledged(stream) == {"taskIds": [task], "resourceSubscriptions": [TODAY]}
        await made.mcp.notify.resource_updated(TODAY)
        assert wire.changed(await stream.next()) == TODAY
        made.go.set()
        assert (await told(stream))["status"] == "completed"
        await made.mcp.notify.resource_updated(TODAY)
        assert wire.changed(await stream.next()) == TODAY


async def test_a_client_that_comes_back_is_told_of_both() -> None:
    async with jobs() as (made, port):
        task = await start(port, "says", size=3)
        await reaches(port, task, "completed")
        first = await wire.subscribe("modern", port, [TODAY])
        since = first.acknowledged["params"]["_meta"][wire.CURSOR]
        await made.mcp.notify.resource_updated(TODAY)
        filter_ = {"taskIds": [task], "resourceSubscriptions": [TODAY]}
        stream = await wire.listen(port, filter_, "mine", **{"dev.tidings/since": since}, **DECLARED)
        assert (await stream.next())["params"]["_meta"]["dev.tidings/behind"] is True
        frames = [await stream.next(), await stream.next()]
        [change] = [frame for frame in frames if frame["method"] == wire.UPDATED]
        assert change["params"]["_meta"]["dev.tidings/behind"] is False
        assert {frame["method"] for frame in frames} == {wire.UPDATED, "notifications/tasks"}


async def test_a_stream_without_the_extension_is_refused() -> None:
    async with jobs() as (_, port):
        task = await start(port, "work")
        for ids in ([task], []):
            with pytest.raises(wire.Refused) as refused:
                await wire.listen(port, {"taskIds": ids})
            assert refused.value.response.error["code"] == MISSING
            assert refused.value.response.error["data"]["requiredCapabilities"]["extensions"] == {EXTENSION: {}}


@pytest.mark.parametrize("ids", ["x", 5, [5], {"a": 1}, [None]])
async def test_a_filter_of_the_wrong_shape_is_refused(ids: object) -> None:
    async with jobs() as (_, port):
        with pytest.raises(wire.Refused) as refused:
            await wire.listen(port, {"taskIds": ids}, **DECLARED)
        assert refused.value.response.error["code"] == INVALID


async def test_too_many_tasks_for_one_stream_are_refused_with_the_limit() -> None:
    async with jobs() as (_, port):
        with pytest.raises(wire.Refused) as refused:
            await follow(port, *(str(number) for number in range(10_001)))
        assert refused.value.response.error["data"]["limit"] == "subscriptions"


async def test_questions_progress_and_cancellations_are_told() -> None:
    async with jobs() as (_, port):
        asks, counts = await start(port, "asks"), await start(port, "counts", most=1, message="Half-way")
        stream = await follow(port, asks)
        await acknowledged(stream)
        asked = await told(stream)
        assert asked["status"] == "input_required"
        [key] = asked["inputRequests"]
        await answer(port, asks, **{key: accepted(ok=True)})
        while (state := await told(stream))["status"] != "completed":
            assert state["status"] == "working"
        stream = await follow(port, counts)
        await acknowledged(stream)
        await about(port, "tasks/cancel", counts)
        states = [await told(stream)]
        while states[-1]["status"] == "working":
            assert states[-1]["statusMessage"] == "Half-way"
            states.append(await told(stream))
        assert states[-1]["status"] == "cancelled"


async def test_a_stream_that_begins_is_told_of_what_is_over() -> None:
    async with jobs() as (_, port):
        task = await start(port, "says", size=3)
        await reaches(port, task, "completed")
        stream = await follow(port, task)
        await acknowledged(stream)
        assert await told(stream) == await said(port, task)


async def test_a_change_on_another_replica_is_told(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [(made, here), (_, there)]:
        works, cancelled = await start(here, "work"), await start(here, "work")
        stream = await follow(there, works, cancelled)
        await acknowledged(stream)
        await about(here, "tasks/cancel", cancelled)
        state = await told(stream)
        assert (state["taskId"], state["status"]) == (cancelled, "cancelled")
        made.go.set()
        state = await told(stream)
        assert state["status"] == "completed"
        assert state == await said(here, works)


async def test_a_wait_is_told_when_something_changes(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [(_, here), (there, port)]:
        task = await wait(here, TODAY)
        stream = await follow(port, task)
        await acknowledged(stream)
        await eventually(lambda: there.mcp.notify.subscribers(TODAY))
        await there.mcp.notify.resource_updated(TODAY)
        state = await told(stream)
        assert state["status"] == "completed"
        await reaches(here, task, "completed")
        assert state == await said(here, task)


async def test_a_stream_that_ends_lets_go_of_its_tasks() -> None:
    async with jobs() as (made, port):
        task = await start(port, "work")
        waking = made.mcp._live._waking
        assert waking is not None
        [near] = waking.store._watched.values()
        stream = await follow(port, task)
        await acknowledged(stream)
        assert len(near[next(iter(near))]) == 2
        stream.close()
        await eventually(lambda: len(near[next(iter(near))]) == 1)
