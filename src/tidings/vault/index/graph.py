"""Targets of links: outgoing links, backlinks, broken links, orphans, the shortest path between two files.

Targets are resolved when needed, and not stored: any new or deleted file may change them. A link leads only to
files of its own vault. Questions about one note are cheap; `broken` and `orphans` walk over all links once.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tidings.vault.index.queries import Queries
from tidings.vault.index.read_file import name_key
from tidings.vault.notes import links
from tidings.vault.notes.model import key

_BEFORE, _AFTER = 300, 700  # Characters of a long line that are shown around a link.
_CANVAS: Final = 1_000_000  # Characters of a canvas that are searched for a link.
_LINK: Final = 'files.path, files.kind, title, target, subpath, shown, links.kind, embed, line, "start", "end"'
_SOME: Final = "(SELECT value FROM json_each(?))"
_NAMES_OF: Final = f"SELECT name FROM files WHERE path IN {_SOME}"  # noqa: S608 - our own text, as below
_TARGETS: Final = "SELECT path, target, links.kind FROM links JOIN files ON files.id = links.file WHERE target <> ''"
_LINKS_OF: Final = (
    "SELECT path, target, links.kind FROM files CROSS JOIN links ON links.file = files.id "  # noqa: S608
    f"WHERE target <> '' AND path IN {_SOME}"
)
_LINKS_TO: Final = f"{_TARGETS} AND links.name IN {_SOME}"


class LinkNames:
    """Resolves links in one vault. With `all_at_once`, all names are read in one query: faster for many links."""

    def __init__(self, queries: Queries, mount: str, *, all_at_once: bool = False) -> None:
        self._queries = queries
        self.mount = mount
        self._prefix = f"{mount}/" if mount else ""
        self._names: dict[str, links.SameName] = {}
        self._complete = all_at_once
        self._anywhere: dict[str, str | None] = {}
        if all_at_once:
            for name, path in queries.connection.execute("SELECT name, path FROM files ORDER BY path"):
                if path.startswith(self._prefix):
                    self._names.setdefault(name, links.SameName()).append(path[len(self._prefix) :])

    def candidates(self, name: str, /) -> links.SameName:
        """Returns the paths of the files with this name, within the vault."""
        if name not in self._names:
            paths = [] if self._complete else self._queries.candidates(name)
            own = (path[len(self._prefix) :] for path in paths if path.startswith(self._prefix))
            self._names[name] = links.SameName(own)
        return self._names[name]

    def resolve(self, target: str, source: str, kind: str = "wiki") -> str | None:
        """Returns the path of the file that a link leads to. Both paths include the vault's name."""
        # Files on a canvas are always named from the vault's root.
        target = f"/{target}" if kind == "canvas" else target
        if target in self._anywhere:
            return self._anywhere[target]
        found = links.resolve(target, source[len(self._prefix) :], self.candidates)
        path = found and self._prefix + found
        # If at most one file can be meant, the link leads to it from anywhere.
        name = key(target.rpartition("/")[2])
        names = {name, name.removesuffix(".md")}
        if target[:1] not in ("", ".") and sum(len(self.candidates(name)) for name in names) < 2:
            self._anywhere[target] = path
        return path


def mount_name(queries: Queries, path: str) -> str:
    """Returns the name of the vault of a path."""
    return "" if queries.mounts == ("",) else path.partition("/")[0]


def between(queries: Queries, start: str, end: str) -> list[str] | None:
    """Returns the shortest path over links from one file to another, both included, in either direction of links."""
    names = LinkNames(queries, mount_name(queries, start))
    if mount_name(queries, end) != names.mount:
        return None
    # From both ends, so that only files near one of them are looked at. Each file, and the one it was reached from.
    reached: list[dict[str, str | None]] = [{start: None}, {end: None}]
    edges = [{start}, {end}]  # The files of the last step.
    while not (met := reached[0].keys() & reached[1].keys()):
        if not all(edges):
            return None
        side = len(edges[0]) > len(edges[1])
        new: dict[str, str] = {}
        for path, neighbour, _ in _neighbours(queries, names, edges[side]):
            if neighbour not in reached[side]:
                new[neighbour] = min(path, new.get(neighbour, path))  # Of several shortest paths, always the same.
        reached[side] |= new
        edges[side] = set(new)
    way = [min(met)]
    while before := reached[0][way[0]]:
        way.insert(0, before)
    while after := reached[1][way[-1]]:
        way.append(after)
    return way


def _neighbours(queries: Queries, names: LinkNames, paths: set[str]) -> Iterator[tuple[str, str, str]]:
    """Yields each of some files with each that it links to ("out"), or that links to it ("back")."""
    ask = queries.connection.execute
    some = json.dumps([*paths])
    for path, target, kind in ask(_LINKS_OF, (some,)):
        if to := names.resolve(target, path, kind):
            yield path, to, "out"
    named = {name for (name,) in ask(_NAMES_OF, (some,))}
    named |= {name.removesuffix(".md") for name in named}
    for path, target, kind in ask(_LINKS_TO, (json.dumps([*named]),)):
        if mount_name(queries, path) == names.mount and (to := names.resolve(target, path, kind)) in paths:
            yield to, path, "back"


