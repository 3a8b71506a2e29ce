"""`Catalog`: a file of servers, read anew for each question and before each change.

Two programs can use it at once. What is not understood in it is kept, and told in `problems`.

The servers of a catalog for other programs, as `mcpServers` JSON.

An export is made to be passed on, so by default it holds no secret: each is replaced by a variable, `${NAME}`, which
Claude Code and Tidings fill in from the environment; `variables` says what each stands for. Claude Desktop does not
fill in variables: for it, and for a backup, export with `secrets=True`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from tidings._kit.suggest import closest
from tidings.client.masking import SHORTEST, shown_arguments, url_secrets
from tidings.errors import BadTarget
from tidings.inspector.catalog.entry import ServerEntry, header_is_secret, variable_is_secret, variable_name
from tidings.inspector.catalog.file import CatalogError, change, read


@dataclass(frozen=True)
class Export:
    """A document to write as JSON, and what has to be set for it to work."""

    document: dict[str, Any]
    variables: dict[str, str] = field(default_factory=dict[str, str])
    """Each variable that stands for a secret, and which that is: "the header Authorization of notes"."""


def exported(entries: Iterable[ServerEntry], *, secrets: bool = False) -> Export:
    """The servers as other programs read them."""
    export = Export({"mcpServers": {}})
    held: dict[str, str] = {}
    for entry in entries:
        raw = entry.raw() if secrets else _Replacer(entry, export.variables, held).raw()
        export.document["mcpServers"][entry.name] = raw
    return export


class _Replacer:
    """Replaces the secrets of one entry."""

    def __init__(self, entry: ServerEntry, variables: dict[str, str], held: dict[str, str]) -> None:
        self._entry = entry
        self._held = held
        self._variables = variables

    def raw(self) -> dict[str, Any]:
        entry, raw = self._entry, self._entry.raw()
        env = {
            name: self._named(variable_name(name), f"the variable {name}", value)
            if variable_is_secret(name, value)
            else value
            for name, value in entry.env.items()
        }
        headers = {
            name: self._header(name, value) if header_is_secret(name, value) else value
            for name, value in entry.headers.items()
        }
        found = shown_arguments(entry.args)[1]
        args = [self._without(text, found, "an argument") for text in entry.args]
        replaced: dict[str, Any] = {"env": env, "headers": headers, "args": args}
        if entry.url is not None:
            replaced["url"] = self._without(entry.url, url_secrets(entry.url), "a part of the URL")
        # What is not known may be a secret; another program's own settings are of no use to a third.
        kept = ("type", "transport", "disabled", "tidings", "command", "args", "url", "env", "headers", "cwd")
        return {key: replaced.get(key, value) for key, value in raw.items() if key in kept}

    def _header(self, name: str, value: str) -> str:
        scheme, space, _ = value.partition(" ")
        variable = self._named(variable_name(self._entry.name, name), f"the header {name}", value)
        return f"{scheme} {variable}" if space and scheme.lower() in ("bearer", "basic", "token") else variable

    def _without(self, text: str, secrets: set[str], what: str) -> str:
        # The longest first: one may be a part of another.
        for secret in sorted((each for each in secrets if each), key=len, reverse=True):
            if (secret in text and len(secret) >= SHORTEST) or secret == text:
                text = text.replace(secret, self._named(variable_name(self._entry.name, "SECRET"), what, secret))
        return text

    def _named(self, name: str, what: str, secret: str) -> str:
        """The placeholder for a secret. A name that stands for another already gets a number."""
        free, number = name, 1
        while self._held.setdefault(free, secret) != secret:
            number += 1
            free = f"{name}_{number}"
        self._variables.setdefault(free, f"{what} of {self._entry.name}")
        return f"${{{free}}}"


_NUMBERED: Final = re.compile(r"(?P<base>.+?) \((?P<number>\d+)\)")


@dataclass(frozen=True)
class Listing:
    """What is in a catalog."""

    entries: tuple[ServerEntry, ...] = ()
    problems: tuple[str, ...] = ()
    """What is wrong with entries that are not listed."""


@dataclass(frozen=True)
class ImportedServers:
    """What came of an import."""

    added: tuple[ServerEntry, ...] = ()
    known: tuple[str, ...] = ()
    """Those that were there already."""
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """What others are called here, because their name was taken."""


class Catalog:
    """A file of servers. Every method may raise `CatalogError`: the file cannot be read, or not be written."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only

    def listing(self) -> Listing:
        """The servers in their order, and what is wrong with the others."""
        entries: list[ServerEntry] = []
        problems: list[str] = []
        for name, raw in _servers(self.path, read(self.path).document).items():
            try:
                entries.append(ServerEntry.from_raw(name, raw, source=str(self.path), read_only=self.read_only))
            except BadTarget as error:
                problems.append(error.message)
        return Listing(tuple(entries), tuple(problems))

    def entries(self) -> tuple[ServerEntry, ...]:
        """The servers, in their order."""
        return self.listing().entries

    def names(self) -> list[str]:
        """The names of the servers, in their order."""
        return [entry.name for entry in self.entries()]

    def get(self, name: str) -> ServerEntry:
        """The server of this name."""
        for entry in self.entries():
            if entry.name == name:
                return entry
        raise CatalogError(self._missing(name, self.names()))

    def add(self, entry: ServerEntry, *, rename: bool = False) -> ServerEntry:
        """Add a server at the end. With `rename` it is called `name (2)` where its name is taken."""
        checked = self._checked(entry)

        def edit(servers: dict[str, Any]) -> str:
            if checked.name in servers and not rename:
                free = free_name(checked.name, servers)
                raise CatalogError(f"There is a server called {checked.name!r} already. Call it {free!r}, perhaps.")
            name = free_name(checked.name, servers)
            servers[name] = checked.raw()
            return name

        return replace(checked, name=self._change(edit))

    def edit(self, before: ServerEntry, after: ServerEntry) -> ServerEntry:
        """Put `after` in the place of `before`, which must not have been changed by anybody else meanwhile."""
        checked = self._checked(after)

        def edit(servers: dict[str, Any]) -> None:
            if before.name not in servers:
                raise CatalogError(self._missing(before.name, servers))
            if ServerEntry.from_raw(before.name, servers[before.name], source=str(self.path)) != before:
                raise CatalogError(f"{before.name!r} was changed by another program meanwhile. Look at it again.")
            if checked.name != before.name and checked.name in servers:
                raise CatalogError(f"There is a server called {checked.name!r} already. Choose another name.")
            renamed = [
                (checked.name, checked.raw()) if name == before.name else (name, raw) for name, raw in servers.items()
            ]
            servers.clear()
            servers.update(renamed)

        self._change(edit)
        return checked

    def clone(self, name: str) -> ServerEntry:
        """Add the same server once more, right after it, as `name copy`."""

        def edit(servers: dict[str, Any]) -> str:
            if name not in servers:
                raise CatalogError(self._missing(name, servers))
            copy = free_name(f"{name} copy", servers)
            pairs: list[tuple[str, Any]] = []
            for each, raw in servers.items():
                pairs += [(each, raw), (copy, raw)] if each == name else [(each, raw)]
            servers.clear()
            servers.update(pairs)
            return copy

        return self.get(self._change(edit))

    def remove(self, name: str) -> None:
        """Forget a server."""

        def edit(servers: dict[str, Any]) -> None:
            if name not in servers:
                raise CatalogError(self._missing(name, servers))
            del servers[name]

        self._change(edit)

    def reorder(self, names: Sequence[str]) -> None:
        """Put the servers in this order; those that are not named stay behind them, as they were."""

        def edit(servers: dict[str, Any]) -> None:
            for name in names:
                if name not in servers:
                    raise CatalogError(self._missing(name, servers))
            ordered = {name: servers[name] for name in (*dict.fromkeys(names), *servers)}
            servers.clear()
            servers.update(ordered)

        self._change(edit)

    def import_entries(self, entries: Iterable[ServerEntry]) -> ImportedServers:
        """Add servers that were found elsewhere, each once; one whose name is taken becomes `name (2)`."""
        given = [self._checked(entry) for entry in entries]

        def edit(servers: dict[str, Any]) -> ImportedServers:
            added: list[ServerEntry] = []
            known: list[str] = []
            renamed: dict[str, str] = {}
            for entry in given:
                if (same := _same(entry, servers)) is not None:
                    known.append(same)
                    continue
                name = free_name(entry.name, servers)
                if name != entry.name:
                    renamed[entry.name] = name
                servers[name] = entry.raw()
                added.append(replace(entry, name=name))
            return ImportedServers(tuple(added), tuple(known), renamed)

        return self._change(edit) if given else ImportedServers()

    def export(self, names: Sequence[str] | None = None, *, secrets: bool = False) -> Export:
        """The servers for other programs; see `catalog_export`."""
        entries = self.entries() if names is None else [self.get(name) for name in names]
        return exported(entries, secrets=secrets)

    def _checked(self, entry: ServerEntry) -> ServerEntry:
        try:
            return ServerEntry.from_raw(entry.name, entry.raw(), source=str(self.path))
        except BadTarget as error:
            raise CatalogError(error.message) from None

    def _missing(self, name: str, names: Iterable[str]) -> str:
        close = closest(name, names)
        return f"{self.path} has no server called {name!r}." + (f" Did you mean {close[0]!r}?" if close else "")

    def _change(self, edit: Any) -> Any:
        if self.read_only:
            raise CatalogError(f"{self.path} is open for reading only: it belongs to another program.")

        def edit_document(document: dict[str, Any]) -> Any:
            servers = _servers(self.path, document)
            if not servers and "servers" not in document:
                servers = document.setdefault("mcpServers", servers)
            return edit(servers)

        return change(self.path, edit_document)


