"""From the disk to the index: what is different, and what it holds.

    todo = plan(vault, index)                     # or look(vault, index, paths), where only some may be different
    index.apply([], todo.gone)
    for batch in read_all(vault, todo.changed):
        index.apply(batch.entries, batch.gone, batch.same)    # batch.unsettled is to be looked at later

What the file system says of a file (its stamp) decides whether it is read. A file that changed just before it was read
is read once more at the next occasion: within the same tick of the clock it may change unnoticed.

May import: `ahead`, `index`, `jobs`, `model`, `paths`, `scan_*`, `workers`.

What is different of some files and folders, about which something was heard.

A path may be a file by now, a folder (all that is in it is looked at), or nothing (all that was in it is gone). The
names on the disk decide: where the disk takes `a.md` and `A.md` for the same file, only the one that is written there
is. Another path of the same file, by a hard or a symbolic link, is looked at too.

May import: `index`, `paths`, `scan_file`, `scan_walk`.
"""

import os
import stat
import unicodedata
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from typing import Final, NamedTuple, cast

from tidings.vault.files.paths import Vault, key
from tidings.vault.index.index import Index
from tidings.vault.index.parallel import MANY_BYTES, MANY_FILES, Ahead, chunks_of, job_of
from tidings.vault.index.read_file import (
    Missed,
    ReadLimits,
    Same,
    is_same_but_racy,
    name_only,
    read_attachment,
    read_file,
)
from tidings.vault.index.walk import FolderWalk, Identity, VaultAway, WalkedFile, identities, is_within
from tidings.vault.index.workers import Answer, IndexPool, processes_for
from tidings.vault.notes.model import IndexEntry


class ScanPlan(NamedTuple):
    """What has to be done so that the index equals the disk."""

    changed: list[WalkedFile]
    """To be read."""
    gone: list[str]
    """In the index, but not there any more."""


def with_hashes(files: list[WalkedFile], racy: Iterable[str], index: Index) -> list[WalkedFile]:
    """The files; those that are looked at only to be sure, with what is known of them."""
    hashes = index.hashes(racy)
    return [seen._replace(hash=hashes.get(seen.path)) for seen in files] if hashes else files


def look(vault: Vault, index: Index, paths: Iterable[str]) -> ScanPlan:
    """What is different at these paths, and below them.

    Raises:
        VaultAway: The folder of a vault is not there, or is another one than when `plan` was last called.
    """
    before = identities(vault)
    known = index.roots()
    if any(known.get(name, root) != root for name, root in before.items()):
        raise VaultAway("The folder of the vault was replaced by another one. All of it has to be looked at.")
    looking = _Look(vault, index)
    for path in paths:
        looking.add(path)
    found = looking.run()
    if found.gone and identities(vault) != before:
        raise VaultAway("The folder of the vault went away while it was looked at.")
    return found


class _Look:
    def __init__(self, vault: Vault, index: Index) -> None:
        self._vault = vault
        self._index = index
        self._walk = FolderWalk(vault)
        self._spelling = _Spelling(vault)
        self._waiting: list[str] = []
        self._added: set[str] = set()
        self._changed: dict[str, WalkedFile] = {}
        self._racy: set[str] = set()
        self._gone: set[str] = set()

    def add(self, path: str) -> None:
        if path not in self._added and is_within(self._vault, path):
            self._added.add(path)
            self._waiting.append(path)

    def run(self) -> ScanPlan:
        while self._waiting:
            self._look(self._waiting.pop())
        changed = with_hashes([self._changed[path] for path in sorted(self._changed)], self._racy, self._index)
        return ScanPlan(changed, sorted(self._gone - set(self._changed)))

    def _look(self, path: str) -> None:
        known = self._index.stamps(path)
        found = {seen.path: seen for seen in self._there(path)}
        changed = {seen.path: seen for seen in found.values() if known.get(seen.path) != seen.stamp}
        gone = {path for path in known if path not in found and not self._walk.is_unread(path)}
        self._changed |= changed
        self._racy.update(
            path for path, seen in changed.items() if path in known and is_same_but_racy(known[path], seen.stamp)
        )
        self._gone |= gone
        inodes = {seen.stamp.inode for seen in changed.values()} | {known[path].inode for path in gone}
        for other in self._index.sharing(inodes):
            self.add(other)
        for other in self._spelling.others(path, self._index) if found and not known else ():
            self.add(other)

    def _there(self, path: str) -> Iterator[WalkedFile]:
        """The files at a path and below it. If it is written otherwise on the disk, that is looked at instead."""
        spelled = self._spelling.of(path)
        if spelled == path:
            if seen := self._walk.file(path):
                yield seen
            elif self._spelling.is_folder(path):
                yield from self._walk.below(path)
        elif spelled is not None:
            self.add(spelled)


