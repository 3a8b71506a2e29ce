"""What a server asks waits for an answer, in either era, and everyone who should hear of it does."""

import asyncio
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import CreateMessageResult, ElicitResult, ErrorData, ListRootsResult, Root, TextContent
from pydantic import FileUrl

from tests.client.asking import CONTEXT, SAMPLE, URL, Asking, Clock, Desk, connected, text
from tidings.client.failures import answer_error
from tidings.errors import AnswerTimedOut, Disconnected, RequestCancelled

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"], ids=["modern", "legacy"])


@ERAS
@pytest.mark.parametrize(
    ("tool", "answer", "result"),
    [
        ("greet", {"name": "Ada", "age": 36}, "Ada, 36"),
        ("greet", {"name": "Ada"}, "Ada, 30"),
        ("greet", ElicitResult(action="accept", content={"name": "Ada"}), "Ada, 30"),
        ("greet", ElicitResult(action="decline"), "decline"),
        ("capital", "Paris", "assistant tidings: Paris"),
        (
            "capital",
            CreateMessageResult(role="assistant", content=TextContent(text="Lyon"), model="tiny"),
            "assistant tiny: Lyon",
        ),
        ("where", ["file:///srv/docs", Path("/srv/my notes")], "file:///srv/docs file:///srv/my%20notes"),
        ("where", ListRootsResult(roots=[Root(uri=FileUrl("file:///srv"))]), "file:///srv"),
        ("where", [Root(uri=FileUrl("file:///srv"))], "file:///srv"),
        ("where", [], ""),
    ],
)
async def test_an_answer_reaches_the_tool_that_asked(mode: str, tool: str, answer: object, result: str) -> None:
    desk = Desk()
    assert text(await desk.call(mode, tool, lambda ask: desk.pending.resolve(ask, answer))) == result
    assert not isinstance(desk.outcome, Exception | ErrorData)
    assert len(desk.pending) == 0


@ERAS
async def test_a_form_is_declined_or_cancelled(mode: str) -> None:
    desk = Desk()
    assert text(await desk.call(mode, "greet", desk.pending.decline)) == "decline"
    assert text(await desk.call(mode, "greet", desk.pending.cancel)) == "cancel"
    assert [outcome for _, outcome in desk.settled] == [ElicitResult(action="decline"), ElicitResult(action="cancel")]


@pytest.mark.parametrize(
    ("mode", "tool", "result"), [("legacy", "sign_in", "accept"), ("auto", "sign_in_by_input", "accept None")]
)
async def test_a_url_is_accepted_without_content(mode: str, tool: str, result: str) -> None:
    desk = Desk()

    def accept(ask: str) -> None:
        assert (desk.pending[ask].mode, desk.pending[ask].url) == ("url", URL)
        with pytest.raises(ValueError, match="without content"):
            desk.pending.resolve(ask, {"password": "secret"})
        desk.pending.resolve(ask, {})

    assert text(await desk.call(mode, tool, accept)) == result


@ERAS
@pytest.mark.parametrize(("tool", "kind"), [("greet", "elicitation"), ("capital", "sampling"), ("where", "roots")])
async def test_a_rejection_reaches_the_caller_with_its_reason(mode: str, tool: str, kind: str) -> None:
    desk = Desk()
    with pytest.raises(MCPError) as caught:
        await desk.call(mode, tool, lambda ask: desk.pending.reject(ask, "Not today"))
    assert (caught.value.code, caught.value.message) == (-1, "Not today")
    assert isinstance(answer_error(caught.value, method="tools/call"), RequestCancelled)
    assert desk.outcome == caught.value.error
    assert desk.settled[0][0].kind == kind


@ERAS
async def test_at_the_deadline_the_server_is_told_and_the_caller_gets_the_named_error(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, clock = Desk(server="asking"), Clock(monkeypatch)
    async with connected(Asking(), desk.pending, mode) as client:
        calling = asyncio.create_task(client.call_tool("greet"))
        await desk.added()
        await clock.move(299)
        assert len(desk.pending) == 1
        await clock.move(2)
        assert len(desk.pending) == 0
        with pytest.raises(MCPError, match="Request timed out waiting for user response") as caught:
            await calling
    assert isinstance(answer_error(caught.value, method="tools/call"), AnswerTimedOut)
    assert isinstance(desk.outcome, AnswerTimedOut)
    assert (desk.outcome.server, desk.outcome.method, desk.outcome.elapsed) == ("asking", "elicitation/create", 300)


async def test_the_deadline_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, clock = Desk(timeout=10), Clock(monkeypatch)
    asking = asyncio.create_task(desk.pending.ask(CONTEXT, SAMPLE))
    await desk.added()
    await clock.move(11)
    answer = await asking
    assert isinstance(answer, ErrorData)
    assert answer.message == str(desk.outcome) == "Request timed out waiting for user response"


async def test_without_a_deadline_a_question_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, clock = Desk(timeout=None), Clock(monkeypatch)
    asking = asyncio.create_task(desk.pending.ask(CONTEXT, SAMPLE))
    entry = await desk.added()
    await clock.move(1e9)
    desk.pending.resolve(entry.id, "Paris")
    assert isinstance(await asking, CreateMessageResult)


@ERAS
async def test_a_caller_who_gives_up_takes_the_question_along(mode: str) -> None:
    desk = Desk()
    async with connected(Asking(), desk.pending, mode) as client:
        calling = asyncio.create_task(client.call_tool("greet"))
        await desk.added()
        calling.cancel()
        await desk.ended()
        assert isinstance(desk.outcome, RequestCancelled)
        assert len(desk.pending) == 0
        with pytest.raises(asyncio.CancelledError):
            await calling


async def test_a_server_that_withdraws_its_question_takes_it_from_the_list() -> None:
    desk, server = Desk(), Asking()
    async with connected(server, desk.pending, "legacy") as client:
        calling = asyncio.create_task(client.call_tool("change_mind"))
        await desk.added()
        server.withdraw.set()
        assert text(await calling) == "never mind"
        await desk.ended()
    assert isinstance(desk.outcome, RequestCancelled)
    assert len(desk.pending) == 0


@ERAS
async def test_closing_rejects_all_that_waits_and_leaves_room_for_more(mode: str) -> None:
    desk = Desk()
    async with connected(Asking(), desk.pending, mode) as client:
        calls = [asyncio.create_task(client.call_tool(tool)) for tool in ("greet", "where")]
        for _ in calls:
            await desk.added()
        desk.pending.close("Good bye")
        assert len(desk.pending) == 0
        for each in calls:
            with pytest.raises(MCPError, match="Good bye") as caught:
                await each
            assert isinstance(answer_error(caught.value, method="tools/call"), Disconnected)
        again = asyncio.create_task(client.call_tool("where"))
        desk.pending.resolve((await desk.added()).id, [])
        await again
    assert [type(outcome) for _, outcome in desk.settled] == [Disconnected, Disconnected, ListRootsResult]


async def test_questions_of_one_round_wait_side_by_side_in_order() -> None:
    desk = Desk()
    async with connected(Asking(), desk.pending, "auto") as client:
        calling = asyncio.create_task(client.call_tool("ask_two"))
        first, second = await desk.added(), await desk.added()
        assert list(desk.pending) == [first, second]
        desk.pending.resolve(second.id, {"answer": f"to {second.message}"})
        assert list(desk.pending) == [first]
        desk.pending.resolve(first.id, {"answer": f"to {first.message}"})
        assert text(await calling) == "first: to first, second: to second"
