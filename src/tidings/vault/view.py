"""What a question may look at: the index as it is at this moment, and how far it is to be trusted.

Which notes are daily notes, by the app's own settings.

With several vaults a day may have a note in each: the first vault that has one counts.

May import: `obsidian`, `paths`, `view`.

What the app's own settings keep out of searches.

What has to be said of an answer that may lack something.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from tidings.vault.files.obsidian import ObsidianSettings, daily_date, daily_path
from tidings.vault.files.paths import Mount, Vault
from tidings.vault.index.queries import Queries


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far the index has come."""

    done: int
    total: int
    """Of the files that have to be read."""


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """How the index stands to the disk."""

    phase: Literal["indexing", "watching", "polling", "away"]
    """Whether it is being built, follows the disk as it changes, looks at it from time to time, or cannot see it."""
    progress: IndexProgress | None = None
    """Of the first build, while it is under way."""
    notes: tuple[str, ...] = ()
    """What the user should know of it."""

    @property
    def partial(self) -> bool:
        """Whether an answer may lack something that is in the vault."""
        return self.phase in ("indexing", "away")


@dataclass(frozen=True, slots=True)
class VaultView:
    """A vault, as a question sees it."""

    queries: Queries
    vault: Vault
    status: IndexStatus


def local_today() -> date:
    """The date where the server runs."""
    return datetime.now().astimezone().date()


def daily_places(view: VaultView, day: date) -> list[str]:
    """Where the note of a day is, or would be, in each vault."""
    return [mount.path(daily_path(ObsidianSettings.read(mount.root), day)) for mount in view.vault.mounts]


def daily_dates(view: VaultView) -> Iterator[date]:
    """The days that have a note."""
    for mount in view.vault.mounts:
        settings = ObsidianSettings.read(mount.root)
        for inner in _inner_paths(view, mount, settings):
            if day := daily_date(settings, inner):
                yield day


def _inner_paths(view: VaultView, mount: Mount, settings: ObsidianSettings) -> Iterator[str]:
    """The paths that may be those of daily notes."""
    folder = mount.path(settings.daily_folder)
    if "/" in settings.daily_format:
        where, values = "path >= ? AND path < ?", (f"{folder}/", f"{folder}0") if folder else ("", "\U0010ffff")
    else:
        where, values = "folder = ?", (folder,)
    start = len(mount.name) + 1 if mount.name else 0
    sql = f"SELECT path FROM files WHERE kind = 'note' AND {where}"  # noqa: S608 - texts of our own
    for (path,) in view.queries.connection.execute(sql, values):
        yield path[start:]


def hidden_from_search(vault: Vault) -> Callable[[str], bool] | None:
    """Tells of a path whether it is kept out of searches; None if nothing is."""
    settings = {mount: ObsidianSettings.read(mount.root) for mount in vault.mounts}
    if not any(each.ignored for each in settings.values()):
        return None

    def hidden(path: str) -> bool:
        mount, inner = vault.split(path)
        return settings[mount].ignores(inner)

    return hidden


def standing(status: IndexStatus) -> str:
    """A sentence for whoever reads the answer; empty if nothing is amiss."""
    if status.phase == "away":
        return "The vault cannot be reached at present: this is what was in it when it was last seen."
    if status.partial:
        progress = status.progress
        done = f" ({progress.done:,} of {progress.total:,} files)" if progress and progress.total else ""
        return f"The index is still being built{done}: something may be missing."
    return ""
