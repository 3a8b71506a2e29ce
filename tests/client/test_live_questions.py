"""What a server asks of the user while it works: who answers, what is kept of it, and whose clock stands still."""

import asyncio
import json
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest

from tests.client.asking import URL, Asking
from tests.client.curious import Curious, asked
from tests.client.library import ERAS, SECONDS, Library, connected, eventually, hear
from tidings.client import ASK, ClientConfig, LiveClient, PendingRequest, Timeouts, connect
from tidings.client.events import (
    CancelledReceived,
    PendingAdded,
    PendingSettled,
    PromptContentChanged,
    ToolCallResultChanged,
)
from tidings.errors import Disconnected, RequestCancelled, TidingsError

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

PATIENT = ClientConfig(timeouts=Timeouts(request=60, total=100, answer=300, ping_interval=10_000))
TIMED_OUT = "Request timed out waiting for user response"


async def outcome(client: LiveClient, tool: str) -> str:
    """What a call came to: the text of its result, or of the error that was raised."""
    try:
        with anyio.fail_after(SECONDS):
            return str((await client.call_tool(tool)).result)
    except TidingsError as error:
        return f"{type(error).__name__}: {error.message}"


@ERAS
@pytest.mark.parametrize("transport", ["memory", "http"])
@pytest.mark.parametrize(
    ("tool", "kind", "answer"),
    [("greet", "elicitation", {"name": "Ada"}), ("capital", "sampling", "Paris"), ("where", "roots", ["file:///srv"])],
)
async def test_a_person_is_asked_and_answers(era: str, transport: str, tool: str, kind: str, answer: Any) -> None:
    async with asked(era, transport, answer="ask") as client:
        added, settled = hear(client, PendingAdded), hear(client, PendingSettled)
        calls = hear(client, ToolCallResultChanged)
        calling = asyncio.create_task(client.call_tool(tool))
        await eventually(lambda: added)
        (request,) = client.pending
        assert added == [PendingAdded(request)]
        assert (request.kind, request.server) == (kind, client.name)
        client.pending.resolve(request.id, answer)
        with anyio.fail_after(SECONDS):
            call = await calling
        assert {"greet": "Ada, 30", "capital": "tidings: Paris", "where": "file:///srv"}[tool] in str(call.result)
        assert [event.request for event in settled] == [request]
        assert len(client.pending) == 0
        assert client.cache.get_tool_call_result(tool) is None
        assert calls == [ToolCallResultChanged(tool, call)]


@pytest.mark.parametrize(("era", "tool"), [("auto", "sign_in_by_input"), ("legacy", "sign_in")])
async def test_a_person_is_asked_to_open_a_url(era: str, tool: str) -> None:
    async with asked(era, answer="ask") as client:
        added = hear(client, PendingAdded)
        calling = asyncio.create_task(client.call_tool(tool))
        await eventually(lambda: added)
        assert (added[0].request.mode, added[0].request.url) == ("url", URL)
        client.pending.resolve(added[0].request.id, {})
        with anyio.fail_after(SECONDS):
            assert "accept" in str((await calling).result)


async def test_fixed_roots_that_a_server_asks_for_when_it_likes_concern_no_request() -> None:
    library = Library()
    async with connected(library, "legacy", answer="ask", roots=["file:///srv"]) as client:
        gate = library.gates["t1"] = anyio.Event()
        calling = asyncio.create_task(client.call_tool("t1"))
        await eventually(lambda: library.running["t1"])
        with anyio.fail_after(SECONDS):
            roots = await library.session.send_request(types.ListRootsRequest(), types.ListRootsResult)
            assert [str(root.uri) for root in roots.roots] == ["file:///srv"]
            gate.set()
            call = await calling
        assert client.cache.get_tool_call_result("t1") is call


@ERAS
async def test_a_refusal_reaches_the_server_with_its_reason(era: str) -> None:
    async with asked(era, answer="ask") as client:
        client.on(PendingAdded, lambda event: client.pending.reject(event.request.id, "Not today"))
        assert "Not today" in await outcome(client, "capital")


@ERAS
async def test_a_function_answers_and_leaves_the_rest_to_the_person(era: str) -> None:
    async def answer(request: PendingRequest) -> object:
        return {"name": "a function"} if request.kind == "elicitation" else ASK

    async with asked(era, answer=answer) as client:
        assert "a function, 30" in await outcome(client, "greet")
        client.on(PendingAdded, lambda event: client.pending.resolve(event.request.id, "a person"))
        assert "a person" in await outcome(client, "capital")


