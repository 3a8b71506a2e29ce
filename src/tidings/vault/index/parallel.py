"""Files to read, in the pieces in which processes read them.

May import: `paths`, `scan_file`, `scan_walk`.

Reading a vault before there is a server: its first files, while that is still being imported.

    begin(vault, cache)       # at the very start; nothing is read if there is an index already
    ahead = taken(vault)      # whoever builds the index goes on from there, once; None: nothing was begun

What was read so early counts only if the file is still the same when the vault is looked at in earnest.

May import: `index_file`, `jobs`, `paths`, `scan_file`, `scan_walk`, `workers`.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from tidings.vault.files.paths import Mount, Vault
from tidings.vault.index.database import has_index
from tidings.vault.index.read_file import Job, ReadLimits
from tidings.vault.index.walk import FolderWalk, VaultAway, WalkedFile
from tidings.vault.index.workers import IndexPool, processes_for

MANY_FILES: Final = 500
MANY_BYTES: Final = 5_000_000
"""From so much on, processes of their own read it."""
_CHUNK_FILES: Final = 50
_CHUNK_BYTES: Final = 500_000
"""What such a process reads at once."""


def job_of(vault: Vault, seen: WalkedFile) -> Job:
    """How a file is read."""
    mount, inner = vault.split(seen.path)
    return Job(*seen, str(mount.root), inner)


def chunks_of(vault: Vault, files: Iterable[WalkedFile]) -> Iterator[list[Job]]:
    """Files as they are given to a process."""
    chunk: list[Job] = []
    size = 0
    for seen in files:
        chunk.append(job_of(vault, seen))
        size += seen.stamp.size
        if len(chunk) == _CHUNK_FILES or size > _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


_MOST: Final = 3_000
"""Files that are looked at so early: more than can be read meanwhile."""
_ROOM: Final = 25
"""Answers of each process that may wait."""
_LARGEST: Final = 100_000
"""Larger files are left for later, so that what waits takes little memory."""

_begun: dict[tuple[Mount, ...], "Ahead"] = {}


class Ahead:
    """The first files of a vault, as they are being read."""

    def __init__(self, vault: Vault, limits: ReadLimits = ReadLimits()) -> None:  # noqa: B008 - a frozen value
        self._vault = vault
        self._limits = limits
        self._workers: IndexPool | None = None
        self._paths: frozenset[str] = frozenset()
        # To look at the folders takes a moment, which is better spent beside the import than before it.
        self._thread = threading.Thread(target=self._begin, name="tidings-vault-ahead", daemon=True)
        self._thread.start()

    def take(self) -> tuple[IndexPool | None, frozenset[str]]:
        """The processes, to be given the rest and closed by whoever takes them; and what they were given already."""
        self._thread.join()
        return self._workers, self._paths

    def _begin(self) -> None:
        count = processes_for(_MOST)
        with suppress(VaultAway):  # Who looks at it in earnest says so.
            files = list(islice(self._texts(), _MOST))
            if count and len(files) > MANY_FILES:
                self._paths = frozenset(seen.path for seen in files)
                self._workers = IndexPool(self._limits, count=count, room=_ROOM)
                self._workers.start()
                self._workers.add(chunks_of(self._vault, files))

    def _texts(self) -> Iterator[WalkedFile]:
        for seen in FolderWalk(self._vault).everything():
            if seen.kind != "attachment" and seen.stamp.size <= _LARGEST:
                yield seen

    def close(self) -> None:
        """End the processes, if nobody goes on with them. May be called after they were taken, too."""
        workers, _ = self.take()
        if workers is not None:
            workers.close()


def begin(vault: Vault, cache: Path | None = None) -> None:
    """Read the first files of a vault that has no index yet."""
    if not has_index(vault, cache):
        _begun[vault.mounts] = Ahead(vault)


def taken(vault: Vault) -> Ahead | None:
    """What was begun for this vault, if nobody has taken it yet."""
    return _begun.pop(vault.mounts, None)
