"""A vault as an AI client sees it: a command that is started, spoken to over its input and output, and stopped."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

import tidings
from tests import forking
from tidings.changes import ResourceUpdated

pytestmark = pytest.mark.anyio

URI = "vault://note/Today.md"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    (folder / "Today.md").write_text("# Today\nBuy milk. #home\n")
    return folder


def command(root: Path, *options: str) -> Sequence[str]:
    return forking.command("-m", "tidings", "vault", str(root), "--cache", str(root.parent / "cache"), *options)


def started(root: Path) -> StdioServerParameters:
    name, *arguments = command(root)
    return StdioServerParameters(command=name, args=arguments)


async def test_a_stock_client_of_the_modern_era_initialises_lists_subscribes_is_told_and_reads(root: Path) -> None:
    with anyio.fail_after(30):
        async with Client(stdio_client(started(root))) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} >= {"search", "read", "edit"}
            async with client.listen(resource_subscriptions=[URI]) as told:
                (root / "Today.md").write_text("# Today\nBuy bread. #home\n")
                # That it was found at all may be told first: it is asked for before the vault is indexed.
                async for event in told:
                    assert event == ResourceUpdated(URI)
                    (content,) = (await client.read_resource(URI)).contents
                    assert content.mime_type == "text/markdown"
                    if content.text == "# Today\nBuy bread. #home\n":
                        break


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_a_stock_client_of_the_old_era_initialises_lists_subscribes_is_told_and_reads(root: Path) -> None:
    tell, told = anyio.create_memory_object_stream[None](10)

    async def hear(message: object) -> None:
        if URI in str(message):
            await tell.send(None)

    with anyio.fail_after(30), tell, told:
        async with Client(stdio_client(started(root)), mode="legacy", message_handler=hear) as client:
            assert {prompt.name for prompt in (await client.list_prompts()).prompts}
            await client.subscribe_resource(URI)
            (root / "Today.md").write_text("# Today\nBuy bread. #home\n")
            async for _ in told:
                (content,) = (await client.read_resource(URI)).contents
                if content.text == "# Today\nBuy bread. #home\n":
                    break
            missing = URI.replace("Today", "Never")
            with pytest.raises(MCPError) as refused:
                await client.read_resource(missing)
            assert (refused.value.error.code, refused.value.error.data) == (-32002, {"uri": missing})


@pytest.mark.parametrize(("era", "option"), [("auto", "--read-only"), ("legacy", "--exclude=x")])
async def test_a_live_client_holds_what_is_on_the_disk(root: Path, era: str, option: str) -> None:
    with anyio.fail_after(30):
        async with tidings.connect(command(root, option), era=era) as client:
            names = {tool.name for tool in client.tools}
            assert names >= {"search", "read"}
            assert bool(names & {"write", "edit", "append", "move", "delete", "rename_tag"}) == (era == "legacy")
            texts = ["# Today\nBuy milk. #home\n", "Buy bread.\n", "Buy nothing.\n"]
            async for note in client.watch(URI):
                assert note.text == texts.pop(0)
                if not texts:
                    break
                (root / "Today.md").write_text(texts[0])
    assert sorted(path.name for path in root.iterdir()) == ["Today.md"]
