"""Folders of a vault, held open while something in them is read or written.

A path that was checked is only a text: until it is used, somebody can put a symbolic link into it. So the way from
the vault's folder is gone once, name by name, without following any link, and what is then done is done relative to
the folder that was reached, wherever its path may lead meanwhile. Systems that cannot hold folders (Windows) get the
path checked once more instead, right before each step; the time between the two is the gap that remains there.

May import: `path_rules`, `regular`.
"""

import errno
import os
import stat
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tidings.vault.files.path_rules import BadPath, shorten
from tidings.vault.files.regular import READING, read_open

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None

_HOLDS = {os.open, os.stat, os.mkdir, os.rename, os.unlink, os.rmdir, os.link} <= os.supports_dir_fd
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_LINK = {"follow_symlinks": False} if os.link in os.supports_follow_symlinks else {}
_PATIENCE = 10.0
"""Seconds to wait for another program of Tidings that writes in the same folder."""


class Folder:
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
            with suppress(OSError, BadPath), Folder(self._root, above) as folder:
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

    def rename(self, name: str, other: "Folder", to: str) -> None:
        """Move something to another folder; a file of that name there is replaced in one step."""
        os.replace(self.at(name), other.at(to), src_dir_fd=self.fd, dst_dir_fd=other.fd)

    def link(self, name: str, other: "Folder", to: str) -> None:
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
