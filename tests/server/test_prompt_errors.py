"""What a server with `ExactPrompts` says to who asks for a prompt in a wrong way."""

import logging
from typing import Literal

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tidings.server import LiveServer
from tidings.server.exact_calls import ExactPrompts

pytestmark = pytest.mark.anyio


class ExactServer(ExactPrompts[None], LiveServer[None]):
    pass


@pytest.fixture
def server() -> ExactServer:
    server = ExactServer("exact")

    @server.prompt()
    def summarise(url: str, focus: str = "", style: Literal["short", "long"] = "short") -> str:
        return f"Summarise {url} {focus} {style}"

    @server.prompt()
    def greet() -> str:
        return "Hello"

    @server.prompt()
    def crash() -> str:
        raise KeyError("secret")

    return server


@pytest.mark.parametrize(
    ("prompt", "arguments", "told"),
    [
        ("summarize", {}, "There is no prompt 'summarize'. Did you mean 'summarise'?"),
        ("xyz", {}, "There is no prompt 'xyz'. There are: summarise, greet, crash."),
        ("summarise", {}, "The argument 'url' is missing."),
        ("summarise", {"URL": "x"}, "There is no argument 'URL'. Did you mean 'url'?"),
        (
            "summarise",
            {"page": "x"},
            "There is no argument 'page'. There are: url, focus, style. The argument 'url' is missing.",
        ),
        ("summarise", {"url": "x", "style": "loud"}, "style should be 'short' or 'long', not \"loud\"."),
        ("greet", {"who": "x"}, "There is no argument 'who'. There are none."),
    ],
)
async def test_a_prompt_that_is_asked_for_in_a_wrong_way_says_so_and_logs_nothing(
    server: ExactServer, prompt: str, arguments: dict[str, str], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with Client(server) as client:
            with pytest.raises(MCPError) as refused:
                await client.get_prompt(prompt, arguments)
    assert (refused.value.error.code, refused.value.error.message) == (-32602, told)
    assert caplog.records == []


async def test_what_is_right_is_written_and_what_nobody_foresaw_stays_secret(server: ExactServer) -> None:
    async with Client(server) as client:
        written = await client.get_prompt("summarise", {"url": "x"})
        assert written.messages[0].content.text == "Summarise x  short"
        with pytest.raises(MCPError) as failed:
            await client.get_prompt("crash")
    assert "secret" not in failed.value.error.message
