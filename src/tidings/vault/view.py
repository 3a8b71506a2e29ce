"""What a question may look at: the index as it is at this moment, and how far it is to be trusted."""

from dataclasses import dataclass
from typing import Literal

from tidings.vault.files.paths import Vault
from tidings.vault.index.queries import Queries


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the index has come."""

    done: int
    total: int
    """Of the files that have to be read."""


@dataclass(frozen=True, slots=True)
class Status:
    """How the index stands to the disk."""

    phase: Literal["indexing", "watching", "polling", "away"]
    """Whether it is being built, follows the disk as it changes, looks at it from time to time, or cannot see it."""
    progress: Progress | None = None
    """Of the first build, while it is under way."""
    notes: tuple[str, ...] = ()
    """What the user should know of it."""

    @property
    def partial(self) -> bool:
        """Whether an answer may lack something that is in the vault."""
        return self.phase in ("indexing", "away")


@dataclass(frozen=True, slots=True)
class View:
    """A vault, as a question sees it."""

    queries: Queries
    vault: Vault
    status: Status
