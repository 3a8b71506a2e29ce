"""Deleting: into the folder `.trash` of the vault, as Obsidian does, and never for good.

What is deleted keeps its folders there; if its name is taken, it gets a number.

May import: `disk`, `versions`, and what those may.
"""

import stat
from contextlib import ExitStack

from tidings.vault.files.anchor import Folder
from tidings.vault.files.disk import Disk, Place
from tidings.vault.files.outcomes import Deleted
from tidings.vault.files.replacing import place as put
from tidings.vault.files.versions import check_version
from tidings.vault.files.write_errors import AlreadyThere, NotText, NotThere, explained

TRASH = ".trash"

_MOST_NAMES = 10_000


def delete(disk: Disk, path: str, *, if_match: str | None = None, recursive: bool = False) -> Deleted:
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
        touched = files_in(disk, place) if is_folder else [path]
        trash, name = _put(place, folder, is_folder=is_folder)
        return Deleted(path, f"{trash}/{name}", tuple(touched))


def check_file(disk: Disk, folder: Folder, place: Place, if_match: str | None) -> None:
    """Refuse a file that is not the version the caller has read; see `check_version`."""
    if if_match is not None:
        check_version(disk.texts, place.path, if_match, disk.look(folder, place)[0])


def refuse_version(place: Place, if_match: str | None) -> None:
    """Refuse a version where there can be none.

    Raises:
        NotText: One was given for a folder.
    """
    if if_match is not None:
        raise NotText(f"{place.path!r} is a folder, and folders have no version. Leave out if_match.")


def files_in(disk: Disk, place: Place) -> list[str]:
    """The paths of all that is served in a folder; the folder's own if there is nothing."""
    root = place.mount.root.joinpath(*place.folder, place.name)
    # By its path, not by where links on the way lead.
    found = [f"{place.path}/{file.relative_to(root).as_posix()}" for file in root.rglob("*") if not file.is_dir()]
    return sorted(path for path in found if disk.vault.visible(path)) or [place.path]


def _check_folder(place: Place, if_match: str | None, *, recursive: bool) -> None:
    refuse_version(place, if_match)
    if recursive:
        return
    with Folder(place.mount.root, (*place.folder, place.name)) as inside:
        count = len(inside.names())
    if count:
        raise AlreadyThere(
            f"The folder {place.path!r} is not empty: it holds {count} names. Set recursive=true to delete all."
        )


def _put(place: Place, folder: Folder, *, is_folder: bool) -> tuple[str, str]:
    """Into the trash, and where there: under its own folders if they can be there, else at the top."""
    for names in ((TRASH, *place.folder), (TRASH,)):
        try:
            trash = Folder(place.mount.root, names, create=True)
        except NotADirectoryError:
            continue
        with trash, trash.locked():
            for name in _candidates(place.name, is_folder=is_folder):
                if trash.stat(name) is None and _take(folder, place.name, trash, name, is_folder=is_folder):
                    return "/".join(names), name
    raise AlreadyThere(f"There is no room for {place.path!r} in the trash. Empty the folder '{TRASH}' of the vault.")


def _take(folder: Folder, name: str, trash: Folder, to: str, *, is_folder: bool) -> bool:
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
