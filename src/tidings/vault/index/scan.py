"""From the disk to the index: what is different, and what it holds.

    todo = plan(vault, index)                     # or look(vault, index, paths), where only some may be different
    index.apply([], todo.gone)
    for batch in read_all(vault, todo.changed):
        index.apply(batch.entries, batch.gone, batch.same)    # batch.unsettled is to be looked at later

What the file system says of a file (its stamp) decides whether it is read. A file that changed just before it was read
is read once more at the next occasion: within the same tick of the clock it may change unnoticed.

May import: `ahead`, `index`, `jobs`, `model`, `paths`, `scan_*`, `workers`.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from typing import Final, NamedTuple, cast

from tidings.vault.files.paths import Vault
from tidings.vault.index.ahead import Ahead
from tidings.vault.index.index import Index
from tidings.vault.index.jobs import MANY_BYTES, MANY_FILES, chunks_of, job_of
from tidings.vault.index.scan_file import (
    Limits,
    Missed,
    Same,
    is_same_but_racy,
    name_only,
    read_attachment,
    read_file,
)
from tidings.vault.index.scan_look import Plan, look, with_hashes
from tidings.vault.index.scan_walk import Identity, Seen, VaultAway, Walk, identities
from tidings.vault.index.workers import Answer, Workers, processes_for
from tidings.vault.text.model import Entry

__all__ = ["Batch", "Limits", "Plan", "Seen", "VaultAway", "build", "look", "plan", "read", "read_all", "walk"]

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


class Batch(NamedTuple):
    """Files that were read, to be stored in one go."""

    entries: list[Entry]
    gone: list[str]
    """Not there any more."""
    unsettled: list[str]
    """Could not be read for now. What is known of them stays, until they are looked at again."""
    same: Sequence[Same] = ()
    """Were read again, and hold what they did."""


def walk(vault: Vault) -> Iterator[Seen]:
    """All files of the vault.

    Raises:
        VaultAway: The folder of a vault is not there, or not any more.
    """
    return Walk(vault).everything()


def plan(vault: Vault, index: Index) -> Plan:
    """What is different anywhere.

    Raises:
        VaultAway: The folder of a vault is not there; or it has become another one that is empty, as the place is
            where a disk was mounted.
    """
    roots = identities(vault)
    known = index.stamps()
    vaults_seen: set[str] = set()
    changed: list[Seen] = []
    racy: set[str] = set()
    walking = Walk(vault)
    for seen in walking.everything():
        vaults_seen.add(vault.mount_of(seen.path).name)
        if (before := known.pop(seen.path, None)) != seen.stamp:
            changed.append(seen)
            if before and is_same_but_racy(before, seen.stamp):
                racy.add(seen.path)
    _check_there(vault, {vault.mount_of(path).name for path in known} - vaults_seen, roots, index.roots())
    index.keep_roots(roots)
    return Plan(with_hashes(changed, racy, index), [path for path in known if not walking.is_unread(path)])


def read(vault: Vault, path: str, limits: Limits = Limits()) -> Entry | Missed:  # noqa: B008 - a frozen value
    """What a file holds by now."""
    seen = Walk(vault).file(path)
    # Nothing is said of what it held before, so it is never the same.
    return cast("Entry | Missed", read_file(job_of(vault, seen), limits)) if seen else Missed(path, "gone")


def read_all(
    vault: Vault,
    files: Sequence[Seen],
    *,
    limits: Limits = Limits(),  # noqa: B008 - a frozen value
    stopped: Callable[[], bool] = lambda: False,
    ahead: Ahead | None = None,
) -> Generator[Batch]:
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
    vault: Vault, files: Sequence[Seen], limits: Limits, stopped: Callable[[], bool], ahead: Ahead | None = None
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
        with Workers(limits, count=processes_for(len(chunks)), small=_SMALL_CHUNK) as workers:
            yield from workers.read(chunks, stopped)


def _counts(item: Entry | Missed | Same, begun: frozenset[str], early: dict[str, Seen]) -> bool:
    """Whether an answer is one to what was asked: what was begun early is, if the file is the same still."""
    return item.path not in begun or (_is_still(item, early.get(item.path)) and bool(early.pop(item.path)))


def _is_still(item: Entry | Missed | Same, seen: Seen | None) -> bool:
    if seen is None or not isinstance(item, Entry):
        return False
    return item.stamp == seen.stamp


def _attachments(vault: Vault, files: Sequence[Seen]) -> Answer:
    """Attachments, by their names. A few are hashed too: which of them changed is told by that."""
    sizes = [seen.stamp.size for seen in files if seen.stamp.size <= _LARGEST_HASHED]
    most = _LARGEST_HASHED if sum(sizes) <= _HASHED_BYTES else -1
    return [
        read_attachment(job_of(vault, seen)) if seen.stamp.size <= most else name_only(seen.path, seen.kind, seen.stamp)
        for seen in files
    ]


def _batches(answers: Iterable[Answer]) -> Iterator[Batch]:
    batch, same, most = Batch([], [], []), list[Same](), _FIRST_BATCH
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
            batch, same, most, size = Batch([], [], []), [], min(2 * most, _BATCH_FILES), 0
    if any(batch) or same:
        yield batch._replace(same=same)
