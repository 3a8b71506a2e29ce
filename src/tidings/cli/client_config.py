"""What commands that serve share towards AI clients: `--config CLIENT`, and how a client starts the command.

What to paste where, so that a program with an agent in it uses this server.

Each program has a shape of its own for the same facts, in a file of its own; one has a command instead.

May import: nothing of Tidings.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from tidings.cli.exits import Refusal
from tidings.cli.serving import HttpAddress

CLIENTS: Final = ("claude-desktop", "claude-code", "vscode", "cursor")
"""As in `tidings.cli.client_config`, which is imported only when it is needed."""


def config_option(what: str) -> Callable[[Any], Any]:
    """The option `--config` of a command whose server is called `what`."""
    return click.option(
        "--config",
        type=click.Choice(CLIENTS),
        allow_from_autoenv=False,
        help=f"Print what this client needs to use {what}, and end.",
    )


def program(extra: str) -> list[str]:
    """How another program starts this one, from wherever it runs; `extra` brings the packages that it needs."""
    here = Path(sys.executable)
    if "archive-v0" in here.parts:
        # In the cache of uv, from which it may vanish.
        return [shutil.which("uvx") or "uvx", "--from", f"tidings[{extra}]", "tidings"]
    found = shutil.which("tidings", path=str(here.parent)) or shutil.which("tidings")
    return [str(Path(found).absolute())] if found else [sys.executable, "-m", "tidings"]


def print_snippet(client: str, name: str, argv: list[str], http: HttpAddress | None, token: str | None) -> None:
    """Print what a client needs, alone, on standard output; what to do with it is said beside it.

    Args:
        client: One of `CLIENTS`.
        name: What the client will call the server.
        argv: What starts the server.
        http: Where it runs already; None if the client starts it.
        token: What has to be sent there.

    Raises:
        Refusal: The client cannot use a server of this kind.
    """
    server = Command(name, argv) if http is None else HttpEndpoint(name, http.url, token)
    try:
        made = snippet(client, server, platform=sys.platform)
    except CannotUse as error:
        raise Refusal(str(error)) from None
    click.echo(made.text)
    click.echo(made.use, err=True)
    if http is not None:
        click.echo(f"It names the server at {http.url}: run that yourself, with all of its options.", err=True)
    if http is not None and token:
        click.echo("It holds the token: keep it to yourself.", err=True)


@dataclass(frozen=True)
class Command:
    """A server that the client starts itself."""

    name: str
    argv: Sequence[str]


@dataclass(frozen=True)
class HttpEndpoint:
    """A server that runs already."""

    name: str
    url: str
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ConfigSnippet:
    """A text to use as it is, and what to do with it."""

    text: str
    use: str


class CannotUse(ValueError):
    """A client cannot use a server of this kind. Says why, and what to do."""


def snippet(client: str, server: Command | HttpEndpoint, *, platform: str) -> ConfigSnippet:
    """The snippet for one of `CLIENTS`, on a system named as `sys.platform` does.

    Raises:
        CannotUse: Not a server of this kind.
    """
    windows = platform == "win32"
    if client == "claude-code":
        return ConfigSnippet(
            _claude_code(server, windows=windows), "Run this in a terminal; `/mcp` in Claude Code shows it."
        )
    if client == "vscode":
        entry = {"type": "stdio" if isinstance(server, Command) else "http", **_entry(server)}
        return ConfigSnippet(
            _json({"servers": {server.name: entry}}),
            "Put this into .vscode/mcp.json of a workspace, or into the file that the command "
            "'MCP: Open User Configuration' opens, beside the servers that are there.",
        )
    if client == "cursor":
        file = "%USERPROFILE%\\.cursor\\mcp.json" if windows else "~/.cursor/mcp.json"
        return ConfigSnippet(
            _json({"mcpServers": {server.name: _entry(server)}}), f"Put this into {file}, beside the servers there."
        )
    if isinstance(server, HttpEndpoint):
        raise CannotUse("Claude Desktop starts the servers of its file itself: leave out --http.")
    return ConfigSnippet(
        _json({"mcpServers": {server.name: _entry(server)}}),
        f"Put this into {_desktop_file(platform)}, beside the servers there, and restart Claude Desktop.",
    )


def server_name(folder: str) -> str:
    """A name that every client takes, made of that of a folder."""
    plain = unicodedata.normalize("NFKD", folder).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:32].rstrip("-") or "vault"


def _entry(server: Command | HttpEndpoint) -> dict[str, Any]:
    if isinstance(server, Command):
        return {"command": server.argv[0], "args": list(server.argv[1:])}
    return {"url": server.url} | ({"headers": {"Authorization": f"Bearer {server.token}"}} if server.token else {})


def _claude_code(server: Command | HttpEndpoint, *, windows: bool) -> str:
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
