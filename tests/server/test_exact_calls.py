"""Servers that check calls exactly: the words for wrong calls of tools and prompts."""

import logging
from typing import Annotated, Any, Literal

import pytest
from mcp import Client
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ConfigDict, Field, field_validator

from tidings.server import LiveServer
from tidings.server.exact_calls import ExactServer, refusals_told

pytestmark = pytest.mark.anyio


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")

    section: str = ""
    level: int = Field(1, ge=1)
    tone: str = ""

    @field_validator("tone")
    @classmethod
    def known(cls, tone: str) -> str:
        if tone == "loud":
            raise ValueError("nobody shouts here")
        return tone


def add_tools(server: LiveServer[None]) -> list[str]:
    done: list[str] = []

    @server.tool()
    def change(path: str, parts: list[Part] | None = None, if_match: str = "", sort: Literal["a", "b"] = "a") -> str:
        done.append(path)
        return f"{parts} {if_match} {sort}"

    @server.tool()
    def count(parts: Annotated[list[Part], Field(min_length=1, max_length=3)]) -> int:
        return len(parts)

    @server.tool()
    def now() -> str:
        raise ToolError("The clock has stopped.")

    @server.tool()
    def crash() -> str:
        raise KeyError("secret")

    return done


async def said(server: LiveServer[None], tool: str, arguments: dict[str, Any]) -> str:
    async with Client(server) as client:
        result = await client.call_tool(tool, arguments)
        assert result.is_error
        return result.content[0].text


@pytest.fixture
def server() -> ExactServer:
    server = ExactServer("exact")
    add_tools(server)
    return server


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("change", {"path": "a", "ifMatch": "x"}, "There is no argument 'ifMatch'. Did you mean 'if_match'?"),
        ("change", {"pth": "a"}, "There is no argument 'pth'. Did you mean 'path'?"),
        (
            "change",
            {"path": "a", "zzz": 1},
            "There is no argument 'zzz'. There are: path, parts, if_match, sort.",
        ),
        ("now", {"zone": "UTC"}, "There is no argument 'zone'. There are none."),
        ("change", {}, "The argument 'path' is missing."),
        ("change", {"path": None}, "path should be a string, not null."),
        ("change", {"path": ["x" * 100]}, f'path should be a string, not ["{"x" * 58}….'),
        ("change", {"path": "a", "sort": "c"}, "sort should be 'a' or 'b', not \"c\"."),
        ("count", {"parts": "x"}, 'parts should be a list, not "x".'),
        ("count", {"parts": []}, "parts should have 1 or more, not 0."),
        ("count", {"parts": [{}] * 4}, "parts should have at most 3, not 4."),
        ("count", {"parts": ["x"]}, 'parts, item 1 should be an object, not "x".'),
        (
            "count",
            {"parts": [{}, {"sektion": "x"}]},
            "parts, item 2: There is no key 'sektion'. Did you mean 'section'?",
        ),
        ("count", {"parts": [{"level": 0}]}, "parts, item 1, level should be greater than or equal to 1, not 0."),
        ("count", {"parts": [{"level": "x"}]}, 'parts, item 1, level should be a whole number, not "x".'),
        ("count", {"parts": [{"tone": "loud"}]}, "parts, item 1, tone: nobody shouts here."),
        (
            "change",
            {"path": 1, "other": 2},
            "path should be a string, not 1.\nThere is no argument 'other'. There are: path, parts, if_match, sort.",
        ),
        ("chnge", {}, "There is no tool 'chnge'. Did you mean 'change'?"),
        ("xyz", {}, "There is no tool 'xyz'. There are: change, count, now, crash."),
        ("now", {}, "The clock has stopped."),
        ("crash", {}, "Error executing tool crash"),
    ],
)
async def test_a_call_that_is_not_right_is_told_what_is_wrong(
    server: ExactServer, tool: str, arguments: dict[str, Any], told: str
) -> None:
    assert await said(server, tool, arguments) == told


async def test_nothing_is_done_if_one_argument_is_unknown() -> None:
    server = ExactServer("exact")
    done = add_tools(server)
    await said(server, "change", {"path": "a", "ifMatch": "x"})
    assert done == []
    async with Client(server) as client:
        assert not (await client.call_tool("change", {"path": "a", "if_match": "x"})).is_error
    assert done == ["a"]


async def test_the_schemas_say_that_there_are_no_further_arguments(server: ExactServer) -> None:
    assert [tool.input_schema["additionalProperties"] for tool in await server.list_tools()] == [False] * 4


async def test_other_live_servers_are_as_the_sdk_has_them() -> None:
    server: LiveServer[None] = LiveServer("plain")
    done = add_tools(server)
    assert "Error executing tool now: " in await said(server, "now", {})
    async with Client(server) as client:
        assert not (await client.call_tool("change", {"path": "a", "ifMatch": "x"})).is_error
    assert done == ["a"]


def test_errors_that_are_named_become_what_the_caller_of_a_tool_reads() -> None:
    with pytest.raises(ToolError, match=r"^no: gone$"), refusals_told((LookupError,), lambda error: f"no: {error}"):
        raise LookupError("gone")
    with pytest.raises(OSError, match="disk"), refusals_told((LookupError,)):
        raise OSError("disk")


# Prompts


@pytest.fixture
def prompting() -> ExactServer:
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
    prompting: ExactServer, prompt: str, arguments: dict[str, str], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with Client(prompting) as client:
            with pytest.raises(MCPError) as refused:
                await client.get_prompt(prompt, arguments)
    assert (refused.value.error.code, refused.value.error.message) == (-32602, told)
    assert caplog.records == []


async def test_what_is_right_is_written_and_what_nobody_foresaw_stays_secret(prompting: ExactServer) -> None:
    async with Client(prompting) as client:
        written = await client.get_prompt("summarise", {"url": "x"})
        assert written.messages[0].content.text == "Summarise x  short"
        with pytest.raises(MCPError) as failed:
            await client.get_prompt("crash")
    assert "secret" not in failed.value.error.message
