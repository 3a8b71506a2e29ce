"""An agent at a vault server, for the tests of its tools: through a real client, in memory."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp_types import CallToolResult

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
        return data_of(result)

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


def data_of(result: CallToolResult) -> dict[str, Any]:
    """The data of a result. The texts of notes are only in its text, after the line that names each."""
    if result.structured_content is not None:
        return result.structured_content
    text = result.content[0].text  # type: ignore[union-attr]
    notes: list[dict[str, Any]] = [dict(note) for note in (result.meta or {})["dev.tidings/notes"]]
    parts = re.split(r"(?m)^=== .* ===\n", text)[1:]
    for note, part in zip(notes, parts, strict=True):
        shown = part.removeprefix(f"{note.get('note', '')}\n").removeprefix("\n")
        first, _, last = note["lines"].partition("-")
        count = int(last or first) - int(first) + 1 if int(first) else 0
        lines = shown.split("\n")[:count]
        note["text"] = "".join(f"{line}\n" for line in lines)
    return {"notes": notes, "rest": "\n".join(parts[-1:])}


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