class _Spelling:
    """How paths are written on a disk that may take other spellings for them too."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._known: dict[str, str | None] = {}
        self._names: dict[str, list[str]] = {}
        self._folding: set[str] = set()

    def of(self, path: str) -> str | None:
        """The path as it is written, or None if it is not there, or only by way of a link to a folder."""
        if path not in self._known:
            self._known[path] = self._find(path)
        return self._known[path]

    def others(self, path: str, index: Index) -> set[str]:
        """Other spellings by which the index knows what is there, though none of them can be true any more."""
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
        names = self._list(folder)
        written = name if name in names else next((other for other in names if key(other) == key(name)), None)
        if written is None:
            return None
        self._folding.add(_join(folder, written))
        return _join(folder, written)

    def _folds(self, folder: str, name: str, status: os.stat_result) -> bool:
        """Whether the disk takes another spelling of a name for the same: then it need not be written like this."""
        twins = {name.swapcase(), unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)} - {name}
        others = (self._status(_join(folder, twin)) for twin in twins)
        return any(other is not None and os.path.samestat(other, status) for other in others)

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder, and not a link to one."""
        if not path or not self._vault.split(path)[1]:
            return True
        status = self._status(path)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def _list(self, folder: str) -> list[str]:
        if folder not in self._names:
            try:
                self._names[folder] = os.listdir(self._place(folder))  # noqa: PTH208 - names are all that is wanted
            except OSError:
                self._names[folder] = []
        return self._names[folder]

    def _status(self, path: str) -> os.stat_result | None:
        try:
            return os.lstat(self._place(path))
        except OSError:
            return None

    def _place(self, path: str) -> str:
        mount, inner = self._vault.split(path)
        return os.path.join(mount.root, inner)  # noqa: PTH118 - thousands of times


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


__all__ = [
    "ReadLimits",
    "ScanBatch",
    "ScanPlan",
    "VaultAway",
    "WalkedFile",
    "build",
    "look",
    "plan",
    "read",
    "read_all",
    "walk",
]

_LARGE_FILE: Final = 1_000_000
"""One of so many bytes is always read by such a process: its text would keep all threads of this one waiting."""
_SMALL_CHUNK: Final = 600_000
"""So many bytes of small files keep nobody waiting for long."""
_LARGEST_HASHED: Final = 10_000_000
_HASHED_BYTES: Final = 20_000_000
"""Larger attachments, or more at once, are not hashed: a vault may hold thousands of pictures."""
_BATCH_FILES: Final = 1000
_BATCH_CHARACTERS: Final = 8_000_000
"""What is stored at once."""
_FIRST_BATCH: Final = 125


class ScanBatch(NamedTuple):
    """Files that were read, to be stored in one go."""

    entries: list[IndexEntry]
    gone: list[str]
    """Not there any more."""
    unsettled: list[str]
    """Could not be read for now. What is known of them stays, until they are looked at again."""
    same: Sequence[Same] = ()
    """Were read again, and hold what they did."""


def walk(vault: Vault) -> Iterator[WalkedFile]:
    """All files of the vault.

    Raises:
        VaultAway: The folder of a vault is not there, or not any more.
    """
    return FolderWalk(vault).everything()


def plan(vault: Vault, index: Index) -> ScanPlan:
    """What is different anywhere.

    Raises:
        VaultAway: The folder of a vault is not there; or it has become another one that is empty, as the place is
            where a disk was mounted.
    """
    roots = identities(vault)
    known = index.stamps()
    vaults_seen: set[str] = set()
    changed: list[WalkedFile] = []
    racy: set[str] = set()
    walking = FolderWalk(vault)
    for seen in walking.everything():
        vaults_seen.add(vault.mount_of(seen.path).name)
        if (before := known.pop(seen.path, None)) != seen.stamp:
            changed.append(seen)
            if before and is_same_but_racy(before, seen.stamp):
                racy.add(seen.path)
    _check_there(vault, {vault.mount_of(path).name for path in known} - vaults_seen, roots, index.roots())
    index.keep_roots(roots)
    return ScanPlan(with_hashes(changed, racy, index), [path for path in known if not walking.is_unread(path)])


def read(vault: Vault, path: str, limits: ReadLimits = ReadLimits()) -> IndexEntry | Missed:  # noqa: B008 - a frozen value
    """What a file holds by now."""
    seen = FolderWalk(vault).file(path)
    # Nothing is said of what it held before, so it is never the same.
    return cast("IndexEntry | Missed", read_file(job_of(vault, seen), limits)) if seen else Missed(path, "gone")


def read_all(
    vault: Vault,
    files: Sequence[WalkedFile],
    *,
    limits: ReadLimits = ReadLimits(),  # noqa: B008 - a frozen value
    stopped: Callable[[], bool] = lambda: False,
    ahead: Ahead | None = None,
) -> Generator[ScanBatch]:
    """What files hold: small batches first, so that there is something to see soon. Ends early when `stopped`.

    What was read `ahead` is not read again if it is the same still.

    Raises:
        VaultAway: The folder of a vault is not there any more.
    """
    before = identities(vault)
    with closing(_answers(vault, files, limits, stopped, ahead)) as answers:
        for batch in _batches(answers):
            if batch.gone and identities(vault) != before:
                raise VaultAway("The folder of the vault went away while it was read.")
            if stopped():
                return
            yield batch


