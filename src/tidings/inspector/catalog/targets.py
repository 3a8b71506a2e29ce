"""A user's words for a server: a name in the catalog, a server of a file, a URL, or a command."""

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Final

from tidings._kit.suggest import did_you_mean
from tidings._kit.text import listed
from tidings.client.masking import shown_url
from tidings.errors import BadTarget
from tidings.inspector.catalog.catalog import Catalog
from tidings.inspector.catalog.entry import ServerEntry
from tidings.inspector.catalog.file import CatalogError

FORMS: Final = (
    "a name in your catalog, a URL (https://host/mcp), a command ('python server.py') or a server of a JSON file "
    "(mcp.json#name)"
)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_JSON_FILE: Final = re.compile(r"(?P<file>.+?\.jsonc?)(?:#(?P<name>.*))?", re.IGNORECASE | re.DOTALL)
_HOST_AND_PORT: Final = re.compile(r"(?:[\w.-]+|\[[\da-fA-F:]+\]):\d{1,5}(?:/\S*)?")
_RUNNERS: Final = frozenset(
    {"python", "python3", "node", "npx", "uv", "uvx", "pipx", "run", "bun", "bunx", "deno", "docker", "tidings"}
)


def resolve(text: str | Sequence[str], catalog: Catalog | None = None) -> ServerEntry:
    """Returns the server that is meant; a list of words is a command. Raises `BadTarget` with suggestions."""
    if not isinstance(text, str):
        return _command(list(text))
    text = text.strip()
    if not text:
        raise BadTarget(f"The target is empty. Give {FORMS}.")
    trouble = ""
    try:
        entries = catalog.entries() if catalog else []
    except CatalogError as error:
        entries, trouble = [], f" The catalog cannot be used: {error}"
    for entry in entries:
        if entry.name == text:
            return entry
    alike = [entry for entry in entries if entry.name.casefold() == text.casefold()]
    if len(alike) == 1:
        return alike[0]
    return _address(text) or _from_words(text, [entry.name for entry in entries], trouble)


def _address(text: str) -> ServerEntry | None:
    if scheme := _SCHEME.match(text):
        if scheme[1].lower() not in ("http", "https"):
            raise BadTarget(f"{shown_url(text)} begins with {scheme[0]}, which MCP does not use. Give {FORMS}.")
        host = re.split(r"[/?#]", shown_url(text).partition("://")[2], maxsplit=1)[0]
        return ServerEntry(host or "server", url=text, literal=True)
    found = _JSON_FILE.fullmatch(text)
    if found and (Path(found["file"]).is_file() or " " not in text):
        return _in_file(Path(found["file"]).expanduser(), found["name"])
    if _HOST_AND_PORT.fullmatch(text):
        raise BadTarget(f"{text!r} looks like a URL without a scheme. Did you mean http://{text}?")
    return None


def _in_file(path: Path, name: str | None) -> ServerEntry:
    if not os.path.lexists(path):
        raise BadTarget(f"There is no file {path.absolute()}. Check the path.")
    try:
        entries, problems = Catalog(path, read_only=True).listing()
    except CatalogError as error:
        raise BadTarget(str(error)) from None
    by_name = {entry.name: entry for entry in entries}
    servers = f"Its servers: {listed(by_name, None, none='none')}."
    if name:
        if name in by_name:
            return by_name[name]
        if wrong := next((words for words in problems if repr(name) in words), None):
            raise BadTarget(wrong)
        raise BadTarget(f"{path} has no server called {name!r}.{did_you_mean(name, by_name, show=str)} {servers}")
    if len(by_name) == 1:
        return entries[0]
    if not by_name:
        raise BadTarget(f"{path} has no server in it. {' '.join(problems)}".strip())
    example = f"{path}#{entries[0].name}"
    raise BadTarget(f"{path} has {len(by_name)} servers. Name one of them, for example {example}. {servers}")


def _from_words(text: str, names: list[str], trouble: str) -> ServerEntry:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadTarget(f"The command cannot be split into words: {error}.") from None
    if not words or not words[0] or shutil.which(words[0]) or Path(words[0]).expanduser().is_file():
        return _command(words)
    hint = did_you_mean(text, names, most=3, cutoff=0.5, show=str)
    if names and not hint:
        hint = f" In your catalog: {', '.join(names[:20])}."
    raise BadTarget(f"{text!r} is not a known server or program.{hint}{trouble} Give {FORMS}.")


def _command(words: list[str]) -> ServerEntry:
    if not words or not words[0].strip():
        raise BadTarget(f"The command is empty. Give {FORMS}.")
    return ServerEntry(_program(words), command=words[0], args=tuple(words[1:]), literal=True)


def _program(words: list[str]) -> str:
    """Returns a name for a command: the program that is run, not the one that runs it."""
    for word in words:
        stem = PurePath(word.replace("\\", "/")).name
        base = stem.rpartition(".")[0] if stem.endswith((".py", ".js", ".ts", ".mjs", ".exe", ".sh")) else stem
        is_runner = base.lower().rstrip("0123456789.") in _RUNNERS or base.lower() in _RUNNERS
        if base and not is_runner and not word.startswith("-") and not re.fullmatch(r"\d[\d.]*", base):
            return base
    return PurePath(words[0]).name or words[0]
