"""`--config CLIENT`: the configuration that an AI client needs to use a server, as text or in the client's file."""

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from json import JSONDecoder
from pathlib import Path
from typing import Any, Final, Literal, cast

import click
from click.core import ParameterSource

from tidings._kit.bounded_json import NotJson, as_dict, as_dict_or_none, parse_with_comments, without_comments
from tidings._kit.files import settings_folder
from tidings._kit.lazy import install_command, install_source
from tidings.cli.exits import Refusal
from tidings.cli.serving import HttpAddress
from tidings.cli.terminal import option

Format = Literal["json", "toml", "yaml"]
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
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
    """Prints how a client is to use the server of the running command; in `tidings install`, hands it to that."""
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
    if client != "claude-code":
        known = CLIENTS[client]
        return as_text(known.form, known.section, server.name, known.entry(server))
    words = ["claude", "mcp", "add", "--scope", "user"]
    if server.url is None:
        words += [server.name, "--", *server.argv]
    else:
        words += ["--transport", "http", server.name, server.url]
        if server.token:  # The header comes last: --header takes all words that follow.
            words += ["--header", f"Authorization: Bearer {server.token}"]
    return subprocess.list2cmdline(words) if platform == "win32" else shlex.join(words)


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


class NotEditable(ValueError):
    """The file of a client cannot be changed. The message says where and why."""


def edited(text: str, form: Format, section: str, name: str, entry: dict[str, Any]) -> str:
    """Returns the text of a file with this entry under `name`: everything else in it stays. Raises `NotEditable`."""
    edit = {"json": _edit_json, "toml": _edit_toml, "yaml": _edit_yaml}[form]
    return edit(text, section, name, entry)


def has_server(text: str, form: Format, section: str, name: str) -> bool:
    """Returns whether a file that can be edited has an entry of this name."""
    if form == "yaml":
        from ruamel.yaml import YAML

        document: object = cast("Any", YAML()).load(text)
    else:
        document = tomllib.loads(text) if form == "toml" else parse_with_comments(text.strip() or "{}")[0]
    return name in as_dict(as_dict(document).get(section))


