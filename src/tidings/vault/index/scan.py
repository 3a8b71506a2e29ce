"""The differences between the disk and the index, and reading the changed files.

    todo = plan(vault, index)                     # or look(vault, index, paths), where only some may differ
    index.apply([], todo.gone)
    for batch in read_all(vault, todo.changed):
        index.apply(batch.entries, batch.gone)    # batch.unsettled is to be looked at later

The stamp of a file decides whether it is read. A file that changed just before it was read is read once more at the
next occasion: it may change again unnoticed within the same tick of the clock.

A path given to `look` may be a file, a folder, or nothing any more. On a disk that ignores case, only the spelling that
is written there counts. Other paths of the same file, by a hard or a symbolic link, are looked at too.
"""

import os
import pickle
import stat
import unicodedata
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Final, NamedTuple

from tidings._kit.pool import BulkPool, processes_for
from tidings._kit.worker import WorkerLimits
from tidings.vault.files.paths import Vault
from tidings.vault.index import read_file
from tidings.vault.index.index import Index
from tidings.vault.index.read_file import Missed, WalkedFile
from tidings.vault.index.walk import FolderWalk, VaultAway, identities, is_within
from tidings.vault.notes.model import IndexEntry, Stamp, key

Answer = list[IndexEntry | Missed]

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
    """Returns all differences. Raises `VaultAway` if a vault's folder is missing, or another one now and empty.

    Calls `give_way` for each file with the number of differences so far. It may wait.
    """
    roots = identities(vault)
    known = index.stamps()
    vaults_seen: set[str] = set()
    changed: list[WalkedFile] = []
    before: dict[str, Stamp] = {}  # The known stamps of changed files.
    walking = FolderWalk(vault)
    for seen in walking.everything():
        vaults_seen.add(vault.mount_of(seen.path).name)
        if (stamp := known.pop(seen.path, None)) != seen.stamp:
            changed.append(seen)
            if stamp:
                before[seen.path] = stamp
        give_way(len(changed))
    emptied, old_roots = {vault.mount_of(path).name for path in known} - vaults_seen, index.roots()
    for mount in vault.mounts:
        if mount.name in emptied and old_roots.get(mount.name, roots[mount.name]) != roots[mount.name]:
            cure = "its disk seems to be missing. Its index is kept until there are files."
            raise VaultAway(f"The vault's folder {str(mount.root)!r} is empty, and is another one than before: {cure}")
    index.keep_roots(roots)
    return ScanPlan(_marked(changed, before), [path for path in known if not walking.is_unread(path)])


def look(vault: Vault, index: Index, paths: Iterable[str]) -> ScanPlan:
    """Returns the differences at these paths and below. Raises `VaultAway` if a folder is missing, or replaced."""
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
    yield _attachments([seen for seen in files if seen.kind == "attachment"])
    texts = [seen for seen in files if seen.kind != "attachment"]
    # Files over the limit are not read at all.
    sizes = {seen.path: seen.stamp.size for seen in texts if seen.stamp.size <= read_file.LARGEST}
    many = len(sizes) > MANY_FILES or sum(sizes.values()) > MANY_BYTES
    large = {path for path, size in sizes.items() if many or size >= _LARGE_FILE}
    for task in tasks_of(seen for seen in texts if seen.path not in large):
        yield read_file.read_files(task)
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
        read_file.read_files,
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


def _attachments(files: Sequence[WalkedFile]) -> Answer:
    """Returns the entries of attachments. A few are hashed, so that a change of them is noticed."""
    sizes = [seen.stamp.size for seen in files if seen.stamp.size <= _LARGEST_HASHED]
    most = _LARGEST_HASHED if sum(sizes) <= _HASHED_BYTES else -1
    return [read_file.read_attachment(seen) if seen.stamp.size <= most else read_file.name_only(seen) for seen in files]


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


def _marked(files: Iterable[WalkedFile], before: Mapping[str, Stamp]) -> list[WalkedFile]:
    """Marks the files that were emptied since they were read."""
    emptied = {path for path, stamp in before.items() if stamp.size}
    return [seen._replace(emptied=not seen.stamp.size and seen.path in emptied) for seen in files]


