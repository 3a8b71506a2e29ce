"""The engines that carry changes between the replicas of a chaos run."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import anyio

from tests.bus.nats_server import NatsServer, running
from tests.bus.redis_server import RedisServer, redis_server


class Broker(Protocol):
    """What stands between the replicas."""

    url: str
    home: Path
    """The folder with all that it keeps."""
    can_be_killed: bool

    async def start(self) -> None:
        """Start it again, with what it kept."""
        ...

    async def kill(self) -> None:
        """Kill it, with -9."""
        ...


class NoBroker:
    """SQLite needs none: its log is a file."""

    can_be_killed = False

    def __init__(self, home: Path) -> None:
        self.home = home
        self.url = f"sqlite://{home / 'bus.db'}"

    async def start(self) -> None:
        pass

    async def kill(self) -> None:
        pass


class Nats:
    """A NATS server with JetStream."""

    can_be_killed = True

    def __init__(self, server: NatsServer) -> None:
        self._server = server
        self.home = server.folder
        self.url = server.url

    async def start(self) -> None:
        await anyio.to_thread.run_sync(self._server.start)

    async def kill(self) -> None:
        self._server.kill()


class Redis:
    """A Redis that writes down each change before it answers."""

    can_be_killed = True

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self.home = server.folder
        self.url = server.url

    async def start(self) -> None:
        await self._server.start()

    async def kill(self) -> None:
        self._server.kill()


@asynccontextmanager
async def broker_for(engine: str, folder: Path) -> AsyncGenerator[Broker]:
    """A broker of its own, running."""
    home = folder / "broker"
    home.mkdir()
    match engine:
        case "nats":
            with running(home) as server:
                yield Nats(server)
        case "redis":
            async with redis_server(home, "--appendonly", "yes", "--appendfsync", "always") as redis:
                yield Redis(redis)
        case _:
            yield NoBroker(home)
