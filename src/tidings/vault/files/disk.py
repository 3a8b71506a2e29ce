"""The files of a vault, read and changed one at a time: locked, checked, and replaced in one step.

Everything that writes begins with `one` or `everything`, which is where a server that only reads refuses.

May import: `paths`, `anchor`, `content`, `locks`, `outcomes`, `replacing`, `texts`, `write_errors`.
"""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tidings.vault.files.anchor import Folder
from tidings.vault.files.content import Content, decode, encode, version_of
from tidings.vault.files.locks import Locks
from tidings.vault.files.outcomes import Written
from tidings.vault.files.paths import BadPath, Mount, Vault
from tidings.vault.files.replacing import replace
from tidings.vault.files.texts import Texts
from tidings.vault.files.write_errors import NotThere, ReadOnly, TooLarge, WriteFailed, explained

Make = Callable[[Content | None], str]
"""Makes a file's new text of what it holds now; None if it is not there."""

_TRIES = 5
"""How often something is done again because another program wrote just then."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How large, in bytes, a file may be."""

    largest_write: int = 10_000_000
    largest_read: int = 20_000_000


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is, links resolved: the way from the vault's folder, name by name."""

    path: str
    mount: Mount
    folder: tuple[str, ...]
    name: str

    @property
    def real(self) -> str:
        """The path that it has without links, by which the index knows it."""
        return self.mount.path("/".join((*self.folder, self.name)))

    def enter(self, *, create: bool = False) -> Folder:
        """Its folder, held open."""
        return Folder(self.mount.root, self.folder, create=create)


class Disk:
    """The files of a vault."""

    def __init__(
        self, vault: Vault, *, read_only: bool = False, limits: Limits | None = None, texts: Texts | None = None
    ) -> None:
        self.vault = vault
        self.read_only = read_only
        self.limits = limits or Limits()
        self.texts = texts or Texts()
        """What callers have read."""
        self._locks = Locks()

    @contextmanager
    def one(self, path: str, *, creating: bool = False) -> Generator[Place]:
        """Change one file, while no other of its folder is changed."""
        self._check_allowed()
        place = self.place(path, creating=creating)
        with self._locks.one((place.mount.root, place.folder)):
            yield place

    @contextmanager
    def everything(self) -> Generator[None]:
        """Change several things, while nothing else is changed."""
        self._check_allowed()
        with self._locks.everything():
            yield

    def _check_allowed(self) -> None:
        if self.read_only:
            raise ReadOnly("This server only reads. Start it without --read-only to write.")

    def place(self, path: str, *, creating: bool = False, follow: bool = True) -> Place:
        """Where a path is.

        Args:
            path: The path.
            creating: Whether something may come to be there.
            follow: Whether a link at its end stands for what it leads to, or for itself.

        Raises:
            BadPath: It is nowhere in the vault, or a whole vault.
            WriteFailed: The vault's disk seems to be missing.
        """
        located = self.vault.locate(path, creating=creating)
        mount = self.vault.mount_of(path)
        if missing := self.vault.missing(mount):
            raise WriteFailed(f"{missing} Nothing was changed.")
        if located == mount.root:
            raise BadPath(f"{path!r} is a whole vault.", "Name something in it.")
        real = os.path.realpath(located if follow else located.parent)
        if not follow:
            real = os.path.join(real, located.name)  # noqa: PTH118 - no path yet, only a text to check
        if real == os.fspath(mount.root):
            raise BadPath(f"{path!r} leads to a whole vault.", "Name something in it.")
        # Looked at again, for what `locate` has checked may have been replaced since.
        if not Path(real).is_relative_to(mount.root) or self.vault.relative(real) is None:
            raise BadPath(f"A symbolic link at {path!r} has come to lead out of the vault.", "Try again.")
        names = Path(real).relative_to(mount.root).parts
        return Place(path, mount, names[:-1], names[-1])

    def read(self, path: str) -> Content:
        """What a file holds.

        Raises:
            BadPath: It is no path of this vault.
            NotThere: There is no such file.
            TooLarge: It exceeds the limit.
            WriteFailed: The system does not let it be read.
        """
        place = self.place(path)
        with explained(path, "read"):
            try:
                with place.enter() as folder:
                    content, _ = self.look(folder, place)
            except FileNotFoundError:
                content = None
        if content is None:
            raise NotThere(f"There is no file {path!r}. Check how it is written.")
        return content

    def change(self, place: Place, make: Make) -> Written:
        """Give a file another text. To be called while the place is held, see `one`.

        Raises:
            TooLarge: The text exceeds the limit.
            WriteFailed: The system does not let it be written, or another program keeps changing it.
        """
        with explained(place.path):
            for _ in range(_TRIES):
                try:
                    folder = place.enter()
                except FileNotFoundError:
                    make(None)  # Before any folder is made: this may be refused.
                    folder = place.enter(create=True)
                with folder, folder.locked():
                    written = self._attempt(folder, place, make)
                if written is not None:
                    return written
        raise WriteFailed(f"{place.path!r} was not written: another program keeps changing it. Try again later.")

    def _attempt(self, folder: Folder, place: Place, make: Make) -> Written | None:
        before, seen = self.look(folder, place)
        text = make(before)
        data = encode(text, before.encoding if before is not None and before.problem is None else "utf-8")
        if len(data) > self.limits.largest_write:
            allowed = f"{self.limits.largest_write:,} are allowed. Write several notes."
            raise TooLarge(f"The text of {place.path!r} would have {len(data):,} bytes, and {allowed}")
        version, old = version_of(data), before.text if before else ""
        if before is not None and before.version == version:
            return Written(place.path, version, (), before=old, text=text)
        if not replace(folder, place.name, data, seen):
            return None
        return Written(place.path, version, self.touched(place), created=before is None, before=old, text=text)

    def look(self, folder: Folder, place: Place) -> tuple[Content | None, os.stat_result | None]:
        """What a file of a folder holds, and what the system says of it; None if it is not there."""
        try:
            data, seen = folder.read(place.name, self.limits.largest_read)
        except FileNotFoundError:
            return None, None
        except OverflowError as error:
            raise TooLarge(
                f"{place.path!r} has {error.args[0]:,} bytes, more than the {self.limits.largest_read:,} that are read."
            ) from None
        return decode(data, mtime=seen.st_mtime), seen

    def touched(self, place: Place) -> tuple[str, ...]:
        """The paths that a file has: its own, and the one that links on the way lead to."""
        return (place.path,) if place.real == place.path else (place.path, place.real)
