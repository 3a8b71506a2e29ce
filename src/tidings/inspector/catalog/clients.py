"""The servers that other programs on this machine know: their files found, and read as they mean them.

| program | files | section |
|---|---|---|
| Claude Desktop | `claude_desktop_config.json` in its folder | `mcpServers` |
| Claude Code | `~/.claude.json`, also for each project; `.mcp.json` in the project | `mcpServers` |
| VS Code | `mcp.json` of the user; `.vscode/mcp.json` in the project | `servers`, with `inputs` |
| Cursor | `~/.cursor/mcp.json`; `.cursor/mcp.json` in the project | `mcpServers` |

What only the program itself can fill in is made into what anybody can: `${workspaceFolder}` into the folder,
`${input:api-key}` into the variable `${API_KEY}`. A file that cannot be read is told, and hides no other.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from tidings.errors import BadTarget
from tidings.inspector.catalog.entry import ServerEntry, variable_name
from tidings.inspector.catalog.file import CatalogError, read, settings_folder

_PLACEHOLDER: Final = re.compile(r"\$\{(?P<kind>input|workspaceFolder|userHome|pathSeparator|/)(?::(?P<name>[^}]*))?\}")
_MOST_PARENTS: Final = 40


@dataclass(frozen=True)
class FoundClient:
    """One place where a program keeps servers."""

    client: str
    """The program, as people call it: `VS Code`."""
    path: Path
    servers: tuple[ServerEntry, ...] = ()
    problem: str | None = None
    """Why nothing, or not all, could be read."""
    project: Path | None = None
    """The folder that the servers are meant for; None: for all."""


@dataclass(frozen=True)
class _Place:
    client: str
    path: Path
    project: Path | None = None


def find_clients(home: Path, cwd: Path, platform: str, environ: Mapping[str, str]) -> list[FoundClient]:
    """All that is there: what has no server and no problem is left out.

    Args:
        home: The user's folder.
        cwd: A folder of the project; the project's files are looked for here and above.
        platform: The system, named as `sys.platform` does.
        environ: The environment variables that say where programs keep their files.
    """
    found: list[FoundClient] = []
    for place in _places(home, cwd, platform, environ):
        try:
            document = read(place.path).document
        except CatalogError as error:
            found.append(FoundClient(place.client, place.path, problem=str(error), project=place.project))
            continue
        found += _in_document(place, document, home)
    return [each for each in found if each.servers or each.problem]


def _places(home: Path, cwd: Path, platform: str, environ: Mapping[str, str]) -> Iterator[_Place]:
    settings = settings_folder(environ, platform, home)
    yield _Place("Claude Desktop", settings / "Claude" / "claude_desktop_config.json")
    yield _Place("Claude Code", Path(environ.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json")
    for program in ("Code", "Code - Insiders", "VSCodium"):
        name = {"Code": "VS Code", "Code - Insiders": "VS Code Insiders"}.get(program, program)
        yield _Place(name, settings / program / "User" / "mcp.json")
    yield _Place("Cursor", home / ".cursor" / "mcp.json")
    for client, names in (
        ("Claude Code", (".mcp.json",)),
        ("VS Code", (".vscode", "mcp.json")),
        ("Cursor", (".cursor", "mcp.json")),
    ):
        for folder in (cwd, *list(cwd.parents)[:_MOST_PARENTS]):
            path = folder.joinpath(*names)
            if folder != home and _is_there(path):
                yield _Place(client, path, folder)
                break


def _is_there(path: Path) -> bool:
    """Whether there is something, however broken."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _in_document(place: _Place, document: dict[str, Any], home: Path) -> Iterator[FoundClient]:
    yield _in_section(place, document, home)
    projects = document.get("projects") if place.client == "Claude Code" else None
    for folder, facts in cast("dict[str, Any]", projects).items() if isinstance(projects, dict) else ():
        if isinstance(facts, dict):
            yield _in_section(replace(place, project=Path(folder)), cast("dict[str, Any]", facts), home)


def _in_section(place: _Place, document: dict[str, Any], home: Path) -> FoundClient:
    section = next((name for name in ("mcpServers", "servers") if name in document), None)
    raw: Any = document[section] if section else {}
    if not isinstance(raw, dict):
        words = f"{section} in {place.path} must be an object of servers by name."
        return FoundClient(place.client, place.path, problem=words, project=place.project)
    servers: list[ServerEntry] = []
    problems: list[str] = []
    for name, each in cast("dict[str, Any]", raw).items():
        try:
            entry = ServerEntry.from_raw(name, _filled(each, place, home), source=str(place.path), read_only=True)
        except BadTarget as error:
            problems.append(error.message)
        else:
            in_project = entry.is_command and entry.cwd is None and place.project is not None
            servers.append(replace(entry, cwd=str(place.project)) if in_project else entry)
    return FoundClient(place.client, place.path, tuple(servers), " ".join(problems) or None, place.project)


def _filled(raw: Any, place: _Place, home: Path, depth: int = 0) -> Any:
    """The entry with what only its own program knows how to fill in filled in."""

    def fill(found: re.Match[str]) -> str:
        match found["kind"]:
            case "input":
                return f"${{{variable_name(found['name'] or 'input')}}}"
            case "userHome":
                return str(home)
            case "workspaceFolder":
                return found[0] if place.project is None else str(place.project)
            case _:
                return "/"

    match raw:
        case str():
            return _PLACEHOLDER.sub(fill, raw)
        case list() if depth < 4:
            return [_filled(each, place, home, depth + 1) for each in cast("list[Any]", raw)]
        case dict() if depth < 4:
            return {key: _filled(each, place, home, depth + 1) for key, each in cast("dict[str, Any]", raw).items()}
        case _:
            return raw
