"""The files of a vault, read and changed one at a time: locked, checked, and replaced in one step.

Everything that writes begins with `one` or `everything`, which is where a server that only reads refuses.

May import: `paths`, `anchor`, `content`, `locks`, `outcomes`, `replacing`, `texts`, `write_errors`.

Who may write, within this process: one at a time in each folder, or one alone in the whole vault.

Whether a file is still the version that somebody has read; and if it is not, what is different.

May import: `content`, `diffs`, `texts`, `write_errors`.
"""

import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidings.vault.files.content import FileContent, Texts, decode, encode, version_of
from tidings.vault.files.folders import OpenFolder, replace
from tidings.vault.files.outcomes import (
    BadVersion,
    Conflict,
    FileTooLarge,
    FileWritten,
    NotThere,
    ReadOnly,
    WriteFailed,
    explained,
)
from tidings.vault.files.paths import BadPath, Mount, Vault
from tidings.vault.notes.edits import diff


class Locks:
    """Locks that are there as long as somebody holds them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: Counter[Hashable] = Counter()
        self._alone = False
        self._waiting = 0

    @contextmanager
    def one(self, what: Hashable) -> Generator[None]:
        """Hold one thing: others that want it wait, and so does who wants everything."""
        with self._changed:
            # Who wants everything goes first, or it would wait for ever while others come and go.
            self._changed.wait_for(lambda: not self._alone and not self._waiting and not self._held[what])
            self._held[what] += 1
        try:
            yield
        finally:
            with self._changed:
                del self._held[what]
                self._changed.notify_all()

    @contextmanager
    def everything(self) -> Generator[None]:
        """Hold everything: all others wait."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._alone and not +self._held)
            finally:
                self._waiting -= 1
            self._alone = True
        try:
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()


Make = Callable[[FileContent | None], str]
"""Makes a file's new text of what it holds now; None if it is not there."""

_TRIES = 5
"""How often something is done again because another program wrote just then."""


@dataclass(frozen=True, slots=True)
class WriteLimits:
    """How large, in bytes, a file may be."""

    largest_write: int = 10_000_000
    largest_read: int = 20_000_000


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """Where something is, links resolved: the way from the vault's folder, name by name."""

    path: str
    mount: Mount
    folder: tuple[str, ...]
    name: str

    @property
    def real(self) -> str:
        """The path that it has without links, by which the index knows it."""
        return self.mount.path("/".join((*self.folder, self.name)))

    def enter(self, *, create: bool = False) -> OpenFolder:
        """Its folder, held open."""
        return OpenFolder(self.mount.root, self.folder, create=create)


class Disk:
    """The files of a vault."""

    def __init__(
        self, vault: Vault, *, read_only: bool = False, limits: WriteLimits | None = None, texts: Texts | None = None
    ) -> None:
        self.vault = vault
        self.read_only = read_only
        self.limits = limits or WriteLimits()
        self.texts = texts or Texts()
        """What callers have read."""
        self._locks = Locks()

    @contextmanager
    def one(self, path: str, *, creating: bool = False) -> Generator[OpenedFile]:
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

    def place(self, path: str, *, creating: bool = False, follow: bool = True) -> OpenedFile:
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
        return OpenedFile(path, mount, names[:-1], names[-1])

    def read(self, path: str) -> FileContent:
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

    def change(self, place: OpenedFile, make: Make) -> FileWritten:
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

    def _attempt(self, folder: OpenFolder, place: OpenedFile, make: Make) -> FileWritten | None:
        before, seen = self.look(folder, place)
        text = make(before)
        data = encode(text, before.encoding if before is not None and before.problem is None else "utf-8")
        if len(data) > self.limits.largest_write:
            allowed = f"{self.limits.largest_write:,} are allowed. Write several notes."
            raise FileTooLarge(f"The text of {place.path!r} would have {len(data):,} bytes, and {allowed}")
        version, old = version_of(data), before.text if before else ""
        if before is not None and before.version == version:
            return FileWritten(place.path, version, (), before=old, text=text)
        if not replace(folder, place.name, data, seen):
            return None
        return FileWritten(place.path, version, self.touched(place), created=before is None, before=old, text=text)

    def look(self, folder: OpenFolder, place: OpenedFile) -> tuple[FileContent | None, os.stat_result | None]:
        """What a file of a folder holds, and what the system says of it; None if it is not there."""
        try:
            data, seen = folder.read(place.name, self.limits.largest_read)
        except FileNotFoundError:
            return None, None
        except OverflowError as error:
            raise FileTooLarge(
                f"{place.path!r} has {error.args[0]:,} bytes, more than the {self.limits.largest_read:,} that are read."
            ) from None
        return decode(data, mtime=seen.st_mtime), seen

    def touched(self, place: OpenedFile) -> tuple[str, ...]:
        """The paths that a file has: its own, and the one that links on the way lead to."""
        return (place.path,) if place.real == place.path else (place.path, place.real)


_SHORT: Final = 2_000
"""How many characters a text may have to be shown as a whole."""


def check_version(
    texts: Texts, path: str, if_match: str | None, now: FileContent | None, edit: Callable[[str], str] | None = None
) -> None:
    """Refuse to touch a file that is not the version the caller has read.

    Args:
        texts: What callers have read.
        path: Of the file.
        if_match: The version that the caller gives; None if any will do.
        now: What the file holds; None if it is not there.
        edit: What the caller would have made of its text.

    Raises:
        BadVersion: What was given cannot be a version.
        Conflict: The file is another version.
    """
    if if_match is None or (now is not None and now.version == if_match):
        return
    if not re.fullmatch("[0-9a-f]{16}", if_match):
        raise BadVersion(
            f"{if_match[:80]!r} is no version: one has 16 digits, 0 to 9 and a to f. Give the version that `read`, "
            "`info` or a write of the note has told, or leave out if_match."
        )
    if now is None:
        raise Conflict(path, if_match, None)
    details = [
        _since(texts.get(if_match), path, if_match, now.text),
        *([_effect(edit, path, now.text)] if edit else []),
    ]
    raise Conflict(path, if_match, now.version, "" if now.problem else "\n".join(details))


def _since(read: str | None, path: str, version: str, now: str) -> str:
    """What has changed since the caller read it."""
    if read is not None:
        return f"What changed since you read it:\n{diff(read, now, path) or 'Only how it is encoded.'}"
    unknown = f"What it said in version {version} is not known any more."
    return f"{unknown} This is what it says now:\n{now}" if len(now) <= _SHORT else f"{unknown} Read it again."


def _effect(edit: Callable[[str], str], path: str, now: str) -> str:
    """What the caller's change would do to it, as it is now."""
    try:
        wanted = edit(now)
    except ValueError as error:  # What was meant for another text need not fit this one.
        return f"Your change cannot be made to it as it is now: {error}"
    changes = diff(now, wanted, path)
    return f"What your change would do to it now:\n{changes}" if changes else "It says already what you wanted it to."
