"""`FolderWatch`: Linux's inotify for the folders of a vault, and for no others.

Only folders that are served are watched, one watch each: hidden and excluded folders cost nothing, and symbolic links
are not followed. A folder that comes is watched before it is reported, so that whoever then looks at it misses nothing.
"""

import ctypes
import errno
import os
import select
import struct
from collections.abc import Iterable
from contextlib import suppress
from itertools import product
from typing import Any, Final

from tidings.vault.files.paths import Vault

_HEAD: Final = struct.Struct("iIII")  # Watch, mask, cookie, length of the name.
_CHANGES: Final = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200  # modify, attrib, close_write, moved, create, delete
_MOVED_FROM, _GONE, _COMES, _IS_FOLDER = 0x40, 0x40 | 0x200, 0x80 | 0x100, 0x40000000
_OVERFLOW, _IGNORED = 0x4000, 0x8000
_HOW: Final = 0x01000000 | 0x02000000 | 0x04000000  # Folders only, not through links, nothing of deleted files.
_UNREADABLE: Final = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP)
_BUFFER: Final = 1 << 16


class FolderWatch:
    """Watches the folders of `vault`, and the files `settings` of the app. `wait` returns when `stop` can be read.

    Raises `OSError` if the system's limits do not allow it.
    """

    def __init__(self, vault: Vault, settings: Iterable[str], stop: int) -> None:
        self._vault = vault
        self._settings: dict[str, set[str]] = {}
        for mount, name in product(vault.mounts, settings):
            place = os.path.join(mount.root, ".obsidian", name)  # noqa: PTH118 - texts, as below
            self._settings.setdefault(os.path.dirname(place), set()).add(place)  # noqa: PTH120
        self._libc: Any = ctypes.CDLL(None, use_errno=True)
        self._paths: dict[int, str] = {}
        self._file = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._poll = select.poll()
        self._poll.register(self._file, select.POLLIN)
        self._poll.register(stop, select.POLLIN)
        try:
            for mount in vault.mounts:
                self._add(str(mount.root))
            for folder in self._settings:
                self._add_one(folder)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self._file)

    def wait(self, most: float, step: float, tick: float) -> set[str]:
        """Returns what changed: after a change, until nothing follows for `step` s, or for `most` s in all."""
        seen: set[str] = set()
        left, pause = most, tick
        while self._poll.poll(pause * 1000) and left > 0:
            if not self._read(seen):
                break  # To be stopped.
            pause = min(step, left)
            left -= step
        return seen

    def _read(self, seen: set[str]) -> bool:
        try:
            data = os.read(self._file, _BUFFER)
        except BlockingIOError:
            return False
        at = 0
        while at < len(data):
            watch, mask, _, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size + length
            if mask & _OVERFLOW:
                raise OSError("the system has lost some changes")
            if mask & _IGNORED:
                self._paths.pop(watch, None)
            elif (folder := self._paths.get(watch)) is not None:
                name = os.fsdecode(data[at - length : at].rstrip(b"\0"))
                self._note(os.path.join(folder, name) if name else folder, mask, seen)  # noqa: PTH118 - faster
        return True

    def _note(self, path: str, mask: int, seen: set[str]) -> None:
        seen.add(path)
        if mask & _IS_FOLDER and mask & _GONE:
            self._remove(path)
        if mask & _IS_FOLDER and mask & _COMES:
            if self._vault.relative(path) is not None:
                self._add(path)
            elif path in self._settings:
                self._add_one(path)
                seen |= self._settings[path]

    def _add(self, path: str) -> None:
        """Watches a folder and those in it that are served."""
        folders = [path]
        while folders:
            folder = folders.pop()
            if self._add_one(folder):
                folders += self._inside(folder)

    def _inside(self, folder: str) -> Iterable[str]:
        with suppress(OSError), os.scandir(folder) as entries:
            return [
                entry.path
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and self._vault.relative(entry.path) is not None
            ]
        return ()

    def _add_one(self, folder: str) -> bool:
        watch = self._libc.inotify_add_watch(self._file, os.fsencode(folder), _CHANGES | _HOW)
        if watch < 0 and ctypes.get_errno() in _UNREADABLE:
            return False
        self._paths[self._checked(watch)] = folder
        return True

    def _remove(self, path: str) -> None:
        """Forgets a folder that was moved away, or deleted, with all in it."""
        inside = os.path.join(path, "")  # noqa: PTH118
        for watch in [watch for watch, each in self._paths.items() if each == path or each.startswith(inside)]:
            del self._paths[watch]
            self._libc.inotify_rm_watch(self._file, watch)

    def _checked(self, result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            limit = "the system allows no more watched folders (fs.inotify.max_user_watches)"
            raise OSError(number, limit if number in (errno.ENOSPC, errno.EMFILE) else os.strerror(number))
        return result
