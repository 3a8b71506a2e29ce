"""Which resources are different after a change of the index: found by comparing, not by guessing.

A batch of files touches some names, links, tags and folders (`Touched`). Those decide which of the subscribed
resources *may* be different; each of these is compared as it was before the batch is stored with what it is after. A
change that leaves a resource as it is tells nobody of it. Searches, which can take long, are compared elsewhere: see
`searches.py`.

Only resources that somebody subscribed to are compared, so `SubscribedResources` remembers them for a while after
their last subscriber has gone: it may come back and ask what it missed. Who comes back later than that, or after a
restart, to a log that is older than this memory, is told that the resource has changed: it may have.

The searches that somebody listens to: compared after each change, behind everything else and at a pace of their own.

A search can take long, and any change may change what it finds. So they hold up neither the index nor the news of
other resources: they are compared in the threads of the readers, all of them after a change, and the longer that
takes the longer it is until the next time. The last change is always followed by a comparison.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import anyio

from tidings.changes import Filter, ResourceUpdated
from tidings.vault.files.paths import key, uri
from tidings.vault.index.database import IndexBlocked, IndexDamaged
from tidings.vault.index.queries import Queries
from tidings.vault.notes.model import IndexEntry
from tidings.vault.resources.addresses import VaultAddress, parse_address

_SINGLE: Final = ("recent", "stats", "tags", "structure")
"""The resources of which there is one."""


_MOST_LEFT: Final = 1000
"""How many are remembered at most that nobody listens to any more."""


class SubscribedResources:
    """What somebody listens to, or listened to a while ago."""

    def __init__(self, *, outlived: bool, keep: float = 600, clock: Callable[[], float] = time.monotonic) -> None:
        self._present: set[str] = set()
        self._left: dict[str, float] = {}
        self._keep = keep
        self._clock = clock
        self._outlived = outlived

    def begin(self, subscription: str) -> bool:
        """Somebody listens to it from now on. Says whether it may have changed while nobody compared it.

        That is so if the log of changes is older than this memory (`outlived`), or something was forgotten.
        """
        known = subscription in self._present or subscription in self._left
        self._left.pop(subscription, None)
        self._present.add(subscription)
        return self._outlived and not known

    def end(self, subscription: str) -> None:
        """Nobody listens to it any more."""
        self._present.discard(subscription)
        self._left[subscription] = self._clock()

    def remembered(self) -> list[str]:
        """All of it, without what is too long ago."""
        horizon = self._clock() - self._keep
        old = [each for each, when in self._left.items() if when < horizon]
        for subscription in old or list(self._left)[: max(0, len(self._left) - _MOST_LEFT)]:
            del self._left[subscription]
            self._outlived = True
        return [*self._present, *self._left]


@dataclass(frozen=True, slots=True)
class Touched:
    """What a batch of files touches, by what resources depend on."""

    paths: frozenset[str] = frozenset()
    """The files that are different, new or gone."""
    moved: bool = False
    """Whether some of them are new or gone."""
    linked: frozenset[str] = frozenset()
    """The keys of the names that these files link to, or did."""
    tags: frozenset[str] = frozenset()
    """The keys of the tags that they have or had, with all tags above these."""
    everything: bool = False
    """Whether all resources may be different: as when the index is complete, and says so."""
    names: frozenset[str] = field(init=False)
    """The keys of the names of the files: what links and resources find them by."""
    folders: frozenset[str] = field(init=False)
    """The folders that they lie in, with all folders above these."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", frozenset(map(_name, self.paths)))
        folders = {above for path in self.paths for above in ("", *_lineage(path.rpartition("/")[0]))}
        object.__setattr__(self, "folders", frozenset(folders))

    def __bool__(self) -> bool:
        return self.everything or bool(self.paths)

    def may_change(self, address: VaultAddress) -> bool:
        """Whether the resource at `address` may be another after this."""
        if self.everything:
            return True
        match address.kind:
            case "note" | "attachment":
                # A summary says where the note's links lead, which files that come and go decide too.
                return _name(address.argument) in self.names or (self.moved and address.mode == "summary")
            case "backlinks":
                # A file that is new or gone may change where a link by name leads.
                return self.moved or _name(address.argument) in self.linked
            case "folder":
                return key(address.argument.strip("/")) in map(key, self.folders)
            case "tag":
                return key(address.argument.lstrip("#")) in self.tags
            case _:
                return True

    def uris(self, candidates: Callable[[str], Iterable[str]]) -> Iterator[str]:
        """The resources that may be different, for those who subscribed to a prefix.

        Args:
            candidates: The paths of the files whose name has this key.
        """
        for path in self.paths:
            yield uri("note" if path.lower().endswith(".md") else "attachment", path)
            yield uri("backlinks", path)
        for name in self.linked | (self.names if self.moved else frozenset[str]()):
            yield from (uri("backlinks", path) for path in candidates(name))
        yield from (uri("folder", folder) for folder in self.folders)
        yield from (uri("tag", tag) for tag in self.tags)
        yield from (f"vault://{name}" for name in _SINGLE)


