"""Every bus as the contract suite sees it. A new bus is one more class here, listed in `BUSES`.

Each class says what its bus can do, so that a test runs over all buses that can do what it tries. A log is reached by
an address, a text that another process can be given.
"""

import asyncio
import itertools
import shutil
import sqlite3
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, ClassVar, Self

import anyio
import pytest
from redis import Redis as Client

from tests.bus.nats_server import api
from tests.bus.nats_server import shared as shared_nats
from tests.bus.redis_server import shared_server
from tests.simulation.bus import Broker, SimulatedBus
from tidings.bus import Bus, Entry, History, Records
from tidings.bus.local import LocalBus
from tidings.bus.memory import MemoryBus
from tidings.bus.nats import NatsBus
from tidings.bus.redis import RedisBus
from tidings.bus.sqlite import SqliteBus
from tidings.changes import Change, Cursor

Clock = Callable[[], float]


def open_bus(address: str, *, history: History | None = None, clock: Clock | None = None) -> Bus:
    """A handle, not yet entered, on the log at `address`."""
    options: dict[str, Any] = {"history": history} | ({"clock": clock} if clock else {})
    kind, _, place = address.partition(":")
    match kind:
        case "memory":
            return MemoryBus(**options)
        case "sqlite":
            return SqliteBus(place, poll=0.005, **options)
        case "local":
            return LocalBus(Path(place), poll=0.005, **options)
        case "redis":
            url, _, prefix = address.partition("#")
            return RedisBus(url, prefix=prefix, poll=0.05, history=history)
        case "nats":
            url, _, prefix = address.partition("#")
            return NatsBus(url, prefix=prefix, history=history)
        case _:
            raise ValueError(f"no bus has the address {address}")


def records_of(bus: Bus) -> Records:
    """The records of a bus of Tidings; others need not have any."""
    return bus.records  # type: ignore[attr-defined]


class BusFactory(ABC):
    """One log, with the ways to open it and to break it."""

    shared: ClassVar[bool] = False
    """Several handles, in several processes, are handles on the same log."""

    outlives: ClassVar[bool] = False
    """The log is still there when nobody uses it, however its users ended."""

    has_clock: ClassVar[bool] = True
    """The age of the history goes by a clock that a test can set."""

    reaches_processes: ClassVar[bool] = True
    """Another process can be given the address."""

    def __init__(self, address: str) -> None:
        self.address = address

    @classmethod
    @asynccontextmanager
    async def start(cls, folder: Path) -> AsyncGenerator[Self]:
        """A log of its own, and what it needs to run, with `folder` for its files."""
        yield cls(cls.address_in(folder))

    @classmethod
    @abstractmethod
    def address_in(cls, folder: Path) -> str: ...

    def open(self, *, history: History | None = None, clock: Clock | None = None) -> Bus:
        """A new handle, not yet entered."""
        return open_bus(self.address, history=history, clock=clock)

    async def lose(self) -> None:
        """Lose the log while it is used, as an accident would. For buses whose log is outside the process."""
        raise NotImplementedError

    async def copy(self) -> Callable[[], Awaitable[None]]:
        """Copy the log. The result puts the copy in its place, as it was, while nobody uses it."""
        raise NotImplementedError


class Memory(BusFactory):
    @classmethod
    def address_in(cls, folder: Path) -> str:  # noqa: ARG003 - it has no files
        return "memory:"


class Simulated(BusFactory):
    """The model that `tests/simulation` uses in place of a broker."""

    shared = True
    outlives = True
    reaches_processes = False

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._broker = Broker()

    @classmethod
    def address_in(cls, folder: Path) -> str:  # noqa: ARG003 - it has no files
        return "simulated:"

    def open(self, *, history: History | None = None, clock: Clock | None = None) -> Bus:
        return SimulatedBus(self._broker, history=history, clock=clock or time.time)

    async def lose(self) -> None:
        self._broker.lose()

    async def copy(self) -> Callable[[], Awaitable[None]]:
        log = self._broker.copy()

        async def restore() -> None:
            self._broker.restore(log)

        return restore