class _Look:
    def __init__(self, vault: Vault, index: Index) -> None:
        self._vault = vault
        self._index = index
        self._walk = FolderWalk(vault)
        self._spelling = _Spelling(vault)
        self._waiting: list[str] = []
        self._added: set[str] = set()
        self._changed: dict[str, WalkedFile] = {}
        self._before: dict[str, Stamp] = {}
        self._gone: set[str] = set()

    def add(self, path: str) -> None:
        if path not in self._added and is_within(self._vault, path):
            self._added.add(path)
            self._waiting.append(path)

    def at(self, paths: Iterable[str]) -> ScanPlan:
        for path in paths:
            self.add(path)
        while self._waiting:
            self._look(self._waiting.pop())
        changed = _marked([self._changed[path] for path in sorted(self._changed)], self._before)
        return ScanPlan(changed, sorted(self._gone - set(self._changed)))

    def _look(self, path: str) -> None:
        known = self._index.stamps(path)
        found = {seen.path: seen for seen in self._there(path)}
        changed = {seen.path: seen for seen in found.values() if known.get(seen.path) != seen.stamp}
        gone = {path for path in known if path not in found and not self._walk.is_unread(path)}
        self._changed |= changed
        self._before |= known
        self._gone |= gone
        # Links lead to the former file as well, where another one has taken its place.
        inodes = {seen.stamp.inode for seen in changed.values()}
        inodes |= {known[path].inode for path in {*changed, *gone} & known.keys()}
        for other in self._index.sharing(inodes):
            self.add(other)
        for other in self._spelling.others(path, self._index) if found and not known else ():
            self.add(other)

    def _there(self, path: str) -> Iterator[WalkedFile]:
        """Yields the files at a path and below it. If the disk has another spelling, that is looked at instead."""
        spelled = self._spelling.of(path)
        if spelled == path:
            if seen := self._walk.file(path):
                yield seen
            elif self._spelling.is_folder(path):
                yield from self._walk.below(path)
        elif spelled is not None:
            self.add(spelled)


class _Spelling:
    """The spelling of paths on a disk that may accept others, too."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._known: dict[str, str | None] = {}
        self._names: dict[str, list[str]] = {}
        self._folding: set[str] = set()

    def of(self, path: str) -> str | None:
        """Returns the path as it is on the disk; None if it does not exist, or only through a link to a folder."""
        if path not in self._known:
            self._known[path] = self._find(path)
        return self._known[path]

    def others(self, path: str, index: Index) -> set[str]:
        """Returns other spellings of the path in the index, which cannot exist any more."""
        if path not in self._folding:
            return set()
        above, depth, wanted = path.rpartition("/")[0], path.count("/"), key(path)
        heads = {"/".join(known.split("/")[: depth + 1]) for known in index.stamps(above)}
        return {head for head in heads if head != path and key(head) == wanted}

    def _find(self, path: str) -> str | None:
        if not self._vault.split(path)[1]:
            return path
        above, _, name = path.rpartition("/")
        folder = self.of(above) if above else ""
        if folder is None or not self.is_folder(folder):
            return None
        status = self._status(_join(folder, name))
        if status is None:
            return None
        if not self._folds(folder, name, status):
            return _join(folder, name)
        if folder not in self._names:
            try:
                self._names[folder] = os.listdir(self._place(folder))  # noqa: PTH208 - only the names
            except OSError:
                self._names[folder] = []
        names = self._names[folder]
        written = name if name in names else next((other for other in names if key(other) == key(name)), None)
        if written is None:
            return None
        self._folding.add(_join(folder, written))
        return _join(folder, written)

    def _folds(self, folder: str, name: str, status: os.stat_result) -> bool:
        """Returns whether the disk accepts another spelling of a name for the same file."""
        twins = {name.swapcase(), unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)} - {name}
        others = (self._status(_join(folder, twin)) for twin in twins)
        return any(other is not None and os.path.samestat(other, status) for other in others)

    def is_folder(self, path: str) -> bool:
        """Returns whether it is a folder, and not a link to one."""
        if not path or not self._vault.split(path)[1]:
            return True
        status = self._status(path)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def _status(self, path: str) -> os.stat_result | None:
        try:
            return os.lstat(self._place(path))
        except OSError:
            return None

    def _place(self, path: str) -> str:
        mount, inner = self._vault.split(path)
        return os.path.join(mount.root, inner)  # noqa: PTH118 - faster


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
