"""Reading many files with worker processes, and beginning with that before the server is imported.

    begin(vault, cache)       # at the very start; nothing is read if there is an index already
    ahead = taken(vault)      # the builder of the index goes on from there, once; None: nothing was begun

A file that was read early counts only if it has not changed when the vault is scanned.
"""

import pickle
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from tidings._kit.pool import BulkPool, processes_for
from tidings._kit.worker import WorkerLimits
from tidings.vault.files.paths import Mount, Vault
from tidings.vault.index.database import has_index
from tidings.vault.index.read_file import Missed, Same, WalkedFile, read_files
from tidings.vault.index.walk import FolderWalk, VaultAway
from tidings.vault.notes.model import IndexEntry

Answer = list[IndexEntry | Missed | Same]
IndexPool = BulkPool[list[WalkedFile], Answer]

MANY_FILES, MANY_BYTES = 500, 5_000_000  # From this many files or bytes on, worker processes read them.
_CHUNK_FILES, _CHUNK_BYTES = 50, 500_000  # The size of one task of a worker process.
_WAITING_ANSWERS: Final = 10  # Answers of each process that may wait: so many that it goes on while a batch is stored.
_EARLY_FILES: Final = 3_000  # Files of an early start: more than can be read in that time.
_EARLY_ANSWERS: Final = 25  # Answers of each process that may wait in an early start.
_LARGEST_EARLY: Final = 100_000  # Bytes; larger files are left for later, so that waiting answers need little memory.
# The nice value leaves a core to the process that stores the answers, which takes longer. Entries contain no cycles,
# and to look for garbage would take a tenth of the time.
_LIMITS: Final = WorkerLimits(nice=10, collect=False)

_begun: dict[tuple[Mount, ...], "Ahead"] = {}


def index_pool(
    tasks: int, *, small: int = 0, room: int = _WAITING_ANSWERS, command: Sequence[str] | None = None
) -> IndexPool:
    """Returns a pool, not yet started. Until it is, tasks of at most `small` bytes are read here."""
    return BulkPool(
        "tidings.vault.index.read_file:answer",
        pickle.loads,
        read_files,
        count=processes_for(tasks),
        limits=_LIMITS,
        small=lambda files: sum(seen.stamp.size for seen in files) <= small,
        room=room,
        command=command,
    )


def tasks_of(files: Iterable[WalkedFile]) -> Iterator[list[WalkedFile]]:
    """Yields the tasks that read files, each of a bounded size."""
    chunk: list[WalkedFile] = []
    size = 0
    for seen in files:
        chunk.append(seen)
        size += seen.stamp.size
        if len(chunk) == _CHUNK_FILES or size > _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


class Ahead:
    """The first files of a vault, while they are being read."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._pool: IndexPool | None = None
        self._paths: frozenset[str] = frozenset()
        # A thread, so that walking the folders overlaps with the import.
        self._thread = threading.Thread(target=self._begin, name="tidings-vault-ahead", daemon=True)
        self._thread.start()

    def take(self) -> tuple[IndexPool | None, frozenset[str]]:
        """Returns the pool, which the caller goes on with and closes, and the files that it was given already."""
        self._thread.join()
        return self._pool, self._paths

    def close(self) -> None:
        pool, _ = self.take()
        if pool is not None:
            pool.close()

    def _begin(self) -> None:
        with suppress(VaultAway):  # The scan reports it.
            texts = (
                seen
                for seen in FolderWalk(self._vault).everything()
                if seen.kind != "attachment" and seen.stamp.size <= _LARGEST_EARLY
            )
            files = list(islice(texts, _EARLY_FILES))
            if processes_for(_EARLY_FILES) and len(files) > MANY_FILES:
                self._paths = frozenset(seen.path for seen in files)
                self._pool = index_pool(_EARLY_FILES, room=_EARLY_ANSWERS)
                self._pool.start()
                self._pool.add(tasks_of(files))


def begin(vault: Vault, cache: Path | None = None) -> None:
    """Begins to read the first files of a vault that has no index yet."""
    if not has_index(vault, cache):
        _begun[vault.mounts] = Ahead(vault)


def taken(vault: Vault) -> Ahead | None:
    """Returns what was begun for this vault, if it was not taken yet."""
    return _begun.pop(vault.mounts, None)
