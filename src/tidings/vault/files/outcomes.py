"""Results of a write, and the errors that say why nothing was written.

`touched` of a result names the paths that may differ now, for the index to look at. Every error says what to do about
it; whenever one is raised, nothing was changed. A `WriteRefused` says that something does not fit; `WriteFailed` that
the system did not allow it: the disk is full, permission is missing, …
"""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from tidings.vault.notes.edits import diff

_CAUSES = {
    errno.ENOSPC: "there is no space left on the disk. Free some",
    errno.EDQUOT: "the disk quota is used up. Free some space",
    errno.EROFS: "the disk is read-only. Make it writable",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "permission is missing. Give it to this user"),
    errno.ENAMETOOLONG: "the name is too long. Choose a shorter one",
    errno.EXDEV: "it would have to move to another disk. Move it by hand",
    errno.ENOENT: "its folder was removed in the meantime. Try again",
    errno.EAGAIN: "another program is writing it, or in its folder. Try again",
    errno.EIO: "the disk reports an error. Check it",
}


class Skipped(NamedTuple):
    """A file that should have been changed too, and was not."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class FileWritten:
    """A written file. `touched` is empty if it already had this text."""

    path: str
    version: str
    touched: tuple[str, ...]
    created: bool = False
    cut: bool = False  # It had other names (hard links), which keep the old text.
    before: str = field(default="", repr=False)
    text: str = field(default="", repr=False)

    @property
    def diff(self) -> str:
        return diff(self.before, self.text, self.path)


@dataclass(frozen=True, slots=True)
class FileMoved:
    """A file or folder with a new path."""

    path: str
    to: str
    touched: tuple[str, ...]
    changed: tuple[str, ...] = ()  # The files whose links were updated, by their new paths.
    skipped: tuple[Skipped, ...] = ()  # The files whose links still lead to the old path.
    unwritten: tuple[Skipped, ...] = ()  # The links that could not be rewritten, by their files.


@dataclass(frozen=True, slots=True)
class FileDeleted:
    """A file or folder that was moved to the trash."""

    path: str
    trash: str  # Its path in the trash, from the vault's folder.
    touched: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Retagged:
    """Notes in which a tag was renamed."""

    touched: tuple[str, ...]
    changed: tuple[str, ...]  # The notes, each once.
    count: int  # The number of renamed tags.
    skipped: tuple[Skipped, ...] = ()


@dataclass(frozen=True, slots=True)
class Undone:
    """An operation that was undone."""

    did: str  # The operation, in words.
    touched: tuple[str, ...]


class WriteRefused(ValueError):
    """Nothing was read or written. Says why."""


class Conflict(WriteRefused):
    """A file is not the version that the caller has read; `actual` is None if it does not exist."""

    def __init__(self, path: str, expected: str, actual: str | None, details: str = "") -> None:
        what, cure = f"{path!r} has changed: it is version {actual} now, not {expected}.", "Read it, then try again."
        if actual is None:
            what = f"{path!r} does not exist, but version {expected} was expected."
            cure = "Leave out if_match to create it."
        elif details:
            cure = f"Nothing was done. Look at the differences, then try again with if_match='{actual}'.\n{details}"
        super().__init__(f"{what} {cure}")


class AlreadyThere(WriteRefused):
    """The name is taken, and was not to be replaced."""


class NotThere(WriteRefused):
    """Nothing has this name."""


class NotText(WriteRefused):
    """A file cannot be read as text, so its text cannot be edited."""


class FileTooLarge(WriteRefused):
    """A file exceeds the limit."""


class ReadOnly(WriteRefused):
    """The server was started read-only."""


class WriteFailed(OSError):
    """The system did not allow it."""


@contextmanager
def explained(path: str, done: str = "written") -> Generator[None]:
    """Turns errors of the system into errors that say what to do."""
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
        changed = "" if done == "read" else " Nothing was changed."
        raise WriteFailed(f"{path!r} was not {done}: {cause}.{changed}") from error
