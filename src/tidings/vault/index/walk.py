"""Walking the folders of a vault: its files with their stamps.

Nothing outside the vault is seen. A symbolic link to a file of the same vault counts as a file; one to a folder is left
out, as in Obsidian, so there are no circles. A vault whose folder is missing raises `VaultAway` and is not a vault
without files: an unplugged disk removes nothing from the index.
"""

import errno
import logging
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from tidings.vault.files.paths import BadPath, Mount, Vault
from tidings.vault.index.read_file import WalkedFile, kind_of, stamp_of

logger = logging.getLogger(__name__)

Identity = tuple[int, int]  # The device and inode of a folder.

_FORBIDDEN: Final = {errno.EACCES, errno.EPERM}


class VaultAway(Exception):
    """The folder of a vault is missing, or another one is in its place. Its files are unknown."""


class FolderWalk:
    """Walks through `vault`, and notes the folders that could not be read."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self.unread: list[str] = []  # Folders that could not be read because of a disk error: their content is unknown.

    def is_unread(self, path: str) -> bool:
        return any(not folder or path.startswith(f"{folder}/") for folder in self.unread)

    def everything(self) -> Iterator[WalkedFile]:
        """Yields all files of the vaults. Raises `VaultAway` if the folder of one is missing."""
        return filter(None, map(self.file, self.paths()))

    def below(self, path: str) -> Iterator[WalkedFile]:
        """Yields all files below a folder."""
        return filter(None, map(self.file, self._below(path)))

    def paths(self) -> Iterator[str]:
        """Yields the paths of everything that may be a file, without a look at it."""
        for mount in self._vault.mounts:
            yield from self._below(mount.name)

    def _below(self, path: str) -> Iterator[str]:
        mount = self._vault.mount_of(path)
        before = identity(mount)
        folders = [path]
        while folders:
            folder = folders.pop()
            for entry in self._list(mount, folder, before):
                inner = f"{folder}/{entry.name}" if folder else entry.name
                if not self._vault.visible(inner):
                    if re.search("[\ud800-\udfff]", entry.name):
                        logger.warning("a name in the folder %r is not UTF-8 and is left out: %a", folder, entry.name)
                elif _is_folder(entry):
                    folders.append(inner)
                else:
                    yield inner

    def file(self, path: str) -> WalkedFile | None:
        mount, inner = self._vault.split(path)
        place = os.path.join(mount.root, inner)  # noqa: PTH118 - faster
        try:
            status = os.lstat(place)
            if stat.S_ISLNK(status.st_mode):
                real = os.path.realpath(place)
                target = self._vault.relative(real)
                if target is None or self._vault.mount_of(target) != mount:
                    return None
                status = os.stat(real)  # noqa: PTH116 - faster
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        return WalkedFile(path, kind_of(path), stamp_of(status), str(mount.root), inner)

    def _list(self, mount: Mount, folder: str, before: Identity) -> "list[os.DirEntry[str]]":
        place = os.path.join(mount.root, self._vault.split(folder)[1])  # noqa: PTH118
        try:
            with os.scandir(place) as entries:
                return list(entries)
        except OSError as error:
            if identity(mount) != before:
                raise _away(mount) from error
            if error.errno in _FORBIDDEN:
                logger.warning("the folder %r may not be read and is left out", folder)
            elif not isinstance(error, FileNotFoundError | NotADirectoryError):
                logger.warning("the folder %r cannot be read at present: %s", folder, error)
                self.unread.append(folder)
            return []


def identity(mount: Mount) -> Identity:
    """Identifies the current folder of a vault. Raises `VaultAway` if it cannot be reached."""
    found = mount.identity()
    if found is None:
        raise _away(mount)
    return found


def identities(vault: Vault) -> dict[str, Identity]:
    """Identifies the current folders of all vaults, by name. Raises `VaultAway` if one is missing."""
    return {mount.name: identity(mount) for mount in vault.mounts}


def is_within(vault: Vault, path: str) -> bool:
    """Returns whether a path is in one of the vaults, and served."""
    try:
        vault.mount_of(path)
    except BadPath:
        return False
    return vault.visible(path)


def _away(mount: Mount) -> VaultAway:
    return VaultAway(f"The vault's folder {str(mount.root)!r} is missing, or another one is in its place.")


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    with suppress(OSError):
        return entry.is_dir(follow_symlinks=False)
    return False