@ERAS
async def test_a_script_answers(era: str, tmp_path: Path) -> None:
    script = tmp_path / "answers.json"
    rules: list[Any] = [
        {"elicitation": "Who are*", "accept": {"name": "Ada"}},
        {"sampling": "*France*", "reply": "Paris"},
        {"roots": ["file:///srv"]},
    ]
    script.write_text(json.dumps(rules))
    async with asked(era, answer=script) as client:
        assert "Ada, 30" in await outcome(client, "greet")
        assert "Paris" in await outcome(client, "capital")
        assert "file:///srv" in await outcome(client, "where")


@ERAS
async def test_where_nobody_can_be_asked_the_server_is_told_so(era: str) -> None:
    async with asked(era) as client:
        added = hear(client, PendingAdded)
        answer = await outcome(client, "greet")
        assert "did not declare the form elicitation capability" in answer
        assert added == []


async def test_nothing_that_was_reached_with_an_answer_is_cached() -> None:
    library = Curious()
    async with connected(library, answer=lambda _: {"name": "Ada"}) as client:
        with anyio.fail_after(SECONDS):
            prompts = hear(client, PromptContentChanged)
            read = await client.read_resource("note://1")
            filled = await client.read_resource_from_template("a://{x}", {"x": "1"})
            prompt = await client.get_prompt("p1")
            call = await client.call_tool("t1")
            assert (read.text, filled.text) == ("the text of note://1", "the text of a://1")
            assert call.success
            assert prompts == [PromptContentChanged("p1", prompt)]
            await client.subscribe("note://1")
            await client.read_resource("note://1")
            assert len(client.cache) == 0
            async for seen in client.watch("note://1"):
                assert seen.text == "the text of note://1"
                break
            await client.wait_fresh()
        assert len(client.cache) == 0
        assert not client.is_fresh("note://1")


async def test_an_older_result_is_dropped_when_a_newer_one_was_reached_with_an_answer() -> None:
    library = Curious()
    question, library.question = library.question, None
    async with connected(library, answer=lambda _: {"name": "Ada"}) as client:
        cache = client.cache

        async def invoke(x: str) -> None:
            await client.read_resource("note://1")
            await client.read_resource_from_template("a://{x}", {"x": x})
            await client.get_prompt("p1")
            await client.call_tool("t1")

        with anyio.fail_after(SECONDS):
            await invoke("1")
            assert cache.get_resource("note://1")
            assert cache.get_resource_template("a://{x}")
            assert cache.get_prompt("p1")
            assert cache.get_tool_call_result("t1")
            library.question = question
            await invoke("2")
        assert cache.get_resource("note://1") is None
        assert cache.get_resource_template("a://{x}") is None
        assert cache.get_prompt("p1") is None
        assert cache.get_tool_call_result("t1") is None


@ERAS
async def test_a_disconnect_ends_what_a_person_is_asked(era: str) -> None:
    async with asked(era, answer="ask") as client:
        settled = hear(client, PendingSettled)
        calling = asyncio.create_task(client.call_tool("greet"))
        await eventually(lambda: len(client.pending))
        with anyio.fail_after(SECONDS):
            await client.disconnect()
            with pytest.raises(Disconnected):
                await calling
        assert len(client.pending) == 0
        await eventually(lambda: settled)
        assert isinstance(settled[0].outcome, Disconnected | RequestCancelled)


@ERAS
@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_a_call_that_is_cancelled_asks_nobody_any_more(era: str, transport: str) -> None:
    async with asked(era, transport, answer="ask") as client:
        settled = hear(client, PendingSettled)
        calling = asyncio.create_task(client.call_tool("greet"))
        await eventually(lambda: len(client.pending))
        (entry,) = client.queue
        client.queue.cancel(entry.id)
        with anyio.fail_after(SECONDS), pytest.raises(RequestCancelled):
            await calling
        await eventually(lambda: settled)
        assert len(client.pending) == 0
        assert isinstance(settled[0].outcome, RequestCancelled)


async def test_a_question_that_the_server_takes_back_is_told_as_an_event() -> None:
    server = Asking()
    async with connect(server, era="legacy", answer="ask") as client:
        settled, cancelled = hear(client, PendingSettled), hear(client, CancelledReceived)
        calling = asyncio.create_task(client.call_tool("change_mind"))
        await eventually(lambda: len(client.pending))
        server.withdraw.set()
        with anyio.fail_after(SECONDS):
            assert "never mind" in str((await calling).result)
        await eventually(lambda: settled and cancelled)
        assert isinstance(settled[0].outcome, RequestCancelled)
        assert len(client.pending) == 0
