"""Files to read, in the pieces in which processes read them.

May import: `paths`, `scan_file`, `scan_walk`.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from tidings.vault.files.paths import Vault
from tidings.vault.index.scan_file import Job
from tidings.vault.index.scan_walk import Seen

MANY_FILES: Final = 500
MANY_BYTES: Final = 5_000_000
"""From so much on, processes of their own read it."""
_CHUNK_FILES: Final = 50
_CHUNK_BYTES: Final = 500_000
"""What such a process reads at once."""


def job_of(vault: Vault, seen: Seen) -> Job:
    """How a file is read."""
    mount, inner = vault.split(seen.path)
    return Job(*seen, str(mount.root), inner)


def chunks_of(vault: Vault, files: Iterable[Seen]) -> Iterator[list[Job]]:
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
