"""The answers of a client to what a server asks arrive there as the client gave them."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    ErrorData,
    InputRequiredResult,
    ListRootsResult,
)

from tests.bridge.test_relay import WONDERS
from tests.bridge.upstreams import ERAS, SECONDS, Shop, sessions, spec, text, until, using
from tests.server.serving import serving
from tidings.bridge import BridgeServer, UpstreamSpec

pytestmark = pytest.mark.anyio
FORM = {
    "type": "object",
    "properties": {"size": {"type": "integer", "default": 42}, "name": {"type": "string"}},
    "required": ["name"],
}


@asynccontextmanager
async def stock_client(era: str, **options: Any) -> AsyncGenerator[Client]:
    """A client of the SDK in front of a bridge, and behind it a server with a tool that shows how it was answered."""
    shop = Shop()

    @shop.mcp.tool()
    async def ask(ctx: Context) -> str:
        request = ElicitRequest(params=ElicitRequestFormParams(message="Who?", requested_schema=FORM))
        return (await ctx.session.send_request(request, ElicitResult)).model_dump_json(exclude_none=True)

    with anyio.fail_after(SECONDS):
        async with serving(BridgeServer([spec(shop, "legacy")]).asgi()) as port:
            mode: Any = "legacy" if era == "legacy" else "auto"
            async with Client(f"http://127.0.0.1:{port}/mcp", mode=mode, **options) as client:
                yield client


@pytest.mark.parametrize("above", ERAS)
@pytest.mark.parametrize(
    "content", [{"name": "Ada"}, {"name": "Ada", "more": True}, {}], ids=["defaults left out", "unknown", "missing"]
)
async def test_a_form_is_neither_checked_nor_filled_in(above: str, content: dict[str, Any]) -> None:
    answer = ElicitResult(action="accept", content=content)

    async def answering(*_: object) -> ElicitResult:
        return answer

    async with stock_client(above, elicitation_callback=answering) as client:
        result: Any = await client.call_tool("ask", {})
        assert ElicitResult.model_validate_json(result.content[0].text) == answer


async def test_a_refusal_keeps_its_words() -> None:
    async def refusing(*_: object) -> ErrorData:
        return ErrorData(code=-1, message="Ada said no")

    async with stock_client("legacy", sampling_callback=refusing) as client:
        result: Any = await client.call_tool("think", {})
        assert "Ada said no" in result.content[0].text


async def test_a_question_is_asked_again_after_an_answer_that_is_none() -> None:
    async def never(*_: object) -> ElicitResult:
        raise AssertionError

    async with stock_client("modern", elicitation_callback=never) as client:
        asked = await client.session.call_tool("ask", {}, allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
        assert asked.input_requests is not None
        (key,) = asked.input_requests

        async def answered(answer: Any) -> Any:
            return await client.session.call_tool(
                "ask", {}, input_responses={key: answer}, request_state=asked.request_state
            )

        with pytest.raises(MCPError, match="not a result of elicitation/create") as wrong:
            await answered(ListRootsResult(roots=[]))
        assert wrong.value.error.code == INVALID_PARAMS
        result = await answered(ElicitResult(action="accept", content={"name": "Ada"}))
        assert "Ada" in result.content[0].text


async def test_one_client_over_stdio_is_asked_while_another_call_of_it_runs(tmp_path: Path) -> None:
    program, go = tmp_path / "wonders.py", tmp_path / "go"
    program.write_text(WONDERS)
    bridge = BridgeServer([UpstreamSpec("wonders", [sys.executable, str(program), str(go)], era="legacy")])
    async with using(bridge, "2026-07-28", answer=lambda _: ["/srv/ada"]) as client:
        (upstream,) = sessions(bridge)
        wondering, sleeping = client.start_call("wonder"), client.start_call("sleep")
        await until(lambda: upstream.client.queue.status().in_progress == 2)
        go.touch()
        assert "/srv/ada" in text(await wondering)
        sleeping.cancel()
