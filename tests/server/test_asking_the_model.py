"""Questions to the client's own model, in both eras: each is asked once, and no answer is no reason to fail."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp_types import CreateMessageResult, ErrorData, ImageContent, InputRequiredResult, TextContent

from tidings import LiveServer
from tidings.server.core import AskModel, ModelDeclined
from tidings.server.live import with_model

ERAS = ["2026-07-28", "legacy"]

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]


def server(work: Callable[[AskModel | None], Awaitable[str]]) -> LiveServer[Any]:
    mcp: LiveServer[Any] = LiveServer("test")

    @mcp.tool()
    async def think(ctx: Context[Any, Any]) -> str | InputRequiredResult:
        return await with_model(ctx, work)

    return mcp


def said(text: str) -> CreateMessageResult:
    return CreateMessageResult(role="assistant", content=TextContent(type="text", text=text), model="test")


class Model:
    """A client's model, which notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, _: object, params: Any) -> CreateMessageResult | ErrorData:
        prompt = params.messages[0].content.text
        self.asked.append((prompt, params.max_tokens))
        if prompt == "picture":
            content = ImageContent(type="image", data="", mime_type="image/png")
            return CreateMessageResult(role="assistant", content=content, model="test")
        return said(prompt.upper())


async def in_two_steps(sample: AskModel | None) -> str:
    """Three questions at once, and then one that needs their answers."""
    assert sample is not None
    answers: dict[int, str] = {}

    async def one(number: int) -> None:
        answers[number] = await sample(f"part {number}", 50)

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(one, number)
    return await sample(" and ".join(answers[number] for number in range(3)), 100)


@pytest.mark.parametrize("era", ERAS)
async def test_every_question_is_asked_once_and_those_that_can_wait_together_do(era: str) -> None:
    model = Model()
    async with Client(server(in_two_steps), mode=era, sampling_callback=model) as client:
        result = await client.call_tool("think", {})
    assert result.content[0].text == "PART 0 AND PART 1 AND PART 2"
    assert sorted(model.asked) == [
        ("PART 0 and PART 1 and PART 2", 100),
        *((f"part {number}", 50) for number in range(3)),
    ]


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_without_a_model_is_not_asked(era: str) -> None:
    async def work(sample: AskModel | None) -> str:
        return "nobody to ask" if sample is None else "somebody"

    async with Client(server(work), mode=era) as client:
        assert (await client.call_tool("think", {})).content[0].text == "nobody to ask"


@pytest.mark.parametrize("era", ERAS)
async def test_an_answer_that_is_no_text_is_none(era: str) -> None:
    async def work(sample: AskModel | None) -> str:
        assert sample is not None
        try:
            return await sample("picture", 10)
        except ModelDeclined as declined:
            return f"declined: {declined}"

    async with Client(server(work), mode=era, sampling_callback=Model()) as client:
        assert (await client.call_tool("think", {})).content[0].text.startswith("declined: The client's model")


async def test_a_model_that_refuses_in_the_old_era_is_no_answer() -> None:
    async def refuse(_: object, __: object) -> ErrorData:
        return ErrorData(code=-1, message="The user said no")

    async def work(sample: AskModel | None) -> str:
        assert sample is not None
        try:
            return await sample("please", 10)
        except ModelDeclined as declined:
            return str(declined)

    async with Client(server(work), mode="legacy", sampling_callback=refuse) as client:
        text = (await client.call_tool("think", {})).content[0].text
        assert text == "The client's model did not answer: The user said no"


@pytest.mark.parametrize("era", ERAS)
async def test_work_that_fails_fails_the_call(era: str) -> None:
    async def work(sample: AskModel | None) -> str:
        assert sample is not None
        await sample("something", 10)
        raise MCPError(-32000, "It broke")

    async with Client(server(work), mode=era, sampling_callback=Model()) as client:
        with pytest.raises(MCPError, match="It broke"):
            await client.call_tool("think", {})
