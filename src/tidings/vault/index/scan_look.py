"""What is different of some files and folders, about which something was heard.

A path may be a file by now, a folder (all that is in it is looked at), or nothing (all that was in it is gone). The
names on the disk decide: where the disk takes `a.md` and `A.md` for the same file, only the one that is written there
is. Another path of the same file, by a hard or a symbolic link, is looked at too.

May import: `index`, `paths`, `scan_file`, `scan_walk`.
"""

import os
import stat
import unicodedata
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidings.vault.files.paths import Vault, key
from tidings.vault.index.index import Index
from tidings.vault.index.scan_file import is_same_but_racy
from tidings.vault.index.scan_walk import Seen, VaultAway, Walk, identities, is_within


class Plan(NamedTuple):
    """What has to be done so that the index equals the disk."""

    changed: list[Seen]
    """To be read."""
    gone: list[str]
    """In the index, but not there any more."""


def with_hashes(files: list[Seen], racy: Iterable[str], index: Index) -> list[Seen]:
    """The files; those that are looked at only to be sure, with what is known of them."""
    hashes = index.hashes(racy)
    return [seen._replace(hash=hashes.get(seen.path)) for seen in files] if hashes else files


def look(vault: Vault, index: Index, paths: Iterable[str]) -> Plan:
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
        self._walk = Walk(vault)
        self._spelling = _Spelling(vault)
        self._waiting: list[str] = []
        self._added: set[str] = set()
        self._changed: dict[str, Seen] = {}
        self._racy: set[str] = set()
        self._gone: set[str] = set()

    def add(self, path: str) -> None:
        if path not in self._added and is_within(self._vault, path):
            self._added.add(path)
            self._waiting.append(path)

    def run(self) -> Plan:
        while self._waiting:
            self._look(self._waiting.pop())
        changed = with_hashes([self._changed[path] for path in sorted(self._changed)], self._racy, self._index)
        return Plan(changed, sorted(self._gone - set(self._changed)))

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

    def _there(self, path: str) -> Iterator[Seen]:
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
