"""The tool `wait_for_change`: as a task, and as a call that is answered in time."""

import time
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver.exceptions import ResourceNotFoundError

from tests.server import wire
from tests.server.serving import AT_ONCE, eventually, serving
from tests.server.waking.tasking import QUICK, TODAY, about, ask, call, cursor, get, quick_notes, reaches, text, wait
from tidings import LiveServer, attach
from tidings.bus.sqlite import SqliteBus
from tidings.server import Waking

pytestmark = pytest.mark.anyio


async def test_a_task_completes_with_the_resources_that_changed() -> None:
    mcp = quick_notes()
    async with serving(mcp.asgi()) as port:
        task = await wait(port, "note://*")
        assert (await get(port, task))["status"] == "working"
        await mcp.notify.resource_updated(TODAY)
        await mcp.notify.resource_updated("note://later")
        done = await reaches(port, task, "completed")
    assert TODAY in text(done["result"])
    assert "note://later" in text(done["result"])
    assert done["result"]["isError"] is False


async def test_a_finished_task_keeps_its_result_whatever_changes_later() -> None:
    mcp = quick_notes()
    async with serving(mcp.asgi()) as port:
        task = await wait(port, "note://*")
        await mcp.notify.resource_updated(TODAY)
        first = await reaches(port, task, "completed")
        await mcp.notify.resource_updated("note://later")
        assert await get(port, task) == first


async def test_with_the_cursor_of_a_result_no_change_between_two_waits_is_missed() -> None:
    mcp = quick_notes()
    async with serving(mcp.asgi()) as port:
        first = await wait(port, "note://*")
        await mcp.notify.resource_updated(TODAY)
        done = await reaches(port, first, "completed")
        await mcp.notify.resource_updated("note://between")
        again = await wait(port, "note://*", since=cursor(done["result"]))
        said = text((await reaches(port, again, "completed"))["result"])
    assert "note://between" in said
    assert TODAY not in said


async def test_a_wait_without_a_change_completes_before_its_ttl_with_a_cursor() -> None:
    mcp = quick_notes()
    async with serving(mcp.asgi()) as port:
        task = await wait(port, TODAY, until=0.05)
        done = await reaches(port, task, "completed")
        assert text(done["result"]).startswith("No change until")
        assert done["ttlMs"] > 1_000_000
        await mcp.notify.resource_updated(TODAY)
        again = await wait(port, TODAY, since=cursor(done["result"]))
        assert TODAY in text((await reaches(port, again, "completed"))["result"])


async def test_a_client_without_tasks_is_told_of_the_change_in_the_answer() -> None:
    mcp = quick_notes()
    async with serving(mcp.asgi()) as port, anyio.create_task_group() as tasks:

        async def change() -> None:
            await eventually(lambda: mcp.notify.subscribers(TODAY))
            await mcp.notify.resource_updated(TODAY)

        tasks.start_soon(change)
        result = await call(port, "wait_for_change", declares=False, uris=[TODAY])
    assert result["resultType"] == "complete"
    assert TODAY in text(result)


async def test_a_call_without_tasks_is_answered_in_time_and_goes_on_with_its_cursor() -> None:
    mcp = quick_notes(waking=Waking(longest_call=0.05, quiet=0.01))
    async with serving(mcp.asgi()) as port:
        nothing = await call(port, "wait_for_change", declares=False, uris=[TODAY])
        assert "No change until" in text(nothing)
        await mcp.notify.resource_updated(TODAY)
        result = await call(port, "wait_for_change", declares=False, uris=[TODAY], since=cursor(nothing))
    assert TODAY in text(result)


async def test_a_legacy_client_gets_a_plain_result() -> None:
    mcp = quick_notes(waking=Waking(longest_call=0.05))
    async with serving(mcp.asgi()) as port:
        session = await wire.Session.start(port)
        tools = (await session.request("tools/list")).json["result"]["tools"]
        assert "wait_for_change" in [tool["name"] for tool in tools]
        params = {"name": "wait_for_change", "arguments": {"uris": [TODAY]}}
        result = (await session.request("tools/call", params)).json["result"]
    assert "No change until" in text(result)
    assert "resultType" not in result


async def test_a_pending_wait_is_a_subscriber_until_it_is_over() -> None:
    mcp = quick_notes()
    async with serving(mcp.asgi()) as port:
        task = await wait(port, TODAY)
        assert len(mcp.notify.subscribers(TODAY)) == 1
        assert (await about(port, "tasks/cancel", task)).json["result"]["resultType"] == "complete"
        await eventually(lambda: not mcp.notify.subscribers(TODAY))
        assert (await get(port, task))["status"] == "cancelled"


