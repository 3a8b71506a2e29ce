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

from tidings._kit.lazy import install_source
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
        return [shutil.which("uvx") or "uvx", "--from", install_source(extra), "tidings"]
    found = shutil.which("tidings", path=str(here.parent)) or shutil.which("tidings")
    return [str(Path(found).absolute())] if found else [sys.executable, "-m", "tidings"]


def print_snippet(client: str, name: str, argv: list[str], http: HttpAddress | None, token: str | None) -> None:
    """Prints the configuration, and on standard error how to use it. With an address, the user starts the server."""
    server = ClientServer(name, argv) if http is None else ClientServer(name, url=http.url, token=token)
    click.echo(snippet(client, server, platform=sys.platform))
    click.echo(usage(client, sys.platform), err=True)
    if http is not None:
        click.echo(f"The client does not start the server at {http.url}: run it yourself, with all options.", err=True)
    if http is not None and token:
        click.echo("The configuration contains the token: keep it secret.", err=True)


@dataclass(frozen=True)
class ClientServer:
    """A server as a client sees it: the command that starts it, or the URL and the token of one that is running."""

    name: str
    argv: Sequence[str] = ()
    url: str | None = None
    token: str | None = field(default=None, repr=False)

    @property
    def entry(self) -> dict[str, Any]:
        if self.url is None:
            return {"command": self.argv[0], "args": list(self.argv[1:])}
        return {"url": self.url} | ({"headers": {"Authorization": f"Bearer {self.token}"}} if self.token else {})


def snippet(client: str, server: ClientServer, *, platform: str) -> str:
    """Returns the configuration for one of `CLIENTS`; `platform` is named as in `sys.platform`."""
    if client == "claude-code":
        return _claude_code(server, windows=platform == "win32")
    if client == "claude-desktop" and server.url is not None:
        raise Refusal("Claude Desktop can only use servers that it starts itself. Omit --http.")
    document: dict[str, Any] = {"mcpServers": {server.name: server.entry}}
    if client == "vscode":
        document = {"servers": {server.name: {"type": "stdio" if server.url is None else "http", **server.entry}}}
    return json.dumps(document, indent=2, ensure_ascii=False)


def usage(client: str, platform: str) -> str:
    """Returns what to do with the configuration of a client."""
    match client:
        case "claude-code":
            return "Run this command in a terminal; `/mcp` in Claude Code then shows the server."
        case "vscode":
            opens = "the file that the command 'MCP: Open User Configuration' opens"
            return f"Add this to .vscode/mcp.json in a workspace, or to {opens}."
        case "cursor":
            folder = "%USERPROFILE%\\.cursor\\" if platform == "win32" else "~/.cursor/"
            return f"Add this to {folder}mcp.json."
        case _:
            folders = {"win32": "%APPDATA%\\Claude\\", "darwin": "~/Library/Application Support/Claude/"}
            folder = folders.get(platform, "~/.config/Claude/")
            return f"Add this to {folder}claude_desktop_config.json and restart Claude Desktop."


def server_name(folder: str) -> str:
    """Returns a name that every client accepts, made from the name of a folder."""
    plain = unicodedata.normalize("NFKD", folder).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:32].rstrip("-") or "vault"


def _claude_code(server: ClientServer, *, windows: bool) -> str:
    words = ["claude", "mcp", "add", "--scope", "user"]
    if server.url is None:
        words += [server.name, "--", *server.argv]
    else:
        words += ["--transport", "http", server.name, server.url]
        if server.token:  # The header comes last: --header takes all words that follow.
            words += ["--header", f"Authorization: Bearer {server.token}"]
    return subprocess.list2cmdline(words) if windows else shlex.join(words)
