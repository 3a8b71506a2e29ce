"""Deleting: into the folder `.trash` of the vault, as Obsidian does, and never for good.

What is deleted keeps its folders there; if its name is taken, it gets a number.

May import: `disk`, `scratch`, `versions`, and what those may.
"""

import os
import stat
from contextlib import ExitStack
from pathlib import Path

from tidings.vault.files.disk import Disk, OpenedFile, check_version
from tidings.vault.files.folders import OpenFolder
from tidings.vault.files.folders import place as put
from tidings.vault.files.outcomes import AlreadyThere, FileDeleted, NotText, NotThere, explained
from tidings.vault.files.paths import BadPath, is_scratch

TRASH = ".trash"

_LITTER = frozenset({".DS_Store", ".localized", ".directory", ".gitkeep", ".keep", ".nomedia"})
"""Of macOS, of KDE, and to keep a folder in Git or out of a phone's gallery; see also `_is_litter`."""

_MOST_NAMES = 10_000


def delete(disk: Disk, path: str, *, if_match: str | None = None, recursive: bool = False) -> FileDeleted:
    """Put a file or folder into the trash; see `Writer.delete`."""
    with disk.everything(), explained(path, "deleted"), ExitStack() as stack:
        place = disk.place(path, follow=False)
        try:
            folder = stack.enter_context(place.enter())
        except FileNotFoundError:
            raise _nothing(path) from None
        stack.enter_context(folder.locked())
        found = folder.stat(place.name)
        if found is None:
            raise _nothing(path)
        is_folder = stat.S_ISDIR(found.st_mode)
        if is_folder:
            _check_folder(place, if_match, recursive=recursive)
        else:
            check_file(disk, folder, place, if_match)
        touched = files_in(disk, place) if is_folder else [place.real]
        trash, name = _put(place, folder, is_folder=is_folder)
        return FileDeleted(path, f"{trash}/{name}", tuple(touched))


def check_file(disk: Disk, folder: OpenFolder, place: OpenedFile, if_match: str | None) -> None:
    """Refuse a file that is not the version the caller has read; see `check_version`."""
    if if_match is not None:
        check_version(disk.texts, place.path, if_match, disk.look(folder, place)[0])


def refuse_version(place: OpenedFile, if_match: str | None) -> None:
    """Refuse a version where there can be none.

    Raises:
        NotText: One was given for a folder.
    """
    if if_match is not None:
        raise NotText(f"{place.path!r} is a folder, and folders have no version. Leave out if_match.")


def files_in(disk: Disk, place: OpenedFile) -> list[str]:
    """The paths of all that is served in a folder which is to go elsewhere; the folder's own if there is nothing.

    Raises:
        BadPath: Something that is not served lies in it, and would go along without anybody knowing.
    """
    found: list[str] = []
    unseen = 0
    for at, folders, files in os.walk(place.mount.root.joinpath(*place.folder, place.name)):
        served = {name: path for name in (*folders, *files) if (path := disk.vault.relative(Path(at, name)))}
        unseen += sum(name not in served for name in folders)
        unseen += sum(name not in served and not _is_litter(name) for name in files)
        folders[:] = [name for name in folders if name in served]
        found += [served[name] for name in files if name in served]
    if unseen:
        what = "something that is" if unseen == 1 else f"{unseen:,} files or folders that are"
        raise BadPath(
            f"The folder {place.path!r} holds {what} not served, because of a dot in front or an exclusion.",
            "Take the files in it one by one, or ask the user to do it: nothing that cannot be seen is taken along.",
        )
    return sorted(found) or [place.real]


def _is_litter(name: str) -> bool:
    """Whether a file is one that systems and programs put anywhere, and nobody misses."""
    return name in _LITTER or name.startswith("._") or is_scratch(name)


def _check_folder(place: OpenedFile, if_match: str | None, *, recursive: bool) -> None:
    refuse_version(place, if_match)
    if recursive:
        return
    with OpenFolder(place.mount.root, (*place.folder, place.name)) as inside:
        count = len(inside.names())
    if count:
        raise AlreadyThere(
            f"The folder {place.path!r} is not empty: it holds {count} names. Set recursive=true to delete all."
        )


def _put(place: OpenedFile, folder: OpenFolder, *, is_folder: bool) -> tuple[str, str]:
    """Into the trash, and where there: under its own folders if they can be there, else at the top."""
    for names in ((TRASH, *place.folder), (TRASH,)):
        try:
            trash = OpenFolder(place.mount.root, names, create=True)
        except NotADirectoryError:
            continue
        with trash, trash.locked():
            for name in _candidates(place.name, is_folder=is_folder):
                if trash.stat(name) is None and _take(folder, place.name, trash, name, is_folder=is_folder):
                    return "/".join(names), name
    raise AlreadyThere(f"There is no room for {place.path!r} in the trash. Empty the folder '{TRASH}' of the vault.")


def _take(folder: OpenFolder, name: str, trash: OpenFolder, to: str, *, is_folder: bool) -> bool:
    if not is_folder:
        return put(folder, name, trash, to)
    folder.rename(name, trash, to)
    return True


def _candidates(name: str, *, is_folder: bool) -> "list[str]":
    stem, dot, extension = (name, "", "") if is_folder else name.rpartition(".")
    stem, ending = (stem, dot + extension) if stem else (name, "")
    while len(f"{stem} 99999{ending}".encode()) > 255 and len(stem) > 1:
        stem = stem[:-1]
    return [name, *(f"{stem} {number}{ending}" for number in range(1, _MOST_NAMES))]


def _nothing(path: str) -> NotThere:
    return NotThere(f"There is nothing at {path!r} to delete. Check how it is written.")
