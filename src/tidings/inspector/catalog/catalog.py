"""`Catalog`: a file of servers, read again for each question and before each change.

Several programs can use it at once. Entries that are not understood are kept. `resolve` finds the server that a user's
words mean: a name in the catalog, a server of a file, a URL, or a command. `find_clients` finds the servers that other
programs on this machine know:

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
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple, TypeVar

from tidings._kit import python_file
from tidings._kit.bounded_json import as_dict, as_dict_or_none
from tidings._kit.files import settings_folder
from tidings._kit.suggest import did_you_mean
from tidings._kit.text import listed
from tidings.client.masking import shown_url
from tidings.errors import BadTarget
from tidings.inspector.catalog.entry import (
    CatalogError,
    ServerEntry,
    change,
    map_texts,
    read,
    section_of,
    variable_name,
)

T = TypeVar("T")
_NUMBERED: Final = re.compile(r"(?P<base>.+?) \((?P<number>\d+)\)")


def exported(entries: Iterable[ServerEntry]) -> dict[str, Any]:
    """Returns the servers as other programs read them, with `***` for each secret."""
    return {"mcpServers": {entry.name: entry.shown() for entry in entries}}


class ImportedServers(NamedTuple):
    """The outcome of an import."""

    added: list[ServerEntry]
    known: list[str]  # The names of those that were there already.


class Catalog:
    """A file of servers. Every method may raise `CatalogError`: the file cannot be read or written."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only

    def listing(self) -> tuple[list[ServerEntry], list[str]]:
        """Returns the servers in their order, and the reasons why others are not listed."""
        return ServerEntry.read_all(section_of(self.path, read(self.path)[0]), str(self.path))

    def entries(self) -> list[ServerEntry]:
        return self.listing()[0]

    def add(self, entry: ServerEntry, *, rename: bool = False, after: str | None = None) -> ServerEntry:
        """Adds a server at the end, or after another. With `rename`, it becomes `name (2)` if its name is taken."""
        checked = self._checked(entry)

        def edit(servers: dict[str, Any]) -> str:
            if checked.name in servers and not rename:
                taken = f"There is already a server called {checked.name!r}."
                raise CatalogError(f"{taken} Use another name, such as {free_name(checked.name, servers)!r}.")
            name = free_name(checked.name, servers)
            if after in servers:
                self._replace(servers, after, {after: servers[after], name: checked.raw()})
            else:
                servers[name] = checked.raw()
            return name

        return replace(checked, name=self._change(edit))

    def edit(self, before: ServerEntry, after: ServerEntry) -> ServerEntry:
        """Replaces `before` by `after`, unless another program has changed it meanwhile."""
        checked = self._checked(after)

        def edit(servers: dict[str, Any]) -> None:
            self._check_known(before.name, servers)
            if ServerEntry.from_raw(before.name, servers[before.name], source=str(self.path)) != before:
                raise CatalogError(f"Another program has changed {before.name!r} meanwhile. Look at it again.")
            if checked.name != before.name and checked.name in servers:
                raise CatalogError(f"There is already a server called {checked.name!r}. Choose another name.")
            self._replace(servers, before.name, {checked.name: checked.raw()})

        self._change(edit)
        return checked

    def remove(self, name: str) -> None:
        def edit(servers: dict[str, Any]) -> None:
            self._check_known(name, servers)
            del servers[name]

        self._change(edit)

    def import_entries(self, entries: Iterable[ServerEntry]) -> ImportedServers:
        """Adds servers that were found elsewhere, each once. One whose name is taken becomes `name (2)`."""
        given = [self._checked(entry) for entry in entries]

        def edit(servers: dict[str, Any]) -> ImportedServers:
            imported = ImportedServers([], [])
            for entry in given:
                if (same := _same(entry, servers)) is not None:
                    imported.known.append(same)
                    continue
                imported.added.append(replace(entry, name=free_name(entry.name, servers)))
                servers[imported.added[-1].name] = entry.raw()
            return imported

        return self._change(edit) if given else ImportedServers([], [])

    def _checked(self, entry: ServerEntry) -> ServerEntry:
        try:
            return ServerEntry.from_raw(entry.name, entry.raw(), source=str(self.path))
        except BadTarget as error:
            raise CatalogError(error.message) from None

    def _check_known(self, name: str, servers: Mapping[str, Any]) -> None:
        if name not in servers:
            raise CatalogError(f"{self.path} has no server called {name!r}.{did_you_mean(name, servers)}")

    @staticmethod
    def _replace(servers: dict[str, Any], name: str, by: dict[str, Any]) -> None:
        """Replaces a server by others at its place."""
        pairs = [pair for each, raw in servers.items() for pair in (by if each == name else {each: raw}).items()]
        servers.clear()
        servers.update(pairs)

    def _change(self, edit: Callable[[dict[str, Any]], T]) -> T:
        if self.read_only:
            raise CatalogError(f"{self.path} is read-only here, because it belongs to another program.")

        def edit_document(document: dict[str, Any]) -> T:
            servers = section_of(self.path, document)
            if not servers and "servers" not in document:
                servers = document.setdefault("mcpServers", servers)
            return edit(servers)

        return change(self.path, edit_document)