def free_name(name: str, taken: Iterable[str]) -> str:
    """`name`, or the first of `name (2)`, `name (3)` … that nobody has."""
    names = set(taken)
    if name not in names:
        return name
    numbered = _NUMBERED.fullmatch(name)
    base, number = (numbered["base"], int(numbered["number"])) if numbered else (name, 1)
    while (free := f"{base} ({number + 1})") in names:
        number += 1
    return free


def _servers(path: Path, document: dict[str, Any]) -> dict[str, Any]:
    for section in ("mcpServers", "servers"):
        if section in document:
            servers = document[section]
            if not isinstance(servers, dict):
                raise CatalogError(f"{section} in {path} must be an object of servers by name.")
            return cast("dict[str, Any]", servers)
    return {}


def _same(entry: ServerEntry, servers: Mapping[str, Any]) -> str | None:
    """Under which name the same server is there already: its own, or that with a number."""
    for name, raw in servers.items():
        numbered = _NUMBERED.fullmatch(name)
        if name == entry.name or (numbered and numbered["base"] == entry.name):
            try:
                there = ServerEntry.from_raw(name, raw)
            except BadTarget:
                continue
            if _essence(there) == _essence(entry):
                return name
    return None


def _essence(entry: ServerEntry) -> tuple[Any, ...]:
    return (entry.command, entry.args, entry.url, dict(entry.env), entry.cwd, dict(entry.headers))
