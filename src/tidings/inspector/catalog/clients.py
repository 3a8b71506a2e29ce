"""The servers that other programs on this machine know.

| program | files | section |
|---|---|---|
| Claude Desktop | `claude_desktop_config.json` in its folder | `mcpServers` |
| Claude Code | `~/.claude.json`, also for each project; `.mcp.json` in the project | `mcpServers` |
| VS Code | `mcp.json` of the user; `.vscode/mcp.json` in the project | `servers`, with `inputs` |
| Cursor | `~/.cursor/mcp.json`; `.cursor/mcp.json` in the project | `mcpServers` |

Placeholders that only the program itself understands are replaced: `${workspaceFolder}` by the folder,
`${input:api-key}` by the variable `${API_KEY}`. A file that cannot be read is reported and hides no other.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tidings._kit.bounded_json import as_dict, as_dict_or_none
from tidings._kit.files import settings_folder
from tidings.inspector.catalog.entry import (
    CatalogError,
    ServerEntry,
    map_texts,
    read,
    section_of,
    variable_name,
)

_PLACEHOLDER: Final = re.compile(r"\$\{(?P<kind>input|workspaceFolder|userHome|pathSeparator|/)(?::(?P<name>[^}]*))?\}")
_MOST_PARENTS: Final = 40
_VS_CODES: Final = {"Code": "VS Code", "Code - Insiders": "VS Code Insiders", "VSCodium": "VSCodium"}
_PROJECT_FILES: Final = (
    ("Claude Code", Path(".mcp.json")),
    ("VS Code", Path(".vscode", "mcp.json")),
    ("Cursor", Path(".cursor", "mcp.json")),
)


@dataclass(frozen=True)
class FoundClient:
    """A file of a program's servers; for Claude Code's own file, also one for each project in it."""

    client: str  # The name of the program, for example `VS Code`.
    path: Path
    servers: tuple[ServerEntry, ...] = ()
    problem: str | None = None  # The reason why nothing, or not everything, could be read.
    project: Path | None = None  # The folder that the servers are meant for; None: all.


def find_clients(home: Path, cwd: Path, platform: str, environ: Mapping[str, str]) -> list[FoundClient]:
    """Returns the files of AI clients, the project's in `cwd` and above, that have a server or a problem."""
    found: list[FoundClient] = []
    for place in _places(home, cwd, platform, environ):
        try:
            document = read(place.path).document
        except CatalogError as error:
            found.append(replace(place, problem=str(error)))
            continue
        found.append(_with_servers(place, document, home))
        projects = as_dict(document.get("projects")) if place.client == "Claude Code" else {}
        for folder, facts in projects.items():
            if (section := as_dict_or_none(facts)) is not None:
                found.append(_with_servers(replace(place, project=Path(folder)), section, home))
    return [each for each in found if each.servers or each.problem]


def _places(home: Path, cwd: Path, platform: str, environ: Mapping[str, str]) -> Iterator[FoundClient]:
    settings = settings_folder(environ, platform, home)
    yield FoundClient("Claude Desktop", settings / "Claude" / "claude_desktop_config.json")
    yield FoundClient("Claude Code", Path(environ.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json")
    for folder, name in _VS_CODES.items():
        yield FoundClient(name, settings / folder / "User" / "mcp.json")
    yield FoundClient("Cursor", home / ".cursor" / "mcp.json")
    for client, file in _PROJECT_FILES:
        for folder in (cwd, *list(cwd.parents)[:_MOST_PARENTS]):
            if folder != home and _exists(folder / file):
                yield FoundClient(client, folder / file, project=folder)
                break


def _exists(path: Path) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # It exists and cannot be looked at, which is worth reporting.
    return True


def _with_servers(place: FoundClient, document: dict[str, Any], home: Path) -> FoundClient:
    def fill(found: re.Match[str]) -> str:
        """Returns the value of a placeholder that only the program itself understands."""
        match found["kind"]:
            case "input":
                return f"${{{variable_name(found['name'] or 'input')}}}"
            case "userHome":
                return str(home)
            case "workspaceFolder":
                return found[0] if place.project is None else str(place.project)
            case _:
                return "/"

    try:
        section = map_texts(section_of(place.path, document), lambda text: _PLACEHOLDER.sub(fill, text), 5)
    except CatalogError as error:
        return replace(place, problem=str(error))
    entries, problems = ServerEntry.read_all(section, str(place.path))
    if place.project is not None:
        cwd = str(place.project)
        entries = [replace(each, cwd=cwd) if each.is_command and each.cwd is None else each for each in entries]
    return replace(place, servers=tuple(entries), problem=" ".join(problems) or None)
