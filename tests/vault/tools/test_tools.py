"""Which tools a vault server offers, and what an agent is told of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

import tidings
from tests.vault.agent import ERAS, at, data_of
from tidings.server.exact_calls import compact
from tidings.vault.files.outcomes import ReadOnly
from tidings.vault.server import VaultServer

pytestmark = pytest.mark.anyio

READING = ["search", "read", "links", "tags", "recent", "structure", "info", "daily_note"]
WRITING = ["write", "edit", "append", "move", "delete", "rename_tag", "undo"]
WAITING = "wait_for_change"  # Of every live server; its shape is tested in tests/server/waking.
LATER = ["changes", WAITING]


async def offered(root: Path, era: str = ERAS[0], **options: Any) -> dict[str, Any]:
    root.mkdir(exist_ok=True)
    server = VaultServer(root / "vault", cache=root / "cache", **options)
    async with Client(server, mode=era) as client:
        return {tool.name: tool for tool in (await client.list_tools()).tools}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "vault").mkdir()
    return tmp_path


@pytest.mark.parametrize("era", ERAS)
async def test_the_tools_are_these(root: Path, era: str) -> None:
    assert list(await offered(root, era)) == READING + WRITING + LATER


async def test_a_server_that_only_reads_offers_none_that_write(root: Path) -> None:
    tools = await offered(root, read_only=True)
    assert list(tools) == READING + LATER
    assert all(tool.annotations.read_only_hint for tool in tools.values())
    assert set(tools["daily_note"].input_schema["properties"]) == {"date", "period", "max_tokens"}


async def test_an_agent_gets_to_know_all_tools_in_few_tokens(root: Path) -> None:
    tools = (await offered(root)).values()
    seen = [[tool.name, tool.description, tool.input_schema] for tool in tools]  # The model gets no more.

    # Four characters of such a text make a token.
    assert len(json.dumps(seen, separators=(",", ":"), ensure_ascii=False)) / 4 < 2500


async def test_a_server_that_only_reads_refuses_what_is_not_offered_too(tmp_path: Path) -> None:
    async with at(tmp_path, {"A.md": "a"}, read_only=True) as agent:
        for tool in WRITING:
            assert f"This vault is read-only: there is no tool {tool!r}." in await agent.refused(
                tool, path="A.md", content="x"
            )
        with pytest.raises(ReadOnly):
            await agent.server.library.write(lambda writer: writer.write("A.md", "b", overwrite=True))
        assert agent.on_disk("A.md") == "a"


async def test_all_that_is_told_of_the_tools_fits_in_16_kilobytes(root: Path) -> None:
    tools = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in (await offered(root)).values()]
    assert len(json.dumps(tools, separators=(",", ":"), ensure_ascii=False)) < 16_000


async def test_each_tool_says_what_it_does_in_a_sentence_or_two_and_what_it_may_do(root: Path) -> None:
    for name, tool in (await offered(root)).items():
        if name == WAITING:
            continue
        assert 20 < len(tool.description) < 420, name
        assert tool.title
        assert tool.annotations.open_world_hint is False
        assert tool.annotations.read_only_hint is (name in [*READING, "changes"] and name != "daily_note")
        assert tool.input_schema["type"] == "object"
        # The texts of notes are sent once, as text.
        shows_texts = tool.name in ("read", "daily_note")
        assert tool.output_schema is None if shows_texts else tool.output_schema["type"] == "object"


async def test_clients_are_told_which_tools_can_undo_what_somebody_wrote(root: Path) -> None:
    hints = {
        name: tool.annotations for name, tool in (await offered(root)).items() if tool.annotations.destructive_hint
    }
    assert list(hints) == ["write", "edit", "move", "delete", "rename_tag", "undo"]
    assert [name for name, hint in hints.items() if hint.idempotent_hint] == ["write", "rename_tag"]


async def test_no_schema_refers_to_another_place_or_says_what_is_plain(root: Path) -> None:
    for tool in (await offered(root)).values():
        said = json.dumps([tool.input_schema, tool.output_schema])
        assert "$ref" not in said
        assert '"title": "' not in said


def test_a_property_that_is_called_title_stays_in_a_compact_schema() -> None:
    schema = {
        "title": "Thing",
        "type": "object",
        "properties": {"title": {"title": "Title", "type": "string", "default": ""}, "of": {"$ref": "#/$defs/Part"}},
        "$defs": {"Part": {"title": "Part", "description": "A part.", "type": "array", "items": {"title": "x"}}},
        "additionalProperties": False,
    }
    assert compact(schema) == {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "of": {"description": "A part.", "type": "array", "items": {}},
        },
        "additionalProperties": False,
    }
    assert compact(schema, described=False)["properties"]["of"] == {"type": "array", "items": {}}


async def test_arguments_that_are_wrong_are_named(tmp_path: Path) -> None:
    async with at(tmp_path, {"A.md": "a"}) as agent:
        assert await agent.refused("read") == "The argument 'paths' is missing."
        assert "limit should be greater" in await agent.refused("search", query="x", limit=0)
        assert "sort should be 'relevance'" in await agent.refused("search", query="x", sort="best")
        assert await agent.refused("search", qury="x") == "There is no argument 'qury'. Did you mean 'query'?"
        assert await agent.refused("write", path="A.md") == "The argument 'content' is missing."
        assert "edits should be a list" in await agent.refused("edit", path="A.md", edits="nonsense")
        said = await agent.refused("edit", path="A.md", edits=[{"sektion": "Tasks", "content": "x"}])
        assert said == "edits, item 1: There is no key 'sektion'. Did you mean 'section'?"
        assert await agent.refused("serch", query="x") == "There is no tool 'serch'. Did you mean 'search'?"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("edit", {"edits": [{"find": "a", "content": "b"}], "ifMatch": "0" * 16}),
        ("delete", {"if_macth": "0" * 16}),
        ("move", {"to": "B.md", "if-match": "0" * 16}),
        ("append", {"content": "b", "ifmatch": "0" * 16}),
    ],
)
async def test_a_precondition_that_is_misspelt_is_not_dropped(
    tmp_path: Path, tool: str, arguments: dict[str, Any]
) -> None:
    async with at(tmp_path, {"A.md": "a"}) as agent:
        assert "Did you mean 'if_match'?" in await agent.refused(tool, path="A.md", **arguments)
        assert agent.on_disk("A.md") == "a"


async def test_every_schema_says_that_there_are_no_further_arguments(root: Path) -> None:
    for read_only in (False, True):
        for tool in (await offered(root, read_only=read_only)).values():
            assert tool.input_schema["additionalProperties"] is False


async def test_the_live_client_calls_them_too(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault/A.md").write_text("hello\n")
    server = VaultServer(tmp_path / "vault", cache=tmp_path / "cache")
    async with tidings.connect(server) as client:
        await server.library.settled()
        called = await client.call_tool("read", {"paths": ["A"]})
        assert called.result is not None
        assert data_of(called.result)["notes"][0]["text"] == "hello\n"
