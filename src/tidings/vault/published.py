"""`PublishedStates`: the state in which each resource was last published, for all processes that share a log.

Every process on a vault sees the same changes on the disk. A change is published by the first that sees it; the others
find its state here. And a resource in another state than the published one has changed while no process looked: the
next process that somebody subscribes at publishes it. So a subscriber is told of each change once, whatever process it
talks to, and across restarts.

A prefix has no state. It is remembered, so that the next process compares for it from its start on.
"""

import asyncio
import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from tidings.bus.local import HISTORY, LocalBus
from tidings.bus.shared import LONGEST_STAY
from tidings.errors import TransportError

_KEEP: Final = HISTORY.age + 86_400.0  # Longer than any cursor is good for.
_PREFIXES: Final = "vault/prefixes"
_BUILT: Final = "vault/built"
_MOST_PREFIXES: Final = 200
_TRIES: Final = 5


class PublishedStates:
    """The published states on `bus`. They say nothing while the log is of this process alone."""

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus

    async def known(self, states: Mapping[str, str]) -> set[str]:
        """Returns the URIs of the resources that were published in these states."""
        if not self._bus.is_shared:
            return set()
        found = await asyncio.gather(*(self._bus.records.get(_place(uri)) for uri in states))
        same = zip(states.items(), found, strict=True)
        known = {uri for (uri, state), record in same if record is not None and record.value == _digest(state)}
        return known if self._bus.is_shared else set()

    async def keep(self, states: Mapping[str, str]) -> None:
        """Notes that these states are published."""
        put = self._bus.records.put
        if self._bus.is_shared:
            await asyncio.gather(*(put(_place(uri), _digest(state), seconds=_KEEP) for uri, state in states.items()))

    async def begin(self, uri: str, state: str) -> bool:
        """Begins to keep the state of a resource. Returns whether it has changed since it was published last."""
        record = await self._bus.records.get(_place(uri)) if self._bus.is_shared else None
        changed = record is not None and record.value != _digest(state)
        if not changed:  # Otherwise it is kept once it is published.
            await self.keep({uri: state})
        return changed

    async def renew(self, uris: Iterable[str]) -> None:
        """Keeps for longer what is known of these resources."""
        for uri in uris:
            if self._bus.is_shared and (record := await self._bus.records.get(_place(uri))) is not None:
                await self._bus.records.put(_place(uri), record.value, seconds=_KEEP, revision=record.revision)

    async def was_built(self) -> bool:
        """Returns whether `built` was called, by whatever process."""
        return self._bus.is_shared and await self._bus.records.get(_BUILT) is not None

    async def built(self) -> None:
        """Notes that there is an index: it finds what changes while no process runs."""
        if self._bus.is_shared:
            await self._bus.records.put(_BUILT, b"", seconds=LONGEST_STAY)

    # Prefixes

    async def prefixes(self) -> list[str]:
        """Returns the prefixes that somebody has subscribed to lately."""
        with suppress(TransportError, ValueError):
            if self._bus.is_shared and (record := await self._bus.records.get(_PREFIXES)) is not None:
                return list(map(str, json.loads(record.value)))
        return []

    async def add_prefix(self, prefix: str) -> None:
        """Remembers a prefix."""
        for _ in range(_TRIES if self._bus.is_shared else 0):
            record = await self._bus.records.get(_PREFIXES)
            others: Iterable[str] = []
            with suppress(ValueError):
                others = [each for each in json.loads(record.value if record else b"[]") if each != prefix]
            value = json.dumps([*others, prefix][-_MOST_PREFIXES:]).encode()
            revision = record.revision if record else 0
            if await self._bus.records.put(_PREFIXES, value, seconds=_KEEP, revision=revision) is not None:
                return


def _place(uri: str) -> str:
    return f"state/{hashlib.blake2b(uri.encode(errors='replace'), digest_size=16).hexdigest()}"


def _digest(state: str) -> bytes:
    return hashlib.blake2b(state.encode(errors="replace"), digest_size=16).digest()
