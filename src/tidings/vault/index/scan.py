"""The differences between the disk and the index, and reading the changed files.

    todo = plan(vault, index)                     # or look(vault, index, paths), where only some may differ
    index.apply([], todo.gone)
    for batch in read_all(vault, todo.changed):
        index.apply(batch.entries, batch.gone)    # batch.unsettled is to be looked at later

The stamp of a file decides whether it is read. A symbolic link to a file of the same vault counts as a file; one to a
folder is left out, as in Obsidian. A vault whose folder is missing raises `VaultAway` and is not a vault without files.
"""

import errno
import logging
import os
import pickle
import re
import stat
import unicodedata
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from typing import Final, NamedTuple

from tidings._kit.pool import BulkPool, processes_for
from tidings._kit.worker import WorkerLimits
from tidings.vault.files.paths import BadPath, Mount, Vault
from tidings.vault.index import read_file
from tidings.vault.index.index import Index
from tidings.vault.index.read_file import Missed, WalkedFile, kind_of, name_only, read_attachment, stamp_of
from tidings.vault.notes.model import IndexEntry, Stamp, key

logger = logging.getLogger(__name__)

Answer = list[IndexEntry | Missed]
Identity = tuple[int, int]  # The device and inode of a folder.

MANY_FILES, MANY_BYTES = 500, 5_000_000  # From this many files or bytes on, worker processes read them.
_CHUNK_FILES, _CHUNK_BYTES = 50, 500_000  # The size of one task of a worker process.
# The nice value leaves a core to the process that stores the answers, which takes longer. Entries contain no cycles,
# and to look for garbage would take a tenth of the time.
_LIMITS: Final = WorkerLimits(nice=10, collect=False)
_LARGE_FILE: Final = 1_000_000  # Bytes that a worker process always parses: it would block all threads of this one.
_SMALL_CHUNK: Final = 600_000  # Bytes of small files that do not block other threads for long.
# Larger attachments, or more bytes at once, are not hashed: a vault may contain thousands of pictures.
_LARGEST_HASHED, _HASHED_BYTES = 10_000_000, 20_000_000
_FIRST_BATCH, _BATCH_FILES, _BATCH_CHARACTERS = 125, 1000, 8_000_000
_FORBIDDEN: Final = {errno.EACCES, errno.EPERM}


class VaultAway(Exception):
    """The folder of a vault is missing, or another one is in its place. Its files are unknown."""


