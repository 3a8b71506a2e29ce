"""Deleting: into the folder `.trash` of the vault, as Obsidian does, never permanently.

A deleted file keeps its folders there, and gets a number if its name is taken.
"""

import os
import stat
from contextlib import ExitStack, suppress
from pathlib import Path

from tidings.vault.files.disk import Disk, OpenedFile, check_version
from tidings.vault.files.folders import OpenFolder, move_to_free_name
from tidings.vault.files.outcomes import AlreadyThere, FileDeleted, NotText, NotThere, explained
from tidings.vault.files.paths import BadPath, is_scratch

TRASH = ".trash"

# Files that systems and programs leave in any folder.
_LITTER = frozenset({".DS_Store", ".localized", ".directory", ".gitkeep", ".keep", ".nomedia"})
_MOST_NAMES = 10_000


def delete(disk: Disk, path: str, *, if_match: str | None = None, recursive: bool = False) -> FileDeleted:
    """Moves a file or folder to the trash; see `VaultWriter.delete`."""
    with disk.everything(), explained(path, "deleted"), ExitStack() as stack:
        place = disk.place(path, follow=False)
        found = folder = None
        with suppress(FileNotFoundError):
            folder = stack.enter_context(place.enter())
            stack.enter_context(folder.locked())
            found = folder.stat(place.name)
        if found is None or folder is None:
            raise NotThere(f"There is nothing at {path!r} to delete. Check the spelling.")
        is_folder = stat.S_ISDIR(found.st_mode)
        check_match(disk, folder, place, if_match, is_folder=is_folder)
        if is_folder and not recursive:
            with OpenFolder(place.mount.root, (*place.folder, place.name)) as inside:
                count = len(inside.names())
            if count:
                many = f"it has {count} entries. Set recursive=true to delete all."
                raise AlreadyThere(f"The folder {place.path!r} is not empty: {many}")
        touched = files_in(disk, place) if is_folder else [place.real]
        trash, name = _put(place, folder, is_folder=is_folder)
        return FileDeleted(path, f"{trash}/{name}", tuple(touched))


def check_match(disk: Disk, folder: OpenFolder, place: OpenedFile, if_match: str | None, *, is_folder: bool) -> None:
    """Refuses a file that is not the version the caller has read (see `check_version`), and a version of a folder."""
    if if_match is None:
        return
    if is_folder:
        raise NotText(f"{place.path!r} is a folder, and folders have no version. Leave out if_match.")
    check_version(disk.texts, place.path, if_match, disk.look(folder, place)[0])


def files_in(disk: Disk, place: OpenedFile) -> list[str]:
    """Returns the paths of all served files in a folder that is to be moved; the folder's own if it is empty.

    Raises `BadPath` if it contains something that is not served, and would be moved unnoticed.
    """
    found: list[str] = []
    unseen = 0
    for at, folders, files in os.walk(place.mount.root.joinpath(*place.folder, place.name)):
        served = {name: path for name in (*folders, *files) if (path := disk.vault.relative(Path(at, name)))}
        litter = {name for name in files if name in _LITTER or name.startswith("._") or is_scratch(name)}
        unseen += len({*folders, *files} - served.keys() - litter)
        folders[:] = [name for name in folders if name in served]
        found += [served[name] for name in files if name in served]
    if unseen:
        what = "something that is" if unseen == 1 else f"{unseen:,} files or folders that are"
        raise BadPath(
            f"The folder {place.path!r} contains {what} not served, because of a leading dot or an exclusion.",
            "Move or delete its files one by one, or ask the user to do it: hidden files are not taken along.",
        )
    return sorted(found) or [place.real]


def _put(place: OpenedFile, folder: OpenFolder, *, is_folder: bool) -> tuple[str, str]:
    """Moves it to the trash, under its own folders if possible, else at the top. Returns folder and name there."""
    for names in ((TRASH, *place.folder), (TRASH,)):
        try:
            trash = OpenFolder(place.mount.root, names, create=True)
        except NotADirectoryError:
            continue
        with trash, trash.locked():
            for name in _candidates(place.name, is_folder=is_folder):
                if take(folder, place.name, trash, name, is_folder=is_folder):
                    return "/".join(names), name
    raise AlreadyThere(f"There is no room for {place.path!r} in the trash. Empty the folder '{TRASH}' of the vault.")


def take(folder: OpenFolder, name: str, other: OpenFolder, to: str, *, is_folder: bool) -> bool:
    """Moves a file or folder to a name that is free. Returns False if it is taken."""
    if other.stat(to) is not None:
        return False
    if not is_folder:
        return move_to_free_name(folder, name, other, to)
    folder.rename(name, other, to)
    return True


def _candidates(name: str, *, is_folder: bool) -> list[str]:
    stem, dot, extension = (name, "", "") if is_folder else name.rpartition(".")
    stem, ending = (stem, dot + extension) if stem else (name, "")
    while len(f"{stem} 99999{ending}".encode()) > 255 and len(stem) > 1:
        stem = stem[:-1]
    return [name, *(f"{stem} {number}{ending}" for number in range(1, _MOST_NAMES))]
