"""Reads `mcpServers` files, as Claude Desktop, Cursor and VS Code write them. Imports nothing of the SDK.

    {"mcpServers": {"weather": {"command": "uvx", "args": ["weather"], "env": {"API_KEY": "${WEATHER_KEY}"}},
                    "notes": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${env:NOTES}"}}}}

VS Code calls the section `servers`. `${NAME}` and `${env:NAME}` stand for variables; `${NAME:-text}` has a default.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, cast

from tidings._kit.bounded_json import type_of
from tidings._kit.suggest import did_you_mean
from tidings.client.masking import looks_secret
from tidings.errors import BadTarget

_PLACEHOLDER: Final = re.compile(r"\$\{([^}]*)\}")
_VARIABLE: Final = re.compile(r"(?:env:)?(?P<name>[A-Za-z_]\w*)(?::-(?P<default>.*))?", re.DOTALL)
_KINDS: Final[dict[str, Literal["http", "sse"] | None]] = {
    "http": "http",
    "streamablehttp": "http",
    "sse": "sse",
    "stdio": None,
}


@dataclass(frozen=True)
class ServersFileEntry:
    """One server of a file. It has either `command` or `url`."""

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    kind: Literal["http", "sse"] | None = None
    hidden: frozenset[str] = frozenset()  # The values of variables with names such as API_KEY.
    account: str = ""  # The name of the account to use at a URL; by default the current one.


def read_entry(path: Path, name: str | None, environ: Mapping[str, str]) -> ServersFileEntry:
    """Returns the server called `name` in the file at `path`; without a name, the only one there."""
    _, servers = read_servers(path)
    if name is None:
        if len(servers) != 1:
            several = f"{path} has {len(servers)} servers. Name one, as in {path}#name: {_listed(servers)}."
            raise BadTarget(several if servers else f"{path} has no server in it. Add one to its mcpServers.")
        (name,) = servers
    elif name not in servers:
        meant = did_you_mean(name, servers, show=str)
        raise BadTarget(f"{path} has no server called {name!r}.{meant} It has: {_listed(servers)}.")
    return parse_entry(f"The server {name!r} in {path}", name, servers[name], environ)


def parse_entry(where: str, name: str, raw: object, environ: Mapping[str, str]) -> ServersFileEntry:
    """Returns one entry with its variables filled in. `where` begins the message of an error."""
    return _EntryReader(where, raw, environ).entry(name)


def fill_texts(where: str, key: str, entry: object, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns an object of strings in an entry with its variables filled in. `where` begins the message of an error."""
    return _EntryReader(where, entry, environ).texts(key)


def read_servers(path: Path) -> tuple[str, dict[str, Any]]:
    """Returns the text of a file, and its entries by name as they are. Raises `BadTarget`."""
    try:
        text = path.read_text("utf-8-sig")
        content: Any = json.loads(text)
    except FileNotFoundError:
        raise BadTarget(f"There is no file {path.absolute()}. Check the path.") from None
    except json.JSONDecodeError as error:
        where = f"{path} is not JSON: line {error.lineno}, column {error.colno}: {error.msg}."
        hint = "Comments and commas before a closing bracket are not allowed in JSON."
        raise BadTarget(f"{where} {hint}") from None
    except (UnicodeDecodeError, RecursionError):
        raise BadTarget(f"{path} is not JSON: it is not UTF-8, or nested too deeply.") from None
    except OSError as error:
        raise BadTarget(f"{path} cannot be read: {error.strerror}.") from None
    for section in ("mcpServers", "servers"):
        if isinstance(content, dict) and section in content:
            servers: Any = cast("dict[str, Any]", content)[section]
            if not isinstance(servers, dict):
                raise BadTarget(f"{section} in {path} must be an object of servers by name, not {type_of(servers)}.")
            return text, cast("dict[str, Any]", servers)
    raise BadTarget(f'{path} has no mcpServers. It must look like {{"mcpServers": {{"name": {{"command": "…"}}}}}}.')


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


class _EntryReader:
    """Reads one entry. Its errors say where the mistake is."""

    def __init__(self, where: str, entry: Any, environ: Mapping[str, str]) -> None:
        if not isinstance(entry, dict):
            raise BadTarget(f"{where} must be an object with a command or a url, not {type_of(entry)}.")
        self._where = where
        self._entry = cast("dict[str, Any]", entry)
        self._environ = environ
        self._hidden: set[str] = set()

    def entry(self, name: str) -> ServersFileEntry:
        command, url = self._text("command"), self._text("url")
        if (command is None) == (url is None):
            has = "both a command and a url" if command else f"neither a command nor a url ({_listed(self._entry)})"
            raise BadTarget(f"{self._where} has {has}. It needs one of them.")
        stated = self._text("type") or self._text("transport")
        key = re.sub(r"[-_ ]", "", (stated or "").lower())
        if stated is not None and (key not in _KINDS or (key == "stdio") is (url is not None)):
            fits = "stdio" if url is None else "http or sse"
            raise BadTarget(f"{self._where} has the type {stated!r}, which does not fit. Use {fits}, or leave it out.")
        args = self._entry.get("args")
        if args is not None and not isinstance(args, list):
            raise self._wrong("args", "a list of strings", args)
        return ServersFileEntry(
            name,
            command=command,
            args=tuple(self._one(f"args[{place}]", text) for place, text in enumerate(cast("list[Any]", args or []))),
            env=self.texts("env"),
            cwd=self._text("cwd"),
            url=url,
            headers=self.texts("headers"),
            kind=_KINDS.get(key),
            hidden=frozenset(self._hidden),
        )

    def _text(self, key: str) -> str | None:
        value = self._entry.get(key)
        return None if value is None else self._one(key, value)

    def texts(self, key: str) -> dict[str, str]:
        value = self._entry.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._wrong(key, "an object of strings", value)
        return {name: self._one(f"{key}.{name}", text) for name, text in cast("dict[str, Any]", value).items()}

    def _one(self, key: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self._wrong(key, "a string", value)
        return _PLACEHOLDER.sub(self._filled, value)

    def _wrong(self, key: str, wanted: str, value: Any) -> BadTarget:
        return BadTarget(f"{self._where}: {key} must be {wanted}, not {type_of(value)}.")

    def _filled(self, found: re.Match[str]) -> str:
        if (variable := _VARIABLE.fullmatch(found[1])) is None:
            cure = "Use ${NAME}, and set that variable."
            why = "which only the application that it was written for can fill in"
            raise BadTarget(f"{self._where} has {found[0]}, {why}. {cure}")
        name, default = variable["name"], variable["default"]
        value = self._environ.get(name) or (self._environ.get(name) if default is None else default)
        if value is None:
            text = f"{self._where} needs the variable {name}, which is not set. Set it, or replace {found[0]}."
            raise BadTarget(text)
        if looks_secret(name):
            self._hidden.add(value)
        return value
