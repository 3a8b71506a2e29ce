"""Which notes are daily notes, by the app's own settings.

With several vaults a day may have a note in each: the first vault that has one counts.

May import: `obsidian`, `paths`, `view`.
"""

from collections.abc import Iterator
from datetime import date, datetime

from tidings.vault.files.obsidian import Settings, daily_date, daily_path
from tidings.vault.files.paths import Mount
from tidings.vault.view import View


def local_today() -> date:
    """The date where the server runs."""
    return datetime.now().astimezone().date()


def daily_places(view: View, day: date) -> list[str]:
    """Where the note of a day is, or would be, in each vault."""
    return [mount.path(daily_path(Settings.read(mount.root), day)) for mount in view.vault.mounts]


def daily_dates(view: View) -> Iterator[date]:
    """The days that have a note."""
    for mount in view.vault.mounts:
        settings = Settings.read(mount.root)
        for inner in _inner_paths(view, mount, settings):
            if day := daily_date(settings, inner):
                yield day


def _inner_paths(view: View, mount: Mount, settings: Settings) -> Iterator[str]:
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