def as_text(form: Format, section: str, name: str, entry: dict[str, Any]) -> str:
    """Returns the entry as it stands in a file that has nothing else in it."""
    if form == "toml":
        return _toml_table(section, name, entry)
    if form == "yaml":
        lines = [f"    {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
        return "\n".join([f"{section}:", f"  {json.dumps(name)}:", *lines])
    return json.dumps({section: {name: entry}}, indent=2, ensure_ascii=False)


def _checked(document: object, section: str) -> dict[str, Any]:
    found = as_dict_or_none(document)
    if found is None or not isinstance(found.get(section, {}), dict | None):
        raise NotEditable(f"It must be an object in which {section}, if it is there, is an object, too")
    return found


def _edit_json(text: str, section: str, name: str, entry: dict[str, Any]) -> str:
    text = text if text.strip() else "{}\n"
    try:
        document = _checked(parse_with_comments(text)[0], section)
    except NotJson as error:
        raise NotEditable(f"It is not JSON: {error}") from None
    root = without_comments(text).index("{")
    found = next((start for key, start, _ in _members(text, root) if key == section), None)
    servers = document.get(section)
    place, key, value = (root, section, {name: entry}) if found is None or servers is None else (found, name, entry)
    made = _with_member(text, place, key, value)
    document[section] = {**(servers or {}), name: entry}
    if parse_with_comments(made)[0] != document:
        raise NotEditable("Its form is unusual, such as a name that is there twice. Add what --config prints by hand")
    return made


def _members(text: str, start: int) -> Iterator[tuple[str, int, int]]:
    """Yields the key of each member of the object that begins at `start`, and where its value begins and ends."""
    bare, decode, place = without_comments(text), JSONDecoder(strict=False).raw_decode, start + 1
    while bare[place := _past_space(bare, place)] != "}":
        key, place = decode(bare, place)
        begin = _past_space(bare, place)
        _, place = decode(bare, begin)
        yield key, begin, place


def _past_space(text: str, place: int) -> int:
    return place + len(text[place:]) - len(text[place:].lstrip(" \t\r\n,:"))


def _with_member(text: str, start: int, key: str, value: dict[str, Any]) -> str:
    """Returns the text with a member of the object that begins at `start`: instead of the one of this name, or last."""
    members = list(_members(text, start))
    place = members[-1][1] if members else start
    line = text[text.rfind("\n", 0, place) + 1 : place]
    indent = line[: len(line) - len(line.lstrip())] + ("" if members else "  ")
    dumped = json.dumps(value, indent=2, ensure_ascii=False).replace("\n", f"\n{indent}")
    for name, begin, end in members:
        if name == key:
            is_same = json.loads(without_comments(text[begin:end])) == value
            return text if is_same else text[:begin] + dumped + text[end:]
    added = f"\n{indent}{json.dumps(key, ensure_ascii=False)}: {dumped}"
    end = members[-1][2] if members else start + 1
    close = without_comments(text).index("}", end)
    kept = text[end:close].rstrip()  # Comments on what is there, and maybe a comma.
    comma = "," if members and "," not in without_comments(f"{kept}\n0") else ""
    rest = text[end + len(kept) : close]
    return text[:end] + comma + kept + added + (rest if "\n" in rest else f"\n{indent[:-2]}") + text[close:]


def _edit_toml(text: str, section: str, name: str, entry: dict[str, Any]) -> str:
    try:
        document = _checked(tomllib.loads(text), section)
    except tomllib.TOMLDecodeError as error:
        raise NotEditable(f"It is not TOML: {error}") from None
    servers = document.setdefault(section, {})
    if servers.get(name) == entry:
        return text
    servers[name] = entry
    kept, is_old = list[str](), False
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            words = [part.strip("\"' ") for part in line.strip(" [").partition("]")[0].split(".")]
            is_old = words[:2] == [section, name]
        if not is_old:
            kept.append(line)
    rest = "".join(kept).rstrip("\n")
    made = f"{rest}\n\n{_toml_table(section, name, entry)}\n".lstrip("\n")
    with suppress(tomllib.TOMLDecodeError):
        if tomllib.loads(made) == document:
            return made
    raise NotEditable(f"Its {section} are not tables of their own, such as [{section}.{name}]. Change that by hand")


def _toml_table(section: str, name: str, entry: dict[str, Any]) -> str:
    def shown(value: object) -> str:
        if table := as_dict(value):
            return "{ " + ", ".join(f"{json.dumps(key)} = {shown(each)}" for key, each in table.items()) + " }"
        return json.dumps(value, ensure_ascii=False)

    title = name if _BARE.fullmatch(name) else json.dumps(name)
    return "\n".join([f"[{section}.{title}]", *(f"{key} = {shown(value)}" for key, value in entry.items())])


def _edit_yaml(text: str, section: str, name: str, entry: dict[str, Any]) -> str:
    try:
        from ruamel.yaml import YAML
    except ImportError:
        raise NotEditable(f"To change YAML, ruamel.yaml is needed: {install_command('inspector')}") from None
    yaml: Any = YAML()
    yaml.preserve_quotes, yaml.width = True, 10_000
    if indent := re.search(r"^\w[^\n]*:[^\n]*\n(?:\s*#.*\n)*( +)\w", text, re.MULTILINE):
        yaml.map_indent = len(indent[1])
    try:
        document = _checked(yaml.load(text) or {}, section)
    except NotEditable:
        raise
    except Exception as error:  # noqa: BLE001 - the library raises many kinds
        raise NotEditable(f"It is not YAML: {' '.join(str(error).split())}") from None
    if document.get(section) is None:
        document[section] = {}
    servers = document[section]
    if servers.get(name) == entry:
        return text
    servers[name] = entry
    stream = io.StringIO()
    yaml.dump(document, stream)
    return stream.getvalue()
