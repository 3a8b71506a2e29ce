"""The ways that links make between files.

May import: `link_names`, `queries`.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Final

from tidings.vault.index.link_names import LinkNames, mount_name
from tidings.vault.index.queries import Queries

_SOME: Final = "(SELECT value FROM json_each(?))"
_NAMES_OF: Final = f"SELECT name FROM files WHERE path IN {_SOME}"  # noqa: S608 - of our own, as what follows
_LINKS_OF: Final = (
    "SELECT path, target, links.kind FROM files CROSS JOIN links ON links.file = files.id "  # noqa: S608
    f"WHERE target <> '' AND path IN {_SOME}"
)
_LINKS_TO: Final = (
    "SELECT path, target, links.kind FROM links JOIN files ON files.id = links.file "  # noqa: S608
    f"WHERE target <> '' AND links.name IN {_SOME}"
)


def between(queries: Queries, start: str, end: str) -> list[str] | None:
    """The shortest way over links from one file to another, both included, whichever way the links point."""
    mount = mount_name(queries, start)
    if mount_name(queries, end) != mount:
        return None
    names = LinkNames(queries, mount)
    # From both ends, so that no more of the vault is looked at than lies near one of them.
    near, far = _Reached(start), _Reached(end)
    while not (met := near.came_from.keys() & far.came_from.keys()):
        if not near.edge or not far.edge:
            return None
        side = near if len(near.edge) <= len(far.edge) else far
        side.widen(_neighbours(queries, names, mount, side.edge))
    middle = min(met)
    return [*reversed(near.way(middle)), *far.way(middle)[1:]]


class _Reached:
    """The files that links lead to from one of them, step by step, whichever way the links point."""

    def __init__(self, start: str) -> None:
        self.came_from: dict[str, str | None] = {start: None}
        self.edge = {start}
        """What was reached last."""

    def widen(self, neighbours: Iterable[tuple[str, str]]) -> None:
        """Go one step further, to the neighbours of the edge: each file comes with one beside it."""
        new: dict[str, str] = {}
        for path, neighbour in neighbours:
            if neighbour not in self.came_from:
                # Of several shortest ways, always the same.
                new[neighbour] = min(path, new.get(neighbour, path))
        self.came_from |= new
        self.edge = set(new)

    def way(self, path: str) -> list[str]:
        """The way back to the start."""
        way = [path]
        while (before := self.came_from[way[-1]]) is not None:
            way.append(before)
        return way


def _neighbours(queries: Queries, names: LinkNames, mount: str, paths: set[str]) -> Iterator[tuple[str, str]]:
    """Each of some files with each that it links to, or that links to it."""
    ask = queries.connection.execute
    some = json.dumps([*paths])
    for path, target, kind in ask(_LINKS_OF, (some,)):
        if to := names.resolve(target, path, kind):
            yield path, to
    named = {name for (name,) in ask(_NAMES_OF, (some,))}
    named |= {name.removesuffix(".md") for name in named}
    for path, target, kind in ask(_LINKS_TO, (json.dumps([*named]),)):
        if mount_name(queries, path) == mount and (to := names.resolve(target, path, kind)) in paths:
            yield to, path