class Neighbour(NamedTuple):
    """A file near another one."""

    path: str
    distance: int
    relation: str  # "out" if the nearer file links to it, "back" if it links to that, or "both".
    via: str  # The nearer file.


def neighbourhood(queries: Queries, path: str, depth: int) -> list[Neighbour]:
    """Returns the files within some links of a file, in either direction of links; the nearest first."""
    names = LinkNames(queries, mount_name(queries, path))
    found, edge = {path: Neighbour(path, 0, "", "")}, {path}
    for distance in range(1, depth + 1):
        new: dict[str, Neighbour] = {}
        for via, other, way in sorted(_neighbours(queries, names, edge)):
            if other not in found:
                known = new.setdefault(other, Neighbour(other, distance, way, via))
                if known.via == via and known.relation != way:
                    new[other] = known._replace(relation="both")
        found |= new
        edge = set(new)
    return sorted(list(found.values())[1:], key=lambda each: (each.distance, each.path))


def hubs(queries: Queries) -> list[tuple[str, int]]:
    """Returns the files that other files link to, with the number of those; the most linked first."""
    pairs = {(source, to) for (source, _, _), to in _resolved(queries) if to is not None and to != source}
    counts = Counter(to for _, to in pairs)
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


class ResolvedLink(NamedTuple):
    """A link with its place and its target."""

    source: str
    source_kind: str
    title: str
    target: str  # As written; empty for a link within the same note.
    subpath: str
    shown: str | None
    kind: str
    embed: int  # 1 or 0.
    line: int
    start: int
    end: int
    leads_to: str | None = None  # The path of its target; None if it is broken.
    text: str = ""  # The line of the link, if it was asked for: see `with_lines`.


def with_lines(queries: Queries, links: Iterable[ResolvedLink]) -> Iterator[ResolvedLink]:
    """Yields links with the text of their lines."""
    source, text = None, ""
    for link in links:
        if link.source != source:
            source, text = link.source, queries.text(link.source) or ""
        # The searchable text of a canvas is not the text of its file.
        start = max(0, text.find(link.target, 0, _CANVAS)) if link.source_kind == "canvas" else link.start
        # Only text near the link is looked at: a line may have any length, and any number of links.
        first = max(0, start - _BEFORE)
        begin = max(text.rfind(end, first, start) + 1 for end in "\n\r")
        after = re.match("[^\n\r]*", text[start : start + _AFTER])
        yield link._replace(text=(text[max(begin, first) : start] + (after[0] if after else "")).strip())


def outgoing(queries: Queries, path: str, limit: int = -1) -> list[ResolvedLink]:
    """Returns the links in a file, in order: the first ones, if a `limit` is given."""
    resolve = LinkNames(queries, mount_name(queries, path)).resolve
    rows = _rows(queries, "files.path = ?", (path,), limit)
    return [row._replace(leads_to=resolve(row.target, path, row.kind)) for row in rows]


def backlinks(queries: Queries, path: str) -> list[ResolvedLink]:
    """Returns the links to a file from other files, in the order of these files."""
    if (file := queries.file(path)) is None:
        return []
    mount, name = mount_name(queries, path), name_key(path, file.kind)
    resolve = LinkNames(queries, mount).resolve
    rows = _rows(queries, "links.name IN (?, ?) AND target <> ''", (name, name.removesuffix(".md")))
    own = [row._replace(leads_to=path) for row in rows if mount_name(queries, row.source) == mount]
    return [row for row in own if resolve(row.target, row.source, row.kind) == path]


def broken(queries: Queries) -> list[ResolvedLink]:
    """Returns the links without a target, in the order of their files."""
    nowhere = {link for link, path in _resolved(queries) if path is None}
    sources = json.dumps(sorted({source for source, _, _ in nowhere}))
    rows = _rows(queries, f"path IN {_SOME} AND target <> ''", (sources,))
    return [row for row in rows if (row.source, row.target, row.kind) in nowhere]


def orphans(queries: Queries) -> list[str]:
    """Returns the notes without links to or from other files."""
    linked = {path for (source, _, _), to in _resolved(queries) if to not in (None, source) for path in (source, to)}
    notes = queries.rows(str, "SELECT path FROM files WHERE kind = 'note' ORDER BY path")
    return [path for path in notes if path not in linked]


def _resolved(queries: Queries) -> Iterator[tuple[tuple[str, str, str], str | None]]:
    """Yields all links to other files: the source, the target as written and the kind; and the resolved path."""
    names = {mount: LinkNames(queries, mount, all_at_once=True) for mount in queries.mounts}
    for source, target, kind in queries.connection.execute(_TARGETS):
        yield (source, target, kind), names[mount_name(queries, source)].resolve(target, source, kind)


def _rows(queries: Queries, condition: str, arguments: tuple[str, ...], limit: int = -1) -> list[ResolvedLink]:
    found = f"SELECT {_LINK} FROM links JOIN files ON files.id = links.file WHERE {condition}"  # noqa: S608
    return queries.rows(ResolvedLink, f"{found} ORDER BY path, n LIMIT ?", (*arguments, limit))
