"""An agent at a vault server, for the tests of its tools: through a real client, in memory."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp import Client

from tidings.vault.server import VaultServer

ERAS = ["2026-07-28", "legacy"]


class Agent:
    """Calls tools by their names: `await agent.search(query="x")`."""

    def __init__(self, server: VaultServer, client: Client, root: Path) -> None:
        self.server = server
        self.client = client
        self.root = root
        self.text = ""
        """What the last call said."""

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answers, as data; `text` is what it says."""
        result = await self.client.call_tool(tool, arguments)
        self.text = result.content[0].text
        assert not result.is_error, self.text
        assert result.structured_content is not None
        return result.structured_content

    async def refused(self, tool: str, **arguments: Any) -> str:
        """What a tool says that cannot do what it is asked."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error
        said = result.content[0].text
        assert "Traceback" not in said
        assert str(self.root) not in said
        assert "Error executing tool" not in said
        assert "pydantic" not in said
        return said

    async def version(self, path: str) -> str:
        return (await self.call("read", paths=[path]))["notes"][0]["version"]

    def put(self, files: Mapping[str, str | bytes]) -> None:
        """Write files as another program would."""
        put(self.root, files)

    def on_disk(self, path: str) -> str:
        return (self.root / path).read_bytes().decode()


def put(root: Path, files: Mapping[str, str | bytes]) -> None:
    for path, content in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)


@asynccontextmanager
async def at(
    tmp_path: Path, files: Mapping[str, str | bytes], *, era: str = ERAS[0], **options: Any
) -> AsyncGenerator[Agent]:
    """An agent at a server of a vault with these files, when everything is indexed."""
    root = tmp_path / "Vault"
    root.mkdir()
    put(root, files)
    server = VaultServer(root, cache=tmp_path / "cache", **options)
    async with Client(server, mode=era, cache=None) as client:
        with anyio.fail_after(20):
            await server.library.settled()
        yield Agent(server, client, root)