def free_name(name: str, taken: Iterable[str]) -> str:
    """Returns `name`, or the first of `name (2)`, `name (3)` … that is not taken."""
    names = set(taken)
    if name not in names:
        return name
    numbered = _NUMBERED.fullmatch(name)
    base, number = (numbered["base"], int(numbered["number"])) if numbered else (name, 1)
    while (free := f"{base} ({number + 1})") in names:
        number += 1
    return free


def _same(entry: ServerEntry, servers: Mapping[str, Any]) -> str | None:
    """Returns the name under which the same server exists already: its own, or with a number."""
    identity = attrgetter("command", "args", "url", "env", "cwd", "headers")
    for there in ServerEntry.read_all(servers, "")[0]:
        numbered = _NUMBERED.fullmatch(there.name)
        is_called_so = there.name == entry.name or (numbered and numbered["base"] == entry.name)
        if is_called_so and identity(there) == identity(entry):
            return there.name
    return None


FORMS: Final = (
    "a name in your catalog, a URL (https://host/mcp), a Python file (server.py, or server.py:mcp for an object), a "
    "command ('npx -y some-server') or a server of a JSON file (mcp.json#name)"
)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_JSON_FILE: Final = re.compile(r"(?P<file>.+?\.jsonc?)(?:#(?P<name>.*))?", re.IGNORECASE | re.DOTALL)
_HOST_AND_PORT: Final = re.compile(r"(?:[\w.-]+|\[[\da-fA-F:]+\]):\d{1,5}(?:/\S*)?")
_PYTHON_FILE: Final = re.compile(r"(?P<file>.+\.py)(?::(?P<name>[A-Za-z_]\w*))?", re.DOTALL)
_RUNNERS: Final = frozenset(
    {"python", "node", "npx", "uv", "uvx", "pipx", "run", "bun", "bunx", "deno", "docker", "podman", "tidings"}
)
_WITH_VALUE: Final = frozenset({"-m", "--from", "--with", "--python", "-p", "--package", "--directory", "--project"})
"""Options of runners that take the next word."""


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
    alike = [entry for entry in entries if entry.name.casefold() == text.casefold()]
    same = [entry for entry in alike if entry.name == text] or alike
    if len(same) == 1:
        return same[0]
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
    if len(by_name) == 1 and not name:
        name = entries[0].name
    if name:
        if name in by_name:
            return by_name[name]
        wrong = next((words for words in problems if repr(name) in words), "")
        missing = f"{path} has no server called {name!r}.{did_you_mean(name, by_name, show=str)} {servers}"
        raise BadTarget(wrong or missing)
    if not by_name:
        raise BadTarget(f"{path} has no server in it. {' '.join(problems)}".strip())
    example = f"{path}#{entries[0].name}"
    raise BadTarget(f"{path} has {len(by_name)} servers. Name one of them, for example {example}. {servers}")


