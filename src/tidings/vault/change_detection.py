"""Finds the resources that differ after a change of the index, by comparing.

A batch of files touches some names, links, tags and folders (`Touched`). Those decide which of the subscribed resources
*may* differ; each of them is compared before and after the batch is stored, and published only if it differs. The files
themselves are always compared, by their hashes: the log has every note that changed, subscribed to or not.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Final

import anyio

from tidings.changes import Filter, ResourceUpdated
from tidings.vault.files.obsidian import PERIODS
from tidings.vault.files.paths import uri
from tidings.vault.index.index import IndexBlocked, IndexDamaged
from tidings.vault.index.queries import Queries, upward
from tidings.vault.notes.links import link_name
from tidings.vault.notes.model import IndexEntry, key
from tidings.vault.resources.addresses import VaultAddress, parse_address

logger = logging.getLogger(__name__)

COMPUTED: Final = ("vault://search/", "vault://base/", "vault://neighbourhood/", "vault://hubs", "vault://history")
"""The resources that any change may affect, and that can take long."""

_SINGLE: Final = ("recent", "stats", "tags", "structure")  # The kinds with one resource each.
_OF_FILE: Final = ("note", "attachment", "canvas", *PERIODS)
_MOST_LEFT: Final = 1000  # Resources without subscribers that are remembered.
_PAUSE_FACTOR: Final = 2  # The pause after a comparison of searches, as a multiple of its duration.
_LONGEST_PAUSE: Final = 10.0


@dataclass(frozen=True)
class FoundChanges:
    """Resources that differ now."""

    states: Mapping[str, str]  # By URI: a text that differs if the resource does.
    listed: bool = False  # True if files were created or deleted.
    changed_at: float | None = None  # The time of the change on the disk, if it is known.
    before: Mapping[str, str] = field(default_factory=dict[str, str])  # The texts that some of them had before.
    local: bool = False  # True if they differ because of the state of the index, which is this process's own.

    def __bool__(self) -> bool:
        return self.listed or bool(self.states)


@dataclass(eq=False)
class SubscribedResources:
    """The resources with subscribers, now or in the last `keep` seconds: one may come back and ask what it missed.

    If it comes back later, to a log that is older than this memory (`outlived`), the resource is published.
    """

    _: KW_ONLY
    outlived: bool
    keep: float = 600
    clock: Callable[[], float] = time.monotonic
    _present: set[str] = field(default_factory=set[str])
    _left: dict[str, float] = field(default_factory=dict[str, float])

    def begin(self, uri: str) -> bool:
        """Adds a resource. Returns whether it may have changed while it was not compared."""
        known = uri in self._present or uri in self._left
        self._left.pop(uri, None)
        self._present.add(uri)
        return self.outlived and not known

    def remember(self, uris: Iterable[str]) -> None:
        """Adds resources that had subscribers in an earlier process."""
        self._left |= {uri: self.clock() for uri in uris if uri not in self._present}

    def end(self, uri: str) -> None:
        self._present.discard(uri)
        self._left[uri] = self.clock()

    @property
    def is_any(self) -> bool:
        return bool(self._present)

    def has(self, uri: str) -> bool:
        """Returns whether somebody subscribes to a resource now, by its URI or by a prefix."""
        return uri in self._present or any(each[-1] == "*" and uri.startswith(each[:-1]) for each in self._present)

    def remembered(self) -> list[str]:
        """Returns all resources, and forgets those without subscribers for too long."""
        horizon = self.clock() - self.keep
        old = [each for each, when in self._left.items() if when < horizon]
        for subscription in old or list(self._left)[: max(0, len(self._left) - _MOST_LEFT)]:
            del self._left[subscription]
            self.outlived = True
        return [*self._present, *self._left]


@dataclass(frozen=True)
class Touched:
    """Everything that a batch of files touches and resources depend on."""

    paths: frozenset[str] = frozenset()  # The files that are changed, new or deleted.
    moved: bool = False  # True if some of them are new or deleted.
    files: Mapping[str, str] = field(default_factory=dict[str, str])  # By URI: states of those whose content differs.
    linked: frozenset[str] = frozenset()  # The keys of the names that these files link to, or linked to.
    tags: frozenset[str] = frozenset()  # The keys of the tags that they have or had, with all tags above them.
    everything: bool = False  # True if all resources may differ, for example because the status of the index changed.

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(map(link_name, self.paths))

    @cached_property
    def folders(self) -> frozenset[str]:
        """The folders of the files, with all folders above them."""
        return frozenset(above for path in self.paths for above in ("", *upward(path.rpartition("/")[0])))

    def __bool__(self) -> bool:
        return self.everything or bool(self.paths)

    def may_change(self, address: VaultAddress) -> bool:
        if self.everything:
            return True
        match address.kind:
            case "note" | "attachment" | "canvas":
                # A summary contains the targets of the note's links, which depend on new and deleted files.
                return link_name(address.argument) in self.names or (self.moved and address.mode == "summary")
            case "backlinks":
                # A new or deleted file may change the target of a link.
                return self.moved or link_name(address.argument) in self.linked
            case "folder":
                return key(address.argument.strip("/")) in map(key, self.folders)
            case "tag":
                return key(address.argument.lstrip("#")) in self.tags
            case _:
                return True

    def uris(self, candidates: Callable[[str], Iterable[str]]) -> Iterator[str]:
        """Yields the resources that may differ, for subscriptions of a prefix. `candidates` finds files by name."""
        for path in self.paths:
            yield file_uri(path)
            yield uri("backlinks", path)
        for name in self.linked | (self.names if self.moved else frozenset[str]()):
            yield from (uri("backlinks", path) for path in candidates(name))
        yield from (uri("folder", folder) for folder in self.folders)
        yield from (uri("tag", tag) for tag in self.tags)
        yield from (f"vault://{name}" for name in _SINGLE)


def file_uri(path: str) -> str:
    """Returns the URI of the resource that is the file at `path`."""
    return uri("note" if path.lower().endswith(".md") else "attachment", path)


def _address(uri: str) -> VaultAddress | None:
    with suppress(ValueError):
        return parse_address(uri)
    return None


def is_file_uri(uri: str) -> bool:
    """Returns whether `uri` is that of a file, as `file_uri` writes it."""
    address = _address(uri)
    return bool(address and address.kind in ("note", "attachment") and uri == file_uri(address.argument))


def per_file(uri: str) -> bool:
    """Returns whether the state of a resource depends on one file alone, whatever else is in the index."""
    address = _address(uri)
    return bool(address and address.kind in _OF_FILE and address.mode != "summary")


def all_of(queries: Queries) -> Touched:
    """Returns everything in the index, as if all of it differed."""
    ask = queries.connection.execute
    return Touched(
        paths=frozenset(path for (path,) in ask("SELECT path FROM files")),
        moved=True,
        linked=frozenset(name for (name,) in ask("SELECT DISTINCT name FROM links")),
        tags=frozenset(above for (tag,) in ask("SELECT DISTINCT key FROM tags") for above in upward(tag)),
        everything=True,
    )


def touched(queries: Queries, entries: Sequence[IndexEntry], gone: Sequence[str], *, deep: bool = True) -> Touched:
    """Returns what storing `entries`, and removing `gone`, touches; `deep`: with links and tags."""
    ask, some = queries.connection.execute, "IN (SELECT value FROM json_each(?))"
    rows = ask(
        f"SELECT path, id, hash, mtime, size FROM files WHERE path {some}",  # noqa: S608 - our own text, as below
        (json.dumps([*(entry.path for entry in entries), *gone]),),
    )
    known = {path: (id_, tuple(state)) for path, id_, *state in rows}
    went = [path for path in gone if path in known]
    changed: list[IndexEntry] = []
    files = {file_uri(path): "" for path in went}
    for entry in entries:
        before = known[entry.path][1] if entry.path in known else None
        if before == (entry.hash, entry.stamp.mtime, entry.stamp.size):
            continue
        changed.append(entry)
        if before is None or entry.hash is None or entry.hash != before[0]:
            stamp = f"{entry.path}\0{entry.stamp.size}\0{entry.stamp.mtime}"
            files[file_uri(entry.path)] = entry.hash or ("" if entry.kind == "note" else stamp)
    paths = frozenset([*(entry.path for entry in changed), *went])
    moved = bool(went) or any(entry.path not in known for entry in changed)
    if not deep:
        return Touched(paths, moved, files)
    old = json.dumps([id_ for path, (id_, _) in known.items() if path in paths])

    def found(table: str, column: str) -> set[str]:
        rows = ask(f"SELECT DISTINCT {column} FROM {table} WHERE file {some}", (old,))  # noqa: S608
        return {value for (value,) in rows} | {row[0] for entry in changed for row in entry.rows.get(table, ())}

    tags = frozenset(above for tag in found("tags", "key") for above in upward(tag))
    return Touched(paths, moved, files, linked=frozenset(found("links", "name")), tags=tags)


@dataclass
class ChangeDetector:
    """Finds the subscribed resources whose `fingerprint`, a text for each URI, differs."""

    fingerprint: Callable[[Queries, str], str]
    _last: dict[str, str] = field(default_factory=dict[str, str])  # The current ones of subscribed resources.

    def around(
        self, queries: Queries, what: Touched, subscriptions: Iterable[str], store: Callable[[], None]
    ) -> dict[str, str]:
        """Calls `store`, which stores `what` in the index. Returns the resources that differ after it."""
        if not what:
            store()
            return {}
        wanted = Filter.of(subscriptions)
        self._last = {uri: last for uri, last in self._last.items() if uri in wanted.uris}
        stored = [(each, _address(each)) for each in wanted.uris if not each.startswith(COMPUTED)]
        affected = {each for each, address in stored if address and what.may_change(address)}
        if wanted.prefixes:
            affected.update(uri for uri in what.uris(queries.candidates) if wanted.wants(ResourceUpdated(uri)))
        before = {uri: self._last.get(uri) or self.fingerprint(queries, uri) for uri in sorted(affected)}
        store()
        after = {uri: self.fingerprint(queries, uri) for uri in before}
        self._last |= {uri: now for uri, now in after.items() if uri in wanted.uris}
        return {uri: now for uri, now in after.items() if now != before[uri]}

    def forget(self, uris: Iterable[str]) -> None:
        for each in uris:
            self._last.pop(each, None)


@dataclass
class Searches:
    """Publishes the `remembered` searches whose `fingerprint`, a text for each URI, differs.

    Searches can take long, and any change may affect them: it pauses in proportion to the time that comparing took. The
    last change is always followed by a comparison.
    """

    fingerprint: Callable[[str], Awaitable[str]]
    remembered: Callable[[], Sequence[str]]
    publish: Callable[[FoundChanges], Awaitable[None]]
    _last: dict[str, str] = field(default_factory=dict[str, str])
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def begin(self, uri: str) -> str:
        """Adds a search. Its current results, which are returned, are compared with later ones."""
        if uri not in self._last:
            self._last[uri] = await self.fingerprint(uri)
        return self._last[uri]

    def changed(self) -> None:
        if self._last:
            self._changed.set()

    async def follow(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._changed.wait()
            self._changed.clear()
            began = loop.time()
            await self._compare()
            await anyio.sleep(min(_PAUSE_FACTOR * (loop.time() - began), _LONGEST_PAUSE))

    async def _compare(self) -> None:
        remembered = set(self.remembered())
        self._last = {uri: last for uri, last in self._last.items() if uri in remembered}
        for watched, last in list(self._last.items()):
            try:
                now = await self.fingerprint(watched)
            except (IndexBlocked, IndexDamaged) as error:
                logger.info("Searches cannot be compared now: %s", error)
                self._changed.set()
                return
            if now != last:
                self._last[watched] = now
                await self.publish(FoundChanges({watched: now}))