async def test_a_task_is_answered_by_another_replica_and_after_a_restart(tmp_path: Path) -> None:
    first, second = (quick_notes(bus=SqliteBus(tmp_path / "bus.db")) for _ in range(2))
    async with serving(second.asgi()) as other:
        async with serving(first.asgi()) as port:
            task = await wait(port, TODAY)
            assert (await get(other, task))["status"] == "working"
        await second.notify.resource_updated(TODAY)
        done = await reaches(other, task, "completed")
    third = quick_notes(bus=SqliteBus(tmp_path / "bus.db"))
    async with serving(third.asgi()) as port:
        assert await get(port, task) == done
    assert TODAY in text(done["result"])


async def test_a_change_while_no_process_ran_completes_the_task(tmp_path: Path) -> None:
    async with serving(quick_notes(bus=SqliteBus(tmp_path / "bus.db")).asgi()) as port:
        task = await wait(port, TODAY)
    publisher = quick_notes(bus=SqliteBus(tmp_path / "bus.db"))
    async with serving(publisher.asgi()):
        await publisher.notify.resource_updated(TODAY)
    async with serving(quick_notes(bus=SqliteBus(tmp_path / "bus.db")).asgi()) as port:
        assert TODAY in text((await reaches(port, task, "completed"))["result"])


async def test_a_lost_log_completes_the_task_with_the_advice_to_read_again() -> None:
    async with serving(quick_notes().asgi()) as port:
        task = await wait(port, TODAY, since="elsewhere:7")
        assert "may have changed" in text((await reaches(port, task, "completed"))["result"])
        answer = await call(port, "wait_for_change", uris=[TODAY], since="no cursor at all")
    assert "may have changed" in text(answer)


async def test_a_resource_that_cannot_exist_is_refused_with_those_that_do() -> None:
    async with serving(quick_notes().asgi()) as port:
        result = await call(port, "wait_for_change", uris=["nothing://here"])
    assert result["isError"] is True
    assert "note://{name}" in text(result)


async def test_what_may_not_be_read_is_refused_as_if_it_did_not_exist() -> None:
    mcp = quick_notes(authorize=lambda ctx, uri: uri != "note://secret")
    async with serving(mcp.asgi()) as port:
        refused = await call(port, "wait_for_change", uris=["note://secret"])
        missing = await call(port, "wait_for_change", uris=["nothing://here"])
        assert await wait(port, TODAY)
    assert text(refused).replace("note://secret", "X") == text(missing).replace("nothing://here", "X")


async def test_more_waits_than_the_budget_are_refused_with_the_limit() -> None:
    mcp = quick_notes(waking=Waking(waits_per_client=2))
    async with serving(mcp.asgi()) as port:
        tasks = [await wait(port, TODAY) for _ in range(2)]
        refused = await call(port, "wait_for_change", uris=[TODAY])
        assert refused["isError"] is True
        assert "may have 2" in text(refused)
        await about(port, "tasks/cancel", tasks[0])
        await eventually(lambda: len(mcp.notify.subscribers(TODAY)) == 1)
        assert await wait(port, TODAY)


async def test_waits_that_begin_at_once_are_counted_too() -> None:
    answers: list[dict[str, Any]] = []

    async def begin(port: int) -> None:
        answers.append(await call(port, "wait_for_change", uris=[TODAY]))

    mcp = quick_notes(waking=Waking(waits_per_client=2))
    async with serving(mcp.asgi()) as port, anyio.create_task_group() as calls:
        for _ in range(6):
            calls.start_soon(begin, port)
        await eventually(lambda: len(answers) == 6)
    assert sum(answer.get("resultType") == "task" for answer in answers) == 2


@pytest.mark.parametrize(
    "arguments",
    [{}, {"uris": []}, {"uris": "note://a"}, {"uris": [TODAY], "until": -1}, {"uris": [TODAY], "until": "x"}],
)
async def test_arguments_that_are_not_valid_are_explained(arguments: dict[str, object]) -> None:
    async with serving(quick_notes().asgi()) as port:
        result = await call(port, "wait_for_change", **arguments)
    assert result["isError"] is True


async def test_a_burst_of_changes_is_reported_once() -> None:
    mcp = quick_notes(waking=Waking(quiet=0.05, longest_quiet=10, poll=0.05))
    async with serving(mcp.asgi()) as port:
        task = await wait(port, "note://*")
        for number in range(200):
            await mcp.notify.resource_updated(f"note://{number}")
        said = text((await reaches(port, task, "completed"))["result"])
    assert "note://199" in said
    assert len(said) < 8_000


async def test_the_stop_of_a_server_answers_calls_that_wait() -> None:
    mcp = quick_notes()
    async with serving(mcp.asgi()) as port, anyio.create_task_group() as tasks:
        results: list[str] = []

        async def wait_here() -> None:
            results.append(text(await call(port, "wait_for_change", declares=False, uris=[TODAY])))

        tasks.start_soon(wait_here)
        await eventually(lambda: mcp.notify.subscribers(TODAY))
        began = time.monotonic()
        await mcp.aclose()
        await eventually(lambda: results)
    assert time.monotonic() - began < QUICK.longest_call
    assert "No change until" in results[0]


