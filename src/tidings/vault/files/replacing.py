"""Files written in one step: whoever reads sees the old content or the new, never a part, whatever happens.

The new content goes to a file beside the old one, hidden, so that nobody takes it for a note; it is on the disk
before it takes the old one's name. If the program is killed in between, that file stays: `sweep` finds it later.

May import: `anchor`, `regular`, `write_errors`.
"""

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tidings.vault.files.anchor import Folder
from tidings.vault.files.regular import READING

_TEMPORARY = re.compile(r"\.tidings-[0-9a-f]{16}\.tmp")
_STALE = 3600.0
"""Seconds after which no write can still be going on."""
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}


def same_file(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    """Whether nothing was written between two looks at a file, as far as the system can tell."""
    if one is None or other is None:
        return one is other
    return (one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) == (
        other.st_ino,
        other.st_size,
        other.st_mtime_ns,
        other.st_ctime_ns,
    )


def replace(folder: Folder, name: str, data: bytes, seen: os.stat_result | None) -> bool:
    """Write a file, if it is still as it was seen (None: not there). Returns whether it was.

    The last look is taken right before the step that replaces the file. A program that knows nothing of Tidings and
    writes in the microseconds in between is overwritten; one of Tidings is kept out (see `Folder.locked`). A file
    that was not there is never overwritten, where the disk knows hard links.
    """
    if seen is not None:
        _check_writable(folder, name, seen)
    temporary = f".tidings-{secrets.token_hex(8)}.tmp"
    try:
        _write(folder, temporary, data, name, seen)
        if not same_file(folder.stat(name), seen):
            return False
        if seen is None:
            return place(folder, temporary, folder, name)
        folder.rename(temporary, folder, name)
        folder.sync()
        return True
    finally:
        with suppress(OSError):
            folder.unlink(temporary)


def place(folder: Folder, name: str, other: Folder, to: str) -> bool:
    """Give a file another name, if nothing has it. Returns whether nothing had."""
    try:
        folder.link(name, other, to)
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


def sweep(root: Path, *, now: float | None = None) -> int:
    """Remove what writes that were killed have left behind, and return how many."""
    until = (time.time() if now is None else now) - _STALE
    count = 0
    for place in _temporaries(root):
        with suppress(OSError):
            if place.lstat().st_mtime < until:
                place.unlink()
                count += 1
    return count


def _temporaries(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if _TEMPORARY.fullmatch(name):
                yield Path(folder, name)


def _check_writable(folder: Folder, name: str, seen: os.stat_result) -> None:
    """A file that may not be written is not replaced either, though the system would allow it."""
    allowed = os.access(folder.at(name), os.W_OK, dir_fd=folder.fd)
    if not allowed or not seen.st_mode & 0o222:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)


def _write(folder: Folder, temporary: str, data: bytes, name: str, seen: os.stat_result | None) -> None:
    descriptor = folder.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(descriptor, "wb") as file:
        if seen is not None:
            _keep(folder, descriptor, name, seen)
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _keep(folder: Folder, descriptor: int, name: str, seen: os.stat_result) -> None:
    """Owner, permissions and extended attributes as they were, as far as the system lets us."""
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (seen.st_uid, seen.st_gid):
        with suppress(OSError):
            os.chown(descriptor, seen.st_uid, seen.st_gid)
    if os.chmod in os.supports_fd:
        with suppress(OSError):
            os.chmod(descriptor, stat.S_IMODE(seen.st_mode))
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            source = folder.open(name, READING)
            try:
                for attribute in os.listxattr(source):
                    with suppress(OSError):
                        os.setxattr(descriptor, attribute, os.getxattr(source, attribute))
            finally:
                os.close(source)
