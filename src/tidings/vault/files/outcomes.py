"""What came of a write, or would come of it. `touched` names the paths that may differ now, for the index to look at.

May import: `diffs`.

Why something was not written. All of them say what to do about it; whenever one is raised, nothing was changed.

    ValueError
    ├── Conflict        it is not the version that the caller has read
    ├── BadVersion      what the caller gave can be no version at all
    ├── AlreadyThere    something has this name, and was not to be replaced
    ├── NotThere        nothing has this name
    ├── NotText         it cannot be read as text, so that its text cannot be edited
    ├── TooLarge        it exceeds the limit
    └── ReadOnly        the server was started to read only
    OSError
    └── WriteFailed     the disk is full, permission is missing, …

May import: nothing of Tidings.
"""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from tidings.vault.notes.edits import diff


class Skipped(NamedTuple):
    """A file that should have been changed as well, and was not."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class FileWritten:
    """A file that was written; nothing is `touched` if it was like that already."""

    path: str
    version: str
    touched: tuple[str, ...]
    created: bool = False
    before: str = field(default="", repr=False)
    text: str = field(default="", repr=False)

    @property
    def diff(self) -> str:
        """What is different now, as a unified diff of bounded length."""
        return diff(self.before, self.text, self.path)


@dataclass(frozen=True, slots=True)
class FileMoved:
    """A file or folder that has another path now."""

    path: str
    to: str
    touched: tuple[str, ...]
    changed: tuple[str, ...] = ()
    """The files whose links were brought up to date, by their paths now."""
    skipped: tuple[Skipped, ...] = ()
    """Those whose links still lead to the old path."""


@dataclass(frozen=True, slots=True)
class FileDeleted:
    """A file or folder that is in the trash now."""

    path: str
    trash: str
    """Where, from the vault's folder."""
    touched: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Retagged:
    """Notes in which a tag has another name now."""

    touched: tuple[str, ...]
    changed: tuple[str, ...]
    """The notes, each once."""
    count: int
    """How many tags were renamed."""
    skipped: tuple[Skipped, ...] = ()


_CAUSES = {
    errno.ENOSPC: "there is no space left on the disk. Free some",
    errno.EDQUOT: "the disk quota is used up. Free some space",
    errno.EROFS: "the disk can only be read. Make it writable",
    errno.EACCES: "permission is missing. Allow this user to write there",
    errno.EPERM: "permission is missing. Allow this user to write there",
    errno.ENAMETOOLONG: "the name is too long. Choose a shorter one",
    errno.EXDEV: "it would have to go to another disk. Move it by hand",
    errno.ENOENT: "its folder has gone meanwhile. Try again",
    errno.EAGAIN: "another program is writing in its folder. Try again",
    errno.EIO: "the disk does not work properly. Check it",
}


class Conflict(ValueError):
    """Something is not, or no longer, the version that the caller has read.

    Args:
        path: Of the file.
        expected: The version that the caller gave.
        actual: The version that is there; None if nothing is.
        details: What is different, for whoever reads it.
    """

    def __init__(self, path: str, expected: str, actual: str | None, details: str = "") -> None:
        self.path = path
        self.expected = expected
        self.actual = actual
        if actual is None:
            what = f"{path!r} is not there, though version {expected} was to be. Leave out if_match to create it."
        elif details:
            what = (
                f"{path!r} has changed: it is version {actual} now, not {expected}. Nothing was done. See what is "
                f"different, and then try again with if_match='{actual}'.\n{details}"
            )
        else:
            what = f"{path!r} has changed: it is version {actual} now, not {expected}. Read it, and then try again."
        super().__init__(what)


class BadVersion(ValueError):
    """What was given as a version can be none."""


class AlreadyThere(ValueError):
    """Something has this name, and was not to be replaced."""


class NotThere(ValueError):
    """Nothing has this name."""


class NotText(ValueError):
    """A file cannot be read as text, so that its text cannot be edited."""


class FileTooLarge(ValueError):
    """It exceeds the limit."""


class ReadOnly(ValueError):
    """The server was started to read only."""


class WriteFailed(OSError):
    """The disk, or who owns it, did not allow it."""


@contextmanager
def explained(path: str, done: str = "written") -> Generator[None]:
    """Turns what the system says into what a user can act on."""
    try:
        yield
    except WriteFailed:
        raise
    except IsADirectoryError as error:
        raise AlreadyThere(f"{path!r} is a folder. Name a file in it.") from error
    except NotADirectoryError as error:
        raise AlreadyThere(f"One of the folders in {path!r} is a file. Name a folder.") from error
    except OSError as error:
        cause = _CAUSES.get(error.errno or 0) or f"{os.strerror(error.errno) if error.errno else error}. Try again"
        raise WriteFailed(f"{path!r} was not {done}: {cause}. Nothing was changed.") from error