def all_of(queries: Queries) -> Touched:
    """Everything there is, as if all of it were different."""
    ask = queries.connection.execute
    return Touched(
        paths=frozenset(path for (path,) in ask("SELECT path FROM files")),
        moved=True,
        linked=frozenset(name for (name,) in ask("SELECT DISTINCT name FROM links")),
        tags=frozenset(above for (tag,) in ask("SELECT DISTINCT key FROM tags") for above in _lineage(tag)),
        everything=True,
    )


class _KnownEntry(NamedTuple):
    """What the index says of a file before it is stored anew."""

    id: int
    hash: str | None
    mtime: int
    size: int


def touched(queries: Queries, entries: Sequence[IndexEntry], gone: Sequence[str], *, deep: bool = True) -> Touched:
    """What storing `entries`, and letting go of `gone`, touches.

    Args:
        queries: The index, before they are stored.
        entries: Files that were read.
        gone: Files that are not there any more.
        deep: Whether somebody wants to know more than which files.
    """
    before = _known(queries, [*(entry.path for entry in entries), *gone])
    changed = [entry for entry in entries if _differs(before.get(entry.path), entry)]
    went = [path for path in gone if path in before]
    paths = frozenset([*(entry.path for entry in changed), *went])
    moved = bool(went) or any(entry.path not in before for entry in changed)
    if not deep:
        return Touched(paths, moved)
    old = [known.id for path, known in before.items() if path in paths]
    tags = [*_found(queries, "tags", "key", old), *_first_of(changed, "tags")]
    linked = [*_found(queries, "links", "name", old), *_first_of(changed, "links")]
    return Touched(
        paths,
        moved,
        linked=frozenset(linked),
        tags=frozenset(above for tag in tags for above in _lineage(tag)),
    )


def _known(queries: Queries, paths: Sequence[str]) -> dict[str, _KnownEntry]:
    rows = queries.connection.execute(
        "SELECT path, id, hash, mtime, size FROM files WHERE path IN (SELECT value FROM json_each(?))",
        (json.dumps(paths),),
    )
    return {path: _KnownEntry(*known) for path, *known in rows}


def _found(queries: Queries, table: str, column: str, files: Sequence[int]) -> list[str]:
    """What the index knows to be in some files."""
    rows = queries.connection.execute(
        f"SELECT DISTINCT {column} FROM {table} WHERE file IN (SELECT value FROM json_each(?))",  # noqa: S608 - our own
        (json.dumps(files),),
    )
    return [value for (value,) in rows]


def _first_of(entries: Iterable[IndexEntry], table: str) -> list[str]:
    """What the first column of a table will say of these files."""
    return [row[0] for entry in entries for row in entry.rows.get(table, ())]


