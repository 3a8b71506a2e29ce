"""What came of a write, or would come of it. `touched` names the paths that may differ now, for the index to look at.

May import: `diffs`.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from tidings.vault.files.diffs import diff


class Skipped(NamedTuple):
    """A file that should have been changed as well, and was not."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Written:
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
class Moved:
    """A file or folder that has another path now."""

    path: str
    to: str
    touched: tuple[str, ...]
    changed: tuple[str, ...] = ()
    """The files whose links were brought up to date, by their paths now."""
    skipped: tuple[Skipped, ...] = ()
    """Those whose links still lead to the old path."""


@dataclass(frozen=True, slots=True)
class Deleted:
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