def _from_words(text: str, names: list[str], trouble: str) -> ServerEntry:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadTarget(f"The command cannot be split into words: {error}.") from None
    is_program = words and (shutil.which(words[0]) or Path(words[0]).expanduser().is_file())
    if not words or not words[0] or is_program or _PYTHON_FILE.fullmatch(words[0]):
        return _command(words)
    hint = did_you_mean(text, names, most=3, cutoff=0.5, show=str)
    if names and not hint:
        hint = f" In your catalog: {', '.join(names[:20])}."
    raise BadTarget(f"{text!r} is not a known server or program.{hint}{trouble} Give {FORMS}.")


def _command(words: list[str]) -> ServerEntry:
    if not words or not words[0].strip():
        raise BadTarget(f"The command is empty. Give {FORMS}.")
    if (found := _PYTHON_FILE.fullmatch(words[0])) and not shutil.which(words[0]):
        path = Path(found["file"]).expanduser().absolute()
        if not path.is_file():
            raise BadTarget(f"There is no file {path}. Check the path.")
        args = (python_file.__file__, str(path), found["name"] or "", *words[1:])
        # The Python of the active environment, or of one beside the file; otherwise this one.
        environments = [Path(os.environ["VIRTUAL_ENV"])] if os.environ.get("VIRTUAL_ENV") else []
        environments += [folder / ".venv" for folder in path.parents]
        programs = (each / ("Scripts/python.exe" if os.name == "nt" else "bin/python") for each in environments)
        python = next((str(each) for each in programs if each.exists()), sys.executable)
        return ServerEntry(path.stem, command=python, args=args, literal=True)
    # The name is that of the program that is run, not of the one that runs it.
    bases = ((_base(word), word) for word in words if not is_runner(word) and not word.startswith("-"))
    names = (base for base, _ in bases if base and not re.fullmatch(r"\d[\d.]*", base))
    name = next(names, PurePath(words[0]).name or words[0])
    return ServerEntry(name, command=words[0], args=tuple(words[1:]), literal=True)


def _base(word: str) -> str:
    stem = PurePath(word.replace("\\", "/")).name
    return stem.rpartition(".")[0] if stem.endswith((".py", ".js", ".ts", ".mjs", ".exe", ".sh")) else stem


def is_runner(word: str) -> bool:
    """Returns whether a word names a program that runs another one, such as `python` or `npx`."""
    base = _base(word).lower()
    return base in _RUNNERS or base.rstrip("0123456789.") in _RUNNERS


def command_length(words: Sequence[str]) -> int:
    """Returns how many words belong to a command that begins with a runner, up to what it runs."""
    place = 1
    while place < len(words) and (is_runner(words[place]) or words[place].startswith("-")):
        place += 2 if words[place] in _WITH_VALUE else 1
    if _base(words[place - 1]) == "tidings" and words[place : place + 1] in (["vault"], ["bridge"]):
        place += 1  # These need another word.
    is_module = "-m" in words[:place] and any(_base(word).startswith("python") for word in words[:place])
    return min(place if is_module else place + 1, len(words))


_INPUT: Final = re.compile(r"\$\{(?P<kind>input|workspaceFolder|userHome|pathSeparator|/)(?::(?P<name>[^}]*))?\}")
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
            document, *_ = read(place.path)
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
    except OSError as error:  # What cannot be looked at exists, and is worth reporting.
        return not isinstance(error, FileNotFoundError | NotADirectoryError)
    return True


def _with_servers(place: FoundClient, document: dict[str, Any], home: Path) -> FoundClient:
    def fill(found: re.Match[str]) -> str:
        if found["kind"] == "input":
            return f"${{{variable_name(found['name'] or 'input')}}}"
        folder = found[0] if place.project is None else str(place.project)
        return {"userHome": str(home), "workspaceFolder": folder}.get(found["kind"], "/")

    try:
        section = map_texts(section_of(place.path, document), lambda text: _INPUT.sub(fill, text), 5)
    except CatalogError as error:
        return replace(place, problem=str(error))
    entries, problems = ServerEntry.read_all(section, str(place.path))
    if place.project is not None:
        cwd = str(place.project)
        entries = [replace(each, cwd=cwd) if each.is_command and each.cwd is None else each for each in entries]
    return replace(place, servers=tuple(entries), problem=" ".join(problems) or None)
