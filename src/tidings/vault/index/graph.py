"""Where links lead, found when it is asked: files that come and go change it, without a word about it being stored.

A link leads only to files of its own vault. What is asked of one note costs little; what is asked of all of them
(`broken`, `orphans`) walks over all links once.

May import: `index_rows`, `link_names`, `queries`, `ways`.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, overload

from tidings.vault.index.entries import name_key
from tidings.vault.index.link_names import LinkNames, mount_name
from tidings.vault.index.queries import Queries
from tidings.vault.index.ways import between

__all__ = ["Links", "Seen", "backlinks", "between", "broken", "orphans", "outgoing", "resolve"]

_BEFORE: Final = 300
_AFTER: Final = 700
"""How much of a long line is shown around a link, in characters."""

_CANVAS: Final = 1_000_000
"""How much of a canvas is searched for what stands around a link, in characters."""

_LINK: Final = 'files.path, files.kind, title, target, subpath, shown, links.kind, embed, line, "start", "end"'


class Seen(NamedTuple):
    """A link, where it stands and where it leads."""

    source: str
    """The path of the file that has it."""
    title: str
    """Of that file."""
    line: int
    text: str
    """The line it stands in."""
    target: str
    """As it is written; empty for a link within the same note."""
    subpath: str
    shown: str | None
    kind: str
    embed: bool
    leads_to: str | None
    """The path of the file that it leads to."""


class _Row(NamedTuple):
    """A link as the index has it, and where it leads."""

    source: str
    source_kind: str
    title: str
    target: str
    subpath: str
    shown: str | None
    kind: str
    embed: int
    line: int
    start: int
    end: int
    leads_to: str | None = None


class _Outgoing(Sequence[_Row]):
    """The links of a file. Of a long list, only what is looked at is read, and resolved."""

    def __init__(self, queries: Queries, path: str) -> None:
        self._queries = queries
        self._path = path
        self._names = LinkNames(queries, mount_name(queries, path))
        self._count = queries.count("links", path)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> _Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_Row]: ...
    def __getitem__(self, index: int | slice) -> _Row | Sequence[_Row]:
        wanted = range(self._count)[index]
        if isinstance(wanted, int):
            return self._read(wanted, wanted + 1)[0]
        return self._read(min(wanted), max(wanted) + 1)[:: wanted.step] if wanted else []

    def __iter__(self) -> Iterator[_Row]:
        return iter(self._read(0, self._count))

    def _read(self, start: int, stop: int) -> list[_Row]:
        rows = _rows(self._queries, "files.path = ? AND n >= ? AND n < ?", (self._path, start, stop))
        resolve = self._names.resolve
        return [row._replace(leads_to=resolve(row.target, self._path, row.kind)) for row in rows]


class Links(Sequence[Seen]):
    """A list of links. The lines that they stand in are read when one of them is looked at, and only then."""

    def __init__(self, queries: Queries, rows: Sequence[_Row]) -> None:
        self._queries = queries
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Seen: ...
    @overload
    def __getitem__(self, index: slice) -> "Links": ...
    def __getitem__(self, index: int | slice) -> "Seen | Links":
        if isinstance(index, slice):
            return Links(self._queries, self._rows[index])
        row = self._rows[index]
        return _seen(row, self._queries.text(row.source) or "")

    def __iter__(self) -> Iterator[Seen]:
        source, text = None, ""
        for row in self._rows:
            if row.source != source:
                source, text = row.source, self._queries.text(row.source) or ""
            yield _seen(row, text)


def resolve(queries: Queries, target: str, source: str) -> str | None:
    """The path of the file that a link to `target` in the file `source` leads to, or None if there is none."""
    return LinkNames(queries, mount_name(queries, source)).resolve(target, source)


def outgoing(queries: Queries, path: str) -> Links:
    """The links in a file, from top to bottom."""
    return Links(queries, _Outgoing(queries, path))


def backlinks(queries: Queries, path: str) -> Links:
    """The links that lead to a file, without those within it; in the order of the files that have them."""
    file = queries.file(path)
    if file is None:
        return Links(queries, [])
    mount = mount_name(queries, path)
    names = LinkNames(queries, mount)
    name = name_key(path, file.kind)
    rows = _rows(queries, "links.name IN (?, ?) AND target <> ''", (name, name.removesuffix(".md")))
    own = [row._replace(leads_to=path) for row in rows if mount_name(queries, row.source) == mount]
    return Links(queries, [row for row in own if names.resolve(row.target, row.source, row.kind) == path])


def broken(queries: Queries) -> Links:
    """The links that lead nowhere, in the order of the files that have them."""
    nowhere = {link for link, path in _resolved(queries) if path is None}
    sources = json.dumps(sorted({source for source, _, _ in nowhere}))
    rows = _rows(queries, "path IN (SELECT value FROM json_each(?)) AND target <> ''", (sources,))
    return Links(queries, [row for row in rows if (row.source, row.target, row.kind) in nowhere])


def orphans(queries: Queries) -> list[str]:
    """The notes that no link leads to or from, other than links to nowhere or to themselves."""
    linked = {path for edge in _edges(queries) for path in edge}
    notes = queries.connection.execute("SELECT path FROM files WHERE kind = 'note' ORDER BY path")
    return [path for (path,) in notes if path not in linked]


def _resolved(queries: Queries) -> Iterator[tuple[tuple[str, str, str], str | None]]:
    """All links to other files: the file that has it, the target and the kind, and where it leads."""
    names = {mount: LinkNames(queries, mount, all_at_once=True) for mount in queries.mounts}
    rows = queries.connection.execute(
        "SELECT path, target, links.kind FROM links JOIN files ON files.id = links.file WHERE target <> ''"
    )
    for source, target, kind in rows:
        yield (source, target, kind), names[mount_name(queries, source)].resolve(target, source, kind)


def _edges(queries: Queries) -> Iterator[tuple[str, str]]:
    """From which file to which other one links lead."""
    return ((source, path) for (source, _, _), path in _resolved(queries) if path not in (None, source))


def _rows(queries: Queries, condition: str, arguments: tuple[str | int, ...]) -> list[_Row]:
    """Links, with nothing said of where they lead."""
    rows = queries.connection.execute(
        f"SELECT {_LINK} FROM links JOIN files ON files.id = links.file WHERE {condition} ORDER BY path, n",  # noqa: S608
        arguments,
    )
    return [_Row(*row) for row in rows]


def _seen(row: _Row, text: str) -> Seen:
    start = row.start
    if row.source_kind == "canvas":  # Its text is not what the file holds, but what can be searched of it.
        start = max(0, text.find(row.target, 0, _CANVAS))
    # Only what is near the link is looked at: a line may have any length, and hold any number of them.
    first = max(0, start - _BEFORE)
    begin = max(text.rfind(end, first, start) + 1 for end in "\n\r")
    after = text[start : start + _AFTER]
    ends = [end for end in (after.find("\n"), after.find("\r")) if end >= 0]
    shown = text[max(begin, first) : start] + after[: min(ends, default=_AFTER)]
    return Seen(
        *(row.source, row.title, row.line, shown.strip()),
        *(row.target, row.subpath, row.shown, row.kind, bool(row.embed), row.leads_to),
    )