async def test_the_tool_can_be_turned_off() -> None:
    async with serving(quick_notes(waking=None).asgi()) as port:
        answer = await call(port, "wait_for_change", declares=False, uris=[TODAY])
    assert answer["isError"] is True


async def test_a_server_that_has_resources_alone_gets_the_tool() -> None:
    texts = {"doc://a": "one"}

    async def read(_: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        text = texts[str(params.uri)]
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text=text)])

    server = Server[Any]("low", on_read_resource=read)
    live = attach(server, waking=QUICK)
    async with serving(live.wrap(server.streamable_http_app())) as port:
        listed = (await ask(port, "tools/list")).json["result"]
        assert [tool["name"] for tool in listed["tools"]] == ["wait_for_change"]
        task = await wait(port, "doc://a")
        texts["doc://a"] = "two"
        await live.notify.resource_updated("doc://a")
        assert "-one\n+two" in text((await reaches(port, task, "completed"))["result"])


def few_notes(**options: Any) -> LiveServer[Any]:
    """A server whose template has three notes, two of which are listed."""
    mcp = LiveServer("few", **{"waking": QUICK, "coalesce": AT_ONCE, **options})
    known = {"today": "milk", "groceries": "eggs", "grocery-secret": "hidden"}

    @mcp.resource("note://{name}")
    def note(name: str) -> str:
        if name not in known:
            raise ResourceNotFoundError(f"There is no note {name!r}.")
        return known[name]

    @mcp.resource("note://groceries")
    def groceries() -> str:
        return known["groceries"]

    @mcp.resource("note://grocery-secret")
    def secret() -> str:
        return known["grocery-secret"]

    @mcp.tool()
    def write(name: str) -> None:
        known[name] = "written"

    return mcp


async def test_a_task_for_a_misspelled_resource_says_at_once_that_there_is_none_and_names_the_closest() -> None:
    async with serving(few_notes().asgi()) as port:
        created = await call(port, "wait_for_change", uris=["note://grocries", TODAY])
        assert created["resultType"] == "task"
        said = created["statusMessage"]
        assert "Nothing exists at note://grocries now: There is no note 'grocries'." in said
        assert "Did you mean note://groceries?" in said
        assert f"at {TODAY}" not in said
        # Claude Code shows its model this instead of the status message.
        assert created["_meta"]["com.anthropic/agent-task"] == {"modelImmediateResponse": said}
        assert (await get(port, created["taskId"]))["statusMessage"] == said
        known = await call(port, "wait_for_change", uris=[TODAY])
    assert "com.anthropic/agent-task" not in known["_meta"]


async def test_a_call_for_a_misspelled_resource_is_answered_at_once_and_can_go_on_to_wait() -> None:
    mcp = few_notes()
    async with serving(mcp.asgi()) as port:
        with anyio.fail_after(20):  # It could wait for 25 seconds.
            absent = await call(port, "wait_for_change", declares=False, uris=["note://grocries"])
            assert "Nothing exists at note://grocries now" in text(absent)
            assert "Did you mean note://groceries?" in text(absent)
            assert absent["isError"] is False
            await call(port, "write", name="grocries")
            await mcp.notify.resource_updated("note://grocries")
            waited = await call(port, "wait_for_change", declares=False, uris=["note://grocries"], since=cursor(absent))
    assert "+written" in text(waited)


@pytest.mark.parametrize("declares", [True, False])
async def test_a_suggestion_never_names_what_its_reader_may_not_hear_of(declares: bool) -> None:
    mcp = few_notes(authorize=lambda ctx, uri: "secret" not in uri)
    async with serving(mcp.asgi()) as port:
        created = await call(port, "wait_for_change", declares=declares, uris=["note://grocery-scret"])
        refused = await call(port, "wait_for_change", declares=declares, uris=["note://grocery-secret"])
        plain = await call(port, "wait_for_change", declares=declares, uris=["grocery-secret"])
    said = created["statusMessage"] if declares else text(created)
    assert "Nothing exists at note://grocery-scret now" in said
    assert "note://grocery-secret" not in said
    assert text(refused) == "Resource not found: note://grocery-secret"
    assert "note://" not in text(plain).replace("as in 'note://today'", "")


@pytest.mark.parametrize("declares", [True, False])
async def test_a_name_in_place_of_a_uri_is_refused_with_its_uri(declares: bool) -> None:
    async with serving(few_notes().asgi()) as port:
        known = await call(port, "wait_for_change", declares=declares, uris=[TODAY, "today"])
        unknown = await call(port, "wait_for_change", declares=declares, uris=["tody"])
    assert known["isError"]
    assert f"Did you mean {TODAY}?" in text(known)
    assert unknown["isError"]
    assert "There is no note 'tody'." in text(unknown)
