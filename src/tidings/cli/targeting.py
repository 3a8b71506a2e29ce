"""What a TARGET on the command line stands for: a URL, a command, a server of a JSON file, or one of the catalog.

Without the SDK: a one-shot command must not wait for it to learn what was meant.
"""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tidings.client.masking import shown_url
from tidings.client.servers_file import Entry, read_entry
from tidings.errors import BadTarget

TOKEN_VARIABLE: Final = "TIDINGS_BEARER_TOKEN"  # noqa: S105 - the name of a variable
"""Not TIDINGS_TOKEN, which is what a server of ours asks of its clients: it must not reach other people's servers."""

FORMS: Final = (
    "a URL (https://host/mcp), a command in quotes ('python server.py') or after --, a server of a JSON file "
    "(mcp.json#name), or a name in your catalog"
)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_JSON_FILE: Final = re.compile(r"(?P<file>.+?\.json)(?:#(?P<name>.*))?", re.IGNORECASE | re.DOTALL)
_HOST_AND_PORT: Final = re.compile(r"(?:[\w.-]+|\[[\da-fA-F:]+\]):\d{1,5}(?:/\S*)?")


@dataclass(frozen=True)
class Chosen:
    """The server that was meant, with all that the user gave for it. Its catalog entry may set an era and a timeout."""

    entry: Entry
    era: str | None = None
    timeout: float | None = None

    @property
    def is_command(self) -> bool:
        """Whether the server is a program to start."""
        return self.entry.command is not None


@dataclass(frozen=True)
class Extras:
    """What was given besides the target."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    token: str | None = None
    token_is_explicit: bool = False
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None


def choose(target: str | Sequence[str], extras: Extras) -> Chosen:
    """The server that `target` stands for: a text, or the words of a command.

    Raises:
        BadTarget: It was not understood, or an option does not fit it.
    """
    chosen = Chosen(_command(list(target))) if not isinstance(target, str) else _from_text(target.strip())
    return replace(chosen, entry=_with(chosen.entry, extras))


def _from_text(text: str) -> Chosen:
    if not text:
        raise BadTarget(f"The target is empty. Give {FORMS}.")
    if scheme := _SCHEME.match(text):
        if scheme[1].lower() not in ("http", "https"):
            raise BadTarget(f"{shown_url(text)} begins with {scheme[0]}, which MCP does not use. Give {FORMS}.")
        return Chosen(Entry("", url=text))
    found = _JSON_FILE.fullmatch(text)
    if found and (Path(found["file"]).is_file() or len(_split(text)) == 1):
        return Chosen(read_entry(Path(found["file"]), found["name"], os.environ))
    if _HOST_AND_PORT.fullmatch(text):
        raise BadTarget(f"{text!r} looks like a URL without its beginning. Did you mean http://{text}?")
    return _from_catalog(text) or Chosen(_command(_split(text)))


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BadTarget(f"The command cannot be split into words: {error}. Give it after --, unquoted.") from None


def _command(words: list[str]) -> Entry:
    if not words or not words[0].strip():
        raise BadTarget(f"The command is empty. Give {FORMS}.")
    return Entry("", command=words[0], args=tuple(words[1:]))


def _from_catalog(_text: str) -> Chosen | None:
    """The server of this name in the user's catalog, if there is one."""
    return None


def catalog_names() -> list[str]:
    """The names of the servers in the user's catalog."""
    return []


def _with(entry: Entry, extras: Extras) -> Entry:
    if entry.command is not None:
        for option, given in (("--header", extras.headers), ("--token", extras.token_is_explicit)):
            if given:
                raise BadTarget(f"{option} is for a server at a URL; this one is a command. Give it a variable: --env.")
        return replace(entry, env={**entry.env, **extras.env}, cwd=extras.cwd or entry.cwd)
    for option, given in (("--env", extras.env), ("--cwd", extras.cwd)):
        if given:
            raise BadTarget(f"{option} is for a command; this server is at a URL. Leave it out.")
    own = {name.lower() for name in extras.headers}
    headers = {name: value for name, value in entry.headers.items() if name.lower() not in own} | dict(extras.headers)
    if extras.token and (extras.token_is_explicit or not any(name.lower() == "authorization" for name in headers)):
        headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
        headers["Authorization"] = f"Bearer {extras.token.removeprefix('Bearer ')}"
    return replace(entry, headers=headers)
