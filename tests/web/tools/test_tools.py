"""Which tools there are, and what an agent is told of them."""

import json

import pytest

from tests.web.agent import ERAS, at
from tidings.server.exact_calls import compact

pytestmark = pytest.mark.anyio

TOOLS = ["fetch", "extract", "map", "chunk", "compact", "diff", "watch", "unwatch", "changes"]
WAITING = ["wait_for_change"]  # Of every live server; its shape is tested in tests/server/waking.


@pytest.mark.parametrize("era", ERAS)
async def test_the_tools_are_those_of_the_documentation_with_what_a_client_wants_to_know(era: str) -> None:
    async with at(era=era) as agent:
        tools = {tool.name: tool for tool in (await agent.client.list_tools()).tools}
    assert list(tools) == TOOLS + WAITING
    for tool in map(tools.__getitem__, TOOLS):
        assert tool.title
        assert tool.description
        assert tool.annotations is not None
        assert (tool.output_schema is None) is (tool.name in {"fetch", "extract"})
        assert tool.annotations.destructive_hint is not True
    hints = {name: (tool.annotations.read_only_hint, tool.annotations.open_world_hint) for name, tool in tools.items()}
    assert hints["fetch"] == hints["map"] == (True, True)
    assert hints["chunk"] == hints["compact"] == hints["diff"] == (True, False)
    assert hints["watch"] == hints["unwatch"] == (False, True)


async def test_fetch_takes_everything_that_the_original_took() -> None:
    async with at() as agent:
        tools = {tool.name: tool.input_schema["properties"] for tool in (await agent.client.list_tools()).tools}
    assert tools["fetch"].keys() >= {
        *("urls", "mode", "headers", "timeout_ms", "max_bytes", "max_redirects", "user_agent", "respect_robots"),
        *("cache_ttl_s", "render", "extraction", "format"),
    }
    assert tools["fetch"]["render"]["properties"].keys() == {
        *("wait_until", "wait_ms", "block_third_party", "screenshot", "selector"),
    }
    assert tools["fetch"]["extraction"]["properties"].keys() == {
        *("prefer_readability", "keep_tables", "keep_code_blocks", "remove_selectors"),
        *("whole_page", "comments", "links", "images"),
    }
    assert tools["fetch"]["format"]["properties"].keys() == {"output", "include_raw_excerpt"}
    assert tools["extract"].keys() >= {"url", "raw_bytes", "content_type", "canonical_url", "extraction", "format"}
    assert tools["chunk"].keys() >= {"packet", "max_tokens", "margin_ratio", "strategy"}
    assert tools["compact"].keys() >= {"packet", "chunks", "max_tokens", "mode", "question", "preserve"}


async def test_what_agents_pay_for_is_short() -> None:
    async with at() as agent:
        tools = (await agent.client.list_tools()).tools
    said = json.dumps([tool.model_dump(mode="json", exclude_none=True, by_alias=True) for tool in tools])
    assert "$ref" not in said
    assert '"title": "' not in json.dumps([[tool.input_schema, tool.output_schema] for tool in tools])
    assert len(json.dumps([[tool.description, tool.input_schema] for tool in tools])) < 13_500
    assert len(said) < 22_500


def test_a_choice_among_shapes_is_spelled_out_and_keeps_what_is_said_of_it() -> None:
    schema = {
        "properties": {
            "one": {"$ref": "#/$defs/Part", "description": "This use of it."},
            "two": {"anyOf": [{"$ref": "#/$defs/Part"}, {"type": "integer"}]},
            "three": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None, "description": "Optional."},
        },
        "$defs": {"Part": {"title": "Part", "description": "A part.", "type": "object"}},
    }
    assert compact(schema) == {
        "properties": {
            "one": {"description": "This use of it.", "type": "object"},
            "two": {"anyOf": [{"description": "A part.", "type": "object"}, {"type": "integer"}]},
            "three": {"type": "integer", "description": "Optional."},
        }
    }


async def test_a_tool_that_is_not_there_and_arguments_that_are_wrong_are_named() -> None:
    async with at() as agent:
        assert "Did you mean 'fetch'?" in await agent.refused("fetsh")
        assert await agent.refused("fetch") == "The argument 'urls' is missing."
        assert "There is no argument 'page_url'" in await agent.refused("watch", page_url="x")
