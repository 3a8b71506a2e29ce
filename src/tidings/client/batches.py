"""`client.changes()`: hands out what changed, in batches, for programs to which each batch costs something.

The content that was handed out last is on record, for each loop by its name and for each resource. A batch has the
resources whose content differs from that. So a change is handed out once, a change that is undone in time is not, and
what several changes came to is handed out as one difference. A batch goes on record when its loop asks for the next
one: a loop that fails gets it again. With a state file, the record outlives the process.
"""

import asyncio
import json
import math
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidings._kit.bounded_json import as_dict, as_float, as_list, as_text
from tidings._kit.diff import unified
from tidings.client.cache import ResourceRead
from tidings.client.watching import Watches

if TYPE_CHECKING:
    from tidings.client.state_file import StateFile

HANDED_KEPT: Final = "handed out"  # The kind of its rows in the state file.
_GATHER: Final = 0.05  # Seconds in which resources that change together come into one batch.


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """A resource whose content differs from what the loop was given before."""

    uri: str
    read: ResourceRead | None
    """The content now. None if the resource is gone."""
    before: str | None
    """The text that the loop was given before. None if the resource did not exist, or is new to the loop."""

    @property
    def text(self) -> str | None:
        """The text now. None if the resource is gone; empty if it has none, such as an image."""
        return None if self.read is None else self.read.text

    @property
    def diff(self) -> str:
        """The difference between `before` and `text`, as the lines of a patch."""
        return "\n".join(unified((self.before or "").splitlines(), (self.text or "").splitlines()))


class ChangeBatch(list[ResourceChange]):
    """The changes that a loop is given at once."""

    def __init__(self, changes: Iterable[ResourceChange], record: Any, name: str) -> None:
        super().__init__(changes)
        self._record: HandedOut = record  # No part of the public types.
        self._name = name
        self._is_confirmed = False

    async def confirm(self) -> None:
        """Counts the batch as handled now, and not only when the loop asks for the next one.

        For loops that end with a batch: one that was not confirmed is handed out again, by the next loop.
        """
        if not self._is_confirmed:
            self._is_confirmed = True
            for change in self:
                self._record.note(self._name, change.uri, change.read)
            await self._record.flush()


class _Handed(NamedTuple):
    digest: str | None  # None: the resource was gone.
    text: str | None


class HandedOut:
    """The record of what was handed out, by the name of a loop and by URI."""

    def __init__(self, store: "StateFile | None") -> None:
        self._store = store
        self._contents: dict[tuple[str, str], _Handed] = {}
        self._last: dict[str, float] = {}  # For each loop, when it was last given something, by the monotonic clock.

    def restore(self, rows: Mapping[str, str]) -> None:
        for key, row in rows.items():
            try:
                place, saved = as_list(json.loads(key)), as_dict(json.loads(row))
            except (ValueError, RecursionError):
                continue
            match place:
                case [str(name), str(uri)]:
                    handed = _Handed(as_text(saved.get("digest")), as_text(saved.get("text")))
                    self._contents.setdefault((name, uri), handed)
                case [str(name)]:
                    # The clock may have been set back.
                    ago = max(time.time() - (as_float(saved.get("at")) or 0.0), 0.0)
                    self._last.setdefault(name, time.monotonic() - ago)
                case _:
                    pass

    def find(self, name: str, uri: str) -> _Handed | None:
        return self._contents.get((name, uri))

    def seconds_since(self, name: str) -> float:
        """Returns the seconds since a loop of this name was last given something."""
        return time.monotonic() - self._last.get(name, -math.inf)

    async def note_time(self, name: str) -> None:
        """Notes that a loop is given something, be it confirmed later or not."""
        self._last[name] = time.monotonic()
        self._save([name], {"at": time.time()})
        await self.flush()

    def note(self, name: str, uri: str, read: ResourceRead | None) -> None:
        self._contents[name, uri] = handed = _handed(read)
        self._save([name, uri], handed._asdict())

    def _save(self, key: list[str], row: Mapping[str, Any]) -> None:
        if self._store is not None:
            self._store.note_kept(HANDED_KEPT, json.dumps(key), json.dumps(row))

    async def flush(self) -> None:
        if self._store is not None:
            await self._store.flush()


def _handed(read: ResourceRead | None) -> _Handed:
    return _Handed(None, None) if read is None else _Handed(read.digest, read.text)


async def change_loop(
    watches: Watches,
    record: HandedOut,
    uris: Sequence[str],
    *,
    name: str,
    at_most_every: float,
    first: bool,
    patient: bool,
) -> AsyncGenerator[ChangeBatch]:
    """Yields the changes of some resources, in batches. With `first`, content that is new to the loop is a change."""
    news: dict[str, ResourceRead | None] = {}

    def note(uri: str, read: ResourceRead | None) -> None:
        if record.find(name, uri) is None and not first:
            record.note(name, uri, read)  # This is where it begins.
        else:
            news[uri] = read

    is_known = any(record.find(name, uri) is not None for uri in uris)
    with watches.watching(uris, patient=patient or is_known, tells_gone=True) as watcher:
        while True:
            note(*await watcher.next())
            with suppress(TimeoutError):
                async with asyncio.timeout(max(_GATHER, at_most_every - record.seconds_since(name))):
                    while True:
                        note(*await watcher.next())
            changes: list[ResourceChange] = []
            for uri, read in news.items():
                before = record.find(name, uri) or _Handed(None, None)
                if _handed(read).digest != before.digest:
                    changes.append(ResourceChange(uri, read, before.text))
            if changes:
                news.clear()
                await record.note_time(name)
                yield (batch := ChangeBatch(changes, record, name))
                await batch.confirm()
