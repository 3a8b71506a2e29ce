"""The servers of a NATS cluster, of which one is used at a time.

May import: `errors`.
"""

import asyncio
import random
from collections.abc import Sequence
from typing import Final

from tidings.bus import _nats_errors as errors
from tidings.bus._nats_address import Access, Address
from tidings.bus._nats_connection import Connection
from tidings.bus._nats_errors import TROUBLES, Trouble
from tidings.bus._nats_subjects import LARGEST_PAYLOAD
from tidings.errors import BusUnavailable

_OLDEST: Final = (2, 11)
"""The first version that finds a message by its time, which a process needs to see what a crash of the broker took."""


class Servers:
    """Those that were named, and those that they name."""

    def __init__(self, named: Sequence[Address], access: Access) -> None:
        self.named = list(named)
        self._access = access
        self._told: dict[str, Address] = {}
        self._last: Address | None = None

    def __str__(self) -> str:
        return ", ".join(map(str, self.named))

    async def connect(self, seconds: float) -> Connection:
        """A connection to one that answers within so many `seconds`. The one that was used last is tried last.

        Raises:
            BusUnavailable: None of them can be used; the error says why.
            BusMismatch: The one that answers cannot be used by a bus.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        servers = self._in_order()
        failures: list[Trouble] = []
        for tried, address in enumerate(servers):
            # One that swallows everything leaves time for the others.
            share = (deadline - loop.time()) / (len(servers) - tried)
            try:
                connection = await Connection.open(address, self._access, seconds=max(share, 0.05))
            except TROUBLES as error:
                failures.append(error)
                continue
            self._last = address
            self.learn(connection)
            return await _fit(connection)
        raise failures[0] if len(failures) == 1 else _none_of(failures)

    def _in_order(self) -> list[Address]:
        named, told = self.named[:], [one for one in self._told.values() if one not in self.named]
        random.shuffle(named)
        random.shuffle(told)
        return sorted(named + told, key=lambda one: one == self._last)

    def learn(self, connection: Connection) -> None:
        """Take note of the other servers of the cluster that a server has told of."""
        places = [place for place in connection.info.get("connect_urls") or () if isinstance(place, str)]
        found = [one for one in map(connection.address.beside, places) if one is not None]
        known = {(one.host, one.port) for one in self.named}
        self._told = {one.url: one for one in found if (one.host, one.port) not in known}


async def _fit(connection: Connection) -> Connection:
    """`connection`, if its server can carry a bus."""
    place, info = connection.address.url, connection.info
    version, payload = str(info.get("version", "0")), int(info.get("max_payload", LARGEST_PAYLOAD))
    trouble: Trouble | None = None
    if _numbers(version) < _OLDEST:
        trouble = errors.old_server(place, version, ".".join(map(str, _OLDEST)))
    elif payload < LARGEST_PAYLOAD:
        trouble = errors.small_messages(place, payload, LARGEST_PAYLOAD)
    if trouble is not None:
        await connection.close()
        raise trouble
    return connection


def _numbers(version: str) -> tuple[int, ...]:
    """The first two, of something like 2.11.0-preview.1."""
    return tuple(int(part) if part.isdigit() else 0 for part in version.split(".")[:2])


def _none_of(failures: Sequence[Trouble]) -> BusUnavailable:
    return BusUnavailable(f"None of {len(failures)} brokers can be used. " + " ".join(map(str, failures)))
