"""The list of what waits, what is said about wrong answers, and answers by functions."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestURLParams,
    ElicitResult,
    ErrorData,
    ImageContent,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)

from tests.client.asking import CONTEXT, FORM, SAMPLE, SCHEMA, SECONDS, URL, Asking, Clock, Desk, connected, text
from tidings.client.pending import ASK, NotPending, Pending, PendingRequest, refusal
from tidings.errors import AnswerTimedOut

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"], ids=["modern", "legacy"])


def test_a_request_says_what_is_asked() -> None:
    minute_ago = datetime.now(UTC) - timedelta(minutes=1)
    form = PendingRequest("ask-1", "elicitation", FORM, "asking", minute_ago)
    assert (form.mode, form.message, form.schema, form.url) == ("form", "Who are you?", SCHEMA, None)
    assert 60 <= form.age < 60 + SECONDS
    assert PendingRequest("ask-1", "roots", created_at=datetime.now(UTC) + timedelta(days=1)).age == 0

    url = PendingRequest("ask-2", "elicitation", ElicitRequestURLParams(message="Sign in", url=URL))
    assert (url.mode, url.message, url.schema, url.url) == ("url", "Sign in", None, URL)

    parts: list[Any] = [TextContent(text="Look"), ImageContent(data="AA==", mime_type="image/png")]
    messages = [*SAMPLE.messages, SamplingMessage(role="user", content=[*parts, TextContent(text="here")])]
    sample = PendingRequest("ask-3", "sampling", CreateMessageRequestParams(messages=messages, max_tokens=1))
    assert (sample.mode, sample.message, sample.schema, sample.url) == (None, "Look\nhere", None, None)
    assert PendingRequest("ask-4", "sampling", CreateMessageRequestParams(messages=[], max_tokens=1)).message == ""
    assert PendingRequest("ask-5", "roots").message == ""


async def test_wrong_ids_are_answered_with_those_that_wait() -> None:
    desk = Desk()
    with pytest.raises(NotPending, match=r"'ask-9'.* Waiting: none"):
        desk.pending.resolve("ask-9", {})
    asking = [asyncio.create_task(desk.pending.ask(CONTEXT)) for _ in range(2)]
    assert [(await desk.added()).id for _ in asking] == ["ask-1", "ask-2"]
    for use in (desk.pending.reject, desk.pending.decline, desk.pending.cancel, desk.pending.__getitem__):
        with pytest.raises(LookupError, match=r"Waiting: ask-1, ask-2\."):
            use("ask-9")
    desk.pending.close()
    for each in asking:
        assert isinstance(await each, ErrorData)


async def test_nobody_answers_what_is_answered() -> None:
    desk = Desk()
    asking = asyncio.create_task(desk.pending.ask(CONTEXT, SAMPLE))
    entry = await desk.added()
    desk.pending.resolve(entry.id, "Paris")
    with pytest.raises(NotPending):
        desk.pending.resolve(entry.id, "Lyon")
    desk.pending.close()
    answer = await asking
    assert isinstance(answer, CreateMessageResult)
    assert answer.content == TextContent(text="Paris")
    assert desk.outcome is answer


Question = Callable[[Pending], Any]
SAMPLING: Question = lambda pending: pending.ask(CONTEXT, SAMPLE)  # noqa: E731 - three of a kind
ELICITATION: Question = lambda pending: pending.ask(CONTEXT, FORM)  # noqa: E731
ROOTS: Question = lambda pending: pending.ask(CONTEXT)  # noqa: E731


@pytest.mark.parametrize(
    ("question", "wrong", "words"),
    [
        (SAMPLING, {"text": "Paris"}, "a string or a CreateMessageResult, not with 'dict'"),
        (ELICITATION, "Ada", "a dict or an ElicitResult, not with 'str'"),
        (ELICITATION, None, "not with None"),
        (ELICITATION, {"name": 7}, "Field 'name' must be a string"),
        (ELICITATION, ElicitResult(action="accept"), "needs 'name'"),
        (ELICITATION, ListRootsResult(roots=[]), "not with 'ListRootsResult'"),
        (ROOTS, "file:///srv", "a list of paths"),
        (ROOTS, ["https://example.com"], "only file:// URIs"),
        (ROOTS, [""], "not an empty text"),
        (ROOTS, [7], "not 'int'"),
    ],
)
async def test_a_wrong_answer_is_refused_and_the_question_goes_on_waiting(
    question: Question, wrong: object, words: str
) -> None:
    desk = Desk()
    asking = asyncio.create_task(question(desk.pending))
    entry = await desk.added()
    with pytest.raises(ValueError, match=words):
        desk.pending.resolve(entry.id, wrong)
    assert list(desk.pending) == [entry]
    assert not desk.settled
    desk.pending.close()
    await asking


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_only_an_elicitation_is_declined_or_cancelled(action: str) -> None:
    desk = Desk()
    asking = asyncio.create_task(desk.pending.ask(CONTEXT, SAMPLE))
    entry = await desk.added()
    with pytest.raises(ValueError, match=f"asks for sampling, and only an elicitation can {action}. Reject it"):
        getattr(desk.pending, action)(entry.id)
    desk.pending.reject(entry.id)
    answer = await asking
    assert isinstance(answer, ErrorData)
    assert answer.message == "The user rejected the request"


async def test_what_is_declined_carries_no_content() -> None:
    desk = Desk()
    asking = asyncio.create_task(desk.pending.ask(CONTEXT, FORM))
    desk.pending.resolve((await desk.added()).id, ElicitResult(action="decline", content={"name": "Ada"}))
    assert await asking == ElicitResult(action="decline")


async def at_once(answer: Any) -> Any:
    await anyio.lowlevel.checkpoint()
    return answer


@ERAS
@pytest.mark.parametrize("given", [lambda answer: answer, at_once], ids=["function", "coroutine"])
async def test_a_responder_answers_first(mode: str, given: Callable[[Any], Any]) -> None:
    answers: dict[str, Any] = {"elicitation": {"name": "Ada"}, "sampling": "Paris", "roots": ["/srv"]}
    desk = Desk(responder=lambda request: given(answers[request.kind]))
    async with connected(Asking(), desk.pending, mode) as client:
        results = [text(await client.call_tool(tool)) for tool in ("greet", "capital", "where")]
    assert results == ["Ada, 30", "assistant tidings: Paris", "file:///srv"]
    assert [entry.kind for entry, _ in desk.settled] == ["elicitation", "sampling", "roots"]


async def test_a_responder_may_leave_it_to_the_person() -> None:
    desk = Desk(responder=lambda _: ASK)
    assert text(await desk.call("auto", "greet", lambda ask: desk.pending.resolve(ask, {"name": "Ada"}))) == "Ada, 30"


async def test_a_responder_for_roots_is_asked_before_the_other_and_only_about_roots() -> None:
    asked: list[str] = []

    def everything(request: PendingRequest) -> Any:
        asked.append(request.kind)
        return "Paris" if request.kind == "sampling" else ["/other"]

    pending = Pending(responder=everything, roots=lambda _: ["/srv"])
    roots = await pending.ask(CONTEXT)
    assert isinstance(roots, ListRootsResult)
    assert [str(root.uri) for root in roots.roots] == ["file:///srv"]
    assert isinstance(await pending.ask(CONTEXT, SAMPLE), CreateMessageResult)
    assert asked == ["sampling"]
    assert isinstance(await Pending(responder=everything, roots=lambda _: ASK).ask(CONTEXT), ListRootsResult)
    assert asked == ["sampling", "roots"]


async def test_a_person_may_be_quicker_than_a_responder() -> None:
    ended = anyio.Event()

    async def ponder(_: PendingRequest) -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await anyio.sleep_forever()
        ended.set()
        return "Lyon"

    desk = Desk(responder=ponder)
    asking = asyncio.create_task(desk.pending.ask(CONTEXT, SAMPLE))
    await anyio.wait_all_tasks_blocked()
    desk.pending.resolve((await desk.added()).id, "Paris")
    answer = await asking
    assert isinstance(answer, CreateMessageResult)
    assert answer.content == TextContent(text="Paris")
    assert ended.is_set()


async def test_a_responder_that_ponders_too_long_is_ended_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, clock = Desk(responder=lambda _: anyio.sleep_forever()), Clock(monkeypatch)
    asking = asyncio.create_task(desk.pending.ask(CONTEXT, SAMPLE))
    await desk.added()
    await clock.move(301)
    assert isinstance(await asking, ErrorData)
    assert isinstance(desk.outcome, AnswerTimedOut)


async def test_a_responder_refuses_with_a_reason() -> None:
    desk = Desk(responder=lambda _: refusal("No model here"))
    assert await desk.pending.ask(CONTEXT, SAMPLE) == refusal("No model here") == desk.outcome


@ERAS
async def test_a_responder_that_fails_is_logged_once_and_tells_the_server_nothing_of_why(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: PendingRequest) -> None:
        raise RuntimeError("the key is 1234")

    desk = Desk(responder=fail)
    async with connected(Asking(), desk.pending, mode) as client:
        with caplog.at_level(logging.WARNING), pytest.raises(MCPError) as caught:
            await client.call_tool("greet")
    assert (caught.value.message, caught.value.data) == ("The client failed to answer", None)
    assert repr(desk.outcome) == "RuntimeError('the key is 1234')"
    told = [record.getMessage() for record in caplog.records if record.name.startswith("tidings")]
    assert told == ["the responder failed to answer ask-1 (elicitation)"]


async def test_a_responder_with_a_wrong_answer_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(responder=lambda _: {"name": 7})
    assert isinstance(await desk.pending.ask(CONTEXT, FORM), ErrorData)
    assert str(desk.outcome) == "Field 'name' must be a string."
    assert len(caplog.records) == 1