class Sqlite(BusFactory):
    shared = True
    outlives = True

    @classmethod
    def address_in(cls, folder: Path) -> str:
        return f"sqlite:{folder / 'bus.db'}"

    async def lose(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            await anyio.Path(self.address.partition(":")[2] + suffix).unlink(missing_ok=True)

    async def copy(self) -> Callable[[], Awaitable[None]]:
        path = self.address.partition(":")[2]
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(f"{path}.copy")) as target:
            source.backup(target)

        async def restore() -> None:
            await self.lose()
            await anyio.Path(f"{path}.copy").rename(path)

        return restore


class Local(Sqlite):
    """The same, of a server that was given none."""

    @classmethod
    def address_in(cls, folder: Path) -> str:
        return f"local:{folder / 'of its own' / 'bus.db'}"


class Redis(BusFactory):
    shared = True
    outlives = True
    has_clock = False

    @classmethod
    def address_in(cls, folder: Path) -> str:  # noqa: ARG003 - all tests share a server, and each has a prefix
        return f"{shared_server().url}#{uuid.uuid4().hex}"

    @property
    def _keys(self) -> list[str]:
        prefix = self.address.partition("#")[2]
        return shared_server().ask("KEYS", f"{{{prefix}}}:*")

    async def lose(self) -> None:
        shared_server().ask("DEL", *self._keys)

    async def copy(self) -> Callable[[], Awaitable[None]]:
        with Client(port=shared_server().port, retry=None) as client:
            values = {key: client.dump(key) for key in self._keys}

        async def restore() -> None:
            with Client(port=shared_server().port, retry=None) as client:
                client.delete(*self._keys)
                for key, value in values.items():
                    assert isinstance(value, bytes)
                    client.restore(key, 0, value)

        return restore


class Nats(BusFactory):
    shared = True
    outlives = True
    has_clock = False

    @classmethod
    def address_in(cls, folder: Path) -> str:  # noqa: ARG003 - all tests share a server, and each has a prefix
        return f"{shared_nats().url}#{uuid.uuid4().hex}"

    async def lose(self) -> None:
        url, _, prefix = self.address.partition("#")
        for stream in (prefix, f"{prefix}~records"):
            await api(url, f"STREAM.DELETE.{stream}")

    async def copy(self) -> Callable[[], Awaitable[None]]:
        server = shared_nats()
        store, copy = server.folder / "store", server.folder / uuid.uuid4().hex
        server.kill()
        shutil.copytree(store, copy)
        server.start()  # In this thread: it ends with the one that has started it.

        async def restore() -> None:
            server.kill()
            server.wipe()
            copy.rename(store)
            server.start()

        return restore


BUSES: list[Any] = [Memory, Simulated, Sqlite, Local, pytest.param(Redis, marks=pytest.mark.redis), Nats]
"""Classes, with marks where they need some."""


def name_of(kind: type[BusFactory]) -> str:
    return kind.__name__.lower()


def buses_that(can: Callable[[type[BusFactory]], bool]) -> pytest.MarkDecorator:
    """Run a test over those buses only."""
    kinds = [kind for kind in BUSES if can(kind.values[0] if hasattr(kind, "values") else kind)]
    return pytest.mark.parametrize("bus_factory", kinds, indirect=True, ids=name_of)


class Ear:
    """A listener that remembers, and that can be waited for."""

    def __init__(self) -> None:
        self.heard: list[tuple[Cursor, Change | None]] = []
        self._more = asyncio.Event()

    def __call__(self, cursor: Cursor, change: Change | None) -> None:
        self.heard.append((cursor, change))
        self._more.set()

    @property
    def changes(self) -> list[Change | None]:
        return [change for _, change in self.heard]

    @property
    def in_order(self) -> bool:
        """Whether versions only rose, within each epoch."""
        return all(
            before.version < after.version
            for (before, _), (after, _) in itertools.pairwise(self.heard)
            if before.epoch == after.epoch
        )

    async def until(self, enough: Callable[["Ear"], object]) -> None:
        with anyio.fail_after(20):
            while not enough(self):
                self._more.clear()
                await self._more.wait()

    async def until_after(self, cursor: Cursor) -> None:
        """Until everything up to `cursor` was told."""
        await self.until(lambda ear: any(c.epoch == cursor.epoch and c >= cursor for c, _ in ear.heard))


def newest(entries: list[Entry]) -> list[Entry]:
    """The compacted form of a full history."""
    last = {change: cursor for cursor, change in entries}
    return [(cursor, change) for cursor, change in entries if last[change] == cursor]
