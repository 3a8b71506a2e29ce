"""Folders of a vault, held open while something in them is read or written.

A path that was checked is only a text: until it is used, somebody can put a symbolic link into it. So the way from
the vault's folder is gone once, name by name, without following any link, and what is then done is done relative to
the folder that was reached, wherever its path may lead meanwhile. Systems that cannot hold folders (Windows) get the
path checked once more instead, right before each step; the time between the two is the gap that remains there.

May import: `path_rules`, `regular`.

Files written in one step: whoever reads sees the old content or the new, never a part, whatever happens.

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
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tidings.vault.files.content import READING, read_open
from tidings.vault.files.paths import BadPath, shorten

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None

_HOLDS = {os.open, os.stat, os.mkdir, os.rename, os.unlink, os.rmdir, os.link} <= os.supports_dir_fd
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_LINK = {"follow_symlinks": False} if os.link in os.supports_follow_symlinks else {}
_PATIENCE = 10.0
"""Seconds to wait for another program of Tidings that writes in the same folder."""


class OpenFolder:
    """A folder within a vault. Names are those of what is directly in it; links are never followed."""

    def __init__(self, root: Path, names: Sequence[str], *, create: bool = False) -> None:
        self.place = root.joinpath(*names)
        self.fd: int | None = None
        self._made: list[Sequence[str]] = []
        self._root = root
        try:
            self._enter(root, names, create=create)
        except BaseException:
            self.close()
            self.discard()
            raise

    def _enter(self, root: Path, names: Sequence[str], *, create: bool) -> None:
        self.fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY) if _HOLDS else None
        self.place = root
        for at, name in enumerate(names):
            if create:
                with suppress(FileExistsError):
                    os.mkdir(self.at(name), dir_fd=self.fd)
                    self._made.append(names[: at + 1])
            self._step(name)

    def _step(self, name: str) -> None:
        found = os.stat(self.at(name), dir_fd=self.fd, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            raise BadPath(f"{shorten(name)} has become a symbolic link meanwhile.", "Try again.")
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
        if self.fd is not None:
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self.fd)
            os.close(self.fd)
            self.fd = below
        self.place /= name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()
        if kind is not None:
            self.discard()

    def close(self) -> None:
        """Let go of it."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def discard(self) -> None:
        """Remove the folders that were made on the way here, as far as they are empty."""
        while self._made:
            *above, name = self._made.pop()
            with suppress(OSError, BadPath), OpenFolder(self._root, above) as folder:
                os.rmdir(folder.at(name), dir_fd=folder.fd)

    def stat(self, name: str) -> os.stat_result | None:
        """What the system says of something here; None if it is not there."""
        try:
            return os.stat(self.at(name), dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def names(self) -> list[str]:
        """What is in it."""
        return os.listdir(self.place if self.fd is None else self.fd)  # noqa: PTH208 - a path is what it is not

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """A descriptor of a file here."""
        return os.open(self.at(name), flags | _PLAIN, mode, dir_fd=self.fd)

    def read(self, name: str, largest: int) -> tuple[bytes, os.stat_result]:
        """The bytes of a file here, and what the system said of it before.

        Raises:
            OverflowError: It is larger than that.
        """
        return read_open(self.open(name, READING), name, largest)

    def rename(self, name: str, other: "OpenFolder", to: str) -> None:
        """Move something to another folder; a file of that name there is replaced in one step."""
        os.replace(self.at(name), other.at(to), src_dir_fd=self.fd, dst_dir_fd=other.fd)

    def link(self, name: str, other: "OpenFolder", to: str) -> None:
        """Give a file a second name, which must not exist."""
        os.link(self.at(name), other.at(to), src_dir_fd=self.fd, dst_dir_fd=other.fd, **_LINK)

    def unlink(self, name: str) -> None:
        """Remove a file."""
        os.unlink(self.at(name), dir_fd=self.fd)

    def sync(self) -> None:
        """See to it that what was renamed here outlives a loss of power, where the system can."""
        if self.fd is not None:
            with suppress(OSError):
                os.fsync(self.fd)

    @contextmanager
    def locked(self) -> Generator[None]:
        """Keep out other programs of Tidings that write here, until it ends. Disks that know no locks do without."""
        if fcntl is None or self.fd is None:
            yield
            return
        until = time.monotonic() + _PATIENCE
        pause = 0.0005
        while True:
            try:
                fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise
                time.sleep(pause)
                pause = min(pause * 2, 0.02)
            except OSError:
                yield
                return
        try:
            yield
        finally:
            fcntl.flock(self.fd, fcntl.LOCK_UN)

    def at(self, name: str) -> str:
        """How the system is told of something here, together with `fd`."""
        if self.fd is not None:
            return name
        if os.path.realpath(self.place) != os.fspath(self.place):
            raise BadPath(f"{shorten(self.place.name)} has become a symbolic link meanwhile.", "Try again.")
        return os.fspath(self.place / name)


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


def replace(folder: OpenFolder, name: str, data: bytes, seen: os.stat_result | None) -> bool:
    """Write a file, if it is still as it was seen (None: not there). Returns whether it was.

    The last look is taken right before the step that replaces the file. A program that knows nothing of Tidings and
    writes in the microseconds in between is overwritten; one of Tidings is kept out (see `OpenFolder.locked`). A file
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


def place(folder: OpenFolder, name: str, other: OpenFolder, to: str) -> bool:
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


def _check_writable(folder: OpenFolder, name: str, seen: os.stat_result) -> None:
    """A file that may not be written is not replaced either, though the system would allow it."""
    allowed = os.access(folder.at(name), os.W_OK, dir_fd=folder.fd)
    if not allowed or not seen.st_mode & 0o222:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)


def _write(folder: OpenFolder, temporary: str, data: bytes, name: str, seen: os.stat_result | None) -> None:
    descriptor = folder.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(descriptor, "wb") as file:
        if seen is not None:
            _keep(folder, descriptor, name, seen)
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _keep(folder: OpenFolder, descriptor: int, name: str, seen: os.stat_result) -> None:
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
