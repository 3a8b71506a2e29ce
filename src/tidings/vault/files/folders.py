"""Folders of a vault, held open while something in them is read or written; files replaced in one step.

`OpenFolder` walks from the vault's folder once, name by name, without following links, and everything else happens
relative to the folder it reached: another program may put a link into a path that was checked. Systems that cannot hold
folders (Windows) check the path again before each step. New content is on the disk before two files exchange names. If
what was displaced is not what was read, it gets its name back. Killed in between, the hidden file stays until the next
start.
"""

import errno
import os
import stat
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Self

from tidings._kit.files import READING, Locked, same_state, wait_for_lock, write_synced
from tidings._kit.text import quoted
from tidings.vault.files.content import FileContent
from tidings.vault.files.paths import BadPath
from tidings.vault.files.saves import (
    EXCHANGE,
    NO_REPLACE,
    FileLease,
    fill,
    is_wanted,
    read_settled,
    rename_with,
    take_lease,
)

_HOLDS = {os.open, os.stat, os.mkdir, os.rename, os.unlink, os.rmdir, os.link} <= os.supports_dir_fd
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_LINK = {"follow_symlinks": False} if os.link in os.supports_follow_symlinks else {}
_LOCK_SECONDS = 10.0  # The wait for another Tidings process that writes in the same folder.
_LINGER, _LINGER_UNKNOWN = 0.001, 0.02  # Seconds in which what was displaced is looked at.
_CONTENT = attrgetter("st_ino", "st_size", "st_mtime_ns")  # Equal for a file with the same content, whatever its name.
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}


