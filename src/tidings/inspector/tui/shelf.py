"""Where servers come from: what somebody types, the catalog, and the settings of other clients."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tidings.inspector.catalog import Catalog, CatalogError, ServerEntry, find_clients, resolve


@dataclass(frozen=True, slots=True)
class Found:
    """An entry, and whose it is."""

    entry: ServerEntry
    where: str


@dataclass(frozen=True)
class Shelf:
    """What there is to choose from on this machine. Empty without a catalog and a home."""

    catalog: Catalog | None = None
    home: Path | None = None
    cwd: Path = field(default_factory=Path)
    platform: str = "linux"
    environ: Mapping[str, str] = field(default_factory=dict[str, str])

    def entry(self, target: str, name: str | None, taken: Collection[str]) -> ServerEntry:
        """The entry that a target means, under a name that is free.

        Raises:
            BadTarget: It means none, and why.
            ValueError: The name is taken.
        """
        entry = resolve(target, self.catalog)
        if name is not None and name in taken:
            raise ValueError(f"There is a server called {name!r} already. Give this one another name.")
        return replace(entry, name=name or free(entry.name, taken))

    def elsewhere(self, taken: Collection[str]) -> tuple[list[Found], list[str]]:
        """What the catalog and other clients have, under free names; and what of it could not be read."""
        found, problems = self._in_catalog(taken)
        names = {*taken, *(each.entry.name for each in found)}
        if self.home is None:
            return found, problems
        for client in find_clients(self.home, self.cwd, self.platform, self.environ):
            if client.problem:
                problems.append(f"{client.client}: {client.problem}")
            for entry in client.servers:
                own = replace(entry, name=free(entry.name, names))
                names.add(own.name)
                found.append(Found(own, client.client))
        return found, problems

    def _in_catalog(self, taken: Collection[str]) -> tuple[list[Found], list[str]]:
        if self.catalog is None:
            return [], []
        try:
            listing = self.catalog.listing()
        except CatalogError as error:
            return [], [str(error)]
        return [Found(each, "your catalog") for each in listing.entries if each.name not in taken], list(
            listing.problems
        )


def free(name: str, taken: Collection[str]) -> str:
    """The name, or the name with the first number that is free."""
    number, made = 1, name
    while made in taken:
        number += 1
        made = f"{name} ({number})"
    return made
