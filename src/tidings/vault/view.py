"""`VaultView`: the index at one moment, and how fresh it is; daily notes and hidden notes by the app's settings."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Final, Literal
from urllib.parse import quote

from tidings.vault.bases.rows import BaseRows
from tidings.vault.files.journal import WriteJournal
from tidings.vault.files.obsidian import ObsidianSettings, periodic_path
from tidings.vault.files.paths import Vault
from tidings.vault.index.queries import FileRow, Queries

_DAYS: Final = 1000
_EXISTING: Final = "SELECT path FROM files WHERE path IN (SELECT value FROM json_each(?))"


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """The state of the index."""

    phase: Literal["indexing", "watching", "polling", "away", "blocked"]
    """It is being built, follows changes as they happen, looks for them from time to time, has lost the vault, or
    cannot be written: the last note says why."""
    progress: tuple[int, int] = (0, 0)  # The files that were read, and all to read; only during the first build.
    notes: tuple[str, ...] = ()  # Messages for the user.

    @property
    def partial(self) -> bool:
        """True if answers may be incomplete."""
        return self.phase in ("indexing", "away", "blocked")

    @property
    def standing(self) -> str:
        """A sentence about an answer that may be incomplete; empty if it is not."""
        if self.phase == "away":
            return "The vault cannot be reached at present: this is its last known content."
        if self.phase == "blocked":
            return self.notes[-1]
        if self.partial:
            done, total = self.progress
            files = f" ({done:,} of {total:,} files)" if total else ""
            return f"The index is still being built{files}: results may be incomplete."
        return ""


@dataclass(frozen=True, slots=True)
class VaultView:
    """A vault as one question sees it."""

    queries: Queries
    vault: Vault
    status: IndexStatus
    bases: BaseRows = field(default_factory=BaseRows)
    journal: WriteJournal = field(default_factory=WriteJournal)

    @property
    def whole(self) -> "VaultView":
        """The same, as if the index were complete."""
        return replace(self, status=IndexStatus("watching"))

    def periodic_note(self, day: date, period: str = "daily") -> FileRow | None:
        """Returns the daily note of a date, or that of its week and so on, if the index knows one."""
        return next(filter(None, map(self.queries.file, self.periodic_places(day, period))), None)

    def periodic_places(self, day: date, period: str = "daily") -> list[str]:
        """Returns the path of such a note in each vault, existing or not. The first existing one counts."""
        mounts = self.vault.mounts
        return [mount.path(periodic_path(ObsidianSettings.read(mount.root), day, period)) for mount in mounts]

    def daily_dates(self, last: date) -> list[date]:
        """Returns the days that have a note, the newest first, of the thousand days up to the `last`."""
        found: set[date] = set()
        days = [last - timedelta(count) for count in range(min(_DAYS, last.toordinal()))]
        for mount in self.vault.mounts:
            settings = ObsidianSettings.read(mount.root)
            by_path = {mount.path(periodic_path(settings, day)): day for day in days}
            rows = self.queries.connection.execute(_EXISTING, (json.dumps([*by_path]),))
            found |= {by_path[path] for (path,) in rows}
        return sorted(found, reverse=True)

    def app_link(self, path: str) -> str:
        """Returns a link that opens a file in the app."""
        mount, inner = self.vault.split(path)
        file = quote(inner.removesuffix(".md"), safe="")
        return f"obsidian://open?vault={quote(mount.root.name, safe='')}&file={file}"


def local_today() -> date:
    """Returns the date where the server runs."""
    return datetime.now().astimezone().date()


def iso_date(text: str) -> date | None:
    """Parses a date such as 2026-01-31, and no other form of ISO 8601."""
    with suppress(ValueError):
        if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
            return date.fromisoformat(text)
    return None


def hidden_from_search(vault: Vault) -> Callable[[str], bool] | None:
    """Returns a function that says whether a path is hidden from searches; None if nothing is."""
    settings = {mount: ObsidianSettings.read(mount.root) for mount in vault.mounts}
    if not any(each.ignored for each in settings.values()):
        return None

    def hidden(path: str) -> bool:
        mount, inner = vault.split(path)
        return settings[mount].ignores(inner)

    return hidden
