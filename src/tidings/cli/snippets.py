"""What to paste where, so that a program with an agent in it uses this server.

Each program has a shape of its own for the same facts, in a file of its own; one has a command instead.

May import: nothing of Tidings.
"""

import json
import re
import shlex
import subprocess
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

CLIENTS: Final = ("claude-desktop", "claude-code", "vscode", "cursor")


@dataclass(frozen=True)
class Command:
    """A server that the client starts itself."""

    name: str
    argv: Sequence[str]


@dataclass(frozen=True)
class Address:
    """A server that runs already."""

    name: str
    url: str
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Snippet:
    """A text to use as it is, and what to do with it."""

    text: str
    use: str


class CannotUse(ValueError):
    """A client cannot use a server of this kind. Says why, and what to do."""


def snippet(client: str, server: Command | Address, *, platform: str) -> Snippet:
    """The snippet for one of `CLIENTS`, on a system named as `sys.platform` does.

    Raises:
        CannotUse: Not a server of this kind.
    """
    windows = platform == "win32"
    if client == "claude-code":
        return Snippet(_claude_code(server, windows=windows), "Run this in a terminal; `/mcp` in Claude Code shows it.")
    if client == "vscode":
        entry = {"type": "stdio" if isinstance(server, Command) else "http", **_entry(server)}
        return Snippet(
            _json({"servers": {server.name: entry}}),
            "Put this into .vscode/mcp.json of a workspace, or into the file that the command "
            "'MCP: Open User Configuration' opens, beside the servers that are there.",
        )
    if client == "cursor":
        file = "%USERPROFILE%\\.cursor\\mcp.json" if windows else "~/.cursor/mcp.json"
        return Snippet(
            _json({"mcpServers": {server.name: _entry(server)}}), f"Put this into {file}, beside the servers there."
        )
    if isinstance(server, Address):
        raise CannotUse("Claude Desktop starts the servers of its file itself: leave out --http.")
    return Snippet(
        _json({"mcpServers": {server.name: _entry(server)}}),
        f"Put this into {_desktop_file(platform)}, beside the servers there, and restart Claude Desktop.",
    )


def server_name(folder: str) -> str:
    """A name that every client takes, made of that of a folder."""
    plain = unicodedata.normalize("NFKD", folder).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:32].rstrip("-") or "vault"


def _entry(server: Command | Address) -> dict[str, Any]:
    if isinstance(server, Command):
        return {"command": server.argv[0], "args": list(server.argv[1:])}
    return {"url": server.url} | ({"headers": {"Authorization": f"Bearer {server.token}"}} if server.token else {})


def _claude_code(server: Command | Address, *, windows: bool) -> str:
    add = ["claude", "mcp", "add", "--scope", "user"]
    if isinstance(server, Command):
        words = [*add, server.name, "--", *server.argv]
    else:
        # The header comes last: it would take what follows for more headers.
        header = ["--header", f"Authorization: Bearer {server.token}"] if server.token else []
        words = [*add, "--transport", "http", server.name, server.url, *header]
    return subprocess.list2cmdline(words) if windows else shlex.join(words)


def _desktop_file(platform: str) -> str:
    folder = {"win32": "%APPDATA%\\Claude\\", "darwin": "~/Library/Application Support/Claude/"}
    return folder.get(platform, "~/.config/Claude/") + "claude_desktop_config.json"


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
