"""Lists that are none, never end, change under our hands or have nonsense in them: the rest of them is used."""

from dataclasses import replace
from typing import Any

import pytest
from mcp_types import CallToolResult

from tests.client.bad_servers import (
    ERAS,
    MODERN,
    QUICK,
    TOOL,
    Behaviour,
    behaved,
    count,
    failure,
    refuse,
    settings,
    web,
)
from tests.client.misbehaving import Asked
from tidings.client import LiveClient, State, connect
from tidings.client.events import ListLoaded, ToolsChanged
from tidings.errors import MalformedMessage, RequestFailed, TidingsError

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("tidy"), pytest.mark.parametrize("era", ERAS)]

FILLED = {"structuredContent": {"a": 1}}
HINTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def tools(*names: str, **more: Any) -> dict[str, Any]:
    """A page of tools."""
    return {**HINTS, "tools": [{**TOOL, "name": name} for name in names], **more}


def names(client: LiveClient) -> list[str]:
    return [tool.name for tool in client.tools]


async def endless(asked: Asked) -> None:
    await asked.result(**tools("a", nextCursor=f"cursor {id(asked)}"))


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        ({**HINTS, "tools": {"a": 1}}, MalformedMessage, "tools/list has no list of tools"),
        ({**HINTS, "tools": None}, MalformedMessage, "has no list of tools"),
        (HINTS, MalformedMessage, "has no list of tools"),
        (tools("a", nextCursor=5), MalformedMessage, "has a cursor that is not a string"),
        (tools("a", nextCursor="again"), MalformedMessage, "repeats a cursor, so it never ends"),
        (tools("a", nextCursor=""), MalformedMessage, "repeats a cursor, so it never ends"),
        (endless, RequestFailed, "more than 5 pages. If that is right, raise ClientConfig.max_pages"),
    ],
)
async def test_a_list_that_is_none_is_told_by_its_fault(
    era: str, answer: Behaviour, kind: type[TidingsError], says: str
) -> None:
    async with web({**behaved(era), "tools/list": answer}) as here:
        client = connect(here.url, config=settings(max_pages=5))
        told: list[ToolsChanged] = []
        client.on(ToolsChanged, told.append)
        async with client:
            error = await failure(client.list_tools())
            assert type(error) is kind
            assert says in error.message
            assert (names(client), client.state) == ([], State.CONNECTED)
            assert [str(resource.uri) for resource in client.resources] == ["note://a"]
        assert [type(each.error) for each in told] == [kind, kind]
        assert count(here, "tools/list") <= 10


async def test_a_loaded_list_is_announced_exactly_as_it_was_sent(era: str) -> None:
    items = [{**TOOL, "name": "a", "unknown": {"x": 1}}, {"name": 7}, {**TOOL, "name": "a"}]
    async with web({**behaved(era), "tools/list": {**HINTS, "tools": items}}) as here:
        client = connect(here.url, config=QUICK)
        loaded: list[ListLoaded] = []
        client.on(ListLoaded, loaded.append)
        async with client:
            pass
    (event,) = [each for each in loaded if each.name == "tools"]
    assert (list(event.items), event.error) == ([items[0], items[2]], None)
    assert [each.item for each in event.malformed] == [items[1]]


async def test_a_list_that_could_not_be_loaded_stays_as_it_was(era: str) -> None:
    page = tools("a", "b")

    async def answer(asked: Asked) -> None:
        await asked.result(**page)

    async with web({**behaved(era), "tools/list": answer}) as here, connect(here.url, config=QUICK) as client:
        assert names(client) == ["a", "b"]
        page = HINTS
        await failure(client.list_tools())
        assert names(client) == ["a", "b"]


async def test_an_empty_cursor_is_a_cursor(era: str) -> None:
    async def answer(asked: Asked) -> None:
        cursor = asked.message.get("params", {}).get("cursor")
        await asked.result(**{None: tools("a", nextCursor=""), "": tools("b", nextCursor=" "), " ": tools("c")}[cursor])

    async with web({**behaved(era), "tools/list": answer}) as here, connect(here.url, config=QUICK) as client:
        assert names(client) == ["a", "b", "c"]


@pytest.mark.parametrize("mended", [True, False])
async def test_a_cursor_that_is_not_valid_any_more_means_to_begin_again(era: str, mended: bool) -> None:
    refusals = 0

    async def answer(asked: Asked) -> None:
        nonlocal refusals
        if "cursor" not in asked.message.get("params", {}):
            await asked.result(**tools("old" if refusals == 0 else "new", nextCursor="2"))
        elif mended and refusals:
            await asked.result(**tools("last"))
        else:
            refusals += 1
            await refuse(asked, -32602, "Invalid cursor")

    async with web({**behaved(era), "tools/list": answer}) as here:
        async with connect(here.url, config=QUICK) as client:
            assert names(client) == (["new", "last"] if mended else [])
            if not mended:
                error = await failure(client.list_tools())
                assert isinstance(error, RequestFailed)
                assert "Invalid cursor" in error.message
        assert count(here, "tools/list") == (4 if mended else 8)


