"""`--config CLIENT`: the configuration that an AI client needs to use a server."""

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


def config_option(what: str) -> Callable[[Any], Any]:
    """Returns the option `--config` of a command whose server is called `what`."""
    return click.option(
        "--config",
        type=click.Choice(CLIENTS),
        allow_from_autoenv=False,
        help=f"Print the configuration that this client needs to use {what}, and exit.",
    )


def program(extra: str) -> list[str]:
    """Returns the command that starts this program from anywhere; `extra` names the packages that it needs."""
    here = Path(sys.executable)
    if "archive-v0" in here.parts:
        # In the cache of uv, from which it may be removed.
        return [shutil.which("uvx") or "uvx", "--from", f"tidings[{extra}]", "tidings"]
    found = shutil.which("tidings", path=str(here.parent)) or shutil.which("tidings")
    return [str(Path(found).absolute())] if found else [sys.executable, "-m", "tidings"]


def print_snippet(client: str, name: str, argv: list[str], http: HttpAddress | None, token: str | None) -> None:
    """Prints the configuration to standard output, and how to use it to standard error.

    `argv` starts the server. With an address, the user starts it; without, the client.
    """
    server = Command(name, argv) if http is None else HttpEndpoint(name, http.url, token)
    made = snippet(client, server, platform=sys.platform)
    click.echo(made.text)
    click.echo(made.use, err=True)
    if http is not None:
        click.echo(f"The client does not start the server at {http.url}: run it yourself, with all options.", err=True)
    if http is not None and token:
        click.echo("The configuration contains the token: keep it secret.", err=True)


@dataclass(frozen=True)
class Command:
    """A server that the client starts."""

    name: str
    argv: Sequence[str]


@dataclass(frozen=True)
class HttpEndpoint:
    """A server that is already running."""

    name: str
    url: str
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ConfigSnippet:
    """The text of a configuration, and how to use it."""

    text: str
    use: str


def snippet(client: str, server: Command | HttpEndpoint, *, platform: str) -> ConfigSnippet:
    """Returns the configuration for one of `CLIENTS`; `platform` is named as in `sys.platform`."""
    windows = platform == "win32"
    if client == "claude-code":
        use = "Run this command in a terminal; `/mcp` in Claude Code then shows the server."
        return ConfigSnippet(_claude_code(server, windows=windows), use)
    if client == "vscode":
        entry = {"type": "stdio" if isinstance(server, Command) else "http", **_entry(server)}
        opens = "the file that the command 'MCP: Open User Configuration' opens"
        use = f"Add this to .vscode/mcp.json in a workspace, or to {opens}."
        return ConfigSnippet(_json({"servers": {server.name: entry}}), use)
    if client == "cursor":
        file = "%USERPROFILE%\\.cursor\\mcp.json" if windows else "~/.cursor/mcp.json"
        return ConfigSnippet(_json({"mcpServers": {server.name: _entry(server)}}), f"Add this to {file}.")
    if isinstance(server, HttpEndpoint):
        raise Refusal("Claude Desktop can only use servers that it starts itself. Omit --http.")
    folder = {"win32": "%APPDATA%\\Claude\\", "darwin": "~/Library/Application Support/Claude/"}
    file = folder.get(platform, "~/.config/Claude/") + "claude_desktop_config.json"
    return ConfigSnippet(
        _json({"mcpServers": {server.name: _entry(server)}}), f"Add this to {file} and restart Claude Desktop."
    )


def server_name(folder: str) -> str:
    """Returns a name that every client accepts, made from the name of a folder."""
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
        # The header comes last: --header takes all words that follow.
        header = ["--header", f"Authorization: Bearer {server.token}"] if server.token else []
        words = [*add, "--transport", "http", server.name, server.url, *header]
    return subprocess.list2cmdline(words) if windows else shlex.join(words)


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
