"""The files of a vault by name, as links name them.

May import: `links`, `paths`, `queries`.
"""

from tidings.vault.files.paths import key
from tidings.vault.index.queries import Queries
from tidings.vault.text import links


class LinkNames:
    """The files of one vault by name, as `links.resolve` asks for them; and where links in that vault lead.

    Args:
        queries: The index.
        mount: The name of the vault.
        all_at_once: Whether so much will be asked that one question for everything is quicker.
    """

    def __init__(self, queries: Queries, mount: str, *, all_at_once: bool = False) -> None:
        self._queries = queries
        self._prefix = f"{mount}/" if mount else ""
        self._names: dict[str, list[str]] = {}
        self._complete = all_at_once
        self._anywhere: dict[str, str | None] = {}
        if all_at_once:
            for name, path in queries.connection.execute("SELECT name, path FROM files ORDER BY path"):
                if path.startswith(self._prefix):
                    self._names.setdefault(name, []).append(path[len(self._prefix) :])

    def candidates(self, name: str, /) -> list[str]:
        """The paths of the files with this name, within the vault."""
        if name not in self._names and not self._complete:
            paths = self._queries.candidates(name)
            self._names[name] = [path[len(self._prefix) :] for path in paths if path.startswith(self._prefix)]
        return self._names.get(name, [])

    def resolve(self, target: str, source: str, kind: str = "wiki") -> str | None:
        """The path of the file that a link leads to. Both paths are whole ones, with the vault's name."""
        # What a canvas shows is named from the vault's own folder, always.
        target = f"/{target}" if kind == "canvas" else target
        if target in self._anywhere:
            return self._anywhere[target]
        inner = source[len(self._prefix) :]
        found = links.resolve(target, inner, self)
        path = None if found is None else self._prefix + found
        if self._is_same_anywhere(target):
            self._anywhere[target] = path
        return path

    def _is_same_anywhere(self, target: str) -> bool:
        """Whether a link leads to the same file from wherever it is: there is only one that may be meant, or none."""
        name = key(target.rpartition("/")[2])
        names = {name, name.removesuffix(".md")}
        return target[:1] not in ("", ".") and sum(len(self.candidates(name)) for name in names) < 2


def mount_name(queries: Queries, path: str) -> str:
    """The name of the vault that a path lies in."""
    return "" if queries.mounts == ("",) else path.partition("/")[0]