class FolderWalk:
    """Walks through `vault`, and notes the folders that could not be read."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self.unread: list[str] = []  # Folders that could not be read because of a disk error: their content is unknown.

    def is_unread(self, path: str) -> bool:
        return any(not folder or path.startswith(f"{folder}/") for folder in self.unread)

    def files(self, *within: str) -> Iterator[WalkedFile]:
        """Yields all files below some folders, by default all of the vaults. Raises `VaultAway`."""
        return filter(None, map(self.file, self.paths(*within)))

    def paths(self, *within: str) -> Iterator[str]:
        """Yields the paths of everything there that may be a file, without a look at it."""
        folders = list(within or reversed([mount.name for mount in self._vault.mounts]))
        before = {mount.name: identity(mount) for mount in map(self._vault.mount_of, folders)}
        while folders:
            folder = folders.pop()
            for name, is_folder in self._list(folder, before):
                inner = f"{folder}/{name}" if folder else name
                if not self._vault.visible(inner):
                    if re.search("[\ud800-\udfff]", name):
                        logger.warning("a name in the folder %r is not UTF-8 and is left out: %a", folder, name)
                elif is_folder:
                    folders.append(inner)
                else:
                    yield inner

    def file(self, path: str) -> WalkedFile | None:
        mount, inner = self._vault.split(path)
        place = os.path.join(mount.root, inner)  # noqa: PTH118 - faster
        try:
            status = os.lstat(place)
            if stat.S_ISLNK(status.st_mode):
                real = os.path.realpath(place)
                target = self._vault.relative(real)
                if target is None or self._vault.mount_of(target) != mount:
                    return None
                status = os.stat(real)  # noqa: PTH116 - faster
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        return WalkedFile(path, kind_of(path), stamp_of(status), str(mount.root), inner)

    def _list(self, folder: str, before: Mapping[str, Identity]) -> list[tuple[str, bool]]:
        """Returns the names in a folder, each with whether it is a folder and not a link to one."""
        mount, inner = self._vault.split(folder)
        try:
            with os.scandir(os.path.join(mount.root, inner)) as entries:  # noqa: PTH118
                return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except OSError as error:
            if identity(mount) != before[mount.name]:
                raise _away(mount) from error
            if error.errno in _FORBIDDEN:
                logger.warning("the folder %r may not be read and is left out", folder)
            elif not isinstance(error, FileNotFoundError | NotADirectoryError):
                logger.warning("the folder %r cannot be read at present: %s", folder, error)
                self.unread.append(folder)
            return []


def identity(mount: Mount) -> Identity:
    """Identifies the current folder of a vault. Raises `VaultAway` if it cannot be reached."""
    if (found := mount.identity()) is None:
        raise _away(mount)
    return found


def _away(mount: Mount) -> VaultAway:
    return VaultAway(f"The vault's folder {str(mount.root)!r} is missing, or another one is in its place.")


def identities(vault: Vault) -> dict[str, Identity]:
    """Identifies the current folders of all vaults, by name. Raises `VaultAway` if one is missing."""
    return {mount.name: identity(mount) for mount in vault.mounts}


class ScanPlan(NamedTuple):
    """The work that makes the index equal to the disk."""

    changed: list[WalkedFile]
    gone: list[str]


class ScanBatch(NamedTuple):
    """Files that were read, to be stored at once."""

    entries: list[IndexEntry]
    gone: list[str]
    unsettled: list[str]  # Files that could not be read for now. Their entries stay until they are looked at again.


def plan(vault: Vault, index: Index, give_way: Callable[[int], None] = lambda count: None) -> ScanPlan:
    """Returns all differences; `give_way` gets their number so far, and may wait. Raises `VaultAway`."""
    roots = identities(vault)
    known = index.stamps()
    vaults_seen: set[str] = set()
    changed: list[WalkedFile] = []
    walking = FolderWalk(vault)
    for seen in walking.files():
        vaults_seen.add(vault.mount_of(seen.path).name)
        if (stamp := known.pop(seen.path, None)) != seen.stamp:
            changed.append(_marked(seen, stamp))
        give_way(len(changed))
    emptied, old_roots = {vault.mount_of(path).name for path in known} - vaults_seen, index.roots()
    for mount in vault.mounts:
        if mount.name in emptied and old_roots.get(mount.name, roots[mount.name]) != roots[mount.name]:
            cure = "its disk seems to be missing. Its index is kept until there are files."
            raise VaultAway(f"The vault's folder {str(mount.root)!r} is empty, and is not the same as before: {cure}")
    index.keep_roots(roots)
    return ScanPlan(changed, [path for path in known if not walking.is_unread(path)])


def look(vault: Vault, index: Index, paths: Iterable[str]) -> ScanPlan:
    """Returns the differences at these paths and below, as they are spelled on the disk. Raises `VaultAway`.

    Other paths of the same file, by a hard or a symbolic link, are looked at too.
    """
    before = identities(vault)
    known = index.roots()
    if any(known.get(name, root) != root for name, root in before.items()):
        raise VaultAway("The folder of the vault was replaced by another one. All of it has to be scanned.")
    found = _Look(vault, index).at(paths)
    if found.gone and identities(vault) != before:
        raise VaultAway("The folder of the vault disappeared while it was scanned.")
    return found


def read_all(
    vault: Vault, files: Sequence[WalkedFile], *, stopped: Callable[[], bool] = lambda: False
) -> Generator[ScanBatch]:
    """Reads files in batches, small ones first. Raises `VaultAway`."""
    before = identities(vault)
    with closing(_answers(files, stopped)) as answers:
        for batch in _batches(answers):
            if batch.gone and identities(vault) != before:
                raise VaultAway("The folder of the vault disappeared while it was read.")
            if stopped():
                return
            yield batch


def _answers(files: Sequence[WalkedFile], stopped: Callable[[], bool]) -> Generator[Answer]:
    attachments = [seen for seen in files if seen.kind == "attachment"]
    # A few are hashed, so that a change of them is noticed.
    small = [seen.stamp.size for seen in attachments if seen.stamp.size <= _LARGEST_HASHED]
    most = _LARGEST_HASHED if sum(small) <= _HASHED_BYTES else -1
    yield [(read_attachment if seen.stamp.size <= most else name_only)(seen) for seen in attachments]
    texts = [seen for seen in files if seen.kind != "attachment"]
    # Files over the limit are not read at all.
    sizes = {seen.path: seen.stamp.size for seen in texts if seen.stamp.size <= read_file.LARGEST}
    many = len(sizes) > MANY_FILES or sum(sizes.values()) > MANY_BYTES
    large = {path for path, size in sizes.items() if many or size >= _LARGE_FILE}
    for task in tasks_of(seen for seen in texts if seen.path not in large):
        yield [read_file.read_file(seen) for seen in task]
    tasks = list(tasks_of(seen for seen in texts if seen.path in large))
    if tasks and not stopped():
        with index_pool(len(tasks), small=_SMALL_CHUNK) as pool:
            yield from pool.read(tasks, stopped)


def index_pool(
    tasks: int, *, small: int = 0, command: Sequence[str] | None = None
) -> BulkPool[list[WalkedFile], Answer]:
    """Returns a pool, not yet started. Until it is, tasks of at most `small` bytes are read here."""
    return BulkPool(
        "tidings.vault.index.read_file:answer",
        pickle.loads,
        lambda files: [read_file.read_file(seen) for seen in files],
        count=processes_for(tasks),
        limits=_LIMITS,
        small=lambda files: sum(seen.stamp.size for seen in files) <= small,
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


def _batches(answers: Iterable[Answer]) -> Iterator[ScanBatch]:
    batch, most, size = ScanBatch([], [], []), _FIRST_BATCH, 0
    for answer in answers:
        for item in answer:
            if isinstance(item, Missed):
                (batch.gone if item.why == "gone" else batch.unsettled).append(item.path)
            else:
                batch.entries.append(item)
                size += len(item.text)
        if len(batch.entries) >= most or size > _BATCH_CHARACTERS:
            yield batch
            batch, most, size = ScanBatch([], [], []), min(2 * most, _BATCH_FILES), 0
    if any(batch):
        yield batch


def _marked(seen: WalkedFile, known: Stamp | None) -> WalkedFile:
    """Marks a file that was emptied since it was read."""
    return seen._replace(emptied=known is not None and known.size > 0 and not seen.stamp.size)


class _Look:
    """Looks at paths, as they are spelled on a disk that may accept other spellings, too."""

    def __init__(self, vault: Vault, index: Index) -> None:
        self._vault = vault
        self._index = index
        self._walk = FolderWalk(vault)
        self._waiting: list[str] = []
        self._added: set[str] = set()
        self._changed: dict[str, WalkedFile] = {}
        self._gone: set[str] = set()
        self._folding: set[str] = set()  # Paths that can be spelled in several ways.
        self._spelled = cache(self._find)
        self._names = cache(self._list)

    def add(self, path: str) -> None:
        with suppress(BadPath):
            self._vault.mount_of(path)
            if path not in self._added and self._vault.visible(path):
                self._added.add(path)
                self._waiting.append(path)

    def at(self, paths: Iterable[str]) -> ScanPlan:
        for path in paths:
            self.add(path)
        while self._waiting:
            self._look(self._waiting.pop())
        return ScanPlan(
            [self._changed[path] for path in sorted(self._changed)], sorted(self._gone - set(self._changed))
        )

    def _look(self, path: str) -> None:
        known = self._index.stamps(path)
        found: dict[str, WalkedFile] = {}
        if (spelled := self._spelled(path)) == path:
            file = self._walk.file(path)
            found = {
                seen.path: seen
                for seen in ([file] if file else self._walk.files(path) if self._is_folder(path) else [])
            }
        elif spelled is not None:
            self.add(spelled)
        new = (seen for seen in found.values() if known.get(seen.path) != seen.stamp)
        changed = {seen.path: _marked(seen, known.get(seen.path)) for seen in new}
        gone = {path for path in known if path not in found and not self._walk.is_unread(path)}
        self._changed |= changed
        self._gone |= gone
        # Links lead to the former file as well, where another one has taken its place.
        inodes = {seen.stamp.inode for seen in changed.values()}
        inodes |= {known[path].inode for path in {*changed, *gone} & known.keys()}
        for other in self._index.sharing(inodes):
            self.add(other)
        if found and not known and path in self._folding:  # Other spellings in the index cannot exist any more.
            above, depth = path.rpartition("/")[0], path.count("/") + 1
            for other in {"/".join(stored.split("/")[:depth]) for stored in self._index.stamps(above)} - {path}:
                if key(other) == key(path):
                    self.add(other)

    def _find(self, path: str) -> str | None:
        """Returns the path as it is on the disk; None if it does not exist, or only through a link to a folder."""
        if not self._vault.split(path)[1]:
            return path
        above, _, name = path.rpartition("/")
        folder = self._spelled(above) if above else ""
        if folder is None or not self._is_folder(folder):
            return None
        place = f"{folder}/".removeprefix("/")
        status = self._status(place + name)
        # Does the disk accept another spelling of the name for the same file?
        twins = {name.swapcase(), unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)} - {name}
        others = (self._status(place + twin) for twin in twins)
        if status is None or not any(other is not None and os.path.samestat(other, status) for other in others):
            return None if status is None else place + name
        names = self._names(folder)
        written = name if name in names else next((other for other in names if key(other) == key(name)), None)
        if written is not None:
            self._folding.add(place + written)
        return None if written is None else place + written

    def _list(self, folder: str) -> list[str]:
        with suppress(OSError):
            return os.listdir(self._place(folder))  # noqa: PTH208 - only the names
        return []

    def _is_folder(self, path: str) -> bool:
        """Returns whether it is a folder, and not a link to one."""
        if not path or not self._vault.split(path)[1]:
            return True
        status = self._status(path)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def _status(self, path: str) -> os.stat_result | None:
        with suppress(OSError):
            return os.lstat(self._place(path))
        return None

    def _place(self, path: str) -> str:
        mount, inner = self._vault.split(path)
        return os.path.join(mount.root, inner)  # noqa: PTH118 - faster