async def test_items_that_are_malformed_are_kept_aside_with_the_reason(era: str) -> None:
    bad: list[Any] = [5, None, "tool", {"name": 3}, {"name": "x"}, {"name": "y", "inputSchema": "none"}]
    does = behaved(era)
    does["tools/list"] = {**HINTS, "tools": [{**TOOL, "name": "first"}, *bad, {**TOOL, "name": "last"}]}
    does["resources/list"] = {**HINTS, "resources": [{"name": "no uri"}, {"uri": "note://a", "name": "a"}]}
    does["resources/templates/list"] = {**HINTS, "resourceTemplates": [{"name": "t"}]}
    does["prompts/list"] = {**HINTS, "prompts": [{"name": ["p"]}, {"name": "p"}]}
    async with web(does) as here, connect(here.url, config=QUICK) as client:
        assert names(client) == ["first", "last"]
        assert [str(resource.uri) for resource in client.resources] == ["note://a"]
        assert (client.resource_templates, [prompt.name for prompt in client.prompts]) == ([], ["p"])
        aside = client.malformed
        assert [each.item for each in aside] == [*bad, {"name": "no uri"}, {"name": "t"}, {"name": ["p"]}]
        assert [each.reason.partition(":")[0] for each in aside] == [
            "item", "item", "item", "name", "inputSchema", "inputSchema", "uri", "uriTemplate", "name",
        ]  # fmt: skip


async def test_a_tool_that_the_protocol_forbids_to_call_is_kept_aside(era: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "not a\r\nheader"}}}
    page = {**HINTS, "tools": [TOOL, {"name": "odd", "inputSchema": schema}]}
    async with web({**behaved(era), "tools/list": page}) as here, connect(here.url, config=QUICK) as client:
        modern = era == MODERN  # Before, nobody knew of such headers.
        assert names(client) == (["tool"] if modern else ["tool", "odd"])
        assert [each.reason.partition(":")[0] for each in client.malformed] == (["x-mcp-header"] if modern else [])


@pytest.mark.parametrize(
    ("schema", "result", "says"),
    [
        ({"type": "nonsense"}, FILLED, "Tool tool: its output schema is wrong at $.type: 'nonsense' is not valid"),
        ({"$ref": "#"}, FILLED, "refers to itself without end"),
        ({"$ref": "http://127.0.0.1:1/schema"}, FILLED, "refers to http://127.0.0.1:1/schema, which is not in it"),
        ({"type": "object", "required": ["b"]}, FILLED, "does not fit its output schema: 'b' is a required property"),
        ({"properties": {"a": {"type": "string"}}}, FILLED, "schema: $.a: 1 is not of type 'string'"),
        ({"enum": [1]}, {"structuredContent": {"a": "x" * 100_000}}, "does not fit its output schema: {'a': 'xxx"),
        ({"type": "object"}, {}, "has an output schema, but returned no structured content"),
    ],
)
async def test_a_result_that_does_not_fit_what_its_tool_announced_is_a_fault_of_the_server(
    era: str, schema: dict[str, Any], result: dict[str, Any], says: str
) -> None:
    does = behaved(era)
    does["tools/list"] = {**HINTS, "tools": [{**TOOL, "outputSchema": schema}]}
    does["tools/call"] = {"resultType": "complete", "content": [], **result}
    async with web(does) as here, connect(here.url, config=QUICK) as client:
        error = await failure(client.call_tool("tool"))
        assert isinstance(error, MalformedMessage)
        assert says in error.message
        assert len(error.message) < 500
        assert "This is a fault of the server: report it to its authors" in error.message
        assert client.connected


async def test_a_schema_with_a_pattern_that_never_ends_holds_nobody_up(era: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a|aa)+$"}}, "required": ["a"]}
    does = behaved(era)
    does["tools/list"] = {**HINTS, "tools": [{**TOOL, "outputSchema": schema}]}
    does["tools/call"] = {"resultType": "complete", "content": [], "structuredContent": {"a": "a" * 100 + "!"}}
    async with web(does) as here, connect(here.url, config=QUICK) as client:
        assert (await client.call_tool("tool")).success


async def test_what_tools_return_is_taken_as_it_is_where_nobody_wants_it_checked(era: str) -> None:
    does = behaved(era)
    does["tools/list"] = {**HINTS, "tools": [{**TOOL, "outputSchema": {"type": "nonsense"}}]}
    does["tools/call"] = {"resultType": "complete", "content": [], **FILLED}
    config = replace(QUICK, check_output=False)
    async with web(does) as here, connect(here.url, config=config) as client:
        assert (await client.call_tool("tool")).result == CallToolResult(content=[], structured_content={"a": 1})


async def test_a_template_that_is_none_is_a_fault_of_the_server(era: str) -> None:
    templates = [{"name": "bad", "uriTemplate": "note://{"}, {"name": "good", "uriTemplate": "note://{name}"}]
    does = behaved(era) | {"resources/templates/list": {**HINTS, "resourceTemplates": templates}}
    async with web(does) as here, connect(here.url, config=QUICK) as client:
        error = await failure(client.read_resource_from_template("note://{", {}))
        assert isinstance(error, MalformedMessage)
        assert "'note://{' is not valid (Unclosed expression at position 7)" in error.message
        assert (await client.read_resource_from_template("note://{name}", {"name": "a"})).text == "content"
