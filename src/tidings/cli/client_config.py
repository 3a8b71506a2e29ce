"""`--config CLIENT`: the configuration that an AI client needs to use a server."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from tidings._kit.files import settings_folder
from tidings._kit.lazy import install_source
from tidings.cli.client_file import Format, as_text
from tidings.cli.exits import Refusal
from tidings.cli.serving import HttpAddress
from tidings.cli.terminal import option

INSTALL: Final = "tidings.install"
"""In the `meta` of a click context: takes the server, instead of its configuration being printed."""


@dataclass(frozen=True)
class AiClient:
    """An AI client: its configuration file, and the form of an entry."""

    title: str
    file: Callable[[Path, Path], Path]  # Of the folder of the user, and the one of all programs' settings
    section: str = "mcpServers"
    form: Format = "json"
    stdio: Mapping[str, Any] = field(default_factory=dict[str, Any])  # More members of an entry with a command.
    http: Mapping[str, Any] | None = field(default_factory=dict[str, Any])  # The same with a URL; None: there are none.
    names: Mapping[str, str] = field(default_factory=dict[str, str])  # Members that have another name here.

    def entry(self, server: "ClientServer") -> dict[str, Any]:
        """Returns the entry of a server. Raises `Refusal` if the client cannot use it."""
        if server.url is not None and self.http is None:
            raise Refusal(f"{self.title} can only use servers that it starts itself. Omit --http.")
        own = self.stdio if server.url is None else self.http or {}
        facts = {self.names.get(key, key): value for key, value in server.entry.items()}
        more = {key: server.name if value == "NAME" else value for key, value in own.items()}
        return more | facts


CLIENTS: Final = {
    "claude-desktop": AiClient(
        "Claude Desktop", lambda _, settings: settings / "Claude" / "claude_desktop_config.json", http=None
    ),
    "claude-code": AiClient(
        "Claude Code",
        lambda home, _: Path(os.environ.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json",
        stdio={"type": "stdio"},
        http={"type": "http"},
    ),
    "vscode": AiClient(
        "VS Code",
        lambda _, settings: settings / "Code" / "User" / "mcp.json",
        "servers",
        stdio={"type": "stdio"},
        http={"type": "http"},
    ),
    "cursor": AiClient("Cursor", lambda home, _: home / ".cursor" / "mcp.json"),
    "gemini": AiClient("Gemini CLI", lambda home, _: home / ".gemini" / "settings.json", names={"url": "httpUrl"}),
    "goose": AiClient(
        "goose",
        lambda home, settings: (
            (settings / "Block" / "goose" / "config" if os.name == "nt" else home / ".config" / "goose") / "config.yaml"
        ),
        "extensions",
        "yaml",
        stdio={"name": "NAME", "type": "stdio", "enabled": True, "timeout": 300},
        http={"name": "NAME", "type": "streamable_http", "enabled": True, "timeout": 300},
        names={"command": "cmd", "url": "uri"},
    ),
    "codex": AiClient(
        "Codex",
        lambda home, _: Path(os.environ.get("CODEX_HOME") or home / ".codex") / "config.toml",
        "mcp_servers",
        "toml",
        names={"headers": "http_headers"},
    ),
    "zed": AiClient(
        "Zed",
        lambda home, settings: (settings / "Zed" if os.name == "nt" else home / ".config" / "zed") / "settings.json",
        "context_servers",
    ),
}


def config_option(what: str) -> Callable[[Any], Any]:
    """Returns the option `--config` of a command whose server is called `what`."""
    return option(
        "--config",
        f"Print the configuration that this client needs to use {what}, and exit.",
        click.Choice(list(CLIENTS)),
        allow_from_autoenv=False,
    )


def program(extra: str) -> list[str]:
    """Returns the command that starts this program from anywhere; `extra` names the packages that it needs."""
    here = Path(sys.executable)
    if "archive-v0" in here.parts:
        # In the cache of uv, from which it may be removed.
        return [shutil.which("uvx") or "uvx", "--from", install_source(extra), "tidings"]
    found = shutil.which("tidings", path=str(here.parent)) or shutil.which("tidings")
    return [str(Path(found).absolute())] if found else [sys.executable, "-m", "tidings"]


def print_snippet(client: str, name: str, targets: Sequence[str], http: HttpAddress | None, token: str | None) -> None:
    """Prints the configuration for the server of the running command, and on standard error how to use it.

    With an address, the user starts the server. In `tidings install`, the server is written to the files of clients.
    """
    context = click.get_current_context()
    command = context.command.name or ""
    argv = [*program(command), command, *targets, *_options_of(context)]
    server = ClientServer(name, argv) if http is None else ClientServer(name, url=http.url, token=token)
    if (install := context.meta.get(INSTALL)) is not None:
        install(server)
        return
    click.echo(snippet(client, server, platform=sys.platform))
    click.echo(usage(client, sys.platform), err=True)
    if http is not None:
        click.echo(f"The client does not start the server at {http.url}: run it yourself, with all options.", err=True)
    if http is not None and token:
        click.echo("The configuration contains the token: keep it secret.", err=True)


def _options_of(context: click.Context) -> Iterator[str]:
    """Yields the options that a command was given, by words or variables, but those about HTTP. Paths are absolute."""
    for param in context.command.params:
        name = param.name or ""
        value = context.params.get(name)
        if not isinstance(param, click.Option) or name in ("http", "token", "config") or value in (None, "", ()):
            continue
        if context.get_parameter_source(name) is ParameterSource.DEFAULT:
            continue
        if param.is_flag:
            yield from param.opts if value else param.secondary_opts
            continue
        for each in value if param.multiple else (value,):
            shown = each.absolute() if isinstance(each, Path) else f"{each:g}" if isinstance(each, float) else each
            yield from (param.opts[-1], str(shown))


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
    known = CLIENTS[client]
    return as_text(known.form, known.section, server.name, known.entry(server))


def usage(client: str, platform: str) -> str:
    """Returns what to do with the configuration of a client."""
    if client == "claude-code":
        return "Run this command in a terminal; `/mcp` in Claude Code then shows the server."
    place = CLIENTS[client].file(Path("~"), settings_folder({}, platform, Path("~"))).as_posix()
    if platform == "win32":
        place = place.replace("~/AppData/Roaming", "%APPDATA%").replace("~", "%USERPROFILE%").replace("/", "\\")
    also = ", or to .vscode/mcp.json in a workspace" if client == "vscode" else ""
    restart = f" and restart {CLIENTS[client].title}" if client == "claude-desktop" else ""
    return f"Add this to {place}{also}{restart}. `tidings install` does it for you."


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