class OpenFolder:
    """A folder within a vault. Names are those of its direct entries; links are never followed."""

    def __init__(self, root: Path, names: Sequence[str], *, create: bool = False) -> None:
        self.place = root
        self.fd: int | None = None
        self._root = root
        self._made: list[Sequence[str]] = []
        with ExitStack() as failed:
            failed.callback(self.discard)
            failed.callback(self.close)
            self.fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY) if _HOLDS else None
            for at, name in enumerate(names):
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(self.at(name), dir_fd=self.fd)
                        self._made.append(names[: at + 1])
                found = os.stat(self.at(name), dir_fd=self.fd, follow_symlinks=False)
                if stat.S_ISLNK(found.st_mode):
                    raise _became_a_link(name)
                if not stat.S_ISDIR(found.st_mode):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
                if self.fd is not None:
                    below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self.fd)
                    os.close(self.fd)
                    self.fd = below
                self.place /= name
            failed.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()
        if kind is not None:
            self.discard()

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def discard(self) -> None:
        """Removes the folders that were created on the way here, as far as they are empty."""
        while self._made:
            *above, name = self._made.pop()
            with suppress(OSError, BadPath), OpenFolder(self._root, above) as folder:
                os.rmdir(folder.at(name), dir_fd=folder.fd)

    def stat(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(self.at(name), dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def changed_at(self) -> float:
        """Returns the time at which a name was added, removed or changed last."""
        return os.stat(self.place if self.fd is None else self.fd).st_mtime  # noqa: PTH116 - it may be a descriptor

    def names(self) -> list[str]:
        return os.listdir(self.place if self.fd is None else self.fd)  # noqa: PTH208 - it may be a descriptor

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        return os.open(self.at(name), flags | _PLAIN, mode, dir_fd=self.fd)

    @contextmanager
    def opened(self, name: str, flags: int) -> Generator[int]:
        descriptor = self.open(name, flags)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def read(
        self, name: str, largest: int, *, seconds: float = 2.0, writing: bool = False
    ) -> tuple[bytes, os.stat_result]:
        """Returns the bytes of a file and its state, once no program is saving it: see `read_settled`."""
        return read_settled(lambda: self.open(name, READING), name, largest, seconds=seconds, writing=writing)

    def rename(self, name: str, other: "OpenFolder", to: str) -> None:
        """Moves an entry to another folder. A file of that name there is replaced in one step."""
        os.replace(self.at(name), other.at(to), src_dir_fd=self.fd, dst_dir_fd=other.fd)

    def unlink(self, name: str) -> None:
        os.unlink(self.at(name), dir_fd=self.fd)

    def sync(self) -> None:
        """Makes sure that renames here survive a power failure, where the system can."""
        if self.fd is not None:
            with suppress(OSError):
                os.fsync(self.fd)

    def lock(self) -> None:
        """Keeps out other Tidings processes that write here until it is closed, where the disk has locks."""
        try:
            if self.fd is not None:
                wait_for_lock(self.fd, _LOCK_SECONDS)
        except OSError as error:
            if isinstance(error, Locked):
                raise

    def at(self, name: str) -> str:
        """Returns the path of an entry for a system call that also takes `fd`."""
        if self.fd is not None:
            return name
        if os.path.realpath(self.place) != os.fspath(self.place):
            raise _became_a_link(self.place.name)
        return os.fspath(self.place / name)


def _became_a_link(name: str) -> BadPath:
    return BadPath(f"{quoted(name)} has just become a symbolic link.", "Try again.")


def replace(
    folder: OpenFolder, name: str, data: bytes, before: FileContent | None, *, hidden: str, in_place: bool = False
) -> bool:
    """Writes a file if it is still as it was `before`, through a `hidden` one or `in_place`. Returns whether it was."""
    seen = before and before.seen
    # The system would allow to replace a file that may not be written.
    if seen is not None and not (os.access(folder.at(name), os.W_OK, dir_fd=folder.fd) and seen.st_mode & 0o222):
        if not same_state(folder.stat(name), seen):
            return False  # Another program has just taken the name away.
        frozen = folder.fd is not None and os.fstatvfs(folder.fd).f_flag & os.ST_RDONLY
        number = errno.EROFS if frozen else errno.EACCES
        raise OSError(number, os.strerror(number), name)
    if before is not None and seen is not None and in_place:
        return _overwrite(folder, name, data, seen, before.data)
    try:
        descriptor = folder.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        if seen is not None:
            _copy_attributes(folder, descriptor, name, seen)
        write_synced(descriptor, data)
        placed = move_to_free_name(folder, hidden, folder, name) if seen is None else _swap(folder, hidden, name, seen)
        folder.sync()
        return placed
    finally:
        with suppress(OSError):
            folder.unlink(hidden)


def _swap(folder: OpenFolder, temporary: str, name: str, seen: os.stat_result) -> bool:
    """Exchanges two files if the second is still as it was `seen`. Otherwise leaves it the content that it has now."""
    with suppress(FileNotFoundError), folder.opened(name, READING) as descriptor:
        lease = take_lease(descriptor)
        if lease is FileLease.BUSY or not same_state(os.fstat(descriptor), seen):
            return False

        def is_expected() -> bool:
            displaced = folder.stat(temporary)
            same = displaced is not None and _CONTENT(displaced) == _CONTENT(seen)
            return same and not (lease is FileLease.HELD and is_wanted(descriptor))

        placed = _inode(folder, temporary)
        exchange(folder, temporary, name)
        if is_expected():
            # A program may just be about to open the old file.
            time.sleep(_LINGER if lease is FileLease.HELD else _LINGER_UNKNOWN)
            if is_expected():
                return True
        while True:
            # What was displaced is newer. So is what comes out when it is put back, unless that is what was put there.
            displaced = _inode(folder, temporary)
            try:
                exchange(folder, temporary, name)
            except FileNotFoundError:
                move_to_free_name(folder, temporary, folder, name)
                return False
            if _inode(folder, temporary) == placed:
                return False
            placed = displaced
    return False


def exchange(folder: OpenFolder, temporary: str, name: str) -> None:
    """Exchanges two files. Where the system cannot do it in one step, the name is free for a moment."""
    if rename_with(EXCHANGE, folder.at(temporary), folder.fd, folder.at(name), folder.fd):
        return
    aside = f"{temporary}.old"
    folder.rename(name, folder, aside)
    try:
        while not move_to_free_name(folder, temporary, folder, name):
            folder.rename(name, folder, aside)  # Somebody has saved again, over what was taken away.
    except OSError:
        folder.rename(aside, folder, name)
        raise
    folder.rename(aside, folder, temporary)


def _inode(folder: OpenFolder, name: str) -> int | None:
    found = folder.stat(name)
    return None if found is None else found.st_ino


def _overwrite(folder: OpenFolder, name: str, data: bytes, seen: os.stat_result, before: bytes) -> bool:
    """Changes the content of a file in place, while no other program has it open. Returns whether that was possible."""
    with suppress(FileNotFoundError), folder.opened(name, os.O_RDWR | os.O_NONBLOCK) as descriptor:
        if take_lease(descriptor, alone=True) is not FileLease.HELD or not same_state(os.fstat(descriptor), seen):
            return False
        try:
            fill(descriptor, data)
        except OSError:
            with suppress(OSError):
                fill(descriptor, before)
            raise
        return _inode(folder, name) == seen.st_ino  # Else another program has put a file of its own there.
    return False


def move_to_free_name(folder: OpenFolder, name: str, other: OpenFolder, to: str) -> bool:
    """Gives a file another name, unless something has that name. Returns whether it was free."""
    try:
        if rename_with(NO_REPLACE, folder.at(name), folder.fd, other.at(to), other.fd):
            other.sync()
            return True
        os.link(folder.at(name), other.at(to), src_dir_fd=folder.fd, dst_dir_fd=other.fd, **_LINK)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if other.stat(to) is not None:
            return False
        folder.rename(name, other, to)
        other.sync()
        return True
    try:
        folder.unlink(name)
    except OSError:
        other.unlink(to)
        raise
    other.sync()
    return True


def _copy_attributes(folder: OpenFolder, descriptor: int, name: str, seen: os.stat_result) -> None:
    """Gives a new file the owner, permissions and extended attributes of the old one, as far as allowed."""
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (seen.st_uid, seen.st_gid):
        with suppress(OSError):
            os.chown(descriptor, seen.st_uid, seen.st_gid)
    if os.chmod in os.supports_fd:
        with suppress(OSError):
            os.chmod(descriptor, stat.S_IMODE(seen.st_mode))
    if hasattr(os, "listxattr"):
        with suppress(OSError), folder.opened(name, READING) as source:
            for attribute in os.listxattr(source):
                with suppress(OSError):
                    os.setxattr(descriptor, attribute, os.getxattr(source, attribute))
