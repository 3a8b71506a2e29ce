"""What a user types to mean a server: a name in the catalog, a server of a file, a URL, or a command."""

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Final

from tidings._kit.suggest import closest
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
    """The server that is meant. Words in a list are a command.

    Raises:
        BadTarget: None was understood; the message names the nearest in the catalog, and what is understood.
    """
    if not isinstance(text, str):
        return _command(list(text))
    text = text.strip()
    if not text:
        raise BadTarget(f"The target is empty. Give {FORMS}.")
    names: list[str] = []
    trouble = ""
    try:
        entries = catalog.entries() if catalog else ()
    except CatalogError as error:
        entries, trouble = (), f" The catalog is of no help: {error}"
    for entry in entries:
        if entry.name == text:
            return entry
        names.append(entry.name)
    alike = [entry for entry in entries if entry.name.casefold() == text.casefold()]
    if len(alike) == 1:
        return alike[0]
    return _address(text) or _from_words(text, names, trouble)


def _address(text: str) -> ServerEntry | None:
    if scheme := _SCHEME.match(text):
        if scheme[1].lower() not in ("http", "https"):
            raise BadTarget(f"{shown_url(text)} begins with {scheme[0]}, which MCP does not use. Give {FORMS}.")
        return ServerEntry(_host(text), url=text, literal=True)
    found = _JSON_FILE.fullmatch(text)
    if found and (Path(found["file"]).is_file() or " " not in text):
        return _in_file(Path(found["file"]).expanduser(), found["name"])
    if _HOST_AND_PORT.fullmatch(text):
        raise BadTarget(f"{text!r} looks like a URL without its beginning. Did you mean http://{text}?")
    return None


def _in_file(path: Path, name: str | None) -> ServerEntry:
    try:
        if not os.path.lexists(path):
            raise BadTarget(f"There is no file {path.absolute()}. Check the path.")
        listing = Catalog(path, read_only=True).listing()
    except CatalogError as error:
        raise BadTarget(str(error)) from None
    names = [entry.name for entry in listing.entries]
    listed = f"It has: {', '.join(names)}." if names else "It has none."
    if name:
        for entry in listing.entries:
            if entry.name == name:
                return entry
        if wrong := next((words for words in listing.problems if repr(name) in words), None):
            raise BadTarget(wrong)
        close = closest(name, names)
        meant = f" Did you mean {close[0]}?" if close else ""
        raise BadTarget(f"{path} has no server called {name!r}.{meant} {listed}")
    if len(names) == 1:
        return listing.entries[0]
    if not names:
        raise BadTarget(f"{path} has no server in it. {' '.join(listing.problems)}".strip())
    raise BadTarget(f"{path} has {len(names)} servers. Say which one is meant, as in {path}#{names[0]}. {listed}")


def _from_words(text: str, names: list[str], trouble: str) -> ServerEntry:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadTarget(f"The command cannot be split into words: {error}.") from None
    if not words or not words[0]:
        raise BadTarget(f"The command is empty. Give {FORMS}.")
    if shutil.which(words[0]) or Path(words[0]).expanduser().is_file():
        return _command(words)
    close = closest(text, names, most=3, cutoff=0.5)
    meant = f" Did you mean {' or '.join(close)}?" if close else ""
    listed = f" In your catalog: {', '.join(names[:20])}." if names and not close else ""
    raise BadTarget(f"{text!r} is no server and no program that is known here.{meant}{listed}{trouble} Give {FORMS}.")


def _command(words: list[str]) -> ServerEntry:
    if not words or not words[0].strip():
        raise BadTarget(f"The command is empty. Give {FORMS}.")
    return ServerEntry(_program(words), command=words[0], args=tuple(words[1:]), literal=True)


def _host(url: str) -> str:
    """A name for a server at a URL: its host, with the port where that tells it from others."""
    return re.split(r"[/?#]", shown_url(url).partition("://")[2], maxsplit=1)[0] or "server"


def _program(words: list[str]) -> str:
    """A name for a command: what is run, rather than what runs it."""
    for word in words:
        stem = PurePath(word.replace("\\", "/")).name
        base = stem.rpartition(".")[0] if stem.endswith((".py", ".js", ".ts", ".mjs", ".exe", ".sh")) else stem
        if base and not word.startswith("-") and not re.fullmatch(r"\d[\d.]*", base):
            if base.lower().rstrip("0123456789.") in _RUNNERS or base.lower() in _RUNNERS:
                continue
            return base
    return PurePath(words[0]).name or words[0]