class ChangeDetector:
    """Finds what is different, for those who care.

    Args:
        fingerprint: A text that is equal as long as the resource at a URI is.
    """

    def __init__(self, fingerprint: Callable[[Queries, str], str]) -> None:
        self._fingerprint = fingerprint
        self._last: dict[str, str] = {}
        """The newest fingerprints of resources that are subscribed to: what they were before the next change."""

    def around(
        self, queries: Queries, what: Touched, subscriptions: Iterable[str], store: Callable[[], None]
    ) -> list[str]:
        """Call `store`, which puts `what` into the index; the URIs of the resources that are different after it."""
        if not what:
            store()
            return []
        wanted = Filter.of(subscriptions)
        self._last = {uri: last for uri, last in self._last.items() if uri in wanted.uris}
        before = {
            uri: self._last.get(uri) or self._fingerprint(queries, uri) for uri in _affected(queries, what, wanted)
        }
        store()
        after = {uri: self._fingerprint(queries, uri) for uri in before}
        self._last |= {uri: now for uri, now in after.items() if uri in wanted.uris}
        return [uri for uri, now in after.items() if now != before[uri]]

    def forget(self, uris: Iterable[str]) -> None:
        """These are other resources from now on."""
        for each in uris:
            self._last.pop(each, None)


def _affected(queries: Queries, what: Touched, wanted: Filter) -> list[str]:
    affected = {
        uri
        for uri in wanted.uris
        if (address := _address(uri)) and address.kind != "search" and what.may_change(address)
    }
    if wanted.prefixes:
        affected.update(uri for uri in what.uris(queries.candidates) if wanted.wants(ResourceUpdated(uri)))
    return sorted(affected)


def _differs(before: _KnownEntry | None, entry: IndexEntry) -> bool:
    stamp = entry.stamp
    return before is None or (before.hash, before.mtime, before.size) != (entry.hash, stamp.mtime, stamp.size)


def _address(text: str) -> VaultAddress | None:
    try:
        return parse_address(text)
    except ValueError:
        return None


def _name(path: str) -> str:
    return key(path.rpartition("/")[2]).removesuffix(".md")


def _lineage(path: str) -> Iterator[str]:
    """`a/b/c`, `a/b` and `a`."""
    while path:
        yield path
        path = path.rpartition("/")[0]


logger = logging.getLogger(__name__)

PREFIX: Final = "vault://search/"

_REST: Final = 2
"""How many times as long as a comparison took it is rested after it…"""
_LONGEST_REST: Final = 10.0
"""…but not longer than this many seconds."""


class Searches:
    """Compares searches.

    Args:
        fingerprint: A text that is equal as long as what is found is.
        remembered: The URIs of which somebody wants to know.
        publish: Told the URIs of which more or less is found now.
    """

    def __init__(
        self,
        fingerprint: Callable[[str], Awaitable[str]],
        remembered: Callable[[], Sequence[str]],
        publish: Callable[[Sequence[str]], Awaitable[None]],
    ) -> None:
        self._fingerprint = fingerprint
        self._remembered = remembered
        self._publish = publish
        self._last: dict[str, str] = {}
        self._changed = asyncio.Event()

    async def begin(self, uri: str) -> None:
        """Somebody listens to a search: what it finds now is what is compared with."""
        if uri not in self._last:
            self._last[uri] = await self._fingerprint(uri)

    def changed(self) -> None:
        """Something may be found that was not, or not any more."""
        if self._last:
            self._changed.set()

    async def follow(self) -> None:
        """Compare whenever something changed, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await self._changed.wait()
            self._changed.clear()
            began = loop.time()
            await self._compare()
            await anyio.sleep(min(_REST * (loop.time() - began), _LONGEST_REST))

    async def _compare(self) -> None:
        remembered = set(self._remembered())
        self._last = {uri: last for uri, last in self._last.items() if uri in remembered}
        for watched, last in list(self._last.items()):
            try:
                now = await self._fingerprint(watched)
            except (IndexBlocked, IndexDamaged) as error:
                logger.info("Searches are not compared at present: %s", error)
                self._changed.set()
                return
            if now != last:
                self._last[watched] = now
                await self._publish([watched])
