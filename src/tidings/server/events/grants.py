"""Webhook subscriptions as records of the bus: `Grant`, `Progress`, and `GrantStore`.

A *grant* is what a subscriber asked for: requests write it, on any replica. Its *progress* is what was delivered of it:
the replica that delivers writes it. Grants are listed in *parts*, all of one principal in the same. A replica holds the
lease of a part while it delivers what is listed there.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeVar

from tidings.bus import Records
from tidings.bus.shared import LONGEST_STAY
from tidings.errors import BusUnavailable, LimitReached
from tidings.server.events.messages import Json, canonical

ValueT = TypeVar("ValueT", "Grant", bytes)

PARTS: Final = 8
_MOST_LISTED: Final = 5_000  # In one part: the list is one record.
_TRIES: Final = 100
_MOST_KEPT: Final = 20  # Deliveries of one subscription, and requests to deliver again.


@dataclass(frozen=True, slots=True)
class Grant:
    """A subscription as its subscriber asked for it. Times are in seconds since the epoch."""

    id: str
    life: str  # Another one each time that a subscription with this id is made anew.
    owner: str  # The identity of the principal: see `policy.holder_of`.
    user: Json | None  # The token of the request without its text: permission is asked for with it.
    name: str
    arguments: Json
    url: str
    secrets: tuple[tuple[str, float], ...]  # Sealed, each with the time at which it ends: the newest first.
    expires: float
    start: str  # The cursor behind which it began.
    oldest: float = 0.0  # The time before which events are too old for it.
    edition: int = 1  # One more with each refresh, and each request to deliver an event again.
    again: tuple[tuple[int, str, str], ...] = ()
    """The events to be delivered again: from which edition on, their ids, and their cursors."""

    @classmethod
    def parse(cls, value: bytes) -> "Grant":
        fields: Json = json.loads(value)
        for name in ("secrets", "again"):
            fields[name] = tuple(tuple(each) for each in fields[name])
        return cls(**fields)

    def __bytes__(self) -> bytes:
        return canonical(asdict(self)).encode()

    @property
    def principal(self) -> str | None:
        return None if self.user is None else self.user.get("subject") or self.user["client_id"]

    @property
    def mark(self) -> str:
        return f"{self.life}.{self.edition}"

    @property
    def seconds_left(self) -> float:
        return self.expires - time.time()

    def deliver_again(self, event_id: str, cursor: str | None) -> "Grant":
        """Returns it with a request to deliver an event again, or to go on now if it has no cursor."""
        edition = self.edition + 1
        more = () if cursor is None else ((edition, event_id, cursor),)
        return replace(self, edition=edition, again=(*self.again, *more)[-_MOST_KEPT:])


@dataclass(slots=True)
class Progress:
    """The fate of a subscription: everything up to `cursor` was received, or is parked."""

    life: str
    cursor: str
    delivered: int = 0
    last_at: float = 0.0
    failed_since: float = 0.0
    error: str = ""  # The last failure, in a word of the draft.
    parked: int = 0  # The edition of the grant in which it was parked: it goes on with the next.
    reason: str = ""
    truncated: int = 0  # The edition of the grant in which events were gone before they could be delivered.
    redelivered: int = 0  # The edition of the last request to deliver again that was fulfilled.
    trying: str = ""  # The id of what was not received yet, with the tries so far and the time of the next.
    tries: int = 0
    next_try: float = 0.0
    was_parked: str = ""  # The id of the event at which it was parked before.
    deliveries: list[Json] = field(default_factory=list[Any])

    def note(self, entry: Json) -> None:
        others = [each for each in self.deliveries if each["eventId"] != entry["eventId"]]
        if len(others) >= _MOST_KEPT:
            del others[next((n for n, each in enumerate(others) if each["state"] != "parked"), 0)]
        self.deliveries = [*others, entry]


class Listed(NamedTuple):
    """A grant in the list of its part."""

    owner: str
    mark: str
    expires: float


def part_of(owner: str) -> int:
    """Returns the part in which the grants of a principal are listed."""
    return int(_digest(owner)[:4], 16) % PARTS


def _digest(owner: str) -> str:
    return hashlib.sha256(owner.encode()).hexdigest()[:16]


class GrantStore:
    """Grants, progress and lists on a bus. All methods raise `BusUnavailable` if it cannot be reached."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self._turns = [asyncio.Lock() for _ in range(PARTS)]  # Of writing a list: replicas contend enough.

    async def get(self, grant_id: str) -> Grant | None:
        found = await self.records.get(f"webhook/{grant_id}")
        grant = None if found is None else Grant.parse(found.value)
        return grant if grant is not None and grant.seconds_left > 0 else None

    async def progress(self, grant: Grant) -> tuple[Progress, int]:
        found = await self.records.get(f"webhook/{grant.id}/progress")
        progress = None if found is None else Progress(**json.loads(found.value))
        if found is None or progress is None or progress.life != grant.life:
            progress = Progress(grant.life, grant.start)
        return progress, found.revision if found is not None else 0

    async def save(self, grant: Grant, progress: Progress, revision: int) -> int | None:
        """Stores progress, and returns its revision; None if somebody else has stored another."""
        key, value = f"webhook/{grant.id}/progress", canonical(asdict(progress)).encode()
        stored = await self.records.put(key, value, seconds=max(grant.seconds_left, 1.0), revision=revision)
        return None if stored is None else stored.revision

    async def change(self, grant_id: str, edit: Callable[[Grant | None], Grant], most: int) -> Grant:
        """Puts what `edit` returns in place of a grant, again if others have changed it. Raises `LimitReached`."""

        async def edited(value: bytes | None) -> Grant:
            there = None if value is None else Grant.parse(value)
            grant = edit(there if there is not None and there.seconds_left > 0 else None)
            await self._list(grant.owner, lambda listed: _with(listed, grant, most))
            return grant

        return await self._replace(f"webhook/{grant_id}", edited, lambda grant: max(grant.seconds_left, 0.001))

    async def remove(self, grant_id: str, owner: str) -> bool:
        if grant_id not in (await self.listed(part_of(owner))):
            return False
        await self._list(owner, lambda listed: {name: each for name, each in listed.items() if name != grant_id})
        for key in (f"webhook/{grant_id}", f"webhook/{grant_id}/progress"):
            await self.records.delete(key)
        return True

    async def listed(self, part: int) -> dict[str, Listed]:
        found = await self.records.get(f"webhooks/{part}")
        return {} if found is None else _alive(found.value)

    async def owned(self, owner: str) -> list[Grant]:
        listed = await self.listed(part_of(owner))
        grants = [await self.get(each) for each, entry in listed.items() if entry.owner == _digest(owner)]
        return [grant for grant in grants if grant is not None]

    async def _list(self, owner: str, edit: Callable[[dict[str, Listed]], dict[str, Listed]]) -> None:
        async def edited(value: bytes | None) -> bytes:
            return canonical(edit({} if value is None else _alive(value))).encode()

        part = part_of(owner)
        async with self._turns[part]:
            await self._replace(f"webhooks/{part}", edited, lambda _: LONGEST_STAY)

    async def _replace(
        self, key: str, edit: Callable[[bytes | None], Awaitable[ValueT]], seconds: Callable[[ValueT], float]
    ) -> ValueT:
        """Puts what `edit` returns in place of a record, and returns it. Others may write the record, too."""
        for _ in range(_TRIES):
            found = await self.records.get(key)
            value = await edit(None if found is None else found.value)
            revision = 0 if found is None else found.revision
            if await self.records.put(key, bytes(value), seconds=seconds(value), revision=revision) is not None:
                return value
        raise BusUnavailable("Too many programs change webhooks at the same time. Try again.")


def _alive(value: bytes) -> dict[str, Listed]:
    listed = ((name, Listed(*entry)) for name, entry in json.loads(value).items())
    return {name: entry for name, entry in listed if entry.expires > time.time()}


def _with(listed: dict[str, Listed], grant: Grant, most: int) -> dict[str, Listed]:
    owner = _digest(grant.owner)
    if grant.id not in listed:
        mine = sum(entry.owner == owner for entry in listed.values())
        for count, limit, whose in ((mine, most, "client"), (len(listed), _MOST_LISTED, "server")):
            if count >= limit:
                text = (
                    f"There are {count} webhook subscriptions, the most for this {whose}. End some, or let them lapse."
                )
                raise LimitReached(text, data={"limit": "webhooks", "max": limit, "scope": whose})
    return {**listed, grant.id: Listed(owner, grant.mark, grant.expires)}