def build(
    vault: Vault,
    index: Index,
    *,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
    stopped: Callable[[], bool] = lambda: False,
) -> list[str]:
    """Bring the index to where the disk is; the files that could not be read for now.

    Raises:
        VaultAway: The folder of a vault is not there.
        IndexBlocked: The index could not be written. What was stored before is.
        IndexDamaged: The index has to be built anew.
    """
    todo = plan(vault, index)
    index.apply([], todo.gone)
    unsettled: list[str] = []
    done = 0
    for batch in read_all(vault, todo.changed, stopped=stopped):
        index.apply(batch.entries, batch.gone, batch.same)
        unsettled += batch.unsettled
        done += sum(map(len, batch))
        on_progress(done, len(todo.changed))
    return unsettled


def _check_there(vault: Vault, emptied: set[str], now: Mapping[str, Identity], before: Mapping[str, Identity]) -> None:
    for mount in vault.mounts:
        if mount.name in emptied and before.get(mount.name, now[mount.name]) != now[mount.name]:
            raise VaultAway(
                f"The vault's folder {str(mount.root)!r} is empty, and is another one than before: its disk seems to "
                "be missing. What is known of it is kept until files are there."
            )


def _answers(
    vault: Vault,
    files: Sequence[WalkedFile],
    limits: ReadLimits,
    stopped: Callable[[], bool],
    ahead: Ahead | None = None,
) -> Generator[Answer]:
    """Files as they are read. Attachments come first."""
    workers, begun = ahead.take() if ahead else (None, frozenset[str]())
    with workers or nullcontext():
        yield _attachments(vault, [seen for seen in files if seen.kind == "attachment"])
        texts = [seen for seen in files if seen.kind != "attachment"]
        # What is over the limit is not read at all.
        sizes = {seen.path: seen.stamp.size for seen in texts if seen.stamp.size <= limits.size}
        many = len(sizes) > MANY_FILES or sum(sizes.values()) > MANY_BYTES
        large = {path for path, size in sizes.items() if many or size >= _LARGE_FILE}
        for chunk in chunks_of(vault, (seen for seen in texts if seen.path not in large)):
            yield [read_file(job, limits) for job in chunk]
        by_workers = [seen for seen in texts if seen.path in large]
        if workers is not None:
            early = {seen.path: seen for seen in by_workers if seen.path in begun}
            chunks = chunks_of(vault, (seen for seen in by_workers if seen.path not in begun))
            for answer in workers.read(chunks, stopped):
                yield [item for item in answer if _counts(item, begun, early)]
            by_workers = list(early.values())
    if by_workers and not stopped():
        chunks = list(chunks_of(vault, by_workers))
        with IndexPool(limits, count=processes_for(len(chunks)), small=_SMALL_CHUNK) as workers:
            yield from workers.read(chunks, stopped)


def _counts(item: IndexEntry | Missed | Same, begun: frozenset[str], early: dict[str, WalkedFile]) -> bool:
    """Whether an answer is one to what was asked: what was begun early is, if the file is the same still."""
    return item.path not in begun or (_is_still(item, early.get(item.path)) and bool(early.pop(item.path)))


def _is_still(item: IndexEntry | Missed | Same, seen: WalkedFile | None) -> bool:
    if seen is None or not isinstance(item, IndexEntry):
        return False
    return item.stamp == seen.stamp


def _attachments(vault: Vault, files: Sequence[WalkedFile]) -> Answer:
    """Attachments, by their names. A few are hashed too: which of them changed is told by that."""
    sizes = [seen.stamp.size for seen in files if seen.stamp.size <= _LARGEST_HASHED]
    most = _LARGEST_HASHED if sum(sizes) <= _HASHED_BYTES else -1
    return [
        read_attachment(job_of(vault, seen)) if seen.stamp.size <= most else name_only(seen.path, seen.kind, seen.stamp)
        for seen in files
    ]


def _batches(answers: Iterable[Answer]) -> Iterator[ScanBatch]:
    batch, same, most = ScanBatch([], [], []), list[Same](), _FIRST_BATCH
    size = 0
    for answer in answers:
        for item in answer:
            if isinstance(item, Missed):
                (batch.gone if item.why == "gone" else batch.unsettled).append(item.path)
            elif isinstance(item, Same):
                same.append(item)
            else:
                batch.entries.append(item)
                size += len(item.text)
        if len(batch.entries) >= most or size > _BATCH_CHARACTERS:
            yield batch._replace(same=same)
            batch, same, most, size = ScanBatch([], [], []), [], min(2 * most, _BATCH_FILES), 0
    if any(batch) or same:
        yield batch._replace(same=same)
